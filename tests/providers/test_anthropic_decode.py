"""The rules of the Messages stream that the recordings alone do not hold down."""

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
    Ping,
    ResponseEvent,
    ResponseStatus,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.kinds import Deltas
from rxworker.framing.sse import SseFrame
from rxworker.messages import JsonObject, StopKind, StopReason
from rxworker.providers import Anthropic
from rxworker.providers.anthropic import AnthropicDecoder
from rxworker.testing import check_balanced
from rxworker.views import summarise
from tests.numbered_ids import numbered_ids

HEAD = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "m",
        "usage": {"input_tokens": 2, "cache_read_input_tokens": 5, "output_tokens": 1},
    },
}
END = {"type": "message_stop"}


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def reason(raw: str | None, **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": raw, **more}, "usage": {}}


@numbered_ids()
def decode(*messages: dict[str, Any] | str, event: str = "message") -> list[ResponseEvent]:
    decoder = AnthropicDecoder()
    events: list[ResponseEvent] = []
    for message in messages:
        data = message if isinstance(message, str) else json.dumps(message)
        events += decoder.feed(SseFrame(data.encode(), event))
    return [*events, *decoder.finish()]


def last_stop(events: list[ResponseEvent]) -> StopReason | None:
    assert isinstance(events[-1], Status)
    return events[-1].stop_reason


def test_deltas_of_two_blocks_that_take_turns_in_one_read_are_kept_apart() -> None:
    begun = [start(0, type="text", text=""), start(1, type="text", text="")]
    turns = [delta(n % 2, "text_delta", text=str(n)) for n in range(6)]
    frames = [SseFrame(json.dumps(each).encode(), "message") for each in (HEAD, *begun, *turns)]
    texts = ["", ""]
    for part in AnthropicDecoder().feed_many(frames):
        for event in part if isinstance(part, Deltas) else (part,):
            if isinstance(event, TextDelta):
                texts[event.index] += event.text
    assert texts == ["024", "135"]


def test_a_message_from_start_to_end() -> None:
    text = [start(0, type="text", text=""), delta(0, "text_delta", text="Hi"), stop(0)]
    usage: JsonObject = {"input_tokens": 2, "cache_read_input_tokens": 5, "output_tokens": 1}
    assert decode(HEAD, {"type": "ping"}, *text, reason("end_turn"), END) == [
        Status(ResponseStatus.STARTED, "msg_1", "m"),
        Usage(7, 1, 5, None, None, usage),
        Ping(),
        BlockStart(0, BlockType.TEXT),
        TextDelta(0, "Hi"),
        BlockStop(0, BlockType.TEXT),
        Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.END_TURN, "end_turn")),
    ]


@pytest.mark.parametrize(
    ("raw", "more", "kind", "detail"),
    [
        ("end_turn", {}, StopKind.END_TURN, None),
        ("max_tokens", {}, StopKind.MAX_TOKENS, None),
        ("model_context_window_exceeded", {}, StopKind.MAX_TOKENS, "context"),
        ("stop_sequence", {"stop_sequence": "X"}, StopKind.STOP_SEQUENCE, "X"),
        ("tool_use", {}, StopKind.MALFORMED, None),  # the call never came
        ("pause_turn", {}, StopKind.PAUSE_TURN, None),
        ("compaction", {}, StopKind.PAUSE_TURN, None),
        ("refusal", {"stop_details": {"explanation": "why"}}, StopKind.REFUSAL, "why"),
        ("brand_new", {}, StopKind.OTHER, None),
        ("length", {}, StopKind.MAX_TOKENS, None),  # of a server that is only compatible
    ],
)
def test_each_stop_reason_has_its_normal_form(
    raw: str, more: dict[str, Any], kind: StopKind, detail: str | None
) -> None:
    assert last_stop(decode(HEAD, reason(raw, **more), END)) == StopReason(kind, raw, detail)


