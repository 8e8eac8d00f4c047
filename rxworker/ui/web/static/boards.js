// The page of a dashboard: its panels over all runs. Its address is boards/NAME, one level below that of the server.

import * as api from "./net/server.js";
import { BoardSource } from "./net/board.js";
import { BOARDS_COMMANDS } from "./model/commands.js";
import { axisOf, beforeOf, isStill, queryOf } from "./model/range.js";
import { plural } from "./model/format.js";
import { fill, locale, translate, words } from "./model/language.js";
import { writeLink } from "./model/link.js";
import { markText } from "./model/timeline.js";
import { address } from "./views/address.js";
import { moment, setMarks } from "./views/chart.js";
import { DashboardsView, OWN_BOARDS } from "./views/dashboards.js";
import { byId, el, setData, setText, show } from "./views/dom.js";
import { Keys } from "./views/keys.js";
import { RangeBar } from "./views/range_bar.js";
import { SavedViews } from "./views/saved_views.js";
import { ShareDialog } from "./views/share.js";
import { banner, clearBanner, copyLink, initTheme } from "./views/shell.js";

api.useServer(new URL("..", location.href).href);
const name = decodeURIComponent(location.pathname.split("/").at(-1));
const MAX_MARKS = 20;
let title = "rxworker", workers = [], hasMarks = false, reach = null;

function state(problem) {
  const word = problem === null || problem.status ? "open" : "lost"; // the server has answered
  setData(byId("link"), "state", word);
  setText(byId("link"), words.link[word]);
  banner(problem === null ? "" : problem.status ? problem.message : words.board.lost, problem === null ? "" : "lost");
}

class Board extends DashboardsView {
  // All dashboards are links that keep what is asked.
  loaded(boards) {
    const found = boards.find((one) => one.name === name);
    byId("board-names").replaceChildren(...boards.filter((one) => one.name === name || !OWN_BOARDS.slice(1).includes(one.name)).map((one) => el("li", {}, el("a", { href: `./${one.name}`, text: one.title, "aria-current": one.name === name ? "page" : null }))));
    byId("board-names").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    linked();
    if (!found) return state({ status: 404, message: fill(words.board.unknownBoard, { name, known: boards.filter((one) => !OWN_BOARDS.slice(1).includes(one.name)).map((one) => one.name).join(", ") }) });
    setText(byId("board-title"), found.title);
    reach = found.reach ?? null;
    if (reach !== null) range.which.options[0].text = fill(words.range.ownOf, { time: markText(reach) });
    noted();
    naming();
    state(null);
  }

  problem(problem) {
    state(problem);
    super.problem(null);
  }

  offer() {
    share.open({ board: name }, fill(words.share.ofAll, { board: byId("board-title").textContent }), byId("board-share"));
  }
}

// The links to the other dashboards keep the time and the filters.
function linked() {
  for (const link of byId("board-names").querySelectorAll("a")) link.search = location.search;
}

// The noted moments of the time that is shown, in the charts and as a list.
async function noted() {
  if (!hasMarks) return;
  const now = Date.now() / 1000, [since, until] = axisOf(range.range, now) ?? [reach && now - reach, null];
  const marks = await api.timeMarks({ since, until }).catch(() => []), list = byId("board-marks");
  setMarks(marks);
  show(list, marks.length > 0);
  list.replaceChildren(...marks.slice(-MAX_MARKS).map(({ time, text, by = "" }) => el("li", { text: [moment(time), text, by].filter(Boolean).join(" · ") })));
}

// The figures of the period before, again each minute.
function compare() {
  const before = range.range.isCompared ? beforeOf(range.range, Date.now() / 1000) : null;
  if (before !== null) return earlier.at(before, null);
  earlier.close();
  board.board.compare(null);
}

function naming() {
  document.title = fill(words.board.tab, { board: byId("board-title").textContent || words.board.title, title });
}

class BoardKeys extends Keys {
  get table() {
    return {
      palette: [true, () => this.palette.open()],
      shortcuts: [true, () => this.sheet.open()],
      theme: [true, () => byId("theme").click()],
      conversations: [true, () => byId("conversations-link").click()],
      fleet: [!byId("fleet-link").hidden, () => byId("fleet-link").click()],
      filter: [true, () => range.value.focus()],
      copyLink: [true, () => copyLink(address())],
    };
  }

  // The commands, then the other dashboards.
  rows() {
    const links = [...byId("board-names").querySelectorAll("a:not([aria-current])")];
    return [...super.rows(), ...links.map((link) => ({ text: link.textContent, detail: words.board.title, keys: [], act: () => link.click() }))];
  }
}

// The runs that made a value, of which one is opened at the moment at which it did.
async function showMakers(panel, group, at = null) {
  const time = at === null ? range.range.time : at + 1e-6, what = group || panel.title; // the times of points are rounded to microseconds
  let found;
  try {
    found = await api.makersOf(name, { ...queryOf(range.range), time, panel: panel.name, group });
  } catch (problem) {
    return state(problem);
  }
  if (found.length === 0) return void banner(words.board.noRuns, "makers");
  clearBanner("makers");
  const row = ({ run, seq, time, title, values }) => ({ text: title || run, detail: fill(words.board.made, { time: new Date(time * 1000).toLocaleString(locale), values: plural(words.board.values, values) }), keys: [], act: () => location.assign(`../${writeLink({ run, seq })}`) });
  keys.palette.open(() => found.map(row), fill(words.board.runsOf, { what }));
}

translate(document.body);
initTheme();
const board = new Board(byId("boards"), "all", { fixed: name, span: () => axisOf(range.range, Date.now() / 1000), runs: (run) => `../${writeLink({ run })}`, makers: showMakers });
const earlier = new BoardSource(api.at(".").href, name, { states: (states) => board.board.compare(states), problem() {} });
const range = new RangeBar(byId("range"), (asked) => {
  board.narrow(queryOf(asked), asked.time, isStill(asked, Date.now() / 1000));
  linked();
  views.draw();
  noted();
  compare();
}, () => workers);
const views = new SavedViews(byId("board-views"), byId("board-save"), name);
range.read();
setInterval(() => document.hidden || compare(), 60_000);
document.addEventListener("visibilitychange", () => document.hidden || noted());
for (const type of ["range", "pick"]) byId("board").addEventListener(type, ({ detail: { since, until } }) => range.narrow(since, until));
const share = new ShareDialog(), keys = new BoardKeys(BOARDS_COMMANDS);
byId("commands").addEventListener("click", () => keys.palette.open());
byId("board-link").addEventListener("click", () => copyLink(address()));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("board").focus();
});
api.info().then(([info]) => {
  title = info.title || "rxworker";
  workers = info.workers.map((worker) => worker.name);
  setText(byId("title"), title);
  hasMarks = info.has_fleet === true; // without a log, and with users, there are none
  show(byId("fleet-link"), hasMarks);
  noted();
  naming();
}, state);
