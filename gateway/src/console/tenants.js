// Tenants with what they use and may use; dropped ones with their certificates; what was erased.

import { ask, at, Loop } from "./ask.js";
import { button, bytes, element, fill, meter, millis, number, parts, when } from "./text.js";

const MILLIS = 5000;

const ofUnit = (value, unit) => {
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes/s") return `${bytes(value)}/s`;
  return unit === "ms" ? millis(value) : number(value);
};

// `connections 20, stored 1 GB`; a bar where it is known how much of it is used.
function quotas(one) {
  const used = { connections: one.connections, stored: one.quota_bytes };
  const said = one.quotas.map(([name, value, unit]) => {
    if (value === null) return element("span", name, "quota");
    const text = `${name} ${ofUnit(value, unit)}`;
    const made = element("span", text, "quota");
    const now = used[name];
    if (now !== undefined && now !== null) made.append(meter(now, value, `${text}, of which ${ofUnit(now, unit)}`));
    return made;
  });
  return said.length ? parts(...said) : "";
}

function refused(one) {
  return one.dryrun_refusals ? `${number(one.refusals)} (+${number(one.dryrun_refusals)})` : number(one.refusals);
}

const list = new Loop(async (isCurrent) => {
  const find = at("find").value.trim();
  const found = await ask(`/console/tenants?find=${encodeURIComponent(find)}`);
  if (!isCurrent()) return;
  const shown = found.tenants.filter((one) => one.state).length;
  const count = shown < found.count ? `${shown} of ${found.count}, the busiest` : String(found.count);
  at("tenants-count").textContent = count;
  fill(at("tenants"), [
    ["tenant", (one) => (["", "active"].includes(one.state) ? one.tenant : `${one.tenant} (${one.state})`)],
    ["stored", (one) => (one.stored_bytes === null ? "" : bytes(one.stored_bytes)), "number"],
    ["sessions", (one) => number(one.connections), "number"],
    ["statements", (one) => number(one.statements), "number"],
    ["rows read", (one) => number(one.rows_read), "number"],
    ["read", (one) => bytes(one.bytes_read), "number"],
    ["rows written", (one) => number(one.rows_written), "number"],
    ["written", (one) => bytes(one.bytes_written), "number"],
    ["busy", (one) => millis(one.busy_millis), "number"],
    ["refused", refused, "number"],
    ["quotas", quotas],
  ], found.tenants, find ? `No tenant's name has “${find}” in it.` : "None.");
}, MILLIS);

function show(drop) {
  at("certificate-title").textContent = `Certificate of ${drop.tenant}`;
  at("certificate-text").textContent = drop.certificate;
  at("certificate").showModal();
}

const drops = new Loop(async (isCurrent) => {
  const found = await ask("/console/drops");
  if (!isCurrent()) return;
  at("purge-error").textContent = found.purge_error ? `The purge does not come further: ${found.purge_error}` : "";
  const said = (drop) => `The certificate of ${drop.tenant}`;
  fill(at("drops"), [
    ["tenant", (one) => one.tenant],
    ["dropped", (one) => when(one.dropped_at)],
    ["by", (one) => one.dropped_by],
    ["tables", (one) => number(one.tables), "number"],
    ["rows", (one) => number(one.rows), "number"],
    ["bytes", (one) => bytes(one.bytes), "number"],
    ["purge", (one) => (one.purge === "done" ? `done, ${when(one.purged_at)}` : one.purge)],
    ["", (one) => button("Certificate", one.oid, said(one), () => show(one)), "action"],
  ], found.drops, "No tenant was dropped.");
  fill(at("erasures"), [
    ["tenant", (one) => one.tenant ?? "(all)"],
    ["table", (one) => one.table],
    ["what", (one) => (one.what ? `${one.kind}: ${one.what}` : one.kind)],
    ["asked", (one) => when(one.requested_at)],
    ["by", (one) => one.requested_by],
    ["rows", (one) => number(one.rows), "number"],
    ["bytes", (one) => bytes(one.bytes), "number"],
    ["bytes gone", (one) => (one.purged_at ? when(one.purged_at) : `${one.purge}, due ${when(one.deadline)}`)],
  ], found.erasures, "Nothing was erased.");
}, MILLIS);

at("find").addEventListener("input", () => list.start());

export const loops = [list, drops];
