// The result of a tool, shown as what it is: text, a tree, a table, images, or a diff. A long one is folded, and can be searched.
//
// Found places are highlighted with the browser's highlights, which change no node.

import { attachmentNode } from "./attachments.js";
import { codeBlock, copyButton } from "./code.js";
import { el, GrowingText, setText, show } from "./dom.js";
import { JsonTree, written } from "./json_tree.js";
import { count, plural } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { recognise } from "../model/recognise.js";

const LINES = 24, CHARACTERS = 3_000; // a longer result is folded
const ROWS = 200; // rows that are shown at once
const MARKS = 2_000; // places that are highlighted

const isLong = (text) => text.length > CHARACTERS || text.split("\n", LINES + 1).length > LINES;

export class ResultView {
  constructor() {
    this.tools = el("div", { class: "result-bar" });
    this.body = el("div", { class: "result" });
    this.unfold = el("button", { type: "button", class: "result-more", hidden: true, onclick: () => this.fold(false) });
    this.node = el("div", { class: "result-part", hidden: true }, this.tools, this.body, this.unfold);
    this.text = "";
  }

  // Show the text of a result and, if it has other parts, these.
  fill(text, parts) {
    this.text = text;
    this.finding?.clear();
    const images = (parts ?? []).some((part) => part.type === "image");
    this.found = images ? { kind: "image" } : recognise(text);
    const kinds = { table: ["table", "json", "text"], json: ["json", "text"], diff: ["diff", "text"], image: ["image"], text: ["text"] }[this.found.kind];
    this.parts = parts;
    this.views = new Map();
    this.kinds = new Map(kinds.map((kind) => [kind, el("button", { type: "button", "aria-pressed": "false", text: words.result[kind], onclick: () => this.choose(kind) })]));
    this.finding = new Finding(this);
    const switches = kinds.length > 1 ? el("div", { class: "result-kinds", role: "group", "aria-label": words.result.kind }, ...this.kinds.values()) : null;
    const long = this.found.kind !== "image" && isLong(text);
    const find = long || kinds.length > 1 ? this.finding.node : null, copy = text === "" ? null : copyButton(() => text);
    if (find && copy) find.append(copy); // they share a line
    this.tools.replaceChildren(...[el("h4", { text: words.call.result }), switches, el("span", { class: "result-size", text: this.size() }), find, find ? null : copy].filter(Boolean));
    this.choose(kinds[0]);
    this.fold(long);
  }

  size() {
    const { kind, value } = this.found;
    if (kind === "table") return plural(words.result.rows, value.length);
    return kind === "image" ? "" : isLong(this.text) ? plural(words.result.characters, this.text.length) : "";
  }

  fold(isFolded) {
    this.body.classList.toggle("folded", isFolded);
    show(this.unfold, isFolded);
    setText(this.unfold, words.result.showAll);
    if (!isFolded && this.unfold.getRootNode().activeElement === this.unfold) this.body.querySelector("[tabindex]")?.focus();
  }

  choose(kind) {
    for (const [one, button] of this.kinds) button.setAttribute("aria-pressed", String(one === kind));
    if (!this.views.has(kind)) this.views.set(kind, this.make(kind));
    this.kind = kind;
    this.body.replaceChildren(this.shown.node);
    this.finding.search();
  }

  get shown() {
    return this.views.get(this.kind);
  }

  make(kind) {
    switch (kind) {
      case "table": return new Table(this.found);
      case "json": return new JsonTree(this.found.value);
      case "image": return { node: el("div", { class: "result-images" }, ...this.parts.map((part) => (part.type === "text" ? textNode(part.text) : attachmentNode(part)))) };
      case "diff": {
        const block = codeBlock("diff", this.text);
        block.end().then(() => this.finding.search());
        return block;
      }
      default: return { node: textNode(this.text) };
    }
  }
}

function textNode(text) {
  const node = el("pre", { tabindex: "0", "aria-label": words.call.result });
  new GrowingText(node).grow([text]);
  return node;
}

