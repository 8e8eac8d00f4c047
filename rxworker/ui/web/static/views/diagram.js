// A diagram, drawn with Mermaid (https://mermaid.js.org) if the server was given the library, and when the user asks for it.
//
// Mermaid makes SVG and styles from what a model has written: it does so in a frame without an origin, whose document may load nothing. That frame gets the text and answers with
// the height of its picture, or with an error, which is shown as text.

import { el } from "./dom.js";
import { words } from "../model/language.js";

const PAGE = new URL("../diagram.html", import.meta.url);
const LONGEST = 30_000; // milliseconds
const AROUND = 24; // pixels around the picture

// The frame of a diagram; `failed(error)` is called if it cannot be drawn.
export function diagram(text, failed) {
  const frame = el("iframe", { class: "diagram", title: words.code.diagram, sandbox: "allow-scripts", src: PAGE.href });
  let timer = null;
  const answered = ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    end();
    if (data.error !== undefined) failed(String(data.error));
    else frame.style.height = `${Number(data.height) + AROUND}px`;
  };
  function end() {
    clearTimeout(timer);
    removeEventListener("message", answered);
  }
  // A frame whose node is moved is loaded again.
  frame.addEventListener("load", () => {
    end();
    addEventListener("message", answered);
    timer = setTimeout(() => {
      end();
      if (frame.isConnected) failed(words.code.noAnswer);
    }, LONGEST);
    frame.contentWindow.postMessage({ text, theme: document.documentElement.dataset.theme === "dark" ? "dark" : "default" }, "*");
  });
  return frame;
}