@pytest.mark.parametrize("raw", ["end_turn", "tool_use", "tool_calls", "brand_new"])
def test_a_completed_call_makes_an_ordinary_end_a_tool_use(raw: str) -> None:
    call = [start(0, type="tool_use", id="t", name="look", input={}), stop(0)]
    found = last_stop(decode(HEAD, *call, reason(raw), END))
    assert found == StopReason(StopKind.TOOL_USE, raw)


def test_arguments_without_a_call_are_kept_in_sight_and_are_not_tool_use() -> None:
    piece = delta(0, "input_json_delta", partial_json="{}")
    events = decode(HEAD, piece, stop(0), reason("tool_use"), END)
    kept = next(event for event in events if isinstance(event, Opaque))
    assert kept == Opaque("content_block_delta", piece)
    assert last_stop(events) == StopReason(StopKind.MALFORMED, "tool_use")


def nameless(message: dict[str, Any]) -> dict[str, Any]:
    """The message without its index."""
    return {name: value for name, value in message.items() if name != "index"}


TEXT = [start(0, type="text", text=""), delta(0, "text_delta", text="Hi"), stop(0)]
LOOK = [
    start(1, type="tool_use", id="t", name="look", input={}),
    delta(1, "input_json_delta", partial_json='{"a":1}'),
    stop(1),
]


@pytest.mark.parametrize(
    "messages",
    [
        [nameless(message) for message in (*TEXT, *LOOK)],
        [nameless(message) for message in (*TEXT[1:], *LOOK)],
        [*TEXT, LOOK[0], nameless(LOOK[1]), nameless(LOOK[2])],
        [message | {"index": None} for message in (*TEXT, *LOOK)],
        [nameless(TEXT[1]), nameless(TEXT[2]), *LOOK],
    ],
)
def test_a_message_without_an_index_is_about_the_last_open_block(messages: list[dict[str, Any]]) -> None:
    events = decode(HEAD, *messages, reason("tool_use"), END)
    summary = summarise(events)
    assert summary.text == "Hi"
    assert [call.input for call in summary.tool_calls] == [{"a": 1}]
    assert not [event for event in events if isinstance(event, Opaque)]
    assert last_stop(events) == StopReason(StopKind.TOOL_USE, "tool_use")


@pytest.mark.parametrize("opened", [TEXT[:2], LOOK[:2], [*TEXT, *LOOK[:2]]])
def test_an_end_without_a_reason_while_blocks_are_open_is_a_truncation(opened: list[dict[str, Any]]) -> None:
    events = decode(HEAD, *opened, END)
    assert [event.code for event in events if isinstance(event, Error)] == ["truncated"]
    assert events[-1] == Status(ResponseStatus.FAILED)


def test_an_end_without_a_reason_is_an_end_where_all_is_closed() -> None:
    assert decode(HEAD, *TEXT, END)[-1] == Status(ResponseStatus.COMPLETED)


def test_a_call_that_starts_with_its_input_has_it_as_one_delta() -> None:
    events = decode(HEAD, start(0, type="tool_use", id="t", name="look", input={"a": [1]}), stop(0))
    assert InputJsonDelta(0, '{"a":[1]}') in events


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use"])
def test_arguments_that_come_with_the_start_and_again_count_once(kind: str) -> None:
    again = delta(0, "input_json_delta", partial_json='{"a": [1]}')
    events = decode(HEAD, start(0, type=kind, id="t", name="look", input={"a": [1]}), again, stop(0), END)
    assert [e.text for e in events if isinstance(e, InputJsonDelta)] == ['{"a":[1]}']


@pytest.mark.parametrize("raw", ["end_turn", "tool_use", "max_tokens"])
def test_a_message_without_its_last_event_is_complete_after_a_stop_reason(raw: str) -> None:
    frames = [HEAD, *TEXT, *(LOOK if raw == "tool_use" else ())]
    assert decode(*frames, reason(raw)) == decode(*frames, reason(raw), END)
    cut = decode(*frames)[-1]
    assert isinstance(cut, Status)
    assert cut.status is ResponseStatus.FAILED


