// Charts of tokens, cost and output rate. The text beside a chart contains its key figures.
// One chart, drawn with uPlot (https://github.com/leeoniya/uPlot) in the colours of the page. The library is loaded after the first frame.
// The data of a timeline for the charts is computed by pure functions.

import { byId, el, setText, show } from "./dom.js";
import { money, plural, short } from "../model/format.js";
import { costOf } from "../model/run_state.js";
import { Timeline, marksOf, markText, spanFor } from "../model/timeline.js";
import { fill, words } from "../model/language.js";

const REST = 300; // milliseconds between two redraws
const TAIL = 0.015; // part of the axis after the last total: a step at the very end would be invisible
const whole = (n) => (Number.isInteger(n) ? short(n) : "");

export class ChartsView {
  constructor() {
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.tokens = new Chart(byId("tokens-chart"), [["--input"], ["--accent"]], { least: 4, blank: 4, show: whole });
    this.cost = new Chart(byId("cost-chart"), [["--accent", "--accent-soft"]], { blank: 0.01, show: (n) => String(Number(n.toPrecision(3))) });
    this.rate = new Chart(byId("rate-chart"), [["--accent", "--accent-soft"]], { least: 4, blank: 4, show: whole });
    this.open(new Timeline());
  }

  open(timeline) {
    this.timeline = timeline;
    this.drawn = -Infinity;
    this.shown = "";
  }

  recolour() {
    for (const chart of [this.tokens, this.cost, this.rate]) chart.recolour();
  }

  // `figures`: { usage, cost, currency, prices, isEstimate }
  draw(now, figures) {
    const { prices } = figures;
    this.showFigures(figures);
    this.asked = [now, prices];
    clearTimeout(this.later);
    const time = performance.now(), rest = this.drawn + (this.still.matches ? 4 * REST : REST) - time;
    if (rest > 0 && this.timeline.isRunning) {
      this.later = setTimeout(() => this.paint(...this.asked), rest);
      return;
    }
    this.drawn = time;
    this.paint(now, prices);
  }

  paint(now, prices) {
    const { timeline } = this, elapsed = timeline.elapsed(now);
    const state = `${timeline.runs.map((run) => run.series.version)} ${elapsed} ${prices === null}`;
    show(byId("cost-figure"), prices !== null);
    if (state === this.shown) return;
    this.shown = state;
    const end = elapsed + TAIL * spanFor(elapsed)[0], rows = usageRows(timeline, end);
    this.tokens.set(tokenData(rows), elapsed);
    if (prices !== null) this.cost.set(costData(rows, prices), elapsed);
    this.rate.set(rateData(timeline, end), elapsed);
  }

  showFigures({ usage, cost, currency, isEstimate }) {
    const { run } = this.timeline, about = (text) => (isEstimate ? fill(words.numbers.about, { text }) : text);
    const { read, written, cached, thinking } = words.charts;
    const parts = [["input", usage.input_tokens, read], ["written", usage.output_tokens, written], ["", usage.cache_read_tokens, cached], ["", usage.reasoning_tokens, thinking]];
    const known = parts.filter(([key, n]) => (key ? typeof n === "number" : n));
    const text = about(known.map(([, n, text]) => plural(text, n)).join(" · "));
    const caption = byId("tokens-caption");
    if (text === "") setText(caption, run === null ? "" : this.timeline.isRunning ? words.charts.none : words.charts.unknown);
    else if (caption.textContent !== text) {
      const spans = known.map(([key, n, text]) => el("span", { class: key ? `key ${key}` : null, text: plural(text, n) }));
      caption.replaceChildren(...(isEstimate ? [about("")] : []), ...spans.flatMap((span, n) => (n ? [" · ", span] : [span])));
    }
    setText(byId("cost-title"), currency ? fill(words.charts.costIn, { currency }) : words.charts.cost);
    setText(byId("cost-caption"), cost === null ? "" : about(money(cost)));
    setText(byId("rate-caption"), run ? plural(words.charts.rate, Math.round(peakRate(this.timeline))) : "");
  }
}

const HEIGHT = 92, LEAST = 280;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const LIBRARY = new URL("../vendor/uplot/uPlot.iife.min.js", import.meta.url);
const frame = () => new Promise(requestAnimationFrame);
let last = null; // the chart that is made last

