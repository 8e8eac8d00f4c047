from collections.abc import Callable

import msgspec
import pytest

from rxworker.events import Usage
from rxworker.messages import Json, StopKind, StopReason
from rxworker.testing import (
    Call,
    Reply,
    anthropic_frames,
    call,
    cut,
    fail,
    gemini_frames,
    ollama_frames,
    openai_chat_frames,
    openai_responses_frames,
    say,
    stall,
    think,
)
from rxworker.testing.wire import wire_for
from rxworker.testing.wire.gemini_interactions import gemini_interactions_frames

Frames = Callable[[Reply], list[bytes]]
Object = dict[str, Json]

ALL = [
    anthropic_frames,
    openai_chat_frames,
    openai_responses_frames,
    gemini_frames,
    gemini_interactions_frames,
    ollama_frames,
]


def payloads(frames: list[bytes]) -> list[Json]:
    """The JSON of each frame or line, read without any decoder of ours."""
    found: list[Json] = []
    for frame in frames:
        assert frame.endswith((b"\n\n", b"\r\n\r\n", b"}\n"))
        data = frame.rstrip().split(b"\n")[-1].removeprefix(b"data: ")
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
    deltas = [at(p, "delta") for p in payloads(anthropic_frames(reply)) if at(p, "type") == "content_block_delta"]

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
def test_stop_reasons_have_the_providers_words(stop: StopKind | StopReason, anthropic: str, openai: str) -> None:
    reply = say("x", stop=stop, usage=None)

    assert at(payloads(anthropic_frames(reply))[-2], "delta", "stop_reason") == anthropic
    last = payloads(openai_chat_frames(reply))[-2]
    assert at(last, "choices", 0, "finish_reason") == openai


def test_openai_streams_chunks_and_then_done() -> None:
    told = payloads(openai_chat_frames(say("Hi", chunk=1)))

    deltas = [at(p, "choices", 0, "delta") for p in told[:-2]]
    assert deltas == [{"role": "assistant", "content": ""}, {"content": "H"}, {"content": "i"}, {}]
    assert at(told[-2], "choices") == []
    assert at(told[-2], "usage", "total_tokens") == 15
    assert told[-1] == "[DONE]"


def test_openai_sends_the_usage_only_on_request() -> None:
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


def test_responses_names_and_numbers_each_frame() -> None:
    frames = openai_responses_frames(think("hm", "seal") + say("Hi") + call("now"))

    names = [frame.split(b"\n")[0].removeprefix(b"event: response.").decode() for frame in frames]
    assert names == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [at(p, "sequence_number") for p in payloads(frames)] == list(range(19))


def test_responses_sends_everything_again_at_the_end() -> None:
    reply = think("hm", "seal") + say("Hi") + call("get", city="Kyoto")
    told = payloads(openai_responses_frames(reply))
    done = [at(p, "item") for p in told if at(p, "type") == "response.output_item.done"]

    assert at(told[-1], "response", "output") == done
    assert [at(item, "type") for item in done] == ["reasoning", "message", "function_call"]
    assert at(done[0], "encrypted_content") == "seal"
    assert (at(done[2], "call_id"), at(done[2], "arguments")) == ("call_1_1", '{"city":"Kyoto"}')
    assert at(told[-1], "response", "usage", "total_tokens") == 15


@pytest.mark.parametrize(
    ("stop", "status", "details"),
    [
        (StopKind.END_TURN, "completed", None),
        (StopKind.MAX_TOKENS, "incomplete", {"reason": "max_output_tokens"}),
        (StopKind.CONTENT_FILTER, "incomplete", {"reason": "content_filter"}),
        (StopReason(StopKind.OTHER, "steered"), "incomplete", {"reason": "steered"}),
    ],
)
def test_responses_states_what_a_response_lacks(stop: StopKind | StopReason, status: str, details: Json) -> None:
    last = payloads(openai_responses_frames(say("x", stop=stop)))[-1]

    assert at(last, "type") == f"response.{status}"
    assert at(last, "response", "incomplete_details") == details


def test_responses_sends_a_refusal_as_a_part_of_its_own() -> None:
    told = payloads(openai_responses_frames(say("No.", stop=StopKind.REFUSAL)))

    part = at(told[-1], "response", "output", 0, "content", 0)
    assert part == {"type": "refusal", "refusal": "No."}
    assert [at(p, "type") for p in told[4:6]] == ["response.refusal.delta", "response.refusal.done"]


def test_responses_sends_an_error_and_then_that_it_failed() -> None:
    error, failed = payloads(openai_responses_frames(say("half") + fail("later")))[-2:]

    assert at(error, "error", "code") == "server_error"
    told = {"code": "server_error", "message": "later"}
    assert at(failed, "response", "error") == told
    assert len(openai_responses_frames(fail("later"))) == 1


def test_gemini_sends_parts_and_at_the_end_the_reason() -> None:
    reply = think("hm", "seal") + say("Look") + call("get", city="Kyoto") + call("now")
    frames = gemini_frames(reply)
    told = payloads(frames)

    assert all(frame.endswith(b"\r\n\r\n") for frame in frames)
    assert [at(p, "candidates", 0, "content", "parts", 0) for p in told] == [
        {"text": "hm", "thought": True},
        {"text": "Look"},
        {"functionCall": {"name": "get", "args": {"city": "Kyoto"}}, "thoughtSignature": "seal"},
        {"functionCall": {"name": "now", "args": {}}},
        {"text": ""},
    ]
    assert [b'"finishReason":"STOP"' in frame for frame in frames] == [*[False] * 4, True]