@pytest.mark.parametrize("name", [{}, {"name": ""}, {"name": None}, {"name": 3}])
@pytest.mark.parametrize("raw", ["tool_use", "end_turn", "brand_new"])
@pytest.mark.parametrize("closed", [True, False])
def test_a_call_that_names_no_tool_is_malformed_and_leaves_nothing(
    name: dict[str, Any], raw: str, closed: bool
) -> None:
    nameless = [
        start(0, type="tool_use", id="t", input={}, **name),
        delta(0, "input_json_delta", partial_json="{}"),
        *([stop(0)] if closed else []),
    ]
    events = decode(HEAD, *nameless, reason(raw), END)
    check_balanced(events)
    assert BlockAbort(0, BlockType.OPAQUE, "the call names no tool") in events
    assert last_stop(events) == StopReason(StopKind.MALFORMED, raw)
    call = [start(1, type="tool_use", id="u", name="look", input={}), stop(1)]
    both = decode(HEAD, *nameless, *call, reason(raw), END)
    assert last_stop(both) == StopReason(StopKind.TOOL_USE, raw)


def test_ids_that_come_twice_are_made_unique() -> None:
    call: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    events = decode(HEAD, start(0, **call), stop(0), start(1, **call), stop(1), END)
    check_balanced(events)
    ids = [e.metadata.id for e in events if isinstance(e, BlockStart) and isinstance(e.metadata, ToolUseMetadata)]
    assert ids[0] == "t"
    assert len(set(ids)) == 2


def test_null_as_the_input_of_a_servers_tool_means_no_input() -> None:
    call = start(0, type="server_tool_use", id="t", name="look", input={})
    events = decode(HEAD, call, delta(0, "input_json_delta", partial_json="null"), stop(0), END)
    stopped = next(event for event in events if isinstance(event, BlockStop))
    assert stopped.echo == {"input": {}}


def test_a_call_without_an_id_is_given_one() -> None:
    events = decode(HEAD, start(0, type="tool_use", name="look", input={}), stop(0))
    assert events[2] == BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("rxw_1", "look"))


@pytest.mark.parametrize(
    ("raw", "whole"), [("max_tokens", False), ("refusal", False), ("brand_new", False), ("tool_use", True)]
)
def test_a_call_without_its_stop_is_whole_only_if_the_message_ended_for_it(raw: str | None, whole: bool) -> None:
    opened = start(0, type="tool_use", id="t", name="look", input={})
    events = decode(HEAD, opened, delta(0, "input_json_delta", partial_json='{"a'), reason(raw), END)
    assert isinstance(events[-2], BlockStop if whole else BlockAbort)


def test_text_without_its_stop_is_closed() -> None:
    events = decode(HEAD, start(0, type="text", text=""), reason("max_tokens"), END)
    assert BlockStop(0, BlockType.TEXT) in events


def test_a_stream_that_just_ends_is_truncated_and_its_blocks_are_aborted() -> None:
    events = decode(HEAD, start(0, type="text", text="Hi"))
    abort, error, status = events[-3:]
    assert isinstance(abort, BlockAbort)
    assert isinstance(error, Error)
    assert (error.code, error.kind, error.retryable) == ("truncated", "truncated", True)
    assert status == Status(ResponseStatus.FAILED)


@pytest.mark.parametrize(("given", "request_id"), [("req", "req"), (7, None)])  # one that fits its Struct, and one not
def test_an_error_ends_the_response_and_nothing_comes_after(given: object, request_id: str | None) -> None:
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}, "request_id": given}
    events = decode(HEAD, start(0, type="text", text=""), failed, delta(0, "text_delta", text="x"), END)
    abort, error, status = events[-3:]
    assert abort == BlockAbort(0, BlockType.TEXT, "m")
    assert isinstance(error, Error)
    assert (error.code, error.message, error.retryable) == ("overloaded_error", "m", True)
    assert error.request_id == request_id
    assert status == Status(ResponseStatus.FAILED)
    assert sum(isinstance(event, Error) for event in events) == 1


