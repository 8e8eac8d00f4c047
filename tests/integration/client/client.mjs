// Subscribes with the package to what its arguments name, and prints a line for each notification: [which, "next", value]. It ends when nothing is connected
// any more.
import { EventSource } from "eventsource";
import { connect, textOf, usageOf } from "rxworker-client";
import WebSocket from "ws";

const [url, ...asked] = process.argv.slice(2);
const headers = process.env.RXWORKER_TOKEN ? { Authorization: `Bearer ${process.env.RXWORKER_TOKEN}` } : {};
const withHeaders = (at, init = {}) => fetch(at, { ...init, headers: { ...init.headers, ...headers } });
const client = connect(url, {
  makeSocket: (at) => new WebSocket(at, { headers }),
  makeSource: (at) => new EventSource(at, { fetch: withHeaders }),
  fetch: withHeaders,
});
const print = (...notification) => console.log(JSON.stringify(notification));

// A view refers to itself, so that it is no JSON.
const plain = (view) => ({ seq: view.seq, status: view.status, tokens: usageOf(view).output_tokens, items: view.root.items.map((item) => [item.kind, item.text ?? textOf(item)]) });

asked.forEach((text, which) => {
  const [name, ...args] = JSON.parse(text), found = client[name];
  (typeof found === "function" ? found.apply(client, args) : found).subscribe({
    next: (value) => print(which, "next", name === "view$" ? plain(value) : value),
    error: ({ status, code, message }) => print(which, "error", { status, code, message }),
    complete: () => print(which, "complete"),
  });
});
