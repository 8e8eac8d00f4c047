"""The rules of Ollama's stream that the recordings alone do not hold down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    InputJsonDelta,
    Opaque,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.framing import NdjsonDecoder
from rxworker.messages import JsonObject, StopKind, StopReason
from rxworker.providers import Ollama
from rxworker.providers.batch_decoder import BatchDecoder
from rxworker.providers.ollama import OllamaDecoder
from rxworker.views import summarise
from tests.numbered_ids import numbered_ids

STARTED = Status(ResponseStatus.STARTED, None, "m")
END: dict[str, Any] = {"done": True, "done_reason": "stop"}


def line(content: str | None = "", done: bool = False, **more: Any) -> dict[str, Any]:
    """A line; what ``message`` holds besides is given as ``m_...``."""
    inner = {key[2:]: value for key, value in more.items() if key.startswith("m_")}
    outer = {key: value for key, value in more.items() if not key.startswith("m_")}
    message = {"role": "assistant", "content": content, **inner}
    return {"model": "m", "created_at": "2026", "message": message, "done": done, **outer}


def calling(*calls: Any) -> dict[str, Any]:
    return line(m_tool_calls=list(calls))


def look(**arguments: Any) -> dict[str, Any]:
    return {"function": {"name": "look", "arguments": arguments}}


@numbered_ids()
def decode(*lines: Any, ended: bool = True) -> list[ResponseEvent]:
    decoder = BatchDecoder(NdjsonDecoder(), OllamaDecoder())
    texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
    data = "\n".join(texts) + ("\n" if ended else "")
    return [*decoder.feed(data.encode()), *decoder.finish()]


def test_a_response_from_start_to_end() -> None:
    numbers: dict[str, Any] = {
        "total_duration": 9,
        "load_duration": 1,
        "prompt_eval_count": 5,
        "prompt_eval_duration": 2,
        "eval_count": 3,
        "eval_duration": 4,
    }
    assert decode(
        line("", m_thinking="Hm"),
        line("", m_thinking="m"),
        line("He"),
        line("y"),
        calling(look(at="sky")),
        line(**END, **numbers),
        line("late"),
    ) == [
        STARTED,
        BlockStart(0, BlockType.THINKING),
        ThinkingDelta(0, "Hm"),
        ThinkingDelta(0, "m"),
        BlockStop(0, BlockType.THINKING),
        BlockStart(1, BlockType.TEXT),
        TextDelta(1, "He"),
        TextDelta(1, "y"),
        BlockStop(1, BlockType.TEXT),
        BlockStart(2, BlockType.TOOL_USE, ToolUseMetadata("rxw_1", "look")),
        InputJsonDelta(2, '{"at":"sky"}'),
        BlockStop(2, BlockType.TOOL_USE, metadata=ToolUseMetadata("rxw_1", "look")),
        Usage(5, 3, raw=numbers),
        Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.TOOL_USE, "stop")),
    ]


@pytest.mark.parametrize(
    ("reason", "calls", "expected"),
    [
        ("stop", [], StopReason(StopKind.END_TURN, "stop")),
        ("stop", [look()], StopReason(StopKind.TOOL_USE, "stop")),
        ("length", [], StopReason(StopKind.MAX_TOKENS, "length")),
        ("length", [look()], StopReason(StopKind.MAX_TOKENS, "length")),
        ("load", [], StopReason(StopKind.END_TURN, "load")),
        ("unload", [], StopReason(StopKind.INCOMPLETE, "unload")),
        ("brand_new", [], StopReason(StopKind.OTHER, "brand_new")),
        ("brand_new", [look()], StopReason(StopKind.TOOL_USE, "brand_new")),
        ("stop", [{"function": {"name": ""}}], StopReason(StopKind.MALFORMED, "stop")),
        ("stop", [{"function": {"name": ""}}, look()], StopReason(StopKind.TOOL_USE, "stop")),
        (None, [], None),
        (None, [look()], StopReason(StopKind.TOOL_USE)),
    ],
)
def test_each_reason_has_its_normal_form(reason: str | None, calls: list[Any], expected: StopReason | None) -> None:
    last = line(done=True, **({"done_reason": reason} if reason else {}))
    end = decode(line("a", m_tool_calls=calls), last)[-1]
    assert end == Status(ResponseStatus.COMPLETED, stop_reason=expected)


@pytest.mark.parametrize(
    ("numbers", "counts"),
    [
        ({"prompt_eval_count": 5, "eval_count": 3}, (5, 3)),
        ({"eval_count": 3}, (None, 3)),
        ({"total_duration": 3}, (None, None)),
        ({"prompt_eval_count": None, "eval_count": 0}, (None, 0)),
        ({"prompt_eval_count": "5", "eval_count": 3.0}, (5, 3)),
    ],
)
def test_the_usage_is_that_of_the_last_line(numbers: dict[str, Any], counts: tuple[int | None, int | None]) -> None:
    usage = summarise(decode(line("a"), line(**END, **numbers))).usage
    assert usage is not None
    told = Ollama("m").counts(usage)
    assert (usage.input_tokens, usage.output_tokens) == counts
    assert (told.input_tokens, told.output_tokens) == counts


def test_without_numbers_there_is_no_usage() -> None:
    assert summarise(decode(line("a"), line(**END))).usage is None


def test_the_last_line_may_bring_text_thinking_and_calls() -> None:
    summary = summarise(decode(line("yes", m_thinking="hm", m_tool_calls=[look()], **END)))
    assert (summary.text, summary.thinking) == ("yes", "hm")
    assert [call.name for call in summary.tool_calls] == ["look"]


def test_tags_in_the_content_stay_there() -> None:
    summary = summarise(decode(line("<think>hm</think>yes", **END)))
    assert (summary.text, summary.thinking) == ("<think>hm</think>yes", "")


def test_thinking_between_texts_makes_blocks_of_its_own() -> None:
    starts = [
        event.block_type
        for event in decode(line("a"), line(m_thinking="b"), line("c"), line(**END))
        if isinstance(event, BlockStart)
    ]
    assert starts == [BlockType.TEXT, BlockType.THINKING, BlockType.TEXT]


# what is in tool_calls, the calls they make, what is odd about them
CALLS: list[tuple[list[Any], list[tuple[str | None, str, Any]], str]] = [
    ([look(at="a"), look(at="b")], [(None, "look", {"at": "a"}), (None, "look", {"at": "b"})], ""),
    ([{"id": "call_1", **look()}], [("call_1", "look", {})], "a newer server gives ids"),
    ([{"id": "", **look()}], [(None, "look", {})], "an empty id is none"),
    ([{"function": {"name": "look"}}], [(None, "look", {})], "no arguments"),
    ([{"function": {"name": "look", "arguments": None}}], [(None, "look", {})], "null"),
    (
        [{"type": "function", "function": {"name": "look", "arguments": '{"at": "a"}'}}],
        [(None, "look", {"at": "a"})],
        "arguments as text",
    ),
    (
        [{"function": {"name": "look", "arguments": '{"at'}}],
        [(None, "look", {"__invalid_json__": '{"at'})],
        "arguments that are not JSON",
    ),
    (
        [{"function": {"name": "f", "arguments": {"n": 10**30, "x": 1.0, "世": None}}}],
        [(None, "f", {"n": 10**30, "x": 1.0, "世": None})],
        "values of every sort",
    ),
]


@pytest.mark.parametrize(("calls", "expected", "_"), CALLS)
def test_calls_are_whole(calls: list[Any], expected: list[Any], _: str) -> None:
    together = summarise(decode(calling(*calls), line(**END)))
    apart = summarise(decode(*map(calling, calls), line(**END)))
    for summary in (together, apart):
        assert [(c.id, c.name, c.input) for c in summary.tool_calls] == expected
        assert not any(call.aborted for call in summary.tool_calls)


def test_ids_that_are_made_differ() -> None:
    data = json.dumps(calling(look(), look())).encode() + b"\n"
    starts = [event for event in Ollama("m").decoder().feed(data) if isinstance(event, BlockStart)]
    assert len({str(start.metadata) for start in starts}) == 2


def test_what_a_call_holds_besides_is_kept_for_the_echo() -> None:
    call: JsonObject = {
        "id": "a",
        "seal": "s",
        "function": {"index": 1, "name": "look", "arguments": {}, "thought_signature": "t"},
    }
    start = next(event for event in decode(calling(call)) if isinstance(event, BlockStart))
    assert start.echo == {"seal": "s", "function": {"index": 1, "thought_signature": "t"}}


# a line, what it tells besides being survived
STRANGE: list[tuple[Any, Opaque]] = [
    (line(mood="good"), Opaque("line", {"mood": "good"})),
    (line(m_mood="good"), Opaque("line", {"message": {"mood": "good"}})),
    (line(m_images=["AA"]), Opaque("images", ["AA"])),
    (line(logprobs=[{"token": "a"}]), Opaque("logprobs", [{"token": "a"}])),
    (line(eval_count="many"), Opaque("line", {"eval_count": "many"})),
    (calling({"function": {"arguments": {}}}), Opaque("tool_call", {"function": {"arguments": {}}})),
    (calling({"function": None, "id": "a"}), Opaque("tool_call", {"function": None, "id": "a"})),
    (line(m_tool_calls="look"), Opaque("line", {"message": {"tool_calls": "look"}})),
    ({"message": "hi"}, Opaque("line", {"message": "hi"})),
    ({"status": "pulling"}, Opaque("line", {"status": "pulling"})),
    ([1], Opaque("line", [1])),
    ("keepalive", Opaque("line", "keepalive")),
]


@pytest.mark.parametrize(("strange", "told"), STRANGE)
def test_what_is_unknown_travels_and_the_answer_goes_on(strange: Any, told: Opaque) -> None:
    events = decode(line("a"), strange, line("b"), line(**END))
    assert [event for event in events if isinstance(event, Opaque)] == [told]
    assert summarise(events).text == "ab"
    kind = StopKind.MALFORMED if told.kind == "tool_call" else StopKind.END_TURN
    assert events[-1] == Status(ResponseStatus.COMPLETED, stop_reason=StopReason(kind, "stop"))


def test_a_bad_member_of_the_calls_leaves_the_good_one() -> None:
    strange = calling(3, None, look())
    events = decode(strange, line(**END))
    assert [call.name for call in summarise(events).tool_calls] == ["look"]
    assert Opaque("line", {"message": {"tool_calls": [3]}}) in events


@pytest.mark.parametrize(
    "data",
    [
        "\ufeff" + json.dumps(line("a")) + "\n" + json.dumps(line("b", **END)) + "\n",
        json.dumps(line("a")) + json.dumps(line("b", **END)) + "\n",
        json.dumps(line("a") | {"total_duration": "1"}) + json.dumps(line("b", **END)),
        json.dumps(line("a")) + "  " + json.dumps(line("b")) + "\t" + json.dumps(line(**END)),
        "\ufeff" + json.dumps(line("}{")) + json.dumps(line("b", **END)),
    ],
)
def test_a_mark_at_the_start_and_objects_on_one_line_lose_nothing(data: str) -> None:
    for pieces in ([data.encode()], [bytes([byte]) for byte in data.encode()]):
        decoder = Ollama("m").decoder()
        events = [event for piece in pieces for event in decoder.feed(piece)] + [*decoder.finish()]
        assert summarise(events).text in ("ab", "}{b")
        assert not [event for event in events if isinstance(event, Opaque)]
        assert isinstance(events[-1], Status)
        assert events[-1].status is ResponseStatus.COMPLETED


def test_half_an_object_behind_a_whole_one_is_a_truncation() -> None:
    events = decode(json.dumps(line("a")) + '{"model":"m","mess')
    assert summarise(events).text == "a"
    assert summarise(events).truncated


def test_what_is_known_of_a_strange_line_is_taken() -> None:
    last = line("b", **END, eval_count="3", mood="good")
    summary = summarise(decode(line("a", m_mood="good", m_thinking="h"), last))
    assert (summary.text, summary.thinking) == ("ab", "h")
    assert summary.usage is not None
    assert summary.usage.output_tokens == 3
    assert summary.stop_reason == StopReason(StopKind.END_TURN, "stop")


def test_a_line_without_content_is_not_an_event() -> None:
    quiet = [line(None), line(m_images=None), line(logprobs=None), {"model": "m", "done": False}]
    assert decode(line("a"), *quiet)[:3] == decode(line("a"))[:3]
    assert not [event for event in decode(*quiet) if isinstance(event, Opaque)]


# --- what goes wrong


@pytest.mark.parametrize(
    ("raw", "kind", "retryable"),
    [
        ({"error": "an error was encountered while running the model"}, "server", True),
        ({"error": "no", "status": 503}, "overloaded", True),
        ({"error": {"message": "no", "code": "rate_limit_exceeded"}}, "rate_limit", True),
        ({"error": True}, "server", True),
    ],
)
def test_an_error_is_reported_once_with_its_kind(raw: dict[str, Any], kind: str, retryable: bool) -> None:
    events = decode(line("half"), raw, {"error": "again"}, line(**END))
    errors = [event for event in events if isinstance(event, Error)]
    assert [(error.kind, error.retryable) for error in errors] == [(kind, retryable)]
    assert isinstance(events[-3], BlockAbort)
    assert events[-1] == Status(ResponseStatus.FAILED)


def test_an_error_beside_other_fields_is_an_error_too() -> None:
    events = decode({**line("a"), "error": "no"})
    assert events == [Error(None, "no", True, "server"), Status(ResponseStatus.FAILED)]


def test_an_error_may_be_the_whole_answer() -> None:
    assert decode({"error": "no"}, ended=False) == [Error(None, "no", True, "server"), Status(ResponseStatus.FAILED)]


@pytest.mark.parametrize("lines", [[], [line("a")], [line("a"), '{"model":"m","mess']])
def test_a_stream_that_stops_before_it_is_done_is_truncated(lines: list[Any]) -> None:
    summary = summarise(decode(*lines, ended=False))
    assert summary.truncated
    assert summary.stop_reason is None


def test_a_broken_line_in_the_middle_is_the_servers_fault() -> None:
    events = decode(line("a"), '{"model": ', line("b"), line(**END))
    errors = [event for event in events if isinstance(event, Error)]
    assert [(error.code, error.kind) for error in errors] == [("bad_json", "server")]
    assert events[-1] == Status(ResponseStatus.FAILED)


def test_a_broken_line_with_an_unknown_name_is_the_servers_fault_too() -> None:
    broken = decode('{"mood": "go', line("a"), line(**END))[-2]
    assert isinstance(broken, Error)
    assert broken.code == "bad_json"


def test_an_error_behind_a_broken_line_is_the_one_that_is_reported() -> None:
    events = decode(line("a"), '{"model": "m", "mess', {"error": "out of memory"})
    errors = [event for event in events if isinstance(event, Error)]
    assert [error.message for error in errors] == ["out of memory"]


def test_empty_lines_and_crlf_change_nothing() -> None:
    plain = [json.dumps(one) for one in (line("a"), line("b"), line(**END))]
    data = "\r\n\r\n".join(plain).encode()
    decoder = BatchDecoder(NdjsonDecoder(), OllamaDecoder())
    assert [*decoder.feed(data), *decoder.finish()] == decode(*plain)
