// A chart over time: the lines, the area or the bars of a panel, by uPlot on a canvas, with axes, a legend, a crosshair and a selection.
//
// Theory of operation. What is wanted is drawn in the next frame, of all charts together at most for `BUDGET`, and only while the chart is on the screen. Groups keep
// their colours. The crosshairs of a page show the same moment. The canvas is a slider for the keyboard and for screen readers: its value is the moment of the crosshair.
// It emits "range" ({ since, until }) when a time is selected, by dragging or with Shift and the arrow keys, and "pick" for a bar.

import { el, morph, setText, show } from "./dom.js";
import { amount } from "../model/format.js";
import { fill, locale, words } from "../model/language.js";

const BUDGET = 8, LEAST = 4; // milliseconds of a frame; pixels of a selection
const COLOURS = ["--accent", "--tool", "--thinking", "--code-name", "--code-keyword", "--good", "--input", "--warn"], DASH = [[], [6, 3], [2, 2], [8, 2, 2, 2]];
const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

let library = null; // loaded with the first chart
const loaded = () => (library ??= import("../vendor/uplot/uPlot.esm.js").then((module) => module.default));

// The moments that are noted for all charts: { time, text, by }, the oldest first.
let marks = [];
export function setMarks(noted) {
  marks = noted;
  for (const chart of coloured) chart.recolour();
}

// The charts that are to be drawn.
const due = new Set();
let isDue = false;

function later(chart) {
  due.add(chart);
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    const until = performance.now() + BUDGET;
    for (const one of due) {
      due.delete(one);
      one.render();
      if (performance.now() > until) break;
    }
    const [next] = due;
    if (next) later(next);
  });
}

const charts = new WeakMap(); // by their plots
const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => charts.get(target)?.schedule()));
const sights = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => charts.get(target)?.seen(isIntersecting)), { rootMargin: "100px" });
const coloured = new Set(), recolour = () => coloured.forEach((chart) => chart.recolour());
const themes = new MutationObserver(recolour);
for (const query of ["(forced-colors: active)", "(prefers-contrast: more)", "(prefers-color-scheme: dark)"]) matchMedia(query).addEventListener("change", recolour);

const formats = new Map();
const clock = { hour: "2-digit", minute: "2-digit", hour12: false }, day = { day: "numeric", month: "short" };

function dated(time, options) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(locale, options));
  return formats.get(key).format(time * 1000);
}

const isMidnight = (time) => new Date(time * 1000).getHours() + new Date(time * 1000).getMinutes() === 0;
const isToday = (time) => new Date(time * 1000).toDateString() === new Date().toDateString();
// A time to the second, or to the step of a chart; with its date unless that is today.
export const moment = (time, step = 1) => dated(time, step >= 86_400 ? day : { ...(!isToday(time) && day), ...clock, ...(step < 60 && { second: "2-digit" }) });

// The labels of the axis of time, of so many pixels, but those that would be cut off; the date stands below the first one and at midnight, unless all of it is today.
function dates(times, step, [begin, end], width) {
  const right = Math.max(0.05, (step < 1 ? 38 : step < 60 ? 28 : 16) / width), isCut = (time) => time < begin + 0.03 * (end - begin) || time > end - right * (end - begin), first = times.findIndex((time) => !isCut(time));
  return times.map((time, n) => {
    if (isCut(time)) return "";
    if (step >= 86_400) return dated(time, day);
    const text = dated(time, { ...clock, ...(step < 60 && { second: "2-digit" }), ...(step < 1 && { fractionalSecondDigits: step < 0.01 ? 3 : step < 0.1 ? 2 : 1 }) });
    return (n === first && !isToday(time)) || (n > first && isMidnight(time)) ? `${text}\n${dated(time, day)}` : text;
  });
}

