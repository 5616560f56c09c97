// Puts what the service says on the page. All names are data: they are only ever set as text.

import { Charts } from "./charts.js";
import { Controls } from "./controls.js";
import { Feed, showWaiting } from "./feed.js";
import { Live } from "./live.js";
import { RequestView, address } from "./request.js";
import { fill, pager } from "./table.js";
import { clock, count, make, moment, named, number, percent, plural, say, seconds } from "./text.js";

const STALE_MS = 15000; // with very many pools there is news every ten seconds only
const TYPING_MS = 250;
const find = (id) => document.getElementById(id);

const wish = { search: "", sort: "worst", page: 1, arm_search: "", arm_sort: "worst", arm_page: 1 };
const charts = new Charts(find("charts"));
const feed = new Feed(find("feed"));
const controls = new Controls(find("controls"), (isAllowed) => {
  say(find("mode"), isAllowed ? "You can change pools here." : "Read-only.");
});
const requestView = new RequestView(find("request"), () => {
  location.hash = address({ pool: wish.pool, partition: wish.partition });
  find("pool-name").focus();
});
let shownPool = null;
let fresh = true; // whether the next event carries a pool's past
let before = null; // the overview before, for rates
let newest = null;
let changedAt = 0; // when what is shown was last of another time than before

const live = new Live({
  heard(event) {
    const { time } = event.overview;
    if (newest === null) controls.permit();
    if (time !== newest?.overview.time) changedAt = performance.now();
    newest = event;
    say(find("link"), time === null ? "live" : `live, ${clock(time)}`);
    show(event);
    doubt();
  },
  idle: doubt,
  lost(why) {
    say(find("link"), `${why}; trying again`);
    before = null;
    silent(why);
  },
  refused() {
    find("token-form").hidden = false;
    find("token").focus();
    say(find("link"), "a token is needed");
    silent("a token is needed");
  },
});

// There may be events, though the state they show does not get on: commits fail.
function doubt() {
  if (newest?.overview.time && performance.now() - changedAt > STALE_MS) {
    silent("the loop gets on with nothing, it may be restoring");
  }
}

function watch(changes) {
  Object.assign(wish, changes);
  if (wish.partition === undefined) delete wish.partition;
  fresh = true;
  live.watch(wish);
}

// -- the answer -------------------------------------------------------------------------------

function answer(state, text, ...why) {
  find("answer").dataset.state = state;
  say(find("answer-text"), text);
  const place = find("answer-why");
  const said = why.map((part) => (typeof part === "string" ? part : part.textContent)).join("");
  if (place.textContent !== said) place.replaceChildren(...why);
}

function silent(why) {
  const seen = newest ? ` What is shown below was so at ${clock(newest.overview.time)}.` : "";
  answer("silent", "No word from the service", `${why}.${seen}`);
}

function judge({ overview }) {
  const { pools, broken, arms_broken: arms, worst, unpromised } = overview;
  if (overview.time === null) {
    answer("waiting", "Waiting for the service", "It has not served yet, it may be restoring.");
  } else if (broken) {
    const open = make("button", { type: "button", class: "name" }, named(worst.name));
    open.addEventListener("click", () => select(worst));
    answer(
      "broken",
      `${plural(arms, "arm")} in ${plural(broken, "pool")} ${arms === 1 ? "is" : "are"} short`,
      `Worst: ${plural(worst.worst, "pull")} short, ${count(worst.bound)} allowed, in `,
      open,
    );
  } else if (pools === unpromised) {
    answer("none", "Nothing is promised", pools ? "No pool has a rule." : "There are no pools yet.");
  } else {
    const rest = unpromised ? ` ${plural(unpromised, "pool")} without a promise.` : "";
    answer("kept", "Every guarantee is kept", `In ${plural(pools - unpromised, "pool")}.${rest}`);
  }
}

// -- at a glance ------------------------------------------------------------------------------

