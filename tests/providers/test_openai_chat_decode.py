"""The rules of the Chat Completions stream and its dialects that the recordings alone do not hold down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Error,
    InputJsonDelta,
    Opaque,
    RefusalDelta,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.framing import SseDecoder
from rxworker.framing.sse import SseFrame
from rxworker.messages import Conversation, Image, JsonObject, Message, StopKind, StopReason, Text
from rxworker.providers import OpenAIChat
from rxworker.providers.base import Options
from rxworker.providers.batch_decoder import BatchDecoder
from rxworker.providers.openai_chat import OpenAIChatDecoder
from rxworker.testing import check_balanced
from rxworker.views import summarise
from tests.decoded import answer_of
from tests.numbered_ids import numbered_ids

DONE = "[DONE]"


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, index: int = 0, **more: Any
) -> dict[str, Any]:
    choice = {"index": index, "delta": delta or {}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "model": "m", "choices": [choice], **more}


def tool(**piece: Any) -> dict[str, Any]:
    return chunk({"tool_calls": [piece]})


@numbered_ids()
def decode(*messages: dict[str, Any] | str, event: str = "message") -> list[ResponseEvent]:
    decoder = OpenAIChatDecoder()
    events: list[ResponseEvent] = []
    for message in messages:
        data = message if isinstance(message, str) else json.dumps(message)
        events += decoder.feed(SseFrame(data.encode(), event if data == messages[-1] else "message"))
    return [*events, *decoder.finish()]


def calls(*pieces: dict[str, Any], finish: str = "tool_calls") -> list[tuple[str | None, str, Any]]:
    summary = summarise(decode(*pieces, chunk(finish=finish), DONE))
    return [(call.id, call.name, call.input) for call in summary.tool_calls]


def test_a_response_from_start_to_end() -> None:
    usage: JsonObject = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    assert decode(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "He"}),
        chunk({"content": "y"}),
        chunk(finish="stop"),
        {"id": "chatcmpl-1", "choices": [], "usage": usage},
        DONE,
        chunk({"content": "late"}),
    ) == [
        Status(ResponseStatus.STARTED, "chatcmpl-1", "m"),
        BlockStart(0, BlockType.TEXT),
        TextDelta(0, "He"),
        TextDelta(0, "y"),
        BlockStop(0, BlockType.TEXT),
        Usage(5, 2, 4, None, None, usage),
        Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.END_TURN, "stop")),
    ]


@pytest.mark.parametrize(
    ("delta", "raw", "expected"),
    [
        ({"content": "a"}, "stop", StopReason(StopKind.END_TURN, "stop")),
        ({"content": "a"}, "length", StopReason(StopKind.MAX_TOKENS, "length")),
        ({"content": "a"}, "model_length", StopReason(StopKind.MAX_TOKENS, "model_length")),
        ({"content": "a"}, "content_filter", StopReason(StopKind.CONTENT_FILTER, "content_filter")),
        ({"content": "a"}, "brand_new", StopReason(StopKind.OTHER, "brand_new")),
        ({"refusal": "no"}, "stop", StopReason(StopKind.REFUSAL, "stop")),
        ({"function_call": {"name": "f"}}, "function_call", StopReason(StopKind.TOOL_USE, "function_call")),
        ({"tool_calls": [{"id": "a", "function": {"name": "f"}}]}, "stop", StopReason(StopKind.TOOL_USE, "stop")),
        ({"content": "a"}, None, None),
        ({"tool_calls": [{"id": "a", "function": {"name": "f"}}]}, None, StopReason(StopKind.TOOL_USE)),
    ],
)
def test_each_finish_reason_has_its_normal_form(
    delta: dict[str, Any], raw: str | None, expected: StopReason | None
) -> None:
    end = decode(chunk(delta, raw), DONE)[-1]
    assert end == Status(ResponseStatus.COMPLETED, stop_reason=expected)


def test_a_stop_sequence_is_reported_where_the_server_reports_it() -> None:
    message = chunk({"content": "a"}, "stop")
    message["choices"][0]["stop_reason"] = "END"
    status = decode(message, DONE)[-1]
    assert isinstance(status, Status)
    assert status.stop_reason == StopReason(StopKind.STOP_SEQUENCE, "stop", "END")


def part(index: int | None, id: str | None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:  # noqa: A002
    """A piece of a call; what is ``None`` is absent."""
    function = {"name": name, "arguments": arguments}
    members = {"index": index, "id": id, "function": {key: it for key, it in function.items() if it is not None}}
    return tool(**{key: it for key, it in members.items() if it is not None})


def with_reason(part: dict[str, Any], finish: str) -> dict[str, Any]:
    return chunk(part["choices"][0]["delta"], finish)


OF_OLD = [chunk({"function_call": {"name": "f", "arguments": "{"}}), chunk({"function_call": {"arguments": "}"}})]
X1: list[tuple[str | None, str, Any]] = [("a", "f", {"x": 1})]
# What is odd about the pieces, the pieces, and the calls that they make.
DIALECTS: dict[str, tuple[list[dict[str, Any]], list[tuple[str | None, str, Any]]]] = {
    "an empty id does not overwrite": ([part(0, "a", "f", '{"x"'), part(0, "", None, ":1}")], X1),
    "id and name again": ([part(0, "a", "f", '{"x"'), part(0, "a", "f", ":1}")], X1),
    "the index starts at 1": ([part(1, "a", "f", "{}")], [("a", "f", {})]),
    "index 0 for every call": ([part(0, "a", "f", "{}"), part(0, "b", "f", "{}")], [("a", "f", {}), ("b", "f", {})]),
    "no index": (
        [part(None, "a", "f", '{"x"'), part(None, None, None, ":1}"), part(None, "b", "g", "{}")],
        [*X1, ("b", "g", {})],
    ),
    "no index, alternating ids": (
        [part(None, "a", "f", '{"x"'), part(None, "b", "g", "{}"), part(None, "a", None, ":1}")],
        [*X1, ("b", "g", {})],
    ),
    "whole calls without ids, arguments as an object": (
        [part(0, None, "f", '{"x": 1}'), part(0, None, "f", {"x": 2})],
        [(None, "f", {"x": 1}), (None, "f", {"x": 2})],
    ),
    "the name comes late": ([part(0, "a", None, '{"x"'), part(0, None, "f", ":1}")], X1),
    "an empty finish reason with every piece": (
        [with_reason(part(None, "a", "f", '{"x"'), ""), with_reason(part(None, None, None, ":1}"), "")],
        X1,
    ),
    "whole calls that share an id": (
        [part(None, "a", "f", '{"x": 1}'), part(None, "a", "f", '{"x": 2}')],
        [*X1, ("a", "f", {"x": 2})],
    ),
    "id and name again, and a piece that is whole by itself": (
        [part(None, "a", "f", '{"x":'), part(None, "a", "f", "{}"), part(None, "a", "f", "}")],
        [("a", "f", {"x": {}})],
    ),
    "a new id and the name with every piece": (
        [
            part(0, "a", "f", '{"x": "}'),
            part(0, "b", "f", '\\"", "y": '),
            part(0, "c", "f", "{}"),
            part(0, "d", "f", "}"),
        ],
        [("a", "f", {"x": '}"', "y": {}})],
    ),
    "the same, the first without arguments": ([part(0, "a", "f", ""), part(0, "b", "f", '{"x": 1}')], X1),
    "two calls like that": (
        [part(0, "a", "f", '{"x"'), part(0, "b", "f", ":1}"), part(0, "c", "f", '{"x"'), part(0, "d", "f", ":2}")],
        [*X1, ("c", "f", {"x": 2})],
    ),
    "index 0 for every call, some without arguments": (
        [part(0, "a", "f", ""), part(0, "b", "f", ""), part(0, "c", "g", '{"x":'), part(0, None, None, "1}")],
        [("a", "f", {}), ("b", "f", {}), ("c", "g", {"x": 1})],
    ),
    "arguments that are not an object": ([part(0, "a", "f", ["x"])], [("a", "f", ["x"])]),
    "no arguments": ([part(0, "a", "f")], [("a", "f", {})]),
    "the function call of old": (OF_OLD, [(None, "f", {})]),
}


@pytest.mark.parametrize("odd", DIALECTS)
def test_calls_are_distinguished(odd: str) -> None:
    pieces, expected = DIALECTS[odd]
    assert calls(*pieces) == expected


def test_made_ids_are_unique() -> None:
    events = decode(
        tool(index=0, function={"name": "f", "arguments": "{}"}),
        tool(index=1, function={"name": "f", "arguments": "{}"}),
        DONE,
    )
    starts = [e.metadata for e in events if isinstance(e, BlockStart)]
    assert starts == [ToolUseMetadata("rxw_1", "f"), ToolUseMetadata("rxw_2", "f")]


def test_calls_of_two_choices_with_one_index_are_kept_apart() -> None:
    def piece(text: str, index: int, **more: Any) -> dict[str, Any]:
        function = {"arguments": text, **more}
        return chunk(
            {"tool_calls": [{"index": 0, "id": str(index) if more else None, "function": function}]}, index=index
        )

    events = decode(
        piece("{", 0, name="f"),
        piece("[", 1, name="g"),
        piece("}", 0),
        piece("]", 1),
        chunk(finish="tool_calls"),
        chunk(finish="tool_calls", index=1),
        DONE,
    )
    texts = [(e.index, e.text) for e in events if isinstance(e, InputJsonDelta)]
    assert texts == [(0, "{"), (1, "["), (0, "}"), (1, "]")]
    stops = [e.stop_reason for e in events if isinstance(e, BlockStop)]
    assert stops == [None, StopReason(StopKind.TOOL_USE, "tool_calls")]


WHOLE = {"name": "f", "arguments": '{"a": 1}'}


@pytest.mark.parametrize("raw", ["eos", "tool_call", "COMPLETE", "stop_sequence", "brand_new"])
def test_whole_calls_run_also_under_an_unknown_reason(raw: str) -> None:
    events = decode(tool(index=0, id="a", function=WHOLE), chunk(finish=raw), DONE)
    assert isinstance(events[-2], BlockStop)
    assert events[-1] == Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.TOOL_USE, raw))


@pytest.mark.parametrize("order", [1, -1])
def test_of_calls_under_an_unknown_reason_none_runs_if_one_is_cut(order: int) -> None:
    pieces = [tool(index=0, id="a", function=WHOLE), tool(index=1, id="b", function={"name": "f", "arguments": '{"a'})]
    end = [chunk(finish="brand_new"), chunk(finish="brand_new"), DONE]
    events = decode(*pieces[::order], *end)
    assert not any(isinstance(event, BlockStop) for event in events)
    assert events[-1] == Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.OTHER, "brand_new"))


@pytest.mark.parametrize(
    ("raw", "native", "kind"),
    [
        ("tool_calls", "max_output_tokens", StopKind.MAX_TOKENS),
        ("tool_calls", "length", StopKind.MAX_TOKENS),
        ("stop", "MAX_TOKENS", StopKind.MAX_TOKENS),
        ("tool_calls", "MALFORMED_FUNCTION_CALL", StopKind.MALFORMED),
        ("tool_calls", "tool_use", StopKind.TOOL_USE),
        ("tool_calls", "completed", StopKind.TOOL_USE),
        ("tool_calls", None, StopKind.TOOL_USE),
        ("tool_calls", 3, StopKind.TOOL_USE),
    ],
)
def test_the_native_reason_shows_that_a_call_was_cut(raw: str, native: Any, kind: StopKind) -> None:
    last = chunk(finish=raw)
    last["choices"][0]["native_finish_reason"] = native
    events = decode(tool(index=0, id="a", function=WHOLE), last, DONE)
    cut = kind is not StopKind.TOOL_USE
    assert isinstance(events[-2], BlockAbort if cut else BlockStop)
    expected = StopReason(kind, raw, native if cut else None)
    assert events[-1] == Status(ResponseStatus.COMPLETED, stop_reason=expected)


def test_a_reason_that_promises_calls_of_which_none_comes_is_malformed() -> None:
    expected = StopReason(StopKind.MALFORMED, "tool_calls")
    end = decode(chunk({"content": "a"}, "tool_calls"), DONE)[-1]
    assert end == Status(ResponseStatus.COMPLETED, stop_reason=expected)


@pytest.mark.parametrize("cut", range(5))
def test_arguments_of_null_are_not_arguments(cut: int) -> None:
    """Groq writes them so where a tool has no parameters, also of several calls under one index."""
    pieces = [
        tool(index=0, id="a", function={"name": "f", "arguments": "null"[:cut]}),
        tool(index=0, function={"arguments": "null"[cut:]}),
        tool(index=0, id="b", function={"name": "f", "arguments": "null"}),
    ]
    message = answer_of(decode(*pieces, chunk(finish="tool_calls"), DONE), "openai_chat")
    assert [call.input for call in message.tool_calls] == [{}, {}]
    sent = OpenAIChat("m", api_key="k").request(Conversation((Message.user("go"), message)), (), Options())
    said = json.loads(sent.body)["messages"][1]["tool_calls"]
    assert [call["function"]["arguments"] for call in said] == ["{}", "{}"]


def test_ids_that_come_twice_are_made_unique() -> None:
    pieces = [tool(index=i, id="a", function=WHOLE) for i in range(3)]
    events = decode(*pieces, chunk(finish="tool_calls"), DONE)
    check_balanced(events)
    calls = answer_of(events, "openai_chat").tool_calls
    assert [call.id for call in calls] == ["a", "a-rxw-2", "a-rxw-3"]


@pytest.mark.parametrize("raw", ["length", "content_filter", "brand_new"])
def test_calls_of_a_cut_response_are_aborted(raw: str) -> None:
    events = decode(tool(index=0, id="a", function={"name": "f", "arguments": "{"}), chunk(finish=raw), DONE)
    assert isinstance(events[-2], BlockAbort)


@pytest.mark.parametrize("name", [{}, {"name": ""}, {"name": None}])
@pytest.mark.parametrize("raw", ["tool_calls", "stop"])
def test_a_call_that_names_no_tool_is_malformed_and_no_block(name: dict[str, Any], raw: str) -> None:
    piece = tool(index=0, id="a", function={"arguments": "{}", **name})
    events = decode(piece, chunk(finish=raw), DONE)
    assert events[-2] == Opaque("tool_call", {"id": "a", "arguments": "{}"})
    assert events[-1] == Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.MALFORMED, raw))
    both = decode(piece, tool(index=1, id="b", function=WHOLE), chunk(finish=raw), DONE)
    check_balanced(both)
    assert [call.id for call in answer_of(both, "openai_chat").tool_calls] == ["b"]
    assert both[-1] == Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.TOOL_USE, raw))


def test_a_call_behind_the_reason_makes_an_ordinary_end_a_tool_use() -> None:
    late = tool(index=0, id="a", function={"name": "f", "arguments": "{}"})
    stop = StopReason(StopKind.TOOL_USE, "stop")
    assert decode(chunk({"content": "a"}, "stop"), late, DONE)[-1] == Status(ResponseStatus.COMPLETED, stop_reason=stop)


def test_a_response_without_an_end_marker_is_complete_after_its_finish_reason() -> None:
    assert decode(chunk({"content": "a"}, "stop"))[-1] == Status(
        ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.END_TURN, "stop")
    )


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (chunk({"content": "a"}),),
        (chunk({"content": "a"}, ""),),
        (chunk({"content": "a"}, "stop"), chunk({"content": "b"}, index=1)),
    ],
)
def test_a_response_without_any_end_is_truncated(messages: tuple[dict[str, Any], ...]) -> None:
    events = decode(*messages)
    assert isinstance(events[-2], Error)
    assert (events[-2].code, events[-2].retryable) == ("truncated", True)
    assert isinstance(events[-1], Status)
    assert events[-1].status is ResponseStatus.FAILED


@pytest.mark.parametrize(
    ("message", "event", "code", "kind"),
    [
        ({"error": {"message": "m", "code": 502}}, "message", "502", "server"),
        ({"error": {"message": "m", "type": "server_error", "code": None}}, "message", "server_error", "server"),
        ({"error": "m", "code": "overloaded"}, "message", "overloaded", "overloaded"),
        ('{"error": {"message": "m", "code": "rate_limit_exceeded"}}', "error", "rate_limit_exceeded", "rate_limit"),
        ({"object": "error", "message": "m", "code": 429}, "message", "429", "rate_limit"),
        ('{"message": "m"}', "error", None, "unknown"),
        ("m", "error", "error", "unknown"),
        ('error: {"error": {"message": "m"}}', "stray", None, "unknown"),
        ({"id": "x", "choices": "odd", "error": {"message": "m"}}, "message", None, "unknown"),
        ({"id": "x", "x_groq": {"error": {"message": "m"}}}, "message", None, "unknown"),
    ],
)
def test_an_error_is_found_in_every_shape(
    message: dict[str, Any] | str, event: str, code: str | None, kind: str
) -> None:
    events = decode(chunk({"content": "a"}), message, event=event)
    abort, error, status = events[-3:]
    assert isinstance(abort, BlockAbort)
    assert isinstance(error, Error)
    assert (error.code, error.message, error.kind) == (code, "m", kind)
    assert isinstance(status, Status)
    assert status.status is ResponseStatus.FAILED


def test_an_error_that_shares_a_chunk_with_choices_waits_for_the_usage() -> None:
    failed = chunk({"content": ""}, error={"message": "m", "code": 400})
    usage: dict[str, Any] = {"id": "x", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    events = decode(chunk({"content": "a"}, "length"), failed, chunk({"content": "b"}), usage, DONE)
    kinds = [type(event) for event in events[-3:]]
    assert kinds == [Usage, Error, Status]
    assert "b" not in summarise(events).text
    assert summarise(events).stop_reason == StopReason(StopKind.MAX_TOKENS, "length")


def test_thinking_is_counted_once_however_often_it_is_sent() -> None:
    details = [{"type": "reasoning.text", "text": "hm", "index": 0}]
    both = chunk({"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": details})
    only_details = chunk({"reasoning_details": details})
    assert summarise(decode(both, only_details, DONE)).thinking == "hmhm"


def test_details_are_joined_and_kept_for_the_echo() -> None:
    def detail(**fields: Any) -> dict[str, Any]:
        return chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, **fields}]})

    sealed = {"type": "reasoning.encrypted", "data": "AA", "index": 1}
    events = decode(
        detail(text="a"),
        detail(text="b"),
        detail(signature="sig"),
        chunk({"reasoning_details": [sealed]}),
        chunk({"content": "x"}),
        DONE,
    )
    stop = next(event for event in events if isinstance(event, BlockStop))
    joined = {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig"}
    assert stop.echo == {"reasoning_details": [joined, sealed]}


def test_reasoning_content_is_marked_for_the_echo_also_when_it_is_empty() -> None:
    call = tool(index=0, id="a", function={"name": "f", "arguments": "{}"})
    events = decode(chunk({"content": None, "reasoning_content": ""}), call, chunk(finish="tool_calls"), DONE)
    assert events[1] == BlockStart(0, BlockType.THINKING, echo={"field": "reasoning_content"})
    without = decode(chunk({"content": None, "reasoning_content": ""}), chunk({"content": "a"}), DONE)
    assert not any(isinstance(e, BlockStart) and e.block_type is BlockType.THINKING for e in without)


def test_content_that_comes_in_parts_is_text_and_thinking() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "h"}]},
        {"type": "thinking", "thinking": "m"},
        {"type": "text", "text": "1"},
        {"type": "reference", "reference_ids": [1]},
    ]
    events = decode(chunk({"content": parts}), chunk({"content": "2"}), DONE)
    assert [e.text for e in events if isinstance(e, ThinkingDelta)] == ["h", "m"]
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["1", "2"]
    assert Opaque("content.reference", parts[3]) in events


def test_text_thinking_and_refusals_take_turns_in_blocks() -> None:
    events = decode(
        chunk({"reasoning": "hm"}), chunk({"content": "a"}), chunk({"refusal": "no"}), chunk(finish="stop"), DONE
    )
    types = [e.block_type for e in events if isinstance(e, BlockStart)]
    assert types == [BlockType.THINKING, BlockType.TEXT, BlockType.REFUSAL]
    assert RefusalDelta(2, "no") in events


@pytest.mark.parametrize(
    "sealed",
    [
        {"extra_content": {"google": {"thought_signature": "s"}}},
        {"thought_signature": "s"},
        {"thoughtSignature": "s"},
        {"provider_specific_fields": {"thought_signature": "s"}},
        {"thought_signature": "s", "provider_specific_fields": {"a": 1}},
    ],
    ids="+".join,
)
def test_signatures_of_calls_are_kept_whenever_they_come_and_sent_back(sealed: dict[str, Any]) -> None:
    first = tool(index=0, id="a", function={"name": "f"}, **sealed)
    start = next(e for e in decode(first, DONE) if isinstance(e, BlockStart))
    assert start.echo == sealed
    late = tool(index=0, function={"arguments": "{}"}, **sealed)
    events = decode(tool(index=0, id="a", function={"name": "f"}), late, chunk(finish="tool_calls"), DONE)
    stop = next(e for e in events if isinstance(e, BlockStop))
    assert stop.echo == sealed
    body = OpenAIChat("m", api_key="k", base_url="https://gateway.example").request(
        Conversation((Message.user("go"), answer_of(events, "openai_chat"))), (), Options()
    )
    (call,) = json.loads(body.body)["messages"][1]["tool_calls"]
    assert {name: call[name] for name in sealed} == sealed


def test_citations_belong_to_the_open_text() -> None:
    events = decode(chunk({"content": "a"}), chunk({"annotations": [{"type": "url_citation"}]}), DONE)
    assert CitationDelta(0, {"type": "url_citation"}) in events


def test_the_transcript_of_speech_is_the_text_of_the_answer() -> None:
    """https://platform.openai.com/docs/guides/audio: the content of such an answer is null."""
    pieces = [{"id": "a"}, {"transcript": "Good "}, {"data": "UklG"}, {"transcript": "day."}]
    spoken = [chunk({"content": None, "audio": piece}) for piece in pieces]
    events = decode(*spoken, chunk(finish="stop"), DONE)
    assert answer_of(events, "openai_chat").content == (Text("Good day."),)
    assert [event.raw for event in events if isinstance(event, Opaque)] == pieces


