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
from rxworker.operators.disposables import NOTHING

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
    def due(self) -> float | None:
        """When the next action runs, in seconds since the epoch; ``None`` without one."""
        return self.to_seconds(self._runs_at(self._queue.peek())) if self._queue else None

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
        self._moment = self.now

    def move_to(self, seconds: float) -> None:
        """Run what is due until then, in order, and let it be that time. Time never goes back.

        Args:
            seconds: Seconds since the epoch.
        """
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
                self._grid = (self.now - self._moment) * 2 / AS_DUE
            item.invoke()
        if end > self.now:
            self._clock = end

    def _runs_at(self, item: ScheduledItem) -> datetime:
        due = item.duetime
        if not self._grid or due >= _LAST:
            return due
        return due + (self._moment - due) % self._grid


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
        return self._board._clock  # pyright: ignore[reportReturnType] - as there

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
