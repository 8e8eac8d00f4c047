// The time bar: moves through the past of a run, plays it, and forks it.
//
// On wide screens it is in the panel of the trace, and the axis of its slider is that of the trace. On narrow ones it is below the head of the run, so that it
// is beside the conversation, and its axis is that of the moments, on which waits are short.

import { byId, setData, setText, show } from "./dom.js";
import { seconds } from "../model/format.js";
import { fill, words } from "../model/language.js";

const NARROW = matchMedia("(max-width: 1060px)");
const SHORTEST = 0.15; // seconds: a shorter run takes too little of the axis of the trace
const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };

export class TimeBar {
  // `travel` is moved, `changed` is called after that, `branch(run, seq)` forks a run and returns a promise, and `lanes` is the trace.
  constructor(travel, changed, branch, lanes) {
    this.travel = travel;
    this.lanes = lanes;
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
    NARROW.addEventListener("change", () => this.act(() => this.place()));
    this.place();
  }

  place() {
    const { activeElement } = document, hadFocus = this.node.contains(activeElement);
    if (NARROW.matches) byId("views").before(this.node);
    else this.lanes.axis.before(this.node);
    if (hadFocus) activeElement.focus();
  }

  // The axis of the slider, where it is on it, and the part of the trace's width that it takes: the run may end before the trace's axis does.
  get axis() {
    const { travel, lanes } = this, { moments, past, scene } = travel, end = travel.elapsed;
    if (NARROW.matches || end < SHORTEST) return { isTrace: false, from: 0, to: moments.end || 1, at: past ? travel.position : moments.end || 1, part: 1 };
    const [first, last] = lanes.shown(), from = Math.min(first, end), to = Math.min(last, end);
    return { isTrace: true, from, to, at: past ? scene.timeline.elapsed(travel.now) : end, part: (to - from) / (last - first) };
  }

  act(action) {
    action();
    this.changed();
  }

  drag() {
    const at = Number(this.slider.value);
    this.travel.stop();
    if (this.axis.isTrace) this.travel.seekTime(at);
    else this.travel.seek(at);
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
    const { from, to, at: position, part } = this.axis, played = to > from ? (position - from) / (to - from) : 1;
    if (slider.min !== String(from)) slider.min = from;
    if (slider.max !== String(to)) slider.max = to;
    if (Number(slider.value) !== position) slider.value = position;
    slider.style.setProperty("--played", Math.min(1, Math.max(0, played)).toFixed(4));
    slider.style.setProperty("--part", part.toFixed(4));
    setData(slider, "outside", String(position < from || position > to));
    this.lanes.now(past ? scene.timeline.elapsed(travel.now) : null);
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
