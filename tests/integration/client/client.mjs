// Does with the package what its arguments name, one after the other: subscribes to an observable, or calls a method. It prints a line for each notification:
// [which, "next", value], and ends when nothing is connected any more. `first` before the name of an observable takes one value. `$0` in an argument is the id of the run that the first call has returned.
import { connect, textOf, usageOf } from "rxworker-client";
import { take } from "rxjs";
import WebSocket from "ws";

const [url, ...asked] = process.argv.slice(2);
const client = connect(url, { token: process.env.RXWORKER_TOKEN, makeSocket: (at, protocols) => new WebSocket(at, protocols) });
const print = (...notification) => console.log(JSON.stringify(notification));
const results = [];

// A view refers to itself, so it has no JSON form.
const plain = (view) => ({ seq: view.seq, status: view.status, tokens: usageOf(view).output_tokens, items: view.root.items.map((item) => [item.kind, item.text ?? textOf(item)]) });

for (const [which, text] of asked.entries()) {
  const [first, ...rest] = JSON.parse(text.replace(/\$(\d)/g, (_, n) => results[n]?.id)), isOne = first === "first";
  const [name, ...args] = isOne ? rest : [first, ...rest], found = client[name];
  const all = typeof found === "function" ? found.apply(client, args) : found, made = isOne ? all.pipe(take(1)) : all;
  const error = ({ status, code, message }) => print(which, "error", { status, code, message });
  if (made instanceof Promise) {
    try {
      results[which] = await made;
      print(which, "next", results[which]);
      print(which, "complete");
    } catch (problem) {
      error(problem);
    }
  } else made.subscribe({ next: (value) => print(which, "next", name === "view$" ? plain(value) : value), error, complete: () => print(which, "complete") });
}
