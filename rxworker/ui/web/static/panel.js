// <rx-panel src="…/api/boards/NAME?run=RUN" panel="cost">: a panel of a dashboard in a page of one's own, or all of them without `panel`. With `at`, a moment in
// seconds since the epoch, what they showed then.

import { el, setText, show } from "./views/dom.js";
import { BoardView } from "./views/board.js";
import { BoardSource, dashboardsOf } from "./net/board.js";
import { fill, locale, words } from "./model/language.js";
import { define, sheetsOf, Themed } from "./views/host.js";

const sheets = await sheetsOf(["theme", "../vendor/uplot/uPlot.min", "board"]);

class PanelElement extends Themed {
  static observedAttributes = ["src", "panel", "at", "theme", "token"];

  #source = null; // until it ends
  #query = {};
  #view = null;
  #isOpen = false; // whether its panels are known

  constructor() {
    super(sheets);
  }

  begin() {
    const src = this.src ?? "", url = URL.canParse(src, document.baseURI) ? new URL(src, document.baseURI) : null;
    const [, path, board] = url?.pathname.match(/^(.*\/)api\/boards\/([a-z0-9-]+)$/) ?? [];
    const note = el("p", { class: "board-error", part: "banner", role: "status", hidden: true }), node = el("div", { class: "board" });
    this.put(el("div", { class: "embed bare", lang: locale }, note, node));
    this.setEmpty(true);
    let shown = null;
    const problem = (error) => {
      const message = error === null ? "" : error.status === 0 && error.code !== "source" ? words.board.lost : error.message;
      setText(note, message);
      show(note, message !== "");
      if (error === null || error.code === shown) return void (shown = error?.code ?? null);
      shown = error.code;
      this.setEmpty(false);
      this.report("error", { code: error.code, message });
    };
    this.#query = {};
    if (board === undefined) return problem({ status: 0, code: "source", message: words.board.source });
    for (const name of url.searchParams.keys()) this.#query[name] = url.searchParams.getAll(name);
    this.#view = new BoardView(node);
    this.#open(new URL(path, url).href, board, this.#view, problem);
  }

  async #open(server, board, view, problem) {
    const { panel: name, reach } = this, states = (list) => {
      view.draw(list);
      this.setEmpty(false);
      this.report("states", list.filter(({ panel }) => name === null || panel === name));
    };
    const source = new BoardSource(server, board, { states, problem }, reach);
    this.#source = source;
    this.#isOpen = false;
    let panels = [];
    try {
      panels = (await dashboardsOf(server, reach)).find((each) => each.name === board)?.panels ?? [];
    } catch (error) {
      if (source === this.#source) problem(error);
      return;
    }
    if (source !== this.#source) return;
    const shown = panels.filter((panel) => name === null || panel.name === name);
    if (name !== null && shown.length === 0 && panels.length > 0) {
      return problem({ status: 404, code: "no_panel", message: fill(words.board.noPanel, { name, known: panels.map((panel) => panel.name).join(", ") }) });
    }
    view.open(shown);
    this.#isOpen = true;
    this.move();
  }

  // Show the moment of `at`, or the present.
  move() {
    if (!this.#isOpen) return this.#source !== null; // it will
    if (this.at === null) this.#source.follow(this.#query);
    else this.#source.at(this.#query, Number(this.at));
    return true;
  }

  end() {
    this.#source?.close();
    this.#source = null;
    this.#view?.close();
  }
}

define("rx-panel", PanelElement);