def test_pictures_are_blocks_of_the_message() -> None:
    """https://openrouter.ai/docs/features/multimodal/image-generation"""
    pictures: list[JsonObject] = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{name}"}, "index": 0}
        for name in ("AAAA", "BBBB")
    ]
    one, other = pictures
    stop = chunk(finish="stop")
    text = chunk({"content": "Here:", "images": [one]})
    events = decode(text, chunk({"content": None, "images": [other]}), stop, DONE)
    assert answer_of(events, "openai_chat").content == (Text("Here:"), Image(echo=one), Image(echo=other))
    alone = decode(chunk({"content": "", "images": [one]}), stop, DONE)
    assert answer_of(alone, "openai_chat").content == (Image(echo=one),)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (chunk({"audio": {"id": "x"}}), "audio"),
        (chunk({"images": [{"image_url": {}}]}), "images"),
        (chunk({"executed_tools": [{"index": 0}]}), "executed_tools"),
        ({"id": "x", "choices": [], "moderation": {}}, "chunk"),
        ({"id": "x", "choices": [{"index": 0, "delta": {"content": 5.5}}]}, "chunk"),
        ("keepalive", "message"),
    ],
)
def test_what_is_unknown_travels_on(message: dict[str, Any] | str, kind: str) -> None:
    events = decode(chunk({"content": "a"}), message, DONE)
    assert kind in [event.kind for event in events if isinstance(event, Opaque)]
    assert summarise(events).text == "a"


