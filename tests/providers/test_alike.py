"""Frames that are alike, read in one go: what comes out is what the two machines in a row make of them, always."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxworker.events import ResponseEvent, TextDelta
from rxworker.framing import Chain, NdjsonDecoder, SseDecoder
from rxworker.providers import Anthropic, Ollama, OpenAIChat, OpenAIResponses, alike
from rxworker.providers.alike import FIRST_WINDOW, WINDOW
from rxworker.providers.anthropic.decode import AnthropicDecoder
from rxworker.providers.base import ResponseDecoder
from rxworker.providers.ollama.decode import OllamaDecoder
from rxworker.providers.openai_chat.decode import OpenAIChatDecoder
from rxworker.providers.openai_responses.decode import OpenAIResponsesDecoder

# Texts as JSON writes them: what a pattern could trip over.
WRITTEN = [
    '"word "',
    '"word "',
    '"a"',
    '""',
    '":"',
    '","',
    '"\\""',
    '"\\\\"',
    '"\\n"',
    '"\\u00e9"',
    '"\\ud83d\\ude00"',
    '"\\ud83d"',
    '"\\ude00"',
    '"delta"',
    '"text"',
    '"m"',
    '"{\\"a\\": "',
    '"}"',
    '"日本"',
    '"rxworker probe"',
    '"bad \\x escape"',
    "null",
    "7",
]


def sse(data: str, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {data}\n\n".encode()


def anthropic(kind: str, text: str, n: int) -> bytes:
    if kind == "start":
        block = {
            "type": ("text", "tool_use", "thinking", "server_tool_use")[n % 4],
            "id": "t",
            "name": "f",
        }
        start = {"type": "content_block_start", "index": n % 2, "content_block": block}
        return sse(json.dumps(start), "content_block_start")
    if kind == "stop":
        return sse(json.dumps({"type": "content_block_stop", "index": n % 2}), "content_block_stop")
    if kind == "odd":
        return (b": comment\n\n", sse('{"type": "ping"}'), b"data: {broken\n\n", b"id: 1\n\n")[
            n % 4
        ]
    field = {"text": "text", "call": "partial_json", "think": "thinking"}[kind]
    name = {"text": "text_delta", "call": "input_json_delta", "think": "thinking_delta"}[kind]
    index = n % 2
    return sse(
        f'{{"type":"content_block_delta","index":{index},"delta":{{"type":"{name}","{field}":{text}}}}}',
        "content_block_delta",
    )


def chat(kind: str, text: str, n: int) -> bytes:
    if kind == "start":
        call = {"index": n % 2, "id": f"c{n}", "function": {"name": "f", "arguments": ""}}
        delta = json.dumps({"tool_calls": [call]})
    elif kind == "stop":
        return sse('{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
    elif kind == "odd":
        return (
            b": comment\n\n",
            sse('{"id":"x","choices":[]}'),
            b"data: {broken\n\n",
            b"id: 1\n\n",
        )[n % 4]
    else:
        delta = {
            "text": f'{{"content":{text}}}',
            "call": f'{{"tool_calls":[{{"index":{n % 2},"function":{{"arguments":{text}}}}}]}}',
            "think": f'{{"reasoning_content":{text}}}',
        }[kind]
    return sse(
        f'{{"id":"x","model":"m","created":{n},"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}'
    )


def responses(kind: str, text: str, n: int) -> bytes:
    number = f'"sequence_number":{n}'
    if kind == "start":
        item = (
            '{"type":"message","id":"m1"}',
            '{"type":"function_call","call_id":"c","name":"f"}',
        )[n % 2]
        return sse(
            f'{{"type":"response.output_item.added","output_index":{n % 2},"item":{item},{number}}}'
        )
    if kind == "stop":
        return sse(
            f'{{"type":"response.output_text.done","output_index":0,"content_index":0,"text":{text},{number}}}'
        )
    if kind == "odd":
        return (
            b": comment\n\n",
            sse('{"type":"response.queued"}'),
            b"data: {broken\n\n",
            b"id: 1\n\n",
        )[n % 4]
    about = {
        "text": ("response.output_text.delta", 0),
        "call": ("response.function_call_arguments.delta", 1),
        "think": ("response.output_text.delta", 0),
    }[kind]
    return sse(
        f'{{"type":"{about[0]}","item_id":"m1","output_index":{about[1]},"content_index":0,"delta":{text},{number},'
        f'"obfuscation":"o{n}"}}'
    )


def ollama(kind: str, text: str, n: int) -> bytes:
    if kind in ("start", "stop", "odd"):
        return (
            b"\n",
            b'{"model":"m","message":{"role":"assistant"},"done":false}\n',
            b"{broken\n",
        )[n % 3]
    field = "thinking" if kind == "think" else "content"
    return (
        f'{{"model":"m","created_at":"2026-01-0{n % 9}","message":{{"role":"assistant","{field}":{text}}},"done":false}}\n'
    ).encode()


Frame = Callable[[str, str, int], bytes]
CASES: dict[str, tuple[Frame, Callable[[], ResponseDecoder], Callable[[], ResponseDecoder]]] = {
    "anthropic": (
        anthropic,
        Anthropic("m", api_key="k").decoder,
        lambda: Chain(SseDecoder(stray=True), AnthropicDecoder(new_id)),
    ),
    "openai_chat": (
        chat,
        OpenAIChat("m", api_key="k").decoder,
        lambda: Chain(SseDecoder(stray=True), OpenAIChatDecoder(new_id)),
    ),
    "openai_responses": (
        responses,
        OpenAIResponses("m", api_key="k").decoder,
        lambda: Chain(SseDecoder(stray=True), OpenAIResponsesDecoder(new_id)),
    ),
    "ollama": (
        ollama,
        Ollama("m").decoder,
        lambda: Chain(NdjsonDecoder(), OllamaDecoder(new_id)),
    ),
}
STORY = st.lists(
    st.tuples(
        st.sampled_from(
            ["text", "text", "text", "text", "call", "call", "think", "start", "stop", "odd"]
        ),
        st.sampled_from(WRITTEN),
        st.integers(0, 3),
        st.integers(1, 4),
    ),
    max_size=30,
)


def new_id() -> str:
    return "made"


def told(decoder: ResponseDecoder, pieces: Sequence[bytes]) -> list[str]:
    """What comes out; ids that were made are no part of it."""
    events: list[ResponseEvent] = []
    for piece in pieces:
        events.extend(decoder.feed(piece))
    events.extend(decoder.finish())
    return [_without_made_ids(repr(event)) for event in events]


def _without_made_ids(text: str) -> str:
    head, mark, rest = text.partition("rxw_")
    return head + "made" + rest.partition("'")[1] + rest.partition("'")[2] if mark else text


@pytest.mark.parametrize("windows", [(1, 1), (200, 600), (FIRST_WINDOW, WINDOW)])
@pytest.mark.parametrize("name", CASES)
@given(story=STORY, cuts=st.lists(st.integers(1, 400), max_size=12))
@settings(max_examples=60, deadline=None)
def test_what_comes_out_is_what_the_plain_machines_make_however_it_is_cut(
    name: str, windows: tuple[int, int], story: list[tuple[str, str, int, int]], cuts: list[int]
) -> None:
    frame, quick, plain = CASES[name]
    stream = b"".join(frame(kind, text, n) * times for kind, text, n, times in story)
    pieces, place = list[bytes](), 0
    for cut in cuts:
        pieces.append(stream[place : place + cut])
        place += cut
    pieces.append(stream[place:])
    with (
        patch.object(alike, "FIRST_WINDOW", windows[0]),
        patch.object(alike, "WINDOW", windows[1]),
    ):
        assert told(quick(), pieces) == told(plain(), pieces)


@pytest.mark.parametrize("name", ["anthropic", "ollama"])
def test_frames_that_are_alike_are_read_without_the_decoder(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would not be quick; this is what tells that the patterns are found at all."""
    frame, quick, _ = CASES[name]
    decoder = quick()
    fed: list[object] = []
    inner = decoder._decoder  # type: ignore[attr-defined] # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownVariableType]
    one, many = inner.feed, inner.feed_many  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def feed(item: object) -> object:
        fed.append(item)
        return one(item)  # pyright: ignore[reportUnknownVariableType]

    def feed_many(items: Sequence[object]) -> object:
        fed.extend(items)
        return many(items)  # pyright: ignore[reportUnknownVariableType]

    monkeypatch.setattr(inner, "feed", feed)  # pyright: ignore[reportUnknownArgumentType]
    monkeypatch.setattr(inner, "feed_many", feed_many)  # pyright: ignore[reportUnknownArgumentType]
    head = [frame("start", '""', 0)] if name != "ollama" else []
    stream = b"".join([*head, *(frame("text", f'"w{n} "', 2) for n in range(2000))])
    events = [event for event in decoder.feed(stream) if isinstance(event, TextDelta)]
    assert [event.text for event in events] == [f"w{n} " for n in range(2000)]
    assert len(fed) <= 2 * FIRST_WINDOW / len(frame("text", '"w1 "', 2))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["text", "call", "think"])