def test_gemini_counts_thoughts_apart_and_what_is_written_at_the_end() -> None:
    usage = Usage(input_tokens=100, output_tokens=7, cache_read_tokens=60, reasoning_tokens=3)
    first, last = payloads(gemini_frames(say("x", usage=usage)))

    assert at(first, "usageMetadata") == {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "totalTokenCount": 100,
    }
    assert at(last, "usageMetadata") == {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 3,
        "totalTokenCount": 107,
    }


def test_gemini_ends_with_bare_json_when_it_fails() -> None:
    error = {"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}}

    for reply in (say("half") + fail("later", "overloaded"), fail("later", "overloaded")):
        frame = gemini_frames(reply)[-1]
        assert frame.startswith(b'{\n  "error"')
        assert msgspec.json.decode(frame) == error


def test_interactions_send_a_step_for_each_block_and_a_done() -> None:
    usage = Usage(input_tokens=100, output_tokens=7, reasoning_tokens=3)
    reply = think("hm", "seal") + say("Look", usage=usage) + call("now")
    told = payloads(gemini_interactions_frames(reply))

    assert [at(p, "event_type") for p in told[:2]] == ["interaction.created", "interaction.status_update"]
    assert [at(p, "step", "type") for p in told if b"step.start" in msgspec.json.encode(p)] == [
        "thought",
        "model_output",
        "function_call",
    ]
    assert at(told[4], "delta") == {"type": "thought_signature", "signature": "seal"}
    assert at(told[-2], "interaction", "status") == "requires_action"
    assert at(told[-2], "interaction", "usage", "total_output_tokens") == 4
    assert told[-1] == "[DONE]"


def test_interactions_name_their_events_in_the_background() -> None:
    frames = gemini_interactions_frames(say("Hi"), number=2, is_background=True)
    assert [at(p, "event_id") for p in payloads(frames)[:-1]] == [f"2.{at}" for at in range(6)]


def test_ollama_sends_a_line_for_each_piece_and_is_then_done() -> None:
    told = payloads(ollama_frames(think("hm") + say("Look") + call("get", city="Kyoto")))

    function = {"index": 0, "name": "get", "arguments": {"city": "Kyoto"}}
    assert [at(p, "message") for p in told] == [
        {"role": "assistant", "content": "", "thinking": "hm"},
        {"role": "assistant", "content": "Look"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": function}]},
        {"role": "assistant", "content": ""},
    ]
    assert [at(p, "done") for p in told] == [False, False, False, True]
    assert (at(told[-1], "done_reason"), at(told[-1], "eval_count")) == ("stop", 5)


def test_ollama_fails_in_a_sentence() -> None:
    assert payloads(ollama_frames(say("half") + fail("later")))[-1] == {"error": "later"}


@pytest.mark.parametrize("frames", [gemini_frames, ollama_frames])
def test_a_call_has_an_id_only_where_the_script_gives_one(frames: Frames) -> None:
    named = Reply(tool_calls=(Call("get", {}, "id-1"),))

    assert b'"id":"id-1"' in frames(named)[0]
    assert b'"id"' not in frames(call("get"))[0]


@pytest.mark.parametrize("frames", [gemini_frames, ollama_frames])
def test_arguments_that_are_not_an_object_are_sent_as_they_are(frames: Frames) -> None:
    cut_off = Reply(tool_calls=(Call("get", '{"city": "Ky'),))
    whole = Reply(tool_calls=(Call("get", '{"city": "Kyoto"}'),))

    assert rb'"{\"city\": \"Ky"' in frames(cut_off)[0]
    assert b'{"city":"Kyoto"}' in frames(whole)[0]


@pytest.mark.parametrize(
    ("frames", "last"),
    [
        (anthropic_frames, {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}),
        (gemini_interactions_frames, {"event_type": "error", "error": {"code": "unavailable", "message": "later"}}),
        (
            openai_chat_frames,
            {"error": {"message": "later", "type": "server_error", "param": None, "code": "overloaded"}},
        ),
    ],
)
def test_an_error_is_the_last_frame(frames: Frames, last: Object) -> None:
    assert payloads(frames(say("half") + fail("later", "overloaded")))[-1] == last
    assert payloads(frames(fail("later", "overloaded"))) == [last]


@pytest.mark.parametrize("frames", ALL)
@pytest.mark.parametrize("end", [cut(), stall()])
def test_a_cut_or_stalled_reply_is_the_beginning_of_the_whole_one(frames: Frames, end: Reply) -> None:
    part, whole = frames(say("half") + end), frames(say("half"))

    assert part == whole[: len(part)]
    assert len(part) < len(whole)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/messages", "anthropic"),
        ("/messages", "anthropic"),
        ("/v1/chat/completions", "openai_chat"),
        ("/v1/responses", "openai_responses"),
        ("/v1beta/interactions", "gemini_interactions"),
        ("/v1beta/models/m:streamGenerateContent", "gemini"),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", "gemini"),
        ("/api/chat", "ollama"),
        ("/v1/embeddings", None),
    ],
)
def test_the_format_is_known_by_the_paths_end(path: str, name: str | None) -> None:
    wire = wire_for(path)

    assert (wire.name if wire else None) == name
