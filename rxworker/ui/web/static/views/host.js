// What elements in pages of one's own share: the style sheets of the page, the colours, and when what they show begins and ends.
//
// The style sheets are those of the page, shared by all elements. Within a shadow root nothing of them reaches the page around it, and nothing of that page
// reaches the views, except the tokens of `theme.css` that it sets on the element.

import { el, show } from "./dom.js";

// What is the root of a document is the element here, and what is the width of the window is the width of the element.
const hosted = (css) => css.replace(/:root(\[[^\]]*\])?/g, (_, which) => (which ? `:host(${which})` : ":host")).replace(/@media (?=\(max-width:)/g, "@container embed ");

async function sheet(name) {
  const response = await fetch(new URL(`../styles/${name}.css`, import.meta.url));
  const made = new CSSStyleSheet();
  made.replaceSync(hosted(await response.text()));
  return made;
}

export const sheetsOf = (names) => Promise.all([...names, "embed"].map(sheet));

// Each attribute is a property, too, which sets it.
export function define(name, Element) {
  for (const attribute of Element.observedAttributes.filter((one) => one !== "token")) {
    Object.defineProperty(Element.prototype, attribute, {
      get() { return this.getAttribute(attribute); },
      set(value) { value === null || value === undefined ? this.removeAttribute(attribute) : this.setAttribute(attribute, value); },
    });
  }
  customElements.define(name, Element);
}

// An element that is in a document begins, and ends when it is removed. It begins again when an attribute changes; what changes within one task counts once,
// so that an element that is only moved keeps what it shows. Another `at` is shown by `move()` where that is possible.
//
// What it shows is between slots of the page: "header" before it, "input" and "footer" after it, and "empty" in place of it while it shows nothing.
export class Themed extends HTMLElement {
  #isBegun = false;
  #isDue = false;
  #isOther = false;
  #token = null;
  #body = el("div");
  #empty = el("slot", { name: "empty", hidden: true });

  constructor(sheets) {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = sheets;
    root.append(el("slot", { name: "header" }), this.#body, this.#empty, el("slot", { name: "input" }), el("slot", { name: "footer" }));
  }

  // The token as a property is not seen in the document.
  get token() {
    return this.#token ?? this.getAttribute("token");
  }

  set token(token) {
    if (token === this.#token) return;
    this.#token = token;
    this.#isOther = true;
    this.#renew();
  }

  get reach() {
    return { token: this.token };
  }

  // Whether the page has something to show while there is nothing else.
  get hasEmpty() {
    return this.#empty.assignedElements().length > 0;
  }

  put(body) {
    body.part = "body";
    this.#body.replaceWith(body);
    this.#body = body;
  }

  setEmpty(isEmpty) {
    show(this.#empty, isEmpty);
    show(this.#body, !(isEmpty && this.hasEmpty));
  }

  report(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  move() {
    return false;
  }

  connectedCallback() {
    // A property that was set before the element was defined.
    for (const name of this.constructor.observedAttributes) {
      if (!Object.hasOwn(this, name)) continue;
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    elements.add(this);
    colour(this);
    this.#renew();
  }

  disconnectedCallback() {
    elements.delete(this);
    this.#renew();
  }

  attributeChangedCallback(name) {
    if (name === "theme") return colour(this);
    if (name === "at" && this.#isBegun && !this.#isOther && this.move()) return;
    this.#isOther = true;
    this.#renew();
  }

  #renew() {
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => {
      this.#isDue = false;
      if (this.isConnected && this.#isBegun && !this.#isOther) return;
      if (this.#isBegun) this.end();
      this.#isOther = false;
      this.#isBegun = this.isConnected;
      if (this.isConnected) this.begin();
    });
  }
}

// The colours: those of the attribute `theme`, or those that the page around the element declares by `color-scheme`, in its styles or in a meta element.

const elements = new Set(), dark = matchMedia("(prefers-color-scheme: dark)");

function colour(element) {
  const around = element.parentElement ?? element.getRootNode().host ?? document.documentElement;
  const { colorScheme } = getComputedStyle(around), meta = document.querySelector("meta[name=color-scheme]")?.content ?? "light";
  const scheme = element.getAttribute("theme") ?? (colorScheme === "normal" ? meta : colorScheme);
  const isDark = scheme.includes("dark") && (!scheme.includes("light") || dark.matches);
  element.dataset.theme = isDark ? "dark" : "light";
}

const recolour = () => elements.forEach(colour);
dark.addEventListener("change", recolour);
const changes = new MutationObserver(recolour);
for (const node of [document.documentElement, document.body]) if (node) changes.observe(node, { attributes: true });
