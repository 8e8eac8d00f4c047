// The panels of a dashboard, drawn from their states: figures, bars, tables, lanes, texts and charts over time.

import { aligned, Chart, moment } from "./chart.js";
import { el, morph, save, setData, setText, show } from "./dom.js";
import { Menu } from "./palette.js";
import { csvOf, TableView } from "./table.js";
import { amount, isCurrency, money, plural, seconds } from "../model/format.js";
import { fill, locale, words } from "../model/language.js";

const TABLES = ["table", "heat"], WIDE = [...TABLES, "lane"], COLUMNS = 4;
const LINES = 8, MOST = [6, 14, 22], POINTS = 600, WIDEST = 1_500, SHORT = 24, REST = 5_000; // groups; groups by the height of a panel; moments of a chart; bars; rows, and milliseconds between two updates, of the table for screen readers

export class BoardView {
  // `span()` returns the beginning and the end of the axis of charts over time, in seconds since the epoch, or null for that of their values. `runs(id)` returns the address of a run, and `makers(panel, group, time)` shows the runs that made the values of a group until a time; without it, `picked(time)` is called when a point of a line is chosen.
  constructor(node, { span = () => null, runs = null, makers = null, picked = null } = {}) {
    this.node = node;
    this.options = { span, runs, makers, picked, before: new Map() };
    this.panels = new Map();
  }

  // `panels`: as the server describes them. `makeXRay` makes what shows the operators of a panel, if they may be seen.
  open(panels, makeXRay = null) {
    this.close();
    this.node.dataset.columns = columnsOf(panels);
    this.node.replaceChildren(...panels.map((panel) => {
      const view = new PanelView(panel, this.options, makeXRay?.(panel) ?? null);
      this.panels.set(panel.name, view);
      return view.node;
    }));
  }

  close() {
    for (const view of this.panels.values()) view.close();
    this.panels.clear();
  }

  draw(states) {
    for (const state of states) this.panels.get(state.panel)?.draw(state);
  }

  // The states of the period before, to which figures show their change; null for none.
  compare(states) {
    this.options.before = new Map(states?.map((state) => [state.panel, state]));
    for (const view of this.panels.values()) if (view.state.panel) view.draw(view.state);
  }
}

const widthOf = ({ view, width }) => width ?? (WIDE.includes(view) ? COLUMNS : 1);

// How many columns the longest row of panels takes, so that a few panels take the whole width.
function columnsOf(panels) {
  let row = 0, most = 1;
  for (const width of panels.map(widthOf)) {
    row = width === COLUMNS ? 0 : row + width;
    most = Math.max(most, row);
  }
  return Math.min(most, COLUMNS);
}

class PanelView {
  constructor(panel, options, xray) {
    const { title, view, alert = null, height = 1 } = panel;
    Object.assign(this, { panel, options, state: {}, chart: null, table: null, isTable: false, isWhole: false, reading: null, most: MOST[height - 1] ?? MOST[0] });
    this.limit = alert === null ? "" : el("p", { class: "board-limit" }, el("span", { class: "board-mark", "aria-hidden": "true", text: alert.is_above ? "▲" : "▼" }), (this.limitText = el("span", { role: "status" })));
    this.value = el("div", { class: "board-value", part: "value" });
    this.body = el("div", { class: "board-body", hidden: true });
    this.read = el("div", { class: "hidden" });
    this.about = el("p", { class: "board-none", hidden: true });
    this.error = el("p", { class: "board-error", role: "status", hidden: true });
    if (alert !== null) this.drawLimit({});
    const menu = el("div", { class: "board-menu", popover: "" }), more = el("button", { class: "board-menu-button", type: "button", text: "⋯", "aria-label": fill(words.board.actions, { title }) });
    more.popoverTargetElement = menu;
    new Menu(menu, () => this.actions(), more);
    this.node = el("div", { class: "board-panel", role: "group", part: "panel", "data-view": view, "data-width": widthOf(panel), "data-height": height, "aria-label": title, onclick: ({ target }) => this.clicked(target) },
      el("div", { class: "board-head" }, el("h3", { part: "title", text: title }), xray?.button ?? "", more, menu), this.value, this.body, this.read, this.limit, this.about, this.error, xray?.node ?? "");
  }

