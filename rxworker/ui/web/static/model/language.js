// The words of the page in the reader's language, or in English.

import { words as english } from "../languages/en.js";

const FILES = {}; // another language: { de: () => import("../languages/de.js") }

export const locale = (globalThis.navigator?.languages ?? []).map((tag) => tag.split("-")[0]).find((tag) => tag === "en" || tag in FILES) ?? "en";
export const words = locale === "en" ? english : (await FILES[locale]()).words;

const rules = new Intl.PluralRules(locale);

// A text with its values filled in. If it has forms, the number `n` decides; `format` writes that number.
export function fill(text, values, format = String) {
  const chosen = typeof text === "string" ? text : text[rules.select(values.n)] ?? text.other;
  return chosen.replace(/\{(\w+)\}/g, (_, name) => (typeof values[name] === "number" ? format(values[name]) : values[name]));
}

// Fill in the texts of the HTML, which are English. `data-words="runs.title"` is the text of an element, `data-words-title="…"` an attribute.
export function translate(root) {
  if (locale === "en") return;
  document.documentElement.lang = locale;
  for (const node of root.querySelectorAll("*")) {
    for (const { name, value } of [...node.attributes]) {
      if (name === "data-words") node.textContent = wordsAt(value);
      else if (name.startsWith("data-words-")) node.setAttribute(name.slice("data-words-".length), wordsAt(value));
    }
  }
}

const wordsAt = (path) => path.split(".").reduce((at, name) => at[name], words);
