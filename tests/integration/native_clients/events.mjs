// Watches a run with the npm package "eventsource", to the end. Prints what came: the range of each record, and how often it connected.
import { EventSource } from "eventsource";

const source = new EventSource(process.argv[2]);
const heard = { records: [], texts: [], ends: [], opens: 0, status: null };

source.onopen = () => (heard.opens += 1);
source.onmessage = (message) => {
  const record = JSON.parse(message.data);
  heard.records.push([record.seq - (record.covers ?? 1) + 1, record.seq]);
  if (String(record.seq) !== message.lastEventId) heard.records.push("the id is another");
  if (record.event.type === "text_delta") heard.texts.push(record.event.text);
};
source.addEventListener("end", (message) => heard.ends.push(JSON.parse(message.data).status));
source.onerror = (error) => {
  if (source.readyState !== EventSource.CLOSED) return; // it connects again by itself
  heard.status = error.code ?? null;
  console.log(JSON.stringify(heard));
  process.exit(0);
};
