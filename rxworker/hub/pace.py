"""When the watchers of one ``Coalesce(every=...)`` are given more: what comes in between waits, and is merged.

Theory of operation. All watchers of a run with the same ``every`` share one pace, so that they are given the same records, which are made
and encoded once. The pace is open or closed. New records that come while it is open are released at once, which closes it for ``every``
seconds; what comes meanwhile is released when it opens again. A record that begins or ends something is released at once in either case,
and so is the end of the run. The number up to which records are released is all that the watchers need to know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rxworker.events.deltas import Deltas
from rxworker.events.kinds import DEFERRABLE
from rxworker.hub.delivery import Coalesce, Delivery
from rxworker.hub.history import History

Later: TypeAlias = Callable[[float, Callable[[], None]], Callable[[], object]]
"""Calls a function after so many seconds; what it returns takes that back."""


_DEFERRABLE = DEFERRABLE | {Deltas}


def every_of(delivery: Delivery) -> float | None:
    """Seconds between two deliveries; ``None`` for a delivery without a pace.

    >>> every_of(Coalesce(every=0.5))
    0.5
    """
    return delivery.every if isinstance(delivery, Coalesce) else None


class Pace:
    """The pace of some watchers.

    Args:
        every: Seconds between two releases of what may wait.
        history: The records.
        later: The clock.
        soon: Asks for a flush.

    Attributes:
        released: The number of the last record that may be given.
    """

    def __init__(
        self, every: float, history: History, later: Later, soon: Callable[[], None]
    ) -> None:
        self.released = history.last_seq
        self._every = every
        self._history = history
        self._later = later
        self._soon = soon
        self._seen = self.released
        self._is_open = True
        self._take_back: Callable[[], object] | None = None

    def look(self) -> bool:
        """Release what there is, if it is time. Whether something was released."""
        last = self._history.last_seq
        if last <= self.released or not (self._is_open or self._has_barrier(last)):
            return False
        self.released = self._seen = last
        if self._is_open:
            self._is_open = False
            self._take_back = self._later(self._every, self._open)
        return True

    def close(self) -> None:
        """Nothing more comes."""
        self.released = self._history.last_seq
        if self._take_back is not None:
            self._take_back()

    def _has_barrier(self, last: int) -> bool:
        """Whether something among the records that were not looked at yet may not wait."""
        seen, self._seen = self._seen, last
        entries = self._history.entries(seen)
        return any(entry.event.__class__ not in _DEFERRABLE for entry in entries)

    def _open(self) -> None:
        self._is_open = True
        if self._history.last_seq > self.released:
            self._soon()


__all__ = ["Later", "Pace", "every_of"]
