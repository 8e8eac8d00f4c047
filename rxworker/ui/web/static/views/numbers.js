// The figures of a run, of its conversation, or of all runs in the list: tokens, cost, waits, speed and tools; and what each model took.

import { byId, el, setData, setText, show } from "./dom.js";
import { count, money, plural, seconds, short } from "../model/format.js";
import { quantile, sumOf, timesOf } from "../model/numbers.js";
import { fill, words } from "../model/language.js";

const NONE = "–";
const about = (text, isEstimate) => (isEstimate ? fill(words.numbers.about, { text }) : text);
const time = (s) => (s === null ? NONE : s < 1 ? fill(words.units.milliseconds, { n: Math.round(s * 1000) }) : seconds(s));

export class NumbersView {
  // `allTools()` returns the 95th percentile of the tools of all runs in seconds, or null.
  constructor(allTools) {
    this.allTools = allTools;
    this.scope = "run";
    this.panel = byId("numbers-panel");
    for (const button of byId("numbers-scope").children) button.addEventListener("click", () => this.choose(button.value));
  }

  choose(scope) {
    this.scope = scope;
    setData(this.panel, "scope", scope);
    for (const button of byId("numbers-scope").children) button.setAttribute("aria-pressed", String(button.value === scope));
    this.toolsOfAll = null;
    if (scope === "all") this.allTools().then((s) => { this.toolsOfAll = s; this.draw(this.state); }, () => {});
    this.draw(this.state);
  }

  // `state`: { timeline, summary, list, runs, figures, now }
  draw(state) {
    this.state = state;
    const [figures, models] = this.scope === "run" ? this.ofRun(state) : this.scope === "conversation" ? this.ofConversation(state) : this.ofAll(state);
    this.show(figures);
    this.showModels(models);
  }

  ofRun({ timeline, figures: { usage, models, cost, currency, isEstimate } }) {
    if (timeline.run === null) return [[], []];
    const total = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
    return [[[words.numbers.tokens, about(count(total), isEstimate)], [words.numbers.cost, cost === null ? NONE : about(money(cost, currency), isEstimate)], ...this.times(timeline.runs)], models];
  }

  times(runs, note = "") {
    const { wait, longestWait, speed, tools, isSpeedEstimate } = timesOf(runs), p50 = quantile(tools, 0.5), p95 = quantile(tools, 0.95);
    return [
      [words.numbers.wait, time(wait), longestWait === wait ? note : fill(words.numbers.upTo, { time: time(longestWait) })],
      [words.numbers.speed, speed === null ? NONE : about(plural(words.numbers.perSecond, Math.round(speed)), isSpeedEstimate), note],
      [words.numbers.toolsHalf, time(p50), tools.length ? plural(words.run.calls, tools.length) : ""],
      [words.numbers.toolsMost, time(p95), ""],
    ];
  }

  // Waits, speeds and tools are those of the runs whose records this page has.
  ofConversation({ summary, list, runs, now, figures: { currency } }) {
    const mine = summary === null ? [] : list.filter((run) => run.conversation === summary.conversation);
    const folded = mine.map((run) => runs.get(run.id)).filter((run) => run && run.seq > 0);
    const note = folded.length < mine.length ? fill(words.numbers.partly, { shown: folded.length, n: mine.length }) : "";
    return [[...this.sums(mine, now, currency), ...this.times(folded, note)], []];
  }

  sums(summaries, now, currency) {
    const sum = sumOf(summaries, now), isRunning = summaries.some((run) => run.status === "running");
    return [
      [words.numbers.runs, count(sum.runs), sum.failed ? plural(words.numbers.failed, sum.failed) : ""],
      [words.numbers.tokens, short(sum.input + sum.output), ""],
      [words.numbers.cost, sum.cost === null ? NONE : money(sum.cost, currency), ""],
      [words.numbers.time, seconds(sum.took), isRunning ? words.numbers.soFar : ""],
    ];
  }

  ofAll({ list, now, figures: { currency } }) {
    const sum = sumOf(list, now), [, ...rest] = this.sums(list, now, currency);
    const figures = [
      [words.numbers.runs, count(sum.runs), sum.failed ? plural(words.numbers.failed, sum.failed) : ""], ...rest.slice(0, 2),
      [words.numbers.median, sum.median === null ? NONE : seconds(sum.median), ""], [words.numbers.longest, sum.longest === null ? NONE : seconds(sum.longest), ""],
      [words.numbers.calls, count(sum.calls), ""],
    ];
    if (this.toolsOfAll !== null && this.toolsOfAll !== undefined) figures.push([words.numbers.toolsMost, time(this.toolsOfAll), words.numbers.week]);
    return [figures, []];
  }

  show(figures) {
    const list = byId("figures");
    while (list.childElementCount > figures.length) list.lastElementChild.remove();
    while (list.childElementCount < figures.length) list.append(el("div", {}, el("dt"), el("dd"), el("dd", { class: "figure-note" })));
    figures.forEach(([name, value, note = ""], at) => {
      const [title, number, small] = list.children[at].children;
      setText(title, name);
      setText(number, value);
      setText(small, note);
    });
  }

  showModels(models) {
    const table = byId("models"), rows = table.tBodies[0];
    show(table, models.length > 0);
    while (rows.rows.length > models.length) rows.lastElementChild.remove();
    while (rows.rows.length < models.length) rows.append(el("tr", {}, el("th", { scope: "row" }), el("td"), el("td"), el("td")));
    models.forEach(({ model, requests, usage, cost, currency, isEstimate }, at) => {
      const { cells } = rows.rows[at];
      const texts = [model || words.numbers.before, requests ? count(requests) : NONE, about(short((usage.input_tokens ?? 0) + (usage.output_tokens ?? 0)), isEstimate), cost === null ? NONE : about(money(cost, currency), isEstimate)];
      texts.forEach((text, n) => setText(cells[n], text));
    });
  }
}