@pytest.mark.parametrize("n", range(4))
def test_any_text_may_be_the_one_that_is_learned(name: str, kind: str, n: int) -> None:
    frame, quick, plain = CASES[name]
    for first in WRITTEN:
        for second in WRITTEN:
            frames = [frame("start", '""', n), *(frame(kind, text, n) for text in (first, second))]
            frames += [frame(kind, first, n), frame(kind, second, n), frame("stop", '"aa"', n)]
            stream = [b"".join(frames)]
            assert told(quick(), stream) == told(plain(), stream), (first, second)


def test_a_decoder_that_remembers_its_texts_is_given_them() -> None:
    """Their end brings all of it once more, and only what has not come may be added."""
    frames = [responses("start", '""', 0), *(responses("text", f'"{c}"', 0) for c in "abcd")]
    stream = [b"".join([*frames, responses("stop", '"abcde"', 0)])]
    _, quick, plain = CASES["openai_responses"]
    assert told(quick(), stream) == told(plain(), stream)


@pytest.mark.parametrize("places", ["aaaabbbbaaaa", "abababab", "aaab"])
@pytest.mark.parametrize("name", ["anthropic", "openai_chat", "openai_responses"])
def test_calls_whose_pieces_alternate_are_kept_apart(name: str, places: str) -> None:
    frames = {"anthropic": anthropic_call, "openai_chat": chat_call, "openai_responses": item_call}
    frame = frames[name]
    begin = [frame(0, None), frame(1, None)]
    stream = [b"".join([*begin, *(frame(place == "b", f"{n}") for n, place in enumerate(places))])]
    _, quick, plain = CASES[name]
    assert told(quick(), stream) == told(plain(), stream)


