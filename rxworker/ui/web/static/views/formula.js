// Formulas, drawn with KaTeX (https://katex.org), which is loaded with the first one. Until then, and where it understands a formula not, its source is shown.
//
// KaTeX makes nodes and runs nothing: commands that lead elsewhere, load something or set HTML are refused (`trust`), and sizes and macros have limits. Beside the picture
// it makes MathML, which screen readers read.

import { el } from "./dom.js";
import { words } from "../model/language.js";

const FOLDER = new URL("../vendor/katex/", import.meta.url);
const OPTIONS = { throwOnError: true, trust: false, strict: "ignore", maxSize: 20, maxExpand: 200, output: "htmlAndMathml" };
const LONGEST = 4_000; // characters of a formula that is drawn
const KEPT = 200;

const made = new Map(); // nodes of formulas, or null for those that are not understood: a block is drawn again while it grows
let isOn = false, loading = null, changed = () => {};

// Formulas are drawn from now on; `moved()` is called when those have been drawn that were shown before. A page of one's own, which shows a run within it, has no fonts for that.
export function drawFormulas(moved) {
  isOn = true;
  changed = moved;
}

// `isOpen`: whether it is still being written.
export function formula(source, isBlock, isOpen = false) {
  const plain = el(isBlock ? "pre" : "code", { class: "math", text: source });
  if (!isOn || isOpen || source.length > LONGEST) return plain;
  if (globalThis.katex) return drawn(source, isBlock) ?? plain;
  plain.dataset.waits = "";
  loading ??= load();
  return plain;
}

function drawn(source, isBlock) {
  const key = `${isBlock} ${source}`;
  if (!made.has(key)) made.set(key, draw(source, isBlock));
  if (made.size > KEPT) made.delete(made.keys().next().value);
  return made.get(key)?.cloneNode(true) ?? null;
}

function draw(source, isBlock) {
  const node = isBlock ? el("div", { class: "math drawn", tabindex: "0", role: "group", "aria-label": words.talk.formula }) : el("span", { class: "math drawn" });
  node.dataset.source = source;
  try {
    globalThis.katex.render(source, node, { ...OPTIONS, displayMode: isBlock });
    return node;
  } catch {
    return null;
  }
}

async function load() {
  const href = new URL("katex.min.css", FOLDER), src = new URL("katex.min.js", FOLDER);
  const isLoaded = (node) => new Promise((loaded) => {
    node.addEventListener("load", loaded);
    document.head.append(node);
  });
  await Promise.all([isLoaded(el("link", { rel: "stylesheet", href })), isLoaded(el("script", { src }))]);
  for (const node of document.querySelectorAll(".math[data-waits]")) {
    delete node.dataset.waits;
    const picture = drawn(node.textContent, node.tagName === "PRE");
    if (picture) node.replaceWith(picture);
  }
  changed();
}
