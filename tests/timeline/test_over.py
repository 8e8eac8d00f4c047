"""What ends a response or its blocks ends it once, by the rule of `OpenBlocks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from rxworker.timeline import TextBlockAbort, TextBlockEvent, TextBlockStart, TextBlockStop, Timeline
from tests.decoded import decoded
from tests.over_recordings import provider_of
from tests.timeline.scopes import Scopes

STARTED, COMPLETED = Status(ResponseStatus.STARTED), Status(ResponseStatus.COMPLETED)
STOP = BlockStop(0, BlockType.TEXT)


def aborting(timeline: Timeline, at: type[object]) -> Callable[[TextBlockEvent], None]:
    def abort(event: TextBlockEvent) -> None:
        if isinstance(event, at):
            timeline.abort_current_block("enough")

    return abort


def play(timeline: Timeline, *events: Event) -> Scopes:
    scopes = Scopes()
    timeline.on_text_block(scopes)
    for event in events:
        timeline.dispatch(event)
    return scopes


def test_two_handlers_that_abort_at_one_event_abort_its_block_once() -> None:
    timeline = Timeline()
    timeline.on_text_block(aborting(timeline, TextDelta))
    timeline.on_text_block(aborting(timeline, TextDelta))
    assert play(timeline, TextDelta(0, "a")).scopes == [[TextDelta(0, "a"), TextBlockAbort(0, "enough")]]


@pytest.mark.parametrize("at", [TextBlockStop, TextBlockAbort])
def test_a_handler_that_aborts_at_the_end_of_a_block_aborts_nothing_more(at: type[object]) -> None:
    timeline = Timeline()
    timeline.on_text_block(aborting(timeline, at))
    scopes = play(timeline, TextDelta(0, "a"), STOP)
    timeline.abort_current_block("over")
    assert scopes.scopes == [[TextDelta(0, "a"), TextBlockStop(0)]]


def test_several_blocks_that_are_aborted_by_their_handlers_end_once() -> None:
    timeline = Timeline()
    for at in (TextDelta, TextBlockAbort, TextBlockAbort):
        timeline.on_text_block(aborting(timeline, at))
    scopes = play(timeline, TextDelta(0, "a"), TextDelta(1, "b"))
    assert scopes.scopes == [
        [TextDelta(0, "a"), TextBlockAbort(0, "enough")],
        [TextDelta(1, "b"), TextBlockAbort(1, "enough")],
    ]


def test_the_first_status_after_a_retraction_goes_on_with_what_came_before_it() -> None:
    scopes = play(Timeline(), STARTED, AttemptRetract("cut"), TextDelta(0, "a"), STARTED, STOP)
    assert scopes.scopes == [[TextDelta(0, "a"), TextBlockStop(0)]]
    assert scopes.reasons == ["cut"]


@pytest.mark.parametrize("ends_with_stream", [True, False])
def test_a_status_before_the_start_is_the_first_of_its_response(ends_with_stream: bool) -> None:
    """With its stream a response ends there alone; without, what follows its completion is another response."""
    timeline = Timeline(ends_with_stream=ends_with_stream)
    scopes = play(timeline, COMPLETED, TextDelta(0, "a"), STARTED)
    begun_anew = "the response has begun anew"
    assert scopes.scopes == [[TextDelta(0, "a"), TextBlockAbort(0, begun_anew)]]
    assert scopes.reasons == [begun_anew] * ends_with_stream


def test_a_block_before_the_first_status_goes_on_and_a_second_start_aborts_it() -> None:
    start, one, two, three = BlockStart(0, BlockType.TEXT), TextDelta(0, "1"), TextDelta(0, "2"), TextDelta(0, "3")
    begun_anew = "the response has begun anew"
    scopes = play(Timeline(), AttemptStart(), start, one, STARTED, two, STARTED, three, AttemptStart(), STARTED)
    assert scopes.scopes == [
        [TextBlockStart(0), one, two, TextBlockAbort(0, begun_anew)],
        [three, TextBlockAbort(0, "the response is requested again")],
    ]
    assert scopes.reasons == [begun_anew]


def test_a_response_that_is_cancelled_is_not_retracted_by_the_next() -> None:
    timeline = Timeline(ends_with_stream=True)
    statuses: list[object] = []
    timeline.on_status(statuses.append)
    scopes = play(timeline, STARTED, TextDelta(0, "a"))
    timeline.cancel("enough")
    timeline.dispatch(STARTED)
    assert scopes.scopes == [[TextDelta(0, "a"), TextBlockAbort(0, "enough")]]
    assert statuses == [STARTED, Status(ResponseStatus.CANCELLED), STARTED]
    assert scopes.reasons == []


block_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(BlockStart, st.integers(0, 2), st.sampled_from([BlockType.TEXT, BlockType.THINKING, BlockType.IMAGE])),
    st.builds(TextDelta, st.integers(0, 2), st.just("a")),
    st.builds(ThinkingDelta, st.integers(0, 2), st.just("b")),
    st.builds(BlockStop, st.integers(0, 2), st.sampled_from([BlockType.TEXT, BlockType.THINKING])),
    st.builds(BlockAbort, st.integers(0, 2), st.just(BlockType.TEXT)),
)
other_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Status, st.sampled_from([ResponseStatus.STARTED, ResponseStatus.COMPLETED])),
    st.sampled_from([Usage(1), AttemptStart(), AttemptRetract("cut")]),
)


def check(events: Sequence[Event]) -> None:
    timeline = Timeline()
    scopes = play(timeline, *events)
    timeline.abort_current_block("over")
    for scope in scopes.scopes:
        assert all(isinstance(event, TextBlockStart) == (place == 0) for place, event in enumerate(scope) if place)
        assert all(not isinstance(event, ThinkingDelta) for event in scope)
        ends = [isinstance(event, TextBlockStop | TextBlockAbort) for event in scope]
        assert ends == [*[False] * (len(scope) - 1), True]


@given(st.lists(st.one_of(block_events, block_events, other_events), max_size=30))
def test_a_scope_has_the_events_of_one_block_from_its_first_to_its_last(events: list[Event]) -> None:
    check(events)


def test_a_scope_has_the_events_of_one_block_of_a_recording_that_is_requested_again(recording: Path) -> None:
    events: list[Event] = [*decoded(provider_of(recording), recording.read_bytes())]
    half = events[: len(events) // 2]
    check([AttemptStart(), *half, AttemptRetract("cut"), AttemptStart(), *half, *events])
