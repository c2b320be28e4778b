// The console: asks the server for its state and for the heat of keys, and draws them. It keeps nothing but the log-in,
// until the tab is closed, and asks nobody else. All that comes from the server is set as text.

const STATE_MILLIS = 2000;
const HEAT_MILLIS = 10000;
const TRY_AGAIN_MILLIS_MAX = 15000;
const KEPT = "keyspan.authorization";
const GUTTER = 96;
const AXIS = 20;

const at = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
let authorization = sessionStorage.getItem(KEPT);
let heat = null;
let place = null;
let failures = 0;
const loops = { state: { turn: 0, timer: 0 }, heat: { turn: 0, timer: 0 } };

class Refused extends Error {}

async function ask(path, method = "GET") {
  const headers = { "X-Keyspan": "console" };
  if (authorization) headers.Authorization = authorization;
  const answer = await fetch(path, { method, headers, credentials: "omit", cache: "no-store" });
  if (answer.status === 401) throw new Refused();
  if (!answer.ok) throw new Error(`the server answers ${answer.status}: ${(await answer.text()).trim()}`);
  return answer.json();
}

function tell(trouble) {
  at("trouble").textContent = trouble;
  at("trouble").hidden = !trouble;
}

function logOut(trouble) {
  for (const loop of Object.values(loops)) {
    loop.turn += 1;
    clearTimeout(loop.timer);
  }
  authorization = null;
  sessionStorage.removeItem(KEPT);
  at("inside").hidden = at("leave").hidden = true;
  at("door").hidden = false;
  at("about").textContent = "";
  tell(trouble);
  at("password").focus();
}

// Runs a task now and again, in place of how it ran before; while the server does not answer, more and more rarely.
function run(loop, task, millis) {
  clearTimeout(loop.timer);
  const turn = (loop.turn += 1);
  const isCurrent = () => turn === loop.turn;
  const step = async () => {
    let next = millis;
    try {
      await task(isCurrent);
      if (!isCurrent()) return;
      failures = 0;
      tell("");
    } catch (error) {
      if (!isCurrent()) return;
      if (error instanceof Refused) return logOut("Name, password or token are not those of an operator.");
      failures += 1;
      next = Math.min(1000 * 2 ** Math.min(failures, 5), TRY_AGAIN_MILLIS_MAX);
      const why = error instanceof TypeError ? "The server does not answer" : error.message;
      tell(`${why}. What is shown is old. Trying again in ${next / 1000} s.`);
    }
    loop.timer = setTimeout(step, next);
  };
  step();
}

function logIn() {
  at("door").hidden = true;
  at("inside").hidden = at("leave").hidden = false;
  run(loops.state, showState, STATE_MILLIS);
  askHeat();
}

function askHeat() {
  run(loops.heat, showHeat, HEAT_MILLIS);
}

// Text.

