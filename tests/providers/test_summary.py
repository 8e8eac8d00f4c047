"""A response in one value."""

from __future__ import annotations

from rxworker.cli.decode import account_json
from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockType,
    Error,
    InputJsonDelta,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.meta import TRUNCATED
from rxworker.messages import StopKind, StopReason
from rxworker.providers import OpenAIChat
from rxworker.providers.takes import made_id
from rxworker.views import summarise


def test_nothing_is_an_empty_summary() -> None:
    assert account_json(summarise([]), OpenAIChat("m")) == {
        "text": "",
        "thinking": "",
        "tool_calls": [],
        "stop_reason": None,
        "usage": {"input_tokens": None, "output_tokens": None, "cache_read": None, "cache_creation": None},
        "error": None,
        "truncated": False,
    }


def test_calls_have_their_arguments_or_their_results() -> None:
    events: list[ResponseEvent] = []
    for index, text in enumerate(["", '{"a": 1}', '{"a']):
        metadata = ToolUseMetadata(made_id() if index == 0 else f"c{index}", "f")
        events.append(BlockStart(index, BlockType.TOOL_USE, metadata))
        events.append(InputJsonDelta(index, text))
    events.append(BlockAbort(2, BlockType.TOOL_USE))
    summary = summarise(events)
    assert [call.aborted for call in summary.tool_calls] == [False, False, True]
    assert account_json(summary, OpenAIChat("m"))["tool_calls"] == [
        {"id": None, "name": "f", "input": {}},
        {"id": "c1", "name": "f", "input": {"a": 1}},
        {"id": "c2", "name": "f", "input": {"__invalid_json__": '{"a'}},
    ]


def test_a_second_start_retracts_what_came_before() -> None:
    summary = summarise(
        [
            Status(ResponseStatus.STARTED, "1"),
            BlockStart(0, BlockType.TEXT),
            TextDelta(0, "old"),
            Usage(1, 1),
            Status(ResponseStatus.STARTED, "2"),
            BlockStart(0, BlockType.TEXT),
            TextDelta(0, "new"),
        ]
    )
    assert (summary.text, summary.response_id, summary.usage) == ("new", "2", None)


def test_only_the_first_choice_is_reported() -> None:
    events = [BlockStart(0, BlockType.TEXT, choice=1), TextDelta(0, "other", 1)]
    assert summarise(events).text == ""


def test_a_truncated_stream_is_not_an_error_of_the_providers() -> None:
    cut = summarise([Error(TRUNCATED, "cut"), Status(ResponseStatus.FAILED)])
    assert (cut.truncated, cut.error) == (True, None)
    failed = summarise([Error("x", "m"), Status(ResponseStatus.FAILED)])
    assert account_json(failed, OpenAIChat("m"))["error"] == {"code": "x", "message": "m"}


def test_the_stop_reason_is_shown_with_its_kind() -> None:
    reason = StopReason(StopKind.MAX_TOKENS, "length")
    summary = summarise([Status(ResponseStatus.COMPLETED, stop_reason=reason)])
    shown = account_json(summary, OpenAIChat("m"))["stop_reason"]
    assert shown == {"kind": "MaxTokens", "raw": "length"}
