// The trace at the full width of the page, in place of the conversation, where names have their arguments beside them; and the search of a trace that is long or has that width.

import { note, noted } from "./address.js";
import { byId, setText, show } from "./dom.js";
import { count } from "../model/format.js";
import { fill, words } from "../model/language.js";

export class WideTrace {
  constructor(lanes) {
    this.lanes = lanes;
    this.button = byId("trace-wide");
    this.field = byId("trace-search");
    this.steps = [byId("trace-previous"), byId("trace-next")];
    this.button.addEventListener("click", () => this.toggle());
    this.field.addEventListener("input", () => this.search());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.steps.forEach((button, n) => button.addEventListener("click", () => this.step(n === 0 ? -1 : 1)));
    lanes.drawn = () => this.draw();
    if (noted("trace") === "wide") this.set(true);
  }

  get isOn() {
    return byId("main").dataset.trace === "wide";
  }

  toggle() {
    this.set(!this.isOn);
    note("trace", this.isOn ? "wide" : null);
    if (this.isOn) this.field.focus();
    else this.clear();
  }

  leave() {
    if (this.isOn) this.toggle();
  }

  set(isOn) {
    byId("main").dataset.trace = isOn ? "wide" : "";
    this.button.setAttribute("aria-pressed", String(isOn));
    this.draw();
  }

  key(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      this.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape" && this.field.value !== "") {
      event.preventDefault();
      event.stopPropagation();
      this.clear();
    }
  }

  clear() {
    this.field.value = "";
    this.search();
  }

  search() {
    this.lanes.search(this.field.value);
    this.draw();
  }

  // To the next row that was found, or to the one before.
  step(by) {
    const { found, here } = this.lanes;
    this.lanes.goTo(here === null ? Math.min(0, by) : found.indexOf(here) + by);
    this.draw();
  }

  // Which of how many rows that were found is shown.
  draw() {
    const { found, here, isLong } = this.lanes, isSought = this.field.value.trim() !== "";
    show(this.field.parentNode, this.isOn || isLong || isSought);
    for (const button of this.steps) button.disabled = found.length === 0;
    setText(byId("trace-found"), !isSought ? "" : found.length === 0 ? words.result.foundNone : fill(words.result.foundAt, { at: count(found.indexOf(here) + 1), n: count(found.length) }));
  }
}
