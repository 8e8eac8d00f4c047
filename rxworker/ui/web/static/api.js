// The server's JSON API. Addresses are relative to the page, so that it works wherever the application is mounted.

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const at = (path) => new URL(path, document.baseURI);

async function ask(path, options = {}, look = null) {
  let response;
  try {
    response = await fetch(at(path), { credentials: "same-origin", ...options });
  } catch {
    throw new ApiError(0, "unreachable", "The server cannot be reached. Nothing was sent.");
  }
  look?.(response);
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  const error = body?.error ?? {};
  throw new ApiError(response.status, error.code ?? "error", error.message ?? `The server answered ${response.status}.`);
}

function post(path, body = {}) {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

const of = (run, verb) => `api/runs/${encodeURIComponent(run)}/${verb}`;

// What the server is, and what its clock says, in seconds since the epoch.
export async function info() {
  let clock = Date.now();
  const found = await ask("api/info", {}, (response) => (clock = Date.parse(response.headers.get("date") ?? "") || clock));
  return [found, clock / 1000];
}


export const start = (input, worker, conversation) => post("api/runs", { input, ...(worker && { worker }), ...(conversation && { conversation }) });
export const send = (run, message) => post(of(run, "send"), { message });
export const pause = (run) => post(of(run, "pause"), { reason: "paused from the page" });
export const cancel = (run, when) => post(of(run, "cancel"), { when, reason: "cancelled from the page" });
export const resume = (run, decisions) => post(of(run, "resume"), decisions ? { decisions } : {});
