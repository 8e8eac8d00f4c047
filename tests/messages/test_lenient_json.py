"""Half a character costs a response that half at most."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import ResponseEvent, ResponseStatus, Status
from rxworker.events.arguments import parse_arguments
from rxworker.messages.lenient_json import SurrogateJoiner, read_json, read_repaired, whole
from rxworker.views import summarise
from tests.decoded import cut, decoded

HIGH, LOW = "\ud83d", "\ude00"  # of the face
FACE = "\U0001f600"
BAD = "\ufffd"


def anthropic(*pieces: str, kind: str = "text") -> list[Any]:
    call: dict[str, Any] = {"id": "t", "name": "look", "input": {}}
    shape: dict[str, tuple[dict[str, Any], str, str]] = {
        "text": ({"type": "text"}, "text_delta", "text"),
        "thinking": ({"type": "thinking"}, "thinking_delta", "thinking"),
        "call": ({"type": "tool_use", **call}, "input_json_delta", "partial_json"),
    }
    block, delta, field = shape[kind]
    return [
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": delta, field: piece}} for piece in pieces),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]


def openai_chat(*pieces: str, kind: str = "text") -> list[Any]:
    def delta(number: int, piece: str) -> Any:
        if kind == "call":
            name: dict[str, Any] = {} if number else {"name": "look"}
            mark: dict[str, Any] = {} if number else {"id": "t", "type": "function"}
            function = {**name, "arguments": piece}
            return {"tool_calls": [{"index": 0, **mark, "function": function}]}
        return {"content" if kind == "text" else "reasoning_content": piece}

    chunks = [
        {"id": "m", "choices": [{"index": 0, "delta": delta(number, piece)}]} for number, piece in enumerate(pieces)
    ]
    return [*chunks, {"id": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]


def openai_responses(*pieces: str, kind: str = "text") -> list[Any]:
    item, name = {
        "text": ({"type": "message"}, "output_text"),
        "thinking": ({"type": "reasoning"}, "reasoning_summary_text"),
        "call": ({"type": "function_call", "call_id": "t", "name": "look"}, "function_call_arguments"),
    }[kind]
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({"type": f"response.{name}.delta", "output_index": 0, "delta": piece} for piece in pieces),
        {"type": "response.completed", "response": {"status": "completed"}},
    ]


def gemini(*pieces: str, kind: str = "text") -> list[Any]:
    thought = {"thought": True} if kind == "thinking" else {}
    chunks = [{"candidates": [{"content": {"parts": [{"text": piece, **thought}]}}]} for piece in pieces]
    return [*chunks, {"candidates": [{"finishReason": "STOP"}]}]


def ollama(*pieces: str, kind: str = "text") -> list[Any]:
    field = "content" if kind == "text" else "thinking"
    lines = [{"model": "m", "message": {field: piece}, "done": False} for piece in pieces]
    return [*lines, {"model": "m", "done": True, "done_reason": "stop"}]


MAKERS = {make.__name__: make for make in (anthropic, openai_chat, openai_responses, gemini, ollama)}
PLACES = [
    (name, kind)
    for name in MAKERS
    for kind in ("text", "thinking", "call")
    if kind != "call" or name not in ("gemini", "ollama")  # their arguments come whole
]
# pieces, what they come to
PIECES = [
    (("a" + HIGH, LOW + "b"), f"a{FACE}b"),
    (("a" + HIGH, "", LOW + "b"), f"a{FACE}b"),
    ((HIGH, LOW + HIGH, LOW), FACE * 2),
    (("a" + HIGH, "b"), f"a{BAD}b"),
    (("a" + HIGH, "b", LOW + "c"), f"a{BAD}b{BAD}c"),
    (("a" + HIGH + "b", LOW + "c"), f"a{BAD}b{BAD}c"),
    (("a", "b" + HIGH), "ab"),
    (("a\\ud83d", "b"), "a\\ud83db"),  # a back-slash and letters
]


def decode(name: str, messages: list[Any], size: int | None = None) -> list[ResponseEvent]:
    texts = [json.dumps(message) for message in messages]
    form = "{}\n" if name == "ollama" else "data: {}\n\n"
    data = "".join(form.format(text) for text in texts).encode()
    return decoded(name, *cut(data, size or len(data)))


@pytest.mark.parametrize(("name", "kind"), PLACES)
def test_a_character_in_two_halves_comes_out_whole(name: str, kind: str) -> None:
    for (pieces, expected), size in product(PIECES, (None, 1)):
        events = decode(name, MAKERS[name](*pieces, kind=kind), size)
        summary = summarise(events)
        said = summary.tool_calls[0].arguments if kind == "call" else getattr(summary, kind)
        assert said == expected, (pieces, size)
        assert isinstance(events[-1], Status)
        assert events[-1].status is ResponseStatus.COMPLETED, (pieces, size)


def test_halves_of_two_choices_do_not_meet() -> None:
    def chunk(index: int, text: str) -> Any:
        return {"id": "m", "choices": [{"index": index, "delta": {"content": text}}]}

    chunks = [chunk(0, "a" + HIGH), chunk(1, "b" + HIGH), chunk(0, LOW), chunk(1, LOW + "c")]
    texts = [
        (getattr(event, "choice", 0), getattr(event, "text", ""))
        for event in decode("openai_chat", [*chunks, *openai_chat()])
    ]
    assert "".join(text for choice, text in texts if choice == 0) == f"a{FACE}"
    assert "".join(text for choice, text in texts if choice == 1) == f"b{FACE}c"


@pytest.mark.parametrize("name", MAKERS)
def test_an_odd_member_in_front_of_a_half_changes_nothing(name: str) -> None:
    odd: dict[str, Any] = {"mood": 1, "index": {}, "message": 1, "error": None, "choices": None, "id": []}
    messages = MAKERS[name]("a" + HIGH, LOW + "b")
    with_odd = [{k: v for k, v in odd.items() if k not in m} | m for m in messages]
    assert summarise(decode(name, with_odd)).text == f"a{FACE}b"


@pytest.mark.parametrize("name", MAKERS)
def test_bytes_that_are_not_utf8_cost_nothing_but_themselves(name: str) -> None:
    texts = [json.dumps(message).replace("XX", "\udcff") for message in MAKERS[name]("aXX", "b")]
    form = "{}\n" if name == "ollama" else "data: {}\n\n"
    data = "".join(form.format(text) for text in texts).encode("utf-8", "surrogateescape")
    assert summarise(decoded(name, data)).text == f"a{BAD}b"


@pytest.mark.parametrize("name", MAKERS)
def test_broken_json_with_an_escape_stays_broken(name: str) -> None:
    ending = MAKERS[name]("a")
    form = "{}\n" if name == "ollama" else "data: {}\n\n"
    data = form.format('{"a": "\\ud83d') + "".join(form.format(json.dumps(m)) for m in ending)
    error = summarise(decoded(name, data.encode())).error
    assert error is not None
    assert error.code == "bad_json"


def test_half_a_character_within_arguments_is_repaired() -> None:
    assert parse_arguments('{"a": "x\\ud83d", "b": "\\ud83d\\ude00"}') == {"a": f"x{BAD}", "b": FACE}


@pytest.mark.parametrize("data", [b"", b"{", b"1e999x", b'{"a": "\\ud83d', b"[" * 100_000 + b"\\u"])
def test_what_is_not_json_is_not_repaired(data: bytes) -> None:
    joiner = SurrogateJoiner("a")
    assert joiner.repaired(data) is None
    assert joiner.joined(data) == data


def test_names_of_members_are_repaired_too() -> None:
    assert SurrogateJoiner().repaired(b'{"a\\ud83d": 1}') == f'{{"a{BAD}": 1}}'.encode()
    assert whole("plain") == "plain"


@given(st.lists(st.sampled_from(["\\ud83d", "\\uDE00", "\\u0041", "é", "\\\\", "ud83d"]), max_size=6))
def test_what_can_be_read_needs_no_repair(pieces: list[str]) -> None:
    """Mending comes behind reading, and gives what mending before reading would give."""
    for data in (f'"{"".join(pieces)}"'.encode(), "".join(pieces).encode("latin-1")):
        repaired = SurrogateJoiner().repaired(data)
        assert read_repaired(data) == read_json(data if repaired is None else repaired)
