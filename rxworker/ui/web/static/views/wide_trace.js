// The trace at the full width of the page, in place of the conversation: names have their arguments there, and rows are searched.

import { byId, setText, show } from "./dom.js";
import { plural } from "../model/format.js";
import { fill, words } from "../model/language.js";

export class WideTrace {
  constructor(lanes) {
    this.lanes = lanes;
    this.button = byId("trace-wide");
    this.field = byId("trace-search");
    this.button.addEventListener("click", () => this.toggle());
    this.field.addEventListener("input", () => this.search());
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.field.value === "") return;
      event.preventDefault();
      event.stopPropagation();
      this.clear();
    });
    lanes.drawn = () => this.count();
  }

  get isOn() {
    return byId("main").dataset.trace === "wide";
  }

  toggle() {
    const isOn = !this.isOn;
    byId("main").dataset.trace = isOn ? "wide" : "";
    this.button.setAttribute("aria-pressed", String(isOn));
    show(this.field.parentNode, isOn);
    if (isOn) this.field.focus();
    else this.clear();
  }

  clear() {
    this.field.value = "";
    this.search();
  }

  search() {
    this.lanes.search(this.field.value);
    this.count();
  }

  // How many of the rows are shown.
  count() {
    const [found, all] = this.lanes.sifted;
    setText(byId("trace-found"), this.field.value.trim() === "" ? "" : fill(words.trace.found, { found: String(found), rows: plural(words.trace.rows, all) }));
  }
}
