// The approval of a call that waits: its arguments in a form or as JSON, and the decision; and the tools that are always allowed.

import { byId, el, placeFocus, setText, show } from "./dom.js";
import { ArgumentsForm } from "./form.js";
import { brief, isUnseen, pretty } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { askedOf, fieldsOf, problemOf } from "../model/schema.js";

// Focus moves to the approval only from the message box, which it replaces, or if nothing else has the focus that the user has moved. The approval as a whole
// gets the focus, not a button, so that a key meant for the message box decides nothing.
function isFree(focused) {
  return focused === null || focused === document.body || focused.classList.contains("placed") || byId("composer").contains(focused);
}

const POLICY = "requires_approval"; // what pauses a run in place of a hook; its reason is the heading
const CLIENT_TOOL = "client_tool"; // what pauses a run until another client has run the calls
const RECOVERY = "recovery"; // what pauses a run for calls that may have had their effect: no answer holds for later ones

const UNTIL = "until"; // what pauses a run that is woken by something other than a person
const WEB = /^https?:\/\//i;

const listOf = (calls) => calls.map((one) => `${one.name} (${brief(one.input, 40)})`).join(", ");

// The parts of a sentence around a node.
function around(text, mark, node) {
  const [before, after] = text.split(mark);
  return [before, node, after];
}

// The arguments of a call, edited as JSON or, if the schema of the tool is known, in a form. Both edit one value. Free text has one field.
class Editor {
  constructor(input, schema, mode, changed, isNew = false) {
    this.isNew = isNew;
    this.input = input;
    this.schema = schema;
    this.changed = changed;
    this.isFree = typeof input === "string";
    this.isText = this.isFree && !isUnseen(input);
    this.original = pretty(input);
    this.field = el("textarea", { id: "approval-input", rows: Math.min(8, this.original.split("\n").length), spellcheck: "false", "aria-describedby": "approval-error", oninput: () => this.edited() });
    this.field.value = this.original;
    this.error = el("p", { id: "approval-error", class: "field-error", role: "alert" });
    this.label = el("label", { for: "approval-input", text: this.isText ? words.approval.withText : this.isFree ? words.approval.withJsonText : words.approval.withArguments });
    this.node = el("div", { class: "approval-arguments" });
    this.form = null;
    const modes = this.isFree || fieldsOf(schema, input) === null ? [] : [["form", words.approval.form], ["json", words.approval.json]];
    this.modes = new Map(modes.map(([one, text]) => [one, el("button", { type: "button", text, onclick: () => this.choose(one) })]));
    this.switches = modes.length ? el("span", { class: "result-kinds", role: "group", "aria-label": words.approval.as }, ...this.modes.values()) : null;
    this.show(modes.length ? mode : "json", input);
  }

  show(mode, value) {
    this.mode = mode;
    for (const [one, button] of this.modes) button.setAttribute("aria-pressed", String(one === mode));
    this.form = mode === "form" ? new ArgumentsForm(fieldsOf(this.schema, value), value, this.changed, { isNew: this.isNew }) : null;
    this.node.replaceChildren(...(this.form ? [this.form.node] : [this.label, this.field]));
  }

  // Go on with the other way of editing, unless what is written is not valid.
  choose(mode) {
    if (mode === this.mode) return;
    const value = this.value();
    if (value === undefined) return;
    this.field.value = pretty(value);
    this.edited();
    this.show(mode, value);
    this.changed();
  }

  edited() {
    setText(this.error, "");
    this.field.removeAttribute("aria-invalid");
    this.changed();
  }

  get isChanged() {
    return (this.form?.isChanged ?? false) || this.field.value !== this.original;
  }

  // The arguments, or undefined if they are not valid: the editor says why.
  value() {
    if (this.form) return this.form.value();
    if (this.isText) return this.field.value;
    try {
      const value = JSON.parse(this.field.value);
      if (this.isFree && typeof value === "string") return value;
      if (this.isFree) throw new SyntaxError(words.approval.notText);
      if (value === null || typeof value !== "object" || Array.isArray(value)) throw new SyntaxError(words.approval.notObject);
      const problem = this.schema ? problemOf(this.schema, value) : null;
      if (problem === null) return value;
      this.fail(problem);
      return undefined;
    } catch (error) {
      this.fail(fill(words.approval.badJson, { problem: error.message }));
      return undefined;
    }
  }

