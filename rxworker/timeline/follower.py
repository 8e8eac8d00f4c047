"""What stands in a pipeline for a timeline: shows it the events, and passes them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from reactivex import abc

from rxworker.events import Event
from rxworker.events.deltas import Deltas, rows_of
from rxworker.operators.disposables import NOTHING
from rxworker.operators.stage import Sink, many

E = TypeVar("E", bound=Event)


class Followed(Protocol):
    """What a follower needs of its timeline."""

    def dispatch(self, event: Event) -> None:
        """Show an event to the handlers."""
        ...

    def dispatch_many(self, deltas: Deltas[E]) -> None:
        """Show them several deltas."""
        ...

    def _keep(self, events: Sequence[E]) -> bool:
        """Keep what has come together until somebody looks, if only collectors are there. Whether that was possible."""
        ...

    def abort_current_block(self, reason: str = "") -> None:
        """Close what is open."""
        ...


class Follower(abc.DisposableBase, Generic[E]):
    """One subscription to a stream that a timeline follows: the handlers first, then who is downstream.

    Attributes:
        upstream: The subscription to the source.
    """

    __slots__ = ("_is_over", "_observer", "_push_many", "_timeline", "upstream")

    def __init__(self, timeline: Followed, observer: abc.ObserverBase[E]) -> None:
        self._timeline = timeline
        self._observer = observer
        self._push_many = many(observer)
        self._is_over = False
        self.upstream: abc.DisposableBase = NOTHING

    def sink(self) -> Sink[E]:
        """What to attach to the source."""
        return Sink(self._on_next, self._on_error, self._on_completed, self._on_many)

    def dispose(self) -> None:
        """Let go of the source, and abort what is open."""
        upstream, self.upstream = self.upstream, NOTHING  # which holds this
        upstream.dispose()
        if not self._is_over:
            self._end("the subscription was disposed")

    def _on_next(self, event: E) -> None:
        if self._is_over:
            return
        try:
            self._timeline.dispatch(event)
        except Exception as error:
            self._on_error(error)
            return
        self._observer.on_next(event)

    def _on_many(self, events: Sequence[E]) -> None:
        if self._is_over:
            return
        try:
            is_kept = self._timeline._keep(events)
        except Exception as error:
            self._on_error(error)
            return
        if is_kept:
            self._push_many(events)
            return
        for row in rows_of(events):
            if type(row) is not Deltas:
                self._on_next(row)
            elif not self._is_over:
                try:
                    self._timeline.dispatch_many(row)
                except Exception as error:
                    self._on_error(error)
                    return
                self._push_many(row)

    def _on_error(self, error: Exception) -> None:
        if not self._is_over:
            self._end(str(error))
            self._observer.on_error(error)

    def _on_completed(self) -> None:
        if self._is_over:
            return
        error = self._end("the stream ended")
        if error is None:
            self._observer.on_completed()
        else:
            self._observer.on_error(error)

    def _end(self, reason: str) -> Exception | None:
        """Abort what is open, once; what a handler raises about it."""
        self._is_over = True
        try:
            self._timeline.abort_current_block(reason)
        except Exception as error:
            return error
        return None


__all__ = ["Followed", "Follower"]