def test_an_error_event_in_plain_words_is_an_error() -> None:
    events = decode("upstream went away", event="error")
    assert isinstance(events[0], Error)
    assert events[0].message == "upstream went away"


def test_stray_json_with_an_error_is_an_error() -> None:
    events = decode('error: {"error": {"type": "api_error", "message": "m"}}', event="stray")
    assert isinstance(events[0], Error)
    assert events[0].kind == "server"


def test_a_second_start_aborts_what_is_open_and_begins_again() -> None:
    events = decode(HEAD, start(0, type="text", text="a"), HEAD, start(0, type="text", text="b"), END)
    starts = [e for e in events if isinstance(e, Status) and e.status is ResponseStatus.STARTED]
    assert len(starts) == 2
    assert [type(e) for e in events[2:6]] == [BlockStart, TextDelta, BlockAbort, Status]
    assert isinstance(events[7], BlockStart)
    assert events[7].index == 0


def test_an_index_that_is_used_again_names_a_new_block() -> None:
    events = decode(HEAD, start(0, type="text", text=""), stop(0), start(0, type="text", text=""), stop(0))
    assert [e.index for e in events if isinstance(e, BlockStart)] == [0, 1]
    assert [e.index for e in events if isinstance(e, BlockStop)] == [0, 1]


def test_a_start_over_an_open_block_aborts_it() -> None:
    events = decode(HEAD, start(0, type="text", text=""), start(0, type="text", text=""), stop(0), END)
    kinds = [type(event) for event in events[2:6]]
    assert kinds == [BlockStart, BlockAbort, BlockStart, BlockStop]


def test_a_delta_without_a_start_opens_its_block() -> None:
    events = decode(HEAD, delta(3, "thinking_delta", thinking="hm"), stop(3))
    assert events[2:5] == [BlockStart(3, BlockType.THINKING), ThinkingDelta(3, "hm"), BlockStop(3, BlockType.THINKING)]


def test_overlapping_blocks_are_kept_apart() -> None:
    events = decode(
        HEAD,
        start(0, type="text", text=""),
        start(1, type="tool_use", id="t", name="f", input={}),
        delta(0, "text_delta", text="a"),
        delta(1, "input_json_delta", partial_json="{}"),
        stop(1),
        stop(0),
        END,
    )
    assert events[4:6] == [TextDelta(0, "a"), InputJsonDelta(1, "{}")]


def test_what_must_be_echoed_is_whole_at_the_stop() -> None:
    server: dict[str, Any] = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    events = decode(
        HEAD,
        start(0, **server),
        delta(0, "input_json_delta", partial_json='{"q"'),
        delta(0, "input_json_delta", partial_json=': "x"}'),
        stop(0),
        start(1, type="compaction", content=None),
        delta(1, "compaction_delta", content="short", encrypted_content="AA"),
        stop(1),
        start(2, type="brand_new", a=1),
        delta(2, "text_delta", text="b"),
        delta(2, "text_delta", text="c"),
        stop(2),
        start(3, type="tool_use", id="t", name="f", input={}, caller={"type": "direct"}),
        stop(3),
        END,
    )
    starts = {event.index: event for event in events if isinstance(event, BlockStart)}
    stops = {event.index: event for event in events if isinstance(event, BlockStop)}
    echoes = {i: (starts[i].echo or {}) | (stops[i].echo or {}) for i in starts}
    assert echoes == {
        0: {**server, "input": {"q": "x"}},
        1: {"type": "compaction", "content": "short", "encrypted_content": "AA"},
        2: {"type": "brand_new", "a": 1, "text": "bc"},
        3: {"caller": {"type": "direct"}},
    }


