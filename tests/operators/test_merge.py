"""`merge_deltas`: the same story in fewer events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import (
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    InputJsonDelta,
    InputValueDelta,
    Ping,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from rxworker.operators import merge_deltas
from rxworker.state import BlockState, content_of, step_block

A = TextDelta(0, "a")
B = TextDelta(0, "b")


def test_neighbours_become_one() -> None:
    assert merge_deltas([A, B, A]) == [TextDelta(0, "aba")]


def test_other_blocks_choices_kinds_and_events_stand_between() -> None:
    for other in (
        TextDelta(1, "x"),
        TextDelta(0, "x", choice=1),
        ThinkingDelta(0, "x"),
        Ping(),
        BlockStop(0, BlockType.TEXT),
    ):
        assert merge_deltas([A, other, B]) == [A, other, B]


def test_each_kind_of_text_merges_and_keeps_its_choice() -> None:
    assert merge_deltas([ThinkingDelta(0, "a", 1), ThinkingDelta(0, "b", 1)]) == [ThinkingDelta(0, "ab", 1)]
    assert merge_deltas([RefusalDelta(0, "a"), RefusalDelta(0, "b")]) == [RefusalDelta(0, "ab")]
    assert merge_deltas([InputJsonDelta(0, "a"), InputJsonDelta(0, "b")]) == [InputJsonDelta(0, "ab")]


def test_values_merge_only_where_text_is_appended_at_the_same_path() -> None:
    first = InputValueDelta(0, "$.a", "x")
    more = InputValueDelta(0, "$.a", "y", append=True)
    assert merge_deltas([first, more]) == [InputValueDelta(0, "$.a", "xy")]
    for other in (
        InputValueDelta(0, "$.a", "y"),
        InputValueDelta(0, "$.b", "y", append=True),
        InputValueDelta(1, "$.a", "y", append=True),
        InputValueDelta(0, "$.a", 1),
    ):
        assert merge_deltas([first, other]) == [first, other]


def test_signatures_stay() -> None:
    signatures = [SignatureDelta(0, "a"), SignatureDelta(0, "b")]
    assert merge_deltas(signatures) == signatures


def test_nothing_stays_nothing() -> None:
    assert merge_deltas([]) == []


deltas = st.one_of(
    st.builds(TextDelta, st.just(0), st.text(max_size=2)),
    st.builds(ThinkingDelta, st.just(0), st.text(max_size=2)),
    st.builds(InputJsonDelta, st.just(0), st.sampled_from(["{", "}", '"a"', ":1", ""])),
    st.builds(
        InputValueDelta,
        st.just(0),
        st.sampled_from(["$.a", "$.b[0]"]),
        st.text(max_size=2) | st.integers(0, 9),
        st.booleans(),
    ),
    st.builds(SignatureDelta, st.just(0), st.text(max_size=2)),
)


@given(st.sampled_from([BlockType.TEXT, BlockType.THINKING, BlockType.TOOL_USE]), st.lists(deltas, max_size=20))
def test_a_block_comes_to_the_same(block_type: BlockType, middle: list[BlockEvent]) -> None:
    events: list[BlockEvent] = [BlockStart(0, block_type), *middle, BlockStop(0, block_type)]
    merged = merge_deltas(events)
    assert len(merged) <= len(events)
    assert content_of(fold(merged)) == content_of(fold(events))


def fold(events: list[BlockEvent]) -> BlockState:
    state: BlockState | None = None
    for event in events:
        state = step_block(state, event)
    assert state is not None
    return state