  fail(problem) {
    setText(this.error, problem);
    this.field.setAttribute("aria-invalid", "true");
    this.field.focus();
  }
}

export class ApprovalView {
  constructor(decide) {
    this.node = byId("approval");
    this.decide = decide; // (run, decisions) => promise; reports failures itself
    this.shown = null;
    this.given = []; // the decisions so far: a run may wait for several
    this.editor = null;
    this.mode = "form";
    this.worker = null;
  }

  // `pause` is the pause in the summary of the run, or null, and `worker` its worker, whose schemas make forms, or null.
  draw(run, pause, worker) {
    if (run !== this.run || pause === null) this.given = [];
    const at = pause ? this.next(pause) : -1, key = pause ? `${run} ${at < 0 ? pause.hook : at}` : null;
    if (key === this.shown && (worker === this.worker || this.editor === null || this.editor.isChanged)) return;
    Object.assign(this, { shown: key, worker });
    const hadFocus = this.node.contains(document.activeElement);
    show(this.node, pause !== null);
    this.node.replaceChildren(...(pause ? this.make(run, pause, at, worker) : []));
    if (pause === null && hadFocus) placeFocus(byId("conversation"));
    else if (pause !== null && (hadFocus || isFree(document.activeElement))) this.node.focus();
  }

  // The index of the first call that needs a decision and has none. Two calls may have one id.
  next(pause) {
    return pause.pending.findIndex((one, at) => one.needs_decision && !this.given[at]);
  }

  make(run, pause, at, worker) {
    const call = pause.pending[at] ?? null;
    Object.assign(this, { run, pause, at, editor: null });
    if (call === null) return this.plain(pause);
    if (call.question) return this.ask(call);
    this.editor = new Editor(call.input, worker?.tools.find((tool) => tool.name === call.name)?.input_schema, this.mode, () => this.check());
    this.reason = el("input", { id: "approval-reason", type: "text", placeholder: words.approval.reasonHint, "aria-label": words.approval.reason });
    this.yes = el("button", { class: "button primary", type: "button", text: words.approval.approve, onclick: () => this.approve() });
    const always = el("button", { class: "button", type: "button", text: words.approval.always, title: fill(words.approval.alwaysHelp, call), onclick: () => this.approve({ always: true }) });
    const no = el("button", { class: "button", type: "button", text: words.approval.deny, onclick: () => this.deny() });
    const rest = pause.pending.filter((one) => one !== call), path = call.path ?? [];
    const outer = path.map((id, at) => pause.pending.find((one) => one.id === path.slice(0, at + 1).join("/"))?.name ?? id);
    const body = [
      outer.length ? el("p", { class: "approval-rest", text: fill(words.approval.inside, { calls: outer.join(" › ") }) }) : null,
      call.reason && pause.hook !== POLICY ? el("p", { class: "approval-why", text: call.reason }) : null,
      this.editor.node,
      rest.length ? el("p", { class: "approval-rest", text: fill(words.approval.alsoWaiting, { calls: listOf(rest) }) }) : null,
    ];
    return [
      el("div", { class: "approval-head" }, el("h3", {}, ...around(words.approval.mayCall, "{name}", el("span", { class: "call-name", text: call.name }))), this.editor.switches),
      el("div", { class: "approval-body" }, ...body), this.editor.error,
      el("div", { class: "approval-row" }, this.yes, pause.hook === RECOVERY || outer.length ? null : always, no, this.reason),
    ];
  }

