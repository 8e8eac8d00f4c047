// One run, or a run inside a run: its items, its open blocks and its calls. Pure.

import { makeCall } from "./items.js";
import { newUsage } from "./usage.js";

export function newScope(path, parent) {
  return {
    path, parent, depth: path.length, items: [],
    open: new Map(), // blocks and calls that are being written, by index
    calls: new Map(), // every call by its id; a provider may give two calls one id
    attempt: [], // what the current attempt said, to be struck out when it is taken back
    trouble: null, // the error or the limit that has led to nothing yet
    response: newResponse(), spent: newUsage(), hasResponse: false,
  };
}

export function newResponse() {
  return { status: null, usage: null };
}

// The scope that a path leads to, made when it is first heard of.
export function scopeAt(run, path) {
  if (path.length === 0) return run.root;
  const key = JSON.stringify(path);
  let scope = run.scopes.get(key);
  if (scope === undefined) {
    const outer = scopeAt(run, path.slice(0, -1));
    scope = newScope(path, lastCall(outer, path[path.length - 1]));
    if (scope.parent) scope.parent.inner = scope;
    run.scopes.set(key, scope);
  }
  return scope;
}

export function put(run, scope, item) {
  scope.items.push(item);
  run.changed.add(item);
  return item;
}

export function know(scope, call) {
  const same = scope.calls.get(call.id);
  if (same) same.push(call);
  else scope.calls.set(call.id, [call]);
}

export function lastCall(scope, id) {
  const same = scope.calls.get(id);
  return same ? same[same.length - 1] : null;
}

// The first call of that id that this has not happened to yet; one that nobody wrote is made.
export function callFor(run, scope, id, name, isOpen) {
  const same = scope.calls.get(id) ?? [];
  const found = same.find((call) => !call.retracted && isOpen(call));
  if (found) return found;
  const last = same[same.length - 1];
  if (last && !last.retracted) return last;
  const call = makeCall(scope, id, name, { state: "waiting", phase: "stopped" });
  know(scope, call);
  put(run, scope, call);
  return call;
}
