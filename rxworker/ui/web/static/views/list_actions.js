// What can be done with the conversations of the list: name, tag, pin and delete one of them, or several that are selected.
//
// A line is a conversation with its branches: what is noted about it is noted about each of them. Several at once get further tags, one gets others.

import { plural } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { titleOf } from "../model/run_list.js";
import { byId, el, setText, show } from "./dom.js";
import { Menu } from "./palette.js";
import { announce } from "./shell.js";

export class ListActions {
  // `mark(conversation, changes)` and `remove(conversation)` return a problem, or ""; `redraw()` draws the list.
  constructor({ mark, remove }, redraw) {
    this.mark = mark;
    this.remove = remove;
    this.redraw = redraw;
    this.selected = null; // the ids of the lines that are selected; null unless lines are being selected
    this.shown = []; // the lines that are shown
    this.menu = new Menu(byId("line-menu"), () => this.rows());
    this.dialog = new FieldDialog();
    this.bar = byId("run-selection");
    const { list } = words, button = (text, act) => el("button", { type: "button", text, onclick: act });
    this.bar.append(
      (this.count = el("span", { role: "status" })), button(list.all, () => this.all()), button(list.pin, () => this.change(this.chosen, { pinned: true })),
      button(list.unpin, () => this.change(this.chosen, { pinned: false })), button(list.addTags, () => this.addTags(this.chosen)),
      button(list.remove, () => this.delete(this.chosen)), button(list.done, () => this.end()),
    );
  }

  get chosen() {
    return this.shown.filter((group) => this.selected?.has(group.id));
  }

  // The menu of a line.
  open(button, group) {
    this.group = group;
    this.menu.open(button);
  }

  rows() {
    const { group } = this, { list } = words, { pinned } = group.marks;
    return [
      { text: list.rename, act: () => this.rename(group) }, { text: list.tags, act: () => this.tag(group) },
      { text: pinned ? list.unpin : list.pin, act: () => this.change([group], { pinned: !pinned }) },
      { text: list.select, act: () => this.begin(group) }, { text: list.remove, act: () => this.delete([group]) },
    ];
  }

  rename(group) {
    const { list } = words, title = group.marks.title || group.runs[0].title;
    this.ask({ title: list.rename, label: list.name, value: title, save: list.save, act: (value) => this.each([group], (id) => this.mark(id, { title: value })) });
  }

  tag(group) {
    const { list } = words;
    this.ask({ title: list.tags, label: list.tagsHint, value: group.marks.tags.join(", "), save: list.save, act: (value) => this.each([group], (id) => this.mark(id, { tags: tagsIn(value) })) });
  }

  addTags(groups) {
    const { list } = words;
    this.ask({ title: list.addTags, label: list.tagsHint, value: "", save: list.save, act: (value) => this.each(groups, (id, group) => this.mark(id, { tags: [...group.marks.tags, ...tagsIn(value)] })) });
  }

  delete(groups) {
    const { list } = words, n = groups.length, runs = plural(words.runs.count, groups.reduce((sum, group) => sum + group.runs.length, 0));
    const what = n === 1 ? fill(list.removeOne, { title: titleOf(groups[0].runs[0]), runs }) : fill(list.removeMany, { n, runs });
    this.ask({ title: list.remove, text: what, save: list.removeNow, act: async () => {
      const problem = await this.each(groups, (id) => this.remove(id));
      if (problem === "") announce(list.removed);
      return problem;
    } });
  }

  ask(question) {
    const { button } = this.menu;
    this.dialog.ask(question, () => (button?.isConnected ? button : byId("run-search")).focus());
  }

  // Do it for each conversation of these lines; the first problem ends it.
  async each(groups, act) {
    for (const group of groups) {
      for (const id of new Set(group.runs.map((run) => run.conversation))) {
        const problem = await act(id, group);
        if (problem !== "") return problem;
      }
    }
    return "";
  }

  async change(groups, changes) {
    const problem = await this.each(groups, (id) => this.mark(id, changes));
    setText(byId("run-note"), problem);
    show(byId("run-note"), problem !== "");
  }

  begin(group) {
    this.selected = new Set([group.id]);
    this.redraw();
    this.bar.querySelector("button").focus();
  }

  all() {
    this.selected = new Set(this.chosen.length === this.shown.length ? [] : this.shown.map((group) => group.id));
    this.redraw();
  }

  choose(id, isChosen) {
    if (isChosen) this.selected.add(id);
    else this.selected.delete(id);
    this.redraw();
  }

  end() {
    this.selected = null;
    this.redraw();
    byId("run-search").focus();
  }

  // The lines that are shown now.
  draw(groups) {
    this.shown = groups;
    show(this.bar, this.selected !== null);
    if (this.selected === null) return;
    const { length } = this.chosen;
    setText(this.count, plural(words.list.selected, length));
    for (const button of [...this.bar.querySelectorAll("button")].slice(1, -1)) button.disabled = length === 0;
  }
}

const tagsIn = (text) => text.split(",").map((tag) => tag.trim()).filter(Boolean);

// A dialog with a text and a field, or without a field.
export class FieldDialog {
  constructor() {
    this.dialog = byId("field-dialog");
    this.input = el("input", { type: "text", maxlength: 120, dir: "auto", autocomplete: "off" });
    this.title = el("h2", { id: "field-dialog-title" });
    this.text = el("p");
    this.label = el("span");
    this.field = el("label", {}, this.label, this.input);
    this.problem = el("p", { class: "reason", role: "alert" });
    this.save = el("button", { class: "button primary", type: "submit" });
    const cancel = el("button", { class: "button", type: "button", text: words.message.cancel, onclick: () => this.dialog.close() });
    this.dialog.append(el("form", { onsubmit: (event) => this.submit(event) }, this.title, this.text, this.field, this.problem, el("div", { class: "field-dialog-buttons" }, cancel, this.save)));
    this.dialog.addEventListener("close", () => this.closed());
  }

  // `act(value)` returns a problem, or "": then the dialog is closed.
  ask({ title, text = "", label = "", value = null, save, act }, closed) {
    Object.assign(this, { act, closed });
    const texts = [[this.title, title], [this.text, text], [this.label, label], [this.problem, ""], [this.save, save]];
    for (const [node, shown] of texts) setText(node, shown);
    show(this.text, text !== "");
    show(this.field, value !== null);
    this.input.value = value ?? "";
    this.dialog.showModal();
    if (value === null) this.dialog.querySelector("button").focus(); // what cannot be undone is not one key away
    else this.input.select();
  }

  async submit(event) {
    event.preventDefault();
    this.save.disabled = true;
    const problem = await this.act(this.input.value.trim());
    this.save.disabled = false;
    setText(this.problem, problem);
    if (problem === "") this.dialog.close();
  }
}
