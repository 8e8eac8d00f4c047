// A chart of what was taken in each minute or hour, drawn with uPlot in the colours of the page.

import { axis, Plot } from "./charts.js";
import { locale } from "../model/language.js";

const HEIGHT = 132;
const CLOCK = { hour: "2-digit", minute: "2-digit", hour12: false }, DAY = { weekday: "short", day: "numeric" };

export class Bars extends Plot {
  // `show` formats a number.
  constructor(node, lines, format) {
    const scale = (_, _low, high) => [0, Math.max(4, high * 1.12)];
    const clock = (value) => new Date(value * 1000).toLocaleTimeString(locale, CLOCK), day = (value) => new Date(value * 1000).toLocaleDateString(locale, DAY);
    const times = (_, values) => values.map((value, at) => (values[1] - values[0] >= 86_400 || (at && clock(value) === "00:00") ? day(value) : clock(value)));
    const marks = (_, values) => values.map((value) => (value === 0 ? "0" : format(value)));
    super(node, HEIGHT, lines, {
      scales: { x: { range: () => this.span }, y: { range: scale } },
      axes: [axis({ size: 22, values: times, grid: { show: false } }), axis({ size: 52, values: marks, space: 28 })],
    });
    this.span = [0, 1];
  }

  // Steps from `since` to `now`; where there is no point, the value is 0.
  show(points, names, since, now, width) {
    this.span = [since, now];
    const known = new Map(points.map((point) => [point.since, point])), times = [];
    for (let at = Math.floor(since / width) * width; at <= now; at += width) times.push(at);
    const rows = names.map((name) => times.map((at) => known.get(at)?.[name] ?? 0));
    this.set([[...times, now], ...rows.map((row) => [...row, row.at(-1)])]);
  }
}
