// The panels of a dashboard, drawn from their states: numbers, lines, bars, tables, lanes and texts.

import { el, morph, setData, setText, show } from "./dom.js";
import { amount, money, seconds } from "../model/format.js";
import { fill, locale, words } from "../model/language.js";

const SVG = "http://www.w3.org/2000/svg", WIDTH = 300, HEIGHT = 72, LINES = 5, MAX = 12;

function svg(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export class BoardView {
  // For the bars of charts over time, `linkTo(since, until)` returns the address of the runs of a time, in seconds since the epoch, and `during()` how many seconds they
  // show, up to now; without it they begin with the first bar.
  constructor(node, { linkTo = null, during = null } = {}) {
    this.node = node;
    this.time = { linkTo, during };
    this.panels = new Map();
  }

  // `panels`: [{ name, title, view, unit }]. `makeXRay` makes what shows the operators of a panel, if they may be seen.
  open(panels, makeXRay = null) {
    this.panels.clear();
    this.node.replaceChildren(...panels.map((panel) => {
      const view = new PanelView(panel, this.time, makeXRay?.(panel) ?? null);
      this.panels.set(panel.name, view);
      return view.node;
    }));
  }

  draw(states) {
    for (const state of states) this.panels.get(state.panel)?.draw(state);
  }
}

class PanelView {
  constructor(panel, time, xray) {
    this.panel = panel;
    this.time = time;
    this.value = el("div", { class: "board-value", part: "value" });
    this.about = el("p", { class: "board-none", hidden: true });
    this.error = el("p", { class: "board-error", role: "status", hidden: true });
    this.node = el("div", { class: "board-panel", role: "group", part: "panel", "data-view": panel.view, "aria-label": panel.title }, el("div", { class: "board-head" }, el("h3", { part: "title", text: panel.title }), xray?.button ?? ""), this.value, this.about, this.error, xray?.node ?? "");
  }

  draw({ value = null, points = {}, alerts = {}, error = "", missing = {}, reading = null }) {
    const { panel, node } = this, groups = Object.keys(alerts);
    setData(node, "alert", groups.length > 0 ? "yes" : "no");
    setText(this.error, error ? fill(words.board.stopped, { error }) : "");
    show(this.error, error !== "");
    const without = Object.entries(missing).map(([group, names]) => (group ? `${group}: ` : "") + fill(words.board.without, { names: names.join(", ") }));
    const about = [...(reading ? [fill(words.board.read, { read: reading[0], total: reading[1] })] : []), ...without].join(" · ");
    setText(this.about, about);
    show(this.about, about !== "");
    const held = node.getRootNode().activeElement, since = this.value.contains(held) ? held.dataset.since : undefined;
    morph(this.value, value === null ? [el("p", { class: "board-none", text: without.length > 0 ? words.board.unknown : words.board.none })] : DRAW[panel.view](value, { ...panel, points, alerts: new Set(groups), ...this.time }));
    if (since !== undefined) focusOn(this.value.querySelector(`[data-since="${since}"]`) ?? this.value.querySelector("[data-since]"));
  }
}

const text = (value, unit) => (typeof value === "number" ? amount(value, unit) : value === null ? words.board.unknown : String(value));
// Groups with the greatest first, but those beyond their limit before all others.
const ranked = (value, alerts) => Object.entries(value).sort(([a, m], [b, n]) => alerts.has(b) - alerts.has(a) || (n ?? -Infinity) - (m ?? -Infinity) || 0);
const isGroups = (value) => typeof value === "object" && !Array.isArray(value);
const rest = (n, most = MAX) => (n > most ? [el("p", { class: "board-none", text: fill(words.board.more, { n: n - most }) })] : []);

// One figure, or one for each group.
function figures(value, { unit, alerts, view }) {
  const figure = (shown, name) => el("p", { class: "board-figure", "data-state": view === "state" ? String(shown) : null, "data-alert": alerts.has(name) ? "yes" : null, text: text(shown, unit) });
  if (!isGroups(value)) return [figure(value, "")];
  const all = alerts.size > 0 || view === "line" || view === "area" ? ranked(value, alerts) : Object.entries(value);
  return [el("dl", { class: "board-groups" }, ...all.slice(0, MAX).flatMap(([name, shown]) => [el("dt", { text: name }), el("dd", {}, figure(shown, name))])), ...rest(all.length)];
}

// A bar is reached by the arrow keys from the one beside it, so that a chart is one stop of the tab key.
function focusOn(bar) {
  if (!bar) return;
  for (const other of bar.parentElement.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
  bar.tabIndex = 0;
  bar.focus({ preventScroll: true });
}

const STEP = /^(\d{4}-\d\d-\d\dT\d\d:\d\dZ)\/PT(\d+)([HM])$/, SHORT = { hour: "2-digit", minute: "2-digit", hour12: false }, LONG = { ...SHORT, day: "numeric", month: "short" };
const OF_GROUP = /^(.*): (\d{4}-\d\d-\d\dT\d\d:\d\dZ\/PT\d+[HM])$/s; // of a panel with groups

// Bars over time, whose names are intervals of ISO 8601, with their sum. A step without a value has no bar.
function steps(value, { title, unit, linkTo, during }) {
  const found = Object.entries(value).map(([name, n]) => {
    const [, begin, length, kind] = name.match(STEP);
    return { since: Date.parse(begin) / 1000, width: length * (kind === "H" ? 3600 : 60), n };
  }).sort((a, b) => a.since - b.since);
  const [{ since: first, width }] = found, last = found.at(-1).since + width, span = during?.(), now = span ? Math.ceil(Date.now() / 1000 / width) * width : last;
  const end = Math.max(last, now), begin = span ? Math.min(first, end - span) : first, most = Math.max(...found.map(({ n }) => n)) || 1, sum = found.reduce((all, { n }) => all + n, 0);
  const time = (at) => new Date(at * 1000).toLocaleString(locale, end - begin >= 86_400 ? LONG : SHORT);
  const all = found.map(({ since, n }, at) => {
    const name = `${time(since)}–${time(since + width)}: ${amount(n, unit)}`, until = since + width;
    const bar = el(linkTo ? "a" : "span", { class: "board-step", href: linkTo?.(since, until), title: name, "aria-label": linkTo ? name : null, "data-since": since, "data-until": until, tabindex: linkTo ? (at === found.length - 1 ? "0" : "-1") : null });
    bar.style.left = `${(100 * (since - begin)) / (end - begin)}%`;
    bar.style.width = `max(2px, min(24px, ${(100 * width) / (end - begin)}% - 2px))`;
    bar.style.height = `max(2px, ${(100 * Math.max(0, n)) / most}%)`;
    return bar;
  });
  const chart = el("div", { class: "board-steps", role: linkTo ? "group" : null, "aria-label": linkTo ? title : null, onkeydown: (event) => {
    const to = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key], bar = to && event.target[to];
    if (!bar) return;
    event.preventDefault();
    focusOn(bar);
  } }, ...all);
  return [el("p", { class: "board-figure", text: amount(sum, unit) }), chart, el("p", { class: "board-scale" }, el("span", { text: time(begin) }), el("span", { text: time(end) }))];
}

// A chart over time for each group; those with the greatest sums.
function grouped(value, options) {
  const groups = new Map();
  for (const [name, n] of Object.entries(value)) {
    const [, group, step] = name.match(OF_GROUP);
    groups.set(group, { ...groups.get(group), [step]: n });
  }
  const sum = ([, chart]) => Object.values(chart).reduce((all, n) => all + n, 0), all = [...groups].sort((a, b) => sum(b) - sum(a));
  return [...all.slice(0, LINES).flatMap(([name, chart]) => [el("h4", { class: "board-none", text: name }), ...steps(chart, options)]), ...rest(all.length, LINES)];
}

function bars(value, options) {
  const { unit, alerts } = options, names = isGroups(value) ? Object.keys(value) : [];
  if (names.length > 0 && names.every((name) => STEP.test(name))) return steps(value, options);
  if (names.length > 0 && names.every((name) => OF_GROUP.test(name))) return grouped(value, options);
  const all = isGroups(value) ? ranked(value, alerts) : [["", value]], shown = all.slice(0, MAX), most = Math.max(...shown.map(([, n]) => n ?? 0), 0) || 1;
  const rows = shown.map(([name, n]) => el("tr", { "data-alert": alerts.has(name) ? "yes" : null },
    el("th", { scope: "row", text: name, title: name }), el("td", { class: "board-bar" }, el("meter", { min: 0, max: most, value: Math.max(0, n ?? 0), "aria-hidden": true })), el("td", { class: "number", text: text(n, unit) })));
  return [el("table", { class: "board-bars" }, el("tbody", {}, ...rows)), ...rest(all.length)];
}

// The last value, and the course of each group as steps.
function lines(value, { unit, points, alerts, view }) {
  const groups = isGroups(value) ? ranked(value, alerts).map(([name]) => name) : Object.keys(points), courses = groups.filter((name) => points[name]?.length > 0);
  const all = courses.slice(0, LINES).map((name) => [name, points[name]]), times = all.flatMap(([, course]) => course.map(([time]) => time)), values = all.flatMap(([, course]) => course.map(([, n]) => n));
  const begin = Math.min(...times), end = Math.max(...times), low = Math.min(0, ...values), high = Math.max(0, ...values), range = high - low || 1;
  const x = (time) => ((time - begin) / (end - begin || 1)) * WIDTH, y = (n) => HEIGHT - 2 - ((n - low) / range) * (HEIGHT - 4);
  const paths = all.flatMap(([, course], n) => {
    const steps = course.map(([time, shown], at) => (at === 0 ? `M${x(time)} ${y(shown)}` : `H${x(time)}V${y(shown)}`)).join("") + `H${WIDTH}`;
    const line = svg("path", { d: steps, class: `board-line line-${n}` });
    return view === "area" && all.length === 1 ? [svg("path", { d: `${steps}V${y(low)}H${x(course[0][0])}Z`, class: "board-area" }), line] : [line];
  });
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "board-chart", "aria-hidden": "true" }, ...paths);
  const scale = el("p", { class: "board-scale" }, el("span", { text: fill(words.board.most, { value: amount(high, unit) }) }), el("span", { text: fill(words.board.over, { time: seconds(end - begin) }) }));
  return [...figures(value, { unit, alerts, view }), ...(end > begin ? [chart, scale, ...rest(courses.length, LINES)] : [])];
}

