// The keys that start commands, the palette and the sheet of shortcuts, for a page with a table of commands.

import { recalled, remember } from "./dom.js";
import { Palette, ShortcutsSheet } from "./palette.js";
import { fits, groupOf, nameOf } from "../model/commands.js";

const KEY = "rxworker.keys";

export class Keys {
  // `commands` are those of the page, of which `run(command)` runs one if it can be used now, and `rows()` returns the rows of the palette.
  constructor(commands) {
    this.commands = commands;
    this.hasKeys = recalled(KEY) !== "off";
    this.palette = new Palette(() => this.rows());
    const listed = commands.filter(({ keys }) => keys.length > 0);
    this.sheet = new ShortcutsSheet(listed.map((command) => ({ group: groupOf(command), name: nameOf(command), keys: command.keys })), () => this.hasKeys, (yes) => this.allow(yes));
    addEventListener("keydown", (event) => this.key(event));
  }

  // What each command does, by its id; a condition under which it can be used comes before it.
  get table() {
    return {};
  }

  can(command) {
    return this.table[command.id]?.[0] ?? false;
  }

  run(command) {
    const [can, act] = this.table[command.id] ?? [false];
    if (can) act();
    return can;
  }

  // The commands that can be used now, as rows of the palette.
  rows() {
    const commands = this.commands.filter((command) => !command.at && command.id !== "palette" && this.can(command));
    return commands.map((command) => ({ text: nameOf(command), detail: groupOf(command), keys: command.keys, act: () => this.run(command) }));
  }

  key(event) {
    if (event.defaultPrevented || event.isComposing) return;
    if (event.key === "Escape") {
      if (this.escape(event)) event.preventDefault();
      return;
    }
    const command = this.commands.find(({ at, keys }) => !at && keys.some((key) => fits(event, key)));
    const isSingle = !event.ctrlKey && !event.metaKey, isOpen = document.querySelector("dialog:modal") !== null;
    if (isSingle && (isOpen || isField(event.target))) return;
    if (!command || (isSingle && !this.hasKeys)) {
      if (isText(event)) this.typed();
      return;
    }
    if (isOpen && !this.palette.dialog.open) return;
    if (this.run(command)) event.preventDefault();
  }

  // A character was typed outside of any field.
  typed() {}

  // Whether Escape did anything.
  escape({ target }) {
    if (!target.isConnected || !isField(target) || document.querySelector("dialog:modal")) return false;
    target.blur();
    return true;
  }

  allow(yes) {
    this.hasKeys = yes;
    remember(KEY, yes ? "on" : "off");
  }
}

export const isField = (node) => node.matches?.("textarea, select, input:not([type=checkbox], [type=radio], [type=range]), [contenteditable]");

// Whether a key writes something, also by an input method or together with the next key. Space presses buttons and scrolls.
function isText(event) {
  const hasModifier = (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState("AltGraph");
  return !hasModifier && (["Dead", "Process"].includes(event.key) || ([...event.key].length === 1 && event.key !== " "));
}
