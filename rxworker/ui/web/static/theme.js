// Light or dark: as the system says, until somebody chooses.

import { byId } from "./dom.js";

const KEY = "rxworker.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be forbidden
  }
}

export function initTheme(changed) {
  const button = byId("theme");
  function apply(theme) {
    document.documentElement.dataset.theme = theme;
    button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
    changed();
  }
  function current() {
    return stored() ?? (dark.matches ? "dark" : "light");
  }
  button.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, next);
    } catch { /* then it lasts as long as the page */ }
    apply(next);
  });
  dark.addEventListener("change", () => apply(current()));
  apply(current());
}