  draw(state) {
    this.state = state;
    const { panel } = this, { value = null, alerts = {}, error = "", missing = {}, reading = null, since = null } = state, beyond = new Set(Object.keys(alerts));
    setData(this.node, "alert", beyond.size > 0 ? "yes" : "no");
    if (this.limit !== "") this.drawLimit(alerts);
    setText(this.error, error ? fill(words.board.stopped, { error }) : "");
    show(this.error, error !== "");
    const course = value === null ? null : courseOf(panel, state, this.options.span()), isTable = this.isTable || (value !== null && TABLES.includes(panel.view)), from = since ?? course?.since ?? null;
    const about = [...((reading || course?.since) && from !== null ? [fill(words.board.since, { time: moment(from, course?.step || 1) })] : []), ...(reading?.[1] > 0 ? [fill(words.board.read, { read: reading[0], total: reading[1] })] : []), ...withoutOf(missing)].join(" · ");
    setText(this.about, about);
    show(this.about, about !== "");
    const none = () => [el("p", { class: "board-none", text: Object.keys(missing).length > 0 ? words.board.unknown : words.board.none })];
    const most = this.isWhole ? Infinity : course ? LINES : this.most;
    morph(this.value, value === null ? none() : isTable && !course ? [] : DRAW[panel.view](value, { ...panel, alerts: beyond, most, course, before: reading ? null : this.before(), makers: this.options.makers, runs: this.options.runs }));
    show(this.body, isTable || course !== null);
    if (isTable) this.drawTable();
    else if (course !== null) this.drawChart(course, most);
    if (course !== null && !isTable) this.drawRead();
  }

  // What it has shown of the period before: a number, or one for each group; of bars over time their sum.
  before() {
    const { value = null } = this.options.before.get(this.panel.name) ?? {}, isBars = this.panel.view === "bar" && value !== null && isGroups(value) && Object.keys(value).every((name) => STEP.test(name));
    return isBars ? Object.values(value).reduce((sum, n) => sum + n, 0) : value;
  }

  drawLimit(alerts) {
    const { alert, unit } = this.panel, groups = Object.entries(alerts), first = Math.min(...Object.values(alerts)), names = groups.filter(([name]) => name), what = limitOf(alert, unit);
    const { value, missing = {} } = this.state, numberOf = (name) => (isGroups(value) ? value[name] : value), isOpen = ([name]) => missing[name] !== undefined && !(alert.is_above ? numberOf(name) > alert.limit : numberOf(name) < alert.limit);
    const text = groups.length === 0 ? what : fill(groups.every(isOpen) ? words.board.mayFire : words.board.firing, { what, time: moment(first) }), { makers } = this.options, key = JSON.stringify([text, groups]);
    if (key === this.limited) return;
    this.limited = key;
    const link = ([name, time], shown) => (makers ? el("button", { class: "board-group", type: "button", "data-group": name, "data-time": time, text: shown, title: fill(words.board.runsOf, { what: name || this.panel.title }) }) : shown);
    const listed = names.slice(0, 3).flatMap(([name, time], n) => [n > 0 ? ", " : ": ", link([name, time], name)]), rest = names.length > 3 ? [` ${fill(words.board.more, { n: names.length - 3 })}`] : [];
    this.limitText.replaceChildren(...(groups.length > 0 && names.length === 0 ? [link(groups[0], text)] : [text, ...listed, ...rest]));
  }

  drawChart({ series, ...course }, most) {
    this.chart ??= new Chart({ ...this.panel, kind: this.panel.view, alert: this.panel.alert ?? null, shown: () => this.drawRead(), selects: !this.options.picked, picked: (time) => (this.options.makers ? this.options.makers(this.panel, "", time) : this.options.picked?.(time)) });
    if (this.body.firstChild !== this.chart.node) this.body.replaceChildren(this.chart.node);
    this.chart.draw({ ...course, series: series.slice(0, most), more: rest(series.length, most) });
  }

