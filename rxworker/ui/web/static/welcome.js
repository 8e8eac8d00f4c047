// What stands where no run is looked at, or one that is gone.

import { byId, el, setText, show } from "./dom.js";

const MOST = 12;

export class WelcomeView {
  constructor() {
    this.workers = new Map();
    byId("worker").addEventListener("change", () => this.list());
  }

  setWorkers(workers) {
    this.workers = new Map(workers.map((worker) => [worker.name, worker]));
    this.list();
  }

  // What the worker that would begin may call.
  list() {
    const tools = (this.workers.get(byId("worker").value) ?? this.workers.values().next().value)?.tools ?? [];
    const chips = tools.slice(0, MOST).map((tool) => el("li", { text: tool.name, title: tool.description || null }));
    if (tools.length > MOST) chips.push(el("li", { class: "more", text: `and ${tools.length - MOST} more` }));
    byId("welcome-tools").replaceChildren(...chips);
    show(byId("welcome-can"), chips.length > 0);
  }

  draw(isBlank, isGone) {
    show(byId("welcome"), isBlank);
    show(byId("conversation"), !isBlank);
    setText(byId("welcome-title"), isGone ? "This run is gone" : "What should it do?");
    setText(byId("welcome-text"), isGone ? "The server does not know it any more: it was forgotten, or the server was started anew. Ask again below." : "Every run appears here as it happens: what the model thinks, says and calls, each in its own lane.");
  }
}
