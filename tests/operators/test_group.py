"""`group_blocks` means reactivex's own ``group_by_until``; then what it adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import GroupedObservable, Observable
from reactivex import operators as ops

from rxworker.errors import ConfigurationError
from rxworker.events import (
    BlockAbort,
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Event,
    InputJsonDelta,
    InputValueDelta,
    Ping,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
)
from rxworker.events.kinds import start_of
from rxworker.operators import Block, group_blocks, only
from rxworker.operators.kernel import Sink, Source, connect
from rxworker.testing.marbles import Marbles

EVENTS: dict[str, Event] = {
    "s": BlockStart(0, BlockType.TEXT),
    "d": TextDelta(0, "zero"),
    "e": BlockStop(0, BlockType.TEXT),
    "x": BlockAbort(0, BlockType.TEXT, "cut"),
    "S": BlockStart(1, BlockType.TOOL_USE, ToolUseMetadata("1", "look")),
    "D": InputJsonDelta(1, "{}"),
    "E": BlockStop(1, BlockType.TOOL_USE),
    "p": Ping(),
}


def plain_composition(source: Observable[Event]) -> Observable[GroupedObservable[int, BlockEvent]]:
    """What `group_blocks` means."""

    def index(event: BlockEvent) -> int:
        return event.index

    def same(event: BlockEvent) -> BlockEvent:
        return event

    def end(group: GroupedObservable[int, BlockEvent]) -> Observable[BlockStop | BlockAbort]:
        return group.pipe(only(BlockStop, BlockAbort))

    return source.pipe(only(BlockStart, TextDelta, BlockStop, BlockAbort), ops.group_by_until(index, same, end))


def blocks_of(source: Observable[Event]) -> Observable[Block]:
    return source.pipe(group_blocks())


def told(
    operator: Callable[[Observable[Event]], Observable[Any]],
    key: Callable[[Any], int],
    events: list[Event],
    ending: str,
    leave_after: int | None = None,
) -> list[tuple[object, ...]]:
    """Everything that is seen when every group is followed from its announcement."""
    story: list[tuple[object, ...]] = []
    source: Source[Event] = Source()

    def follow(group: Any) -> None:
        number = sum(1 for line in story if line[0] == "open")
        story.append(("open", number, key(group)))

        def on_next(event: BlockEvent) -> None:
            story.append(("item", number, event))

        def on_error(error: Exception) -> None:
            story.append(("failed", number, str(error)))

        def on_completed() -> None:
            story.append(("closed", number))

        group.subscribe(on_next, on_error, on_completed)

    def on_error(error: Exception) -> None:
        story.append(("failed", str(error)))

    def on_completed() -> None:
        story.append(("completed",))

    subscription = operator(source).subscribe(follow, on_error, on_completed)
    for position, event in enumerate(events):
        if position == leave_after:
            subscription.dispose()
        source.on_next(event)
    if ending == "completed":
        source.on_completed()
    elif ending == "failed":
        source.on_error(ValueError("cut"))
    return story


def start(index: int) -> Event:
    return BlockStart(index, BlockType.TEXT)


def stop(index: int) -> Event:
    return BlockStop(index, BlockType.TEXT)


def abort(index: int) -> Event:
    return BlockAbort(index, BlockType.TEXT)


def text(index: int) -> Event:
    return TextDelta(index, "text")


def ping(_: int) -> Event:
    return Ping()


STARTED_AGAIN = "another block has started at its index"

indices = st.integers(0, 3)
block_events: st.SearchStrategy[Event] = st.one_of(
    *(indices.map(make) for make in (start, text, text, stop, abort, ping))
)


def index_of(block: Block) -> int:
    return block.index


def key_of(group: GroupedObservable[int, BlockEvent]) -> int:
    return group.key


@given(
    st.lists(block_events, max_size=30),
    st.sampled_from(["completed", "failed", "open"]),
    st.none() | st.integers(0, 30),
)
def test_it_means_group_by_until(events: list[Event], ending: str, leave_after: int | None) -> None:
    """Also where a block starts at an index that is open: the block that was there is aborted."""
    ours = told(blocks_of, index_of, events, ending, leave_after)
    leaves = leave_after is not None and leave_after < len(events)
    left = len(well_formed(events[:leave_after])) if leaves else None
    assert ours == told(plain_composition, key_of, well_formed(events), ending, left)


def well_formed(events: list[Event]) -> list[Event]:
    """The events with an abort before each start of an index that is open."""
    formed: list[Event] = []
    opened: set[int] = set()
    for event in events:
        if isinstance(event, BlockStart) and event.index in opened:
            formed.append(BlockAbort(event.index, BlockType.TEXT, STARTED_AGAIN))
        if isinstance(event, BlockEvent):
            ends = isinstance(event, BlockStop | BlockAbort)
            (opened.discard if ends else opened.add)(event.index)
        formed.append(event)
    return formed


def test_a_start_of_an_open_index_aborts_its_block_and_opens_another() -> None:
    story = told(blocks_of, index_of, [start(0), text(0), start(0), text(0), stop(0)], "completed")
    assert story == [
        ("open", 0, 0),
        ("item", 0, start(0)),
        ("item", 0, text(0)),
        ("item", 0, BlockAbort(0, BlockType.TEXT, STARTED_AGAIN)),
        ("closed", 0),
        ("open", 1, 0),
        ("item", 1, start(0)),
        ("item", 1, text(0)),
        ("item", 1, stop(0)),
        ("closed", 1),
        ("completed",),
    ]


def test_block_completes_after_its_stop_event(test: Marbles) -> None:
    source = test.hot("-s-d-p-e---|", EVENTS)
    blocks: list[Block] = []
    source.pipe(group_blocks()).subscribe(blocks.append)

    def first() -> Observable[BlockEvent]:
        return source.pipe(group_blocks(), ops.take(1), ops.flat_map(itself))

    assert test.observe(first) == test.expected("-s-d---(e,|)", EVENTS)
    assert [block.index for block in blocks] == [0]


def itself(block: Block) -> Observable[BlockEvent]:
    return block


def test_the_first_block_is_followed_to_its_end_although_the_outer_stream_was_left(test: Marbles) -> None:
    source = test.hot("-s-S-d-D-e-E-|", EVENTS)
    seen = test.observe(source.pipe(group_blocks(), ops.take(1), ops.flat_map(itself)))
    assert seen == test.expected("-s---d---(e,|)", EVENTS)
    assert source.subscriptions == test.subscriptions("^--------!")


def test_blocks_that_are_open_at_once_are_kept_apart(test: Marbles) -> None:

    def tool(block: Block) -> Observable[BlockEvent]:
        return block if block.block_type is BlockType.TOOL_USE else block.pipe(ops.skip(99))

    source = test.hot("           -s-S-d-D-e-E-|", EVENTS)
    seen = test.observe(source.pipe(group_blocks(), ops.flat_map(tool)))
    assert seen == test.expected("---S---D---E-|", EVENTS)


def test_an_index_may_open_again(test: Marbles) -> None:
    source = test.hot("-s-x-s-e-d-|", EVENTS)
    seen = test.observe(source.pipe(group_blocks(), ops.map(index_of)))
    assert seen == test.expected("-a---a---a-|", {"a": 0})


def test_a_block_has_its_start() -> None:
    blocks: list[Block] = []
    source: Source[Event] = Source()
    source.pipe(group_blocks()).subscribe(blocks.append)
    source.on_next(EVENTS["S"])
    source.on_next(EVENTS["d"])
    assert blocks[0].metadata == ToolUseMetadata("1", "look")
    assert blocks[1].start == BlockStart(0, BlockType.TEXT)
    assert blocks[1].metadata is None


@pytest.mark.parametrize(
    ("event", "block_type"),
    [
        (TextDelta(0, ""), BlockType.TEXT),
        (CitationDelta(0, {}), BlockType.TEXT),
        (ThinkingDelta(0, ""), BlockType.THINKING),
        (SignatureDelta(0, ""), BlockType.THINKING),
        (RefusalDelta(0, ""), BlockType.REFUSAL),
        (InputJsonDelta(0, ""), BlockType.TOOL_USE),
        (InputValueDelta(0, "$.a", 1), BlockType.TOOL_USE),
        (BlockStop(0, BlockType.IMAGE), BlockType.IMAGE),
        (BlockAbort(0, BlockType.OPAQUE), BlockType.OPAQUE),
    ],
)
def test_any_event_may_open_a_block(event: BlockEvent, block_type: BlockType) -> None:
    assert start_of(event).block_type is block_type


def test_an_opening_delta_names_the_choice() -> None:
    assert start_of(TextDelta(0, "", choice=2)).choice == 2


def test_a_late_subscriber_has_missed_earlier_events() -> None:
    assert late(replay=False) == [TextDelta(0, "two"), BlockStop(0, BlockType.TEXT)]


def test_a_late_subscriber_of_a_replaying_block_gets_all() -> None:
    assert late(replay=True) == [TextDelta(0, "one"), TextDelta(0, "two"), BlockStop(0, BlockType.TEXT)]


def late(replay: bool) -> list[BlockEvent]:
    seen: list[BlockEvent] = []
    blocks: list[Block] = []
    source: Source[Event] = Source()
    source.pipe(group_blocks(replay=replay)).subscribe(blocks.append)
    source.on_next(TextDelta(0, "one"))
    blocks[0].subscribe(seen.append)
    source.on_next(TextDelta(0, "two"))
    source.on_next(BlockStop(0, BlockType.TEXT))
    return seen


def test_a_replaying_block_emits_its_events_after_its_end() -> None:
    blocks: list[Block] = []
    source: Source[Event] = Source()
    source.pipe(group_blocks(replay=True)).subscribe(blocks.append)
    source.on_next(TextDelta(0, "one"))
    source.on_completed()
    seen: list[object] = []
    blocks[0].subscribe(seen.append, on_completed=lambda: seen.append("completed"))
    assert seen == [TextDelta(0, "one"), "completed"]


def test_an_error_of_the_source_is_an_error_of_the_open_blocks() -> None:
    blocks: list[Block] = []
    errors: list[Exception] = []
    source: Source[Event] = Source()
    source.pipe(group_blocks()).subscribe(blocks.append, errors.append)
    source.on_next(TextDelta(0, "one"))
    blocks[0].subscribe(lambda _: None, errors.append)
    failure = ValueError("cut")
    source.on_error(failure)
    assert errors == [failure, failure]


def test_no_block_is_announced_after_an_error() -> None:
    source: Source[Any] = Source()
    seen: list[object] = []
    connect(source.pipe(group_blocks()), Sink(seen.append, seen.append, print))
    source.on_next("no event")
    source.on_next(TextDelta(0, "a"))
    source.on_next(BlockStart(0, BlockType.TEXT))
    assert [type(each) for each in seen] == [ConfigurationError]
