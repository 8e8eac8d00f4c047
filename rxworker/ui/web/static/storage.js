// What this tab remembers over a reload. Storage may be forbidden or full: then it is remembered as long as the page lives.

const PREFIX = `rxworker ${new URL(".", globalThis.document?.baseURI ?? "file:///").pathname} `;

export function recall(key) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + key));
  } catch {
    return null;
  }
}

export function remember(key, value) {
  try {
    if (value === null || value === "" || value.length === 0) sessionStorage.removeItem(PREFIX + key);
    else sessionStorage.setItem(PREFIX + key, JSON.stringify(value));
  } catch { /* see above */ }
}
