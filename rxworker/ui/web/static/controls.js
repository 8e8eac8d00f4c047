// The head of a run: its title, its status, and the buttons that control it.
//
// The approval of a call that waits: its arguments in an editable field, and the decision.

import { byId, el, setData, setText, show } from "./dom.js";
import { brief, count, isUnseen, money, plural, pretty, seconds, statusWord } from "./format.js";
import { usageOf } from "./run_state.js";

export class ControlsView {
  constructor(actions) {
    this.actions = actions; // { pause, cancel(when), follow }
    this.group = byId("controls");
    this.asking = false;
    this.pausing = false;
    this.shown = null;
    this.group.addEventListener("keydown", (event) => event.key === "Escape" && this.asking && this.ask(false, true));
  }

  open() {
    this.asking = false;
    this.pausing = false;
    this.shown = null;
  }

  // `selection` is null if no run is selected.
  draw(selection, cost, now, currency) {
    show(byId("run-head"), selection !== null);
    if (selection === null) return;
    const { summary, status } = selection;
    setText(byId("run-title"), summary?.title || "Run");
    const badge = byId("run-status");
    setText(badge, statusWord(status, selection.cause));
    badge.title = status === "running" ? summary?.reason ?? "" : "";
    setData(badge, "status", status);
    this.showFacts(this.facts(selection, cost, now, currency));
    this.buttons(status, summary);
  }

  // Facts about the run; those that are hidden on narrow screens are marked as minor.
  facts({ timeline, run, summary }, cost, now, currency) {
    const usage = usageOf(run), total = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
    const facts = [["minor", summary?.worker], ["minor", run.model], ["", run.started === null ? "" : seconds(timeline.elapsed(now))]];
    facts.push(["minor", plural(run.turns, "turn")], ["", plural(run.toolCalls + run.innerToolCalls, "call")], ["", `${count(total)} tokens`]);
    if (cost !== null && total > 0) facts.push(["", `cost ${money(cost, currency)}`]);
    return facts.filter(([, text]) => text);
  }

  showFacts(facts) {
    const node = byId("run-facts");
    while (node.childElementCount > facts.length) node.lastElementChild.remove();
    while (node.childElementCount < facts.length) node.append(el("span"));
    facts.forEach(([kind, text], n) => {
      node.children[n].className = kind;
      setText(node.children[n], text);
    });
  }

  buttons(status, summary) {
    const key = `${status} ${this.asking} ${this.pausing} ${summary?.resumed_as ?? ""}`;
    if (key === this.shown) return;
    const hadFocus = this.group.contains(document.activeElement);
    this.shown = key;
    const made = this.make(status, summary);
    this.group.replaceChildren(...made);
    if (hadFocus) (made.find((one) => !one.disabled) ?? byId("conversation")).focus();
  }

  make(status, summary) {
    if (status === "running" && this.asking) {
      return [
        this.button("Cancel now", "button danger", () => this.act(() => this.actions.cancel("now"))),
        this.button("After this turn", "button", () => this.act(() => this.actions.cancel("after_turn"))),
        this.button("Keep running", "button plain", () => this.ask(false, true)),
      ];
    }
    if (status === "running") {
      const pause = this.button(this.pausing ? "Pausing…" : "Pause", "button", () => this.pause());
      pause.disabled = this.pausing;
      return [pause, this.button("Cancel", "button", () => this.ask(true, true))];
    }
    if (summary?.resumed_as) return [this.button("Open the resumed run", "button", () => this.actions.follow(summary.resumed_as))];
    return [];
  }

  // The run pauses at the next safe moment, which may take a while.
  async pause() {
    this.pausing = true;
    this.pausing = (await this.actions.pause()) !== null;
  }

  button(text, kind, act) {
    return el("button", { class: kind, type: "button", text, onclick: act });
  }

  act(action) {
    this.asking = false;
    this.shown = null;
    action();
  }

  ask(asking, focus) {
    this.asking = asking;
    this.shown = null;
    this.buttons("running", null);
    if (focus) this.group.firstElementChild?.focus();
  }
}

// Focus moves to the approval only from the message box, which it replaces, or if nothing else has the focus. The approval as a whole
// gets the focus, not a button, so that a key meant for the message box decides nothing.
function isFree(focused) {
  return focused === null || focused === document.body || byId("composer").contains(focused);
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

  // The arguments in the field, or undefined if they are not valid.
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
