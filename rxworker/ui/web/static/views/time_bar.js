// The time bar: moves through the past of a run, plays it, and forks it.

import { byId, setData, setText, show } from "./dom.js";
import { seconds } from "../model/format.js";
import { fill, words } from "../model/language.js";

const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };

export class TimeBar {
  // `travel` is moved, `changed` is called after that, and `branch(run, seq)` forks a run and returns a promise.
  constructor(travel, changed, branch) {
    this.travel = travel;
    this.changed = changed;
    this.node = byId("time-bar");
    this.slider = byId("time-slider");
    this.playing = byId("time-play");
    this.live = byId("time-live");
    this.fork = byId("time-fork");
    this.speeds = [...byId("time-speeds").children];
    this.slider.addEventListener("input", () => this.act(() => this.drag()));
    this.slider.addEventListener("keydown", (event) => this.key(event));
    this.playing.addEventListener("click", () => this.act(() => this.toggle()));
    this.live.addEventListener("click", () => this.act(() => travel.leave()));
    this.fork.addEventListener("click", () => this.begin(branch));
    for (const button of this.speeds) button.addEventListener("click", () => this.act(() => (travel.speed = Number(button.value))));
  }

  act(action) {
    action();
    this.changed();
  }

  drag() {
    this.travel.stop();
    this.travel.seek(Number(this.slider.value));
  }

  toggle() {
    if (this.travel.isPlaying) this.travel.stop();
    else this.travel.play(performance.now());
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const by = STEPS[event.key];
    if (by === undefined && event.key !== " ") return;
    event.preventDefault();
    this.act(() => {
      if (by === undefined) return this.toggle();
      this.travel.stop();
      this.travel.step(by);
    });
  }

  // Whether the server can fork a run.
  allow(canFork) {
    show(this.fork, canFork);
  }

  async begin(branch) {
    const { id, seq } = this.travel.place;
    this.fork.disabled = true;
    await branch(id, seq);
    this.fork.disabled = false;
  }

  draw(isBlank, status) {
    const { travel, slider } = this, { moments, scene, past } = travel;
    const isShown = !isBlank && moments.last >= 0;
    show(this.node, isShown);
    if (!isShown) return;
    const position = past ? travel.position : moments.end;
    // A run whose records all have one time has an axis too.
    if (slider.max !== String(moments.end || 1)) slider.max = moments.end || 1;
    if (Number(slider.value) !== position) slider.value = moments.end ? position : 1;
    slider.style.setProperty("--played", moments.end ? (position / moments.end).toFixed(4) : 1);
    const at = seconds(scene.timeline.elapsed(travel.now)), record = fill(words.time.record, scene.run);
    setText(byId("time-at"), at);
    setText(byId("time-record"), record);
    slider.setAttribute("aria-valuetext", fill(past ? words.time.at : words.time.atPresent, { at, record }));
    setData(this.node, "past", String(past !== null));
    setData(this.playing, "playing", String(travel.isPlaying));
    this.playing.setAttribute("aria-label", travel.isPlaying ? words.time.stop : words.time.play);
    for (const button of this.speeds) button.setAttribute("aria-pressed", String(Number(button.value) === travel.speed));
    setText(this.live, status === "running" ? words.time.live : words.time.end);
    this.live.setAttribute("aria-pressed", String(past === null));
  }
}
