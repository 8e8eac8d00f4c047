// A form for the arguments of a call. What the user does not touch stays exactly as the model wrote it.

import { el, setText } from "./dom.js";
import { inJson } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { read, shown } from "../model/schema.js";

const LINES = 6;

const rows = (text) => Math.min(LINES, Math.max(2, text.split("\n").reduce((sum, line) => sum + Math.ceil((line.length + 1) / 60), 0)));
const isCode = (kind) => kind === "json" || kind === "lines";

class Field {
  constructor(field, number, changed) {
    this.field = field;
    this.changed = changed;
    const id = `argument-${number}`, { name, kind, description, hasDefault, schema, isRequired, value } = field;
    this.input = this.make(id);
    if (kind === "boolean") this.input.checked = shown(field, value ?? schema.default);
    else this.input.value = shown(field, value);
    this.before = this.now;
    this.problem = el("p", { class: "field-error", id: `${id}-problem`, role: "alert" });
    const hints = [description, kind === "lines" ? words.form.eachLine : "", hasDefault && value === undefined && kind !== "boolean" && kind !== "choice" ? fill(words.form.default, { value: textOf(schema.default) }) : ""];
    const hint = hints.filter(Boolean).join(" · ");
    this.hint = hint ? el("p", { class: "field-hint", id: `${id}-hint`, text: hint }) : null;
    this.input.setAttribute("aria-describedby", `${id}-hint ${id}-problem`);
    if (isRequired) this.input.setAttribute("aria-required", "true");
    const label = el("label", { for: id, text: name }, isRequired ? el("span", { class: "field-needed", text: words.form.required }) : null);
    this.node = el("div", { class: `field field-${kind}` }, ...(kind === "boolean" ? [this.input, label] : [label, this.input]), this.hint, this.problem);
    for (const event of ["input", "change"]) this.input.addEventListener(event, () => this.edited());
  }

  make(id) {
    const { kind, schema, value, isRequired, hasDefault } = this.field, dir = "auto";
    switch (kind) {
      case "boolean": return el("input", { id, type: "checkbox" });
      case "choice": {
        const none = value === undefined || !isRequired ? [el("option", { value: "", text: hasDefault ? fill(words.form.default, { value: textOf(schema.default) }) : words.form.none })] : [];
        return el("select", { id }, ...none, ...schema.enum.map((one, n) => el("option", { value: String(n), text: textOf(one) })));
      }
      case "number": case "integer": return el("input", { id, type: "text", inputmode: kind === "integer" && schema.minimum >= 0 ? "numeric" : null, autocomplete: "off" });
      case "text": return el("input", { id, type: "text", dir, autocomplete: "off", spellcheck: "false" });
      default: return el("textarea", { id, rows: rows(shown(this.field, value)), spellcheck: "false", class: isCode(kind) ? "code" : null, dir: isCode(kind) ? null : dir });
    }
  }

  get now() {
    return this.field.kind === "boolean" ? this.input.checked : this.input.value;
  }

  get isChanged() {
    return this.now !== this.before;
  }

  edited() {
    if (this.problem.textContent !== "") this.check();
    this.changed();
  }

  // Put the value into the arguments; whether it is valid.
  check(target = {}) {
    try {
      const value = read(this.field, this.now);
      if (value === undefined) delete target[this.field.name];
      else target[this.field.name] = value;
      setText(this.problem, "");
      this.input.removeAttribute("aria-invalid");
      return true;
    } catch (error) {
      setText(this.problem, error.message);
      this.input.setAttribute("aria-invalid", "true");
      return false;
    }
  }
}

const textOf = (value) => (typeof value === "string" ? value : inJson(value));

export class ArgumentsForm {
  // `changed()` is called after each change.
  constructor(fields, input, changed) {
    this.original = input;
    this.fields = fields.map((field, n) => new Field(field, n, changed));
    this.node = el("div", { class: "fields", role: "group", "aria-label": words.approval.withArguments }, ...this.fields.map((field) => field.node));
  }

  get isChanged() {
    return this.fields.some((field) => field.isChanged);
  }

  // The arguments, or undefined if some are not valid: these say why.
  value() {
    const value = { ...this.original };
    const wrong = this.fields.filter((field) => field.isChanged && !field.check(value));
    wrong[0]?.input.focus();
    return wrong.length > 0 ? undefined : value;
  }
}
