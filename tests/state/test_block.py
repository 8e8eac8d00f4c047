"""`step_block` and `content_of`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import (
    BlockAbort,
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    InputJsonDelta,
    InputValueDelta,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
)
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.messages import (
    Content,
    Image,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    StopKind,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rxworker.state import BlockState, content_of, step_block

T = BlockType
LOOK = ToolUseMetadata("1", "look")
FOUND = ToolResultMetadata("1", "search_result")


def fold(*events: BlockEvent) -> BlockState:
    state: BlockState | None = None
    for event in events:
        state = step_block(state, event)
    assert state is not None
    return state


def whole(block_type: BlockType, *deltas: BlockEvent, metadata: BlockMetadata | None = None) -> Content | None:
    return content_of(fold(BlockStart(0, block_type, metadata), *deltas, BlockStop(0, block_type)))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (whole(T.TEXT, TextDelta(0, "he"), TextDelta(0, "llo")), Text("hello")),
        (whole(T.TEXT, TextDelta(0, "")), None),
        (
            whole(T.TEXT, TextDelta(0, "x"), CitationDelta(0, {"n": 1}), CitationDelta(0, {"n": 2})),
            Text("x", ({"n": 1}, {"n": 2})),
        ),
        (
            whole(T.THINKING, ThinkingDelta(0, "hm"), SignatureDelta(0, "a"), SignatureDelta(0, "b")),
            Thinking("hm", "b"),
        ),
        (whole(T.THINKING, SignatureDelta(0, "s")), Thinking("", "s")),
        (whole(T.THINKING), None),
        (whole(T.REFUSAL, RefusalDelta(0, "no")), Refusal("no")),
        (whole(T.REFUSAL), None),
        (whole(T.TOOL_USE, metadata=LOOK), ToolCall("1", "look", {})),
        (
            whole(T.TOOL_USE, InputJsonDelta(0, '{"a'), InputJsonDelta(0, '":1}'), metadata=LOOK),
            ToolCall("1", "look", {"a": 1}),
        ),
        (whole(T.TOOL_USE, InputJsonDelta(0, '{"a":'), metadata=LOOK), ToolCall("1", "look", '{"a":')),
        (
            whole(
                T.TOOL_USE,
                InputValueDelta(0, "$.a[0]", "x"),
                InputValueDelta(0, "$.a[0]", "y", append=True),
                metadata=LOOK,
            ),
            ToolCall("1", "look", {"a": ["xy"]}),
        ),
        (whole(T.TOOL_RESULT, TextDelta(0, "9"), metadata=FOUND), ToolResult("1", "9", name="search_result")),
        (whole(T.SERVER_TOOL_USE, metadata=LOOK), ServerToolCall("1", "look")),
        (whole(T.SERVER_TOOL_USE, InputJsonDelta(0, '{"q":1}'), metadata=LOOK), ServerToolCall("1", "look", {"q": 1})),
        (whole(T.SERVER_TOOL_USE, InputJsonDelta(0, "[1]"), metadata=LOOK), ServerToolCall("1", "look", [1])),
        (whole(T.SERVER_TOOL_RESULT, metadata=FOUND), ServerToolResult("1", "search_result")),
        (whole(T.IMAGE), Image()),
        (whole(T.OPAQUE, metadata=OpaqueMetadata("fallback")), OpaqueBlock("fallback")),
        (whole(T.TOOL_USE), ToolCall("", "", {})),
    ],
)
def test_a_whole_block_makes_its_content(content: Content | None, expected: Content | None) -> None:
    assert content == expected


@pytest.mark.parametrize("end", [[], [BlockAbort(0, T.TEXT, "cut")]])
def test_of_a_block_that_is_not_whole_only_text_and_refusal_are_kept(end: list[BlockEvent]) -> None:
    assert content_of(fold(TextDelta(0, "hel"), *end)) == Text("hel")
    assert content_of(fold(RefusalDelta(0, "no"), *end)) == Refusal("no")
    assert content_of(fold(TextDelta(0, ""), *end)) is None
    assert content_of(fold(ThinkingDelta(0, "hm"), *end)) is None
    assert content_of(fold(InputJsonDelta(0, "{}"), *end)) is None
    for block_type in (T.SERVER_TOOL_USE, T.SERVER_TOOL_RESULT, T.IMAGE, T.OPAQUE, T.TOOL_RESULT):
        assert content_of(fold(BlockStart(0, block_type), *end)) is None


def test_the_stops_echo_comes_over_the_starts() -> None:
    state = fold(BlockStart(0, T.OPAQUE, echo={"a": 1, "b": 1}), BlockStop(0, T.OPAQUE, echo={"b": 2}))
    assert state.echo == {"a": 1, "b": 2}
    assert content_of(state) == OpaqueBlock("", {"a": 1, "b": 2})


def test_an_empty_text_with_an_echo_is_kept() -> None:
    state = fold(BlockStart(0, T.TEXT), BlockStop(0, T.TEXT, echo={"thoughtSignature": "s"}))
    assert content_of(state) == Text("", echo={"thoughtSignature": "s"})


def test_deltas_that_do_not_belong_into_the_block_change_nothing() -> None:
    tool = fold(BlockStart(0, T.TOOL_USE, LOOK))
    for delta in (TextDelta(0, "x"), ThinkingDelta(0, "x"), RefusalDelta(0, "x")):
        assert step_block(tool, delta) == tool
    text = fold(BlockStart(0, T.TEXT))
    for delta in (InputJsonDelta(0, "x"), InputValueDelta(0, "$.a", 1)):
        assert step_block(text, delta) == text


def test_a_start_begins_another_block() -> None:
    start = BlockStart(0, T.TOOL_USE, LOOK)
    assert fold(InputJsonDelta(0, "{"), start) == fold(start)


def test_a_step_leaves_the_state_it_is_given_as_it_was() -> None:
    before = fold(TextDelta(0, "a"))
    step_block(before, TextDelta(0, "b"))
    assert before == fold(TextDelta(0, "a"))


def test_the_end_is_remembered() -> None:
    reason = StopReason(StopKind.END_TURN)
    assert fold(TextDelta(0, "a"), BlockStop(0, T.TEXT, reason)).stop_reason == reason
    aborted = fold(TextDelta(0, "a"), BlockAbort(0, T.TEXT, "cut"))
    assert (aborted.phase, aborted.reason) == ("aborted", "cut")


@given(st.lists(st.text(max_size=3), max_size=20))
def test_deltas_concatenate_to_the_block(pieces: list[str]) -> None:
    text = "".join(pieces)
    deltas = [TextDelta(0, piece) for piece in pieces]
    assert whole(T.TEXT, *deltas) == (Text(text) if text else None)


def test_a_long_block_is_joined_and_let_go_without_trouble() -> None:
    deltas = 200_000
    state = fold(BlockStart(0, T.TEXT), *[TextDelta(0, "word")] * deltas, BlockStop(0, T.TEXT))
    assert content_of(state) == Text("word" * deltas)
