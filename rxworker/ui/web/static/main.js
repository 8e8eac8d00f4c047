// The entry point: creates the parts of the page and connects them.

import * as api from "./net/server.js";
import { Actions } from "./actions.js";
import { addressOf, Commands } from "./commands.js";
import { Composer, Outbox, QueueView } from "./views/composer.js";
import { AllowedView, ApprovalView } from "./views/approval.js";
import { ControlsView } from "./views/controls.js";
import { ConversationView } from "./views/conversation.js";
import { DashboardsView, OWN_BOARDS } from "./views/dashboards.js";
import { note, noted } from "./views/address.js";
import { byId, setText, show } from "./views/dom.js";
import { drawFormulas } from "./views/formula.js";
import { CompareView } from "./views/compare.js";
import { Inspector } from "./views/inspector.js";
import { LanesView } from "./views/lanes.js";
import { WideTrace } from "./views/wide_trace.js";
import { NotesView, WatchersView } from "./views/panels.js";
import { Renderer } from "./render.js";
import { RunsView, WelcomeView } from "./views/runs.js";
import { Connection, isFinal } from "./net/server.js";
import { LinkSocket } from "./net/shared.js";
import { readLink, tokenIn, writeLink } from "./model/link.js";
import { announceText, banner, hasKeyboard, initShell, initTheme, isWide, menu } from "./views/shell.js";
import { SocketHandlers } from "./net/socket_handlers.js";
import { Store } from "./model/store.js";
import { TimeBar } from "./views/time_bar.js";
import { Selection } from "./model/timeline.js";
import { Travel } from "./model/travel.js";
import { translate, words } from "./model/language.js";
import { Workers } from "./model/workers.js";

const OWN = `page-${Math.random().toString(36).slice(2, 5)}`;
const TICK = 200, AGES = 30_000;

const store = new Store(), outbox = new Outbox(), page = { store, outbox };
const actions = new Actions(page), handlers = new SocketHandlers(page);
const token = location.pathname.endsWith("/shared") ? tokenIn(location.hash) ?? "" : null; // of the read-only link that is shown; null on the page itself
const isShared = token !== null;
const connection = new Connection(handlers, { name: OWN, ...(isShared && { makeSocket: () => new LinkSocket(new URL(".", document.baseURI).href, {}, showLink) }) });
const selection = new Selection(store, connection);
const travel = new Travel(store, selection);
const lanes = new LanesView(document.querySelector(".panel.timeline"), (run, thing) => isWide() && actions.reveal(run, thing), (run, thing) => views.inspector.open(travel.scene.timeline, run, thing));
Object.assign(lanes, { whole: () => travel.elapsed, moved: zoomed, wanted: windowIn([noted("from"), noted("to")]) });
const wide = new WideTrace(lanes);
const views = {
  lanes,
  conversation: new ConversationView(document.querySelector(".stream"), (block, added) => renderer.isLive && announceText(added, block.phase !== "open"), isShared ? null : (...message) => actions.edit(...message), (run, item) => addressOf({ run, item }), isShared ? null : { of: (run, number) => store.branches.of(store.known(run)?.conversation, number), open: (...branch) => actions.branch(...branch) }),
  watchers: new WatchersView(OWN), notes: new NotesView(), usage: new DashboardsView(byId("usage-panel"), "run", { fixed: "usage", picked: (time) => visit(views.usage, time) }), dashboards: new DashboardsView(byId("board-panel"), "run", { own: OWN_BOARDS, runs: isShared ? null : (id) => writeLink({ run: id }), picked: (time) => visit(views.dashboards, time) }), runs: new RunsView({ search: api.runs, now: () => store.now(), mark: (...change) => actions.mark(...change), remove: (id) => actions.remove(id) }), welcome: new WelcomeView(),
  approval: new ApprovalView((id, decisions) => actions.decide(id, decisions)), allowed: new AllowedView((conversation, tool) => actions.disallow(conversation, tool)),
  controls: new ControlsView({ pause: () => actions.pause(), cancel: (when) => actions.cancel(when), follow: (id) => actions.select(id), requeue: () => actions.requeue(), rate: (...rating) => actions.rate(...rating) }),
  time: new TimeBar(travel, () => renderer.schedule(), (id, seq) => actions.fork(id, seq), lanes),
  inspector: new Inspector(byId("inspector"), (id) => store.tape(id), (model) => renderer.priceOf(model), showInConversation, isShared ? null : api.request),
  compare: new CompareView({ swap: () => actions.compare(selection.id, selection.otherId), choose: () => commands.run({ id: "compare" }), close: () => actions.select(selection.id) }, () => renderer.schedule()),
  queue: new QueueView((entry) => actions.withdraw(entry)), composer: new Composer((text, worker, when) => actions.submit(text, worker, when)),
};
const workers = new Workers(isShared ? async () => null : api.workerOf, () => renderer.schedule());
const renderer = new Renderer(page, selection, travel, views, workers);
Object.assign(page, {
  selection, renderer, views, actions, workers, canRerun: false,
  follow: (id) => actions.follow(id), showError: (text) => views.composer.showNote(text, "bad"), again: (id) => connection.again(id),
  restarted: loadInfo, probe: () => (isShared ? probeLink() : actions.probe()),
});

