// Two runs side by side: both in numbers, and the steps of their conversations, of which the equal ones are folded.

import { byId, el, setData, setText, show } from "./dom.js";
import { clip, count, money, plural, seconds, statusWord } from "../model/format.js";
import { figuresOf, partsOf, rowsOf, sourceOf, stepsOf, textsOf } from "../model/compare.js";
import { fill, words } from "../model/language.js";
import { writeLink } from "../model/link.js";

const PAUSE = 400; // milliseconds between two comparisons of runs that grow
const LONGEST = 4_000; // characters of a part of a text that are shown
const AROUND = 240; // characters of a long equal part that are shown beside a difference

export class CompareView {
  // `actions`: { swap, choose, close }; `again` draws the page again.
  constructor(actions, again) {
    this.again = again;
    this.node = byId("compare");
    this.list = el("ol", { class: "compare-rows", "aria-labelledby": "compare-title" });
    this.figures = el("tbody");
    this.heads = ["a", "b"].map((side) => new Head(side));
    this.note = el("p", { class: "compare-note", role: "status" });
    const { compare } = words, button = (text, act) => el("button", { type: "button", class: "button small", text, onclick: act });
    this.node.append(
      el("header", { class: "compare-head" }, el("h2", { id: "compare-title", text: compare.title }), this.note,
        button(compare.swap, actions.swap), button(compare.another, actions.choose), button(compare.close, actions.close)),
      el("div", { class: "compare-body", tabindex: "0", role: "group", "aria-labelledby": "compare-title" },
        el("table", { class: "compare-figures" }, el("caption", { class: "hidden", text: compare.figures }),
          el("thead", {}, el("tr", {}, el("td"), ...this.heads.map((head) => head.node), el("th", { scope: "col", text: compare.change }))), this.figures),
        this.list),
    );
    this.close();
  }

  close() {
    if (this.node.hidden && this.shown === null) return;
    const hadFocus = this.node.contains(document.activeElement);
    this.shown = null; // what was compared
    this.rows = [];
    this.at = -PAUSE;
    show(this.node, false);
    this.list.replaceChildren();
    setData(byId("main"), "compared", "false");
    if (hadFocus) byId("run-more").focus();
  }

  // Each of `a` and `b` is { run, summary, tape, status, cost, currency }.
  draw(a, b, now) {
    const isOpened = this.node.hidden;
    show(this.node, true);
    setData(byId("main"), "compared", "true");
    const [ofA, ofB] = [sourceOf(a.tape), sourceOf(b.tape)];
    this.heads[0].draw(a, ofA === b.run.id);
    this.heads[1].draw(b, ofB === a.run.id);
    this.fill(figuresIn(a, now), figuresIn(b, now));
    const wanted = [a, b].map(({ run, status }) => `${run.id} ${run.seq} ${status}`).join(" ");
    if (wanted !== this.shown) this.compare(a, b, wanted);
    if (isOpened) this.node.focus({ preventScroll: true });
  }

  compare(a, b, wanted) {
    const now = performance.now();
    if (now - this.at < PAUSE && this.shown !== null) {
      this.timer ??= setTimeout(() => {
        this.timer = null;
        this.again();
      }, PAUSE);
      return;
    }
    this.at = now;
    this.shown = wanted;
    const isKnown = a.run.seq > 0 && b.run.seq > 0, rows = isKnown ? rowsOf(stepsOf(a.run.root.items), stepsOf(b.run.root.items)) : [];
    const others = rows.filter(({ isEqual }) => !isEqual).length, { compare } = words;
    const gone = [a, b].find(({ run, status }) => status === "gone" && run.seq === 0);
    setText(this.note, gone ? fill(compare.gone, gone.run) : !isKnown ? compare.loading : others === 0 ? compare.same : `${plural(compare.differences, others)}, ${plural(compare.equal, rows.length - others)}`);
    this.list.replaceChildren(...this.nodesOf(groupsOf(rows), a, b));
  }

