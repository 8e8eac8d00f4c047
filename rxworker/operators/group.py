"""One observable for the life of each block, and a state carried along each block.

The definition is reactivex's ``group_by_until(index, None, until_stop_or_abort)`` over the block events, and a property
test holds the two equal; a delta costs a seventh of it. A block opens with the first event of its index, is announced
downstream, and then receives that event: an observer that subscribes in the notification receives the whole block. A
stop or an abort is its last item; then the block completes, and the same index may open again. Blocks that end without
an event of their own are aborted first: `OpenBlocks` has the rule. The blocks and the outer observable share one
subscription to the source, which ends when the last of them is disposed: ``group_blocks(), take(1), flat_map(...)``
follows the first block to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.internal import noop

from rxworker.events import BlockAbort, BlockEvent, BlockStart, BlockStop, BlockType, Event
from rxworker.events.block import BlockMetadata
from rxworker.events.kinds import BLOCK_EVENTS, BLOCK_TYPE_OF, start_of
from rxworker.operators.expect import EVENTS, expect_callable, operator, refusal
from rxworker.operators.kernel import (
    Ending,
    Joined,
    Operator,
    RefCounted,
    Scheduler,
    Sink,
    Source,
    Step,
    Subscribed,
    connect,
    to_blocks,
)
from rxworker.state.block import BORDERS, OpenBlocks

B = TypeVar("B")


class Block(Source[BlockEvent]):
    """The life of one block: its events, ended by its stop or abort, then completion.

    Attributes:
        start: How it began; made up where the block opened without a start.
    """

    _seen: list[BlockEvent] | None = None

    def __init__(self, start: BlockStart, users: RefCounted, *, replay: bool = False) -> None:
        self.start = start
        self._users = users
        if replay:
            self._seen = []
            self._serve((Sink(self._seen.append, noop, noop),))

    @property
    def index(self) -> int:
        """Its name within the response."""
        return self.start.index

    @property
    def block_type(self) -> BlockType:
        """The kind of its content."""
        return self.start.block_type

    @property
    def metadata(self) -> BlockMetadata | None:
        """Which tool or result."""
        return self.start.metadata

    def _subscribe_core(
        self, observer: abc.ObserverBase[BlockEvent], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        if self._seen is not None:
            # A loop by position: what the observer causes to come in meanwhile is in the list too.
            for event in self._seen:
                observer.on_next(event)
        if self._over:
            return super()._subscribe_core(observer, scheduler)
        self._users.users += 1
        self._serve((*self._observers, observer))
        return Subscribed(self, observer)

    def _remove(self, observer: abc.ObserverBase[Any]) -> None:
        if not self._over:  # else it has no observers any more
            super()._remove(observer)
        self._users.release()


@overload
def group_blocks(*, replay: bool = False) -> Operator[Event, Block]: ...
@overload
def group_blocks(follow: Callable[[Block], Observable[B]], *, replay: bool = False) -> Operator[Event, B]: ...
def group_blocks(
    follow: Callable[[Block], Observable[Any]] | None = None, *, replay: bool = False
) -> Operator[Event, Any]:
    """Announce each block when it opens, as an observable of its events. Other events pass by.

        -s0-d0-s1-d0-d1-e0-e1-|     s start, d delta, e stop, of blocks 0 and 1
        [ group_blocks() ]
        -+-----+--------------|
         |     +s1-----d1----e1|
         +s0-d0----d0----e0|

    Follow a block in the notification that announces it, for example with ``follow``, ``flat_map`` or `scan_scope`. A
    subscriber that comes later has missed the events before, unless the blocks replay. An error of the source is an
    error of all open blocks.

    Args:
        follow: What to emit of each block. ``group_blocks(follow)`` means ``group_blocks(), ops.flat_map(follow)``; a
            type checker knows the block's type here, also where ``follow`` is a lambda.
        replay: Whether a block keeps its events for later subscribers, for as long as the block itself is kept.

    >>> from reactivex import of, operators as ops
    >>> from rxworker.events import TextDelta
    >>> events = of(TextDelta(0, "a"), TextDelta(1, "b"), TextDelta(0, "c"))
    >>> counts = group_blocks(lambda block: block.pipe(ops.count(), ops.map(lambda n: (block.index, n))))
    >>> events.pipe(counts).subscribe(print) and None
    (0, 2)
    (1, 1)
    """
    if follow is not None:
        expect_callable("group_blocks(...)", follow, "a function of a block")
        grouped, merged = group_blocks(replay=replay), ops.flat_map(follow)

        def apply_both(source: Observable[Event]) -> Observable[Any]:
            return source.pipe(grouped, merged)

        return apply_both

    return announce_blocks("group_blocks()", replay=replay)


def announce_blocks(verb: str, *, replay: bool = False) -> Operator[Event, Block]:
    """`group_blocks` as part of the verb of this name."""

    def subscribe(
        source: Observable[Event], observer: abc.ObserverBase[Block], scheduler: Scheduler
    ) -> abc.DisposableBase:
        users = RefCounted()
        blocks: OpenBlocks[Block] = OpenBlocks()
        find = blocks.get
        announce = observer.on_next
        ending = Ending(observer)

        def opened(event: BlockEvent) -> Block:
            block = Block(start_of(event), users, replay=replay)
            if not ending.is_over:
                blocks[event.index] = block
                announce(block)
            return block

        def on_next(event: Any) -> None:
            kind: type[object] = event.__class__
            if kind in BLOCK_TYPE_OF:  # a delta; first, since most events are
                (find(event.index) or opened(event)).push(event)
                return
            if ending.is_over:
                return
            if kind in BORDERS and (kind is not BlockStart or event.index in blocks):
                for block, reason in blocks.end_before(event):
                    block.push(BlockAbort(block.index, block.block_type, reason))
                    block.on_completed()
            if kind in BLOCK_EVENTS:
                block = find(event.index) or opened(event)
                block.push(event)
                if kind is not BlockStart:
                    blocks.pop(event.index, None)
                    block.on_completed()
            elif kind not in EVENTS:
                on_error(refusal(verb, "events", event))

        def on_error(error: Exception) -> None:
            for block, _ in blocks.end_all(""):
                block.on_error(error)
            ending.on_error(error)

        def on_completed() -> None:
            for block, _ in blocks.end_all(""):
                block.on_completed()
            ending.on_completed()

        users.put(connect(source, Sink(on_next, on_error, on_completed, to_blocks(find, on_next)), scheduler))
        return users

    return operator(subscribe, verb, takes_events=True)


S = TypeVar("S")


def scan_scope(step: Step[S, BlockEvent], seed: S) -> Operator[Block, S]:
    """Follow each block from start to stop, emitting its state after every event.

        --s--d--d--e|          s start, d delta, e stop
        [ scan_scope(step) ]
        --1--2--3--4|

    What several open blocks emit comes out in the order of the events that caused it. The last event of a block that is
    not whole is its abort. A block has every event of its index, also a delta of another type, which a `Timeline` and
    `step_block` leave out.

    Args:
        step: The next state, from the state and an event of the block. It must not change the state it is given.
        seed: The state before the first event, the same for every block.

    >>> from reactivex import of
    >>> from rxworker.events import TextDelta
    >>> from rxworker.operators.group import group_blocks
    >>> def longer(text: str, event: BlockEvent) -> str:
    ...     return text + event.text if isinstance(event, TextDelta) else text
    >>> events = of(TextDelta(0, "a"), TextDelta(1, "x"), TextDelta(0, "b"))
    >>> events.pipe(group_blocks(), scan_scope(longer, "")).subscribe(print) and None
    a
    x
    ab
    """
    return _follow_each(step, seed, "scan_scope(...)", every=True)


def fold_scope(step: Step[S, BlockEvent], seed: S) -> Operator[Block, S]:
    """Follow each block from start to stop, emitting its last state when it stops.

        --s--d--d--e|          s start, d delta, e stop
        [ fold_scope(step) ]
        -----------4|

    A block that is aborted, or has not stopped when the stream ends, is not whole and emits nothing: follow it with
    `scan_scope`. What was emitted of a response that is retracted later stays emitted: put `committed` before
    `group_blocks` to wait until nothing can be retracted.

    Args:
        step: The next state, from the state and an event of the block. It must not change the state it is given.
        seed: The state before the first event, the same for every block.

    >>> from reactivex import of
    >>> from rxworker.events import BlockType, TextDelta
    >>> events = of(BlockStart(0, BlockType.TEXT), TextDelta(0, "Rain."), BlockStop(0, BlockType.TEXT))
    >>> def count(number: int, event: BlockEvent) -> int:
    ...     return number + 1
    >>> events.pipe(group_blocks(), fold_scope(count, 0)).subscribe(print) and None
    3
    """
    return _follow_each(step, seed, "fold_scope(...)", every=False)


def _follow_each(step: Step[S, BlockEvent], seed: S, verb: str, *, every: bool) -> Operator[Block, S]:
    expect_callable(verb, step, "a function of a state and an event")

    def subscribe(source: Observable[Block], observer: abc.ObserverBase[S], scheduler: Scheduler) -> abc.DisposableBase:
        push = observer.on_next
        joined = Joined(observer, scheduler)

        def begin(block: Block) -> None:
            state = seed

            def on_next(event: BlockEvent) -> None:
                nonlocal state
                if joined.is_over:
                    return
                try:
                    state = step(state, event)
                except Exception as error:
                    joined.on_error(error)
                    return
                if every or type(event) is BlockStop:
                    push(state)

            joined.follow(block, on_next)

        return follow_each(source, begin, joined, verb)

    return operator(subscribe, verb, step)


def follow_each(
    source: Observable[Block], begin: Callable[[Block], None], joined: Joined, verb: str
) -> abc.DisposableBase:
    """Call a function at the start of each block, which begins what follows the block.

    Args:
        source: The blocks.
        begin: Follows the block with ``joined``, with a state for this block.
        joined: Follows the source and its blocks until the end.
        verb: The verb as it is written, for the message.
    """

    def on_next(block: Block) -> None:
        if isinstance(block, Block):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            begin(block)
        else:
            joined.on_error(refusal(verb, "blocks", block))

    joined.follow(source, on_next)
    return joined