  drawTable() {
    const { names, rows } = rowsOf(this.panel, this.state, this.options.span());
    this.table ??= new TableView(this.panel.title, (name, value, row) => this.cell(name, value, row));
    if (this.body.firstChild !== this.table.node) this.body.replaceChildren(this.table.node);
    this.high = Math.max(0, ...rows.flatMap((row) => Object.values(row).filter((n) => typeof n === "number"))) || 1;
    this.table.draw(names, rows);
  }

  // The name of a run, and its title, lead to it.
  cell(name, value, { run } = {}) {
    const { view, unit } = this.panel, step = STEP.exec(value), href = [...TABLES, "lane"].includes(view) && ["run", "title"].includes(name) && run ? this.options.runs?.(run) : null;
    if (href) return el("a", { href, text: value || words.runs.untitled });
    if (value === null || value === undefined || value === "") return "–"; // it is not known
    if (typeof value === "object") return JSON.stringify(value);
    if (step && !step[1]) return moment(Date.parse(step[2]) / 1000, 60);
    if (typeof value !== "number") return String(value);
    if (view === "heat") return heated(amount(value, unit), value / this.high);
    if (view === "table") return name === "cost" ? money(value, unit) : amount(value, name === "seconds" ? "s" : isCurrency(unit) ? "" : unit);
    return TIMES.includes(name) ? moment(value, 1) : amount(value, name === words.table.took ? "s" : unit);
  }

  // What a chart shows, as a table for screen readers: some rows, at once, and then now and again.
  drawRead() {
    if (this.reading !== null || this.isTable || !this.chart?.isSeen) return;
    this.reading = setTimeout(() => {
      this.reading = null;
      if (this.readState !== this.state) this.drawRead();
    }, REST);
    this.readState = this.state;
    const { names, rows } = rowsOf(this.panel, this.state, this.options.span()), some = outstanding(rows);
    this.read.replaceChildren(el("table", { "aria-label": this.panel.title }, el("thead", {}, el("tr", {}, ...names.map((name) => el("th", { scope: "col", text: name })))), el("tbody", {}, ...some.map((row) => el("tr", {}, ...names.map((name) => el("td", {}, row[name] === undefined || row[name] === null ? "" : this.cell(name, row[name]))))))));
  }

  close() {
    clearTimeout(this.reading);
    this.chart?.close();
  }

  clicked(target) {
    const group = target.closest("[data-group]"), span = target.closest("[data-run]");
    if (group) this.options.makers(this.panel, group.dataset.group, group.dataset.time ? Number(group.dataset.time) : null);
    else if (span) location.assign(this.options.runs(span.dataset.run));
    else if (target.closest(".board-more")) this.open();
  }

  // All groups, or the greatest.
  open() {
    this.isWhole = !this.isWhole;
    this.draw(this.state);
  }

  actions() {
    const { board } = words, { view, name, title } = this.panel, canTable = !TABLES.includes(view), isChart = this.chart !== null && !this.isTable;
    const rows = () => rowsOf(this.panel, this.state, this.options.span());
    return [
      ...(this.options.makers ? [{ text: board.runs, act: () => this.options.makers(this.panel, "") }] : []),
      ...(canTable ? [{ text: this.isTable ? board.asChart : board.asTable, act: () => this.turn() }] : []),
      { text: board.saveCsv, act: () => save(`${name}.csv`, "text/csv", csvOf(rows().names, rows().rows.map(inFull))) },
      ...(isChart ? [{ text: board.savePng, act: async () => save(`${name}.png`, "image/png", await this.chart.picture(title)) }] : []),
    ];
  }

  turn() {
    this.isTable = !this.isTable;
    clearTimeout(this.reading);
    this.reading = null;
    this.read.replaceChildren();
    this.draw(this.state);
  }
}

