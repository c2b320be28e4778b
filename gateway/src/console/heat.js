// The heat of keys over time: a map that is drawn on a canvas, what is at a place of it in words, and the keyboard.

import { ask, at, Loop } from "./ask.js";
import { bytes, clock, number } from "./text.js";

const MILLIS = 10000;
const GUTTER = 96;
const AXIS = 20;

const dark = matchMedia("(prefers-color-scheme: dark)");
let heat = null;
let place = null;

export const loop = new Loop(async (isCurrent) => {
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
  say();
}, MILLIS);

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
at("span").addEventListener("change", () => loop.start());
at("table").addEventListener("change", () => {
  at("table").blur();
  loop.start();
});
// The map has no size while its tab is not shown.
const redraw = () => heat && at("map").offsetParent && draw();
addEventListener("resize", redraw);
dark.addEventListener("change", redraw);
