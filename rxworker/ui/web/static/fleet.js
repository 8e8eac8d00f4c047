// The page of all runs of the log. The server sends everything that is shown after each change, at most once a second.

import * as api from "./net/server.js";
import { address, note, noted } from "./views/address.js";
import { byId, el, morph, setData, setText, show } from "./views/dom.js";
import { DashboardsView, OWN_BOARDS } from "./views/dashboards.js";
import { ago, clip, costWithout, count, money, plural, seconds, short, statusWord } from "./model/format.js";
import { Keys } from "./views/keys.js";
import { FLEET_COMMANDS } from "./model/commands.js";
import { writeLink } from "./model/link.js";
import { local } from "./views/range_bar.js";
import { ShareDialog } from "./views/share.js";
import { banner, copyLink, initTheme } from "./views/shell.js";
import { fill, translate, words } from "./model/language.js";

const STEP = 50, MAX = 200, TYPING = 250;
const form = byId("filter"), FIELDS = ["q", "status", "worker", "tenant", "owner", "label", "since", "until"], TIMES = ["since", "until"];
const { fleet } = words;
let source = null, limit = STEP, answer = null, timer = null;

// The address keeps the filter, so that it can be shared and survives a reload.
function readAddress() {
  for (const name of FIELDS) {
    const field = form.elements[name], value = noted(name) ?? "";
    if (field.tagName === "SELECT" && value) offer(field, [value]);
    field.value = TIMES.includes(name) && value ? local(Number(value)) : value;
  }
}

function asked() {
  const query = new URLSearchParams();
  for (const name of FIELDS) {
    const { value } = form.elements[name];
    if (value) query.set(name, TIMES.includes(name) ? String(Date.parse(value) / 1000) : value);
  }
  return query;
}

function open() {
  source?.close();
  const query = asked();
  for (const name of FIELDS) note(name, query.get(name));
  query.set("limit", String(limit));
  source = new EventSource(new URL(`api/fleet?${query}`, document.baseURI));
  source.onopen = () => state("open");
  source.onerror = () => lost(source);
  source.onmessage = (event) => draw(JSON.parse(event.data));
}

function state(word) {
  setData(byId("link"), "state", word);
  setText(byId("link"), words.link[word === "open" ? "open" : "lost"]);
  banner(word === "open" ? "" : fleet.lost, word === "open" ? "" : "lost");
}

// The browser reconnects by itself, unless the server has refused: then ask why.
async function lost(from) {
  state("lost");
  if (from.readyState !== EventSource.CLOSED) return;
  try {
    await api.fleet(asked());
    open();
  } catch (problem) {
    banner(problem.status ? problem.message : fleet.lost, "lost");
    clearTimeout(timer);
    timer = setTimeout(open, 4_000);
  }
}

function draw(found) {
  answer = found;
  const { runs } = found, queued = runs.queued ?? 0;
  const oldest = Math.min(...found.queues.map((queue) => queue.since));
  tiles(byId("now"), [
    [fleet.running, count((runs.running ?? 0) - found.recovering)],
    [fleet.queued, count(queued), queued ? fill(fleet.oldest, { seconds: seconds(found.time - oldest) }) : "", queued ? "warn" : ""],
    [fleet.paused, count(runs.paused ?? 0)],
    [fleet.recovering, count(found.recovering), "", found.recovering ? "bad" : ""],
    [fleet.finished, count(runs.finished ?? 0)],
    [fleet.aborted, count(runs.aborted ?? 0)],
    [fleet.processes, count(found.owner_count)],
  ]);
  drawGroups(found);
  drawRows(found);
}

// A cost by the prices of the server is an estimate.
function costText({ cost, is_estimate: isEstimate, unpriced }, currency = answer.currency) {
  if (unpriced.length > 0) return costWithout(cost || null, unpriced, currency);
  if (!cost && !isEstimate) return "–";
  return isEstimate ? fill(words.numbers.about, { text: money(cost, currency) }) : money(cost, currency);
}

function tiles(list, values) {
  if (list.children.length !== values.length) {
    list.replaceChildren(...values.map(([name]) => el("div", {}, el("dd"), el("dd", { class: "note" }), el("dt", { text: name }))));
  }
  values.forEach(([, value, note = "", tone = ""], at) => {
    const tile = list.children[at];
    setText(tile.children[0], value);
    setText(tile.children[1], note);
    setData(tile, "tone", tone);
  });
}

function drawGroups(found) {
  const { groups, owners } = found, OPEN = ["queued", "running", "paused"];
  table(byId("groups"), groups.map(({ worker, tenant, runs, taken }) => [
    worker || "–", tenant || "–", [count(OPEN.reduce((sum, status) => sum + (runs[status] ?? 0), 0))], [count(taken.ended)], [count(taken.failed)],
    [short(taken.input_tokens + taken.output_tokens)], [costText(taken)], [taken.tool_p95 === null ? "–" : seconds(taken.tool_p95)],
  ]), groups.map(({ worker, tenant }) => `${worker}\n${tenant}`));
  table(byId("owners"), owners.map(({ owner, runs }) => [owner, [count(runs)]]));
  setText(byId("groups-note"), groups.length === 0 ? fleet.none : rest(fleet.moreGroups, found.group_count - groups.length));
  setText(byId("owners-note"), owners.length === 0 ? fleet.noProcess : rest(fleet.moreProcesses, found.owner_count - owners.length));
  const named = (name) => [...new Set(groups.map((group) => group[name]).filter(Boolean))].sort();
  offer(form.elements.worker, named("worker"));
  offer(form.elements.tenant, named("tenant"));
  offer(form.elements.owner, owners.map((each) => each.owner));
}

