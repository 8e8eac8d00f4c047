// A scrolling element that stays at its end while it grows, until somebody scrolls back.

const SLACK = 48, EXACT = 2; // pixels

export class End {
  constructor(pane, moved = () => {}) {
    this.pane = pane;
    this.moved = moved; // after it was scrolled
    this.follows = true;
    this.top = 0;
    pane.addEventListener("scroll", () => this.scrolled(), { passive: true });
    // What stands below it may take some of its room.
    new ResizeObserver(() => this.follow()).observe(pane);
  }

  follow() {
    if (!this.follows) return;
    this.pane.scrollTop = this.pane.scrollHeight;
    this.top = this.pane.scrollTop;
  }

  // Only somebody who scrolls back stops following: the browser moves the end by itself when it lays out what it had guessed.
  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.pane;
    const left = scrollHeight - scrollTop - clientHeight;
    if (left < EXACT) this.follows = true;
    else if (scrollTop < this.top - EXACT) this.follows = false;
    else if (left < SLACK) this.follows = true;
    this.top = scrollTop;
    this.moved();
  }
}
