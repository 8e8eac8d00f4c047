"""What stands in a pipeline for a timeline: shows it the events, and passes them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from reactivex import abc

from rxworker.events import Event
from rxworker.events.deltas import Batch, Deltas, rows_of
from rxworker.operators.disposables import NOTHING
from rxworker.operators.stage import Sink, many
from rxworker.timeline.handler import one_of

E = TypeVar("E", bound=Event)


class Followed(Protocol):
    """What a follower needs of its timeline."""

    _only_gathers: bool

    def dispatch(self, event: Event) -> None:
        """Show an event to the handlers."""
        ...

    def dispatch_many(self, deltas: Deltas[E]) -> None:
        """Show them several deltas."""
        ...

    def _gather_rows(self, rows: Sequence[E | Deltas[E]], failures: list[Exception]) -> int:
        """Show them what has come together, where all of them only gather."""
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
        self.upstream.dispose()
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
        if self._timeline._only_gathers:
            self._on_batch(events)
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

    def _on_batch(self, events: Sequence[E]) -> None:
        """The handlers have all that came together before anybody downstream has any of it: those that only gather cannot tell."""
        if self._is_over:
            return
        rows, failures = rows_of(events), list[Exception]()
        handled = self._timeline._gather_rows(rows, failures)
        if not failures:
            self._push_many(events)
            return
        if handled:
            self._push_many(Batch(rows[:handled]))
        self._on_error(one_of(failures))

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