def test_items_that_are_told_apart_by_their_ids_alone_are_kept_apart() -> None:
    """A server says 0 for every item; the last that came under it is a message, so that its calls are known by their ids."""

    def added(name: str, sort: str) -> bytes:
        item = f'"item":{{"type":"{sort}","id":"{name}","call_id":"c{name}","name":"f"}}'
        return sse(f'{{"type":"response.output_item.added","output_index":0,{item}}}')

    def piece(name: str, text: str) -> bytes:
        about = f'"output_index":0,"item_id":"{name}","delta":"{text}"'
        return sse(f'{{"type":"response.function_call_arguments.delta",{about}}}')

    items = [added("a", "function_call"), added("m", "message")]
    items += [added("b", "function_call"), added("n", "message")]
    pieces = [piece(name, f"{name}{n}") for n in range(6) for name in "ab"]
    stream = [b"".join([*items, *pieces, responses("odd", "", 1)])]
    _, quick, plain = CASES["openai_responses"]
    assert told(quick(), stream) == told(plain(), stream)


def anthropic_call(index: int, piece: str | None) -> bytes:
    block = f'"content_block":{{"type":"tool_use","id":"c{index}","name":"f","input":{{}}}}'
    delta = f'"delta":{{"type":"input_json_delta","partial_json":"{piece}"}}'
    kind, about = ("start", block) if piece is None else ("delta", delta)
    return sse(f'{{"type":"content_block_{kind}","index":{int(index)},{about}}}')


