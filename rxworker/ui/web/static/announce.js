// What a screen reader hears: the answer in whole sentences, and what happens to the run. Never single tokens.

import { byId, setText } from "./dom.js";

const REST = 2_500, MOST = 400;
let heard = "", timer = null;

function flush(all) {
  timer = null;
  if (heard.trim() === "") return;
  const cut = all ? heard.length : sentenceEnd(heard);
  if (cut === 0) return;
  say(heard.slice(0, cut).trim());
  heard = heard.slice(cut);
}

function sentenceEnd(text) {
  let end = 0;
  for (const match of text.matchAll(/[.!?:。！？]["')\]]?(\s|$)|\n/g)) end = match.index + match[0].length;
  return end === 0 && text.length > MOST ? MOST : end;
}

export function say(text) {
  const region = byId("announcer");
  const line = document.createElement("p");
  setText(line, text.length > MOST ? `${text.slice(0, MOST)}…` : text);
  region.append(line);
  while (region.childElementCount > 3) region.firstElementChild.remove();
}

// More of the answer; `isWhole` when its block has ended.
export function hear(text, isWhole) {
  heard = (heard + text).slice(-4 * MOST);
  if (isWhole) {
    clearTimeout(timer);
    flush(true);
  } else timer ??= setTimeout(() => flush(false), REST);
}

export function forget() {
  heard = "";
}
