"""`step_response` and `message_of`."""

from __future__ import annotations

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    Opaque,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.block import ToolResultMetadata
from rxworker.messages import Message, ServerToolCall, ServerToolResult, StopKind, StopReason, Text, ToolCall
from rxworker.state import ResponseState, message_of, step_response

T = BlockType
STARTED = Status(ResponseStatus.STARTED, "resp_1", "model-1")
END = StopReason(StopKind.END_TURN)
COMPLETED = Status(ResponseStatus.COMPLETED, stop_reason=END)
FAILED = Status(ResponseStatus.FAILED)


def fold(*events: ResponseEvent) -> ResponseState:
    state = ResponseState()
    for event in events:
        state = step_response(state, event)
    return state


def text(index: int, said: str, choice: int = 0) -> list[ResponseEvent]:
    return [BlockStart(index, T.TEXT, choice=choice), TextDelta(index, said, choice), BlockStop(index, T.TEXT)]


def test_a_response_becomes_a_message() -> None:
    state = fold(STARTED, Usage(1, 2), *text(0, "hello"), Usage(1, 5), COMPLETED)
    assert message_of(state, "acme") == Message("assistant", (Text("hello"),), "acme", "model-1")
    assert (state.usage, state.stop_reason, state.response_id) == (Usage(1, 5), END, "resp_1")
    assert state.is_over


def test_blocks_stand_in_the_order_of_their_index() -> None:
    overlapping: list[ResponseEvent] = [
        BlockStart(0, T.TEXT),
        BlockStart(1, T.TOOL_USE, ToolUseMetadata("1", "look")),
        BlockStop(1, T.TOOL_USE),
        TextDelta(0, "first"),
        BlockStop(0, T.TEXT),
    ]
    message = message_of(fold(STARTED, *overlapping, COMPLETED), "")
    assert message is not None
    assert message.content == (Text("first"), ToolCall("1", "look", {}))


def test_only_the_first_choice_is_the_message() -> None:
    message = message_of(fold(*text(0, "one"), *text(1, "two", choice=1)), "acme")
    assert message is not None
    assert message.text == "one"


def test_a_second_start_takes_everything_back() -> None:
    state = fold(STARTED, *text(0, "old"), Usage(9, 9), TextDelta(1, "open"), STARTED, *text(0, "new"))
    assert state.usage is None
    assert [block.index for block in state.blocks] == [0]
    message = message_of(state, "acme")
    assert message is not None
    assert message.text == "new"


def test_what_came_before_the_first_start_stays() -> None:
    assert fold(Usage(1), STARTED).usage == Usage(1)


def test_a_response_that_is_not_whole_keeps_its_text() -> None:
    state = fold(STARTED, TextDelta(0, "hel"), ThinkingDelta(1, "hm"))
    assert [block.phase for block in state.blocks] == ["open", "open"]
    message = message_of(state, "acme")
    assert message is not None
    assert message.content == (Text("hel"),)


def test_nothing_worth_keeping_is_not_a_message() -> None:
    assert message_of(fold(STARTED, BlockStart(0, T.TEXT), BlockAbort(0, T.TEXT), FAILED), "") is None


def test_an_error_is_remembered() -> None:
    error = Error("overloaded", "later")
    state = fold(STARTED, error, FAILED)
    assert (state.error, state.status) == (error, ResponseStatus.FAILED)


def test_other_events_change_nothing() -> None:
    state = fold(STARTED)
    assert step_response(state, Opaque("x")) is state


def test_of_a_cut_response_the_providers_own_calls_stay_only_with_their_result() -> None:
    def search(index: int, call_id: str) -> list[ResponseEvent]:
        return [
            BlockStart(index, T.SERVER_TOOL_USE, ToolUseMetadata(call_id, "search")),
            BlockStop(index, T.SERVER_TOOL_USE),
        ]

    result: list[ResponseEvent] = [
        BlockStart(1, T.SERVER_TOOL_RESULT, ToolResultMetadata("a")),
        BlockStop(1, T.SERVER_TOOL_RESULT),
    ]
    events = [*search(0, "a"), *result, *search(2, "b")]
    cut, whole = message_of(fold(*events, FAILED), ""), message_of(fold(*events, COMPLETED), "")
    assert cut is not None
    assert cut.content == (ServerToolCall("a", "search"), ServerToolResult("a"))
    assert whole is not None
    assert len(whole.content) == 3