function tiles(overview) {
  const { worst, lag } = overview;
  const passed = before ? overview.time - before.time : 0;
  const rate = passed > 0 ? Math.max(0, overview.assignments - before.assignments) / passed : null;
  const behind = lag.reduce((sum, each) => sum + each.records, 0);
  const late = Math.max(0, ...lag.map((each) => each.seconds));
  const dead = deadLetters(overview);
  const learned = overview.assignments - overview.forced;
  const rows = [
    ["Worst shortfall", worst ? short(worst) : "–", worst ? allowed(worst) : ""],
    ["Waiting", plural(overview.waiting, "request"), waits(overview.waiting)],
    ["Assignments", count(overview.assignments), rate === null ? "" : `${number(rate)} a second`],
    ["Forced by fairness", share(overview.forced, overview.assignments), `${count(learned)} learned`],
    ["Rewards", count(overview.rewards), `${count(overview.pending)} waited for`],
    ["Lag", plural(behind, "record"), behind ? `${seconds(late)} behind` : "all is read"],
    ["Dead letters", count(dead), dead ? "see the reasons below" : "none"],
    ["Pools", count(overview.pools), standing(overview)],
  ];
  lay(find("tiles"), rows);
  before = overview;
}

const deadLetters = ({ dead_letters: letters }) =>
  Object.values(letters).reduce((sum, each) => sum + each, 0);

function lay(place, rows) {
  rows.forEach(([title, value, note], at) => {
    const tile = place.children[at] ?? place.appendChild(emptyTile());
    say(tile.children[0], title);
    say(tile.children[1], value);
    say(tile.children[2], note);
  });
}

const emptyTile = () =>
  make("div", {}, make("dt"), make("dd", { class: "value" }), make("dd", { class: "note" }));
const short = ({ worst }) => plural(Math.max(0, worst), "pull");
const allowed = ({ bound }) => (bound === null ? "nothing is promised" : `${count(bound)} allowed`);
const waits = (waiting) => (waiting ? "nobody can take them now" : "all are decided");
const share = (part, all) => (all ? percent(part / all) : "–");

function standing({ partitions, paused, retired, stored, damaged }) {
  const words = [plural(partitions, "partition")];
  if (paused) words.push(`${count(paused)} paused`);
  if (retired) words.push(`${count(retired)} more retired`);
  if (stored) words.push(`${count(stored)} more not made yet after the start`);
  if (damaged) words.push(`${count(damaged)} DAMAGED`);
  return words.join(", ");
}

// -- pools ------------------------------------------------------------------------------------

const verdict = ({ short, bound }) => {
  if (bound === null) return "– no promise";
  if (short > bound) return `✗ ${count(short)} short`;
  return short > 0 ? `✓ ${count(short)} short, allowed` : "✓ kept";
};
const grade = ({ short, bound }) => (bound === null ? "" : short > bound ? "bad" : "good");
const asArm = ({ worst, bound }) => ({ short: worst, bound });

let byPartition = false; // whether a name may be on several partitions
const poolKey = ({ name, partition }) => `${partition}/${name}`;
const isChosen = ({ name, partition }) =>
  name === wish.pool && (wish.partition ?? String(partition)) === String(partition);

const poolColumns = [
  {
    title: "Pool",
    show(row, cell, fresh) {
      if (!fresh) return;
      const open = make("button", { type: "button", class: "name", dir: "auto", title: row.name });
      open.textContent = row.name;
      open.addEventListener("click", () => select(row));
      cell.replaceChildren(open);
      if (byPartition) cell.append(` on partition ${row.partition}`);
    },
  },
  { title: "Guarantee", text: (row) => verdict(asArm(row)), style: (row) => grade(asArm(row)) },
  { title: "Peak", text: (row) => count(row.peak) },
  { title: "Allowed", text: (row) => (row.bound === null ? "–" : count(row.bound)) },
  { title: "Waiting", text: (row) => count(row.waiting) },
  { title: "Longest gap", text: (row) => count(row.gap) },
  { title: "Rounds", text: (row) => count(row.rounds) },
  { title: "Arms", text: (row) => count(row.arms) },
  { title: "Forced", text: (row) => share(row.forced, row.assignments) },
  { title: "Regret", text: (row) => number(row.regret) },
  { title: "R-regret", text: (row) => number(row.r_regret) },
];

function select({ name, partition }) {
  const chosen = { pool: name, partition: String(partition) };
  location.hash = address(chosen);
  watch({ ...chosen, arm_page: 1 });
  find("pool-name").focus();
}

