// How many tokens a message takes, roughly: the rule of `estimate` in Python (messages/history.py); a test checks that the two agree. Pure.

export const MESSAGE_TOKENS = 4;
const BYTES = 4, MESSAGE = MESSAGE_TOKENS, IMAGE = 1_500, DOCUMENT = 3_000, AUDIO = 500;

// The length of a text in UTF-8.
export function bytesOf(text) {
  let size = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x80) continue;
    if (code < 0x800) size += 1;
    else if (code >= 0xd800 && code < 0xdc00 && isLow(text.charCodeAt(at + 1))) {
      size += 2;
      at += 1;
    } else size += 2;
  }
  return size;
}

const isLow = (code) => code >= 0xdc00 && code < 0xe000;
export const tokensIn = (bytes) => Math.ceil(bytes / BYTES);
const ofText = (text) => tokensIn(bytesOf(text));
const ofValue = (value) => (value === null || value === undefined ? 0 : ofText(typeof value === "string" ? value : JSON.stringify(value)));
const ofBase64 = (data, bytes) => Math.ceil(Math.floor((data.length * 3) / 4) / bytes);

export const estimate = (message) => message.content.reduce((sum, part) => sum + partTokens(part), MESSAGE);

export function resultTokens(content) {
  return MESSAGE + (typeof content === "string" ? ofText(content) : (content ?? []).reduce((sum, part) => sum + partTokens(part), 0));
}

export function partTokens(part) {
  switch (part.type) {
    case "text": case "refusal": return ofText(part.text);
    case "thinking": return ofText(part.text ?? "") || ofText(part.signature ?? "") || ofValue(part.echo);
    case "tool_call": return MESSAGE + ofText(part.name) + ofValue(part.input);
    case "tool_result": return resultTokens(part.content);
    case "image": return IMAGE;
    case "document": return part.data && part.media_type?.startsWith("text/") ? ofBase64(part.data, BYTES) : DOCUMENT;
    case "audio": return ofBase64(part.data ?? "", AUDIO);
    case "server_tool_call": return ofValue(part.echo) || ofValue(part.input);
    default: return ofValue(part.echo);
  }
}