// A limit in words, such as "above 0.05 USD for 60 s".
function limitOf({ limit, is_above: isAbove, lasting }, unit) {
  const what = fill(isAbove ? words.board.above : words.board.below, { limit: amount(limit, unit) });
  return lasting > 0 ? fill(words.board.lasting, { what, time: lasting < 120 ? fill(words.units.second, { n: String(lasting) }) : seconds(lasting) }) : what;
}

// What is not known, of a few groups by their names.
function withoutOf(missing) {
  const groups = Map.groupBy(Object.entries(missing), ([, names]) => names.join(", "));
  return [...groups].map(([names, of]) => {
    const text = fill(words.board.without, { names }), named = of.map(([group]) => group).filter(Boolean);
    return named.length === 0 ? text : `${named.length > 3 ? plural(words.board.groups, named.length) : named.join(", ")}: ${text}`;
  });
}

const text = (value, unit) => (typeof value === "number" ? amount(value, unit) : value === null ? words.board.unknown : String(value));
// Groups with the greatest first, but those beyond their limit before all others.
const ranked = (value, alerts) => Object.entries(value).sort(([a, m], [b, n]) => alerts.has(b) - alerts.has(a) || (n ?? -Infinity) - (m ?? -Infinity) || 0);
const isGroups = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const mark = (isBeyond) => (isBeyond ? [el("span", { class: "board-mark", role: "img", "aria-label": words.board.beyond, text: "▲" })] : []);

// The name of a group, which leads to the runs that made its value.
const groupOf = (name, makers) => (makers && name ? el("button", { class: "board-group", type: "button", "data-group": name, text: name, title: fill(words.board.runsOf, { what: name }) }) : name);

// The change of a figure since the period before.
function changed(now, before, unit) {
  if (typeof now !== "number" || typeof before !== "number" || before === 0) return [];
  const part = (percent ??= new Intl.NumberFormat(locale, { style: "percent", signDisplay: "exceptZero", maximumFractionDigits: 1 })).format((now - before) / Math.abs(before));
  return [el("span", { class: "board-change", title: fill(words.board.before, { value: amount(before, unit) }), text: part })];
}

let percent = null;

// The button that opens the other groups, or closes them.
function rest(n, most) {
  const isOpen = most === Infinity;
  return isOpen || n > most ? [el("button", { class: "board-more", type: "button", "aria-expanded": String(isOpen), text: isOpen ? words.board.fewer : fill(words.board.more, { n: n - most }) })] : [];
}

// One figure, or one for each group.
function figures(value, { unit, alerts, view, most, before, makers }) {
  const figure = (shown, name) => el("p", { class: "board-figure", "data-state": view === "state" ? String(shown) : null, "data-alert": alerts.has(name) ? "yes" : null }, ...mark(isGroups(value) && alerts.has(name)), text(shown, unit), ...changed(shown, isGroups(value) ? before?.[name] : before, unit));
  if (!isGroups(value)) return [figure(value, "")];
  const all = alerts.size > 0 ? ranked(value, alerts) : Object.entries(value);
  return [el("dl", { class: "board-groups" }, ...all.slice(0, most).flatMap(([name, shown]) => [el("dt", {}, groupOf(name, makers)), el("dd", {}, figure(shown, name))])), ...rest(all.length, most)];
}

// Lines and areas have a chart, with the last value above it; groups have theirs in its legend. So do bars over time, with their sum.
function charted(value, options) {
  const { course, alerts, before } = options;
  if (course === null) return figures(value, options);
  if (course.series.length > 1) return [];
  const [{ name, now }] = course.series;
  return figures(now, { ...options, alerts: new Set(alerts.size > 0 ? [""] : []), before: before?.[name] ?? before });
}

