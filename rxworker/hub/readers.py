"""The watchers that come for their records themselves: who sleeps until there is more, and whom the source waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from rxworker.hub.history import History
from rxworker.hub.pace import every_of
from rxworker.hub.watcher import Watcher, WatcherState


class Readers:
    """All that read at their own pace.

    Args:
        history: What they read.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._readers: dict[Watcher, None] = {}
        self._pressing: dict[Watcher, int] = {}
        # By pace: those without one are woken by every record.
        self._asleep: dict[float | None, dict[Watcher, asyncio.Future[None]]] = {}
        self._held: list[asyncio.Future[None]] = []
        self._is_over = False

    def __bool__(self) -> bool:
        return bool(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def add(self, reader: Watcher) -> None:
        """It reads from now on."""
        self._readers[reader] = None
        if reader.patience is not None and not self._is_over:
            self._pressing[reader] = reader.patience

    def remove(self, reader: Watcher) -> None:
        """It has left; nobody waits for it any more."""
        self._readers.pop(reader, None)
        self._pressing.pop(reader, None)
        self._asleep.get(every_of(reader.delivery), {}).pop(reader, None)
        self.let_go()

    def sleep(self, reader: Watcher) -> asyncio.Future[None]:
        """Done when there may be more for it."""
        future = asyncio.get_running_loop().create_future()
        self._asleep.setdefault(every_of(reader.delivery), {})[reader] = future
        return future

    def wake(self, every: float | None = None) -> None:
        """There is more for the readers of this pace; by default for those without one."""
        asleep = self._asleep.pop(every, None)
        if asleep:
            _finish(asleep.values())

    def wake_all(self) -> None:
        """Nothing more comes."""
        for every in tuple(self._asleep):
            self.wake(every)

    def hold(self) -> asyncio.Future[None] | None:
        """Done when no reader makes the source wait; ``None`` when none does."""
        if not self.is_full:
            return None
        future = asyncio.get_running_loop().create_future()
        self._held.append(future)
        return future

    def let_go(self) -> None:
        """Let the source go on, if nobody makes it wait any more."""
        if self._held and not self.is_full:
            held, self._held = self._held, []
            _finish(held)

    def end(self) -> None:
        """Nothing more comes: no source has anything to wait for."""
        self._is_over = True
        self._pressing.clear()
        self.let_go()

    @property
    def is_full(self) -> bool:
        """Whether a reader makes the source wait."""
        if not self._pressing:
            return False
        last = self._history.last_seq
        return any(last - reader.seen >= most for reader, most in self._pressing.items())

    def states(self) -> list[WatcherState]:
        """How they stand."""
        last = self._history.last_seq
        return [reader.state(last) for reader in self._readers]


def _finish(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


__all__ = ["Readers"]
