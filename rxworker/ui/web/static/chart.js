// One chart, drawn with uPlot (https://github.com/leeoniya/uPlot) in the colours of the page.

import { marksOf, markText, spanFor } from "./axis.js";

const HEIGHT = 92, LEAST = 280;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function line(colour, fill = null) {
  const paths = globalThis.uPlot.paths.stepped({ align: 1 });
  return { paths, stroke: () => css(colour), width: 1.75, points: { show: false }, ...(fill && { fill: () => css(fill) }) };
}

function axis(extra) {
  const grid = { stroke: () => css("--line"), width: 1 };
  return { stroke: () => css("--quiet"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif", gap: 4, ...extra };
}

export class Chart {
  // `least` is the least that the upper end of the scale may be, `blank` what it is without data; `show` writes a number of it.
  constructor(node, lines, { least = 0, blank, show }) {
    this.node = node;
    this.span = spanFor(0);
    const numbers = (_, marks) => marks.map((n) => (n === 0 ? "0" : show(n)));
    const scale = (_, _low, high) => [0, high > 0 ? Math.max(least, high * 1.12) : blank];
    const marks = () => marksOf(this.span);
    const options = {
      width: node.clientWidth || LEAST, height: HEIGHT, series: [{}, ...lines], legend: { show: false }, cursor: { show: false }, padding: [6, 14, 0, 0],
      scales: { x: { time: false, range: () => [0, this.span[0]] }, y: { range: scale } },
      axes: [axis({ size: 22, splits: marks, values: (_, at) => at.map(markText), grid: { show: false } }), axis({ size: 52, values: numbers, space: 28 })],
    };
    this.plot = new globalThis.uPlot(options, [[0], ...lines.map(() => [0])], node);
    new ResizeObserver(() => {
      if (node.clientWidth > 0) this.plot.setSize({ width: node.clientWidth, height: HEIGHT });
    }).observe(node);
  }

  set(data, elapsed) {
    this.span = spanFor(elapsed);
    this.plot.setData(data);
  }

  recolour() {
    this.plot.redraw(false, true);
  }
}
