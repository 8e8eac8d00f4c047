// Filters of the list that the user has saved under names, in this browser.

import { ANY, isFiltered } from "../model/run_list.js";
import { fill, words } from "../model/language.js";
import { byId, el, recalled, remember, show } from "./dom.js";

const KEY = "rxworker-filters";
const MAX = 20;

export class SavedFilters {
  // `dialog` asks for a name; `filter()` is the filter that is set, and `apply(filter)` sets another one.
  constructor(dialog, filter, apply) {
    this.filter = filter;
    this.apply = apply;
    this.saved = read();
    this.root = byId("run-saved");
    const { list } = words, question = { title: list.saveFilter, label: list.name, value: "", save: list.save, act: (name) => this.save(name) };
    this.button = el("button", { class: "button small", type: "button", text: list.saveFilter, onclick: () => dialog.ask(question, () => byId("run-filters").focus()) });
    this.draw();
  }

  // Returns a problem, or "".
  save(name) {
    if (name === "") return words.form.needed;
    this.saved = [...this.saved.filter((one) => one.name !== name), { name, filter: { ...this.filter() } }].slice(-MAX);
    return this.store();
  }

  remove(name) {
    this.saved = this.saved.filter((one) => one.name !== name);
    this.store();
    byId("run-search").focus();
  }

  store() {
    this.draw();
    return remember(KEY, JSON.stringify(this.saved)) ? "" : words.list.notSaved;
  }

  draw() {
    const now = textOf(this.filter());
    show(this.button, isFiltered(this.filter()) && !this.saved.some(({ filter }) => textOf(filter) === now));
    show(this.root, this.saved.length > 0);
    this.root.replaceChildren(...this.saved.map(({ name, filter }) => {
      const isSet = textOf(filter) === now;
      return el("li", {}, el("button", { type: "button", text: name, "aria-pressed": String(isSet), onclick: () => this.choose(name, isSet ? {} : filter) }),
        el("button", { type: "button", text: "×", "aria-label": fill(words.list.forget, { name }), onclick: () => this.remove(name) }));
    }));
  }

  // The buttons are made again: the focus stays at that of the name.
  choose(name, filter) {
    this.apply(filter);
    this.root.children[this.saved.findIndex((one) => one.name === name)]?.firstElementChild.focus();
  }
}

const textOf = (filter) => JSON.stringify(Object.keys(ANY).map((name) => filter[name] ?? ANY[name]));

// What is stored may have been written by another version of the page.
function read() {
  try {
    const saved = JSON.parse(recalled(KEY) ?? "[]");
    return saved.filter((one) => typeof one?.name === "string" && typeof one.filter === "object" && one.filter !== null)
      .map(({ name, filter }) => ({ name, filter: Object.fromEntries(Object.keys(ANY).map((key) => [key, typeof filter[key] === "string" ? filter[key] : ANY[key]])) }));
  } catch {
    return [];
  }
}
