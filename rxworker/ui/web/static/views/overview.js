// The overview of a long trace: all of it in one strip, on which a window is drawn that shows what the axis shows.
//
// Above are turns and requests, in the middle what the model has written, below the tools; what has failed and what a search has found are marked. Dragging draws a window, its
// ends are moved, and so is the window itself; a click leads to the rows of that time. It is a slider for the keyboard: arrows move the window, + and - zoom.

import { el, setText, show } from "./dom.js";
import { precise } from "../model/format.js";
import { fill, words } from "../model/language.js";

const REST = 250; // milliseconds between two drawings of a running run
const EDGE = 8, LEAST = 4; // pixels: what takes an end of the window, and what is a click
const BANDS = { span: [0, 5], block: [7, 8], call: [17, 9], found: [28, 4] }; // from the top, and height

export class Overview {
  constructor(lanes) {
    this.lanes = lanes;
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.part = el("span", { class: "overview-part", "aria-hidden": "true" });
    this.bar = el("div", { class: "overview-bar", role: "slider", tabindex: "0", "aria-label": words.trace.overview, "aria-valuemin": "0", onkeydown: (event) => this.key(event), ondblclick: () => lanes.fit() }, this.canvas, this.part);
    this.text = el("span", { class: "overview-text", "aria-hidden": "true" });
    this.node = el("div", { class: "overview", hidden: true }, this.text, this.bar);
    this.timer = null;
    this.dragging();
    new ResizeObserver(() => this.draw()).observe(this.bar);
  }

  // The end of the strip, in seconds.
  get end() {
    return this.lanes.limits()[0];
  }

  timeAt(x) {
    const { left, width } = this.bar.getBoundingClientRect();
    return Math.max(0, Math.min(1, (x - left) / (width || 1))) * this.end;
  }

  dragging() {
    const { bar, lanes } = this;
    let drag = null; // { x, move(time): the window }
    bar.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      drag = { x: event.clientX, isMoved: false, move: this.grip(event.clientX) };
      bar.setPointerCapture(event.pointerId);
    });
    bar.addEventListener("pointermove", (event) => {
      if (drag === null || (!drag.isMoved && Math.abs(event.clientX - drag.x) < LEAST)) return;
      drag.isMoved = true;
      this.show(drag.move(this.timeAt(event.clientX)));
    });
    bar.addEventListener("pointerup", (event) => {
      if (drag !== null && !drag.isMoved) lanes.seek(this.timeAt(event.clientX));
      drag = null;
    });
    bar.addEventListener("pointercancel", () => (drag = null));
  }

  // What a drag from here does: it moves an end of the window, or the window, or draws another one.
  grip(x) {
    const [from, to] = this.lanes.shown(), at = this.timeAt(x), edge = (EDGE / (this.bar.clientWidth || 1)) * this.end;
    if (this.lanes.window !== null) {
      if (Math.abs(at - from) < edge) return (time) => [time, to];
      if (Math.abs(at - to) < edge) return (time) => [from, time];
      if (at > from && at < to) return (time) => {
        const start = Math.max(0, Math.min(from + time - at, this.end - (to - from)));
        return [start, start + to - from];
      };
    }
    return (time) => [at, time];
  }

  show(window) {
    this.lanes.frame(Math.min(...window), Math.max(...window));
    this.lanes.seek(this.lanes.shown()[0]);
  }

  key(event) {
    const { lanes } = this, zoom = (by) => () => lanes.zoom(by), pan = (by) => () => lanes.pan(by);
    const acts = { ArrowLeft: pan(-0.2), ArrowRight: pan(0.2), PageDown: pan(1), PageUp: pan(-1), Home: pan(-1e9), End: pan(1e9), ArrowUp: zoom(0.5), "+": zoom(0.5), ArrowDown: zoom(2), "-": zoom(2), 0: () => lanes.fit() };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
    lanes.seek(lanes.shown()[0]);
  }

  // Draw it when it has rested.
  soon() {
    this.timer ??= setTimeout(() => this.draw(), REST);
  }

  draw() {
    clearTimeout(this.timer);
    this.timer = null;
    const { lanes, canvas, bar } = this, { window } = lanes;
    show(this.node, lanes.isLong || (window !== null && lanes.rows.length > 0));
    if (this.node.hidden) return;
    const { end } = this, [from, to] = lanes.shown(), ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    this.part.style.left = `${(100 * from) / end}%`;
    this.part.style.width = `${(100 * (to - from)) / end}%`;
    show(this.part, window !== null);
    const range = fill(words.trace.range, { from: precise(from), to: precise(to) });
    setText(this.text, range);
    bar.setAttribute("aria-valuemax", end);
    bar.setAttribute("aria-valuenow", from);
    bar.setAttribute("aria-valuetext", range);
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    const pen = canvas.getContext("2d"), style = getComputedStyle(bar), colours = new Map(), scale = width / end;
    pen.scale(ratio, ratio);
    const paint = (name, [top, high], at, length, least = 1) => {
      if (!colours.has(name)) colours.set(name, style.getPropertyValue(`--${name}`));
      pen.fillStyle = colours.get(name);
      pen.fillRect(at * scale, top, Math.max(least, length * scale), high);
    };
    for (const row of lanes.rows) {
      if (row.thing === null) continue;
      const { kind, type } = row.thing, name = kind === "call" ? "tool" : kind === "block" ? (type === "text" || type === "thinking" ? type : "other") : "line-strong";
      for (const [bar, at, length] of row.bars(lanes.time)) if (bar !== "wait" && (kind !== "call" || bar === "ran")) paint(row.isFailed ? "bad" : name, BANDS[kind], at, length);
    }
    for (const row of lanes.found) paint(row === lanes.here ? "ink" : "accent", BANDS.found, row.begins, 0, row === lanes.here ? 3 : 2);
  }
}