function number(value) {
  for (const [unit, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  }
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toPrecision(2);
}
const bytes = (value) => `${number(value)}B`;
const millis = (value) => (value < 1000 ? `${number(value)} ms` : `${number(value / 1000)} s`);
const clock = (time, withDay) => {
  const format = { hour: "2-digit", minute: "2-digit" };
  if (withDay) Object.assign(format, { month: "short", day: "numeric" });
  return new Date(time).toLocaleString(undefined, format);
};

// Tables: a list of columns, each with a title, the cell's text or element, and its class.

function fill(table, columns, rows, none) {
  const row = (kind, cells) => {
    const line = document.createElement("tr");
    for (const [content, style] of cells) {
      const cell = document.createElement(kind);
      cell.append(content);
      if (style) cell.className = style;
      line.append(cell);
    }
    return line;
  };
  const lines = rows.map((one) => row("td", columns.map(([, of, style]) => [of(one), style])));
  if (rows.length === 0) lines.push(row("td", [[none, "none"]]));
  table.replaceChildren(row("th", columns.map(([title, , style]) => [title, style])), ...lines);
}

function cancelButton(one) {
  const button = document.createElement("button");
  button.textContent = "Cancel";
  button.dataset.pid = one.pid;
  button.setAttribute("aria-label", `Cancel the statement of process ${one.pid}`);
  button.onclick = async () => {
    button.disabled = true;
    try {
      await ask(`/console/cancel?pid=${one.pid}`, "POST");
    } catch (error) {
      if (error instanceof Refused) return logOut("Log in again.");
      tell(`The statement was not cancelled: ${error.message}`);
    }
  };
  return button;
}

async function showState(isCurrent) {
  const state = await ask("/console/state");
  if (!isCurrent()) return;
  const sessions = `${state.connections} of ${state.connections_max} connections`;
  at("about").textContent = `${state.version} · ${sessions} · ${new Date(state.time).toLocaleTimeString()}`;
  const focused = document.activeElement?.dataset?.pid;
  fill(at("running"), [
    ["database", (one) => one.database],
    ["role", (one) => one.role],
    ["state", (one) => one.state],
    ["for", (one) => millis(one.millis), "number"],
    ["statement", (one) => one.query, "text"],
    ["", (one) => (one.state === "active" ? cancelButton(one) : "")],
  ], state.running, "None.");
  // The list is made anew: the keyboard stays where it was.
  if (focused) document.querySelector(`button[data-pid="${CSS.escape(focused)}"]`)?.focus();
  fill(at("tenants"), [
    ["tenant", (one) => one.tenant],
    ["sessions", (one) => number(one.connections), "number"],
    ["statements", (one) => number(one.statements), "number"],
    ["rows read", (one) => number(one.rows_read), "number"],
    ["read", (one) => bytes(one.bytes_read), "number"],
    ["rows written", (one) => number(one.rows_written), "number"],
    ["written", (one) => bytes(one.bytes_written), "number"],
    ["busy", (one) => millis(one.busy_millis), "number"],
    ["refused", (one) => number(one.refusals), "number"],
  ], state.tenants, "Nothing was done.");
  fill(at("slow"), [
    ["database", (one) => one.database],
    ["role", (one) => one.role],
    ["calls", (one) => number(one.calls), "number"],
    ["total", (one) => millis(one.total_millis), "number"],
    ["mean", (one) => millis(one.mean_millis), "number"],
    ["longest", (one) => millis(one.max_millis), "number"],
    ["rows", (one) => number(one.rows), "number"],
    ["statement", (one) => one.text, "text"],
  ], state.slow, "None yet.");
}

// The heat map.

async function showHeat(isCurrent) {
  const table = at("table").value;
  const asked = new URLSearchParams({ span: at("span").value });
  if (table) asked.set("table", table);
  const found = await ask(`/console/heat?${asked}`);
  if (!isCurrent()) return;
  heat = found;
  const options = heat.tables.map((one) => {
    const option = new Option(one.name, one.oid);
    option.selected = one.oid === heat.table;
    return option;
  });
  if (document.activeElement !== at("table")) at("table").replaceChildren(...options);
  place = place && heat.columns.length ? clampPlace(place) : null;
  draw();
}

const rowsOf = (heat) => Math.max(heat.borders.length - 1, 1);
const clampPlace = ({ column, row }) => ({
  column: Math.min(Math.max(column, 0), heat.slots - 1),
  row: Math.min(Math.max(row, 0), rowsOf(heat) - 1),
});

// From quiet to hot, for t from 0 to 1.
function colour(t) {
  const stops = dark.matches
    ? [[23, 24, 26], [64, 32, 90], [160, 45, 85], [235, 110, 40], [252, 230, 140]]
    : [[251, 251, 250], [250, 220, 170], [240, 150, 70], [190, 60, 40], [80, 12, 40]];
  const along = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(along), stops.length - 2);
  const mixed = stops[low].map((value, at) => Math.round(value + (stops[low + 1][at] - value) * (along - low)));
  return `rgb(${mixed.join(" ")})`;
}

function geometry() {
  const map = at("map");
  const { width, height } = map.getBoundingClientRect();
  const left = width < 480 ? 56 : GUTTER;
  return {
    width, height, left,
    columnWidth: (width - left) / heat.slots,
    rowHeight: (height - AXIS) / rowsOf(heat),
  };
}

const slot = (column) => Math.round((column.from - heat.from) / heat.width);

