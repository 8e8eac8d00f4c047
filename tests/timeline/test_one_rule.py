"""The operators, the state and the views agree on the block of an event, and on what ends a block.

The state is that of a response.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reactivex import Observable
from reactivex import operators as ops

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    Ping,
    Record,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.kinds import is_block_event, start_of
from rxworker.operators import committed, fold_scope, group_blocks, hold_back, lines, live, mask, sentences
from rxworker.operators.kernel import Operator, Source
from rxworker.state import BlockState, fold_run, step_block
from rxworker.state.block import OpenBlocks, joined
from rxworker.timeline import TextBlockCollector, Timeline
from rxworker.views.changes import BlockGrow, BlockOpen, Retract
from rxworker.views.tracker import Tracker
from tests.decoded import decoded
from tests.over_recordings import provider_of

T = BlockType
indices = st.integers(0, 2)
types = st.sampled_from([T.TEXT, T.THINKING, T.TOOL_USE, T.IMAGE])
texts = st.sampled_from(["a", "b"])


def start_of_call(index: int) -> BlockStart:
    return BlockStart(index, T.TOOL_USE, ToolUseMetadata(f"call_{index}", "look"))


block_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(BlockStart, indices, st.sampled_from([T.TEXT, T.THINKING, T.IMAGE])),
    indices.map(start_of_call),
    st.builds(TextDelta, indices, texts),
    st.builds(TextDelta, indices, texts),
    st.builds(ThinkingDelta, indices, texts),
    st.builds(InputJsonDelta, indices, texts),
    st.builds(BlockStop, indices, types),
    st.builds(BlockAbort, indices, types),
)
of_one_block = block_events.filter(lambda event: is_block_event(event) and event.index == 0)
other_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Status, st.sampled_from([ResponseStatus.STARTED, ResponseStatus.COMPLETED])),
    st.just(Ping()),
    st.just(Usage(1)),
    st.just(AttemptStart()),
    st.just(AttemptRetract("overloaded")),
)
streams = st.lists(st.one_of(block_events, block_events, other_events), max_size=30)


def recorded(path: Path) -> list[Event]:
    """The events of a recording, as those of an attempt that is retracted in its middle and made again."""
    events: list[Event] = [*decoded(provider_of(path), path.read_bytes())]
    half = events[: len(events) // 2]
    return [AttemptStart(), *half, AttemptRetract("cut"), AttemptStart(), *half, *events]


def of_the_last_attempt(events: Sequence[Event]) -> list[BlockState]:
    """What `group_blocks` and `step_block` make of the blocks that are not retracted, in the order of the blocks."""
    kept: dict[int, BlockState] = {}  # by the number of the block
    has_status = False
    number = 0

    def follow(block: Observable[BlockEvent]) -> Observable[tuple[int, BlockState]]:
        nonlocal number
        number += 1
        mine = number

        def keep(state: BlockState | None) -> tuple[int, BlockState]:
            assert state is not None
            return mine, state

        return block.pipe(ops.scan(step_block, None), ops.map(keep))

    latest = list[tuple[int, BlockState]]()
    source: Source[Event] = Source()
    source.pipe(group_blocks(follow)).subscribe(latest.append)
    for event in events:
        source.on_next(event)
        kept.update(latest)
        latest.clear()
        if isinstance(event, Status):
            if event.status is ResponseStatus.STARTED and has_status:
                kept.clear()
            has_status = True
        elif isinstance(event, AttemptStart | AttemptRetract):
            kept.clear()
            has_status = False
    ended = [state for state in kept.values() if state.phase != "open"]
    return [*ended, *(state for state in kept.values() if state.phase == "open")]


def records_of(events: Sequence[Event]) -> list[Record]:
    attempt, records = 1, list[Record]()
    for seq, event in enumerate(events, start=1):
        attempt += isinstance(event, AttemptStart)
        records.append(Record(seq, "run-1", 1, attempt, 0.0, event))
    return records


def shape(state: BlockState) -> tuple[object, ...]:
    return state.index, state.block_type, state.phase, joined(state.text), state.metadata


def in_the_state(events: Sequence[Event]) -> list[BlockState]:
    response = fold_run(records_of(events)).response
    return [] if response is None else [*response.blocks]


def texts_in_the_view(events: Sequence[Event]) -> list[str]:
    """The text of each block of text that is shown in the end, except blocks without text."""
    tracker, shown = Tracker(), dict[str, list[str]]()
    for record in records_of(events):
        for change in tracker.feed(record):
            if isinstance(change, BlockOpen) and change.block.block_type is T.TEXT:
                shown[change.block.id] = []
            elif isinstance(change, BlockGrow) and change.block.id in shown:
                shown[change.block.id].append(change.text)
            elif isinstance(change, Retract):
                for block in change.blocks:
                    shown.pop(block, None)
    return [text for pieces in shown.values() if (text := "".join(pieces))]


def collected(events: Sequence[Event]) -> list[str]:
    timeline, collector = Timeline(ends_with_stream=True), TextBlockCollector()
    timeline.on_text_block(collector)
    for event in events:
        timeline.dispatch(event)
    return collector.collected()


def folded(events: Sequence[Event]) -> list[str]:
    texts = list[str]()

    def text_of(state: BlockState | None) -> None:
        assert state is not None
        if state.block_type in (T.TEXT, T.TOOL_RESULT) and (text := joined(state.text)):
            texts.append(text)

    source: Source[Event] = Source()
    source.pipe(committed(), group_blocks(), fold_scope(step_block, None)).subscribe(text_of)
    for event in events:
        source.on_next(event)
    source.on_completed()
    return texts


def check(events: Sequence[Event]) -> None:
    state, operators = in_the_state(events), of_the_last_attempt(events)
    assert sorted(map(repr, map(shape, state))) == sorted(map(repr, map(shape, operators)))
    of_text = [joined(b.text) for b in state if b.block_type is T.TEXT and b.choice == 0]
    assert sorted(texts_in_the_view(events)) == sorted(filter(None, of_text))


STARTED = Status(ResponseStatus.STARTED)
BEFORE_THE_FIRST_STATUS: list[Event] = [AttemptStart(), BlockStart(0, T.TEXT), TextDelta(0, "a"), STARTED]
BEGUN_ANEW: list[Event] = [*BEFORE_THE_FIRST_STATUS, TextDelta(0, "b"), STARTED, TextDelta(0, "c")]


@example([*BEFORE_THE_FIRST_STATUS, TextDelta(0, "b"), BlockStop(0, T.TEXT)])
@example([*BEFORE_THE_FIRST_STATUS[1:], TextDelta(0, "b"), BlockStop(0, T.TEXT)])
@example(BEGUN_ANEW)
@example(BEGUN_ANEW[1:])
@example([*BEGUN_ANEW, AttemptRetract("cut"), *BEGUN_ANEW])
@given(streams)
def test_they_agree_on_any_stream(events: list[Event]) -> None:
    check(events)


def test_they_agree_on_a_recording(recording: Path) -> None:
    check(recorded(recording))


@example([*BEFORE_THE_FIRST_STATUS, TextDelta(0, "b"), BlockStop(0, T.TEXT)])
@example(BEGUN_ANEW)
@given(streams)
def test_what_collectors_have_is_what_is_folded_of_what_cannot_be_retracted(events: list[Event]) -> None:
    run = [AttemptStart(), *events, AttemptStart()]
    assert collected(run) == folded(run)


def whole_texts(operator: Operator[Event, Event], events: Sequence[Event]) -> list[str]:
    """The texts of the blocks that have stopped, behind the operator."""
    texts = list[str]()

    def text_of(state: BlockState | None) -> None:
        assert state is not None
        texts.append(joined(state.text))

    source: Source[Event] = Source()
    operator(source).pipe(group_blocks(), fold_scope(step_block, None)).subscribe(text_of)
    for event in events:
        source.on_next(event)
    return texts


def with_starts(events: Sequence[Event]) -> list[Event]:
    started = list[Event]()
    opened = OpenBlocks[BlockStart]()
    for event in events:
        opened.end_before(event)
        if is_block_event(event):
            if event.index not in opened:
                opened[event.index] = start_of(event)
                started.append(opened[event.index])
            if isinstance(event, BlockStop | BlockAbort):
                del opened[event.index]
        if not isinstance(event, BlockStart):
            started.append(event)
    return started


def passes(_: str) -> bool:
    return True


@pytest.mark.parametrize(
    "operator",
    [lines(), sentences(), mask("z"), hold_back(passes, thinking=True)],
    ids=["lines", "sentences", "mask", "hold_back"],
)
@given(events=st.lists(st.one_of(of_one_block, of_one_block, other_events), max_size=12))
@settings(max_examples=100)
def test_operators_that_hold_text_keep_it_in_its_block(operator: Operator[Event, Event], events: list[Event]) -> None:
    """Where each block has a start.

    Without one, the first delta that is not held would open the block, whatever its type.
    """
    started = with_starts(events)
    assert whole_texts(operator, started) == whole_texts(live(), started)