function list({ overview, pools }) {
  find("pools").hidden = overview.pools <= 1;
  byPartition = overview.by_partition;
  fill(find("pool-table"), poolColumns, pools.rows, { key: poolKey, current: isChosen });
  pager(find("pool-pager"), pools, (total) => plural(total, "pool"), (page) => watch({ page }));
}

// -- one pool ---------------------------------------------------------------------------------

let bound = null; // of the pool whose arms are shown

const armColumns = [
  { title: "Arm", show: arm },
  { title: "Share against quota", show: bar, style: () => "wide" },
  { title: "Share", text: (row) => percent(row.share) },
  { title: "Quota", text: (row) => percent(row.quota) },
  {
    title: "Guarantee",
    text: (row) => verdict({ short: row.short, bound }),
    style: (row) => grade({ short: row.short, bound }),
  },
  { title: "Rounds", text: (row) => count(row.pulls) },
  { title: "Forced", text: (row) => count(row.forced) },
  { title: "Learned", text: (row) => count(row.pulls - row.forced) },
  { title: "Rewards", text: (row) => count(row.rewards) },
  { title: "Mean reward", text: (row) => (row.mean === null ? "–" : row.mean.toFixed(3)) },
];

// Whether it is away stands beside its name, as text.
function arm(row, cell, fresh) {
  if (fresh) cell.replaceChildren(named(row.name), " ", make("span", { class: "state" }));
  const state = cell.querySelector(".state");
  say(state, row.state);
  state.hidden = !row.state;
}

// The quota is marked in the middle; the end means twice as much or more.
function bar(row, place) {
  let box = place.firstElementChild;
  if (!box) {
    box = make("span", { class: "bar", role: "img" });
    box.append(make("span", { class: "fill" }), make("span", { class: "mark" }));
    box.append(make("span", { class: "beyond" }));
    place.append(box);
  }
  const [fillBar, mark, beyond] = box.children;
  const ratio = row.quota ? row.share / row.quota : 2 * row.share; // or its share of all
  const short = bound !== null && row.short > bound;
  fillBar.style.width = `${Math.min(100, 50 * ratio)}%`;
  mark.hidden = !row.quota;
  say(beyond, row.quota && ratio > 2 ? "▶" : "");
  box.classList.toggle("short", short);
  const quota = row.quota ? `quota ${percent(row.quota)}` : "no quota";
  box.setAttribute("aria-label", `share ${percent(row.share)}, ${quota}${short ? ", short" : ""}`);
}

const gapAllowed = ({ gap_bound: most }) =>
  most === null ? "without a bank any number is" : `${count(most)} allowed`;
const oldest = ({ waiting, waiting_since: since }) =>
  waiting ? `the oldest since ${moment(since)}` : "all are decided";
const away = ({ requests, asleep, busy }) =>
  requests === "any" ? `${count(asleep)} asleep, ${count(busy)} busy` : "requests are plain";

// A part is watched as a pool; what all parts promise together is said in words.
function together({ pool, number, parts, joint_bound: most }) {
  const promise = most === null ? "" : `, together at most ${plural(most, "pull")} short`;
  return `part ${number} of the ${count(parts)} of ${pool}${promise}`;
}

function detail(pool) {
  find("pool").hidden = false;
  say(find("pool-name").querySelector("bdi"), wish.pool);
  find("pool-tiles").hidden = pool === null;
  if (pool === null) {
    say(find("pool-terms"), "This pool is not here: it was removed, moved, retired, or never was.");
    return;
  }
  bound = pool.bound;
  const promise =
    bound === null
      ? "nothing is promised"
      : `no arm is ever more than ${plural(bound, "pull")} short of its entitlement`;
  const words = [`${pool.rule}: ${promise}`, `learner ${pool.learner}`];
  words.push(plural(pool.rounds, "round"), plural(pool.arms, "arm"), `epoch ${pool.epoch}`);
  words.push(`partition ${pool.partition}`);
  if (pool.split) words.push(together(pool.split));
  if (pool.requests === "any") words.push("requests may name arms");
  if (pool.bank !== null) words.push(`bank ${count(pool.bank)}`);
  if (pool.changing) words.push("a change is taking effect");
  if (pool.paused) words.push("paused");
  if (pool.faults) words.push(`the learner failed ${plural(pool.faults, "time")}`);
  say(find("pool-terms"), words.join(" · "));
  lay(find("pool-tiles"), [
    ["Worst shortfall", short(pool), allowed(pool)],
    ["Longest gap", plural(pool.gap, "slot"), gapAllowed(pool)],
    ["Waiting", plural(pool.waiting, "request"), oldest(pool)],
    ["Arms away", count(pool.asleep + pool.busy), away(pool)],
  ]);
  charts.take(pool.past, fresh || shownPool !== poolKey(pool));
  shownPool = poolKey(pool);
  feed.show(pool);
  showWaiting(find("waiting"), pool);
  fill(find("arm-table"), armColumns, pool.page.rows, { key: (row) => row.name });
  pager(find("arm-pager"), pool.page, (total) => plural(total, "arm"), (page) =>
    watch({ arm_page: page }),
  );
}

