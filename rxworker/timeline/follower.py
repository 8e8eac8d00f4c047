"""The observer of a timeline in a pipeline: it dispatches the events to the timeline, and emits them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from reactivex import abc

from rxworker.errors import as_exception, reason_of
from rxworker.events import Event
from rxworker.events.deltas import Deltas, Parts
from rxworker.operators.disposables import NOTHING
from rxworker.operators.stage import many

E = TypeVar("E", bound=Event)


class Followed(Protocol):
    """The methods of a timeline that a follower calls."""

    @property
    def only_gathers(self) -> bool:
        """Whether all handlers only gather."""
        ...

    def dispatch(self, event: Event) -> None:
        """Call the handlers with an event."""
        ...

    def dispatch_many(self, parts: Parts[Event]) -> None:
        """Call the handlers with several events."""
        ...

    def abort_current_block(self, reason: str = "") -> None:
        """Abort the open blocks."""
        ...

    def cancel(self, reason: str = "") -> None:
        """Abort the open blocks, and report that the response was cancelled."""
        ...


class Follower(abc.ObserverBase[E], abc.DisposableBase, Generic[E]):
    """One subscription to a stream that a timeline follows: the handlers are called first, then the observer.

    It is also the observer of the stream. One is created for each response.

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

    def dispose(self) -> None:
        """Dispose the source, and abort the open blocks."""
        upstream, self.upstream = self.upstream, NOTHING  # which holds this
        upstream.dispose()
        if not self._is_over:
            interrupt = self._break_off("the subscription was disposed", self._timeline.cancel)
            if interrupt is not None:
                raise interrupt

    def on_next(self, value: E) -> None:
        """Show an event to the handlers, and pass it on."""
        if self._is_over:
            return
        try:
            self._timeline.dispatch(value)
        except BaseException as error:
            self.on_error(as_exception(error))
            return
        self._observer.on_next(value)

    def on_many(self, parts: Parts[E]) -> None:
        """The same for several that arrived together."""
        # What handlers do that only gather shows nowhere else, so downstream may have the events together.
        if self._timeline.only_gathers:
            self._take(parts)
            return
        for part in parts:
            if isinstance(part, Deltas):
                self._take((part,))
            else:
                self.on_next(part)

    def _take(self, parts: Parts[E]) -> None:
        if self._is_over:
            return
        try:
            self._timeline.dispatch_many(parts)
        except BaseException as error:
            self.on_error(as_exception(error))
            return
        self._push_many(parts)

    def on_error(self, error: Exception) -> None:
        """Abort what is open, and pass the error on."""
        if not self._is_over:
            interrupt = self._break_off(reason_of(error))
            self._observer.on_error(error if interrupt is None else as_exception(interrupt))

    def on_completed(self) -> None:
        """Abort what is open, and pass on that the stream is complete."""
        if self._is_over:
            return
        self._is_over = True
        try:
            self._timeline.abort_current_block("the stream ended")
        except BaseException as error:
            self._observer.on_error(as_exception(error))
        else:
            self._observer.on_completed()

    def _break_off(
        self, reason: str, abort: Callable[[str], None] | None = None
    ) -> KeyboardInterrupt | None:
        """Abort what is open. What a handler raises at that is dropped, since the stream fails as it is; but for an interrupt."""
        self._is_over = True
        try:
            (abort or self._timeline.abort_current_block)(reason)
        except KeyboardInterrupt as interrupt:
            return interrupt
        except BaseException:
            return None
        return None
