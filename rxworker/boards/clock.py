"""The time of records, as a scheduler."""

from __future__ import annotations

from datetime import datetime

from reactivex.scheduler import HistoricalScheduler

from rxworker.errors import ConfigurationError

LATEST = 250e9
"""Seconds since the epoch: a time after it, which only a wrong clock has, counts as this one, since there is no date for it."""
AT_ONCE = 20_000
"""How many actions may be due at one moment: a timer without a period never leaves it."""


class RecordClock(HistoricalScheduler):
    """Virtual time that moves with the records: a pipeline on it computes the same live, and when its records are folded again later.

    >>> clock = RecordClock()
    >>> _ = clock.schedule_relative(5.0, lambda *_: print("rings"))
    >>> clock.move_to(4.0)
    >>> clock.move_to(6.0)
    rings
    """

    @property
    def now(self) -> datetime:
        """The time. Operators with windows read it for each item: it is not converted again."""
        return self._clock  # pyright: ignore[reportReturnType] - it is no number in this class

    @property
    def due(self) -> float | None:
        """When the next action is due, in seconds since the epoch; ``None`` without one."""
        return self.to_seconds(self._queue.peek().duetime) if self._queue else None

    def move_to(self, seconds: float) -> None:
        """Run what is due until then, in order, and let it be that time. Time never goes back.

        Args:
            seconds: Seconds since the epoch.

        Raises:
            ConfigurationError: What is due at a moment has no end.
            Exception: What an action raised. The clock stands where it was due; call this again for the rest.
        """
        end = self.to_datetime(min(max(0.0, seconds), LATEST))  # 0 also for NaN
        here = 0
        while self._queue and (item := self._queue.peek()).duetime <= end:
            self._queue.dequeue()
            here = here + 1 if item.duetime <= self.now else 0
            self._clock = max(item.duetime, self.now)
            if item.is_cancelled():
                continue
            if here > AT_ONCE:
                item.cancel()
                raise ConfigurationError(
                    "a timer of the pipeline is due again at the same moment without end: give it a period above 0"
                )
            item.invoke()
        self._clock = max(end, self.now)
