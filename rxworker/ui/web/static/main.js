// The page: its parts, and what connects them.

import * as api from "./api.js";
import { hear } from "./announce.js";
import { ApprovalView } from "./approval.js";
import { ChartsView } from "./charts.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { ControlsView } from "./controls.js";
import { ConversationView } from "./conversation.js";
import { Deeds } from "./deeds.js";
import { byId, setText } from "./dom.js";
import { LanesView } from "./lanes.js";
import { News } from "./news.js";
import { NotesView } from "./notes.js";
import { Outbox } from "./outbox.js";
import { Picture } from "./picture.js";
import { QueueView } from "./queue.js";
import { RunsView } from "./runs.js";
import { Selection } from "./selection.js";
import { initShell, menu } from "./shell.js";
import { Store } from "./store.js";
import { initTheme } from "./theme.js";
import { WatchersView } from "./watchers.js";
import { WelcomeView } from "./welcome.js";

const OWN = `page-${Math.random().toString(36).slice(2, 5)}`;
const TICK = 200, AGES = 30_000;

const store = new Store(), outbox = new Outbox(), page = { store, outbox };
const deeds = new Deeds(page), news = new News(page);
const connection = new Connection(news, { name: OWN });
const selection = new Selection(store, connection);
const views = {
  conversation: new ConversationView((block, added) => picture.isNews && hear(added, block.phase !== "open")),
  lanes: new LanesView((run, thing) => deeds.reveal(run, thing)),
  charts: new ChartsView(), watchers: new WatchersView(OWN), notes: new NotesView(), runs: new RunsView(), welcome: new WelcomeView(),
  approval: new ApprovalView((id, decisions) => deeds.decide(id, decisions)),
  controls: new ControlsView({ pause: () => deeds.pause(), cancel: (when) => deeds.cancel(when), follow: (id) => deeds.select(id) }),
  queue: new QueueView(), composer: new Composer((text, worker) => deeds.submit(text, worker)),
};
const picture = new Picture(page, selection, views);
Object.assign(page, {
  selection, picture, views,
  follow: (id) => deeds.follow(id), tell: (text) => views.composer.tell(text, "bad"), again: (id) => connection.again(id),
  restarted: loadInfo, probe: () => deeds.probe(),
});

async function loadInfo() {
  try {
    const [info, clock] = await api.info();
    store.set(clock);
    const prices = new Map(info.workers.map((worker) => [worker.name, worker.prices ?? null]));
    setText(byId("title"), info.title || "rxworker");
    picture.prices = (worker) => prices.get(worker) ?? null;
    views.composer.setWorkers(info.workers);
    views.welcome.setWorkers(info.workers);
    picture.schedule();
  } catch { /* the connection says what is wrong */ }
}

addEventListener("hashchange", () => deeds.opened());
addEventListener("online", () => connection.hurry());
addEventListener("offline", () => connection.drop());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  connection.hurry();
  picture.schedule();
});
byId("new-run").addEventListener("click", () => {
  deeds.select(null);
  menu(false);
  byId("composer-input").focus();
});
setInterval(() => {
  if (document.hidden || selection.status !== "running") return;
  views.lanes.tick(store.now());
  picture.schedule();
}, TICK);
setInterval(() => picture.list(), AGES);

initShell();
initTheme(() => views.charts.recolour());
loadInfo();
deeds.opened();
connection.open();
picture.schedule();
