#!/usr/bin/env node
// Runs the program of the package for this machine: its arguments, its streams, its exit code.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@keyspan/${process.platform}-${process.arch}`;

function find() {
  try {
    return require.resolve(`${name}/bin/keyspan`);
  } catch {
    console.error(
      `keyspan: the package ${name} is not installed. Either there is none for this machine, ` +
        "or optional dependencies were left out (npm install --include=optional).",
    );
    process.exit(1);
  }
}

const child = spawn(find(), process.argv.slice(2), { stdio: "inherit" });
// A terminal sends Ctrl-C to both; passed on, it would be the second one, which stops the server at once.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`keyspan: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
