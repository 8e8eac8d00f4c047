"""The timeline: handlers for the kinds of events, with a scope for each block.

Theory of operation. `Timeline.dispatch` takes one event at a time. A meta event goes to the handlers of its kind at
once, so that it keeps its place between the events of blocks. A block event is looked up by its index: a start opens
the block, a delta without a start opens it too, a stop or an abort is its last event (`OpenBlocks` has the rule).
Blocks of different index know nothing of each other. What a kind's handlers receive is the kind's own typed events;
deltas that do not belong into the block are not shown to them. Events that come together while there is no handler
only wait: the first handler needs to know what is open, and most responses end without one.

It means ``split_meta`` of the handlers of meta events, and of ``group_blocks`` and ``scan_scope`` for each handler of
blocks; a property holds the two equal. Three differences are on purpose. The operators have the events of the stream,
foreign deltas and blocks of every type included, instead of a kind's own. A stream that ends completes its open blocks
there, and aborts them here. What an operator has emitted of a response that is retracted later stays emitted
(`committed` before it waits until nothing can be retracted), while ``on_retract`` calls the handlers.

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

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakMethod, ref

from msgspec import Struct
from reactivex import Observable, abc

from rxworker.errors import ConfigurationError, as_exception, reason_of
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    Error,
    Event,
    Ping,
    ResponseStatus,
    Status,
    Usage,
)
from rxworker.events.deltas import Deltas, Parts
from rxworker.events.kinds import BLOCK_EVENTS, BLOCK_TYPE_OF, META_EVENTS, start_of
from rxworker.operators.disposables import NOTHING
from rxworker.operators.expect import EVENTS, expect_events, no_event
from rxworker.operators.kernel import Stage, connect, many
from rxworker.state.open_blocks import BEGUN_ANEW, BORDERS, OpenBlocks
from rxworker.timeline.handler import HandlerLike, Registration, raise_all
from rxworker.timeline.kind import (
    ERROR,
    KIND_OF_BLOCK,
    KIND_OF_META,
    KINDS,
    PING,
    STATUS,
    TEXT_BLOCK,
    THINKING_BLOCK,
    TOOL_USE_BLOCK,
    TYPED,
    USAGE,
    Kind,
    TextBlockEvent,
    ThinkingBlockEvent,
    ToolUseBlockEvent,
)

E = TypeVar("E", bound=Event)
K = TypeVar("K")
S = TypeVar("S")

_Scopes: TypeAlias = dict[Registration, Any]


RETRACT: Kind[str] = Kind("retract")
FOLLOWED = BLOCK_EVENTS | BORDERS
OF_A_RESPONSE: frozenset[type[object]] = BLOCK_EVENTS | META_EVENTS | {Deltas}


TAKEN = EVENTS | {Deltas}
KEPT = 512
"""How many events wait while there is no handler."""


class _Over(Struct, frozen=True):
    """The end of a response in the queue of events, and the reason for the blocks that are open then."""

    reason: str


_Queued: TypeAlias = Event | Deltas[Any] | _Over


class _OpenBlock:
    """A block from its first event to its last."""

    __slots__ = ("kind", "scopes", "start")

    def __init__(self, start: BlockStart) -> None:
        self.start = start
        self.kind = KIND_OF_BLOCK.get(start.block_type)
        self.scopes: _Scopes = {}


class Timeline:
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
        self._ends_with_stream = ends_with_stream
        self._registrations: dict[Kind[object] | None, tuple[Registration, ...]] = {}
        self._open: OpenBlocks[_OpenBlock] = OpenBlocks()
        self._meta_scopes: _Scopes = {}
        self._lock = threading.RLock()
        self._queue: deque[_Queued] = deque()
        self.only_gathers = True
        self._busy = self._is_receiving = self._has_started = False
        self._is_between = True  # before a response, or between two
        self._refs: set[ref[Timeline]] = set()  # to its children

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
            for row in self._registrations.values():
                for registration in row:
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
        kind = registration.kind
        if not kind.deltas:  # a meta kind: its one scope lives from now on
            self._meta_scopes[registration] = registration.scope()
        with self._lock:
            self._drain()  # what has waited is not for this one
            self._registrations[kind] = (*self._registrations.get(kind, ()), registration)
            self.only_gathers = self.only_gathers and registration.gather is not None
            children = self._children()
        for child in children:
            child._take(registration)

    def dispatch(self, event: Event) -> None:
        """Call the handlers that the event concerns.

        Of the events of turns two concern them: `AttemptRetract`, which is what `retract` dispatches, and
        `AttemptStart`, which aborts what is open.

        Raises:
            Exception: What a handler raised, after all handlers were called.
            ConfigurationError: It is not an event; the event of a `Record` is its ``event``.
        """
        kind: type[object] = event.__class__
        if kind not in EVENTS:
            raise no_event("timeline", event)
        if not (self._busy or self._queue):  # no handler can come before its turn
            if kind in BLOCK_TYPE_OF:
                delta: Any = event
                block = self._open.get(delta.index)
                if not (block is None or self._is_between or self._registrations.get(block.kind)):
                    return
            elif kind not in FOLLOWED and not self._registrations.get(KIND_OF_META.get(kind)):
                return
        with self._lock:
            self._queue.append(event)
            self._drain()

    def dispatch_many(self, parts: Parts[Event]) -> None:
        """The same as `dispatch` for each event of these.

        Raises:
            Exception: What a handler raised, after all handlers were called with all of them.
            ConfigurationError: One of them is not an event; no handler is called.
        """
        if not TAKEN.issuperset(map(type, parts)):
            raise no_event("timeline", next(part for part in parts if type(part) not in TAKEN))
        with self._lock:
            self._queue.extend(parts)
            if self._registrations or len(self._queue) > KEPT:
                self._drain()

    def abort_current_block(self, reason: str = "") -> None:
        """Send a `BlockAbort` to the handlers of every open block, in the order in which they opened, and close it."""
        with self._lock:
            if not self._registrations:
                self._queue.clear()  # of this response, which no handler has seen
            self._queue.append(_Over(reason))
            if self._registrations:
                self._drain()

    def retract(self, reason: str = "") -> None:
        """Report that the response is retracted, since it is requested again.

        Open blocks are aborted. Then each handler with a method ``on_retract`` is called: the collectors drop the items
        of the response.

        Args:
            reason: Shown to users; not interpreted.

        Raises:
            Exception: What a handler raised, after all handlers were called.
        """
        self.dispatch(AttemptRetract(reason))

    def cancel(self, reason: str = "") -> None:
        """Abort every open block, and send ``Status(CANCELLED)`` to the handlers if the response has not ended.

        Args:
            reason: The reason in the aborts.
        """
        is_receiving = self._is_receiving
        try:
            self.abort_current_block(reason)
        finally:
            if is_receiving:
                self.dispatch(Status(ResponseStatus.CANCELLED))

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
            kind = registration.kind
            others = tuple(r for r in self._registrations.get(kind, ()) if r is not registration)
            self._registrations[kind] = others
            self.only_gathers = all(r.gather is not None for r in self._all())
            # The scopes of blocks go with their blocks. A copy: an event that is being handled is still for this
            # handler.
            scopes = self._meta_scopes
            self._meta_scopes = {r: scopes[r] for r in scopes if r is not registration}
            children = self._children()
        for child in children:
            child._remove(registration)

    def _gather(self, deltas: Deltas[Any], failures: list[BaseException]) -> bool:
        """Give them to the handlers together, if all of these only gather. Whether that was possible."""
        block = self._open.get(deltas.like.index)
        if block is None:
            return False
        kind = block.kind
        if kind is None or deltas.like.__class__ not in kind.deltas:
            return True  # no handler takes them
        if registrations := self._registrations.get(kind):
            for registration in registrations:
                if registration.gather is None:
                    return False
            _deliver(registrations, block.scopes, deltas, failures)
        return True

    def _drain(self) -> None:
        """Handle the queue. Called with the lock, after an event was queued."""
        if self._busy:
            return  # called by a handler: the loop below goes on
        self._busy = True
        failures: list[BaseException] = []
        try:
            while self._queue:
                self._handle(self._queue.popleft(), failures)
        finally:
            self._busy = False
        if failures:
            raise_all(failures)

    def _handle(self, event: _Queued, failures: list[BaseException]) -> None:
        kind: type[object] = event.__class__
        if self._is_between and kind in OF_A_RESPONSE:
            self._begin(failures)
        border: Any = event
        ended: Sequence[tuple[_OpenBlock, str]] = ()
        if kind in BORDERS:
            ended = self._open.end_before(border)
        elif kind is _Over:
            ended = self._open.end_all(border.reason)
        for block, reason in ended:
            start = block.start
            self._show(block, BlockAbort(start.index, start.block_type, reason), failures)
        if type(event) is Deltas:
            if not self._gather(event, failures):
                for one in event:
                    self._handle_block(one, failures)
        elif kind in BLOCK_EVENTS:
            self._handle_block(event, failures)
            return
        elif type(event) is Status:
            self._follow(event, failures)
        elif type(event) is AttemptRetract:
            self._take_back(event.reason, failures)
        elif kind is _Over or kind is AttemptStart:
            self._is_between, self._is_receiving = True, False
            self._open.begin()
        if registrations := self._registrations.get(KIND_OF_META.get(kind)):
            _deliver(registrations, self._meta_scopes, event, failures)

    def _begin(self, failures: list[BaseException]) -> None:
        """A response begins: a later retraction covers the events from now on."""
        self._is_between = self._has_started = False
        for registration in self._all() if self._registrations else ():
            if registration.begin is not None:
                _call(registration.begin, failures)

    def _follow(self, event: Status, failures: list[BaseException]) -> None:
        """Track the status of the response. A second start retracts it."""
        is_start = event.status is ResponseStatus.STARTED
        if is_start and self._has_started:
            self._take_back(BEGUN_ANEW, failures)
        self._is_receiving = is_start
        self._has_started = self._has_started or is_start
        if event.status is ResponseStatus.COMPLETED and not self._ends_with_stream:
            self._is_between = True

    def _take_back(self, reason: str, failures: list[BaseException]) -> None:
        for registration in self._all():
            if registration.on_retract is not None:
                _call(partial(registration.on_retract, reason), failures)
        _deliver(self._registrations.get(RETRACT, ()), self._meta_scopes, reason, failures)

    def _all(self) -> list[Registration]:
        return [each for row in self._registrations.values() for each in row]

    def _handle_block(self, event: Any, failures: list[BaseException]) -> None:
        block = self._open.get(event.index)
        if block is None:
            start = event if type(event) is BlockStart else start_of(event)
            block = self._open[event.index] = _OpenBlock(start)
        if self._registrations:  # most timelines have no handler, and follow what is open
            self._show(block, event, failures)
        if type(event) is BlockStop or type(event) is BlockAbort:
            self._open.pop(event.index, None)

    def _show(self, block: _OpenBlock, event: Any, failures: list[BaseException]) -> None:
        kind_of_event: type[object] = event.__class__
        kind = block.kind
        registrations = self._registrations.get(kind)
        if kind is not None and registrations:
            if kind_of_event in kind.deltas:
                _deliver(registrations, block.scopes, event, failures)
            elif kind_of_event in TYPED:
                typed = TYPED[kind_of_event](kind, block.start, event)
                _deliver(registrations, block.scopes, typed, failures)


def _call(call: Callable[[], object], failures: list[BaseException]) -> None:
    try:
        call()
    except BaseException as error:
        failures.append(error)


def _deliver(
    registrations: tuple[Registration, ...],
    scopes: _Scopes,
    event: object,
    failures: list[BaseException],
) -> None:
    gathers = event.__class__ is Deltas
    for registration in registrations:
        call: Any = registration.gather if gathers else registration.on_event
        try:
            if registration not in scopes:
                scopes[registration] = registration.scope()
            call(scopes[registration], event)
        except BaseException as error:
            failures.append(error)


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
