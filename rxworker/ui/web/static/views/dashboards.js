// The dashboards beside a conversation, or on the page of all runs: one is chosen, and shown of a run, of its conversation or of all runs, also at a moment of the past.
//
// The address of the page names both, `?board=runs&of=all`, so that what is shown can be shared and survives a reload.
//
// Theory of operation. Nothing is received before the section is on the screen. `show` names what is selected; the server computes what the panels show.

import { note, noted } from "./address.js";
import { byId, el, setText, show } from "./dom.js";
import { BoardView } from "./board.js";
import { XRayView } from "./xray.js";
import { BoardSource, dashboardsOf } from "../net/board.js";
import { fill, words } from "../model/language.js";

const SERVER = new URL(".", document.baseURI).href;

export class DashboardsView {
  constructor(scope) {
    Object.assign(this, { scope, run: "", conversation: "", time: null, boards: null, source: null, shown: "", isSeen: false, xrays: [] });
    this.board = new BoardView(byId("board"));
    this.choice = byId("board-choice");
    this.choice.addEventListener("change", () => {
      note("board", this.choice.value);
      this.open();
    });
    byId("board-share").addEventListener("click", () => this.offer());
    for (const button of byId("board-scope")?.children ?? []) button.addEventListener("click", () => this.choose(button.value));
    const of = noted("of");
    if ([...(byId("board-scope")?.children ?? [])].some(({ value }) => value === of)) this.press(of);
    new IntersectionObserver(([entry]) => this.seen(entry.isIntersecting)).observe(byId("board-panel"));
  }

  // A read-only link shows all dashboards of its run, or one dashboard of what it names.
  restrict({ run, conversation, board }) {
    this.scope = run ? "run" : conversation ? "conversation" : "all";
    if (board) Object.assign(this, { run, conversation, show() {} });
    this.update();
  }

  // Offer to share the dashboard that is shown, by `share`.
  offer() {
    const { scope, run, conversation, choice } = this, { share } = words, title = choice.selectedOptions[0]?.text ?? "";
    const [shown, text] = { run: [{ run }, share.ofRun], conversation: [{ conversation }, share.ofConversation], all: [{}, share.ofAll] }[scope];
    if (choice.value !== "") this.share({ board: choice.value, ...shown }, fill(text, { board: title }), byId("board-share"));
  }

  choose(scope) {
    this.press(scope);
    note("of", scope);
    this.update();
  }

  press(scope) {
    this.scope = scope;
    for (const button of byId("board-scope").children) button.setAttribute("aria-pressed", String(button.value === scope));
  }

  seen(isSeen) {
    this.isSeen = isSeen;
    if (isSeen && this.boards === null) this.load();
    this.update();
  }

  async load() {
    this.boards = [];
    try {
      this.boards = await dashboardsOf(SERVER);
    } catch (problem) {
      this.boards = null;
      return this.problem(problem);
    }
    this.choice.replaceChildren(...this.boards.map(({ name, title }) => el("option", { value: name, text: title })));
    const named = noted("board");
    if (this.boards.some(({ name }) => name === named)) this.choice.value = named;
    this.open();
  }

  open() {
    const found = this.boards.find(({ name }) => name === this.choice.value);
    this.source?.close();
    this.source = null;
    for (const xray of this.xrays) xray.close();
    this.xrays = [];
    if (!found) return;
    const makeXRay = (panel) => {
      const xray = new XRayView(SERVER, found.name, panel);
      this.xrays.push(xray);
      return xray;
    };
    this.board.open(found.panels, found.xray ? makeXRay : null);
    this.source = new BoardSource(SERVER, found.name, { states: (states) => this.board.draw(states), problem: (problem) => this.problem(problem) });
    this.shown = "";
    this.update();
  }

  // What is selected: a run, its conversation, and the moment of the slider, or null for the present.
  show(run, conversation, time = null) {
    if (run === this.run && conversation === this.conversation && time === this.time) return;
    Object.assign(this, { run, conversation, time });
    this.update();
  }

  update() {
    if (this.source === null) return;
    const { scope, time } = this, query = scope === "all" ? {} : scope === "run" ? { run: this.run } : { conversation: this.conversation };
    const shown = this.isSeen && !Object.values(query).includes("") ? JSON.stringify([query, time]) : "";
    if (shown === this.shown) return;
    this.shown = shown;
    for (const xray of this.xrays) xray.show(shown === "" ? null : query, time);
    if (shown === "") return this.source.close();
    if (time === null) this.source.follow(query);
    else this.source.at(query, time);
    this.problem(null);
  }

  problem(problem) {
    setText(byId("board-note"), problem === null ? (this.time === null ? "" : words.board.past) : problem.status ? problem.message : words.board.lost);
    show(byId("board-note"), byId("board-note").textContent !== "");
  }
}