function bars(value, options) {
  const { unit, alerts, course, most, before, makers } = options;
  if (course !== null) return charted(value, options);
  const all = isGroups(value) ? ranked(value, alerts) : [["", value]], shown = all.slice(0, most), high = Math.max(...shown.map(([, n]) => n ?? 0), 0) || 1;
  const rows = shown.map(([name, n]) => el("tr", { "data-alert": alerts.has(name) ? "yes" : null },
    el("th", { scope: "row", title: name }, el("span", { class: "board-name" }, groupOf(name, makers))), el("td", { class: "board-bar" }, el("meter", { min: 0, max: high, value: Math.max(0, n ?? 0), "aria-hidden": true })), el("td", { class: "number" }, ...mark(alerts.has(name)), text(n, unit), ...changed(n, isGroups(value) ? before?.[name] : before, unit))));
  return [el("table", { class: "board-bars" }, el("tbody", {}, ...rows)), ...rest(all.length, most)];
}

// The spans of each lane on one axis.
function lanes(rows, { most, runs }) {
  const begin = Math.min(...rows.map((row) => row.from)), end = Math.max(...rows.map((row) => row.to)), scale = end - begin || 1, all = Map.groupBy(rows, (row) => row.lane);
  const span = ({ from, to, run }) => {
    const node = el("span", { class: "board-span", title: seconds(to - from), "data-run": runs ? run : null }); // by the keyboard: the table of the panel
    node.style.left = `${(100 * (from - begin)) / scale}%`;
    node.style.width = `max(2px, ${(100 * (to - from)) / scale}%)`;
    return node;
  };
  const took = (spans) => spans.reduce((sum, { from, to }) => sum + to - from, 0), biggest = [...all].sort(([, a], [, b]) => took(b) - took(a));
  const shown = biggest.slice(0, most).flatMap(([name, spans]) => [el("dt", { text: name }), el("dd", { class: "board-lane" }, el("span", { class: "hidden", text: fill(words.board.spans, { n: spans.length, time: seconds(took(spans)) }) }), ...spans.map(span))]);
  return [el("dl", { class: "board-lanes" }, ...shown), el("p", { class: "board-scale", "aria-hidden": "true" }, el("span", { text: moment(begin) }), el("span", { text: moment(end) })), ...rest(all.size, most)];
}

// A number on a colour by its size; the digits state it too.
function heated(text, share) {
  const node = el("span", { class: "board-heat", text });
  node.style.setProperty("--share", `${Math.round(40 * Math.max(0, share))}%`);
  return node;
}

const DRAW = { number: figures, text: figures, state: figures, bar: bars, line: charted, area: charted, table: () => [], heat: () => [], lane: lanes };

const STEP = /^(?:(.*)(?:: | · ))?(\d{4}-\d\d-\d\dT\d\d:\d\dZ)\/PT(\d+)([HM])$/s; // the name of a step of time, in a panel with groups with that of its group