export class Chart {
  // `kind` is "line", "area" or "bar"; `alert` is { limit, is_above } or null; `shown()` is called when it comes onto the screen, and `picked(time)` when a point of a line is chosen; `selects`: whether a time is selected.
  constructor({ title, unit, kind, alert, shown, selects, picked }) {
    Object.assign(this, { title, unit, kind, alert, shown, selects, picked, colours: new Map(), palette: null, wanted: null, drawn: null, uPlot: null, plot: null, isSeen: false, isClosed: false, at: null, held: null, anchor: null });
    this.area = el("div", { class: "chart-area", tabindex: "0", role: "slider", "aria-label": title, "aria-roledescription": words.chart.role, "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0, onkeydown: (event) => this.key(event), onfocus: () => this.drawn && this.point(this.drawn.xs[Math.max(0, this.at ?? this.drawn.xs.length - 1)]), onblur: () => this.leave() });
    this.moment = el("p", { class: "chart-moment", "aria-hidden": "true", hidden: true });
    this.legend = el("ul", { class: "chart-legend", "aria-label": words.chart.legend, hidden: true });
    this.node = el("div", { class: selects ? "chart selects" : "chart" }, el("div", { class: "chart-box" }, this.area, this.moment), this.legend);
    this.area.addEventListener("click", () => this.pick(this.at));
    charts.set(this.area, this);
    coloured.add(this);
    sizes.observe(this.area);
    sights.observe(this.area);
  }

  // `data`: { series: [{ name, now }], the greatest first; make(series) returns their { xs, values }; more: what stands below the legend; step: seconds of a bar; axis: its beginning and end }.
  draw(data) {
    this.wanted = data;
    this.schedule();
  }

  schedule() {
    if (this.isSeen && this.wanted !== null) later(this);
  }

  seen(isSeen) {
    this.isSeen = isSeen;
    this.schedule();
    if (isSeen) this.shown();
  }

  close() {
    this.isClosed = true;
    due.delete(this);
    coloured.delete(this);
    sizes.unobserve(this.area);
    sights.unobserve(this.area);
    this.plot?.destroy();
  }

  colour(name) {
    if (this.palette === null) {
      const style = getComputedStyle(this.node);
      this.palette = { style: (one) => style.getPropertyValue(one).trim(), font: `11px ${style.fontFamily}` };
      const root = this.node.getRootNode();
      themes.observe(root.host ?? document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    }
    return this.palette.style(name);
  }

  // The colour of a group, and the dashes of the ninth and later ones: the first that is free.
  colourOf(name) {
    let n = this.colours.get(name) ?? 0;
    if (!this.colours.has(name)) for (const taken = new Set(this.colours.values()); taken.has(n); ) n += 1;
    this.colours.set(name, n);
    return [COLOURS[n % COLOURS.length], DASH[Math.floor(n / COLOURS.length) % DASH.length]];
  }

  recolour() {
    this.plot?.redraw(false, true);
  }

  render() {
    const { clientWidth: width, clientHeight: height } = this.area;
    if (this.isClosed || width < 60 || height < 40) return;
    if (this.uPlot === null) return void loaded().then((uPlot) => {
      this.uPlot = uPlot;
      this.schedule();
    });
    const { wanted } = this, { xs, values } = wanted.make(wanted.series), series = wanted.series.map((one, n) => ({ ...one, values: values[n] }));
    for (const name of [...this.colours.keys()]) if (!series.some((one) => one.name === name)) this.colours.delete(name);
    for (const { name } of series) this.colourOf(name);
    const rows = series.toSorted((a, b) => (a.name < b.name ? -1 : 1)), isStacked = this.kind === "bar" && rows.length > 1, data = [xs, ...(isStacked ? stacked(rows) : rows.map((one) => one.values))];
    const names = JSON.stringify(rows.map(({ name }) => name));
    this.drawn = { ...wanted, xs, series, rows: isStacked ? rows.toReversed() : rows };
    if (this.names !== names) {
      this.names = names;
      this.plot?.destroy();
      this.plot = new this.uPlot(this.options(width, height), data, this.area);
    } else {
      if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
      this.plot.setData(data);
    }
    if (this.held === null) this.pointed();
    else this.point(this.held);
  }

  options(width, height) {
    const { kind, uPlot } = this, { quiet, line } = { quiet: () => this.colour("--quiet"), line: () => this.colour("--line") };
    const paths = kind === "bar" ? uPlot.paths.bars({ size: [0.85, 40, 1], radius: 0.08 }) : uPlot.paths.stepped({ align: 1 }), isAlone = this.drawn.rows.length === 1;
    const series = this.drawn.rows.map(({ name }) => {
      const [variable, dash] = this.colourOf(name), stroke = () => this.colour(variable);
      return { label: name, stroke, fill: kind === "bar" ? stroke : kind === "area" && isAlone ? () => this.colour("--accent-soft") : undefined, width: kind === "bar" ? 0 : 1.75, dash, paths, points: { show: kind !== "bar" && this.drawn.xs.length < 2 } };
    });
    this.colour("--ink");
    const axis = { stroke: quiet, font: this.palette.font, ticks: { show: false }, gap: 4 };
    return {
      width, height, series: [{}, ...series], padding: [8, 10, 0, 0], legend: { show: false },
      cursor: { y: false, dataIdx: (_, n, near, time) => (kind === "bar" ? near : Math.max(0, this.indexAt(time))), drag: { x: this.selects, y: false, setScale: false, dist: LEAST }, points: { show: kind !== "bar", size: 6 }, sync: { key: "time", setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } } },
      scales: { x: { range: () => this.drawn.axis }, y: { range: (_, least, most) => this.range(least, most) } },
      axes: [
        { ...axis, grid: { show: false }, space: 64, size: () => (isToday(this.drawn.axis[0]) ? 20 : 34), values: (plot, splits, n, space, step) => dates(splits, step, this.drawn.axis, plot.bbox.width / devicePixelRatio || Infinity) },
        { ...axis, grid: { stroke: line, width: 1 }, space: height > 220 ? 44 : 24, size: (plot, values) => 12 + Math.max(0, ...(values ?? []).map((text) => measured(plot, text, this.palette.font))), values: (_, splits) => splits.map((n, at) => amount(n, this.unit === "s" || at === splits.length - 1 ? this.unit : "")) },
      ],
      hooks: { setCursor: [() => this.pointed()], setSelect: [(plot) => this.selected(plot)], draw: [(plot) => this.limit(plot), (plot) => this.mark(plot)] },
    };
  }

  // From zero, with room above; a limit that is near is seen.
  range(least, most) {
    const { limit } = this.alert ?? { limit: 0 }, low = Math.min(0, least ?? 0), high = Math.max(0, most ?? 0), isNear = limit <= 3 * (high || limit) && limit >= 3 * low;
    const [from, to] = isNear ? [Math.min(low, limit), Math.max(high, limit)] : [low, high];
    return [from * 1.08, to * 1.08 || (from === 0 ? 1 : 0)];
  }

  // The limit of the alert, with a triangle on the side where values are beyond it.
  limit({ ctx, bbox, valToPos, scales }) {
    const { alert } = this;
    if (alert === null || alert.limit > scales.y.max || alert.limit < scales.y.min) return;
    const y = Math.round(valToPos(alert.limit, "y", true)), right = bbox.left + bbox.width, size = 5 * devicePixelRatio, up = alert.is_above ? -size : size;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = this.colour("--bad");
    ctx.lineWidth = 1.25 * devicePixelRatio;
    ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(right, y);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(right, y);
    ctx.lineTo(right + 2 * size, y);
    ctx.lineTo(right + size, y + 1.6 * up);
    ctx.fill();
    ctx.restore();
  }

  // A line at each noted moment, with its text where there is room.
  mark({ ctx, bbox, valToPos, scales }) {
    const right = bbox.left + bbox.width, ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    Object.assign(ctx, { strokeStyle: this.colour("--quiet"), fillStyle: this.colour("--quiet"), lineWidth: ratio, font: `${11 * ratio}px ${this.palette.font.slice(5)}`, textBaseline: "top", textAlign: "left" });
    ctx.setLineDash([2 * ratio, 3 * ratio]);
    const shown = marks.filter(({ time }) => time >= scales.x.min && time <= scales.x.max).map(({ time, text }) => [Math.round(valToPos(time, "x", true)), text]);
    let free = bbox.left; // the end of the last text
    shown.forEach(([x, text], n) => {
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const { width } = ctx.measureText(text), gap = 3 * ratio, isRoom = (from, to) => width + 2 * gap < to - from;
      const at = isRoom(x, shown[n + 1]?.[0] ?? right) ? x + gap : isRoom(Math.max(free, shown[n - 1]?.[0] ?? 0), x) ? x - gap - width : null;
      if (at === null) return;
      free = at + width;
      ctx.fillText(text, at, bbox.top + 2 * ratio);
    });
    ctx.restore();
  }

  // The time of the crosshair, and the values of that moment; without it, the last ones.
  pointed() {
    const { drawn, plot } = this, time = plot && plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left + 1, "x") : null, at = time === null ? null : this.indexAt(time), isAlone = drawn.series.length === 1;
    const value = (values, n) => (values[n] === null || values[n] === undefined ? "–" : amount(values[n], this.unit));
    this.at = at;
    show(this.moment, at !== null);
    const when = at === null ? "" : drawn.step > 0 ? this.timeAt(at) : moment(time);
    if (at !== null) setText(this.moment, isAlone ? `${when} · ${value(drawn.series[0].values, at)}` : when);
    const short = (n) => (n === null || n === undefined ? "–" : amount(n, this.unit === "s" ? "s" : "")); // the axis has the unit
    const shown = drawn.series.map(({ name, values, now }) => [name, short(at === null ? now : values[at])]);
    show(this.legend, !isAlone);
    if (!isAlone) this.explain(shown);
    const read = Math.max(0, at ?? drawn.xs.length - 1);
    if (!this.area.matches(":focus") && this.area.hasAttribute("aria-valuetext") && at !== null) return;
    for (const [name, text] of [["aria-valuemax", drawn.xs.length - 1], ["aria-valuenow", read], ["aria-valuetext", [this.timeAt(read), ...drawn.series.map(({ name, values }) => `${name} ${value(values, read)}`.trim())].join(", ")]]) this.area.setAttribute(name, text);
  }

  // The bar at a time; of a line the last point until then, or -1 before the first: it holds until the next one.
  indexAt(time) {
    const { xs, step } = this.drawn;
    if (step > 0) return Math.max(0, Math.min(xs.length - 1, Math.round((time - xs[0]) / step)));
    return xs.findLastIndex((x) => x <= time);
  }

  explain(shown) {
    const items = shown.map(([name, text]) => {
      const swatch = el("span", { class: "chart-swatch" }), [variable, dash] = this.colourOf(name);
      swatch.style.background = dash.length > 0 ? `repeating-linear-gradient(90deg, var(${variable}) 0 4px, transparent 4px 6px)` : `var(${variable})`;
      return el("li", { "data-key": name, title: name }, swatch, el("span", { class: "chart-name", text: name }), el("span", { class: "chart-value", text }));
    });
    morph(this.legend, [...items, ...this.drawn.more.map((node) => el("li", { class: "chart-more", "data-key": "" }, node.cloneNode(true)))]);
  }

  timeAt(n) {
    const { xs, step } = this.drawn, time = xs[n] ?? 0;
    if (step === 86_400) return moment(time - step / 2, step);
    return step > 0 ? `${moment(time - step / 2, step)}–${dated(time + step / 2, step >= 86_400 ? day : clock)}` : moment(time);
  }

  // A time was dragged over.
  selected(plot) {
    const { left, width } = plot.select;
    if (width < LEAST) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.wasDragged = true;
    this.emit("range", plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  }

  emit(type, since, until) {
    this.node.dispatchEvent(new CustomEvent(type, { detail: { since, until }, bubbles: true, composed: true }));
  }

  // The click after a drag is none.
  pick(at) {
    const { wasDragged, drawn } = this;
    this.wasDragged = false;
    if (wasDragged || at === null || drawn === null) return;
    if (drawn.step > 0) this.emit("pick", drawn.xs[at] - drawn.step / 2, drawn.xs[at] + drawn.step / 2);
    else if (at >= 0) this.picked(drawn.xs[at]);
  }

  // Move the crosshair to a moment, and hold it there. From the `anchor`, another moment, a time is selected.
  point(time) {
    const { plot, anchor } = this, x = (at) => plot.valToPos(at, "x");
    if (!plot) return;
    this.held = time;
    plot.setCursor({ left: x(time), top: 0 }, true, true);
    const [from, to] = anchor === null ? [0, 0] : [x(anchor), x(time)].sort((a, b) => a - b);
    plot.setSelect({ left: from, top: 0, width: to - from, height: to > from ? plot.over.clientHeight : 0 }, false);
  }

  leave() {
    this.anchor = this.held = null;
    this.plot?.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.plot?.setCursor({ left: -10, top: -10 }, true, true);
  }

  key(event) {
    const { plot, drawn, anchor } = this, by = STEPS[event.key], isUsed = by !== undefined || event.key === "Enter" || (event.key === "Escape" && anchor !== null);
    if (event.altKey || event.ctrlKey || event.metaKey || !plot || !isUsed || drawn.xs.length === 0) return;
    event.preventDefault();
    const last = drawn.xs.length - 1, at = Math.max(0, this.at ?? last), now = drawn.xs[at], half = drawn.step / 2;
    if (by !== undefined) {
      this.anchor = event.shiftKey && this.selects ? anchor ?? now : null;
      return this.point(drawn.xs[Math.max(0, Math.min(last, at + by))]);
    }
    this.anchor = null;
    this.point(now);
    if (event.key === "Enter" && anchor !== null && anchor !== now) this.emit("range", Math.min(anchor, now) - half, Math.max(anchor, now) + half);
    else if (event.key === "Enter") this.pick(at);
  }

  // The chart with its title and its legend, as a picture.
  picture() {
    const { canvas } = this.plot.ctx, scale = devicePixelRatio, shown = this.legend.hidden ? [] : [...this.legend.querySelectorAll("[title]")], top = 34 * scale, row = 18 * scale, made = el("canvas"), ctx = made.getContext("2d");
    made.width = canvas.width + 20 * scale;
    made.height = canvas.height + top + (shown.length + 1) * row;
    ctx.fillStyle = this.colour("--surface");
    ctx.fillRect(0, 0, made.width, made.height);
    const write = (text, x, y, weight = 400) => {
      ctx.fillStyle = this.colour("--ink");
      ctx.font = `${weight} ${12 * scale}px ${getComputedStyle(this.node).fontFamily}`;
      ctx.fillText(text, x, y);
    };
    write(this.title, 12 * scale, 22 * scale, 600);
    ctx.drawImage(canvas, 10 * scale, top);
    shown.forEach((item, n) => {
      const y = canvas.height + top + (n + 1) * row, [variable] = this.colourOf(item.dataset.key);
      ctx.fillStyle = this.colour(variable);
      ctx.fillRect(12 * scale, y - 9 * scale, 12 * scale, 9 * scale);
      write(`${item.querySelector(".chart-name").textContent}  ${item.querySelector(".chart-value").textContent}`, 32 * scale, y);
    });
    return new Promise((done) => made.toBlob(done, "image/png"));
  }
}

// Bars that stand on each other: the sums so far, the greatest first, so that each is seen before those below it.
function stacked(rows) {
  let sums = rows[0].values.map(() => 0);
  return rows.map(({ values }) => (sums = sums.map((sum, n) => sum + (values[n] ?? 0)))).toReversed();
}

function measured({ ctx }, text, font) {
  ctx.save();
  ctx.font = font;
  const { width } = ctx.measureText(text);
  ctx.restore();
  return width;
}

// Courses of groups at the same moments: each keeps its value until its next one. More moments than `most` become steps that keep the least, the greatest and the last value.
export function aligned(courses, most) {
  const xs = [...new Set(courses.flatMap((course) => course.map(([time]) => time)))].sort((a, b) => a - b);
  const held = courses.map((course) => {
    let at = 0, last = null;
    return xs.map((time) => {
      for (; at < course.length && course[at][0] <= time; at += 1) last = course[at][1];
      return last;
    });
  });
  if (xs.length <= most) return [xs, held];
  const step = Math.ceil((3 * xs.length) / most), parts = [];
  for (let from = 0; from < xs.length; from += step) parts.push([from, Math.min(from + step, xs.length)]);
  const extremes = (values) => parts.flatMap(([from, to]) => {
    const part = values.slice(from, to).filter((n) => n !== null), least = Math.min(...part), greatest = Math.max(...part);
    return part.length === 0 ? [null, null, null] : part.indexOf(least) < part.indexOf(greatest) ? [least, greatest, part.at(-1)] : [greatest, least, part.at(-1)];
  });
  return [parts.flatMap(([from, to]) => [xs[from], (xs[from] + xs[to - 1]) / 2, xs[to - 1]]), held.map(extremes)];
}