GOOD = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("delta", "told"),
    [
        ({"content": ["a", {"type": "text", "text": "b"}], "tool_calls": [GOOD]}, None),
        ({"content": "ab", "tool_calls": [None, GOOD]}, None),
        ({"content": "ab", "tool_calls": [3, GOOD]}, {"tool_calls": [3]}),
        ({"content": "ab", "tool_calls": [GOOD | {"extra_content": 1}]}, {"tool_calls": [{"extra_content": 1}]}),
        ({"content": "ab", "tool_calls": [GOOD], "reasoning": {"a": 1}}, {"reasoning": {"a": 1}}),
        ({"content": "ab", "tool_calls": [GOOD], "annotations": "x", "refusal": False}, {"annotations": "x"}),
        ({"content": ["ab", 5, {"type": "new"}], "tool_calls": [GOOD]}, {"content": [5]}),
    ],
)
def test_one_odd_member_costs_nothing_but_itself(delta: dict[str, Any], told: Any) -> None:
    message = chunk(delta, "tool_calls")
    message["choices"][0]["logprobs"] = 3
    events = decode(message, DONE)
    summary = summarise(events)
    assert summary.text == "ab"
    assert [(c.id, c.name, c.input) for c in summary.tool_calls] == [("a", "f", {})]
    assert summary.stop_reason == StopReason(StopKind.TOOL_USE, "tool_calls")
    odd = [event.raw for event in events if isinstance(event, Opaque) and event.kind == "chunk"]
    assert odd == ([{"choices": [{"delta": told}]}] if told else [])
    assert isinstance(events[0], Status)


