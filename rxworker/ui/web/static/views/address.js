// What the address of the page has besides the run: the filter of the list, the dashboard, the part of the timeline, and the moment of the slider. A view can be shared, and survives a
// reload. Browsers limit how often an address changes, so it changes at once, and then after a moment of rest.

const REST = 250; // milliseconds
const pending = new Map();
let timer = null, isDue = false, hashNow = () => null;

// A value of the address; null if it has none.
export const noted = (name) => (pending.has(name) ? pending.get(name) : new URLSearchParams(location.search).get(name));

// Name a value in the address; null or "" removes it.
export function note(name, value) {
  pending.set(name, value);
  later();
}

// The fragment has changed: `hash()` returns it when the address is changed, or null where it is right.
export function noteHash(hash) {
  hashNow = hash;
  later();
}

function later() {
  isDue = true;
  if (timer !== null) return;
  timer = setTimeout(rested, REST);
  queueMicrotask(flush); // with what else changes now
}

function rested() {
  timer = null;
  if (isDue) later();
}

function flush() {
  if (isDue) address();
}

// The address of what is shown now. It does not have the token of the server.
export function address() {
  isDue = false;
  const url = new URL(location.href);
  for (const [name, value] of pending) {
    if (value === null || value === "") url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  pending.clear();
  url.searchParams.delete("token");
  url.hash = hashNow() ?? url.hash;
  if (url.href !== location.href) history.replaceState(history.state, "", url);
  return url.href;
}
