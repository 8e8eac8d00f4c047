r"""Characters that were cut in the middle, and how they become whole again.

JSON writes a character beyond the first 65,536 as two escapes, a high and a low half: ``"\ud83d\ude00"``. Servers that
cut their text by its 16-bit units put the halves into two frames, and a limit may cut one off for good. Such a frame is
not valid for a strict reader; but for half a character no response should die.

Here the halves are found and put together: a high half at the very end of a delta is held until the next delta of the
same text. If that begins with the low half, the character comes out whole; if not, U+FFFD replaces the half. One that
no text follows is left out. A half anywhere else becomes U+FFFD, and so do bytes that are not UTF-8.

Decoders come here only when a frame could not be read, and for the frames after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from rxworker.messages.json import Json, JsonObject

# The values that distinguish one text from another, besides the names of the fields that lead to it.
IDENTITY = ("index", "output_index", "content_index", "summary_index", "thought")

LARGEST_INT = 2**63 - 1
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What bytes or a text raise that are not what is expected."""

Key: TypeAlias = tuple[object, ...]

_HIGH_HALF_AT_THE_END = re.compile("[\ud800-\udbff]\\Z")


class SurrogateJoiner:
    r"""Joins the halves of characters, which are surrogates, over the frames of one response.

    Args:
        names: The fields whose texts continue in the next frame.

    Attributes:
        held: The high halves that wait, by the texts that they are the ends of.

    >>> joiner = SurrogateJoiner("text")
    >>> joiner.repaired(b'{"text": "a\\ud83d"}')
    b'{"text": "a"}'
    >>> joiner.joined(b'{"text": "\\ude00b"}').decode()
    '{"text": "😀b"}'
    """

    __slots__ = ("_names", "held")

    def __init__(self, *names: str) -> None:
        self.held: dict[Key, str] = {}
        self._names = names

    def repaired(self, data: bytes) -> bytes | None:
        """The JSON without halves; ``None`` where they are not what is wrong with it."""
        if not self.held and data.isascii() and b"\\u" not in data:  # a half is an escape, or not UTF-8
            return None
        text = data.decode("utf-8", "replace")
        try:
            value: Json = json.loads(text)
            cleaned = self._cleaned(value, (), "")
        except (ValueError, RecursionError):
            return None
        if cleaned == value and text.encode() == data:
            return None
        return json.dumps(cleaned, ensure_ascii=False).encode()

    def joined(self, data: bytes) -> bytes:
        """Later data, with the two halves of a character joined if a half is held and this is the next of its text."""
        repaired = self.repaired(data) if self.held else None
        return data if repaired is None else repaired

    def _cleaned(self, value: Json, key: Key, name: str) -> Json:
        if isinstance(value, str):
            return self._piece(value, (*key, name)) if name in self._names else whole(value)
        if isinstance(value, list):
            return [self._cleaned(one, key, name) for one in value]
        if isinstance(value, dict):
            marks = (value.get(mark) for mark in IDENTITY)
            key = (*key, name, *[mark if isinstance(mark, int) else None for mark in marks])
            return {whole(n): self._cleaned(member, key, n) for n, member in value.items()}
        return value

    def _piece(self, piece: str, key: Key) -> str:
        if not piece:
            return piece
        text = self.held.pop(key, "") + piece
        if _HIGH_HALF_AT_THE_END.search(text):
            self.held[key] = text[-1]
            text = text[:-1]
        return whole(text)


def whole(text: str) -> str:
    r"""The text with its halves joined, and U+FFFD for single ones.

    >>> whole("\ud83d\ude00 \ud83d") == "\U0001f600 \ufffd"
    True
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def read_json(data: bytes | str) -> Json:
    """The JSON of a frame, ``None`` if it is not JSON."""
    try:
        decoded: Json = msgspec.json.decode(data)
    except UNREADABLE:
        return None
    return decoded


def read_repaired(data: bytes) -> Json:
    r"""The JSON of bytes that nothing follows, with U+FFFD for half a character in it; ``None`` if they are not JSON.

    >>> read_repaired(b'"a\\ud83d"') == "a\ufffd"
    True
    """
    try:
        decoded: Json = msgspec.json.decode(data)  # a strict reader rejects halves, so its result needs no repair
    except UNREADABLE:
        repaired = SurrogateJoiner().repaired(data)
        return None if repaired is None else read_json(repaired)
    return decoded


def word(value: Json) -> str:
    """A text, or the empty one for any other value.

    >>> word("Oslo"), word(3), word(None)
    ('Oslo', '', '')
    """
    return value if isinstance(value, str) else ""


def as_object(value: Json) -> JsonObject:
    """An object, or an empty one for any other value.

    >>> as_object({"city": "Oslo"}), as_object("Oslo")
    ({'city': 'Oslo'}, {})
    """
    return value if isinstance(value, dict) else {}


def as_array(value: Json) -> Sequence[Json]:
    """An array, or an empty one for any other value.

    >>> as_array(["Oslo"]), as_array("Oslo")
    (['Oslo'], ())
    """
    return value if isinstance(value, list | tuple) else ()


def objects_in(value: Json) -> list[JsonObject]:
    """The objects in an array; none in any other value.

    >>> objects_in([{"city": "Oslo"}, None]), objects_in("Oslo")
    ([{'city': 'Oslo'}], [])
    """
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list | tuple) else []


def json_text(value: Json) -> str:
    """A text as it is, the empty one for ``None``, and any other value as JSON.

    >>> json_text('{"at": 1}'), json_text({"at": 1}), json_text(None)
    ('{"at": 1}', '{"at":1}', '')
    """
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def encode_lenient(value: object) -> bytes:
    r"""Encode a value as JSON.

    Half characters and integers beyond 64 bits are replaced by what JSON and UTF-8 can hold, so that it never raises.

    >>> encode_lenient({"half": "\ud83d"}).decode()
    '{"half":"\ufffd"}'
    """
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return msgspec.json.encode(_encodable(msgspec.to_builtins(value)))


def _encodable(value: Json) -> Json:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole(name): _encodable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(member) for member in value]
    if isinstance(value, int) and abs(value) > LARGEST_INT:
        return str(value)
    return value
