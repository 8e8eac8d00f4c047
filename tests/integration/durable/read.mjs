// Reads a stream to its end with the official client, and prints each item as a line of JSON: URL LIVE
import { stream } from "@durable-streams/client";

const [url, live] = process.argv.slice(2);
const response = await stream({ url, offset: "-1", live });
for await (const item of response.jsonStream()) console.log(JSON.stringify(item));
