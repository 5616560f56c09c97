// What happens in the pool in view: some of the last decisions, and the requests that wait.

import { address } from "./request.js";
import { fill } from "./table.js";
import { count, make, moment, named, plural, say } from "./text.js";
import { why } from "./why.js";

const request = {
  title: "Request",
  show(row, cell, fresh) {
    if (fresh) cell.replaceChildren(make("a", { href: address(row) }, named(row.request_id)));
  },
};

const columns = [
  request,
  {
    title: "Given to, and why",
    show(row, cell, fresh) {
      if (fresh) cell.replaceChildren(...row.picks.map((pick) => given(pick, row)));
    },
    style: () => "wide words",
  },
  { title: "Round", text: (row) => count(row.round) },
  { title: "Time", text: (row) => moment(row.time) },
];

const given = (pick, row) =>
  make("p", {}, make("span", { class: "state" }, pick.reason), " ", ...why(pick, row));

export class Feed {
  constructor(place) {
    this.place = place;
    this.table = place.querySelector("table");
    this.note = place.querySelector(".note");
    this.button = place.querySelector("button");
    this.button.addEventListener("click", () => this.hold(!this.isHeld));
    this.hold(false);
  }

  hold(isHeld) {
    this.isHeld = isHeld;
    this.button.setAttribute("aria-pressed", String(isHeld));
    if (this.pool) this.show(this.pool);
  }

  // Nothing moves while it is held, or while the keyboard is in it.
  show(pool) {
    const isOther = this.pool?.name !== pool.name || this.pool?.partition !== pool.partition;
    this.pool = pool;
    const isStill = this.isHeld || this.table.contains(document.activeElement);
    if (isStill && !isOther) return;
    const rows = placed(pool, pool.recent).reverse();
    fill(this.table, columns, rows, { key });
    this.table.hidden = !rows.length;
    say(this.note, words(rows));
  }
}

const placed = ({ name, partition }, rows) =>
  rows.map((each) => ({ ...each, pool: name, partition }));
const key = ({ pool, partition, round, request_id: id }) => `${partition}/${pool}/${round}/${id}`;

function words(rows) {
  if (!rows.length) return "Nothing was decided yet, as far as is remembered.";
  const left = rows[0].round - rows.at(-1).round + 1 - rows.length;
  return left > 0 ? `Newest first; ${plural(left, "decision")} in between are not shown.` : "Newest first.";
}

// -- what waits -------------------------------------------------------------------------------

const waitingColumns = [
  request,
  {
    title: "Waits for",
    show(row, cell, fresh) {
      if (!fresh) return;
      if (row.instead_of) cell.replaceChildren("another arm than ", named(row.instead_of));
      else cell.replaceChildren("any arm that can take it");
    },
    style: () => "wide",
  },
  { title: "Since", text: (row) => moment(row.since) },
];

export function showWaiting(place, pool) {
  place.hidden = !pool.waiting;
  const left = pool.waiting - pool.oldest.length;
  const order = left ? `The ${count(pool.oldest.length)} oldest, and ${count(left)} more.` : "The oldest first.";
  const paused = pool.paused ? " The pool is paused." : "";
  say(place.querySelector(".note"), `${order}${paused}`);
  const rows = placed(pool, pool.oldest);
  fill(place.querySelector("table"), waitingColumns, rows, {
    key: (row) => `${row.partition}/${row.pool}/${row.request_id}/${row.instead_of}`,
  });
}
