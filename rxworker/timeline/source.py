"""The source of events that handlers get through the operators, with their scopes at the end.

Theory of operation. `EventSource` puts events in order: those of several threads, and those that handlers dispatch. The
operators are `split_meta` and `group_blocks`. What they cannot know is added here. Where a response is retracted, or
begins anew by the rule of `OpenBlocks`, the operators abort what is open, and then the handlers are called with the
reason. The end of a response aborts what is open as well. While there is no handler, events only wait, and the
operators get many at once: they must know what is open when the first handler comes.

`Handlers` are the last step. What a kind's handlers receive is the kind's own typed events; deltas that do not belong
into the block are not given to them. The handlers of a kind are a row, and an event is given to the row that is there
when the event comes: a handler that is removed meanwhile still has the event, one that is added has the next. A block
has the scopes of its handlers from its first event to its last. What a handler raises is what the operator emits: it
keeps no other handler from the event, and ends nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct
from reactivex import Observable, abc
from reactivex.internal import noop

from rxworker.events import AttemptRetract, AttemptStart, BlockEvent, BlockStart, Event, ResponseStatus, Status
from rxworker.events.kinds import BLOCK_EVENTS, BLOCK_TYPE_OF, META_EVENTS, Deltas, Parts
from rxworker.events.meta import Meta
from rxworker.operators.expect import EVENTS, refusal
from rxworker.operators.group import Block, follow_each, group_blocks
from rxworker.operators.kernel import Joined, Scheduler, Sink, Source, Stage, connect, stage
from rxworker.operators.select import split_meta
from rxworker.state.block import OpenBlocks
from rxworker.timeline.kind import KIND_OF_BLOCK, KIND_OF_META, RETRACT, TYPED, Kind, Registration, raise_all

Call: TypeAlias = tuple[Callable[[Any, Any], None], Any, Registration]
"""What takes an event, the scope that it takes it with, and the handler that both belong to."""

Fail: TypeAlias = Callable[[BaseException], None]
NO_SCOPES: dict[Registration, Any] = {}
NO_KIND: Kind[object] = Kind("none")  # of blocks that no handler is for


class Handlers(Struct, eq=False):
    """The handlers of a timeline, by kind, in the order of their registration.

    Attributes:
        rows: The handlers of each kind: with their scopes, but for those of blocks. A row is replaced and not changed.
        idle: The indices of open blocks that had no handler when they began: a delta of theirs has no receiver.
    """

    idle: set[int] = set()
    rows: dict[Kind[object], tuple[Call, ...]] = {}

    def all(self) -> list[Registration]:
        """All handlers."""
        return [registration for row in self.rows.values() for _, _, registration in row]

    def add(self, registration: Registration, scope: object) -> None:
        """Add a handler; its scope counts where it is for meta events."""
        kind = registration.kind
        self.idle.clear()
        self.rows[kind] = (*self.rows.get(kind, ()), (registration.on_event, scope, registration))

    def remove(self, registration: Registration) -> None:
        """Remove a handler."""
        kind = registration.kind
        self.rows[kind] = tuple(call for call in self.rows.get(kind, ()) if call[2] is not registration)

    def __call__(self, source: Observable[Event]) -> Observable[BaseException]:
        """Give the events to the handlers, and emit what these raise."""
        return split_meta(self._take_meta, self._take_blocks)(source)

    def _take_meta(self, source: Observable[Meta]) -> Observable[BaseException]:
        rows = self.rows

        def make(observer: abc.ObserverBase[BaseException]) -> Sink[Meta]:
            def on_next(event: Meta) -> None:
                if row := rows.get(KIND_OF_META.get(event.__class__, NO_KIND)):
                    deliver(row, event, observer.on_next)

            return Sink(on_next, observer.on_error, observer.on_completed)

        return stage(source, make)

    def _take_blocks(self, source: Observable[BlockEvent]) -> Observable[BaseException]:
        def subscribe(
            blocks: Observable[Block], observer: abc.ObserverBase[BaseException], scheduler: Scheduler
        ) -> abc.DisposableBase:
            joined = Joined(observer, scheduler)
            return follow_each(blocks, partial(self._follow, joined, observer.on_next), joined, "timeline")

        return Stage(partial(subscribe, group_blocks()(source)))

    def _follow(self, joined: Joined, fail: Fail, block: Block) -> None:
        """Give the events of one block to its handlers."""
        rows, start = self.rows, block.start
        kind, index = KIND_OF_BLOCK.get(start.block_type, NO_KIND), start.index
        taken: tuple[Call, ...] = ()
        calls: list[Call] = []
        if not rows.get(kind):
            self.idle.add(index)

        def begin(row: tuple[Call, ...]) -> None:
            """Make the scopes of a row, but for those that are there."""
            nonlocal taken, calls
            scopes = {registration: scope for _, scope, registration in calls} if calls else NO_SCOPES
            calls = []
            for call, _, registration in row:
                try:
                    scope = scopes[registration] if registration in scopes else registration.scope()
                    calls.append((call, scope, registration))
                except BaseException as error:
                    fail(error)
            taken = row if len(calls) == len(row) else ()  # a scope that could not be made is tried again

        def on_next(event: Any) -> None:
            kind_of_event: type[object] = event.__class__
            is_delta = kind_of_event in kind.deltas
            if not is_delta:
                if kind_of_event not in TYPED:
                    return
                if kind_of_event is not BlockStart:  # the last event
                    self.idle.discard(index)
            if row := rows.get(kind):
                if row is not taken:
                    begin(row)
                deliver(calls, event if is_delta else TYPED[kind_of_event](kind, start, event), fail)

        def on_many(parts: Parts[Any]) -> None:
            for deltas in parts:
                row = rows.get(kind)
                if not row or deltas.like.__class__ not in kind.deltas:
                    continue
                if row is not taken:
                    begin(row)
                gathers = [(r.gather, scope, r) for _, scope, r in calls if r.gather]
                if len(gathers) == len(row):
                    deliver(gathers, deltas, fail)
                else:  # together only if all take them, so that all have had a delta before the next
                    for event in deltas:
                        on_next(event)

        joined.follow(block, on_next, on_many=on_many)


def deliver(calls: Sequence[Call], event: object, fail: Fail) -> None:
    """Call all of these with an event, whatever one of them raises."""
    for call, scope, _ in calls:
        try:
            call(scope, event)
        except BaseException as error:
            fail(error)


OF_A_RESPONSE: frozenset[type[object]] = BLOCK_EVENTS | META_EVENTS | {Deltas}
TAKEN = EVENTS | {Deltas}
KEPT = 512
"""How many events wait while there is no handler."""


class _Over(Struct, frozen=True):
    """The end of a response in the queue of events, and the reason for the blocks that are open then."""

    reason: str


_Queued: TypeAlias = Event | Deltas[Any] | _Over
PLAIN = EVENTS - {Status, AttemptRetract, AttemptStart}
"""The events that neither begin nor end a response."""
NO_OPERATORS: Source[Event] = Source()  # before the first response


class EventSource:
    """Gives events to handlers one at a time, whichever thread or handler they come from.

    Args:
        ends_with_stream: Whether a response ends only with its stream.
    """

    def __init__(self, *, ends_with_stream: bool = False) -> None:
        self._ends_with_stream = ends_with_stream
        self._handlers = Handlers()
        self._events: Source[Event] = NO_OPERATORS  # what the handlers have, from the first response on
        self._failures: list[BaseException] = []
        self._response: OpenBlocks[None] = OpenBlocks()  # for its rule of what begins a response anew
        self._lock = threading.RLock()
        self._queue: deque[_Queued] = deque()
        self._busy = self._is_receiving = False
        self._is_between = True  # before a response, or between two

    @property
    def has_handlers(self) -> bool:
        """Whether a handler is registered."""
        return any(self._handlers.rows.values())

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
            raise refusal("timeline", "events", event)
        if (idle := self._handlers.idle) and kind in BLOCK_TYPE_OF:
            delta: Any = event
            if delta.index in idle and not (self._busy or self._queue or self._is_between):
                return
        with self._lock:
            if kind not in PLAIN or self._busy or self._queue or self._is_between:
                self._queue.append(event)
            else:  # there is nothing that it must wait for
                self._busy = True
                try:
                    self._events.push(event)
                finally:
                    self._busy = False
            if self._queue or self._failures:
                self._drain()

    def dispatch_many(self, parts: Parts[Event]) -> None:
        """The same as `dispatch` for each event of these.

        Raises:
            Exception: What a handler raised, after all handlers were called with all of them.
            ConfigurationError: One of them is not an event; no handler is called.
        """
        if not TAKEN.issuperset(map(type, parts)):
            raise refusal("timeline", "events", next(part for part in parts if type(part) not in TAKEN))
        self._put(parts)

    def abort_current_block(self, reason: str = "") -> None:
        """Send a `BlockAbort` to the handlers of every open block, in the order in which they opened, and close it."""
        self._put((_Over(reason),))

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
        over = _Over(reason)
        self._put((over, Status(ResponseStatus.CANCELLED), over) if self._is_receiving else (over,))

    def _put(self, parts: Sequence[_Queued]) -> None:
        with self._lock:
            self._queue.extend(parts)
            self._drain()

    def _drain(self, kept: int = KEPT) -> None:
        """Handle the queue. Called with the lock. While there is no handler, some events may go on waiting."""
        queue = self._queue
        # If it is busy, a handler has called: the loop below goes on.
        if self._busy or not (self._handlers.rows or len(queue) > kept):
            return
        self._busy = True
        try:
            while queue:
                event: Any = queue.popleft()
                if event.__class__ in PLAIN and not self._is_between:
                    self._events.push(event)
                else:
                    self._handle(event)
        finally:
            self._busy = False
        if self._failures:
            failures = [*self._failures]
            self._failures.clear()
            raise_all(failures)

    def _handle(self, event: Any) -> None:
        """Give an event to the operators, with what it begins or ends."""
        kind: type[object] = event.__class__
        if self._is_between and kind in OF_A_RESPONSE:
            self._begin_response()
        if kind is Deltas:
            self._events.push_many((event,))
        elif kind is Status:
            self._follow(event)
        elif kind is AttemptRetract:
            self._response.begin()
            self._retract(event)
        elif kind is _Over or kind is AttemptStart:
            self._is_between, self._is_receiving = True, False
            self._events.push(AttemptRetract(event.reason) if kind is _Over else event)
        else:
            self._events.push(event)

    def _begin_response(self) -> None:
        """A response begins: a later retraction covers the events from now on."""
        if self._events is NO_OPERATORS:
            self._events = Source()
            connect(self._handlers(self._events), Sink(self._failures.append, noop, noop))
        self._is_between = False
        self._response.begin()
        self._call_each("begin")

    def _follow(self, status: Status) -> None:
        """Follow the status of the response. Where it begins the response anew, it retracts what came before."""
        reason = self._response.begins_anew(status)
        if reason is not None:
            self._retract(AttemptRetract(reason))
        self._is_receiving = status.status is ResponseStatus.STARTED
        self._is_between = status.status is ResponseStatus.COMPLETED and not self._ends_with_stream
        self._events.push(status)

    def _retract(self, event: AttemptRetract) -> None:
        self._events.push(event)  # the operators abort what is open
        self._call_each("on_retract", event.reason)
        deliver(self._handlers.rows.get(RETRACT, ()), event.reason, self._failures.append)

    def _call_each(self, method: str, *arguments: str) -> None:
        """Call a method of those handlers that have it."""
        for registration in self._handlers.all():
            call = getattr(registration, method)
            try:
                if call is not None:
                    call(*arguments)
            except BaseException as error:
                self._failures.append(error)
