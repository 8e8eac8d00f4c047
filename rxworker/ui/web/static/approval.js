// A call that waits for somebody: what it would do, in a field that can be changed, and what to decide.

import { byId, el, setText, show } from "./dom.js";
import { brief, isUnseen, pretty } from "./format.js";

// The focus is moved to a decision only from the message box, in whose place it stands, and where nothing else has it. It goes to the
// decision as a whole and not to a button: a key that was meant for the message box decides nothing.
function isFree(focused) {
  return focused === null || focused === document.body || byId("composer").contains(focused);
}

export class ApprovalView {
  constructor(decide) {
    this.node = byId("approval");
    this.decide = decide; // (run, decisions) => promise; it tells people itself when it fails
    this.shown = null;
  }

  // `pause` is that of the run's summary, or null.
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
    this.reason = el("input", { id: "approval-reason", type: "text", placeholder: "Reason for the model (optional)", "aria-label": "Reason for the model" });
    this.yes = el("button", { class: "button primary", type: "button", text: "Approve", onclick: () => this.approve(call) });
    this.no = el("button", { class: "button", type: "button", text: "Deny", onclick: () => this.deny(call) });
    this.field.addEventListener("input", () => this.check());
    const rest = pause.pending.filter((one) => one !== call);
    const body = [
      pause.reason ? el("p", { class: "approval-why", text: pause.reason }) : null,
      el("label", { for: "approval-input", text: this.isText ? "With this text" : this.isFree ? "With this text, written as JSON" : "With these arguments" }),
      this.field,
      rest.length ? el("p", { class: "approval-rest", text: `Also waiting: ${rest.map((one) => `${one.name} (${brief(one.input, 40)})`).join(", ")}` }) : null,
    ];
    return [
      el("h3", {}, "May it call ", el("span", { class: "call-name", text: call.name }), "?"),
      el("div", { class: "approval-body" }, ...body), this.error,
      el("div", { class: "approval-row" }, this.yes, this.no, this.reason),
    ];
  }

  plain(pause) {
    const more = pause.pending.map((one) => `${one.name} (${brief(one.input, 40)})`).join(", ");
    this.yes = el("button", { class: "button primary", type: "button", text: "Resume", onclick: () => this.act(null) });
    return [
      el("h3", { text: "The run is paused" }),
      el("p", { class: "approval-why approval-body", text: [pause.reason, more && `Next: ${more}`].filter(Boolean).join(". ") || `by ${pause.hook}` }),
      el("div", { class: "approval-row" }, this.yes),
    ];
  }

  // The arguments in the field, or undefined where they are none.
  value() {
    if (this.isText) return this.field.value;
    try {
      const value = JSON.parse(this.field.value);
      if (this.isFree && typeof value === "string") return value;
      if (this.isFree) throw new SyntaxError('this is a text: "…"');
      if (value === null || typeof value !== "object" || Array.isArray(value)) throw new SyntaxError("arguments are an object: {…}");
      return value;
    } catch (error) {
      setText(this.error, `This is no valid JSON: ${error.message}`);
      this.field.setAttribute("aria-invalid", "true");
      return undefined;
    }
  }

  check() {
    this.error.textContent = "";
    this.field.removeAttribute("aria-invalid");
    this.yes.textContent = this.field.value === this.original ? "Approve" : "Approve with changes";
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
