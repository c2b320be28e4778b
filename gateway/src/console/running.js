// The statements that run, each with a button that cancels it, and the line about the server.

import { ask, at, Loop, tell } from "./ask.js";
import { button, fill, millis } from "./text.js";

const MILLIS = 2000;

async function cancel(pid, pressed) {
  pressed.disabled = true;
  try {
    await ask(`/console/cancel?pid=${pid}`, "POST");
    loop.start();
  } catch (error) {
    tell(`The statement was not cancelled: ${error.message || "log in again"}`);
  }
}

const loop = new Loop(async (isCurrent) => {
  const state = await ask("/console/state");
  if (!isCurrent()) return;
  const sessions = `${state.connections} of ${state.connections_max} connections`;
  const up = `up ${millis(state.time - state.started)}`;
  at("about").textContent = `${state.version} · ${sessions} · ${up} · ${new Date(state.time).toLocaleTimeString()}`;
  const cancels = (one) => {
    const said = `Cancel the statement of process ${one.pid}`;
    return one.state === "active" ? button("Cancel", one.pid, said, (pressed) => cancel(one.pid, pressed)) : "";
  };
  fill(at("running"), [
    ["database", (one) => one.database],
    ["role", (one) => one.role],
    ["state", (one) => one.state],
    ["for", (one) => millis(one.millis), "number"],
    ["statement", (one) => one.query, "text"],
    ["", cancels, "action"],
  ], state.running, "None.");
}, MILLIS);

export { loop };
