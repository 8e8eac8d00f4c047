"""The time of records, as a scheduler.

Between two records timers run as they are due, the first `AS_DUE` of them. Then they run on a grid, which gets coarser
with the time since the last record and is at most a five hundredth of it: a week without a record costs a few thousand
calls of a timer, however short its period is. The grid depends on the records and the timers alone, so that what is
folded again shows the same.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache

from reactivex.internal import PriorityQueue
from reactivex.scheduler import HistoricalScheduler
from reactivex.scheduler.scheduleditem import ScheduledItem

from rxworker.errors import ConfigurationError

LATEST = 250e9
"""Seconds since the epoch.

A time after it, which only a wrong clock has, counts as this one, since there is no date for it.
"""
AT_ONCE = 20_000
"""How many actions may be due at one moment: a timer without a period never leaves it."""
AS_DUE = 1000
"""How many actions run between two records until their grid gets coarser, and again until it gets coarser still."""


class RecordClock(HistoricalScheduler):
    """Virtual time that moves with the records.

    A pipeline on it computes the same live, and when its records are folded again later.

    >>> clock = RecordClock()
    >>> _ = clock.schedule_relative(5.0, lambda *_: print("rings"))
    >>> clock.move_to(4.0)
    >>> clock.move_to(6.0)
    rings
    """

    _queue: PriorityQueue[ScheduledItem]

    def __init__(self) -> None:
        super().__init__()
        self._moment: datetime = self.now
        self._grid = timedelta()
        self._runs = 0

    @property
    def now(self) -> datetime:
        """The time. Operators with windows read it for each item: it is not converted again."""
        return self._clock  # pyright: ignore[reportReturnType] - in this class it is not a number

    @property
    def is_waiting(self) -> bool:
        """Whether an action is due at any time."""
        return bool(self._queue.items)

    @property
    def due(self) -> float | None:
        """When the next action runs, in seconds since the epoch; ``None`` without one."""
        return self.to_seconds(self._runs_at(self._queue.peek())) if self._queue else None

    def note(self, seconds: float) -> None:
        """Move to the time of a record, from which timers run as they are due.

        Args:
            seconds: Seconds since the epoch.

        Raises:
            Exception: As for `move_to`.
        """
        self.move_to(seconds)
        if self._runs:
            has_grid = bool(self._grid)
            self._grid, self._runs = timedelta(), 0
            if has_grid:
                self.move_to(seconds)  # what waited for the grid
        self._moment = self.now

    def move_to(self, seconds: float) -> None:
        """Run what is due until then, in order, and let it be that time. Time never goes back.

        Args:
            seconds: Seconds since the epoch.

        Raises:
            ConfigurationError: What is due at a moment has no end.
            Exception: What an action raised. The clock stands where it was due; call this again for the rest.
        """
        end = _moment_of(seconds)
        if not self._queue.items:  # as it mostly is: each panel comes by here with each record
            self._clock = max(end, self.now)
            return
        here = 0
        while self._queue and (at := self._runs_at(item := self._queue.peek())) <= end:
            self._queue.dequeue()
            here = here + 1 if at <= self.now else 0
            self._clock = max(at, self.now)
            if item.is_cancelled():
                continue
            if here > AT_ONCE:
                item.cancel()
                raise ConfigurationError(
                    "a timer of the pipeline is due again at the same moment without end: give it a period above 0"
                )
            self._runs += 1
            if not self._runs % AS_DUE:
                self._grid = (self.now - self._moment) * 2 / AS_DUE
            item.invoke()
        if end > self.now:
            self._clock = end

    def _runs_at(self, item: ScheduledItem) -> datetime:
        due = item.duetime
        if not self._grid or due >= _LAST:
            return due
        return due + (self._moment - due) % self._grid


@lru_cache(maxsize=8)  # all panels move to the time of each record
def _moment_of(seconds: float) -> datetime:
    return HistoricalScheduler.to_datetime(min(max(0.0, seconds), LATEST))  # 0 also for NaN


_LAST = _moment_of(LATEST)
