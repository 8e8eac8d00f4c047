// Code in a fixed font: its language, a switch for long lines, a button that copies it, and colours when it is complete.
//
// Colours are made by speed-highlight (https://github.com/speed-highlight/core), whose tokens become nodes here. Its languages are loaded when they
// are needed.

import { diagram } from "./diagram.js";
import { copy, el, GrowingText, setText, show } from "./dom.js";
import { linesOf } from "../model/diff.js";
import { readable } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { tokenizer } from "../vendor/speed-highlight/tokenize.js";

const MAX = 60_000; // characters that are coloured
const NAMES = {
  python: "py", py: "py", javascript: "js", js: "js", jsx: "js", mjs: "js", typescript: "ts", ts: "ts", tsx: "ts", bash: "bash", sh: "bash", shell: "bash", zsh: "bash", console: "bash",
  c: "c", "c++": "c", cpp: "c", h: "c", css: "css", csv: "csv", diff: "diff", patch: "diff", dockerfile: "docker", docker: "docker", go: "go", golang: "go", html: "html", http: "http",
  ini: "ini", java: "java", json: "json", jsonc: "json", lua: "lua", makefile: "make", make: "make", markdown: "md", md: "md", perl: "pl", rust: "rs", rs: "rs", sql: "sql", toml: "toml", xml: "xml", svg: "xml",
  yaml: "yaml", yml: "yaml", asm: "asm", log: "log", regex: "regex",
};

const loaded = new Map();

function load(name) {
  if (!loaded.has(name)) loaded.set(name, import(`../vendor/speed-highlight/languages/${name}.js`).then((file) => file.default, () => undefined));
  return loaded.get(name);
}

// The nodes of a text in its colours, or null if the language is not known.
export async function coloured(text, language) {
  const name = NAMES[language.toLowerCase()];
  if (name === undefined || text.length > MAX) return null;
  if (name === "diff") return diffNodes(text);
  const nodes = [];
  const run = tokenizer(text, name, (part, type) => part && nodes.push(type ? el("span", { class: `hl-${type}`, text: part }) : document.createTextNode(readable(part))));
  for (let step = run.next(); !step.done; step = run.next(await load(step.value)));
  return nodes;
}

const LINES = { added: "insert", removed: "deleted", hunk: "section", file: "file" };

// The grammar of the library misses a hunk that names its function, and takes the names of files for changed lines.
function diffNodes(text) {
  const nodes = [];
  for (const [kind, line] of linesOf(text)) {
    if (nodes.length > 0) nodes.push("\n");
    nodes.push(LINES[kind] ? el("span", { class: `hl-${LINES[kind]}`, text: line }) : readable(line));
  }
  return nodes;
}

// Code that may grow: `node` is the element, and `node.block` this.
class Code {
  constructor(language, text) {
    this.language = language.trim().split(/[\s{,]/)[0].slice(0, 24);
    this.text = text;
    this.inner = el("code");
    const wrap = el("button", { type: "button", "aria-pressed": "false", text: words.code.wrap, onclick: () => wrap.setAttribute("aria-pressed", String(this.node.classList.toggle("wrapped"))) });
    const bar = el("figcaption", {}, el("span", { class: "code-language", text: this.language }), this.drawing(), wrap, copyButton(() => this.text));
    this.node = el("figure", { class: "code", dir: "ltr" }, bar, el("pre", { tabindex: "0", "aria-label": words.code.title }, this.inner));
    this.node.block = this;
    this.growing = new GrowingText(this.inner);
    this.growing.append(text);
  }

  append(text) {
    this.text += text;
    this.growing.append(text);
  }

  // The button that draws a diagram in place of its code, if the server was given the library for that.
  drawing() {
    if (this.language !== "mermaid" || !("diagrams" in document.documentElement.dataset)) return null;
    const button = el("button", { type: "button", class: "draw", "aria-pressed": "false", text: words.code.draw, onclick: () => this.draw(button, button.getAttribute("aria-pressed") !== "true") });
    return button;
  }

  draw(button, isDrawn, problem = "") {
    const { node } = this, code = node.querySelector("pre");
    for (const old of node.querySelectorAll(".diagram, .reason")) old.remove();
    if (isDrawn) code.after(diagram(this.text, (error) => this.draw(button, false, fill(words.code.notDrawn, { error }))));
    if (problem !== "") code.before(el("p", { class: "reason", role: "alert", text: problem }));
    show(code, !isDrawn);
    button.setAttribute("aria-pressed", String(isDrawn));
  }

  // The code is complete: show it in colours.
  async end() {
    const nodes = await coloured(this.text, this.language);
    if (nodes !== null) this.inner.replaceChildren(...nodes);
  }
}

export const codeBlock = (language = "", text = "") => new Code(language, text);

const SHOWN = 1_600; // milliseconds

// A button that copies a text, and shows that it has.
export function copyButton(text, label = words.code.copy) {
  const button = el("button", { type: "button", class: "copy", text: label, onclick: async () => {
    setText(button, (await copy(text())) ? words.code.copied : words.code.notCopied);
    setTimeout(() => setText(button, label), SHOWN);
  } });
  return button;
}
