// A text that grows. What is added is appended to the last text node; the text is cut into chunks at line ends, so that the
// browser lays out the last chunk again and not all of a long answer.

import { el } from "./dom.js";
import { readable } from "./format.js";

const CHUNK = 2_000; // from here on the next line end begins a new chunk
const HARD = 16_000; // a line longer than this is cut

export class GrowingText {
  constructor(node) {
    this.node = node;
    this.seen = 0; // how many pieces are shown
    this.begin();
  }

  begin() {
    this.last = document.createTextNode("");
    this.chunk = el("span", { class: "chunk" }, this.last);
    this.node.append(this.chunk);
  }

  // Show what has been added to the pieces since the last time.
  grow(pieces) {
    if (this.seen === pieces.length) return "";
    const added = readable(this.seen === 0 && pieces.length === 1 ? pieces[0] : pieces.slice(this.seen).join(""));
    this.seen = pieces.length;
    let at = 0;
    while (at < added.length) {
      const room = CHUNK - this.last.length;
      let end = added.indexOf("\n", at + Math.max(0, room)) + 1;
      const hard = at + Math.max(1, HARD - this.last.length);
      if (end > hard || (end === 0 && added.length > hard)) end = safe(added, hard);
      if (end === 0) {
        this.last.appendData(added.slice(at));
        break;
      }
      this.last.appendData(added.slice(at, end));
      this.chunk.classList.add("whole");
      this.begin();
      at = end;
    }
    return added;
  }
}

// Not between the halves of a surrogate pair.
function safe(text, end) {
  const code = text.charCodeAt(end - 1);
  return code >= 0xd800 && code < 0xdc00 ? end + 1 : end;
}
