"""The timeline: handlers for the kinds of events, with a scope for each block.

Theory of operation. `Timeline.dispatch` takes one event at a time. A meta event goes to the handlers of its kind at once,
so that it keeps its place between the events of blocks. A block event is looked up by its index: a start opens the block,
a delta without a start opens it too, a stop or an abort is its last event. Blocks of different index know nothing of each
other. What a kind's handlers receive is the kind's own typed events; deltas that do not belong into the block are not
shown to them.

What is guaranteed:

* Handlers of one kind are called in the order of their registration, each with its own scope. A handler sees the abort
  of a block, then its scope is dropped.
* No handler can starve another: all are called, then ``dispatch`` raises what a handler raised; an ``ExceptionGroup``
  where several did.
* Any thread may dispatch. Events are handled one at a time and completely, in the order in which the calls of
  ``dispatch`` got their turn; when the call returns, all handlers have had the event. Nothing is lost, and the events of
  one thread keep their order. A handler must not wait for another thread that dispatches.
* What a handler dispatches itself comes after the event that is being handled, for all handlers.
* A handler that is registered or removed while an event is handled counts from the next event on.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, TypeAlias, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable

from rxworker.events import (
    BlockAbort,
    BlockEvent,
    BlockStart,
    BlockStop,
    Error,
    Event,
    Ping,
    Status,
    Usage,
)
from rxworker.operators import Sink, Stage, connect
from rxworker.operators.group import BLOCK_EVENTS, start_of
from rxworker.timeline.handler import HandlerLike, Registration
from rxworker.timeline.kind import (
    ERROR,
    KIND_OF_BLOCK,
    KIND_OF_META,
    PING,
    STATUS,
    TEXT_BLOCK,
    THINKING_BLOCK,
    TOOL_USE_BLOCK,
    USAGE,
    Kind,
    TextBlockEvent,
    ThinkingBlockEvent,
    ToolUseBlockEvent,
)
from rxworker.timeline.typed import TYPED

E = TypeVar("E", bound=Event)
K = TypeVar("K")
S = TypeVar("S")

_OpenBlock: TypeAlias = tuple[BlockStart, Kind[object] | None]


class Timeline:
    """Calls handlers with the events of a stream, by hand (`dispatch`) or as an operator (``events.pipe(timeline)``).

    >>> from rxworker.events import TextDelta
    >>> timeline = Timeline()
    >>> def write(event: TextBlockEvent) -> None:
    ...     if isinstance(event, TextDelta):
    ...         print(event.text)
    >>> registration = timeline.on_text_block(write)
    >>> timeline.dispatch(TextDelta(0, "hello"))
    hello
    """

    def __init__(self) -> None:
        self._registrations: dict[Kind[object], tuple[Registration, ...]] = {}
        self._open: dict[int, _OpenBlock] = {}
        self._lock = threading.RLock()
        self._queue: deque[Event] = deque()
        self._busy = False

    def on_usage(self, handler: HandlerLike[Usage, S]) -> abc.DisposableBase:
        """Call the handler with every snapshot of the usage. Disposing the result removes it again."""
        return self.on(USAGE, handler)

    def on_ping(self, handler: HandlerLike[Ping, S]) -> abc.DisposableBase:
        """Call the handler with every sign of life."""
        return self.on(PING, handler)

    def on_status(self, handler: HandlerLike[Status, S]) -> abc.DisposableBase:
        """Call the handler when a response starts or ends."""
        return self.on(STATUS, handler)

    def on_error(self, handler: HandlerLike[Error, S]) -> abc.DisposableBase:
        """Call the handler when a response failed."""
        return self.on(ERROR, handler)

    def on_text_block(self, handler: HandlerLike[TextBlockEvent, S]) -> abc.DisposableBase:
        """Call the handler with the events of text blocks, and of tool results, whose text is text too."""
        return self.on(TEXT_BLOCK, handler)

    def on_thinking_block(self, handler: HandlerLike[ThinkingBlockEvent, S]) -> abc.DisposableBase:
        """Call the handler with the events of thinking blocks."""
        return self.on(THINKING_BLOCK, handler)

    def on_tool_use_block(self, handler: HandlerLike[ToolUseBlockEvent, S]) -> abc.DisposableBase:
        """Call the handler with the events of tool calls."""
        return self.on(TOOL_USE_BLOCK, handler)

    def on(self, kind: Kind[K], handler: HandlerLike[K, S]) -> abc.DisposableBase:
        """Register a handler behind those that are there.

        Args:
            kind: Which events.
            handler: A `Handler`, or a function that takes the event.

        Returns:
            What removes the handler and its scopes when it is disposed.
        """
        registration = Registration(handler)
        if not kind.deltas:
            registration.open(None)  # a meta kind: its one scope lives from now on

        def remove() -> None:
            with self._lock:
                others = self._registrations[kind]
                self._registrations[kind] = tuple(r for r in others if r is not registration)

        with self._lock:
            self._registrations[kind] = (*self._registrations.get(kind, ()), registration)
        return Disposable(remove)

    def dispatch(self, event: Event) -> None:
        """Call the handlers that the event concerns. Events of turns concern none.

        Raises:
            Exception: What a handler raised, after all handlers were called.
        """
        with self._lock:
            self._queue.append(event)
            self._drain()

    def abort_current_block(self, reason: str = "") -> None:
        """Send a `BlockAbort` to the handlers of every open block, in the order in which they opened, and close it."""
        with self._lock:
            for start, _ in self._open.values():
                self._queue.append(BlockAbort(start.index, start.block_type, reason))
            self._drain()

    def __call__(self, source: Observable[E]) -> Observable[E]:
        """The events of the source, each after the handlers have had it.

            -s-d-d-e-u-|           handlers are called in each column
            [ timeline ]
            -s-d-d-e-u-|

        A handler that raises ends the stream with its exception. Whatever ends it, blocks that are still open are aborted
        for the handlers. A timeline follows one response at a time.
        """

        def subscribe(
            observer: abc.ObserverBase[E], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            push = observer.on_next
            dispatch = self.dispatch
            over = False

            def end(reason: str) -> Exception | None:
                """Abort what is open, once; what a handler raises about it."""
                nonlocal over
                over = True
                try:
                    self.abort_current_block(reason)
                except Exception as error:
                    return error
                return None

            def on_next(event: E) -> None:
                if over:
                    return
                try:
                    dispatch(event)
                except Exception as error:
                    end(str(error))
                    observer.on_error(error)
                    return
                push(event)

            def on_error(error: Exception) -> None:
                if not over:
                    end(str(error))
                    observer.on_error(error)

            def on_completed() -> None:
                if over:
                    return
                error = end("the stream ended")
                if error is None:
                    observer.on_completed()
                else:
                    observer.on_error(error)

            def dispose() -> None:
                if not over:
                    end("the subscription was disposed")

            sink = Sink(on_next, on_error, on_completed)
            return CompositeDisposable(connect(source, sink, scheduler), Disposable(dispose))

        return Stage(subscribe)

    def _drain(self) -> None:
        """Handle what waits. Called with the lock, by whoever put something there."""
        if self._busy:
            return  # called by a handler: the loop below goes on
        self._busy = True
        failures: list[Exception] = []
        try:
            while self._queue:
                self._handle(self._queue.popleft(), failures)
        finally:
            self._busy = False
        if len(failures) > 1:
            raise ExceptionGroup("several handlers failed", failures)
        if failures:
            raise failures[0]

    def _handle(self, event: Any, failures: list[Exception]) -> None:
        kind_of_event: type[object] = event.__class__
        if kind_of_event in BLOCK_EVENTS:
            self._handle_block(event, kind_of_event, failures)
            return
        kind = KIND_OF_META.get(kind_of_event)
        if kind is not None:
            self._deliver(kind, None, event, failures)

    def _handle_block(
        self, event: Any, kind_of_event: type[object], failures: list[Exception]
    ) -> None:
        index: int = event.index
        block = self._open.get(index)
        if block is None or kind_of_event is BlockStart:
            block = self._open_block(event, index)
        start, kind = block
        if kind is not None:
            if kind_of_event in kind.deltas:
                self._deliver(kind, index, event, failures)
            elif kind_of_event in TYPED:
                self._deliver(kind, index, TYPED[kind_of_event](kind, start, event), failures)
        if kind_of_event is BlockStop or kind_of_event is BlockAbort:
            self._open.pop(index, None)
            self._close(index)

    def _open_block(self, event: BlockEvent, index: int) -> _OpenBlock:
        self._close(index)  # the scopes of a block that was left open under this index
        start = start_of(event)
        block = self._open[index] = start, KIND_OF_BLOCK.get(start.block_type)
        return block

    def _deliver(
        self, kind: Kind[object], key: int | None, event: Any, failures: list[Exception]
    ) -> None:
        for registration in self._registrations.get(kind, ()):
            try:
                registration.deliver(key, event)
            except Exception as error:
                failures.append(error)

    def _close(self, index: int) -> None:
        for registrations in self._registrations.values():
            for registration in registrations:
                registration.close(index)


__all__ = ["Timeline"]