// The conversation, which the timeline hides at full width, with a row of it.
function showInConversation(run, thing) {
  wide.leave();
  actions.reveal(run, thing);
}

// A point of a chart of the run leads to its moment.
function visit({ scope }, time) {
  if (scope === "run") views.time.act(() => travel.seekClock(time));
}

// What the read-only link shows: its run, or a dashboard.
function showLink({ title, link, run, currency }, clock) {
  store.set(clock);
  renderer.currency = currency;
  setText(byId("title"), title || "rxworker");
  views.dashboards.restrict(link);
  document.body.dataset.shared = run ? "run" : "board";
  if (!run) for (const [name, value] of [["role", "heading"], ["aria-level", "1"]]) byId("title").setAttribute(name, value); // the first heading of the page
  if (run && readLink(location.hash).run === null) history.replaceState(null, "", writeLink({ run: run.id, token }));
  actions.opened();
}

// A link that was revoked, or has ended, does not come again.
async function probeLink() {
  try {
    await api.linkInfo();
  } catch (problem) {
    if (!isFinal(problem)) return;
    connection.close();
    show(byId("link"), false);
    banner(token === "" ? words.share.missing : problem.message, "lost");
  }
}

// The address has the part of the timeline that is shown, in seconds.
function zoomed() {
  ["from", "to"].forEach((name, n) => note(name, lanes.window === null ? null : lanes.window[n].toFixed(3)));
  renderer.schedule();
}

function windowIn(texts) {
  const [from, to] = texts.map((text) => (text === null ? NaN : Number(text)));
  return from >= 0 && to > from && to < Infinity ? [from, to] : null;
}

async function loadInfo() {
  try {
    const [info, clock] = await api.info();
    store.set(clock);
    setText(byId("title"), info.title || "rxworker");
    workers.set(info.workers);
    renderer.table = new Map(Object.entries(info.prices ?? {}));
    document.body.toggleAttribute("data-watch-only", info.workers.length === 0); // then nothing begins here
    page.canRerun = info.can_rerun === true && info.workers.length > 0;
    views.time.allow(info.can_fork === true && info.workers.length > 0);
    views.controls.canRate = info.can_fork === true;
    show(byId("fleet-link"), info.has_fleet === true);
    views.composer.setWorkers(info.workers);
    views.welcome.setWorkers(info.workers);
    views.runs.setWorkers(info.workers);
    views.runs.setTexts(info.searches_texts !== false);
    renderer.schedule();
  } catch { /* the connection shows the error */ }
}

renderer.arrive = () => actions.arrive();
const commands = new Commands(page);
views.runs.hasKeys = () => commands.hasKeys;
addEventListener("hashchange", () => (isShared && tokenIn(location.hash) !== token ? location.reload() : actions.opened()));
addEventListener("online", () => connection.hurry());
addEventListener("offline", () => connection.drop());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  connection.hurry();
  renderer.schedule();
});
byId("new-run").addEventListener("click", () => {
  actions.select(null);
  actions.opened(); // what is sent next must not reach the run that was selected
  menu(false);
  renderer.frames.finish(); // an approval hides the message box
  byId("composer-input").focus();
});
setInterval(() => {
  if (document.hidden || selection.status !== "running") return;
  if (travel.past === null) views.lanes.tick(store.now());
  renderer.schedule();
}, TICK);
setInterval(() => renderer.list(), AGES);

translate(document.body);
drawFormulas(() => views.conversation.end.follow());
initShell();
initTheme(() => lanes.recolour());
if (isShared) {
  api.useLink(token);
  document.body.dataset.shared = "";
  show(byId("share-note"), true);
} else loadInfo();
actions.opened();
connection.open();
if (hasKeyboard()) views.composer.field.focus();
renderer.schedule();
