// Everything about one row of the trace: times, state, tokens, arguments, result, notices, the request as it was sent, and the records as they were received.

import { codeBlock, copyButton } from "./code.js";
import { el, show } from "./dom.js";
import { JsonTree } from "./json_tree.js";
import { ResultView } from "./result.js";
import { count, money, plural, pretty, seconds, statusWord } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { costOf, textOf } from "../model/run_state.js";

const MAX = 200; // records that are listed

export class Inspector {
  // `tape(id)` returns the records of a run, `priceOf(model)` the prices of a model or null, `reveal(run, thing)` shows a row in the conversation, if there is one,
  // and `sent(id, seq)` returns a promise of the request of an attempt, if the server can be asked for it.
  constructor(node, tape, priceOf, reveal, sent = null) {
    this.node = node;
    this.tape = tape;
    this.priceOf = priceOf;
    this.reveal = reveal;
    this.sent = sent;
    this.shown = null;
    this.asked = null; // the request that is shown: { run, seq, node }
  }

  open(timeline, run, thing) {
    this.shown = { timeline, run, thing };
    this.from = this.node.getRootNode().activeElement;
    this.fill();
    show(this.node, true);
    this.node.scrollIntoView({ block: "nearest" });
  }

  close(returns = false) {
    if (this.shown === null) return;
    this.shown = null;
    show(this.node, false);
    this.node.replaceChildren();
    if (returns) this.from?.focus();
  }

  draw(changed) {
    if (this.shown !== null && changed.has(this.shown.thing)) this.fill();
  }

  fill() {
    const { run, thing } = this.shown, { trace } = words;
    const isOpen = this.node.querySelector("details.raw")?.open ?? false, found = recordsOf(this.tape(run.id), thing);
    const head = el("div", { class: "inspector-head" }, el("h3", { id: "inspector-title", text: titleOf(thing) }),
      thing.kind === "span" || !this.reveal ? null : el("button", { type: "button", text: trace.show, onclick: () => this.reveal(run, thing) }),
      el("button", { type: "button", text: trace.close, onclick: () => this.close(true) }));
    const facts = el("dl", {}, ...this.facts().filter(([, text]) => text).map(([name, text]) => el("div", {}, el("dt", { text: name }), el("dd", { text }))));
    this.node.replaceChildren(head, facts, ...this.parts(), ...this.request(found), this.events(found, isOpen));
  }

  facts() {
    const { timeline, run, thing } = this.shown, { trace } = words, usage = thing.usage, prices = this.priceOf(thing.model ?? "");
    const from = thing.writtenFrom ?? thing.from, took = thing.seconds ?? (thing.to !== null && thing.from !== null ? thing.to - thing.from : null);
    const read = usage?.input_tokens, written = usage?.output_tokens;
    return [
      [trace.state, stateOf(thing)],
      [trace.inTurn, thing.turn ? String(thing.turn + (thing.scope.depth === 0 ? run.turnsBefore : 0)) : ""],
      [trace.from, from === null ? "" : seconds(timeline.place(run, from))],
      [trace.took, took === null ? "" : seconds(took)],
      [trace.firstBlock, thing.first ? seconds(thing.first - thing.from) : ""],
      [trace.model, thing.model ?? ""],
      [trace.size, thing.kind === "block" ? plural(words.lanes.characters, thing.size) : ""],
      [trace.tokens, usage ? [[words.charts.read, read], [words.charts.written, written]].filter(([, n]) => typeof n === "number").map(([text, n]) => plural(text, n)).join(", ") : ""],
      [trace.cost, usage && prices ? money(costOf(prices, usage), prices.currency) : ""],
    ];
  }

  parts() {
    const { thing } = this.shown, parts = [];
    const section = (title, node) => parts.push(el("h4", { text: title }), node);
    if (thing.kind === "call") {
      section(words.call.arguments, codeOf(thing.input === undefined ? textOf(thing) : pretty(thing.input), thing.input));
      if (thing.result !== null) parts.push(resultOf(thing));
      if (thing.verdicts.length) section(words.trace.notices, el("ul", {}, ...thing.verdicts.map((one) => el("li", { text: fill(one.reason ? words.call.verdictWhy : words.call.verdict, one) }))));
    } else if (thing.kind === "block" && thing.size) section(words.talk.answer, codeOf(textOf(thing), null));
    else if (thing.kind === "span" && thing.marks.length) section(words.trace.notices, el("ul", {}, ...thing.marks.slice(-50).map((note) => el("li", { text: `${note.title}: ${note.text}` }))));
    return parts;
  }

