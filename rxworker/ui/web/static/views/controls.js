// The head of a run: its title, its status, and the buttons that control it.

import { moment } from "./chart.js";
import { byId, el, placeFocus, setData, setText, show } from "./dom.js";
import { costWithout, money, plural, seconds, statusWord } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { titleOf } from "../model/run_list.js";
import { isTapped } from "../model/workers.js";

export class ControlsView {
  constructor(actions) {
    this.actions = actions; // { pause, cancel(when), follow, requeue, rate(value, title, button) }
    this.group = byId("controls");
    this.asking = false;
    this.pausing = false;
    this.shown = null;
    this.canRate = false; // only stored runs have annotations
  }

  open() {
    this.asking = false;
    this.pausing = false;
    this.shown = null;
  }

  // `selection` is null if no run is selected.
  draw(selection, figures, now) {
    show(byId("run-head"), selection !== null);
    if (selection === null) return;
    const { summary, status } = selection;
    setText(byId("run-title"), summary ? titleOf(summary) : words.run.title);
    const badge = byId("run-status");
    setText(badge, statusWord(status, selection.cause));
    badge.title = status === "running" ? summary?.reason ?? "" : "";
    setData(badge, "status", status);
    this.showFacts(this.facts(selection, figures, now));
    this.buttons(status, summary);
  }

  // Facts about the run; those that are hidden on narrow screens are marked as minor.
  facts({ timeline, run, summary }, { usage, cost, currency, isEstimate, unpriced }, now) {
    const about = (text) => (isEstimate ? fill(words.numbers.about, { text }) : text), total = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
    const begun = timeline.runs[0]?.started ?? null, labels = Object.entries(run.labels ?? {}).filter(([name]) => name !== "conversation");
    const facts = [["minor", summary?.worker], ["minor", run.model], ["", run.started === null ? "" : seconds(timeline.elapsed(now))]];
    facts.push(["minor", plural(words.run.turns, run.turns)], ["", plural(words.run.calls, run.toolCalls + run.innerToolCalls)], ["", about(plural(words.run.tokens, total))]);
    if (unpriced?.length > 0 && total > 0) facts.push([cost ? "" : "minor", fill(words.run.cost, { cost: costWithout(cost || null, unpriced, currency) })]);
    else if (cost !== null && total > 0) facts.push(["", fill(words.run.cost, { cost: about(money(cost, currency)) })]);
    facts.push(["", begun === null ? "" : moment(begun)], ...labels.map((label) => ["minor", label.join("=")]));
    return facts.filter(([, text]) => text);
  }

  showFacts(facts) {
    const node = byId("run-facts");
    node.title = facts.map(([, text]) => text).join(" · ");
    while (node.childElementCount > facts.length) node.lastElementChild.remove();
    while (node.childElementCount < facts.length) node.append(el("span"));
    facts.forEach(([kind, text], n) => {
      node.children[n].className = kind;
      setText(node.children[n], text);
    });
  }

  buttons(status, summary) {
    const key = `${status} ${this.asking} ${this.pausing} ${summary?.resumed_as ?? ""} ${summary?.can_requeue ?? false} ${this.canRate}`;
    if (key === this.shown) return;
    const hadFocus = this.group.contains(document.activeElement);
    this.shown = key;
    const made = this.make(status, summary);
    this.group.replaceChildren(...made);
    const next = made.find((one) => !one.disabled);
    if (hadFocus && next) next.focus();
    else if (hadFocus) placeFocus(byId("conversation"));
  }

  make(status, summary) {
    if (status === "running" && this.asking) {
      return [
        this.button(words.run.cancelNow, "button danger", () => this.act(() => this.actions.cancel("now"))),
        this.button(words.run.afterTurn, "button", () => this.act(() => this.actions.cancel("after_turn"))),
        this.button(words.run.keep, "button plain", () => this.ask(false, true)),
      ];
    }
    if (status === "running") {
      const pause = this.button(this.pausing ? words.run.pausing : words.run.pause, "button", () => this.pause());
      pause.disabled = this.pausing;
      return [...(isTapped(summary) ? [] : [pause]), this.button(words.run.cancel, "button", () => this.ask(true, true))];
    }
    if (summary?.resumed_as) return [this.button(words.run.openResumed, "button", () => this.actions.follow(summary.resumed_as))];
    const made = this.canRate && ["finished", "aborted"].includes(status) ? [this.rate("good", words.run.good), this.rate("poor", words.run.poor)] : [];
    if (summary?.can_requeue) {
      const button = this.button(words.run.requeue, "button", () => this.requeue(button));
      button.title = words.run.requeueHelp;
      made.unshift(button);
    }
    return made;
  }

  rate(value, text) {
    const title = fill(words.run.rate, { value: text }), button = this.button(text, "button plain", () => this.actions.rate(value, title, button));
    button.title = title;
    return button;
  }

  async requeue(button) {
    button.disabled = true;
    button.disabled = (await this.actions.requeue()) !== null;
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
