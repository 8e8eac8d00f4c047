"""Three watchers of one run: each its own subscription, its own state, its own pace."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.cli.lanes import Lanes
from rxworker.cli.tally import Tally, step_tally
from rxworker.cli.transcript import Transcript, step_transcript
from rxworker.events import Record
from rxworker.worker import Run

WATCHERS = 3


@dataclass
class Views:
    """What the watchers have come to.

    Attributes:
        transcript: The text. Its watcher subscribes to the records.
        lanes: The timeline. Its watcher is an ``async for`` at its own pace.
        tally: The numbers. Its watcher scans the records.
        seen: How many records each has seen.
    """

    transcript: Transcript = field(default_factory=Transcript)
    lanes: Lanes = field(default_factory=Lanes)
    tally: Tally = field(default_factory=Tally)
    seen: dict[str, int] = field(default_factory=dict[str, int])

    def saw(self, watcher: str) -> None:
        """A watcher has seen one more record."""
        self.seen[watcher] = self.seen.get(watcher, 0) + 1


def watch_text(run: Run, views: Views) -> abc.DisposableBase:
    """Follow the text with a plain subscription: each record is pushed as it comes."""

    def on_next(record: Record) -> None:
        views.transcript = step_transcript(views.transcript, record)
        views.saw("text")

    return run.subscribe(on_next, _ignore)


def watch_usage(run: Run, views: Views) -> abc.DisposableBase:
    """Follow the numbers with an operator: the records, folded by ``scan``."""

    def on_next(tally: Tally) -> None:
        views.tally = tally
        views.saw("usage")

    tallies: Observable[Tally] = run.pipe(ops.scan(step_tally, Tally()))
    return tallies.subscribe(on_next, _ignore)


async def watch_timeline(run: Run, views: Views, pause: float = 0.0) -> None:
    """Follow the timeline with a loop that rests after each record. It falls behind, and holds up nobody.

    Args:
        run: What to follow.
        views: Where to put what it comes to.
        pause: Seconds of rest.
    """
    async for record in run:
        views.lanes.feed(record)
        views.saw("timeline")
        if pause:
            await asyncio.sleep(pause)


def _ignore(_error: Exception) -> None:
    """Whoever awaits the run hears of it."""


__all__ = ["WATCHERS", "Views", "watch_text", "watch_timeline", "watch_usage"]
