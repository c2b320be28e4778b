// The inside of the store: memory, tables, tablets, compactions, requests to the object store.

import { ask, at, Loop } from "./ask.js";
import { bytes, fill, meter, millis, number, parts, when } from "./text.js";

const MILLIS = 5000;

function used(area) {
  if (!area.limit) return bytes(area.bytes);
  const said = `${area.area}: ${bytes(area.bytes)} of ${bytes(area.limit)}`;
  return parts(`${bytes(area.bytes)} of ${bytes(area.limit)}`, meter(area.bytes, area.limit, said));
}

function facts(store) {
  if (store.stopped) return `The store takes no writes: ${store.stopped}`;
  if (store.commits === undefined) return "This store tells nothing else of itself.";
  const log = `${number(store.log_writes)} writes of the log (${bytes(store.log_bytes)}, ${millis(store.log_millis)})`;
  const files = `${number(store.segments_count)} segments in ${number(store.tablets_count)} tablets`;
  return `${number(store.commits)} commits in ${log}, ${number(store.flushes)} flushes since the start; ${files}; ` +
    `${number(store.pins)} states that readers hold.`;
}

const range = (one) => `${one.start || "the first key"} … ${one.until ?? "the last key"}`;
const dead = (one) => (one.rows ? `${number((100 * one.dead_rows) / one.rows)} %` : "");

function tookOf(one) {
  if (one.state === "running") return "running";
  const took = millis(Math.max(one.finished_at - one.started_at, 0));
  return one.state === "failed" ? `failed: ${one.error}` : took;
}

const loop = new Loop(async (isCurrent) => {
  const store = await ask("/console/store");
  if (!isCurrent()) return;
  at("facts").textContent = facts(store);
  fill(at("memory"), [["", (one) => one.area], ["bytes", used, "number"]], store.memory, "Unknown.");
  fill(at("tables"), [
    ["table", (one) => one.table],
    ["bytes", (one) => bytes(one.bytes), "number"],
    ["rows", (one) => number(one.rows), "number"],
    ["dead", dead, "number"],
    ["tablets", (one) => number(one.tablets), "number"],
    ["segments", (one) => number(one.segments), "number"],
    ["deltas", (one) => number(one.deltas), "number"],
  ], store.tables ?? [], "None.");
  fill(at("compactions"), [
    ["began", (one) => when(one.started_at)],
    ["table", (one) => one.table],
    ["tablet", (one) => one.tablet || "the first key", "text"],
    ["why", (one) => one.reason],
    ["read", (one) => bytes(one.bytes_read), "number"],
    ["written", (one) => bytes(one.bytes_written), "number"],
    ["rows", (one) => `${number(one.rows_in)} → ${number(one.rows_out)}`, "number"],
    ["took", tookOf, "number"],
  ], store.compactions ?? [], "None since the start.");
  fill(at("tablets"), [
    ["table", (one) => one.table],
    ["keys", range, "text"],
    ["segments", (one) => number(one.segments), "number"],
    ["deltas", (one) => number(one.deltas), "number"],
    ["rows", (one) => number(one.rows), "number"],
    ["dead", dead, "number"],
    ["bytes", (one) => bytes(one.bytes), "number"],
  ], store.tablets ?? [], "None.");
  at("requests-section").hidden = !store.requests?.length;
  fill(at("requests"), [
    ["request", (one) => one.kind],
    ["requests", (one) => number(one.requests), "number"],
    ["failed", (one) => number(one.failures), "number"],
    ["bytes", (one) => bytes(one.bytes), "number"],
  ], store.requests ?? [], "None.");
}, MILLIS);

export const loops = [loop];