def test_an_odd_choice_costs_nothing_but_itself() -> None:
    message = chunk({"content": "a"}, "stop")
    message |= {"choices": [None, 5, *message["choices"]], "usage": "much"}
    events = decode(message, DONE)
    assert summarise(events).text == "a"
    assert Opaque("chunk", {"choices": [5], "usage": "much"}) in events


def test_what_comes_before_the_response_has_a_name_follows_its_start() -> None:
    first: dict[str, Any] = {"id": "", "choices": [], "prompt_filter_results": []}
    events = decode(first, chunk({"content": "a"}), DONE)
    assert [type(event) for event in events[:3]] == [Status, Opaque, BlockStart]


def test_careless_numbers_are_read() -> None:
    events = decode({"id": 5, "choices": [{"index": "0", "delta": {"content": "a"}}]}, DONE)
    assert events[0] == Status(ResponseStatus.STARTED, "5")
    assert summarise(events).text == "a"


@pytest.mark.parametrize(
    ("raw", "output", "cached"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}, 2, None),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 2,
                "total_tokens": 17,
                "completion_tokens_details": {"reasoning_tokens": 10},
            },
            12,
            None,
        ),
        ({"prompt_tokens": 5, "completion_tokens": 2, "cached_tokens": 3}, 2, 3),
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, 2, 4),
    ],
)
def test_usage_has_its_normal_form_and_the_counts_as_sent(raw: dict[str, Any], output: int, cached: int | None) -> None:
    usage = next(e for e in decode(chunk(usage=raw), DONE) if isinstance(e, Usage))
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (5, output, cached)
    counts = OpenAIChat("m").counts(usage)
    assert (counts.input_tokens, counts.output_tokens) == (5, 2)