  // What is shown already stays, with its focus and what was opened in it.
  nodesOf(groups, a, b) {
    const known = new Map(this.rows.map((row) => [row.name, row.node]));
    this.rows = groups.map((group) => {
      const name = group.map((row) => `${row.isEqual} ${nameOf(row.a)} ${nameOf(row.b)}`).join();
      return { name, node: known.get(name) ?? (group[0].isEqual ? sameNode(group) : otherNode(group[0], a.run, b.run)) };
    });
    return this.rows.map(({ node }) => node);
  }

  fill(a, b) {
    const texts = a.map(([name, text, value], n) => [name, text, b[n][1], changeOf(value, b[n][2], a[n][3])]);
    while (this.figures.childElementCount < texts.length) this.figures.append(el("tr", {}, el("th", { scope: "row" }), el("td"), el("td"), el("td", { class: "compare-change" })));
    texts.forEach((row, n) => row.forEach((text, at) => setText(this.figures.children[n].children[at], text)));
  }
}

// The head of a column: a letter, the title of the run as a link to it, and whether it is a fork of the other.
class Head {
  constructor(side) {
    this.link = el("a", { dir: "auto" });
    this.more = el("span", { class: "compare-fork" });
    this.node = el("th", { scope: "col" }, letter(side), this.link, this.more);
  }

  draw({ run, summary }, isFork) {
    setText(this.link, clip(summary?.title || words.runs.untitled, 60));
    this.link.setAttribute("href", writeLink({ run: run.id }));
    this.link.title = run.id;
    setText(this.more, isFork ? words.compare.fork : "");
  }
}

const LETTERS = { a: words.compare.a, b: words.compare.b };
const letter = (side) => el("span", { class: `compare-letter ${side}`, text: LETTERS[side] });

// A run in numbers: [name, text, value, how a difference is written].
function figuresIn({ run, summary, tape, status, cost, currency }, now) {
  const { compare } = words, found = figuresOf(run, now), about = (text) => (found.isEstimate ? fill(words.numbers.about, { text }) : text);
  const number = (name, n) => [name, n === null ? "–" : count(n), n, count], tokens = (name, n) => [name, n === null ? "–" : about(count(n)), n, count];
  return [
    [compare.status, statusWord(status, run.cause || summary?.cause), null, null],
    [compare.model, run.model || "–", null, null],
    number(compare.turns, found.turns), number(compare.requests, found.requests), number(compare.calls, found.calls),
    [compare.duration, found.seconds === null ? "–" : seconds(found.seconds), found.seconds, seconds],
    tokens(compare.read, found.input), tokens(compare.written, found.output),
    [compare.cost, cost === null ? "–" : about(money(cost, currency)), cost, (n) => money(n, currency)],
  ];
}

function changeOf(a, b, written) {
  if (a === null || b === null || a === b) return "";
  const by = b - a, part = a > 0 ? Math.round((100 * by) / a) : null, sign = by > 0 ? "+" : "−";
  return part ? `${sign}${written(Math.abs(by))} (${sign}${count(Math.abs(part))} %)` : `${sign}${written(Math.abs(by))}`;
}

// Neighbouring equal rows together, any other row alone.
function groupsOf(rows) {
  const groups = [];
  for (const row of rows) {
    if (row.isEqual && groups.at(-1)?.[0].isEqual) groups.at(-1).push(row);
    else groups.push([row]);
  }
  return groups;
}

const nameOf = (step) => (step === null ? "" : `${step.item.key} ${step.item.size ?? 0} ${step.item.state ?? ""} ${step.item.seconds ?? ""}`);

const SPEAKER = { user: words.talk.you, system: words.talk.instructions, assistant: words.talk.model };

function titleOf({ item, depth }) {
  if (item.kind === "message" && item.role === "user" && depth > 0) return words.talk.task;
  if (item.kind === "message") return SPEAKER[item.role] ?? item.role;
  if (item.kind === "call") return item.name || words.call.tool;
  return item.type === "text" ? words.talk.model : words.talk[item.type] ?? item.label ?? item.type;
}