  // The request of an attempt, or of the last attempt of a turn. It is requested when the user opens it.
  request(found) {
    const { run, thing } = this.shown, seq = thing.kind === "span" ? found.findLast(({ event }) => event.type === "attempt_start")?.seq : undefined;
    if (seq === undefined || this.sent === null) return [];
    if (this.asked?.run !== run.id || this.asked.seq !== seq) this.asked = { run: run.id, seq, node: requestNode(() => this.sent(run.id, seq)) };
    return [this.asked.node];
  }

  // The records are listed when the user asks for them: there may be thousands.
  events(found, isOpen) {
    const list = el("ol", { class: "events", tabindex: "0", "aria-label": words.trace.raw });
    const fillList = () => {
      if (list.childElementCount > 0) return;
      list.append(...found.slice(0, MAX).map((record) => el("li", { text: JSON.stringify(record) })));
      if (found.length > MAX) list.append(el("li", { text: fill(words.trace.more, { n: found.length - MAX }) }));
    };
    const details = el("details", { class: "raw", ontoggle: () => details.open && fillList() }, el("summary", { text: fill(words.trace.events, { n: found.length }, count) }), list);
    details.open = isOpen;
    return details;
  }
}

function titleOf(thing) {
  if (thing.kind === "call") return thing.name || words.call.tool;
  if (thing.kind === "block") return words.lanes[thing.type] ?? thing.label ?? thing.type;
  if (thing.type === "turn") return fill(words.trace.turn, { n: thing.number });
  return thing.number > 1 ? fill(words.trace.attempt, { n: thing.number }) : words.trace.response;
}

function stateOf(thing) {
  if (thing.retracted) return words.call.retracted;
  if (thing.kind === "call") return words.call[thing.state] ?? thing.state;
  return thing.phase === "open" ? statusWord("running", "") : thing.phase === "aborted" ? words.call.cut : words.call.done;
}

const { request } = words;
const DOUBTS = { nested: request.nested, worker: request.worker, process: request.process, hooks: request.hooks, model: request.model, tools: request.tools, form: request.form };

function requestNode(load) {
  const body = el("div", { class: "request-body", "aria-live": "polite" });
  let isLoaded = false;
  const fillBody = async () => {
    if (isLoaded) return;
    isLoaded = true;
    body.replaceChildren(el("p", { text: request.loading }));
    try {
      body.replaceChildren(...sentNodes(await load()));
    } catch (problem) {
      isLoaded = false; // opening it again asks again
      body.replaceChildren(el("p", { class: "bad", text: problem.message }));
    }
  };
  const details = el("details", { class: "request", ontoggle: () => details.open && fillBody() }, el("summary", { text: request.title }), body);
  return details;
}

function sentNodes({ url, body, doubts, hooks }) {
  const why = doubts.map((doubt) => el("li", { text: fill(DOUBTS[doubt] ?? doubt, { hooks: hooks.join(", ") }) }));
  return [
    el("div", { class: "request-head" }, el("code", { text: url ? `POST ${url}` : request.noAddress }), copyButton(() => JSON.stringify(body, null, 2))),
    why.length ? el("ul", { class: "doubts", "aria-label": request.doubts }, ...why) : null,
    new JsonTree(body).node,
    el("p", { class: "request-note", text: request.note }),
  ].filter(Boolean);
}

function resultOf(call) {
  const view = new ResultView();
  view.fill(call.result, call.parts);
  show(view.node, true);
  return view.node;
}

function codeOf(text, value) {
  const block = codeBlock(value !== null && typeof value === "object" ? "json" : "", text);
  block.end();
  return block.node;
}

// The records of a block or call, or of all of a turn or an attempt.
export function recordsOf(tape, thing) {
  const path = thing.scope.path.join("\n"), isWithin = ({ time }) => time >= thing.from - 1e-9 && (thing.to === null || time <= thing.to + 1e-9);
  return tape.filter((record) => {
    const { event } = record;
    if ((record.path ?? []).join("\n") !== path || (thing.turn && record.turn !== thing.turn)) return false;
    if (thing.kind === "span") return thing.type === "turn" || (isWithin(record) && record.attempt === thing.number);
    const call = event.call?.id ?? event.call_id ?? event.result?.tool_use_id ?? event.metadata?.id;
    if (thing.kind === "call" && call === thing.id) return true;
    return event.index === thing.index && thing.index !== null && (event.choice ?? 0) === thing.choice;
  });
}
