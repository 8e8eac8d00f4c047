from collections.abc import Callable

import msgspec
import pytest

from rxworker.messages import Json, StopKind, StopReason, Usage
from rxworker.testing import (
    Reply,
    anthropic_frames,
    call,
    cut,
    fail,
    openai_chat_frames,
    say,
    stall,
    think,
)
from rxworker.testing.wire import wire_for

Frames = Callable[[Reply], list[bytes]]
Object = dict[str, Json]


def payloads(frames: list[bytes]) -> list[Json]:
    """The JSON of each frame, read without any decoder of ours."""
    found: list[Json] = []
    for frame in frames:
        assert frame.endswith(b"\n\n")
        data = frame.rstrip(b"\n").split(b"\n")[-1].removeprefix(b"data: ")
        found.append("[DONE]" if data == b"[DONE]" else msgspec.json.decode(data))
    return found


def at(value: Json, *path: str | int) -> Json:
    """The value at a path."""
    for step in path:
        if isinstance(step, str):
            assert isinstance(value, dict), value
            value = value[step]
        else:
            assert isinstance(value, list), value
            value = value[step]
    return value


def test_anthropic_names_each_frame_after_its_type() -> None:
    frames = anthropic_frames(say("Hi", chunk=1))

    names = [frame.split(b"\n")[0].removeprefix(b"event: ").decode() for frame in frames]
    assert names == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert [at(payload, "type") for payload in payloads(frames)] == names


def test_anthropic_blocks_follow_one_another() -> None:
    reply = think("hm", "seal") + say("Look") + call("get", city="Kyoto") + call("now")
    told = [
        (at(p, "index"), at(p, "content_block", "type"))
        for p in payloads(anthropic_frames(reply))
        if at(p, "type") == "content_block_start"
    ]
    deltas = [
        at(p, "delta")
        for p in payloads(anthropic_frames(reply))
        if at(p, "type") == "content_block_delta"
    ]

    assert told == [(0, "thinking"), (1, "text"), (2, "tool_use"), (3, "tool_use")]
    assert {"type": "signature_delta", "signature": "seal"} in deltas
    pieces = [at(d, "partial_json") for d in deltas if at(d, "type") == "input_json_delta"]
    assert "".join(str(piece) for piece in pieces) == '{"city":"Kyoto"}'
    assert pieces[-1] == ""  # a call without arguments has one empty piece


def test_anthropic_counts_the_cache_apart_from_the_input() -> None:
    usage = Usage(input_tokens=100, output_tokens=7, cache_read_tokens=60, cache_creation_tokens=30)
    told = payloads(anthropic_frames(say("x", usage=usage)))

    assert at(told[-2], "usage") == {
        "input_tokens": 10,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 60,
        "output_tokens": 7,
    }
    assert at(told[0], "message", "usage", "output_tokens") == 1


@pytest.mark.parametrize(
    ("stop", "anthropic", "openai"),
    [
        (StopKind.END_TURN, "end_turn", "stop"),
        (StopKind.MAX_TOKENS, "max_tokens", "length"),
        (StopKind.STOP_SEQUENCE, "stop_sequence", "stop"),
        (StopKind.TOOL_USE, "tool_use", "tool_calls"),
        (StopKind.REFUSAL, "refusal", "stop"),
        (StopKind.PAUSE_TURN, "pause_turn", "PauseTurn"),
        (StopReason(StopKind.OTHER, "odd"), "odd", "odd"),
    ],
)
def test_stop_reasons_have_the_providers_words(
    stop: StopKind | StopReason, anthropic: str, openai: str
) -> None:
    reply = say("x", stop=stop, usage=None)

    assert at(payloads(anthropic_frames(reply))[-2], "delta", "stop_reason") == anthropic
    last = payloads(openai_chat_frames(reply))[-2]
    assert at(last, "choices", 0, "finish_reason") == openai


def test_openai_streams_chunks_and_then_done() -> None:
    told = payloads(openai_chat_frames(say("Hi", chunk=1)))

    deltas = [at(p, "choices", 0, "delta") for p in told[:-2]]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"content": "H"},
        {"content": "i"},
        {},
    ]
    assert at(told[-2], "choices") == []
    assert at(told[-2], "usage", "total_tokens") == 15
    assert told[-1] == "[DONE]"


def test_openai_tells_the_usage_only_when_it_is_asked_for() -> None:
    frames = openai_chat_frames(say("Hi"), include_usage=False)

    assert not any(b"usage" in frame for frame in frames)


def test_openai_names_a_call_once_and_then_only_its_index() -> None:
    told = payloads(openai_chat_frames(call("a", x=1) + call("b", y=2)))
    fragments = [at(p, "choices", 0, "delta", "tool_calls", 0) for p in told[1:-3] if p != "[DONE]"]

    named = [(at(f, "index"), at(f, "id")) for f in fragments if isinstance(f, dict) and "id" in f]
    assert named == [(0, "call_1_1"), (1, "call_1_2")]
    arguments = [at(f, "function", "arguments") for f in fragments if at(f, "index") == 1]
    assert "".join(str(piece) for piece in arguments) == '{"y":2}'


def test_openai_sends_a_refusal_and_thinking_in_fields_of_their_own() -> None:
    reply = think("hm") + say("No.", stop=StopKind.REFUSAL)
    deltas = [at(p, "choices", 0, "delta") for p in payloads(openai_chat_frames(reply))[1:3]]

    assert deltas == [{"reasoning_content": "hm"}, {"refusal": "No."}]


@pytest.mark.parametrize(
    ("frames", "last"),
    [
        (
            anthropic_frames,
            {"type": "error", "error": {"type": "overloaded_error", "message": "later"}},
        ),
        (
            openai_chat_frames,
            {
                "error": {
                    "message": "later",
                    "type": "server_error",
                    "param": None,
                    "code": "overloaded",
                }
            },
        ),
    ],
)
def test_an_error_is_the_last_frame(frames: Frames, last: Object) -> None:
    assert payloads(frames(say("half") + fail("later", "overloaded")))[-1] == last
    assert payloads(frames(fail("later", "overloaded"))) == [last]


@pytest.mark.parametrize("frames", [anthropic_frames, openai_chat_frames])
@pytest.mark.parametrize("end", [cut(), stall()])
def test_a_cut_or_stalled_reply_is_the_beginning_of_the_whole_one(
    frames: Frames, end: Reply
) -> None:
    part, whole = frames(say("half") + end), frames(say("half"))

    assert part == whole[: len(part)]
    assert len(part) < len(whole)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/messages", "anthropic"),
        ("/messages", "anthropic"),
        ("/v1/chat/completions", "openai_chat"),
        ("/v1/responses", None),
    ],
)
def test_the_format_is_known_by_the_paths_end(path: str, name: str | None) -> None:
    wire = wire_for(path)

    assert (wire.name if wire else None) == name
