"""What a chunk says beside its text is heard, whichever field says it, and however many chunks come together."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import fields

from rxworker.events import ResponseEvent
from rxworker.events.deltas import Deltas
from rxworker.framing import SseFrame
from rxworker.providers.openai_chat.alone import read_call, read_content, texts_alone
from rxworker.providers.openai_chat.decode import MOST_MISSES, OpenAIChatDecoder
from rxworker.providers.openai_chat.wire import (
    WireChoice,
    WireChunk,
    WireDelta,
    WireToolCall,
)

TEXT = {"content": "a"}
CALL = {"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]}
BEGIN = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}

# What each field may say. A field that is new has to be added here, and to be asked about.
DELTA: dict[str, list[Any]] = {
    "refusal": ["", "no"],
    "reasoning_content": ["", "hm"],
    "reasoning": ["", "hm"],
    "reasoning_details": [[], [{"type": "reasoning.text", "text": "hm"}]],
    "function_call": [{}, {"name": "g", "arguments": "{}"}],
    "annotations": [[], [{"url": "x"}]],
    "audio": [{"id": "x"}],
    "images": [[], ["x"]],
    "executed_tools": [["x"]],
    "content": ["", "b", ["b"], [{"type": "thinking", "thinking": "hm"}]],
    "tool_calls": [
        [],
        [{"index": 1, "id": "d", "function": {"name": "g", "arguments": "{}"}}],
        [
            {"index": 0, "function": {"arguments": "2"}},
            {"index": 0, "function": {"arguments": "3"}},
        ],
    ],
}
PIECE: dict[str, list[Any]] = {
    "index": [None, 1],
    "id": ["", "c", "d"],
    "function": [
        None,
        {},
        {"arguments": {"a": 1}},
        {"arguments": ""},
        {"name": "g", "arguments": "{}"},
    ],
    "extra_content": [{}, {"google": {"seal": "x"}}],
}
CHOICE: dict[str, list[Any]] = {
    "index": [1],
    "delta": [None, {}],
    "finish_reason": ["", "stop", "tool_calls"],
    "stop_reason": ["x"],
    "native_finish_reason": [None, "length"],
    "usage": [{"prompt_tokens": 2}],
    "content_filter_offsets": [{"end": 1}],
}
CHUNK: dict[str, list[Any]] = {
    "choices": [None, [], [{"delta": TEXT}, {"index": 1, "delta": TEXT}]],
    "usage": [{}, {"prompt_tokens": 3}],
    "error": ["bad", {"message": "bad"}],
    "x_groq": [{}, {"usage": {"prompt_tokens": 3}}, {"error": "bad"}],
}


def chunk(delta: dict[str, Any], choice: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, **choice}], **more}


def variants(delta: dict[str, Any]) -> list[dict[str, Any]]:
    """A chunk with this delta, and each with one field more."""
    made = [chunk({**delta, name: say}, {}, {}) for name, says in DELTA.items() for say in says]
    made += [chunk(delta, {name: say}, {}) for name, says in CHOICE.items() for say in says]
    made += [chunk(delta, {}, {name: say}) for name, says in CHUNK.items() for say in says]
    if delta is CALL:
        piece = CALL["tool_calls"][0]
        made += [
            chunk({"tool_calls": [{**piece, name: say}]}, {}, {})
            for name, says in PIECE.items()
            for say in says
        ]
    return made


class Thorough(OpenAIChatDecoder):
    """Looks at all of every chunk."""

    def _look_for_more(self, chunk: WireChunk) -> None:
        """There is none."""


def one_by_one(decoder: OpenAIChatDecoder, frames: list[SseFrame]) -> list[ResponseEvent]:
    told = [event for frame in frames for event in decoder.feed(frame)]
    return [*told, *decoder.finish()]


def together(frames: list[SseFrame]) -> list[ResponseEvent]:
    decoder = OpenAIChatDecoder(lambda: "made")
    told: list[ResponseEvent] = []
    for row in decoder.feed_many(frames):
        told += row if isinstance(row, Deltas) else [row]
    return [*told, *decoder.finish()]


def test_every_field_of_the_wire_is_asked_about() -> None:
    about = {WireDelta: DELTA, WireToolCall: PIECE, WireChoice: CHOICE, WireChunk: CHUNK}
    for kind, says in about.items():
        assert {field.encode_name for field in fields(kind)} == set(says)


@pytest.mark.parametrize("delta", [TEXT, CALL, {"reasoning": "a"}, {"reasoning_content": "a"}])
def test_chunks_that_come_together_say_what_they_say_alone(delta: dict[str, Any]) -> None:
    begin = [chunk(BEGIN if delta is CALL else delta, {}, {}), *[chunk(delta, {}, {})] * 2]
    for variant in variants(delta):
        for end in ([chunk(delta, {}, {})] * 2, [chunk(BEGIN, {}, {}), chunk(CALL, {}, {})]):
            story = [*begin, variant, variant, *end, chunk({}, {"finish_reason": "stop"}, {})]
            frames = [SseFrame(json.dumps(one).encode()) for one in story]
            told = one_by_one(Thorough(lambda: "made"), frames)
            assert one_by_one(OpenAIChatDecoder(lambda: "made"), frames) == told, variant
            assert together(frames) == told, variant


@pytest.mark.parametrize("delta", [TEXT, CALL])
def test_what_says_nothing_does_not_make_a_chunk_slow(delta: dict[str, Any]) -> None:
    """As some servers send with every piece."""
    empty = [chunk(delta, {"finish_reason": "", "logprobs": None}, {"usage": None})]
    empty += [chunk({**delta, name: None}, {}, {}) for name in DELTA if name not in delta]
    empty += [chunk({**delta, "role": "assistant", "refusal": ""}, {}, {})]
    empty += [
        chunk({**delta, **({"tool_calls": []} if delta is TEXT else {"content": ""})}, {}, {})
    ]
    for one in empty:
        data = json.dumps(one).encode()
        if delta is TEXT:
            assert texts_alone(read_content, [data]) == ["a"], one
        else:
            assert read_call(data).choices[0].delta.tool_calls[0].function, one


@pytest.mark.parametrize("delta", [TEXT, CALL, {"reasoning": "a"}, {"reasoning_content": "a"}])
@pytest.mark.parametrize("more", [{}, {"role": "assistant", "refusal": None}])
def test_chunks_that_go_on_with_the_same_come_as_one_row(
    delta: dict[str, Any], more: dict[str, Any]
) -> None:
    begin = chunk(BEGIN if delta is CALL else delta, {}, {})
    row = [chunk({**delta, **more}, {}, {})] * 20
    frames = [SseFrame(json.dumps(one).encode()) for one in (begin, *row)]
    decoder = OpenAIChatDecoder()
    told = [decoder.feed_many(frames)[-1], *decoder.feed_many(frames[1:])]
    lengths = [len(one) for one in told if isinstance(one, Deltas)]
    assert lengths == [20 if delta is CALL else 21, 20]


def test_a_stream_in_which_no_chunk_goes_on_with_another_is_not_looked_at_twice_for_long() -> None:
    decoder = OpenAIChatDecoder()
    usage = [chunk(TEXT, {}, {"usage": {"prompt_tokens": n}}) for n in range(30)]
    decoder.feed_many([SseFrame(json.dumps(one).encode()) for one in usage])
    assert decoder._misses <= MOST_MISSES + 1  # pyright: ignore[reportPrivateUsage]


def test_thinking_that_is_owed_under_one_name_is_not_taken_for_paid_under_the_other() -> None:
    said = [("reasoning_content", ""), ("reasoning", "a"), ("reasoning_content", "")]
    story = [chunk({name: text}, {}, {}) for name, text in (*said, ("reasoning_content", "b"))]
    story += [chunk(BEGIN, {}, {}), chunk({}, {"finish_reason": "tool_calls"}, {})]
    frames = [SseFrame(json.dumps(one).encode()) for one in story]
    assert together(frames) == one_by_one(Thorough(lambda: "made"), frames)


def test_only_chunks_in_a_row_count_that_do_not_go_on_with_a_text() -> None:
    decoder = OpenAIChatDecoder()
    text = SseFrame(json.dumps(chunk(TEXT, {}, {})).encode())
    for _ in range(2 * MOST_MISSES):
        for frame in (text, text, SseFrame(json.dumps(chunk({}, {}, {})).encode())):
            decoder.feed(frame)
    assert decoder._misses == 1  # pyright: ignore[reportPrivateUsage]
