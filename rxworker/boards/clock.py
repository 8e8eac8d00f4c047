"""The time of records, as a scheduler.

Between two records timers run as they are due, the first `AS_DUE` of them. Then they run on a grid, which gets coarser
with the time since the last record and is at most a five hundredth of it: a week without a record costs a few thousand
calls of a timer, however short its period is. The grid depends on the records and the timers alone, so that what is
folded again shows the same.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from reactivex import abc
from reactivex.internal import PriorityQueue
from reactivex.scheduler import HistoricalScheduler
from reactivex.scheduler.scheduleditem import ScheduledItem

from rxworker.errors import ConfigurationError
from rxworker.events import Record
from rxworker.operators.kernel import NOTHING

Action: TypeAlias = Callable[[abc.SchedulerBase, Any], abc.DisposableBase | None]

LATEST = 250e9
"""Seconds since the epoch.

A time after it, which only a wrong clock has, counts as this one, since there is no date for it.
"""
AT_ONCE = 20_000
"""How many actions may be due at one moment: a timer without a period never leaves it."""
AS_DUE = 1000
"""How many actions of all panels run between two records until their grid gets coarser, and coarser still."""


class RecordClock(HistoricalScheduler):
    """Virtual time that moves with the records, of all panels of a board.

    A pipeline on it computes the same live, and when its records are folded again later. The pipelines of a panel have
    it as a `PanelClock`.

    Attributes:
        at: The time, in seconds since the epoch, as the last record has it.
        record: The record that is taken; ``None`` while a timer runs.
        waiting: The timers that have not run.

    >>> clock = RecordClock()
    >>> _ = clock.schedule_relative(5.0, lambda *_: print("rings"))
    >>> clock.move_to(4.0)
    >>> clock.move_to(6.0)
    rings
    """

    _queue: PriorityQueue[ScheduledItem]

    def __init__(self) -> None:
        self.at = 0.0
        self.record: Record | None = None
        self._seconds: float | None = 0.0
        self._date: datetime | None = None
        super().__init__()
        self._moment = 0.0
        self._grid = timedelta()
        self._runs = 0
        self.waiting = self._queue.items
        self._next: ScheduledItem | None = None
        self._next_due = 0.0

    @property
    def seconds(self) -> float:
        """The time in seconds since the epoch, in steps as a date has them: made when it is read, as the date."""
        if self._seconds is None:
            self._seconds = round(self.at, 6)
        return self._seconds

    @property
    def now(self) -> datetime:
        """The time. Operators with windows read it for each item: it is not converted again."""
        if self._date is None:
            self._date = _moment_of(self.seconds)
        return self._date

    def _set(self, date: datetime) -> None:
        self._date = date
        self.at = self._seconds = self.to_seconds(date)

    _clock = property(lambda self: self.now, _set)  # pyright: ignore[reportAssignmentType] - made when it is read

    @property
    def due(self) -> float | None:
        """When the next action runs, in seconds since the epoch; ``None`` without one."""
        return self.to_seconds(self._runs_at(self._queue.peek())) if self._queue else None

    @property
    def timers(self) -> int:
        """How many actions are to run."""
        return len(self._queue.items)

    def has_due(self, seconds: float) -> bool:
        """Whether an action runs until then."""
        items = self._queue.items
        return bool(items) and seconds >= self._due_of(items[0][0])

    def note(self, seconds: float) -> None:
        """Move to the time of a record, from which timers run as they are due.

        Args:
            seconds: Seconds since the epoch.

        """
        self.move_to(seconds)
        self._runs = 0
        if self._grid:
            self._grid = timedelta()
            self.move_to(seconds)  # what waited for the grid
        self._moment = self.at

    def move_to(self, seconds: float) -> None:
        """Run what is due until then, in order, and let it be that time. Time never goes back.

        Args:
            seconds: Seconds since the epoch.
        """
        if not self._grid and (not (items := self._queue.items) or seconds < self._due_of(items[0][0])):
            if self.at < seconds < LATEST:  # nothing is due, as for nearly every record
                self.at, self._seconds, self._date = seconds, None, None
            return
        end = _moment_of(seconds)
        here = 0
        while self._queue and (at := self._runs_at(item := self._queue.peek())) <= end:
            self._queue.dequeue()
            here = here + 1 if at <= self.now else 0
            self._clock = max(at, self.now)
            if item.is_cancelled():
                continue
            if here > AT_ONCE:  # of so many timers, nearly all are of the panel that has no end
                here, item.action = 0, _without_end
            self._runs += 1
            if not self._runs % AS_DUE:
                self._grid = (self.now - _moment_of(self._moment)) * 2 / AS_DUE
            item.invoke()
        if end > self.now:
            self._clock = end

    def _due_of(self, item: ScheduledItem) -> float:
        if item is not self._next:
            self._next, self._next_due = item, self.to_seconds(item.duetime)
        return self._next_due

    def _runs_at(self, item: ScheduledItem) -> datetime:
        due = item.duetime
        if not self._grid or due >= _LAST:
            return due
        return due + (_moment_of(self._moment) - due) % self._grid


class PanelClock(HistoricalScheduler):
    """The clock of a board as the pipelines of a panel have it: it calls their timers through a function of the panel.

    Args:
        board: The clock of the board.
        run: Calls a timer, and takes what it raises.
    """

    def __init__(
        self, board: RecordClock, run: Callable[[Action, abc.SchedulerBase, Any], abc.DisposableBase | None]
    ) -> None:
        # Not the base's, for the lock and the queue are those of the board.
        self._board, self._run = board, run
        self._lock, self._queue = board._lock, board._queue

    @property
    def now(self) -> datetime:
        """The time of the board."""
        return self._board.now

    _clock = now  # pyright: ignore[reportAssignmentType] - in this class it is not set

    def invoke_action(self, action: Action, state: Any = None) -> abc.DisposableBase:
        """Call a timer."""
        return self._run(action, self, state) or NOTHING


def _without_end(*_: object) -> None:
    message = "a timer of the pipeline is due again at the same moment without end: give it a period above 0"
    raise ConfigurationError(message)


def _moment_of(seconds: float) -> datetime:
    return HistoricalScheduler.to_datetime(min(max(0.0, seconds), LATEST))  # 0 also for NaN


_LAST = _moment_of(LATEST)