def chat_call(index: int, piece: str | None) -> bytes:
    about = f'"id":"c{index}","function":{{"name":"f"}}'
    about = about if piece is None else f'"function":{{"arguments":"{piece}"}}'
    call = f'{{"index":{int(index)},{about}}}'
    return sse(f'{{"id":"x","choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}}}}]}}')


def item_call(index: int, piece: str | None) -> bytes:
    item = f'"item":{{"type":"function_call","call_id":"c{index}","name":"f"}}'
    kind, about = (
        ("output_item.added", item)
        if piece is None
        else ("function_call_arguments.delta", f'"delta":"{piece}"')
    )
    return sse(f'{{"type":"response.{kind}","output_index":{int(index)},{about}}}')


def test_a_whole_text_that_is_told_twice_is_no_more_of_it() -> None:
    """It makes a delta where nothing was streamed; what comes like it is no delta."""
    call = '{"type":"function_call","call_id":"c","name":"look"}'
    begin = sse(f'{{"type":"response.output_item.added","output_index":0,"item":{call}}}')
    whole = sse(
        '{"type":"response.function_call_arguments.done","output_index":0,"arguments":"[1]"}'
    )
    stream = [begin + whole + whole]
    _, quick, plain = CASES["openai_responses"]
    assert told(quick(), stream) == told(plain(), stream)


def test_a_call_that_began_anew_is_seen_by_what_came_before_it() -> None:
    pieces = ['"{"', '"\\"a\\":"', '"1"', '"}"']
    frames = [chat("start", "", 0), *(chat("call", piece, 0) for piece in pieces)]
    stream = [
        b"".join([*frames, chat("start", "", 2), chat("call", '"{}"', 0), chat("stop", "", 0)])
    ]
    _, quick, plain = CASES["openai_chat"]
    assert told(quick(), stream) == told(plain(), stream)


def test_a_call_whose_first_piece_is_learned_has_not_come_whole_when_more_is_read_alike() -> None:
    def piece(call: str) -> bytes:
        return sse(f'{{"id":"r","choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}}}}]}}')

    named = '{"index":0,"id":"c","function":{"name":"f","arguments":"%s"}}'
    bare = '{"index":0,"function":{"arguments":"%s"}}'
    frames = [piece(named % ""), piece(bare % "{}"), piece(bare % " "), piece(named % "{}")]
    alike, plain = OpenAIChat("m").decoder(), Chain(SseDecoder(stray=True), OpenAIChatDecoder())
    assert told(alike, frames) == told(plain, frames)


def test_a_text_that_looks_like_what_stands_between_others_is_not_taken_for_it() -> None:
    """Its JSON is there more than once, though it is one value only."""
    frames = [anthropic("start", "", 0), anthropic("text", '"\\u003a"', 0)]
    stream = [b"".join([*frames, anthropic("text", '":"', 0), anthropic("text", '"b"', 0)])]
    _, quick, plain = CASES["anthropic"]
    assert told(quick(), stream) == told(plain(), stream)


def test_another_field_that_says_the_same_is_not_taken_for_the_text() -> None:
    r"""The text is written as ``\u0068i`` here, and it is the model that is called ``hi``."""

    def said(model: str) -> bytes:
        return sse(
            f'{{"id":"x","model":"{model}","choices":[{{"index":0,"delta":{{"content":"\\u0068i"}}}}]}}'
        )

    stream = [b"".join([said("hi"), said("hi"), said("ho"), said("he")])]
    _, quick, plain = CASES["openai_chat"]
    assert told(quick(), stream) == told(plain(), stream)
