// The page of all runs of the log. The server sends everything that is shown after each change, at most once a second.

import * as api from "./net/server.js";
import { address, note, noted } from "./views/address.js";
import { byId, copy, el, setData, setText, show } from "./views/dom.js";
import { DashboardsView } from "./views/dashboards.js";
import { Bars } from "./views/fleet_chart.js";
import { ago, clip, count, money, plural, seconds, short, statusWord } from "./model/format.js";
import { Keys } from "./views/keys.js";
import { FLEET_COMMANDS } from "./model/commands.js";
import { ShareDialog } from "./views/share.js";
import { banner, clearBanner, initTheme } from "./views/shell.js";
import { fill, translate, words } from "./model/language.js";

const STEP = 50, MOST = 200, TYPING = 250;
const form = byId("filter"), FIELDS = ["q", "status", "worker", "tenant", "owner"];
const { fleet } = words;
let source = null, limit = STEP, period = 1, answer = null, timer = null;

const whole = (n) => (Number.isInteger(n) ? short(n) : "");
const bars = {
  tokens: new Bars(byId("fleet-tokens"), [["--input"], ["--accent"]], short),
  ended: new Bars(byId("fleet-ended"), [["--good"], ["--bad"]], whole),
  queued: new Bars(byId("fleet-queued"), [["--warn"]], whole),
};

// The address keeps the filter, so that it can be shared and survives a reload.
function readAddress() {
  for (const name of FIELDS) {
    const field = form.elements[name], value = noted(name) ?? "";
    if (field.tagName === "SELECT" && value) offer(field, [value]);
    field.value = value;
  }
}

function asked() {
  const query = new URLSearchParams();
  for (const name of FIELDS) if (form.elements[name].value) query.set(name, form.elements[name].value);
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
  drawPeriod();
  drawGroups(found);
  drawRows(found);
}

function drawPeriod() {
  if (answer === null) return;
  const taken = answer.periods[period], failed = taken.ended ? `${((100 * taken.failed) / taken.ended).toFixed(1)} %` : "";
  tiles(byId("taken"), [
    [fleet.ended, count(taken.ended)],
    [fleet.failed, count(taken.failed), failed, taken.failed ? "bad" : ""],
    [fleet.tokensRead, short(taken.input_tokens)],
    [fleet.tokensWritten, short(taken.output_tokens)],
    [fleet.cost, costText(taken, ""), taken.is_estimate ? answer.currency : ""],
    [fleet.mostQueued, count(taken.most_queued)],
    [fleet.tools, count(taken.tool_calls), taken.tool_errors ? plural(fleet.toolsFailed, taken.tool_errors) : ""],
    [fleet.toolsP95, taken.tool_p95 === null ? "–" : seconds(taken.tool_p95)],
    [fleet.recoveries, count(taken.recovered), "", taken.recovered ? "warn" : ""],
  ]);
  const isFine = period < 2, width = isFine ? 60 : 3600;
  const points = (isFine ? answer.minutes : answer.hours).filter((point) => point.since > taken.since - width);
  bars.tokens.show(points, ["input_tokens", "output_tokens"], taken.since, answer.time, width);
  bars.ended.show(points, ["ended", "failed"], taken.since, answer.time, width);
  bars.queued.show(points, ["most_queued"], taken.since, answer.time, width);
  setText(byId("tokens-note"), isFine ? fleet.tokensMinute : fleet.tokensHour);
  setText(byId("queued-note"), isFine ? fleet.queuedMinute : fleet.queuedHour);
  setText(byId("ended-note"), isFine ? fleet.endedMinute : fleet.endedHour);
}

// A cost by the prices of the server is an estimate.
function costText({ cost, is_estimate: isEstimate }, currency = answer.currency) {
  if (!cost && !isEstimate) return "–";
  return isEstimate ? fill(words.numbers.about, { text: money(cost, currency) }) : money(cost);
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
  ]));
  table(byId("owners"), owners.map(({ owner, runs }) => [owner, [count(runs)]]));
  setText(byId("groups-note"), groups.length === 0 ? fleet.none : rest(fleet.moreGroups, found.group_count - groups.length));
  setText(byId("owners-note"), owners.length === 0 ? fleet.noProcess : rest(fleet.moreProcesses, found.owner_count - owners.length));
  const named = (name) => [...new Set(groups.map((group) => group[name]).filter(Boolean))].sort();
  offer(form.elements.worker, named("worker"));
  offer(form.elements.tenant, named("tenant"));
  offer(form.elements.owner, owners.map((each) => each.owner));
}

