"""What a timeline keeps for its collectors until somebody looks at them.

Theory of operation. A collector does nothing but collect, so it cannot tell whether it is given an event at once or when somebody
asks for what was collected. Often nobody does. So where all handlers of a timeline are collectors, what comes is kept as it came, and given
to them when somebody looks at one of them, when a handler comes or goes, and when too much is kept. A collector that is cleared
wants nothing of what was kept until then; when none of them does, it is dropped unread. Where a response is over, no block goes
on: only there is that safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from threading import RLock
from typing import Any, Protocol

from rxworker.events import BlockStart, BlockStop, BlockType, Event, Status
from rxworker.events.deltas import Deltas, gather, parts_of
from rxworker.events.kinds import BLOCK_EVENTS, MERGEABLE

MOST = 64 * 1024
"""What is kept at most, in characters; few enough that what a collector makes of them is about as much."""

EACH = 64
"""What an event counts, besides its text."""


PLAIN = (BlockType.TEXT, BlockType.THINKING, BlockType.TOOL_USE)


class Over:
    """Stands among the events where a response is over."""


OVER = Over()


class Collecting(Protocol):
    """What is known here of a collector."""

    def drop(self) -> None:
        """Forget what was collected."""
        ...


NONE: frozenset[Collecting] = frozenset()


class Backlog:
    """Events that were not given to the collectors of a timeline yet. For any thread.

    Args:
        lock: The timeline's. Where nothing is kept it is not asked for: handlers may wait for a thread that looks at a collector.

    Attributes:
        give: Gives events, and rows of deltas, to the collectors. Said by the first of them that comes.
        collectors: All handlers of the timeline; none where others are among them, from which nothing may be kept.
    """

    def __init__(self, lock: RLock) -> None:
        self.collectors: AbstractSet[Collecting] = NONE
        self.give: Callable[[Sequence[Any]], None] = _to_nobody
        self._lock = lock
        self._is_giving = False
        self._kept: list[Event | Deltas[Event] | Over] = []
        self._size = 0
        self._cleared: set[Collecting] = set()  # since the last of what is kept came

    def __bool__(self) -> bool:
        return bool(self._kept)

    def keep(self, events: Sequence[Event]) -> None:
        """Keep what has come. Called with the lock."""
        if self._cleared:
            self.catch_up()
        kept, size = self._kept, self._size
        for told in parts_of(events):
            row: Any = told  # everything comes by here
            kind: type[object] = row.__class__
            if kind is Deltas:
                # To join them takes a third of the time that asking each for its length does.
                size += EACH * len(row.texts) + len("".join(row.texts))
            elif kind is BlockStart or kind is BlockStop:
                # An echo may be long where it is more than what the block says.
                size += MOST if row.echo and row.block_type not in PLAIN else EACH
            elif kind in MERGEABLE:
                size += EACH + len(row.text)
            elif kind in BLOCK_EVENTS or kind is Status:
                size += EACH
            else:
                continue  # no collector wants it
            kept.append(row)
        self._size = size
        if size >= MOST:
            self.catch_up()

    def end(self) -> None:
        """Nothing more comes of the blocks that are open. Called with the lock."""
        if not self._kept or self._kept[-1] is not OVER:
            self._kept.append(OVER)

    def catch_up(self) -> None:
        """Give the collectors all that is kept."""
        if not self._kept:
            return
        with self._lock:
            if self._is_giving:
                return  # called by a collector, about what it is being given
            self._is_giving = True
            try:
                self.give(gather(self._kept))
            finally:
                for collector in self._cleared:
                    collector.drop()
                self._cleared.clear()
                self._kept.clear()
                self._size = 0
                self._is_giving = False

    def forget(self, collector: Collecting) -> None:
        """The collector wants nothing of what came so far."""
        if not self._kept:
            return
        with self._lock:
            self._cleared.add(collector)
            if self._kept[-1:] != [OVER]:
                self.catch_up()  # a block may be open, and goes on
            elif self._cleared >= self.collectors:
                del self._kept[:-1]  # it is for nobody any more
                self.catch_up()


def _to_nobody(_: Sequence[Any]) -> None:
    """No collector has come."""


__all__ = ["MOST", "NONE", "OVER", "Backlog", "Collecting"]
