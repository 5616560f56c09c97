// Three charts of a pool's recent past; each also says its newest values in words.

import { clock, count, make, number, say } from "./text.js";

const KEPT = 1200; // points
const HEIGHT = 180;
const WHOLE = [1, 2, 5].flatMap((n) => [n, 10 * n, 100 * n, 1e3 * n, 1e4 * n, 1e5 * n, 1e6 * n]).sort((a, b) => a - b);

// A point: [time, worst, bound, regret, r-regret, forced, learned], see history.py.
const CHARTS = [
  {
    title: "Worst shortfall against what is allowed, in pulls",
    keys: ["worst shortfall", "allowed"],
    columns: (points) => [points.map((p) => p[1]), points.map((p) => p[2])],
    word: (value) => (value === null ? "no promise" : count(value)),
    stepped: true,
  },
  {
    title: "Regret and r-regret, estimated",
    keys: ["regret", "r-regret: the learner's own"],
    columns: (points) => [points.map((p) => p[3]), points.map((p) => p[4])],
    word: number,
  },
  {
    title: "What was forced and what was learned, rounds a second",
    keys: ["forced by fairness", "chosen by the learner"],
    columns: (points) => [rate(points, 5), rate(points, 6)],
    word: (value) => (value === null ? "–" : number(value)),
  },
];

function rate(points, place) {
  return points.map((point, at) => {
    if (at === 0) return null;
    const before = points[at - 1];
    return Math.max(0, point[place] - before[place]) / Math.max(0.001, point[0] - before[0]);
  });
}

export class Charts {
  constructor(place) {
    this.place = place;
    this.points = [];
    this.built = [];
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restart());
    new ResizeObserver(() => this.resize()).observe(place);
  }

  // Start over with a pool's past, or go on with what is newer.
  take(points, anew) {
    if (anew) this.points = [];
    const last = this.points.length ? this.points.at(-1)[0] : -Infinity;
    this.points.push(...points.filter((point) => point[0] > last));
    this.points = this.points.slice(-KEPT);
    this.draw();
  }

  restart() {
    for (const chart of this.built) chart.plot.destroy();
    this.built = [];
    this.place.replaceChildren();
    this.draw();
  }

  resize() {
    for (const { plot, target } of this.built) {
      plot.setSize({ width: target.clientWidth, height: HEIGHT });
    }
  }

  draw() {
    if (!this.points.length) return;
    if (!this.built.length) this.built = CHARTS.map((chart) => this.build(chart));
    const times = this.points.map((point) => point[0]);
    for (const { chart, plot, words, figure } of this.built) {
      const columns = chart.columns(this.points);
      plot.setData([times, ...columns]);
      const newest = columns.map((column, place) => {
        const text = `${chart.keys[place]}: ${chart.word(column.at(-1))}`;
        say(words[place], text);
        return text;
      });
      figure.setAttribute("aria-label", `${chart.title}. ${newest.join(", ")}.`);
    }
  }

  build(chart) {
    const target = make("div", { class: "plot", "aria-hidden": "true" });
    const words = [make("span", { class: "key" }), make("span", { class: "key second" })];
    const caption = make("figcaption", {}, make("strong", {}, chart.title), ...words);
    const figure = make("figure", { role: "img" }, caption, target);
    this.place.append(figure);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 } };
    const times = { ...axis, space: 90, values: (_plot, ticks) => ticks.map(clock) };
    const points = { show: false };
    const paths = chart.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
    const options = {
      width: target.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: extent } },
      axes: [times, { ...axis, size: 56, ...(chart.stepped && { incrs: WHOLE }) }],
      series: [
        {},
        { label: chart.keys[0], stroke: colour("--first"), width: 2, points, paths },
        { label: chart.keys[1], stroke: colour("--second"), width: 2, dash: [6, 4], points, paths },
      ],
    };
    return { chart, figure, words, target, plot: new uPlot(options, [[], [], []], target) };
  }
}

// From 0 or the lowest value up, with room above and never flat.
function extent(_plot, low, high) {
  const bottom = Math.min(0, low ?? 0);
  const top = Math.max(1, high ?? 1);
  return [bottom, top + 0.08 * (top - bottom)];
}
