// A chart of what was taken in each minute or hour, drawn with uPlot in the colours of the page.

import { axis } from "./charts.js";
import { locale } from "../model/language.js";

const HEIGHT = 132, LEAST = 280;
const CLOCK = { hour: "2-digit", minute: "2-digit", hour12: false }, DAY = { weekday: "short", day: "numeric" };

export class Bars {
  // `show` formats a number.
  constructor(node, lines, format) {
    this.span = [0, 1];
    const scale = (_, _low, high) => [0, Math.max(4, high * 1.12)];
    const clock = (value) => new Date(value * 1000).toLocaleTimeString(locale, CLOCK), day = (value) => new Date(value * 1000).toLocaleDateString(locale, DAY);
    const times = (_, values) => values.map((value, at) => (values[1] - values[0] >= 86_400 || (at && clock(value) === "00:00") ? day(value) : clock(value)));
    const marks = (_, values) => values.map((value) => (value === 0 ? "0" : format(value)));
    this.plot = new globalThis.uPlot({
      width: node.clientWidth || LEAST, height: HEIGHT, series: [{}, ...lines], legend: { show: false }, cursor: { show: false }, padding: [6, 14, 0, 0],
      scales: { x: { range: () => this.span }, y: { range: scale } },
      axes: [axis({ size: 22, values: times, grid: { show: false } }), axis({ size: 52, values: marks, space: 28 })],
    }, [[0], ...lines.map(() => [0])], node);
    new ResizeObserver(() => {
      if (node.clientWidth > 0) this.plot.setSize({ width: node.clientWidth, height: HEIGHT });
    }).observe(node);
  }

  // Steps from `since` to `now`; where there is no point, the value is 0.
  set(points, names, since, now, width) {
    this.span = [since, now];
    const known = new Map(points.map((point) => [point.since, point])), times = [];
    for (let at = Math.floor(since / width) * width; at <= now; at += width) times.push(at);
    const rows = names.map((name) => times.map((at) => known.get(at)?.[name] ?? 0));
    this.plot.setData([[...times, now], ...rows.map((row) => [...row, row.at(-1)])]);
  }

  recolour() {
    this.plot.redraw(false, true);
  }
}
