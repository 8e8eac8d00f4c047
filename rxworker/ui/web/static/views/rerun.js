// The dialog in which a stored run runs again with a worker of the server, and how it came out.

import * as api from "../net/server.js";
import { count, money } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { writeLink } from "../model/link.js";
import { byId, el, setText, show } from "./dom.js";

export class RerunDialog {
  constructor() {
    const { rerun } = words;
    this.dialog = byId("rerun-dialog");
    this.what = el("p");
    this.worker = el("select");
    this.choice = el("label", {}, rerun.worker, this.worker);
    this.start = el("button", { class: "button primary", type: "button", text: rerun.start, onclick: () => this.begin() });
    this.problem = el("p", { class: "reason", role: "alert" });
    this.outcome = el("div", { class: "rerun-outcome", role: "status" });
    const close = el("button", { class: "button", type: "button", text: words.commands.close, onclick: () => this.dialog.close() });
    this.dialog.append(el("h2", { id: "rerun-title", text: rerun.title }), this.what, this.choice, el("div", {}, this.start), this.problem, this.outcome, el("div", { class: "field-dialog-buttons" }, close));
    this.dialog.addEventListener("close", () => this.opener?.focus());
  }

  // `workers` are the names of those of the server, of which the run's own comes first.
  open(run, title, workers, opener) {
    Object.assign(this, { run, opener });
    setText(this.what, fill(words.rerun.what, { title }));
    this.worker.replaceChildren(...workers.map((name) => el("option", { value: name, text: name })));
    show(this.choice, workers.length > 1);
    setText(this.problem, "");
    this.outcome.replaceChildren();
    this.dialog.showModal();
    this.start.focus();
  }

  async begin() {
    const { run } = this;
    this.start.disabled = true;
    setText(this.problem, "");
    this.outcome.replaceChildren(el("p", { text: words.rerun.running }));
    const found = await api.rerun(run, this.worker.value).catch((problem) => ({ problem }));
    this.start.disabled = false;
    if (run !== this.run) return;
    setText(this.problem, found.problem?.message ?? "");
    this.outcome.replaceChildren(...(found.problem ? [] : nodesOf(run, found, () => this.dialog.close())));
    this.start.focus();
  }
}

function nodesOf(run, { status, difference, reason, before, after }, leave) {
  const { rerun } = words, facts = (name, spent) => (spent ? [el("dt", { text: name }), el("dd", { text: spentText(spent) })] : []);
  const took = el("dl", {}, ...facts(rerun.before, before), ...facts(rerun.after, after));
  if (status === "same") return [el("p", { class: "good", text: rerun.same }), took];
  if (!difference) return [el("p", { text: `${rerun.notRerun}: ${reason}` }), took];
  const { record, before: was, after: now } = difference;
  return [
    el("p", { class: "bad", text: rerun.differs }),
    el("dl", {}, el("dt", { text: rerun.was }), el("dd", { dir: "auto", text: was }), el("dt", { text: rerun.now }), el("dd", { dir: "auto", text: now })),
    el("p", {}, el("a", { href: writeLink({ run, seq: record }), text: fill(rerun.show, { n: record }), onclick: leave })), took,
  ];
}

function spentText({ input_tokens: read, output_tokens: written, cost, currency }) {
  const text = (value, show) => (value === null ? words.rerun.unknown : show(value));
  return fill(words.rerun.took, { read: text(read, count), written: text(written, count), cost: text(cost, (n) => money(n, currency)) });
}
