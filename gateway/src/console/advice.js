// What would make tables better: what was seen, and the statements that would do it.

import { ask, at, Loop } from "./ask.js";
import { bytes, element, fill, number, parts } from "./text.js";

const MILLIS = 15000;

const onWhat = (one) => [one.tenant, one.table].filter(Boolean).join(": ") || "all tenants";

const withStatement = (one) => parts(one.advice, one.statement ? element("pre", one.statement, "statement") : "");

const loop = new Loop(async (isCurrent) => {
  const found = await ask("/console/advice");
  if (!isCurrent()) return;
  const shown = found.advice.length;
  at("advice-count").textContent = shown < found.count ? `${shown} of ${found.count}` : String(found.count);
  fill(at("advice"), [
    ["on", onWhat],
    ["kind", (one) => one.kind.replaceAll("_", " ")],
    ["seen", (one) => number(one.seen), "number"],
    ["in vain", (one) => (one.bytes === null ? "" : bytes(one.bytes)), "number"],
    ["advice and what would do it", withStatement, "text"],
  ], found.advice, "None: nothing was seen that the field would do in another way.");
}, MILLIS);

export const loops = [loop];