  // A question: its form, or its address, which is shown whole and opened by the user alone.
  ask({ name, question: { source, message, schema, url } }) {
    if (schema) {
      const asked = askedOf(schema);
      this.editor = new Editor(asked.value, asked.schema, this.mode, () => this.check(), true);
    }
    const isOfWeb = WEB.test(url ?? "") && URL.canParse(url);
    const link = isOfWeb ? el("a", { href: url, target: "_blank", rel: "noopener noreferrer", text: url }) : null;
    const host = isOfWeb ? el("strong", { text: new URL(url).host }) : null;
    this.yes = el("button", { class: "button primary", type: "button", text: schema ? words.approval.answer : words.approval.visited, onclick: () => this.answer() });
    const no = el("button", { class: "button", type: "button", text: words.approval.decline, onclick: () => this.take({ type: "deny" }) });
    return [
      el("div", { class: "approval-head" }, el("h3", {}, ...around(fill(words.approval.asks, { source, name: "{name}" }), "{name}", el("span", { class: "call-name", text: name }))), this.editor?.switches ?? null),
      el("div", { class: "approval-body" }, el("p", { class: "approval-why", text: message }), link ? el("p", {}, host, " ", link) : url ? el("p", { text: url }) : null, this.editor?.node ?? null), this.editor?.error ?? null,
      el("div", { class: "approval-row" }, this.yes, no),
    ];
  }

  answer() {
    const input = this.editor?.value();
    if (this.editor && input === undefined) return;
    this.take({ type: "approve", ...(this.editor && { input }) });
  }

  plain(pause) {
    const more = listOf(pause.pending), isOfClient = pause.hook === CLIENT_TOOL;
    const [text, decisions] = isOfClient ? [words.approval.deny, pause.pending.map(() => ({ type: "deny" }))] : [words.approval.resume, null];
    this.yes = el("button", { class: isOfClient ? "button" : "button primary", type: "button", text, onclick: () => this.act(decisions) });
    return [
      el("h3", { text: pause.hook === UNTIL ? words.approval.waits : words.approval.paused }),
      el("p", { class: "approval-why approval-body", text: [pause.reason, more && fill(words.approval.next, { calls: more })].filter(Boolean).join(". ") || fill(words.approval.by, pause) }),
      el("div", { class: "approval-row" }, this.yes),
    ];
  }

  // The user prefers this way of editing, also for later calls.
  check() {
    if (this.editor.switches) this.mode = this.editor.mode;
    if (this.pause.pending[this.at]?.question) return;
    this.yes.textContent = this.editor.isChanged ? words.approval.approveChanged : words.approval.approve;
  }

  approve(more = {}) {
    const { isChanged } = this.editor, input = isChanged ? this.editor.value() : null;
    if (input === undefined) return;
    this.take({ type: "approve", ...(isChanged && { input }), ...more });
  }

  deny() {
    const reason = this.reason.value.trim();
    this.take(reason ? { type: "deny", reason } : { type: "deny" });
  }

  // Send the decisions when every call that needs one has one; otherwise show the next.
  take(decision) {
    this.given[this.at] = decision;
    if (this.next(this.pause) < 0) return this.act(this.pause.pending.map((_, at) => this.given[at] ?? null));
    this.editor = null;
    return this.draw(this.run, this.pause, this.worker);
  }

  async act(decisions) {
    if (this.node.contains(document.activeElement)) this.node.focus(); // a button that is disabled would lose it
    for (const button of this.node.querySelectorAll("button")) button.disabled = true;
    const done = await this.decide(this.run, decisions);
    this.given = []; // a run that goes on may wait for others
    if (done) return;
    for (const button of this.node.querySelectorAll("button")) button.disabled = false;
  }
}

// The tools that are always allowed in the conversation, each with a button that removes it.
export class AllowedView {
  constructor(disallow) {
    this.node = byId("allowed");
    this.list = byId("allowed-list");
    this.disallow = disallow; // (conversation, { tool, hook }) => promise; reports failures itself
    this.shown = "";
  }

  draw(conversation, allowed) {
    const key = JSON.stringify([conversation, allowed]);
    if (key === this.shown) return;
    this.shown = key;
    const hadFocus = this.node.contains(document.activeElement);
    show(this.node, allowed.length > 0);
    this.list.replaceChildren(...allowed.map((one) => el("li", {},
      el("span", { text: one.hook === POLICY ? one.tool : fill(words.allowed.by, one) }),
      el("button", { type: "button", "aria-label": fill(words.allowed.remove, one), title: fill(words.allowed.remove, one), text: "×", onclick: () => this.disallow(conversation, one) }))));
    if (hadFocus) (this.list.querySelector("button") ?? byId("composer-input")).focus();
  }
}