const runAt = (run) => `./${writeLink({ run })}`;
const rest = (text, n) => (n > 0 ? plural(text, n) : "");

function drawRows(found) {
  table(byId("fleet-rows"), found.rows.map((row) => [
    el("a", { href: runAt(row.id), text: clip(row.title, 80) || words.runs.untitled, title: `${row.id}${row.reason ? `: ${row.reason}` : ""}` }),
    statusOf(row),
    row.worker || "–", row.tenant || "–", row.owner || "–", [count(row.turns)], [count(row.tool_calls)],
    [short(row.input_tokens + row.output_tokens)], [costText(row)], ago(row.began, found.time),
  ]), found.rows.map((row) => row.id));
  setText(byId("rows-note"), found.rows.length === 0 ? (asked().size ? fleet.noMatch : fleet.none) : found.is_more && limit === MAX ? fill(fleet.newest, { n: MAX }) : "");
  show(byId("more"), found.is_more && limit < MAX);
}

function statusOf(row) {
  const status = el("span", { class: "status", "data-status": row.status, text: statusWord(row.status, row.cause) });
  if (!row.can_requeue) return status;
  const label = fill(words.run.requeueOf, { title: clip(row.title, 40) || words.runs.untitled });
  return el("span", { class: "with-button" }, status, el("button", { class: "button small", type: "button", value: row.id, text: words.run.requeue, "aria-label": label, title: words.run.requeueHelp }));
}

// Each cell is a text, a node, or a number as a text in an array. A row keeps its nodes by its key, the first text of the row by default.
function table(body, rows, keys = rows.map(([first]) => String(first))) {
  const made = (cell) => (cell instanceof Node ? el("td", {}, cell) : el("td", { class: Array.isArray(cell) ? "number" : null, text: String(cell) }));
  morph(body, rows.map((cells, at) => el("tr", { "data-key": keys[at] }, ...cells.map(made))));
}

// Values that a list offers; the chosen one stays.
function offer(select, values) {
  const known = [...new Set([...values, select.value].filter(Boolean))], before = [...select.options].slice(1).map((option) => option.value);
  if (known.join("\n") === before.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(select.options[0], ...known.map((value) => el("option", { value, text: value })));
  select.value = chosen;
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", (event) => {
  limit = STEP;
  clearTimeout(timer);
  if (["q", "label"].includes(event.target.name)) timer = setTimeout(open, TYPING);
  else open();
});
form.addEventListener("reset", () => setTimeout(() => {
  limit = STEP;
  open();
}));
// A hidden page leaves its connection to the other tabs.
document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (document.hidden) source?.close();
  else open();
});
byId("more").addEventListener("click", () => {
  limit = MAX;
  open();
});
byId("fleet-rows").addEventListener("click", async ({ target }) => {
  if (target.tagName !== "BUTTON") return;
  target.disabled = true;
  try {
    await api.requeue(target.value);
  } catch (problem) {
    target.disabled = false;
    banner(problem.message, "warn");
  }
});
byId("periods").addEventListener("click", (event) => {
  if (!event.target.value) return;
  showPeriod(event.target.value);
  note("period", event.target.value);
});

function showPeriod(period) {
  taken.fix(`fleet-${period}`);
  for (const button of byId("periods").children) button.setAttribute("aria-pressed", String(button.value === period));
}

// The runs that ran in the time of a bar, or in one that is selected.
for (const type of ["pick", "range"]) byId("taken").addEventListener(type, ({ detail: { since, until } }) => {
  form.elements.since.value = local(since);
  form.elements.until.value = local(until);
  limit = STEP;
  open();
  byId("rows-title").scrollIntoView();
  byId("fleet-rows").focus({ preventScroll: true });
});
translate(document.body);

class FleetKeys extends Keys {
  get table() {
    return {
      palette: [true, () => this.palette.open()],
      shortcuts: [true, () => this.sheet.open()],
      theme: [true, () => byId("theme").click()],
      conversations: [true, () => location.assign("./")],
      boards: [true, () => location.assign("boards")],
      search: [true, () => form.elements.q.focus()],
      everything: [asked().size > 0, () => byId("reset").click()],
      copyLink: [true, () => copyLink(address())],
    };
  }

  // The commands, then the runs that are listed.
  rows() {
    const runs = answer?.rows ?? [];
    return [...super.rows(), ...runs.map((run) => ({ text: run.title || words.runs.untitled, detail: statusWord(run.status, run.cause), keys: [], act: () => location.assign(runAt(run.id)) }))];
  }
}

const PERIODS = { "fleet-hour": 3_600, "fleet-day": 86_400, "fleet-week": 604_800 }; // seconds
const taken = new DashboardsView(byId("taken"), "all", { fixed: "fleet-hour", span: () => [Date.now() / 1000 - PERIODS[taken.fixed], Date.now() / 1000] });
if ([...byId("periods").children].some(({ value }) => value === noted("period"))) showPeriod(noted("period"));
const dashboards = new DashboardsView(byId("board-panel"), "all", { own: OWN_BOARDS.slice(1), runs: runAt }), share = new ShareDialog();
dashboards.share = (...shown) => share.open(...shown);
const keys = new FleetKeys(FLEET_COMMANDS);
byId("commands").addEventListener("click", () => keys.palette.open());
initTheme();
api.info().then(([info]) => {
  setText(byId("title"), info.title || "rxworker");
  document.title = fill(fleet.tab, { title: info.title || "rxworker" });
}, () => {}); // the connection shows the error
readAddress();
open();
