"""The time of records, as a scheduler."""

from __future__ import annotations

from datetime import datetime

from reactivex.scheduler import HistoricalScheduler


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
            Exception: What an action raised. The clock stands where it was due; call this again for the rest.
        """
        end = self.to_datetime(seconds)
        while self._queue and (item := self._queue.peek()).duetime <= end:
            self._queue.dequeue()
            self._clock = max(item.duetime, self.now)
            if not item.is_cancelled():
                item.invoke()
        self._clock = max(end, self.now)
