// Some of the last decisions of the pool in view, the newest first.

import { address } from "./request.js";
import { fill } from "./table.js";
import { count, make, moment, named, plural, say } from "./text.js";
import { why } from "./why.js";

const columns = [
  {
    title: "Request",
    show(row, cell, fresh) {
      if (fresh) cell.replaceChildren(make("a", { href: address(row) }, named(row.request_id)));
    },
  },
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
    const { name, partition } = pool;
    const rows = pool.recent.map((each) => ({ ...each, pool: name, partition })).reverse();
    fill(this.table, columns, rows, { key });
    this.table.hidden = !rows.length;
    say(this.note, words(rows));
  }
}

const key = ({ pool, partition, round, request_id: id }) => `${partition}/${pool}/${round}/${id}`;

function words(rows) {
  if (!rows.length) return "Nothing was decided yet, as far as is remembered.";
  const left = rows[0].round - rows.at(-1).round + 1 - rows.length;
  return left > 0 ? `Newest first; ${plural(left, "decision")} in between are not shown.` : "Newest first.";
}
