"""The list of runs, told again whenever something in it has changed, but not too often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec
from reactivex import abc
from reactivex.disposable import CompositeDisposable

from rxworker.hub import Latest
from rxworker.protocols import RunList, socket_message
from rxworker.ui.web.entry import LIST_WATCHER, RunEntry

PERIOD = 0.25
"""Seconds between two lists at the least."""


class RunFeed:
    """Tells the list to its listeners. While there are none, nothing is observed and nothing is encoded.

    Args:
        runs: The runs, the newest first.
        is_shy: Whether it must not be counted among a run's watchers, since a run that nobody watches is to end. Of such a run, only
            what its watchers are given is news.
    """

    def __init__(self, runs: Iterable[RunEntry], *, is_shy: bool = False) -> None:
        self._runs = runs
        self._is_shy = is_shy
        self._listeners: dict[object, Callable[[bytes], None]] = {}
        self._observing: dict[str, abc.DisposableBase] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0
        self._closed = False

    def now(self) -> bytes:
        """The list as the message that clients get."""
        return socket_message(RunList([msgspec.Raw(entry.encoded()) for entry in self._runs]))

    @property
    def is_idle(self) -> bool:
        """Whether it has no listeners."""
        return not self._listeners

    def listen(self, key: object, listener: Callable[[bytes], None]) -> None:
        """Tell this listener the list, whenever it changes.

        Args:
            key: What ends it again.
            listener: Is called on the event loop, and must be brief.
        """
        if not self._listeners:
            for entry in self._runs:
                self._observe(entry)
        self._listeners[key] = listener

    def leave(self, key: object) -> None:
        """End what `listen` has begun."""
        if self._listeners.pop(key, None) is not None and not self._listeners:
            self._stop()

    def add(self, entry: RunEntry) -> None:
        """There is another run."""
        if self._listeners:
            self._observe(entry)
        self.changed(entry)

    def changed(self, entry: RunEntry) -> None:
        """Something about a run is other than before."""
        entry.changed()
        self._soon()

    def close(self) -> None:
        """Tell nobody any more."""
        self._closed = True
        self._listeners.clear()
        self._stop()

    def _observe(self, entry: RunEntry) -> None:
        if entry.id in self._observing or not _has_news(entry):
            return

        def on_next(_item: object) -> None:
            self._soon()

        def on_change(_item: object = None) -> None:
            self.changed(entry)

        def on_end(_error: Exception | None = None) -> None:
            self._observing.pop(entry.id, None)
            self.changed(entry)

        observation = self._observing[entry.id] = CompositeDisposable()
        if not self._is_shy:
            gauge = entry.run.watch(Latest(), after=entry.run.last_seq, name=LIST_WATCHER)
            observation.add(gauge.subscribe(on_next, on_change, on_change))
        # Its watchers may still catch up when the run has ended.
        observation.add(entry.run.watchers.subscribe(on_change, on_end, on_end))

    def _soon(self) -> None:
        if self._timer is not None or self._closed or not self._listeners:
            return
        loop = asyncio.get_running_loop()
        wait = max(0.0, self._last + PERIOD - loop.time())
        self._timer = loop.call_later(wait, self._tell)

    def _tell(self) -> None:
        self._timer = None
        self._last = asyncio.get_running_loop().time()
        data = self.now()
        for listener in tuple(self._listeners.values()):
            listener(data)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for observation in tuple(self._observing.values()):
            observation.dispose()
        self._observing.clear()


def _has_news(entry: RunEntry) -> bool:
    """Whether more is to be told of a run: it is on, or somebody still catches up with it."""
    return not entry.run.done() or any(watcher.lag for watcher in entry.run.watchers.now)


__all__ = ["PERIOD", "RunFeed"]
