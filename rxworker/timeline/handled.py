"""The handlers of a timeline as an operator, composed of `split_meta`, `group_blocks` and a scope for each block.

Theory of operation. What a kind's handlers receive is the kind's own typed events; deltas that do not belong into the
block are not given to them. The handlers of a kind are a row, and an event is given to the row that is there when the
event comes: a handler that is removed meanwhile still has the event, one that is added has the next. A block has the
scopes of its handlers from its first event to its last. What a handler raises is what the operator emits: it keeps no
other handler from the event, and ends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from reactivex import Observable, abc

from rxworker.events import BlockEvent, BlockStart, Event
from rxworker.events.deltas import Parts
from rxworker.events.meta import Meta
from rxworker.operators.group import Block, follow_each, group_blocks
from rxworker.operators.kernel import Joined, Scheduler, Sink, Stage, stage
from rxworker.operators.select import split_meta
from rxworker.timeline.handler import Registration
from rxworker.timeline.kind import KIND_OF_BLOCK, KIND_OF_META, TYPED, Kind

Call: TypeAlias = tuple[Callable[[Any, Any], None], Any, Registration]
"""What takes an event, the scope that it takes it with, and the handler that both belong to."""

Fail: TypeAlias = Callable[[BaseException], None]
NO_SCOPES: dict[Registration, Any] = {}
NO_KIND: Kind[object] = Kind("none")  # of blocks that no handler is for


class Handlers:
    """The handlers of a timeline, by kind, in the order of their registration.

    Attributes:
        rows: The handlers of each kind: with their scopes, but for those of blocks. A row is replaced and not changed.
        idle: The indices of open blocks that had no handler when they began: a delta of theirs has no receiver.
    """

    def __init__(self) -> None:
        self.idle: set[int] = set()
        self.rows: dict[Kind[object], tuple[Call, ...]] = {}

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
