"""`tool_calls`: the calls of a response as its message has them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    InputValueDelta,
    ResponseStatus,
    Status,
    TextDelta,
    ToolUseMetadata,
)
from rxworker.messages import ToolCall
from rxworker.operators import tool_calls
from rxworker.state.response import fold_response, message_of
from tests.decoded import decoded
from tests.over_recordings import provider_of, pytest_generate_tests
from tests.seen import through

__all__ = ["pytest_generate_tests"]


def made(events: list[Event]) -> list[ToolCall]:
    return through(events, tool_calls())


def of_the_message(events: list[Event]) -> list[ToolCall]:
    message = message_of(fold_response(events), "")
    return [] if message is None else list(message.tool_calls)


def in_any_order(calls: list[ToolCall]) -> list[str]:
    return sorted(repr(call) for call in calls)


def test_a_recorded_response_has_the_calls_of_its_message(recording: Path) -> None:
    events: list[Event] = [*decoded(provider_of(recording), recording.read_bytes())]
    assert in_any_order(made(events)) == in_any_order(of_the_message(events))


EVENTS = st.integers(0, 2).flatmap(
    lambda index: st.sampled_from(
        [
            BlockStart(index, BlockType.TOOL_USE, ToolUseMetadata(f"id{index}", "look")),
            BlockStart(index, BlockType.TOOL_USE, ToolUseMetadata(f"id{index}", "look"), choice=1),
            BlockStart(index, BlockType.TEXT),
            InputJsonDelta(index, '{"a": '),
            InputJsonDelta(index, "1}"),
            InputValueDelta(index, "$.b", 2),
            TextDelta(index, "text"),
            BlockStop(index, BlockType.TOOL_USE),
            BlockAbort(index, BlockType.TOOL_USE, "cut"),
        ]
    )
)


@given(st.lists(EVENTS, max_size=20))
def test_any_response_has_the_calls_of_its_message(some: list[Event]) -> None:
    events = [Status(ResponseStatus.STARTED), *some, Status(ResponseStatus.COMPLETED)]
    assert in_any_order(made(events)) == in_any_order(of_the_message(events))


def test_calls_come_in_the_order_in_which_their_blocks_stop() -> None:
    events = [
        BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("a", "look")),
        BlockStart(1, BlockType.TOOL_USE, ToolUseMetadata("b", "look")),
        BlockStop(1, BlockType.TOOL_USE),
        BlockStop(0, BlockType.TOOL_USE),
    ]
    assert [call.id for call in made([*events])] == ["b", "a"]


def test_calls_of_other_choices_and_of_blocks_that_are_aborted_are_left_out() -> None:
    other = BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("a", "look"), choice=1)
    cut = BlockStart(1, BlockType.TOOL_USE, ToolUseMetadata("b", "look"))
    events = [other, cut, BlockStop(0, BlockType.TOOL_USE), BlockAbort(1, BlockType.TOOL_USE, "")]
    assert made([*events]) == []
