// The frame of the page: the banner, the menu of a narrow page, and which of its views is shown.

import { byId, setData, setText, show } from "./dom.js";

export function banner(text, tone = "") {
  const node = byId("banner");
  setData(node, "tone", tone);
  setText(node, text);
  show(node, text !== "");
}

export function menu(open) {
  document.body.classList.toggle("menu-open", open);
  byId("menu").setAttribute("aria-expanded", String(open));
}

export function view(name) {
  document.body.dataset.view = name;
  for (const button of byId("views").children) button.setAttribute("aria-pressed", String(button.dataset.view === name));
}

export function isMenuOpen() {
  return document.body.classList.contains("menu-open");
}

// What is said of a lost connection stays until there is one.
export function clearBanner(tone = null) {
  const shown = byId("banner").dataset.tone;
  if (tone === null ? shown !== "lost" : shown === tone) banner("");
}

// The skip link leads to what is asked of people now: the decision while there is one, else the message box.
export function skipTo(decides) {
  const link = document.querySelector(".skip");
  setText(link, decides ? "Skip to the decision" : "Skip to the message box");
  link.setAttribute("href", decides ? "#approval" : "#composer-input");
}

export function initShell() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    (byId("approval").hidden ? byId("composer-input") : byId("approval")).focus();
  });
  byId("menu").addEventListener("click", () => menu(!isMenuOpen()));
  addEventListener("keydown", (event) => event.key === "Escape" && isMenuOpen() && menu(false));
  for (const button of byId("views").children) button.addEventListener("click", () => view(button.dataset.view));
}
