// The fields of a form for the arguments of a tool, from its JSON schema, and the values of what a user writes in them. Pure.
//
// A field is of a kind: text, long (a text of several lines), number, integer, boolean, choice, lines (an array of texts), or json for all else.
// A value that its kind cannot show as it is, such as a text with invisible characters, is written as JSON.

import { count, inJson, isUnseen } from "./format.js";
import { fill, words } from "./language.js";

const LONG = 60; // characters of a text that gets several lines

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// A schema without the alternative `null`, which an optional parameter has.
function plain(schema) {
  if (!isObject(schema)) return {};
  const options = schema.anyOf ?? schema.oneOf ?? [], others = options.filter((one) => one?.type !== "null");
  if (others.length === 1 && options.length <= 2) return { ...schema, anyOf: undefined, oneOf: undefined, ...plain(others[0]), description: schema.description ?? others[0].description };
  const types = Array.isArray(schema.type) ? schema.type.filter((type) => type !== "null") : [];
  const known = types.length === 1 ? { ...schema, type: types[0] } : schema;
  return "const" in known ? { ...known, enum: [known.const] } : known;
}

function kindOf(schema, value) {
  if (Array.isArray(schema.enum)) return "choice";
  switch (schema.type) {
    case "string": return typeof value === "string" && (value.length > LONG || value.includes("\n")) ? "long" : "text";
    case "number": case "integer": case "boolean": return schema.type;
    case "array": return plain(schema.items).type === "string" ? "lines" : "json";
    default: return "json";
  }
}

const isLine = (one) => typeof one === "string" && one.trim() !== "" && !one.includes("\n") && !isUnseen(one);

const FITS = {
  text: (value) => typeof value === "string" && !isUnseen(value),
  long: (value) => typeof value === "string" && !isUnseen(value),
  number: (value) => typeof value === "number",
  integer: (value) => typeof value === "number",
  boolean: (value) => typeof value === "boolean",
  choice: (value, { schema }) => placeOf(schema.enum, value) >= 0,
  lines: (value) => Array.isArray(value) && value.every(isLine),
  json: () => true,
};

const placeOf = (options, value) => options.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));

// The fields of the arguments, or null if the schema has none. What the model wrote besides them is a field too.
export function fieldsOf(schema, input) {
  if (!isObject(schema?.properties) || !isObject(input)) return null;
  const names = [...new Set([...Object.keys(schema.properties), ...Object.keys(input)])];
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = names.map((name) => {
    const known = plain(Object.hasOwn(schema.properties, name) ? schema.properties[name] : {}), value = Object.hasOwn(input, name) ? input[name] : undefined;
    const field = { name, schema: known, value, kind: kindOf(known, value), isRequired: required.has(name), description: known.description ?? "", hasDefault: "default" in known && known.default !== null };
    if (value !== undefined && !FITS[field.kind](value, field)) field.kind = "json";
    return field;
  });
  return fields.length > 0 ? fields : null;
}

// A value as it stands in its field: a text, a place among the choices, or whether a box is checked.
export function shown({ kind, schema }, value) {
  if (kind === "boolean") return value === true;
  if (value === undefined) return "";
  switch (kind) {
    case "choice": return String(placeOf(schema.enum, value));
    case "lines": return value.join("\n");
    case "json": return inJson(value);
    default: return String(value);
  }
}

// The value of what stands in a field, `undefined` if there is none. Throws an error with a message for the user.
export function read(field, text) {
  const { kind, schema, isRequired, value: before } = field;
  if (kind === "boolean") return text;
  const isLeft = text.trim() === "", isText = kind === "text" || kind === "long";
  if (isLeft && !(isText && (before !== undefined || isRequired)) && !(kind === "lines" && (before !== undefined || isRequired))) {
    if (isRequired) throw new RangeError(words.form.needed);
    return undefined;
  }
  const value = READ[kind](text, schema);
  for (const [name, isWrong, message] of CHECKS) {
    if (schema[name] !== undefined && isWrong(value, schema[name])) throw new RangeError(fill(message, { n: typeof schema[name] === "number" ? count(schema[name]) : schema[name] }));
  }
  return value;
}

const READ = {
  text: (text) => text,
  long: (text) => text,
  number: numberIn,
  integer(text) {
    const value = numberIn(text);
    if (!Number.isInteger(value)) throw new RangeError(words.form.notWhole);
    if (!Number.isSafeInteger(value)) throw new RangeError(words.form.tooLarge);
    return value;
  },
  choice: (text, schema) => schema.enum[Number(text)],
  lines(text, schema) {
    const items = text.split("\n").filter((line) => line.trim() !== ""), { enum: options } = plain(schema.items);
    const unknown = Array.isArray(options) ? items.find((item) => !options.includes(item)) : undefined;
    if (unknown !== undefined) throw new RangeError(fill(words.form.notAmong, { value: unknown, options: options.join(", ") }));
    return items;
  },
  json(text, schema) {
    let value;
    try {
      value = JSON.parse(text);
    } catch (error) {
      throw new SyntaxError(fill(words.approval.badJson, { problem: error.message }));
    }
    if (schema.type === "object" && !isObject(value)) throw new SyntaxError(words.form.notObject);
    if (schema.type === "array" && !Array.isArray(value)) throw new SyntaxError(words.form.notArray);
    if (schema.type === "string" && typeof value !== "string") throw new SyntaxError(words.form.notText);
    return value;
  },
};

function numberIn(text) {
  const value = Number(text.trim());
  if (!Number.isFinite(value)) throw new RangeError(words.form.notNumber);
  return value;
}

const isNumber = (value) => typeof value === "number", isText = (value) => typeof value === "string";

const CHECKS = [
  ["minimum", (value, n) => isNumber(value) && value < n, words.form.atLeast],
  ["maximum", (value, n) => isNumber(value) && value > n, words.form.atMost],
  ["exclusiveMinimum", (value, n) => isNumber(value) && value <= n, words.form.moreThan],
  ["exclusiveMaximum", (value, n) => isNumber(value) && value >= n, words.form.lessThan],
  ["minLength", (value, n) => isText(value) && [...value].length < n, words.form.longer],
  ["maxLength", (value, n) => isText(value) && [...value].length > n, words.form.shorter],
  ["pattern", (value, pattern) => isText(value) && !matches(value, pattern), words.form.pattern],
  ["minItems", (value, n) => Array.isArray(value) && value.length < n, words.form.moreItems],
  ["maxItems", (value, n) => Array.isArray(value) && value.length > n, words.form.fewerItems],
];

// A pattern of another dialect checks nothing here: the tool checks its arguments itself.
function matches(value, pattern) {
  try {
    return value.length > 10_000 || new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}
