"""The timeline: handlers for the kinds of events, with a scope for each block.

A timeline is a source of events, whose handlers get them through `split_meta` and `group_blocks`. `EventSource` has the
order of events, and what begins and ends a response; `Handlers` has the scopes. Here is who is registered.

What is guaranteed:

* Handlers of one kind are called in the order of their registration, each with its own scope. A handler sees the abort
  of a block, then its scope is dropped.
* No handler can starve another: all are called, then ``dispatch`` raises what a handler raised; an ``ExceptionGroup``
  where several did, and ``KeyboardInterrupt`` as it is.
* Any thread may dispatch. Events are handled one at a time and completely, in the order in which the calls of
  ``dispatch`` got their turn; when the call returns, all handlers have had the event. Nothing is lost, and the events
  of one thread keep their order. A handler must not wait for another thread that dispatches.
* When a response begins anew, or is requested again, its open blocks are aborted and handlers with a method
  ``on_retract`` are called: what they made of its blocks does not count any more.
* What a handler dispatches itself comes after the event that is being handled, for all handlers.
* A handler that is registered or removed while an event is handled counts from the next event on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakMethod, ref

from reactivex import Observable, abc

from rxworker.errors import ConfigurationError, as_exception, reason_of
from rxworker.events import Error, Event, Ping, Status, Usage
from rxworker.events.kinds import Deltas, Parts
from rxworker.operators.expect import expect_events
from rxworker.operators.kernel import NOTHING, Stage, connect, many
from rxworker.timeline.kind import (
    ERROR,
    KINDS,
    PING,
    RETRACT,
    STATUS,
    TEXT_BLOCK,
    THINKING_BLOCK,
    TOOL_USE_BLOCK,
    USAGE,
    HandlerLike,
    Kind,
    Registration,
    TextBlockEvent,
    ThinkingBlockEvent,
    ToolUseBlockEvent,
)
from rxworker.timeline.source import EventSource
from rxworker.watchdog import watchdog

E = TypeVar("E", bound=Event)
K = TypeVar("K")
S = TypeVar("S")


class Timeline(EventSource):
    """Calls handlers with the events of a stream, by hand (`dispatch`) or as an operator (``events.pipe(timeline)``).

    Args:
        ends_with_stream: Whether a response ends only with its stream. By default it ends when it has completed, and
            later events belong to another response.

    Attributes:
        only_gathers: Whether all handlers only gather, so that nothing shows when each of them is called.

    >>> from rxworker.events import TextDelta
    >>> timeline = Timeline()
    >>> def write(event: TextBlockEvent) -> None:
    ...     if isinstance(event, TextDelta):
    ...         print(event.text)
    >>> registration = timeline.on_text_block(write)
    >>> timeline.dispatch(TextDelta(0, "hello"))
    hello
    """

    def __init__(self, *, ends_with_stream: bool = False) -> None:
        super().__init__(ends_with_stream=ends_with_stream)
        self.only_gathers = True
        self._refs: set[ref[Timeline]] = set()  # to its children

    @property
    def names(self) -> str:
        """The names of the handlers, each once."""
        return ", ".join(dict.fromkeys(registration.name for registration in self._handlers.all()))

    def child(self) -> Timeline:
        """A timeline with the handlers of this one and scopes of its own, for a stream that runs at the same time.

        A handler that is registered with this one later, or removed from it, is registered with the child or removed
        from it, too. A handler that is registered with the child concerns the child alone.

        >>> from rxworker.events import Usage
        >>> timeline = Timeline()
        >>> class Count:
        ...     def scope(self) -> list[Usage]:
        ...         return []
        ...     def on_event(self, scope: list[Usage], event: Usage) -> None:
        ...         scope.append(event)
        ...         print(len(scope))
        >>> registration = timeline.on_usage(Count())
        >>> timeline.child().dispatch(Usage(1)); timeline.child().dispatch(Usage(2))
        1
        1
        """
        child = Timeline(ends_with_stream=self._ends_with_stream)
        with self._lock:
            for row in self._handlers.rows.values():
                for _, _, registration in row:
                    child._take(registration)
            self._refs.add(ref(child, self._refs.discard))
        return child

    def _children(self) -> list[Timeline]:
        return [child for each in (*self._refs,) if (child := each())]

    def on_usage(self, handler: HandlerLike[Usage, S]) -> abc.DisposableBase:
        """Call the handler with every snapshot of the usage. Disposing the result removes it again."""
        return self.on(USAGE, handler)

    def on_ping(self, handler: HandlerLike[Ping, S]) -> abc.DisposableBase:
        """Call the handler with every ping."""
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

    def on_retract(self, handler: HandlerLike[str, S]) -> abc.DisposableBase:
        """Call the handler with the reason when the response is retracted, after the aborts of its open blocks.

        A handler object that is registered for a kind is called too, if it has a method ``on_retract(reason)``: what it
        made of the blocks of the response so far does not count any more. Another attempt follows.
        """
        return self._add(RETRACT, handler)

    def on(self, kind: Kind[K], handler: HandlerLike[K, S]) -> abc.DisposableBase:
        """Register a handler after those that are there.

        Args:
            kind: Which events.
            handler: A `Handler`, or a function that takes the event.

        Returns:
            What removes the handler and its scopes when it is disposed.

        Raises:
            ConfigurationError: The kind is none of the seven, or the handler is neither.
        """
        if kind not in KINDS:
            names = ", ".join(known.name for known in KINDS)
            raise ConfigurationError(f"{kind!r} is not a kind of a timeline; the kinds are: {names}")
        return self._add(kind, handler)

    def _add(self, kind: Kind[K], handler: HandlerLike[K, S]) -> abc.DisposableBase:
        registration = Registration(kind, handler, WeakMethod(self._remove))
        self._take(registration)
        return registration

    def _take(self, registration: Registration) -> None:
        # The one scope of a meta kind lives from now on.
        scope = None if registration.kind.deltas else registration.scope()
        with self._lock:
            self._drain(0)  # what has waited is not for this one
            self._handlers.add(registration, scope)
            self.only_gathers = self.only_gathers and registration.gather is not None
            children = self._children()
        for child in children:
            child._take(registration)

    def __call__(self, source: Observable[E]) -> Observable[E]:
        """The events of the source, each after the handlers have had it.

            -s-d-d-e-u-|           handlers are called in each column
            [ timeline ]
            -s-d-d-e-u-|

        A handler that raises ends the stream with its exception. Whatever ends it, blocks that are still open are
        aborted for the handlers. When the subscription is disposed before the response has ended, the handlers of its
        status get ``Status(CANCELLED)``. A timeline follows one response at a time.
        """
        expect_events(source, "timeline")

        def subscribe(observer: abc.ObserverBase[E], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            follower = _Follower(self, observer)
            follower.upstream = connect(source, follower, scheduler)
            return follower

        return Stage(subscribe)

    def _remove(self, registration: Registration) -> None:
        with self._lock:
            self._handlers.remove(registration)
            self.only_gathers = all(r.gather is not None for r in self._handlers.all())
            children = self._children()
        for child in children:
            child._remove(registration)


class _Follower(abc.ObserverBase[E], abc.DisposableBase, Generic[E]):
    """One subscription to a stream that a timeline follows: the handlers are called first, then the observer.

    It is also the observer of the stream.
    """

    __slots__ = ("_is_over", "_observer", "_push_many", "_timeline", "upstream")

    def __init__(self, timeline: Timeline, observer: abc.ObserverBase[E]) -> None:
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
        begun = watchdog.clock() - watchdog.reported
        try:
            self._timeline.dispatch(value)
        except BaseException as error:
            self.on_error(as_exception(error))
            return
        if watchdog.clock() - watchdog.reported - begun > watchdog.limit:
            watchdog.end(begun, "callback", self._timeline.names)
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
        begun = watchdog.clock() - watchdog.reported
        try:
            self._timeline.dispatch_many(parts)
        except BaseException as error:
            self.on_error(as_exception(error))
            return
        if watchdog.clock() - watchdog.reported - begun > watchdog.limit:
            watchdog.end(begun, "callback", self._timeline.names)
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

    def _break_off(self, reason: str, abort: Callable[[str], None] | None = None) -> KeyboardInterrupt | None:
        """Abort what is open.

        What a handler raises at that is dropped, since the stream fails as it is; but for an interrupt.
        """
        self._is_over = True
        try:
            (abort or self._timeline.abort_current_block)(reason)
        except KeyboardInterrupt as interrupt:
            return interrupt
        except BaseException:
            return None
        return None