// -- lag and dead letters ---------------------------------------------------------------------

const lagColumns = [
  { title: "Topic", text: (row) => row.topic },
  { title: "Partition", text: (row) => String(row.partition) },
  { title: "Records behind", text: (row) => count(row.records) },
  { title: "Behind by", text: (row) => (row.records ? seconds(row.seconds) : "–") },
];
const letterColumns = [
  { title: "Reason", text: ([reason]) => reason },
  { title: "Records", text: ([, records]) => count(records) },
];

// All that are behind, and of the rest one line for each topic.
function lagRows(lag) {
  const behind = lag.filter((each) => each.records).slice(0, 20);
  const topics = [...new Set(lag.map((each) => each.topic))];
  const idle = topics.filter((topic) => !behind.some((each) => each.topic === topic));
  const all = (topic) => ({ topic, partition: "all", records: 0, seconds: 0 });
  return [...behind, ...idle.map(all)];
}

function show(event) {
  if (wish.pool === undefined && event.pool) {
    // From here on this one, not whichever is the worst just then.
    watch({ pool: event.pool.name, partition: String(event.pool.partition) });
    return;
  }
  say(find("version"), event.overview.version);
  judge(event);
  tiles(event.overview);
  list(event);
  if (wish.pool !== undefined) detail(event.pool ?? null);
  controls.show(event.pool ?? null, deadLetters(event.overview));
  fresh = false;
  fill(find("lag-table"), lagColumns, lagRows(event.overview.lag));
  const letters = Object.entries(event.overview.dead_letters).filter(([, records]) => records);
  fill(find("letter-table"), letterColumns, letters);
  find("letter-table").hidden = !letters.length;
  find("letters-none").hidden = letters.length > 0;
}

// -- what a person does -----------------------------------------------------------------------

function onTyping(id, changes) {
  let timer = 0;
  find(id).addEventListener("input", ({ target }) => {
    clearTimeout(timer);
    timer = setTimeout(() => watch(changes(target.value)), TYPING_MS);
  });
}

onTyping("search", (search) => ({ search, page: 1 }));
onTyping("arm-search", (text) => ({ arm_search: text, arm_page: 1 }));
find("sort").addEventListener("change", ({ target }) => watch({ sort: target.value, page: 1 }));
find("arm-sort").addEventListener("change", ({ target }) =>
  watch({ arm_sort: target.value, arm_page: 1 }),
);
for (const form of document.querySelectorAll("form.filter")) {
  form.addEventListener("submit", (event) => event.preventDefault());
}
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", find("token").value);
  find("token").value = "";
  find("token-form").hidden = true;
  watch({});
  requestView.look();
  controls.permit();
});

find("request-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const { pool, partition } = wish;
  location.hash = address({ pool, partition, request_id: find("request-id").value });
});

function linked() {
  const words = new URLSearchParams(location.hash.slice(1));
  const [pool, request] = [words.get("pool"), words.get("request")];
  return { pool, partition: words.get("partition") ?? undefined, request };
}

function follow() {
  const { pool, partition, request } = linked();
  if (pool !== null && (pool !== wish.pool || partition !== wish.partition)) {
    watch({ pool, partition, arm_page: 1 });
  }
  requestView.open(pool, pool === null ? null : request);
}

if (linked().pool === null) watch({});
follow();
addEventListener("hashchange", follow);
