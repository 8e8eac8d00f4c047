// The approval of a call that waits: its arguments in an editable field, and the decision.

import { byId, el, setText, show } from "./dom.js";
import { brief, isUnseen, pretty } from "../model/format.js";
import { fill, words } from "../model/language.js";

// Focus moves to the approval only from the message box, which it replaces, or if nothing else has the focus. The approval as a whole
// gets the focus, not a button, so that a key meant for the message box decides nothing.
function isFree(focused) {
  return focused === null || focused === document.body || byId("composer").contains(focused);
}

const listOf = (calls) => calls.map((one) => `${one.name} (${brief(one.input, 40)})`).join(", ");

// The parts of a sentence around a node.
function around(text, mark, node) {
  const [before, after] = text.split(mark);
  return [before, node, after];
}

export class ApprovalView {
  constructor(decide) {
    this.node = byId("approval");
    this.decide = decide; // (run, decisions) => promise; reports failures itself
    this.shown = null;
  }

  // `pause` is the pause in the run's summary, or null.
  draw(run, pause) {
    const key = pause ? `${run} ${pause.paused_at ?? pause.hook}` : null;
    if (key === this.shown) return;
    this.shown = key;
    const hadFocus = this.node.contains(document.activeElement);
    show(this.node, pause !== null);
    this.node.replaceChildren(...(pause ? this.make(run, pause) : []));
    if (pause === null && hadFocus) byId("conversation").focus();
    else if (pause !== null && (hadFocus || isFree(document.activeElement))) this.node.focus();
  }

  make(run, pause) {
    const call = pause.pending.find((one) => one.id === pause.paused_at) ?? null;
    this.run = run;
    if (call === null) return this.plain(pause);
    this.isFree = typeof call.input === "string";
    this.isText = this.isFree && !isUnseen(call.input);
    this.original = pretty(call.input);
    this.field = el("textarea", { id: "approval-input", rows: Math.min(8, this.original.split("\n").length), spellcheck: "false", "aria-describedby": "approval-error" });
    this.field.value = this.original;
    this.error = el("p", { id: "approval-error", class: "field-error", role: "alert" });
    this.reason = el("input", { id: "approval-reason", type: "text", placeholder: words.approval.reasonHint, "aria-label": words.approval.reason });
    this.yes = el("button", { class: "button primary", type: "button", text: words.approval.approve, onclick: () => this.approve(call) });
    this.no = el("button", { class: "button", type: "button", text: words.approval.deny, onclick: () => this.deny(call) });
    this.field.addEventListener("input", () => this.check());
    const rest = pause.pending.filter((one) => one !== call);
    const body = [
      pause.reason ? el("p", { class: "approval-why", text: pause.reason }) : null,
      el("label", { for: "approval-input", text: this.isText ? words.approval.withText : this.isFree ? words.approval.withJsonText : words.approval.withArguments }),
      this.field,
      rest.length ? el("p", { class: "approval-rest", text: fill(words.approval.alsoWaiting, { calls: listOf(rest) }) }) : null,
    ];
    return [
      el("h3", {}, ...around(words.approval.mayCall, "{name}", el("span", { class: "call-name", text: call.name }))),
      el("div", { class: "approval-body" }, ...body), this.error,
      el("div", { class: "approval-row" }, this.yes, this.no, this.reason),
    ];
  }

  plain(pause) {
    const more = listOf(pause.pending);
    this.yes = el("button", { class: "button primary", type: "button", text: words.approval.resume, onclick: () => this.act(null) });
    return [
      el("h3", { text: words.approval.paused }),
      el("p", { class: "approval-why approval-body", text: [pause.reason, more && fill(words.approval.next, { calls: more })].filter(Boolean).join(". ") || fill(words.approval.by, pause) }),
      el("div", { class: "approval-row" }, this.yes),
    ];
  }

  // The arguments in the field, or undefined if they are not valid.
  value() {
    if (this.isText) return this.field.value;
    try {
      const value = JSON.parse(this.field.value);
      if (this.isFree && typeof value === "string") return value;
      if (this.isFree) throw new SyntaxError(words.approval.notText);
      if (value === null || typeof value !== "object" || Array.isArray(value)) throw new SyntaxError(words.approval.notObject);
      return value;
    } catch (error) {
      setText(this.error, fill(words.approval.badJson, { problem: error.message }));
      this.field.setAttribute("aria-invalid", "true");
      return undefined;
    }
  }

  check() {
    this.error.textContent = "";
    this.field.removeAttribute("aria-invalid");
    this.yes.textContent = this.field.value === this.original ? words.approval.approve : words.approval.approveChanged;
  }

  approve(call) {
    const isSame = this.field.value === this.original;
    const input = isSame ? null : this.value();
    if (input === undefined) {
      this.field.focus();
      return;
    }
    this.act({ [call.id]: isSame ? { type: "approve" } : { type: "approve", input } });
  }

  deny(call) {
    const reason = this.reason.value.trim();
    this.act({ [call.id]: reason ? { type: "deny", reason } : { type: "deny" } });
  }

  async act(decisions) {
    for (const button of this.node.querySelectorAll("button")) button.disabled = true;
    const done = await this.decide(this.run, decisions);
    if (!done) for (const button of this.node.querySelectorAll("button")) button.disabled = false;
  }
}
