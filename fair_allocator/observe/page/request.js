// One request, by a link to it: its state and its answer, as the HTTP API tells them.

import { count, make, named, plural, say } from "./text.js";
import { why } from "./why.js";

const AGAIN_MS = 2000;
const OFF =
  "The HTTP API is off here, so a request cannot be looked up. Set api.enabled, or ask a gateway.";

// Returns the link to a request of a pool, or to the pool.
export function address({ pool, partition, request_id: request }) {
  const words = Object.entries({ pool, partition, request });
  return `#${new URLSearchParams(words.filter(([, word]) => word !== undefined))}`;
}

export class RequestView {
  // `close` is called when a person has seen enough of it.
  constructor(place, close) {
    this.place = place;
    [this.title, this.state, this.facts] = ["h2", "[role=status]", ".note"].map((each) =>
      place.querySelector(each),
    );
    this.arms = place.querySelector(".arms");
    place.querySelector("button").addEventListener("click", close);
  }

  // Show another request, or none.
  open(pool, id) {
    if (pool === this.pool && id === this.id) return;
    Object.assign(this, { pool, id });
    clearTimeout(this.timer);
    this.place.hidden = id === null;
    if (id === null) return;
    say(this.title.querySelector("bdi"), id);
    this.tell({ state: "Looking it up." });
    this.title.focus();
    this.look();
  }

  // Look the request up again, if there is one.
  async look() {
    const { pool, id } = this;
    if (!id) return;
    clearTimeout(this.timer);
    const found = await ask(pool, id);
    if (pool !== this.pool || id !== this.id) return;
    this.tell(found);
    if (found.again) this.timer = setTimeout(() => this.look(), AGAIN_MS);
  }

  tell({ state, facts = "", arms = [], instead_of: before = "" }) {
    say(this.state, state);
    say(this.facts, facts);
    const lines = arms.map((pick) => {
      const words = why(pick, { among: null });
      return make("p", {}, make("span", { class: "state" }, pick.reason), " ", ...words);
    });
    if (before) {
      lines.push(make("p", {}, "Instead of ", named(before), ", who declined or let the time pass."));
    }
    this.arms.replaceChildren(...lines);
  }
}

// Returns what to say of a request, and whether to ask again.
async function ask(pool, id) {
  const token = sessionStorage.getItem("token");
  const path = `v1/pools/${encodeURIComponent(pool)}/requests/${encodeURIComponent(id)}`;
  try {
    const response = await fetch(path, {
      headers: token ? { Authorization: `Bearer ${token}` } : {},
      cache: "no-store",
    });
    return told(response.status, await response.json());
  } catch {
    return { state: "The service cannot be reached; trying again.", again: true };
  }
}

function told(status, answer) {
  if (status === 200) return assigned(answer);
  if (status === 202) return { state: waits(answer), again: true };
  if (status === 404 && !answer.reason) return { state: OFF };
  if (answer.request_id) return { state: `Refused (${answer.reason}): ${answer.detail}.` };
  // The API may hear of a request a moment later than the page.
  const again = status === 404 || status === 503;
  return { state: `Not shown: ${answer.detail ?? answer.title}.`, again };
}

function waits({ status, why: reason }) {
  if (status === "pending") return "Recorded, and not decided yet.";
  return reason === "paused" ? "Waits: the pool is paused." : "Waits: nobody can take it now.";
}

function assigned({ arms, round, epoch, partition, offset, instead_of }) {
  const places = `partition ${partition}, offset ${count(offset)}`;
  return {
    state: `Assigned to ${plural(arms.length, "arm")}.`,
    facts: `Round ${count(round)} · epoch ${count(epoch)} · its record: ${places}`,
    arms,
    instead_of,
  };
}
