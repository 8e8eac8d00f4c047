// The fields of a form for the arguments of a tool, from its JSON schema, and the values of what a user writes in them. Pure.
//
// A field is of a kind: text, long (a text of several lines), number, integer, boolean, choice, lines (an array of texts), group (an object, with
// `fields`), rows (an array of objects), or json for all else.
// A value that its kind cannot show as it is, such as a text with invisible characters, is written as JSON.

import { count, inJson, isUnseen } from "./format.js";
import { fill, words } from "./language.js";

const DEEPEST = 4; // levels of objects in objects that are fields; a schema may contain itself
const LONG = 60; // characters of a text that gets several lines

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// The schema that a reference within a schema leads to.
function resolved(schema, root) {
  for (let n = 0; n < DEEPEST && isObject(schema) && typeof schema.$ref === "string"; n += 1) {
    const names = schema.$ref.split("/"), { $ref: _, ...rest } = schema;
    if (names.shift() !== "#") return rest;
    const found = names.reduce((inner, name) => (isObject(inner) && Object.hasOwn(inner, name) ? inner[name] : undefined), root);
    schema = { ...(isObject(found) ? found : {}), ...rest };
  }
  return isObject(schema) ? schema : {};
}

// A schema without the alternative `null`, which an optional parameter has.
function plain(given, root) {
  const schema = resolved(given, root);
  const titled = [schema.oneOf, schema.anyOf].find((some) => Array.isArray(some) && some.length > 0 && some.every((one) => isObject(one) && "const" in one && typeof one.title === "string"));
  if (titled) return { ...schema, oneOf: undefined, anyOf: undefined, enum: titled.map((one) => one.const), enumNames: titled.map((one) => one.title) };
  const options = schema.anyOf ?? schema.oneOf ?? [], others = options.filter((one) => one?.type !== "null");
  if (others.length === 1 && options.length <= 2) return { ...schema, anyOf: undefined, oneOf: undefined, ...plain(others[0], root), description: schema.description ?? others[0].description };
  const types = Array.isArray(schema.type) ? schema.type.filter((type) => type !== "null") : [];
  const known = types.length === 1 ? { ...schema, type: types[0] } : schema;
  return "const" in known ? { ...known, enum: [known.const] } : known;
}

function kindOf(schema, value, root, depth) {
  if (Array.isArray(schema.enum)) return "choice";
  switch (schema.type) {
    case "string": return typeof value === "string" && (value.length > LONG || value.includes("\n")) ? "long" : "text";
    case "number": case "integer": case "boolean": return schema.type;
    case "object": return hasFields(schema, depth) ? "group" : "json";
    case "array": {
      const items = plain(schema.items, root);
      return items.type === "string" ? "lines" : items.type === "object" && hasFields(items, depth) ? "rows" : "json";
    }
    default: return "json";
  }
}

const hasFields = (schema, depth) => depth < DEEPEST && isObject(schema.properties) && Object.keys(schema.properties).length > 0;

const isLine = (one) => typeof one === "string" && one.trim() !== "" && !one.includes("\n") && !isUnseen(one);

const FITS = {
  text: (value) => typeof value === "string" && !isUnseen(value),
  long: (value) => typeof value === "string" && !isUnseen(value),
  number: (value) => typeof value === "number",
  integer: (value) => typeof value === "number",
  boolean: (value) => typeof value === "boolean",
  choice: (value, { schema }) => placeOf(schema.enum, value) >= 0,
  lines: (value) => Array.isArray(value) && value.every(isLine),
  group: isObject,
  rows: (value) => Array.isArray(value) && value.every(isObject),
  json: () => true,
};

// The form of a question of a tool, with its defaults: what a field has of title and choices stands in its description.
export function askedOf(schema) {
  const value = {}, properties = {};
  for (const [name, field] of Object.entries(schema.properties)) {
    if (field.default !== undefined) value[name] = field.default;
    const several = field.type === "array" ? plain(field.items, schema) : null;
    const choices = several?.enum?.map((one, n) => (several.enumNames ? `${one} (${several.enumNames[n]})` : one)).join(", ");
    properties[name] = { ...field, description: [field.title, field.description, choices].filter(Boolean).join(" · ") };
  }
  return { schema: { ...schema, properties }, value };
}

const placeOf = (options, value) => options.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));

