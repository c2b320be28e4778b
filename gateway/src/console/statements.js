// The statements that took most time in all, and the latest slow ones with their plans.

import { ask, at, Loop } from "./ask.js";
import { element, fill, millis, number, parts, when } from "./text.js";

const MILLIS = 5000;

const loop = new Loop(async (isCurrent) => {
  const found = await ask("/console/statements");
  if (!isCurrent()) return;
  fill(at("top"), [
    ["database", (one) => one.database],
    ["role", (one) => one.role],
    ["calls", (one) => number(one.calls), "number"],
    ["total", (one) => millis(one.total_millis), "number"],
    ["mean", (one) => millis(one.mean_millis), "number"],
    ["longest", (one) => millis(one.max_millis), "number"],
    ["rows", (one) => number(one.rows), "number"],
    ["statement", (one) => one.text, "text"],
  ], found.top, "None yet.");
  at("slow-least").textContent = `those of ${millis(found.slow_min_millis)} and more`;
  const withPlan = (one) => parts(one.text, one.plan ? element("span", one.plan, "plan") : "");
  fill(at("slow"), [
    ["ended", (one) => when(one.ended_at)],
    ["database", (one) => one.database],
    ["role", (one) => one.role],
    ["took", (one) => millis(one.millis), "number"],
    ["rows", (one) => (one.error ? `error ${one.error}` : number(one.rows)), "number"],
    ["statement and plan", withPlan, "text"],
  ], found.slow, "None yet.");
}, MILLIS);

export const loops = [loop];
