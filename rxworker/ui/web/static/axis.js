// The axis of time that lanes and charts share: how long it is, and where its marks stand. It grows in steps. Pure.

import { seconds } from "./format.js";

// How long it may be, and into how many parts it is divided.
const SPANS = [
  [0.5, 5], [1, 5], [2, 4], [4, 4], [6, 3], [8, 4], [10, 5], [15, 3], [20, 4], [30, 3], [40, 4], [60, 4], [90, 3], [120, 4], [180, 3], [240, 4], [300, 5],
  [420, 7], [600, 5], [900, 3], [1200, 4], [1800, 3], [2400, 4], [3600, 4],
];

export function spanFor(elapsed) {
  return SPANS.find(([span]) => span >= elapsed) ?? [Math.ceil(elapsed / 3600) * 3600, 4];
}

export function marksOf([span, steps]) {
  return Array.from({ length: steps + 1 }, (_, n) => (span * n) / steps);
}

export const markText = (s) => seconds(s).replace(".0 s", " s").replace(" min 0 s", " min").replace(" h 0 min", " h");