function table(rows) {
  const every = [...new Set(rows.flatMap((row) => Object.keys(row)))], filled = every.filter((name) => rows.some((row) => ![undefined, null, ""].includes(row[name])));
  const names = filled.length > 0 ? filled : every;
  const kind = (value) => (typeof value === "number" ? "number" : null);
  const shown = (name, value) => (name === "cost" && typeof value === "number" ? money(value) : text(value, name === "seconds" ? "s" : ""));
  const cell = (name, value) => el("td", { class: kind(value), text: value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : shown(name, value) });
  const head = el("tr", {}, ...names.map((name) => el("th", { scope: "col", class: kind(rows.find((row) => row[name] !== undefined && row[name] !== null)?.[name]), text: name })));
  return [el("div", { class: "board-scroll", tabindex: 0, role: "group", "aria-label": words.board.rows }, el("table", { class: "board-table" }, el("thead", {}, head), el("tbody", {}, ...rows.map((row) => el("tr", {}, ...names.map((name) => cell(name, row[name])))))))];
}

// The spans of each lane on one axis.
function lanes(rows) {
  const begin = Math.min(...rows.map((row) => row.from)), end = Math.max(...rows.map((row) => row.to)), scale = end - begin || 1, all = Map.groupBy(rows, (row) => row.lane);
  const span = ({ from, to }) => {
    const node = el("span", { class: "board-span", title: seconds(to - from) });
    node.style.left = `${(100 * (from - begin)) / scale}%`;
    node.style.width = `max(2px, ${(100 * (to - from)) / scale}%)`;
    return node;
  };
  const shown = [...all].slice(0, MAX).flatMap(([name, spans]) => [el("dt", { text: name }), el("dd", { class: "board-lane" }, ...spans.map(span))]);
  return [el("dl", { class: "board-lanes" }, ...shown), ...rest(all.size)];
}

const DRAW = { number: figures, text: figures, state: figures, bar: bars, line: lines, area: lines, table, lane: lanes };
