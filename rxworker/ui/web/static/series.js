// Numbers over time, bounded: tokens so far, and how much is written in each stretch of time. Pure.

const MOST = 600;

export class Series {
  constructor() {
    this.tokens = []; // [time, usage]: the totals after each snapshot
    this.width = 0.5; // seconds of one bin
    this.bins = []; // characters written in each bin, from `start`
    this.start = null;
    this.last = null;
    this.version = 0;
  }

  begin(time) {
    if (this.start === null) this.start = time;
    this.last = Math.max(this.last ?? time, time);
  }

  total(time, usage) {
    this.begin(time);
    const before = this.tokens[this.tokens.length - 1];
    if (before && before[0] === time) this.tokens.pop();
    this.tokens.push([time, usage]);
    // Every second one goes, but never the last: it is the total.
    if (this.tokens.length > MOST) this.tokens = this.tokens.filter((_, n) => n % 2 === this.tokens.length % 2 || n === this.tokens.length - 1);
    this.version += 1;
  }

  // `size` characters were written from `since` to `time`: each bin gets its part of that.
  wrote(time, size, since = time) {
    const from = Math.min(since, time), to = time;
    this.begin(from);
    this.begin(to);
    while ((to - this.start) / this.width >= MOST) this.halve();
    const first = this.bin(from), end = this.bin(to);
    while (this.bins.length <= end) this.bins.push(0);
    for (let n = first; n <= end; n += 1) this.bins[n] += size * this.share(n, from, to);
    this.version += 1;
  }

  // Which part of a stretch of time lies in a bin.
  share(n, from, to) {
    if (to === from) return 1;
    const begins = this.start + n * this.width;
    return Math.max(0, Math.min(to, begins + this.width) - Math.max(from, begins)) / (to - from);
  }

  bin(time) {
    return Math.max(0, Math.floor((time - this.start) / this.width));
  }

  halve() {
    const wider = [];
    for (let n = 0; n < this.bins.length; n += 2) wider.push(this.bins[n] + (this.bins[n + 1] ?? 0));
    this.bins = wider;
    this.width *= 2;
  }
}
