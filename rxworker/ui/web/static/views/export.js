// Saves a run as a file that is made in the page, from what it has folded.

import { el } from "./dom.js";
import { stillOf } from "./conversation.js";
import { bySystem, pageOf } from "../model/export.js";
import { locale } from "../model/language.js";

const FRAME = /(katex\.min|uPlot\.min|\/style|\/side|\/time|\/commands)\.css$/; // style sheets of what is not saved

// The conversation as it looks on the page, as one HTML file without scripts.
export async function htmlOf(title, facts, run) {
  const root = await stillOf(run);
  root.querySelectorAll(".result-part").forEach(unfold);
  for (const node of root.querySelectorAll("button, input:not(:disabled), .item-actions, [hidden]")) node.remove();
  for (const picture of root.querySelectorAll(".katex-html")) picture.remove(); // needs fonts; the browser draws the MathML beside it
  const sheets = [...document.styleSheets].filter(({ href }) => href && !FRAME.test(href));
  const own = await (await fetch(new URL("static/styles/export.css", document.baseURI))).text();
  const styles = [...sheets.flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText)), own].join("\n");
  return pageOf({ title, facts, language: locale, styles: bySystem(styles), body: `<main>${root.outerHTML}</main>` });
}

// All of a result. A tree, which opens by a script, becomes the text that it was made from.
function unfold(part) {
  part.querySelector(".folded")?.classList.remove("folded");
  if (part.querySelector(".json")) part.querySelector(".result-kinds").lastElementChild.click();
  for (let more; (more = part.querySelector(".result-table .result-more:not([hidden])")); ) more.click();
}
