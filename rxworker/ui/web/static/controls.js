// The head of a run: its title, how it stands, and the buttons that steer it.

import { byId, el, setData, setText, show } from "./dom.js";
import { count, money, plural, seconds, statusWord } from "./format.js";
import { usageOf } from "./usage.js";

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

  // `selection` is null where there is no run to steer.
  draw(selection, cost, now, currency) {
    show(byId("run-head"), selection !== null);
    if (selection === null) return;
    const { summary, status } = selection;
    setText(byId("run-title"), summary?.title || "Run");
    const badge = byId("run-status");
    setText(badge, statusWord(status, selection.cause));
    setData(badge, "status", status);
    this.tell(this.facts(selection, cost, now, currency));
    this.buttons(status, summary);
  }

  // What is known of the run, the least important where there is least room marked as such.
  facts({ course, run, summary }, cost, now, currency) {
    const usage = usageOf(run), total = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
    const facts = [["minor", summary?.worker], ["minor", run.model], ["", run.started === null ? "" : seconds(course.elapsed(now))]];
    facts.push(["minor", plural(run.turns, "turn")], ["", plural(run.toolCalls + run.innerToolCalls, "call")], ["", `${count(total)} tokens`]);
    if (cost !== null && total > 0) facts.push(["", `cost ${money(cost, currency)}`]);
    return facts.filter(([, text]) => text);
  }

  tell(facts) {
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
    if (summary?.resumed_as) return [this.button("Go to where it went on", "button", () => this.actions.follow(summary.resumed_as))];
    return [];
  }

  // It pauses at the next safe moment, which may be a while.
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