const rest = (text, n) => (n > 0 ? plural(text, n) : "");

function drawRows(found) {
  table(byId("fleet-rows"), found.rows.map((row) => [
    el("a", { href: `./#${encodeURIComponent(row.id)}`, text: clip(row.title, 80) || words.runs.untitled, title: `${row.id}${row.reason ? `: ${row.reason}` : ""}` }),
    statusOf(row),
    row.worker || "–", row.tenant || "–", row.owner || "–", [count(row.turns)], [count(row.tool_calls)],
    [short(row.input_tokens + row.output_tokens)], [costText(row)], ago(row.created, found.time),
  ]));
  setText(byId("rows-note"), found.rows.length === 0 ? (asked().size ? fleet.noMatch : fleet.none) : found.is_more && limit === MOST ? fill(fleet.newest, { n: MOST }) : "");
  show(byId("more"), found.is_more && limit < MOST);
}

function statusOf(row) {
  const status = el("span", { class: "status", "data-status": row.status, text: statusWord(row.status, row.cause) });
  if (!row.can_requeue) return status;
  const label = fill(words.run.requeueOf, { title: clip(row.title, 40) || words.runs.untitled });
  return el("span", { class: "with-button" }, status, el("button", { class: "button small", type: "button", value: row.id, text: words.run.requeue, "aria-label": label, title: words.run.requeueHelp }));
}

// Each cell is a text, a node, or a number as a text in an array. Cells that have not changed are kept, and with them the focus and the selection.
function table(body, rows) {
  while (body.children.length > rows.length) body.lastElementChild.remove();
  rows.forEach((cells, at) => {
    const line = body.children[at] ?? body.appendChild(el("tr"));
    cells.forEach((cell, place) => {
      const node = line.children[place] ?? line.appendChild(el("td", { class: Array.isArray(cell) ? "number" : null }));
      if (!(cell instanceof Node)) setText(node, Array.isArray(cell) ? cell[0] : cell);
      else if (!node.firstChild?.isEqualNode(cell)) node.replaceChildren(cell);
    });
  });
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
  if (event.target.name === "q") timer = setTimeout(open, TYPING);
  else open();
});
form.addEventListener("reset", () => setTimeout(() => {
  limit = STEP;
  open();
}));
byId("more").addEventListener("click", () => {
  limit = MOST;
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
  choosePeriod(Number(event.target.value));
  note("period", String(period));
});
translate(document.body);

async function copyLink() {
  banner((await copy(address())) ? words.commands.linkCopied : words.code.notCopied, "copied");
  setTimeout(() => clearBanner("copied"), 1_600);
}

function choosePeriod(n) {
  period = n;
  for (const button of byId("periods").children) button.setAttribute("aria-pressed", String(Number(button.value) === period));
  drawPeriod();
}

class FleetKeys extends Keys {
  get table() {
    return {
      palette: [true, () => this.palette.open()],
      shortcuts: [true, () => this.sheet.open()],
      theme: [true, () => byId("theme").click()],
      conversations: [true, () => location.assign("./")],
      search: [true, () => form.elements.q.focus()],
      everything: [asked().size > 0, () => byId("reset").click()],
      copyLink: [true, () => copyLink()],
    };
  }

  // The commands, then the runs that are listed.
  rows() {
    const runs = answer?.rows ?? [];
    return [...super.rows(), ...runs.map((run) => ({ text: run.title || words.runs.untitled, detail: statusWord(run.status, run.cause), keys: [], act: () => location.assign(`./#${encodeURIComponent(run.id)}`) }))];
  }
}

const dashboards = new DashboardsView("all"), share = new ShareDialog();
dashboards.share = (...shown) => share.open(...shown);
const keys = new FleetKeys(FLEET_COMMANDS);
byId("commands").addEventListener("click", () => keys.palette.open());
initTheme(() => Object.values(bars).forEach((chart) => chart.recolour()));
api.info().then(([info]) => {
  setText(byId("title"), info.title || "rxworker");
  document.title = fill(fleet.tab, { title: info.title || "rxworker" });
}, () => {}); // the connection shows the error
readAddress();
if ([...byId("periods").children].some(({ value }) => value === noted("period"))) choosePeriod(Number(noted("period")));
open();
