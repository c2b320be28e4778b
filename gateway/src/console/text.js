// Numbers, times and tables as text. All that comes from the server is set as text, never as markup.

export function number(value) {
  for (const [unit, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  }
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toPrecision(2);
}

/** Bytes in powers of ten: `1.23 MB`. */
export const bytes = (value) => (value >= 1000 ? `${number(value)}B` : `${number(value)} B`);

export function millis(value) {
  if (value < 1000) return `${number(value)} ms`;
  if (value < 120000) return `${number(value / 1000)} s`;
  return value < 7200000 ? `${Math.round(value / 60000)} min` : `${Math.round(value / 3600000)} h`;
}

/** The time of day; with its day if that is asked for. */
export function clock(time, withDay) {
  const format = { hour: "2-digit", minute: "2-digit" };
  if (withDay) Object.assign(format, { month: "short", day: "numeric" });
  return new Date(time).toLocaleString(undefined, format);
}

/** A time in the past: with its day unless that is today. */
export function when(time) {
  if (time === null || time === undefined) return "";
  const isToday = new Date(time).toDateString() === new Date().toDateString();
  return isToday ? new Date(time).toLocaleTimeString() : clock(time, true);
}

/** An element with text and a class. */
export function element(kind, text, style) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (style) made.className = style;
  return made;
}

/** Several elements or texts as one. */
export function parts(...all) {
  const fragment = document.createDocumentFragment();
  fragment.append(...all);
  return fragment;
}

/** A bar that says how full something is. */
export function meter(value, most, said) {
  const made = document.createElement("meter");
  Object.assign(made, { min: 0, max: most, value: Math.min(value, most), high: most * 0.9, title: said });
  made.setAttribute("aria-label", said);
  return made;
}

/**
 * Fills a table. A column is a title, what gives a cell's text or element of a row, and the cell's class. The keyboard
 * stays on the button with the same `data-of`, which `of` buttons have.
 */
export function fill(table, columns, rows, none) {
  const focused = table.contains(document.activeElement) ? document.activeElement.dataset.of : undefined;
  const line = (kind, cells) => {
    const made = document.createElement("tr");
    for (const [content, style] of cells) {
      const cell = document.createElement(kind);
      cell.append(content ?? "");
      if (style) cell.className = style;
      if (kind === "th") cell.scope = "col";
      made.append(cell);
    }
    return made;
  };
  const head = document.createElement("thead");
  head.append(line("th", columns.map(([title, , style]) => [title, style === "text" ? "" : style])));
  const body = document.createElement("tbody");
  body.append(...rows.map((one) => line("td", columns.map(([, of, style]) => [of(one), style]))));
  if (rows.length === 0) {
    const empty = line("td", [[none, "none"]]);
    empty.firstChild.colSpan = columns.length;
    body.append(empty);
  }
  table.replaceChildren(head, body);
  if (focused) table.querySelector(`[data-of="${CSS.escape(focused)}"]`)?.focus();
}

/** A button in a table, told from others by `of`. */
export function button(text, of, said, run) {
  const made = element("button", text);
  made.type = "button";
  made.dataset.of = of;
  made.setAttribute("aria-label", said);
  made.addEventListener("click", () => run(made));
  return made;
}