def test_thinking_that_is_kept_secret_still_has_its_seal() -> None:
    events = decode(
        HEAD,
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "signature_delta", signature="sig"),
        stop(0),
    )
    assert events[2:5] == [
        BlockStart(0, BlockType.THINKING),
        SignatureDelta(0, "sig"),
        BlockStop(0, BlockType.THINKING),
    ]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "brand_new", "a": 1},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "brand_new"}},
        {"type": "content_block_stop", "index": 9},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "input_json_delta", "partial_json": "1"}},
        {"a": 1},
        "keepalive",
    ],
)
def test_what_is_unknown_travels_on(message: dict[str, Any] | str) -> None:
    events = decode(HEAD, message, END)
    assert isinstance(events[2], Opaque)
    assert events[-1] == Status(ResponseStatus.COMPLETED)


def test_the_name_of_the_frame_stands_in_for_the_type() -> None:
    decoder = AnthropicDecoder()
    untyped = {"index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
    frame = SseFrame(json.dumps(untyped).encode(), "content_block_delta")
    assert TextDelta(0, "Hi") in decoder.feed(frame)


def test_what_does_not_fit_costs_nothing_but_itself() -> None:
    careless = [
        start("0", type="text", text=""),  # pyright: ignore[reportArgumentType]
        delta("0", "text_delta", text="Hi"),  # pyright: ignore[reportArgumentType]
        stop("0"),  # pyright: ignore[reportArgumentType]
        reason("refusal", stop_details="unsafe", stop_sequence=7),
    ]
    message = {"id": 5, "model": "m"}
    events = decode({"type": "message_start", "message": message}, *careless, END)
    assert TextDelta(0, "Hi") in events
    assert events[0] == Status(ResponseStatus.STARTED, None, "m")
    assert last_stop(events) == StopReason(StopKind.REFUSAL, "refusal")


def test_broken_json_in_the_middle_is_an_error_and_at_the_end_a_truncation() -> None:
    middle = decode(HEAD, '{"type": "pi', {"type": "ping"}, END)
    assert isinstance(middle[-2], Error)
    assert (middle[-2].code, middle[-2].retryable) == ("bad_json", True)
    end = decode(HEAD, '{"type": "pi')
    assert isinstance(end[-2], Error)
    assert end[-2].code == "truncated"


def test_usage_is_a_snapshot_in_which_later_numbers_come_over_earlier_ones() -> None:
    later = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 9, "input_tokens": None}}
    events = decode(HEAD, later, END)
    usage = next(e for e in reversed(events) if isinstance(e, Usage))
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (7, 9, 5)
    counts = Anthropic("m").counts(usage)
    assert (counts.input_tokens, counts.output_tokens, counts.cache_read) == (2, 9, 5)


def test_usage_after_a_compaction_is_the_sum_of_its_passes_without_those_of_other_models() -> None:
    passes = [
        {"input_tokens": 1, "cache_read_input_tokens": 10, "output_tokens": 2},
        {"input_tokens": 4, "output_tokens": 3},
        {"input_tokens": 100, "output_tokens": 100, "model": "adviser"},
    ]
    usage = {"input_tokens": 4, "output_tokens": 3, "iterations": passes}
    events = decode(HEAD, {"type": "message_delta", "delta": {}, "usage": usage}, END)
    found = next(e for e in reversed(events) if isinstance(e, Usage))
    assert (found.input_tokens, found.output_tokens, found.cache_read_tokens) == (15, 5, 10)


def test_a_response_of_many_deltas_costs_the_same_for_each() -> None:
    """The decoder keeps nothing of what it has passed on: its state does not grow with the text."""
    decoder = AnthropicDecoder()
    for message in (HEAD, start(0, type="text", text="")):
        decoder.feed(SseFrame(json.dumps(message).encode()))
    frame = SseFrame(json.dumps(delta(0, "text_delta", text="x")).encode())
    events = [event for _ in range(20_000) for event in decoder.feed(frame)]
    assert len(events) == 20_000
    assert not decoder._open[0].pieces
