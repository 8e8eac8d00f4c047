// What stands where no run is looked at, or one that is gone.

import { byId, el, setText, show } from "./dom.js";
import { clip, statusWord } from "./format.js";

const UNNAMED = "worker"; // a server with one worker has not named it
const MOST = 12, LATEST = 3;

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
    const worker = this.workers.get(byId("worker").value) ?? this.workers.values().next().value, tools = worker?.tools ?? [];
    setText(byId("welcome-can-label"), worker && worker.name !== UNNAMED ? `The ${worker.name} may call` : "It may call");
    const chips = tools.slice(0, MOST).map((tool) => el("li", { text: tool.name, title: tool.description || null }));
    if (tools.length > MOST) chips.push(el("li", { class: "more", text: `and ${tools.length - MOST} more` }));
    byId("welcome-tools").replaceChildren(...chips);
    show(byId("welcome-can"), chips.length > 0);
  }

  // The newest runs, so that a page that is opened on none leads to them where the list is not in view.
  offer(runs) {
    const key = JSON.stringify(runs.map((run) => [run.id, run.status]));
    if (key === this.offered) return;
    this.offered = key;
    const links = runs.map((run) => el("li", {}, el("a", { href: `#${run.id}`, text: `${clip(run.title, 60) || "(no text)"} (${statusWord(run.status, run.cause)})` })));
    byId("welcome-runs").replaceChildren(...links);
    show(byId("welcome-look"), links.length > 0);
  }

  draw(isBlank, isGone, runs) {
    if (isBlank) this.offer(runs.filter((run) => !run.resumed_as).slice(0, LATEST));
    show(byId("welcome"), isBlank);
    show(byId("conversation"), !isBlank);
    setText(byId("welcome-title"), isGone ? "This run is gone" : "What should it do?");
    setText(byId("welcome-text"), isGone ? "The server does not know it any more: it was forgotten, or the server was started anew. Ask again below." : "Every run appears here as it happens: what the model thinks, says and calls, each in its own lane.");
  }
}
