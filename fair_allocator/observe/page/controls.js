// Changes to the pool in view, for a person whose token has the right to control. They are sent to
// the HTTP API, as those of any other client.

import { fill } from "./table.js";
import { count, make, named, number, percent, say } from "./text.js";

const TYPING_MS = 300;
const SLIDER = { type: "range", min: 0, max: 1, step: 0.001 };

export class Controls {
  // `allowed` is called when it is known whether this person may change pools.
  constructor(place, allowed) {
    Object.assign(this, { place, allowed, pool: null, isAllowed: false });
    this.line = Promise.resolve();
    [this.toggle, this.set, this.undo] = place.querySelectorAll("button");
    [this.about, this.cost] = place.querySelectorAll(".note");
    this.status = place.querySelector("span[role=status]");
    this.table = place.querySelector("table");
    this.columns = this.makeColumns();
    this.forget();
    this.toggle.addEventListener("click", () => this.pause());
    place.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.setQuotas();
    });
    this.undo.addEventListener("click", () => {
      this.forget();
      this.lay();
      this.set.focus();
    });
  }

  // Ask whether this person may change pools.
  async permit() {
    try {
      const answer = await call("api/v1/controls");
      this.isAllowed = answer.status === 200 && answer.content.allowed;
    } catch {
      this.isAllowed = false;
    }
    this.allowed(this.isAllowed);
    this.lay();
  }

  // Show the controls of a pool; null hides them.
  show(pool, letters) {
    const isOther = this.pool?.name !== pool?.name || this.pool?.partition !== pool?.partition;
    Object.assign(this, { pool, letters });
    if (isOther) {
      this.forget();
      say(this.status, "");
      this.awaited = null;
    }
    this.settle();
    this.lay();
  }

  // Forget the quotas that were not sent, and all prices.
  forget() {
    this.wished = new Map();
    this.prices = this.pricesNow = null;
    this.turn = (this.turn ?? 0) + 1;
    clearTimeout(this.timer);
    say(this.cost, "");
  }

  lay() {
    this.place.hidden = !this.isAllowed || this.pool === null;
    if (this.place.hidden) return;
    const { paused, requests, page } = this.pool;
    say(this.toggle, paused ? "Resume" : "Pause");
    say(this.about, paused ? "The pool is paused." : "The pool decides requests.");
    this.canSleep = requests === "any";
    const rows = [...page.rows].sort((one, other) => (one.name < other.name ? -1 : 1));
    fill(this.table, this.columns, rows, { key: (row) => row.name });
    this.set.disabled = this.undo.disabled = !this.wished.size;
  }

  makeColumns() {
    return [
      {
        title: "Arm",
        show(row, cell, fresh) {
          if (fresh) cell.replaceChildren(named(row.name));
        },
      },
      { title: "Quota", show: (...given) => this.slider(...given), style: () => "wide" },
      { title: "Price", text: (row) => this.priceOf(row.name), style: () => "wide" },
      { title: "Presence", show: (...given) => this.presence(...given), style: () => "wide" },
    ];
  }

  // -- quotas and their prices ----------------------------------------------------------------

  slider(row, cell, fresh) {
    if (fresh) {
      const made = make("input", { ...SLIDER, "aria-label": `Quota of ${row.name}` });
      made.addEventListener("input", () => this.slide(row.name, made));
      cell.replaceChildren(made, make("span", { class: "quota", "aria-hidden": "true" }));
    }
    const [slider, text] = cell.children;
    const quota = this.wished.get(row.name) ?? row.quota;
    slider.value = quota;
    slider.setAttribute("aria-valuetext", percent(quota));
    say(text, percent(quota));
  }

  slide(name, slider) {
    this.wished.set(name, Number(slider.value));
    this.prices = null;
    say(this.cost, "Working out the price.");
    this.lay();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.queue(), TYPING_MS);
  }

  // Ask for the newest prices once the last ones are there: the service works out one at a time.
  queue() {
    this.turn += 1;
    const { turn } = this;
    this.line = this.line.then(() => (turn === this.turn ? this.price(turn) : null));
  }

  async price(turn) {
    const { pool } = this;
    try {
      this.pricesNow ??= await pricesOf(pool, {});
      const prices = await pricesOf(pool, Object.fromEntries(this.wished));
      if (turn !== this.turn) return;
      this.prices = prices;
      say(this.cost, this.summary());
    } catch (error) {
      if (turn !== this.turn) return;
      say(this.cost, `No price: ${error.message}.`);
    }
    this.lay();
  }

  priceOf(name) {
    const price = this.prices?.byArm?.get(name);
    if (price === undefined) return "–";
    const more = round(price - (this.pricesNow?.byArm?.get(name) ?? 0));
    if (more === 0) return number(round(price));
    return `${number(round(price))} (${more < 0 ? "" : "+"}${number(more)})`;
  }

  summary() {
    const { rounds, byArm } = this.prices;
    if (byArm === null) return "No price: not every arm has had a reward yet.";
    const sum = ({ byArm: each }) => [...(each?.values() ?? [])].reduce((all, one) => all + one, 0);
    const [then, now] = [sum(this.prices), sum(this.pricesNow)];
    return (
      `In ${count(rounds)} rounds these quotas cost ${number(round(then))} of reward. ` +
      `The present ones cost ${number(round(now))}. Both are simulated from the mean rewards so far.`
    );
  }

  setQuotas() {
    if (!this.wished.size) return;
    const wished = new Map(this.wished);
    const arms = Object.fromEntries([...wished].map(([name, quota]) => [name, { quota: String(quota) }]));
    const isDone = ({ page }) =>
      page.rows.every(({ name, quota }) => !wished.has(name) || close(quota, wished.get(name)));
    this.send({ action: "set-arm", arms }, isDone, () => this.forget());
  }

  // -- pausing, and sleeping arms -------------------------------------------------------------

  pause() {
    const isPaused = this.pool.paused;
    this.send({ action: isPaused ? "resume" : "pause" }, ({ paused }) => paused !== isPaused);
  }

  presence(row, cell, fresh) {
    if (fresh) {
      const button = make("button", { type: "button" });
      button.addEventListener("click", () => this.sleep(row.name, button.dataset.action));
      cell.replaceChildren(button);
    }
    const [button] = cell.children;
    const isAsleep = row.state === "asleep";
    button.dataset.action = isAsleep ? "wake" : "sleep";
    say(button, isAsleep ? "Wake" : "Let sleep");
    button.setAttribute("aria-label", `${isAsleep ? "Wake" : "Let sleep"}: ${row.name}`);
    button.disabled = !this.canSleep;
  }

  sleep(name, action) {
    const isDone = ({ page }) =>
      page.rows.every((row) => row.name !== name || (row.state === "asleep") === (action === "sleep"));
    this.send({ action, arms: [name] }, isDone);
  }

  // -- sending --------------------------------------------------------------------------------

  async send(control, isDone, after = () => {}) {
    const { pool, letters } = this;
    say(this.status, "Sending.");
    try {
      const path = `v1/pools/${encodeURIComponent(pool.name)}/controls`;
      const { status, content } = await call(path, { ...control, by: "page" });
      if (status !== 202) {
        say(this.status, `Not changed: ${content.detail ?? content.title}.`);
        return;
      }
      this.awaited = { isDone, after, letters };
      say(this.status, "Recorded; the service applies it in a moment.");
    } catch {
      say(this.status, "The service cannot be reached; the change may or may not have arrived.");
    }
  }

  // The service may refuse what the API has recorded: then there is a dead letter.
  settle() {
    if (!this.awaited || this.pool === null) return;
    const { isDone, after, letters } = this.awaited;
    if (isDone(this.pool)) {
      this.awaited = null;
      after();
      say(this.status, "Done.");
    } else if (this.letters > letters) {
      this.awaited = null;
      say(this.status, "A record was refused since then: see the dead letters below.");
    }
  }
}

const round = (value) => (Math.abs(value) < 1 ? Math.round(10 * value) / 10 : Math.round(value));
const close = (one, other) => Math.abs(one - other) < 1e-9;

async function pricesOf({ name }, quotas) {
  const path = `api/v1/pools/${encodeURIComponent(name)}/prices`;
  const { status, content } = await call(path, { quotas });
  if (status !== 200) throw new Error(content.detail ?? content.title);
  const { rounds, prices } = content;
  return { rounds, byArm: prices && new Map(prices.map(({ arm, price }) => [arm, price])) };
}

// Returns the status and the JSON of an answer; with a body, it is sent.
async function call(path, body) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = { headers, cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  const response = await fetch(path, options);
  return { status: response.status, content: await response.json() };
}
