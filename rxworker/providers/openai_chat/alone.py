"""Chunks that do nothing but add to a text, or bring one piece of a call: nearly all of a Chat Completions stream.

They are read by decoders that know nothing else and refuse every field that could say more, so that nobody has to ask. For what OpenAI
sends, content and calls, there are two each: one for a delta with one field, as it sends it, and one for servers that send others with
nothing in them; thoughts have the latter alone. All are for the first choice alone: where there are several, their chunks alternate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from rxworker.providers.openai_chat.wire import WireToolCall

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Said: TypeAlias = Annotated[str, Meta(min_length=1)]
Empty: TypeAlias = Literal["", None]
NoMembers: TypeAlias = tuple[()] | None


class _BareContent(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    text: Said = field(name="content")


class _BareCall(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    tool_calls: tuple[WireToolCall]


class _Silent(Struct, frozen=True, gc=False, kw_only=True):
    """What stands beside the one field of a delta that says something."""

    refusal: Empty = None
    reasoning_details: NoMembers = None
    function_call: None = None
    annotations: NoMembers = None
    audio: None = None
    images: None = None
    executed_tools: None = None


class _Content(_Silent, frozen=True, gc=False, kw_only=True):
    text: Said = field(name="content")
    reasoning_content: Empty = None
    reasoning: Empty = None
    tool_calls: NoMembers = None


class _Reasoning(_Silent, frozen=True, gc=False, kw_only=True):
    text: Said = field(name="reasoning")
    content: Empty = None
    reasoning_content: None = None
    tool_calls: NoMembers = None


class _ReasoningContent(_Silent, frozen=True, gc=False, kw_only=True):
    text: Said = field(name="reasoning_content")
    content: Empty = None
    reasoning: Empty = None
    tool_calls: NoMembers = None


class _Call(_Silent, frozen=True, gc=False, kw_only=True):
    tool_calls: tuple[WireToolCall]
    content: Empty = None
    reasoning_content: None = None
    reasoning: Empty = None


D = TypeVar("D")


class _Choice(Struct, Generic[D], frozen=True, gc=False):
    delta: D
    index: Literal[0] = 0
    finish_reason: Empty = None
    usage: None = None


class _Chunk(Struct, Generic[D], frozen=True, gc=False):
    choices: tuple[_Choice[D]]
    usage: None = None
    error: None = None
    x_groq: None = None


TextReader: TypeAlias = (
    Callable[[bytes], _Chunk[_BareContent]]
    | Callable[[bytes], _Chunk[_Content]]
    | Callable[[bytes], _Chunk[_Reasoning]]
    | Callable[[bytes], _Chunk[_ReasoningContent]]
)
CallReader: TypeAlias = Callable[[bytes], _Chunk[_BareCall]] | Callable[[bytes], _Chunk[_Call]]

read_bare_content = msgspec.json.Decoder(_Chunk[_BareContent]).decode
read_content = msgspec.json.Decoder(_Chunk[_Content]).decode
read_reasoning = msgspec.json.Decoder(_Chunk[_Reasoning]).decode
read_reasoning_content = msgspec.json.Decoder(_Chunk[_ReasoningContent]).decode
read_bare_call = msgspec.json.Decoder(_Chunk[_BareCall]).decode
read_call = msgspec.json.Decoder(_Chunk[_Call]).decode


def texts_alone(read: TextReader, datas: Sequence[bytes], place: int = 0) -> list[str]:
    """What the chunks from this place on add to a text, as long as they do nothing else.

    >>> chunk = b'{"choices": [{"index": 0, "delta": {"content": "Hi"}}]}'
    >>> texts_alone(read_content, [chunk, chunk, b'{"choices": []}', chunk])
    ['Hi', 'Hi']
    """
    texts: list[str] = []
    try:
        for one in range(place, len(datas)):
            texts.append(read(datas[one]).choices[0].delta.text)
    except UNREADABLE:
        pass  # who looks at it closely will know what it is
    return texts


__all__ = [
    "UNREADABLE",
    "CallReader",
    "TextReader",
    "read_bare_call",
    "read_bare_content",
    "read_call",
    "read_content",
    "read_reasoning",
    "read_reasoning_content",
    "texts_alone",
]