// Flat objects as rows.
class Table {
  constructor({ value, columns }) {
    this.rows = value;
    this.columns = columns;
    this.query = "";
    const numbers = new Set(columns.filter((name) => value.every((row) => row[name] === undefined || row[name] === null || /^(number|object)$/.test(typeof row[name]))));
    this.cell = (row, name) => el("td", { class: numbers.has(name) ? "number" : null, text: row[name] === undefined || row[name] === null ? "" : written(row[name]) });
    this.body = el("tbody");
    this.more = el("button", { type: "button", class: "result-more", hidden: true, onclick: () => this.grow() });
    const head = el("tr", {}, ...columns.map((name) => el("th", { scope: "col", class: numbers.has(name) ? "number" : null, text: name })));
    this.node = el("div", { class: "result-table", tabindex: "0", role: "group", "aria-label": words.result.table }, el("table", {}, el("thead", {}, head), this.body), this.more);
    this.begin(value);
  }

  begin(rows) {
    this.kept = rows;
    this.shown = 0;
    this.body.replaceChildren();
    this.grow();
  }

  grow() {
    const rows = this.kept.slice(this.shown, this.shown + ROWS);
    this.shown += rows.length;
    this.body.append(...rows.map((row) => el("tr", {}, ...this.columns.map((name) => this.cell(row, name)))));
    show(this.more, this.shown < this.kept.length);
    setText(this.more, plural(words.result.more, this.kept.length - this.shown));
  }

  // Only the rows in which a text is found.
  reveal(text) {
    if (text === this.query) return;
    this.query = text;
    this.begin(text === "" ? this.rows : this.rows.filter((row) => this.columns.some((name) => row[name] !== undefined && written(row[name]).toLowerCase().includes(text))));
  }
}

let owner = null; // the search whose places are highlighted

// The search field of a result.
class Finding {
  constructor(view) {
    this.view = view;
    this.ranges = [];
    this.at = 0;
    this.field = el("input", { type: "search", class: "result-find", placeholder: words.result.find, "aria-label": words.result.find, oninput: () => this.search(true), onkeydown: (event) => this.pressed(event) });
    this.count = el("span", { class: "result-count", role: "status" });
    this.node = el("span", { class: "result-search" }, this.field, this.count);
  }

  clear() {
    if (owner === this) for (const name of ["found", "found-here"]) globalThis.CSS?.highlights?.delete(name);
  }

  pressed(event) {
    if (event.key === "Escape" && this.field.value !== "") {
      event.stopPropagation();
      this.field.value = "";
      this.search(true);
    }
    if (event.key === "Enter" && this.ranges.length > 0) {
      event.preventDefault();
      this.go(this.at + (event.shiftKey ? -1 : 1));
    }
  }

  search(isTyped = false) {
    const text = this.field.value.toLowerCase(), { view } = this;
    if (!isTyped && text === "") return;
    if (text !== "") view.fold(false);
    if (text !== "" || view.kind === "table") view.shown.reveal?.(text);
    this.ranges = text === "" ? [] : rangesIn(view.body, text);
    setText(this.count, text === "" ? "" : words.result.foundNone);
    if (this.ranges.length > 0) this.go(0);
    else this.clear();
  }

  go(to) {
    const { length } = this.ranges;
    this.at = (to + length) % length;
    const range = this.ranges[this.at];
    setText(this.count, fill(words.result.foundAt, { at: count(this.at + 1), n: length === MARKS ? `${count(length)}+` : count(length) }));
    range.startContainer.parentElement.scrollIntoView({ block: "nearest" });
    scrollTo(range);
    if (!globalThis.CSS?.highlights) return;
    owner = this;
    CSS.highlights.set("found", new Highlight(...this.ranges));
    const here = new Highlight(range);
    here.priority = 1;
    CSS.highlights.set("found-here", here);
  }
}

// A chunk of text may be higher than what is seen of it.
function scrollTo(range) {
  const place = document.createRange();
  place.setStart(range.startContainer, range.startOffset);
  place.setEnd(range.endContainer, range.endOffset);
  const pane = range.startContainer.parentElement.closest("pre, .result-table, .json"), seen = pane?.getBoundingClientRect(), at = place.getBoundingClientRect();
  if (pane && (at.top < seen.top || at.bottom > seen.bottom)) pane.scrollTop += at.top - seen.top - seen.height / 2;
}

function rangesIn(node, text) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), ranges = [];
  while (walker.nextNode() && ranges.length < MARKS) {
    const one = walker.currentNode, line = one.data.toLowerCase();
    if (line.length !== one.length) continue; // other lengths in lower case: the places would differ
    for (let at = line.indexOf(text); at >= 0 && ranges.length < MARKS; at = line.indexOf(text, at + text.length)) {
      const range = new StaticRange({ startContainer: one, startOffset: at, endContainer: one, endOffset: at + text.length });
      ranges.push(range);
    }
  }
  return ranges;
}