// What a chart over time shows: { series: [{ name, now }], the greatest first; make(series) returns their moments and their values; step; axis; since: the first bar, if all bars take a small part of the axis }; null for what has no course. `now` is the
// last value, or of bars the sum.
function courseOf({ view }, { value, points = {}, alerts = {}, reading = null }, span) {
  const beyond = new Set(Object.keys(alerts)), ordered = (series) => series.sort((a, b) => beyond.has(b.name) - beyond.has(a.name) || (b.now ?? -Infinity) - (a.now ?? -Infinity) || 0);
  if (view === "line" || view === "area") {
    const now = isGroups(value) ? value : { "": value }, courses = Object.entries(points).filter(([, course]) => course.length > 0);
    const [begin, end] = span ?? [Math.min(...courses.map(([, course]) => course[0][0])), Math.max(...courses.map(([, course]) => course.at(-1)[0]))];
    const make = (series) => {
      const [xs, values] = aligned(series.map(({ name }) => points[name]), POINTS);
      if (xs.at(-1) < end && !reading) for (const list of [...values, xs]) list.push(list === xs ? end : list.at(-1)); // it holds until then
      return { xs, values };
    };
    return courses.length > 0 && end > begin ? { series: ordered(courses.map(([name, course]) => ({ name, now: now[name] ?? course.at(-1)[1] }))), make, step: 0, axis: [begin, end] } : null;
  }
  const found = view === "bar" && isGroups(value) ? Object.entries(value).map(([name, n]) => [name.match(STEP), n]).filter(([match, n]) => match !== null || n !== null) : []; // a group of which nothing is known has no steps
  if (found.length === 0 || found.some(([match]) => match === null)) return null;
  const steps = found.map(([[, name = "", since, length, kind], n]) => ({ name, since: Date.parse(since) / 1000, step: length * (kind === "H" ? 3600 : 60), n }));
  const [{ step }] = steps, all = steps.map(({ since }) => since), least = Math.min(...all), most = Math.max(...all) + step, isWide = span !== null && span[1] - span[0] < WIDEST * step;
  const begin = isWide ? Math.min(least, Math.floor(span[0] / step) * step) : least, end = isWide ? Math.max(most, Math.ceil(span[1] / step) * step) : most, groups = Map.groupBy(steps, ({ name }) => name);
  const make = (series) => {
    const xs = Array.from({ length: Math.round((end - begin) / step) }, (_, n) => begin + (n + 0.5) * step), values = series.map(() => xs.map(() => null));
    series.forEach(({ name }, at) => groups.get(name).forEach(({ since, n }) => (values[at][Math.round((since - begin) / step)] = n)));
    return { xs, values };
  };
  return { series: ordered([...groups].map(([name, some]) => ({ name, now: some.reduce((sum, { n }) => sum + n, 0) }))), make, step, axis: [begin, end], since: end - begin > 2 * (most - least) ? least : null };
}

const TIMES = [words.table.time, words.table.from, words.table.to];

// All that a panel shows, as a table: { names, rows }.
function rowsOf(panel, state, span) {
  const { value = null } = state, { table } = words, course = value === null ? null : courseOf(panel, state, span), name = (group) => group || panel.title;
  if (value === null) return { names: [], rows: [] };
  if (course !== null) {
    const { series, step, make } = course, { xs, values } = make(series);
    return { names: [table.time, ...series.map((one) => name(one.name))], rows: xs.map((x, n) => Object.fromEntries([...series.map((one, at) => [name(one.name), values[at][n]]), [table.time, x - step / 2]])) };
  }
  if (TABLES.includes(panel.view)) {
    const every = [...new Set(value.flatMap((row) => Object.keys(row)))], filled = every.filter((one) => value.some((row) => ![undefined, null, ""].includes(row[one])));
    return { names: filled.length > 0 ? filled : every, rows: value };
  }
  if (panel.view === "lane") return { names: [table.lane, table.from, table.to, table.took, "run"], rows: value.map(({ lane, from, to, run }) => ({ [table.lane]: lane, [table.from]: from, [table.to]: to, [table.took]: to - from, run })) };
  if (isGroups(value)) return { names: [table.group, panel.title], rows: Object.entries(value).map(([group, n]) => ({ [table.group]: group, [panel.title]: n })) };
  return { names: [panel.title], rows: [{ [panel.title]: value }] };
}

// So many rows that a reader can listen to: of each part of them the one with the least and the one with the greatest sum, so that no spike is left out.
function outstanding(rows) {
  const size = Math.ceil((2 * rows.length) / SHORT), parts = rows.length > SHORT ? Array.from({ length: Math.ceil(rows.length / size) }, (_, n) => rows.slice(n * size, (n + 1) * size)) : [];
  const sum = (row) => Object.entries(row).reduce((so, [name, n]) => so + (TIMES.includes(name) ? 0 : n ?? 0), 0);
  return parts.length === 0 ? rows : parts.flatMap((part) => {
    const sums = part.map(sum), ends = [sums.indexOf(Math.min(...sums)), sums.indexOf(Math.max(...sums))];
    return part.filter((_, n) => ends.includes(n));
  });
}

// The row of a file: times as in ISO 8601.
const inFull = (row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, TIMES.includes(name) && typeof value === "number" ? new Date(value * 1000).toISOString() : value]));
