// Tables that are brought up to date in place: focus and reading position stay where they are.
// A row belongs to its key, and moves with it.

import { make, say } from "./text.js";

// A column: { title, text: row -> string } or { title, show: (row, cell) -> void }, and
// optionally style: row -> class name. The first one heads the row.
export function fill(table, columns, rows, { key, current } = {}) {
  let body = table.tBodies[0];
  if (!body) {
    const head = make("tr", { role: "row" });
    for (const column of columns) {
      head.append(make("th", { scope: "col", role: "columnheader" }, column.title));
    }
    body = make("tbody", { role: "rowgroup" });
    table.setAttribute("role", "table");
    table.append(make("thead", { role: "rowgroup" }, head), body);
  }
  const known = new Map([...body.rows].map((line) => [line.dataset.key, line]));
  const order = rows.map((row, place) => {
    const id = key ? key(row) : String(place);
    const line = known.get(id) ?? emptyRow(columns);
    const fresh = !known.delete(id);
    line.dataset.key = id;
    if (current) line.setAttribute("aria-current", String(current(row)));
    columns.forEach((column, index) => {
      const cell = line.cells[index];
      const target = index === 0 ? cell : cell.firstElementChild;
      if (column.show) column.show(row, target, fresh);
      else say(target, column.text(row));
      cell.className = column.style ? column.style(row) : "";
    });
    return line;
  });
  for (const line of known.values()) line.remove();
  arrange(body, order);
}

// Around the row that has the focus: one that is moved itself loses it.
function arrange(body, order) {
  const fixed = Math.max(0, order.findIndex((line) => line.contains(document.activeElement)));
  if (order.length && order[fixed].parentElement !== body) body.append(order[fixed]);
  for (let at = fixed - 1; at >= 0; at -= 1) {
    if (order[at + 1].previousElementSibling !== order[at]) order[at + 1].before(order[at]);
  }
  for (let at = fixed + 1; at < order.length; at += 1) {
    if (order[at - 1].nextElementSibling !== order[at]) order[at - 1].after(order[at]);
  }
}

function emptyRow(columns) {
  const line = make("tr", { role: "row" });
  columns.forEach((column, index) => {
    if (index === 0) line.append(make("th", { scope: "row", role: "rowheader" }));
    else line.append(make("td", { role: "cell", "data-label": column.title }, make("span")));
  });
  return line;
}

export function pager(place, { page, pages, total }, noun, go) {
  if (!place.firstChild) {
    place.append(
      make("button", { type: "button", onclick: () => place.go(-1) }, "Previous"),
      make("span", { role: "status" }),
      make("button", { type: "button", onclick: () => place.go(1) }, "Next"),
    );
  }
  place.go = (step) => go(page + step);
  const [back, where, forth] = place.children;
  back.disabled = page <= 1;
  forth.disabled = page >= pages;
  say(where, `page ${page} of ${pages}, ${noun(total)}`);
  place.hidden = pages === 1;
}
