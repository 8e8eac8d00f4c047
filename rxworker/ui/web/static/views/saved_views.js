// Views of dashboards, each with its time and filters, that the user has saved under names, in this browser. They are links.

import { words, fill } from "../model/language.js";
import { el, recalled, remember, show } from "./dom.js";
import { FieldDialog } from "./list_actions.js";

const KEY = "rxworker-views", MAX = 20;

export class SavedViews {
  // `button` saves what the address of the page has of the dashboard `board`.
  constructor(root, button, board) {
    Object.assign(this, { root, button, board, saved: read(), dialog: new FieldDialog() });
    const { list } = words, question = { title: words.board.saveView, label: list.name, value: "", save: list.save, act: (name) => this.save(name) };
    button.addEventListener("click", () => this.dialog.ask(question, () => button.focus()));
    this.draw();
  }

  get here() {
    return `${this.board}${location.search}`;
  }

  // Returns a problem, or "".
  save(name) {
    if (name === "") return words.form.needed;
    this.saved = [...this.saved.filter((one) => one.name !== name), { name, view: this.here }].slice(-MAX);
    return this.store();
  }

  remove(name) {
    this.saved = this.saved.filter((one) => one.name !== name);
    this.store();
    this.button.focus();
  }

  store() {
    this.draw();
    return remember(KEY, JSON.stringify(this.saved)) ? "" : words.list.notSaved;
  }

  draw() {
    show(this.root, this.saved.length > 0);
    this.root.replaceChildren(...this.saved.map(({ name, view }) => el("li", {}, el("a", { href: `./${view}`, text: name, "aria-current": view === this.here ? "page" : null }), el("button", { type: "button", text: "×", "aria-label": fill(words.board.forgetView, { name }), onclick: () => this.remove(name) }))));
  }
}

// What is stored may have been written by another version of the page; a view is the name of a dashboard and parameters.
function read() {
  try {
    return JSON.parse(recalled(KEY) ?? "[]").filter(({ name, view }) => typeof name === "string" && /^[a-z0-9-]+(\?|$)/.test(view));
  } catch {
    return [];
  }
}
