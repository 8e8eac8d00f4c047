// A table that is sorted by the buttons in its head, and filtered by a field when it is long. What the reader has chosen stays through updates.

import { el, morph, setText, show } from "./dom.js";
import { fill, words } from "../model/language.js";

const LONG = 8; // rows

const kindOf = (value) => (typeof value === "number" ? "number" : null);
const isEmpty = (value) => value === undefined || value === null || value === "";

export class TableView {
  // `title` names it; `cell(name, value, row)` returns the text or the node of a cell.
  constructor(title, cell) {
    Object.assign(this, { cell, names: [], rows: [], sort: null, isDown: false });
    this.field = el("input", { class: "board-find", type: "search", maxlength: 200, placeholder: words.table.find, "aria-label": fill(words.table.findIn, { title }), autocomplete: "off", spellcheck: "false", oninput: () => this.render() });
    this.note = el("p", { class: "board-none", role: "status" });
    this.head = el("tr");
    this.body = el("tbody");
    this.bar = el("div", { class: "board-bar-above" }, this.field, this.note);
    this.node = el("div", { class: "board-rows" }, this.bar, el("div", { class: "board-scroll", tabindex: 0, role: "group", "aria-label": words.board.rows }, el("table", { class: "board-table", "aria-label": title }, el("thead", {}, this.head), this.body)));
  }

  // `names` are the columns, and `rows` have values by them.
  draw(names, rows) {
    this.rows = rows;
    if (JSON.stringify(names) !== JSON.stringify(this.names)) {
      this.names = names;
      this.head.replaceChildren(...names.map((name) => el("th", { scope: "col" }, el("button", { type: "button", text: name, onclick: () => this.by(name) }))));
    }
    names.forEach((name, n) => (this.head.children[n].className = kindOf(rows.find((row) => !isEmpty(row[name]))?.[name]) ?? ""));
    this.render();
  }

  // By a column: up, down, and as they came.
  by(name) {
    if (this.sort !== name) Object.assign(this, { sort: name, isDown: kindOf(this.rows.find((row) => !isEmpty(row[name]))?.[name]) === "number" });
    else if (this.isDown === (this.head.children[this.names.indexOf(name)].className === "number")) this.isDown = !this.isDown;
    else this.sort = null;
    this.render();
  }

  render() {
    const { names, sort, isDown } = this, wanted = this.field.value.trim().toLowerCase();
    const isFound = (row) => names.some((name) => !isEmpty(row[name]) && String(row[name]).toLowerCase().includes(wanted)), found = wanted === "" ? [...this.rows] : this.rows.filter(isFound);
    if (sort !== null) found.sort((a, b) => isEmpty(a[sort]) - isEmpty(b[sort]) || (isDown ? -1 : 1) * compared(a[sort], b[sort]));
    names.forEach((name, n) => {
      const th = this.head.children[n];
      if (name === sort) th.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    show(this.bar, this.rows.length > LONG || wanted !== "");
    setText(this.note, wanted === "" ? "" : fill(words.table.found, { n: found.length, total: this.rows.length }));
    morph(this.body, found.map((row) => el("tr", {}, ...names.map((name) => el("td", { class: kindOf(row[name]) }, isEmpty(row[name]) && name !== "title" ? "" : this.cell(name, row[name], row))))));
  }
}

const compared = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? "")));

// Rows as CSV (RFC 4180). A text that a spreadsheet would take for a formula begins with an apostrophe.
export function csvOf(names, rows) {
  const field = (value) => {
    if (isEmpty(value)) return "";
    const text = typeof value === "object" ? JSON.stringify(value) : typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}