// A hot range may be a millionth of the keys: the scale is logarithmic, so that what is lukewarm is seen beside it.
function draw() {
  const map = at("map");
  const { width, height, left, columnWidth, rowHeight } = geometry();
  const scale = devicePixelRatio || 1;
  map.width = Math.round(width * scale);
  map.height = Math.round(height * scale);
  const pen = map.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  const style = getComputedStyle(document.documentElement);
  const names = ["--text", "--quiet", "--line", "--accent"];
  const [text, quiet, line, accent] = names.map((name) => style.getPropertyValue(name));
  pen.fillStyle = colour(0);
  pen.fillRect(left, 0, width - left, height - AXIS);
  const what = Number(at("what").value);
  // A cell of several rows is as bright as its part of one.
  const density = (cell) => cell[what] / Math.max(cell[1] - cell[0], 1);
  let most = 0;
  for (const column of heat.columns) for (const cell of column.cells) most = Math.max(most, density(cell));
  for (const column of heat.columns) {
    const x = left + slot(column) * columnWidth;
    for (const cell of column.cells) {
      if (!cell[what]) continue;
      pen.fillStyle = colour(0.12 + 0.88 * Math.log1p(density(cell)) / Math.log1p(most));
      const y = cell[0] * rowHeight;
      pen.fillRect(x, y, Math.ceil(columnWidth), Math.max((cell[1] - cell[0]) * rowHeight, 1));
    }
  }
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  let lastText = -Infinity;
  for (const [from, to, name] of heat.tenants) {
    const [top, bottom] = [from * rowHeight, to * rowHeight];
    pen.fillStyle = line;
    pen.fillRect(0, top, width, 1);
    pen.fillRect(0, bottom, width, 1);
    const middle = (top + bottom) / 2;
    if (middle - lastText < 13) continue;
    lastText = middle;
    pen.fillStyle = text;
    pen.fillText(name, 2, middle, left - 6);
  }
  pen.fillStyle = quiet;
  const labels = Math.max(Math.floor((width - left) / 110), 1);
  for (let label = 0; label < labels; label += 1) {
    const time = heat.from + (heat.slots * heat.width * label) / labels;
    const x = left + ((width - left) * label) / labels;
    pen.fillText(clock(time, heat.slots * heat.width > 86400000), x, height - AXIS / 2);
  }
  if (heat.columns.length === 0) pen.fillText("Nothing was read or written.", left + 12, 24);
  if (place) {
    pen.strokeStyle = accent;
    pen.lineWidth = 2;
    pen.strokeRect(left + place.column * columnWidth, place.row * rowHeight, columnWidth, Math.max(rowHeight, 3));
  }
}

// What is at a place, in words.
function say() {
  if (!place || !heat) return;
  const time = heat.from + place.column * heat.width;
  const found = heat.columns.find((column) => slot(column) === place.column);
  const cell = found?.cells.find(([from, to]) => from <= place.row && place.row < to);
  const [from, to] = cell ? [cell[0], cell[1]] : [place.row, place.row + 1];
  const tenant = heat.tenants.find(([low, high]) => low <= place.row && place.row < high)?.[2];
  const range = `${heat.borders[from] || "the first key"} … ${heat.borders[to] ?? "the last key"}`;
  const when = `${clock(time, true)} to ${clock(time + heat.width, false)}`;
  // A period that still runs is divided by what there was of it.
  const seconds = Math.max(Math.min(heat.width, heat.now - time) / 1000, 1);
  const rate = (value, of = number) => `${of(value / seconds)}/s`;
  const read = cell && `reads ${rate(cell[2])} (${rate(cell[4], bytes)})`;
  const written = cell && `writes ${rate(cell[3])} (${rate(cell[5], bytes)})`;
  const sums = cell && `in all ${number(cell[2])} reads, ${number(cell[3])} writes`;
  const rates = cell ? `${read}, ${written}; ${sums}` : "nothing was read or written";
  at("told").textContent = `${tenant ? `${tenant}: ` : ""}${range}\n${when}: ${rates}`;
}

function move(to) {
  if (!heat) return;
  place = clampPlace(to);
  draw();
  say();
}

at("map").addEventListener("pointermove", (event) => {
  if (!heat) return;
  const { left, columnWidth, rowHeight } = geometry();
  const box = at("map").getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - left) / columnWidth);
  move({ column, row: Math.floor((event.clientY - box.top) / rowHeight) });
});
at("map").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!step || !heat) return;
  event.preventDefault();
  const from = place ?? { column: heat.slots - 1 - step[0], row: -step[1] };
  move({ column: from.column + step[0], row: from.row + step[1] });
});
at("what").addEventListener("change", () => heat && draw());
at("span").addEventListener("change", askHeat);
at("table").addEventListener("change", () => {
  at("table").blur();
  askHeat();
});
addEventListener("resize", () => heat && !at("inside").hidden && draw());
dark.addEventListener("change", () => heat && !at("inside").hidden && draw());
at("leave").addEventListener("click", () => logOut(""));
at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = at("token").value;
  const pair = new TextEncoder().encode(`${at("role").value}:${at("password").value}`);
  authorization = token ? `Bearer ${token}` : `Basic ${btoa(String.fromCharCode(...pair))}`;
  sessionStorage.setItem(KEPT, authorization);
  at("password").value = at("token").value = "";
  tell("");
  logIn();
});

if (authorization) logIn();
else logOut("");
