// Images and documents that go with a message: chosen, dropped or pasted before it is sent, and shown with it afterwards.

import { el, show } from "./dom.js";
import { fill, words } from "../model/language.js";

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MAX = 5_000_000; // bytes of a file

export class Attachments {
  // `changed` is called after each change, and `refused(text)` with a problem.
  constructor(list, changed, refused) {
    this.list = list;
    this.changed = changed;
    this.refused = refused;
    this.blocks = [];
  }

  async add(files) {
    for (const file of [...files]) { // the list of a picker is emptied meanwhile
      const block = await this.read(file);
      if (block === null) continue;
      this.blocks.push(block);
      this.draw();
    }
    this.changed();
  }

  async read(file) {
    if (file.size > MAX) {
      this.refused(fill(words.attach.large, { name: file.name }));
      return null;
    }
    try {
      const data = await base64(file);
      return IMAGES.includes(file.type) ? { type: "image", media_type: file.type, data } : { type: "document", media_type: file.type || "text/plain", data, title: file.name };
    } catch {
      this.refused(fill(words.attach.unreadable, { name: file.name }));
      return null;
    }
  }

  // Remove and return what is attached.
  take() {
    const { blocks } = this;
    this.put([]);
    return blocks;
  }

  put(blocks) {
    this.blocks = blocks;
    this.draw();
  }

  draw() {
    show(this.list, this.blocks.length > 0);
    this.list.replaceChildren(...this.blocks.map((block) => el("li", {}, attachmentNode(block), el("button", {
      type: "button", class: "remove", "aria-label": fill(words.attach.remove, { name: nameOf(block) }), text: "×",
      onclick: () => {
        this.put(this.blocks.filter((one) => one !== block));
        this.changed();
      },
    }))));
  }
}

// What is sent: a text, or the blocks of the files and of the text.
export const withFiles = (files, text) => (files.length === 0 ? text : [...files, ...(text ? [{ type: "text", text }] : [])]);

// Whether these parts of a message can be sent again.
export const areFiles = (parts) => parts.every((part) => part.type === "image" || part.type === "document");

const nameOf = (block) => block.title ?? (block.type === "image" ? words.talk.image : words.attach.document);

// An image that is part of the message is shown; one at an address is named, since the page loads nothing from elsewhere.
export function attachmentNode(block) {
  if (block.type === "image" && block.data && IMAGES.includes(block.media_type)) return el("img", { class: "thumbnail", alt: words.talk.image, src: `data:${block.media_type};base64,${block.data}` });
  return el("span", { class: "attached", text: nameOf(block) });
}

async function base64(file) {
  const url = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return url.slice(url.indexOf(",") + 1);
}
