// The conversation as it grows. Of a long one the last part is shown; what is earlier comes when it is asked for.

import { byId, el, show } from "./dom.js";
import { End } from "./end.js";
import { plural } from "./format.js";
import { viewOf } from "./item_views.js";

const STEP = 150, MOST = 600;
const MARKED = 1_600; // milliseconds

export class ConversationView {
  constructor(heard) {
    this.pane = byId("conversation");
    this.latest = byId("latest");
    this.heard = heard;
    this.end = new End(this.pane, () => this.offer());
    this.earlier = el("button", { class: "earlier", type: "button", hidden: true, onclick: () => this.showEarlier() });
    this.latest.addEventListener("click", () => this.toEnd());
    this.open(null);
  }

  open(run) {
    this.run = run;
    this.views = new Map();
    this.first = 0;
    this.pane.replaceChildren(this.earlier);
    this.end.follows = true;
    if (run) {
      this.first = Math.max(0, run.root.items.length - STEP);
      for (const item of run.root.items.slice(this.first)) this.place(item, this.pane);
    }
    this.draw(new Set());
  }

  // The view of an item; those of a run inside stand within the call that it belongs to.
  place(item, container, before = null) {
    const view = viewOf(item, this.heard);
    this.views.set(item, view);
    if (before) before.before(view.node);
    else container.append(view.node);
    view.update();
    for (const inner of item.inner?.items ?? []) this.place(inner, this.innerOf(view));
  }

  innerOf(view) {
    show(view.inner, true);
    return view.inner;
  }

  draw(changed) {
    for (const item of changed) {
      const view = this.views.get(item);
      if (view) this.update(view, item);
      else if (item.kind !== "note" || item.inline) this.add(item);
    }
    this.trim();
    show(this.earlier, this.first > 0);
    if (this.first > 0) this.earlier.textContent = `Show what came before (${plural(this.first, "entry", "entries")})`;
    this.end.follow();
    this.offer();
  }

  // The way back to the end, for somebody who has left it.
  offer() {
    show(this.latest, !this.end.follows);
  }

  update(view, item) {
    view.update();
    // What an earlier run knew of the runs inside came later than the call.
    if (item.isHeir) for (const inner of item.inner?.items ?? []) if (!this.views.has(inner)) this.place(inner, this.innerOf(view));
  }

  add(item) {
    const parent = item.scope.parent;
    if (parent === null) {
      if (item.scope.depth > 0 || item.key > this.lastKey()) this.place(item, this.pane);
    } else if (this.views.has(parent)) this.place(item, this.innerOf(this.views.get(parent)));
  }

  // Items before the first that is shown are not shown because they changed.
  lastKey() {
    return this.first > 0 ? this.run.root.items[this.first - 1].key : 0;
  }

  trim() {
    if (this.run === null || !this.end.follows) return;
    while (this.run.root.items.length - this.first > MOST) {
      for (let n = 0; n < STEP; n += 1) this.forget(this.run.root.items[this.first + n]);
      this.first += STEP;
    }
  }

  forget(item) {
    this.views.get(item)?.node.remove();
    this.views.delete(item);
    for (const inner of item.inner?.items ?? []) this.forget(inner);
  }

  showEarlier() {
    const from = Math.max(0, this.first - STEP), anchor = this.earlier.nextSibling, top = this.pane.scrollHeight - this.pane.scrollTop;
    for (const item of this.run.root.items.slice(from, this.first)) this.place(item, this.pane, anchor);
    this.first = from;
    this.end.follows = false;
    this.draw(new Set());
    this.pane.scrollTop = this.pane.scrollHeight - top;
    this.pane.focus();
  }

  toEnd() {
    this.end.follows = true;
    this.draw(new Set());
    this.pane.focus();
  }

  reveal(item) {
    const node = this.views.get(item)?.node;
    if (!node) return;
    this.end.follows = false;
    node.scrollIntoView({ block: "center" });
    this.found?.classList.remove("found");
    clearTimeout(this.fading);
    this.found = node;
    node.classList.add("found");
    this.fading = setTimeout(() => node.classList.remove("found"), MARKED);
  }
}