// Equal steps: one line each, which are made when they are opened.
function sameNode(group) {
  const lines = el("ul");
  const line = ({ a, b }) => el("li", { class: a.item.kind }, el("strong", { text: titleOf(a) }), el("span", { class: "compare-brief", text: clip(textsOf(a.item)[0], 160) }), el("span", { class: "compare-times", text: timesOf(a.item, b.item) }));
  const details = el("details", { ontoggle: () => details.open && !lines.childElementCount && lines.append(...group.map(line)) }, el("summary", { text: plural(words.compare.equal, group.length) }), lines);
  return el("li", { class: "compare-same" }, details);
}

const timesOf = (a, b) => (typeof a.seconds === "number" && typeof b.seconds === "number" ? `${seconds(a.seconds)} · ${seconds(b.seconds)}` : "");

// A step that differs, or that only one run has.
function otherNode(row, runA, runB) {
  const { compare } = words, both = row.a !== null && row.b !== null, word = both ? compare.changed : row.a ? compare.onlyA : compare.onlyB;
  const texts = [row.a, row.b].map((step) => (step ? textsOf(step.item) : null));
  const parts = both ? texts[0].map((text, n) => partsOf(text, texts[1][n])) : null;
  const sides = [["a", row.a, runA], ["b", row.b, runB]].map(([side, step, run], at) => (step ? sideNode(side, step, run, parts ? parts.map((pair) => pair[at]) : texts[at].map((text) => [{ text, isEqual: true }])) : el("div", { class: "compare-side none" })));
  const node = el("li", { class: `compare-row ${both ? "changed" : row.a ? "removed" : "added"}` }, el("p", { class: "compare-word", text: word }), ...sides);
  node.style.setProperty("--depth", Math.min((row.a ?? row.b).depth, 4));
  return node;
}

function sideNode(side, step, run, texts) {
  const { item } = step, isCall = item.kind === "call", place = step.depth === 0 ? run.root.items.indexOf(item) + 1 : 0;
  const facts = [isCall ? words.call[item.state] ?? item.state : "", typeof item.seconds === "number" ? seconds(item.seconds) : ""].filter(Boolean).join(" · ");
  const head = el("p", { class: "compare-step" }, letter(side), el("strong", { class: isCall ? "mono" : "", text: titleOf(step) }), el("span", { class: item.isError ? "bad" : "", text: facts }),
    place ? el("a", { href: writeLink({ run: run.id, item: place }), text: words.compare.open, "aria-label": fill(words.compare.openOf, { title: titleOf(step), run: LETTERS[side] }) }) : null);
  const label = (n) => (isCall ? el("h3", { text: n === 0 ? words.call.arguments : words.call.result }) : null);
  const bodies = texts.flatMap((parts, n) => (parts.some(({ text }) => text !== "") ? [label(n), textNode(side, parts, isCall)] : []));
  return el("div", { class: `compare-side ${side}` }, head, ...bodies);
}

function textNode(side, parts, isCode) {
  const node = el("div", { class: isCode ? "compare-text mono" : "compare-text", dir: "auto" }), isWhole = parts.length === 1;
  parts.forEach(({ text, isEqual }, n) => {
    if (isEqual && !isWhole) node.append(el("span", { text: folded(text, n > 0, n < parts.length - 1) }));
    else node.append(el(isEqual ? "span" : side === "a" ? "del" : "ins", { text: text.length > LONGEST ? `${text.slice(0, LONGEST)}… (${plural(words.result.characters, text.length)})` : text }));
  });
  return node;
}

// A long equal part: what is beside a difference.
function folded(text, hasBefore, hasAfter) {
  if (text.length <= 3 * AROUND) return text;
  return `${hasBefore ? text.slice(0, AROUND) : ""} … ${hasAfter ? text.slice(-AROUND) : ""}`;
}
