// The fragment of the page's address: a run, and in it a moment (`#run@12`, its record) or an entry of the conversation (`#run/3`); or two runs side by
// side (`#run~other`). `~` with a number ends the id of a run that resumes another one. The page of a read-only link has the token of the link before it:
// `#link=TOKEN&run@12`. Pure.

const FORM = /^([^@/~]*(?:~\d+)?)(?:@(\d+)|\/(\d+)|~([^@/~]+(?:~\d+)?))?$/;
const LINK = /^#link=(rxl_[\w-]+)(?:&|$)/;
const number = (text) => (text === undefined ? null : Number(text));

// The token of the read-only link, or null.
export const tokenIn = (hash) => LINK.exec(hash)?.[1] ?? null;

export function readLink(hash) {
  const text = hash.replace(LINK, "").replace(/^#/, ""), [, run, seq, item, other] = FORM.exec(text) ?? [null, text];
  return { run: decoded(run) || null, seq: number(seq), item: number(item), other: other === undefined || other === run ? null : decoded(other) };
}

export function writeLink({ run, seq = null, item = null, other = null, token = null }) {
  const place = seq !== null ? `@${seq}` : item !== null ? `/${item}` : other !== null ? `~${encoded(other).replace(/^\d+$/, "%3$&")}` : "";
  return `#${token === null ? "" : `link=${token}&`}${encoded(run)}${place}`;
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

// The server, the run and its record of an address: that of the run in the API, or of the page with a fragment. Null if it is neither.
export function readSource(text, base) {
  try {
    const url = new URL(text, base), link = readLink(url.hash), [, server, run] = ADDRESS.exec(url.pathname) ?? [null, ".", link.run];
    return run === null || text === "" || !url.protocol.startsWith("http") ? null : { server: new URL(server, url).href, run: server === "." ? run : decoded(run), seq: link.seq };
  } catch {
    return null;
  }
}