@pytest.mark.parametrize("where", ["x_groq", "choice"])
def test_usage_is_found_where_others_put_it(where: str) -> None:
    raw = {"prompt_tokens": 5, "completion_tokens": 2}
    message = chunk(finish="stop", x_groq={"usage": raw}) if where == "x_groq" else chunk(finish="stop")
    if where == "choice":
        message["choices"][0]["usage"] = raw
    assert any(isinstance(event, Usage) for event in decode(message, DONE))


def test_usage_that_is_repeated_is_reported_once() -> None:
    raw = {"prompt_tokens": 5, "completion_tokens": 2}
    events = decode(chunk({"content": "a"}, usage=raw), chunk({"content": "b"}, usage=raw), DONE)
    assert sum(isinstance(event, Usage) for event in events) == 1


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b'"r1"', "r1"),
        (b"7", "7"),
        (b"null", None),
        (rb'"\ud83d"', "\ufffd"),
        (rb'"a\ude00"', "a\ufffd"),
        (b'"\xff"', "\ufffd"),
    ],
)
def test_a_name_that_is_not_text_costs_no_content(written: bytes, name: str | None) -> None:
    data = b'{"id": %b, "choices": [{"delta": {"content": "Hi"}}]}' % written
    for events in (
        OpenAIChatDecoder().feed(SseFrame(data)),
        BatchDecoder(SseDecoder(), OpenAIChatDecoder()).feed(b"data: %b\n\n" % data),
    ):
        assert events[0] == Status(ResponseStatus.STARTED, name)
        assert events[-1] == TextDelta(0, "Hi")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("network_error", "server"), ("error", "server"), ("insufficient_system_resource", "overloaded")],
)
def test_a_finish_reason_that_reports_a_failure_fails_the_response(reason: str, kind: str) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}}
    events = decode(chunk({"content": "Half", "tool_calls": [call]}), chunk({}, reason), DONE)
    (error,) = [event for event in events if isinstance(event, Error)]
    assert (error.code, error.kind, error.retryable) == (reason, kind, True)
    status = events[-1]
    assert isinstance(status, Status)
    assert status.status is ResponseStatus.FAILED


def test_an_answer_that_is_held_back_for_its_content_has_that_stop_reason() -> None:
    status = decode(chunk({"content": ""}, "sensitive"), DONE)[-1]
    assert isinstance(status, Status)
    assert status.stop_reason is not None
    assert status.stop_reason.kind is StopKind.CONTENT_FILTER


def test_an_end_before_any_answer_fails_the_response() -> None:
    *_, error, status = decode(DONE)
    assert isinstance(error, Error)
    assert (error.code, error.retryable) == ("empty", True)
    assert isinstance(status, Status)
    assert status.status is ResponseStatus.FAILED
