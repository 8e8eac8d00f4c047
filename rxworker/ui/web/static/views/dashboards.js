// The dashboards beside a conversation, or on the page of all runs: one is chosen, and shown of a run, of its conversation or of all runs, also at a moment of the past.
//
// The address of the page names both, `?board=runs&of=all`, so that what is shown can be shared and survives a reload.
//
// Theory of operation. Nothing is received before the section is on the screen, or while the page is hidden: a browser opens six connections to a server, for all its tabs. `show` names what is selected; the server computes what the panels show.

import { note, noted } from "./address.js";
import { el, recalled, remember, setText, show } from "./dom.js";
import { BoardView } from "./board.js";
import { XRayView } from "./xray.js";
import { BoardSource, dashboardsOf } from "../net/board.js";
import { at } from "../net/server.js";
import { fill, words } from "../model/language.js";

// Dashboards of the product that have a place of their own.
export const OWN_BOARDS = ["usage", "fleet-hour", "fleet-day", "fleet-week"];

export class DashboardsView {
  // `section` has a select to choose a dashboard, except where it is always `fixed`; without `fixed`, `own` are the names of those that are shown elsewhere. The others are options of `BoardView`.
  constructor(section, scope, { fixed = "", own = [], ...shown } = {}) {
    Object.assign(this, { section, scope, fixed, own, query: {}, isStill: false, run: "", conversation: "", time: null, boards: null, source: null, shown: "", isSeen: false, xrays: [] });
    this.board = new BoardView(section.querySelector(".board"), shown);
    this.note = section.querySelector(".board-note");
    this.choice = section.querySelector("select");
    this.scopes = [...(section.querySelector(".segments")?.children ?? [])];
    this.choice?.addEventListener("change", () => {
      note("board", this.choice.value);
      this.open(this.choice.value);
    });
    section.querySelector("#board-share")?.addEventListener("click", () => this.offer());
    for (const button of this.scopes) button.addEventListener("click", () => this.choose(button.value));
    const of = noted("of");
    if (!fixed && this.scopes.some(({ value }) => value === of)) this.press(of);
    this.fold = section.querySelector("details"); // in which it may be
    if (this.fold) {
      this.fold.open = recalled(`rxworker.${section.id}`) === "open";
      this.fold.addEventListener("toggle", () => this.folded());
    }
    // A busy browser reports several changes at once: the last one holds.
    new IntersectionObserver((entries) => this.seen(entries.at(-1).isIntersecting)).observe(section);
    document.addEventListener("visibilitychange", () => this.update());
  }

  // A read-only link shows all dashboards of its run, or one dashboard of what it names.
  restrict({ run, conversation, board }) {
    this.scope = run ? "run" : conversation ? "conversation" : "all";
    if (board) Object.assign(this, { run, conversation, own: [], show() {} });
    this.update();
  }

  // Offer to share the dashboard that is shown, by `share`.
  offer() {
    const { scope, run, conversation, choice } = this, { share } = words, title = choice.selectedOptions[0]?.text ?? "";
    const [shown, text] = { run: [{ run }, share.ofRun], conversation: [{ conversation }, share.ofConversation], all: [{}, share.ofAll] }[scope];
    if (choice.value !== "") this.share({ board: choice.value, ...shown }, fill(text, { board: title }), this.section.querySelector("#board-share"));
  }

  choose(scope) {
    this.press(scope);
    if (!this.fixed) note("of", scope);
    this.update();
  }

  press(scope) {
    this.scope = scope;
    for (const button of this.scopes) button.setAttribute("aria-pressed", String(button.value === scope));
  }

  seen(isSeen) {
    this.isSeen = isSeen;
    if (isSeen && this.boards === null) this.load();
    this.update();
  }

  // Where it is folded, nothing is received. The browser remembers whether it is.
  folded() {
    remember(`rxworker.${this.section.id}`, this.fold.open ? "open" : "closed");
    this.update();
  }

  async load() {
    this.boards = [];
    try {
      this.boards = await dashboardsOf(at(".").href);
    } catch (problem) {
      this.boards = null;
      return this.problem(problem);
    }
    this.loaded(this.boards);
    if (this.fixed) return this.open(this.fixed);
    const others = this.boards.filter(({ name }) => !this.own.includes(name));
    show(this.section, others.length > 0);
    this.choice.replaceChildren(...others.map(({ name, title }) => el("option", { value: name, text: title })));
    const named = noted("board");
    if (others.some(({ name }) => name === named)) this.choice.value = named;
    this.open(this.choice.value);
  }

  // The dashboards of the server are known.
  loaded() {}

  // Show another one where it is always the same.
  fix(name) {
    this.fixed = name;
    if (this.boards !== null) this.open(name);
  }

  open(name) {
    const found = this.boards.find((each) => each.name === name);
    this.section.querySelector("#board-page")?.setAttribute("href", `boards/${name}`);
    this.source?.close();
    this.source = null;
    for (const xray of this.xrays) xray.close();
    this.xrays = [];
    if (!found) return;
    const server = at(".").href, makeXRay = (panel) => {
      const xray = new XRayView(server, found.name, panel);
      this.xrays.push(xray);
      return xray;
    };
    this.board.open(found.panels, found.xray ? makeXRay : null);
    this.source = new BoardSource(server, found.name, { states: (states) => this.draw(states), problem: (problem) => this.problem(problem) });
    this.shown = "";
    this.update();
  }

  draw(states) {
    this.board.node.removeAttribute("aria-busy");
    this.board.draw(states);
  }

  // What is selected: a run, its conversation, and the moment of the slider, or null for the present.
  show(run, conversation, time = null) {
    if (run === this.run && conversation === this.conversation && time === this.time) return;
    Object.assign(this, { run, conversation, time });
    this.update();
  }

  // What is shown of all runs: `query` is a time and filters; `isStill` if it is shown as it is now, without what follows.
  narrow(query, time, isStill) {
    Object.assign(this, { query, time, isStill });
    this.update();
  }

  update() {
    if (this.source === null) return;
    const { scope, time, isStill } = this, query = scope === "all" ? this.query : scope === "run" ? { run: this.run } : { conversation: this.conversation };
    const shown = this.isSeen && (this.fold?.open ?? true) && !document.hidden && !Object.values(query).includes("") ? JSON.stringify([query, time, isStill]) : "";
    if (shown === this.shown) return;
    this.shown = shown;
    for (const xray of this.xrays) xray.show(shown === "" ? null : query, time);
    if (shown === "") return this.source.close();
    this.board.node.setAttribute("aria-busy", "true");
    if (time === null && !isStill) this.source.follow(query);
    else this.source.at(query, time);
    this.problem(null);
  }

  problem(problem) {
    setText(this.note, problem === null ? (this.time === null ? "" : words.board.past) : problem.status ? problem.message : words.board.lost);
    show(this.note, this.note.textContent !== "");
  }
}