// The fields of the arguments, or null if the schema has none. What the model wrote besides them is a field too.
export function fieldsOf(schema, input, root = schema, depth = 1) {
  if (!isObject(schema?.properties) || !isObject(input)) return null;
  const names = [...new Set([...Object.keys(schema.properties), ...Object.keys(input)])];
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = names.map((name) => {
    const known = plain(Object.hasOwn(schema.properties, name) ? schema.properties[name] : {}, root), value = Object.hasOwn(input, name) ? input[name] : undefined;
    const field = { name, schema: known, value, kind: kindOf(known, value, root, depth), isRequired: required.has(name), description: known.description ?? "", hasDefault: "default" in known && known.default !== null };
    if (value !== undefined && !FITS[field.kind](value, field)) field.kind = "json";
    if (field.kind === "group") field.fields = fieldsOf(known, value ?? {}, root, depth + 1);
    if (field.kind === "rows") field.fieldsOf = (row) => fieldsOf(plain(known.items, root), row, root, depth + 1);
    field.root = root;
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
  if (isLeft && !(isText && before !== undefined) && !(kind === "lines" && (before !== undefined || isRequired))) {
    if (isRequired) throw new RangeError(words.form.needed);
    return undefined;
  }
  const value = READ[kind](text, schema), problem = kind === "json" ? problemOf(schema, value, field.root) : limitOf(schema, value);
  if (problem !== null) throw new RangeError(problem);
  return value;
}

// A limit of a schema that a value exceeds, as a message for the user, or null.
export function limitOf(schema, value) {
  const found = CHECKS.find(([name, isWrong]) => schema[name] !== undefined && isWrong(value, schema[name]));
  if (found === undefined) return null;
  const limit = schema[found[0]];
  return fill(found[2], { n: typeof limit === "number" ? count(limit) : limit });
}

const TYPES = {
  string: [(value) => typeof value === "string", words.form.notText],
  number: [(value) => typeof value === "number", words.form.notNumber],
  integer: [(value) => Number.isInteger(value), words.form.notWhole],
  boolean: [(value) => typeof value === "boolean", words.form.notBoolean],
  object: [isObject, words.form.notObject],
  array: [Array.isArray, words.form.notArray],
  null: [(value) => value === null, words.form.noneFits],
};

// Why a value does not match a schema, as a message for the user that begins with the place, or null. What the page does not know matches.
export function problemOf(given, value, root = given, path = "", depth = 0) {
  const schema = resolved(given, root), at = (problem) => (path ? fill(words.form.at, { path, problem }) : problem);
  if (depth > 20) return null;
  const inner = (one, part, name) => problemOf(one, part, root, typeof name === "number" ? `${path}[${name}]` : path ? `${path}.${name}` : name, depth + 1);
  const types = [schema.type ?? []].flat().filter((type) => Object.hasOwn(TYPES, type));
  if (types.length && !types.some((type) => TYPES[type][0](value))) return at(TYPES[types[0]][1]);
  const options = "const" in schema ? [schema.const] : schema.enum;
  if (Array.isArray(options) && placeOf(options, value) < 0) return at(fill(words.form.notAmong, { value: inJson(value), options: options.map(inJson).join(", ") }));
  const limit = limitOf(schema, value);
  if (limit !== null) return at(limit);
  for (const others of [schema.anyOf, schema.oneOf]) {
    const problems = Array.isArray(others) ? others.filter((one) => one?.type !== "null" || value === null).map((one) => problemOf(one, value, root, path, depth + 1)) : [];
    if (problems.length && !problems.includes(null)) return problems.length === 1 ? problems[0] : at(words.form.noneFits);
  }
  let problem = null;
  if (Array.isArray(value)) value.some((one, n) => (problem = inner(schema.items, one, n)) !== null);
  else if (isObject(value)) {
    const known = isObject(schema.properties) ? schema.properties : {}, required = Array.isArray(schema.required) ? schema.required : [];
    const missing = required.find((name) => !Object.hasOwn(value, name));
    if (missing !== undefined) return fill(words.form.at, { path: path ? `${path}.${missing}` : missing, problem: words.form.needed });
    Object.entries(value).some(([name, one]) => {
      const isKnown = Object.hasOwn(known, name), other = schema.additionalProperties;
      if (!isKnown && other === false) problem = fill(words.form.at, { path: path ? `${path}.${name}` : name, problem: words.form.unknown });
      else problem = inner(isKnown ? known[name] : other, one, name);
      return problem !== null;
    });
  }
  return problem;
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
    const items = text.split("\n").filter((line) => line.trim() !== ""), { enum: options } = resolved(schema.items, schema);
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
