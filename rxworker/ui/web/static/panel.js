// <rx-panel src="…/api/boards/NAME?run=RUN" panel="cost">: a panel of a dashboard in a page of one's own, or all of them without `panel`. With `at`, a moment in
// seconds since the epoch, what they showed then.

import { el, setText, show } from "./views/dom.js";
import { BoardView } from "./views/board.js";
import { BoardSource, dashboardsOf } from "./net/board.js";
import { fill, locale, words } from "./model/language.js";
import { sheetsOf, Themed } from "./views/host.js";

const sheets = await sheetsOf(["theme", "board"]);

class PanelElement extends Themed {
  static observedAttributes = ["src", "panel", "at", "theme"];

  #source = null;
  #states = [];

  constructor() {
    super(sheets);
  }

  begin() {
    const src = this.getAttribute("src") ?? "", name = this.getAttribute("panel"), url = URL.canParse(src, document.baseURI) ? new URL(src, document.baseURI) : null;
    const [, path, board] = url?.pathname.match(/^(.*\/)api\/boards\/([a-z0-9-]+)$/) ?? [];
    const note = el("p", { class: "board-error", role: "status", hidden: true }), node = el("div", { class: "board" });
    this.shadowRoot.replaceChildren(el("div", { class: "embed", lang: locale }, note, node));
    const problem = (text) => {
      setText(note, text);
      show(note, text !== "");
    };
    if (board === undefined) return problem(words.board.source);
    this.#follow(new URL(path, url).href, board, Object.fromEntries(url.searchParams), name, new BoardView(node), problem);
  }

  async #follow(server, board, query, name, view, problem) {
    const at = this.getAttribute("at");
    const source = new BoardSource(server, board, {
      states: (states) => {
        view.draw(states);
        this.dispatchEvent(new CustomEvent("states", { detail: states.filter(({ panel }) => name === null || panel === name) }));
      },
      problem: (error) => problem(error === null ? "" : error.status ? error.message : words.board.lost),
    });
    this.#source = source;
    let panels = [];
    try {
      panels = (await dashboardsOf(server)).find((each) => each.name === board)?.panels ?? [];
    } catch (error) {
      return problem(error.status ? error.message : words.board.lost);
    }
    const shown = panels.filter((panel) => name === null || panel.name === name);
    if (name !== null && shown.length === 0 && panels.length > 0) return problem(fill(words.board.noPanel, { name, known: panels.map((panel) => panel.name).join(", ") }));
    view.open(shown);
    if (source !== this.#source) return;
    if (at === null) source.follow(query);
    else source.at(query, Number(at));
  }

  end() {
    this.#source?.close();
    this.#source = null;
  }
}

customElements.define("rx-panel", PanelElement);
