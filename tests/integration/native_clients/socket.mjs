// Watches several runs on one connection with the npm package "ws", to the end of each. Connects again with its cursors when cut.
import WebSocket from "ws";

const [url, ...runs] = process.argv.slice(2);
const heard = { opens: 0, instances: [], runs: {} };
for (const run of runs) heard.runs[run] = { records: [], texts: [], after: 0, end: null };

function connect() {
  const socket = new WebSocket(url);
  socket.on("open", () => {
    heard.opens += 1;
    for (const [run, { after, end }] of Object.entries(heard.runs))
      if (end === null) socket.send(JSON.stringify({ type: "watch", run, after }));
  });
  socket.on("message", (data) => take(JSON.parse(data), socket));
  socket.on("error", () => {}); // a "close" follows
  socket.on("close", () => (isDone() ? finish() : setTimeout(connect, 10)));
}

function take(message, socket) {
  if (message.type === "hello") heard.instances.push(message.instance);
  const run = heard.runs[message.run];
  if (message.type === "records")
    for (const record of message.records) {
      run.records.push([record.seq - (record.covers ?? 1) + 1, record.seq]);
      run.after = record.seq;
      if (record.event.type === "text_delta") run.texts.push(record.event.text);
    }
  if (message.type === "end") run.end = message.status;
  if (message.type === "error" || message.type === "gone") run.end = message.type;
  if (isDone()) socket.close();
}

const isDone = () => Object.values(heard.runs).every(({ end }) => end !== null);

function finish() {
  console.log(JSON.stringify(heard));
  process.exit(0);
}

connect();
