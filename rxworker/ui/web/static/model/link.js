// The fragment of the page's address: a run, and in it a moment (`#run@12`, its record) or an entry of the conversation (`#run/3`); or two runs side by
// side (`#run~other`). Pure.

const FORM = /^([^@/~]*)(?:@(\d+)|\/(\d+)|~([^@/~]+))?$/;
const number = (text) => (text === undefined ? null : Number(text));

export function readLink(hash) {
  const text = hash.replace(/^#/, ""), [, run, seq, item, other] = FORM.exec(text) ?? [null, text];
  return { run: decoded(run) || null, seq: number(seq), item: number(item), other: other === undefined || other === run ? null : decoded(other) };
}

export function writeLink({ run, seq = null, item = null, other = null }) {
  return `#${encoded(run)}${seq !== null ? `@${seq}` : item !== null ? `/${item}` : other !== null ? `~${encoded(other)}` : ""}`;
}

const encoded = (id) => encodeURIComponent(id).replaceAll("~", "%7E");

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not a valid id: the server will report it
  }
}

const ADDRESS = /^(.*\/)api\/runs\/([^/]+)\/?$/;

// The server and the run of an address: that of the run in the API, or of the page with a fragment. Null if it is neither.
export function readSource(text, base) {
  try {
    const url = new URL(text, base), [, server, run] = ADDRESS.exec(url.pathname) ?? [null, ".", readLink(url.hash).run];
    return run === null || text === "" || !url.protocol.startsWith("http") ? null : { server: new URL(server, url).href, run: server === "." ? run : decoded(run) };
  } catch {
    return null;
  }
}