async function load() {
  await frame();
  await new Promise((loaded) => setTimeout(() => document.head.append(el("script", { src: LIBRARY, onload: loaded }))));
}

// Each chart is made in a frame of its own.
function inTurn(make) {
  last = (last ?? load()).then(frame).then(make);
}

function line([colour, fill = null]) {
  const paths = globalThis.uPlot.paths.stepped({ align: 1 });
  return { paths, stroke: () => css(colour), width: 1.75, points: { show: false }, ...(fill && { fill: () => css(fill) }) };
}

export function axis(extra) {
  const grid = { stroke: () => css("--line"), width: 1 };
  return { stroke: () => css("--quiet"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif", gap: 4, ...extra };
}

// What is drawn at a node, as soon as the library is there. A line is a colour, and perhaps one for the area below it.
export class Plot {
  constructor(node, height, lines, options) {
    this.plot = null;
    this.data = [[0], ...lines.map(() => [0])];
    inTurn(() => {
      const size = () => ({ width: node.clientWidth || LEAST, height });
      const series = [{}, ...lines.map(line)];
      this.plot = new globalThis.uPlot({ ...size(), series, legend: { show: false }, cursor: { show: false }, padding: [6, 14, 0, 0], ...options }, this.data, node);
      new ResizeObserver(() => {
        if (node.clientWidth > 0) this.plot.setSize(size());
      }).observe(node);
    });
  }

  set(data) {
    this.data = data;
    this.plot?.setData(data);
  }

  recolour() {
    this.plot?.redraw(false, true);
  }
}

class Chart extends Plot {
  // `least` is the minimum upper end of the scale, `blank` the upper end without data; `show` formats a number.
  constructor(node, lines, { least = 0, blank, show }) {
    const numbers = (_, marks) => marks.map((n) => (n === 0 ? "0" : show(n)));
    const scale = (_, _low, high) => [0, high > 0 ? Math.max(least, high * 1.12) : blank];
    const marks = () => marksOf(this.span);
    super(node, HEIGHT, lines, {
      scales: { x: { time: false, range: () => [0, this.span[0]] }, y: { range: scale } },
      axes: [axis({ size: 22, splits: marks, values: (_, at) => at.map(markText), grid: { show: false } }), axis({ size: 52, values: numbers, space: 28 })],
    });
    this.span = spanFor(0);
  }

  set(data, elapsed) {
    this.span = spanFor(elapsed);
    super.set(data);
  }
}

const CHARACTERS = 4; // approximate characters in a token

// The usage at each moment at which it was reported, from the beginning to `end`.
export function usageRows(timeline, end) {
  const rows = [[0, null]];
  for (const run of timeline.runs) for (const [time, usage] of run.series.tokens) rows.push([timeline.place(run, time), usage]);
  const [last, usage] = rows[rows.length - 1];
  if (end > last) rows.push([end, usage]);
  return rows;
}

export function tokenData(rows) {
  const values = (name) => rows.map(([, usage]) => usage?.[name] ?? 0);
  return [rows.map(([at]) => at), values("input_tokens"), values("output_tokens")];
}

export function costData(rows, prices) {
  return [rows.map(([at]) => at), rows.map(([, usage]) => (usage === null ? 0 : costOf(prices, usage)))];
}

// Tokens per second, as steps.
export function rateData(timeline, end) {
  const times = [0], values = [0];
  for (const run of timeline.runs) {
    const { series } = run;
    if (series.start === null) continue;
    const begins = timeline.place(run, series.start), ends = run === timeline.run ? end : timeline.place(run, run.last);
    const at = (n) => Math.min(begins + n * series.width, ends);
    series.bins.forEach((size, n) => {
      times.push(at(n));
      values.push(size / CHARACTERS / series.width);
    });
    times.push(at(series.bins.length), ends);
    values.push(0, 0);
  }
  return [times, values];
}

export function peakRate(timeline) {
  let peak = 0;
  for (const { series } of timeline.runs) for (const size of series.bins) peak = Math.max(peak, size / CHARACTERS / series.width);
  return peak;
}
