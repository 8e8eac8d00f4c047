// A form for the arguments of a call. What the user does not touch stays exactly as the model wrote it.

import { el, setText } from "./dom.js";
import { inJson } from "../model/format.js";
import { fill, words } from "../model/language.js";
import { limitOf, read, shown } from "../model/schema.js";

const LINES = 6;

const rows = (text) => Math.min(LINES, Math.max(2, text.split("\n").reduce((sum, line) => sum + Math.ceil((line.length + 1) / 60), 0)));
const isCode = (kind) => kind === "json" || kind === "lines";

class Field {
  constructor(field, id, changed) {
    this.field = field;
    this.changed = changed;
    const { name, kind, description, hasDefault, schema, isRequired, value } = field;
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
        return el("select", { id }, ...none, ...schema.enum.map((one, n) => el("option", { value: String(n), text: schema.enumNames?.[n] ?? textOf(one) })));
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

  focus() {
    this.input.focus();
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

function legendOf({ name, isRequired }) {
  return el("legend", { text: name }, isRequired ? el("span", { class: "field-needed", text: words.form.required }) : null);
}

// An object within the arguments.
class Group {
  constructor(field, id, changed) {
    this.field = field;
    this.form = new ArgumentsForm(field.fields, field.value ?? {}, changed, { id, isNew: field.value === undefined, name: field.name });
    this.node = el("fieldset", { class: "field field-group" }, legendOf(field), field.description ? el("p", { class: "field-hint", text: field.description }) : null, this.form.node);
  }

  get isChanged() {
    return this.form.isChanged;
  }

  focus() {
    this.form.focus();
  }

  check(target) {
    const value = this.form.read();
    if (value !== undefined) target[this.field.name] = value;
    return value !== undefined;
  }
}

// An array of objects: each is a form that can be removed, and others can be added.
class Rows {
  constructor(field, id, changed) {
    Object.assign(this, { field, id, changed, made: 0, isChanged: false });
    this.list = el("div");
    this.problem = el("p", { class: "field-error", role: "alert" });
    const add = el("button", { type: "button", class: "button small", text: words.form.add, onclick: () => {
      this.add({}, true).focus();
      this.edited();
    } });
    this.node = el("fieldset", { class: "field field-rows" }, legendOf(field), field.description ? el("p", { class: "field-hint", text: field.description }) : null, this.list, this.problem, add);
    this.rows = [];
    for (const value of field.value ?? []) this.add(value, false);
  }

  add(value, isNew) {
    const n = (this.made += 1), name = `${this.field.name} ${n}`;
    const form = new ArgumentsForm(this.field.fieldsOf(value), value, () => this.edited(), { id: `${this.id}-${n}`, isNew, name });
    const remove = el("button", { type: "button", class: "button small", text: "×", "aria-label": fill(words.form.removeItem, { n }), onclick: () => {
      this.rows = this.rows.filter((one) => one !== form);
      row.remove();
      this.edited();
      this.node.querySelector(":scope > button").focus();
    } });
    const row = el("div", { class: "field-row" }, form.node, remove);
    this.rows.push(form);
    this.list.append(row);
    return form;
  }

  focus() {
    (this.rows.find((form) => form.wrong) ?? this.rows[0])?.focus();
  }

  edited() {
    this.isChanged = true;
    this.changed();
  }

  check(target) {
    const values = this.rows.map((form) => form.read()), problem = limitOf(this.field.schema, values);
    setText(this.problem, problem ?? "");
    target[this.field.name] = values;
    return problem === null && !values.includes(undefined);
  }
}

const KINDS = { group: Group, rows: Rows };

export class ArgumentsForm {
  // `changed()` is called after each change. Of a new object, what is required is needed also where nothing was written.
  constructor(fields, input, changed, { id = "argument", isNew = false, name = words.approval.withArguments } = {}) {
    this.original = input;
    this.isNew = isNew;
    this.wrong = null;
    this.fields = fields.map((field, n) => new (KINDS[field.kind] ?? Field)(field, `${id}-${n}`, changed));
    this.node = el("div", { class: "fields", role: "group", "aria-label": name }, ...this.fields.map((field) => field.node));
  }

  get isChanged() {
    return this.fields.some((field) => field.isChanged);
  }

  focus() {
    (this.wrong ?? this.fields[0])?.focus();
  }

  // The object, or undefined if some fields are not valid: these say why.
  read() {
    const value = { ...this.original };
    const wrong = this.fields.filter((field) => (field.isChanged || (this.isNew && field.field.isRequired)) && !field.check(value));
    this.wrong = wrong[0] ?? null;
    return wrong.length > 0 ? undefined : value;
  }

  // The same, and the focus moves to the first field that is not valid.
  value() {
    const value = this.read();
    if (value === undefined) this.focus();
    return value;
  }
}
