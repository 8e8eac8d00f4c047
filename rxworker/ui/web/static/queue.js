// What was sent into the run that is looked at, until its model reads it.

import { byId, el, show } from "./dom.js";

export class QueueView {
  constructor() {
    this.node = byId("queue");
    this.list = byId("queue-list");
    this.shown = "";
  }

  draw(waiting) {
    const key = JSON.stringify(waiting.map((one) => one.text));
    if (key === this.shown) return;
    this.shown = key;
    show(this.node, waiting.length > 0);
    this.list.replaceChildren(...waiting.map((one) => el("li", { text: one.text })));
  }
}
