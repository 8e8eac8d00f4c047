// Tokens and cost so far, and how fast the model writes. What they show stands in words beside them.

import { spanFor } from "./axis.js";
import { byId, el, setText, show } from "./dom.js";
import { Chart, line } from "./chart.js";
import { costData, peakRate, rateData, tokenData, usageRows } from "./chart_data.js";
import { Course } from "./course.js";
import { count, money, short } from "./format.js";
import { usageOf } from "./usage.js";

const REST = 300; // milliseconds between two pictures
const TAIL = 0.015; // of the axis, behind the last total: a step at the very end would not be seen
const still = matchMedia("(prefers-reduced-motion: reduce)");
const whole = (n) => (Number.isInteger(n) ? short(n) : "");

export class ChartsView {
  constructor() {
    this.tokens = new Chart(byId("tokens-chart"), [line("--input"), line("--accent")], { least: 4, blank: 4, show: whole });
    this.cost = new Chart(byId("cost-chart"), [line("--accent", "--accent-soft")], { blank: 0.01, show: (n) => String(Number(n.toPrecision(3))) });
    this.rate = new Chart(byId("rate-chart"), [line("--accent", "--accent-soft")], { least: 4, blank: 4, show: whole });
    this.open(new Course());
  }

  open(course) {
    this.course = course;
    this.drawn = -Infinity;
    this.shown = "";
  }

  recolour() {
    for (const chart of [this.tokens, this.cost, this.rate]) chart.recolour();
  }

  // `cost` is that of the run, or null; `prices` are those of its model, or null.
  draw(now, cost, prices) {
    this.say(cost, prices?.currency);
    this.asked = [now, prices];
    clearTimeout(this.later);
    const time = performance.now(), rest = this.drawn + (still.matches ? 4 * REST : REST) - time;
    if (rest > 0 && this.course.isRunning) {
      this.later = setTimeout(() => this.paint(...this.asked), rest);
      return;
    }
    this.drawn = time;
    this.paint(now, prices);
  }

  paint(now, prices) {
    const { course } = this, elapsed = course.elapsed(now);
    const state = `${course.runs.map((run) => run.series.version)} ${elapsed} ${prices === null}`;
    show(byId("cost-figure"), prices !== null);
    if (state === this.shown) return;
    this.shown = state;
    const end = elapsed + TAIL * spanFor(elapsed)[0], rows = usageRows(course, end);
    this.tokens.set(tokenData(rows), elapsed);
    if (prices !== null) this.cost.set(costData(rows, prices), elapsed);
    this.rate.set(rateData(course, end), elapsed);
  }

  say(cost, currency) {
    const { run } = this.course, usage = run ? usageOf(run) : {};
    const parts = [["input", usage.input_tokens, "read"], ["written", usage.output_tokens, "written"], ["", usage.cache_read_tokens, "cached"], ["", usage.reasoning_tokens, "thinking"]];
    const known = parts.filter(([key, n]) => (key ? typeof n === "number" : n));
    const text = known.map(([, n, word]) => `${count(n)} ${word}`).join(" · ");
    const caption = byId("tokens-caption");
    if (text === "") setText(caption, run === null ? "" : this.course.isRunning ? "no numbers yet" : "not told");
    else if (caption.textContent !== text) {
      const spans = known.map(([key, n, word]) => el("span", { class: key ? `key ${key}` : null, text: `${count(n)} ${word}` }));
      caption.replaceChildren(...spans.flatMap((span, n) => (n ? [" · ", span] : [span])));
    }
    setText(byId("cost-title"), currency ? `Cost in ${currency}` : "Cost");
    setText(byId("cost-caption"), cost === null ? "" : money(cost));
    setText(byId("rate-caption"), run ? `at most about ${count(Math.round(peakRate(this.course)))} tokens a second` : "");
  }
}
