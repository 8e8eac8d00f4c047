"""The built-in collectors."""

from __future__ import annotations

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    InputValueDelta,
    TextDelta,
    ToolUseMetadata,
)
from rxworker.messages import Json, ToolCall
from rxworker.timeline import TextBlockCollector, Timeline, ToolCallCollector

T = BlockType


def texts_of(*events: Event) -> TextBlockCollector:
    timeline, texts = Timeline(), TextBlockCollector()
    timeline.on_text_block(texts)
    for event in events:
        timeline.dispatch(event)
    return texts


def input_of(*deltas: Event) -> Json:
    timeline, calls = Timeline(), ToolCallCollector()
    timeline.on_tool_use_block(calls)
    timeline.dispatch(BlockStart(0, T.TOOL_USE, ToolUseMetadata("1", "look")))
    for delta in deltas:
        timeline.dispatch(delta)
    timeline.dispatch(BlockStop(0, T.TOOL_USE))
    (call,) = calls.take_collected()
    assert (call.id, call.name) == ("1", "look")
    return call.input


def test_texts_are_collected_block_by_block() -> None:
    texts = texts_of(
        TextDelta(0, "he"), TextDelta(1, "x"), TextDelta(0, "llo"), BlockStop(0, T.TEXT), BlockStop(1, T.TEXT)
    )
    assert texts.has_content()
    assert texts.collected() == ["hello", "x"]
    assert texts.take_collected() == ["hello", "x"]
    assert texts.take_collected() == []
    assert not texts.has_content()


def test_empty_open_and_aborted_texts_are_not_collected() -> None:
    texts = texts_of(
        BlockStart(0, T.TEXT),
        BlockStop(0, T.TEXT),
        TextDelta(1, "open"),
        TextDelta(2, "aborted"),
        BlockAbort(2, T.TEXT),
    )
    assert texts.collected() == []


def test_a_start_behind_a_delta_begins_anew() -> None:
    texts = texts_of(TextDelta(0, "a"), BlockStart(0, T.TEXT), TextDelta(0, "b"), BlockStop(0, T.TEXT))
    assert texts.collected() == ["b"]


def test_clearing_forgets() -> None:
    texts = texts_of(TextDelta(0, "a"), BlockStop(0, T.TEXT))
    texts.clear()
    assert not texts.has_content()


def test_a_call_is_collected_with_its_input() -> None:
    assert input_of(InputJsonDelta(0, '{"a"'), InputJsonDelta(0, ": 1}")) == {"a": 1}
    assert input_of(InputValueDelta(0, "$.a", 1)) == {"a": 1}


def test_no_text_means_no_arguments() -> None:
    assert input_of() == {}
    assert input_of(InputJsonDelta(0, "")) == {}


def test_text_that_cannot_be_read_is_distinguished_from_arguments() -> None:
    assert input_of(InputJsonDelta(0, '{"a": ')) == '{"a": '


def test_calls_wait_to_be_taken() -> None:
    timeline, calls = Timeline(), ToolCallCollector()
    timeline.on_tool_use_block(calls)
    assert not calls.has_pending_calls()
    timeline.dispatch(BlockStart(0, T.TOOL_USE, ToolUseMetadata("1", "look")))
    timeline.dispatch(BlockAbort(0, T.TOOL_USE))
    assert not calls.has_pending_calls()
    timeline.dispatch(BlockStop(1, T.TOOL_USE, metadata=ToolUseMetadata("2", "hear")))
    assert calls.has_pending_calls()
    assert calls.collected() == [ToolCall("2", "hear", {})]
    calls.clear()
    assert not calls.has_pending_calls()
