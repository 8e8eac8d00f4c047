// The fragment of the page's address: a run, and in it a moment (`#run@12`, its record) or an entry of the conversation (`#run/3`). Pure.

const FORM = /^([^@/]*)(?:@(\d+)|\/(\d+))?$/;
const number = (text) => (text === undefined ? null : Number(text));

export function readLink(hash) {
  const text = hash.replace(/^#/, ""), [, run, seq, item] = FORM.exec(text) ?? [null, text];
  return { run: decoded(run) || null, seq: number(seq), item: number(item) };
}

export function writeLink({ run, seq = null, item = null }) {
  return `#${encodeURIComponent(run)}${seq !== null ? `@${seq}` : item !== null ? `/${item}` : ""}`;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not a valid id: the server will report it
  }
}
