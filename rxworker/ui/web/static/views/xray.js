// X-ray: the operators of a panel as a graph, in the order in which items go through them: what each emits, how fast, how late, its last items as marbles, and its error.
//
// Theory of operation. Nothing is counted before the button is pressed. Each operator is a row; the lines between them are drawn in a column at the left, as those of branches
// are in a history of versions: an operator is below the first that it receives items from, and a branch has a column of its own until it is joined.

import { el, setText, show } from "./dom.js";
import { amount, plural } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { BoardSource } from "../net/board.js";

const SVG = "http://www.w3.org/2000/svg", STEP = 14, COLUMNS = 8, MAX = 60, SHORT = 6; // pixels, columns, operators, characters

export class XRayView {
  constructor(server, board, panel) {
    this.title = panel.title;
    this.list = el("ol", { class: "xray-list" });
    this.note = el("p", { class: "board-none", role: "status" });
    this.node = el("div", { class: "xray", role: "group", "aria-label": fill(words.xray.of, panel), hidden: true }, this.note, this.list);
    this.button = el("button", { class: "xray-button", type: "button", text: words.xray.show, title: words.xray.help, "aria-expanded": "false", onclick: () => this.toggle() });
    this.source = new BoardSource(server, board, { states: (states) => this.draw(states), problem: (problem) => this.problem(problem) }, {}, panel.name);
    Object.assign(this, { query: null, time: null, isOpen: false });
  }

  toggle() {
    this.isOpen = !this.isOpen;
    this.button.setAttribute("aria-expanded", String(this.isOpen));
    show(this.node, this.isOpen);
    this.node.parentNode.toggleAttribute("data-xray", this.isOpen);
    this.follow();
  }

  // What is looked at; `query` is null if nothing is.
  show(query, time) {
    Object.assign(this, { query, time });
    this.follow();
  }

  follow() {
    const { query, time, source } = this;
    source.close();
    if (!this.isOpen || query === null) return;
    if (this.list.childElementCount === 0) this.say(words.xray.waiting);
    if (time === null) source.follow(query);
    else source.at(query, time);
  }

  close() {
    this.source.close();
  }

  problem(problem) {
    if (problem !== null) this.say(problem.status ? problem.message : words.board.lost);
  }

  say(text) {
    setText(this.note, text);
    show(this.note, text !== "");
  }

  draw(states) {
    const all = states.at(-1)?.operators ?? [], shown = all.slice(0, MAX), lines = linesOf(shown), names = shown.map(({ name }, n) => (n === 0 ? words.xray.source : name));
    const times = shown.flatMap(({ last }) => last.map(([time]) => time)), begin = Math.min(...times), end = Math.max(...times);
    this.list.replaceChildren(...shown.map((operator, n) => el("li", { class: "xray-operator", "data-error": operator.error ? "yes" : null }, lines[n], box(operator, names, begin, end))));
    this.say(all.length > MAX ? plural(words.xray.more, all.length - MAX) : "");
  }
}

function box({ id, name, within, inputs, items, rate, lag, micros, last, error }, names, begin, end) {
  const { xray } = words, figures = [plural(xray.items, items), fill(xray.rate, { n: amount(rate) })];
  if (id > 0 && lag !== null && lag > 0) figures.push(fill(xray.lag, { n: amount(lag * 1000) }));
  if (micros > 0) figures.push(fill(xray.micros, { n: amount(micros) }));
  const isPlain = inputs.length === 1 && inputs[0] === id - 1, from = inputs.map((n) => names[n] ?? "…").join(", ");
  return el("div", { class: "xray-box" },
    el("p", { class: "xray-name" }, el("code", { text: names[id] }), within.length > 0 ? el("span", { class: "xray-quiet", text: fill(xray.within, { names: within.join(" › ") }) }) : ""),
    inputs.length > 0 && !isPlain ? el("p", { class: "xray-quiet", text: fill(xray.from, { names: from }) }) : "",
    el("p", { class: "xray-figures", text: figures.join(" · ") }),
    last.length > 0 ? marbles(last, begin, end) : "",
    last.length > 0 ? el("p", { class: "xray-last", text: fill(xray.last, { value: last.at(-1)[1] }) }) : "",
    error ? el("p", { class: "board-error", text: error }) : "");
}

// The last items on the axis of time that all operators share: the newest, and older ones where there is room.
function marbles(last, begin, end) {
  const line = el("div", { class: "xray-line", "aria-hidden": "true" });
  let free = Infinity;
  for (const [time, text] of last.toReversed()) {
    const at = end > begin ? (100 * (time - begin)) / (end - begin) : 0;
    const mark = text.length <= SHORT ? text : /^[-\d]/.test(text) ? `${text.slice(0, SHORT - 1)}…` : text.slice(0, 1).toLowerCase();
    if (at > free - 4 - 3 * mark.length) continue;
    free = at;
    const marble = el("span", { class: "xray-marble", title: text, text: mark });
    marble.style.left = `${at}%`;
    line.append(marble);
  }
  return line;
}

// For each operator, the part of the lines that is beside it.
function linesOf(operators) {
  const columns = [], parts = operators.map(() => []), taken = new Set();
  let width = 1;
  operators.forEach(({ inputs }, n) => {
    const first = inputs.find((input) => input < n);
    const isBranch = first === undefined || taken.has(first);
    columns.push(n === 0 ? 0 : isBranch ? Math.min(width++, COLUMNS - 1) : columns[first]);
    if (first !== undefined) taken.add(first);
    for (const input of inputs) {
      if (input >= n) continue;
      const own = isBranch && input === first, column = own ? columns[n] : columns[input];
      parts[input].push([columns[input], 50, columns[input], 100]);
      let at = columns[input];
      for (let row = input + 1; row < n; row += 1) {
        parts[row].push([at, 0, column, 50], [column, 50, column, 100]);
        at = column;
      }
      parts[n].push([at, 0, columns[n], 50]);
    }
  });
  const wide = Math.min(width, COLUMNS) * STEP, x = (column) => column * STEP + STEP / 2;
  return parts.map((lines, n) => {
    const node = el("span", { class: "xray-lines", "aria-hidden": "true" }), dot = el("span", { class: "xray-dot" }), drawn = document.createElementNS(SVG, "svg"), path = document.createElementNS(SVG, "path");
    node.style.width = `${wide}px`;
    dot.style.left = `${x(columns[n])}px`;
    drawn.setAttribute("viewBox", `0 0 ${wide} 100`);
    drawn.setAttribute("preserveAspectRatio", "none");
    path.setAttribute("d", [...new Set(lines.map(([a, b, c, d]) => `M${x(a)} ${b}L${x(c)} ${d}`))].join(""));
    drawn.append(path);
    node.append(drawn, dot);
    return node;
  });
}
