"""The parts of a candidate: function calls, calls of Google's own tools, media, and parts of unknown kinds.

A function call is complete in one part, or its arguments are streamed by path over several. A streamed call begins with
a name and ``willContinue``, continues with ``partialArgs``, and ends with a piece that does not continue. That end is
sometimes left out: another call, another kind of part or the end of the candidate then end it.

Gemini streams a text as many parts, and any of them may carry a ``thoughtSignature``. Parts without one may be joined
on the way back, but never with one that has one. Users are shown one block, so the block's echo records from where to
where each signed part went, and the encoder cuts the text there again.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from rxworker.events import (
    BlockType,
    InputJsonDelta,
    InputValueDelta,
    ResponseEvent,
)
from rxworker.events.arguments import member_path
from rxworker.messages import Json, JsonObject

CALL = "functionCall"
LENGTH = "length"
SEALS = "seals"  # the name in stored conversations
SIGNATURE = "thoughtSignature"
SNAKE = "thought_signature"  # the same at some gateways
CONTINUES = "willContinue"


class PendingCall(Struct, eq=False):
    """A call whose block is open.

    Attributes:
        index: The index of its block.
        wire_id: The id that Gemini sent, empty if none.
        echo: The members of its first part other than the call.
        later: Those of the later parts.
        by_path: Whether its arguments are streamed by path.
        growing: The paths whose text is not whole.
        has_arguments: Whether any came.
    """

    index: int
    wire_id: str
    echo: JsonObject
    later: JsonObject = {}
    by_path: bool = False
    growing: set[str] = set()
    has_arguments: bool = False

    def take(self, call: JsonObject) -> Iterator[ResponseEvent]:
        """The arguments of a piece."""
        args, partial = call.get("args"), call.get("partialArgs")
        self.by_path |= bool(call.get(CONTINUES) or partial)
        self.has_arguments |= bool(args or partial)
        if args:
            if self.by_path and isinstance(args, dict):
                for name, value in args.items():
                    yield InputValueDelta(self.index, member_path(name), value)
            else:
                yield InputJsonDelta(self.index, msgspec.json.encode(args).decode())
        for piece in partial if isinstance(partial, list) else ():
            if isinstance(piece, dict):
                yield from self._take_value(piece)

    def late_echo(self) -> JsonObject | None:
        """The fields of the echo that arrived after the start of the block."""
        return {k: v for k, v in self.later.items() if self.echo.get(k) != v} or None

    def _take_value(self, piece: JsonObject) -> Iterator[ResponseEvent]:
        path = piece.get("jsonPath")
        if not isinstance(path, str):
            return
        values = [None if name == "nullValue" else v for name, v in piece.items() if name.endswith("Value")]
        for value in values[:1]:
            append = path in self.growing and isinstance(value, str)
            yield InputValueDelta(self.index, path, value, append)
        if piece.get(CONTINUES):
            self.growing.add(path)
        else:
            self.growing.discard(path)


def beside(part: JsonObject) -> JsonObject:
    """The fields of a part besides the call itself: its signature, and fields that Google may add.

    A text has a block of its own.

    >>> beside({"functionCall": {"name": "look"}, "thoughtSignature": "AAAA"})
    {'thoughtSignature': 'AAAA'}
    """
    taken = (CALL, "text", "thought") if part.get("text") else (CALL,)
    return {key: value for key, value in part.items() if key not in taken}


# What may stand in a part beside the field that gives it its kind.
BESIDE = (SIGNATURE, "thought", "partMetadata", "videoMetadata", "mediaResolution", "text")


# What a part becomes, by its kind. Any other is opaque, and is sent back as it came.
KINDS = {
    "executableCode": BlockType.SERVER_TOOL_USE,
    "codeExecutionResult": BlockType.SERVER_TOOL_RESULT,
    "toolCall": BlockType.SERVER_TOOL_USE,
    "toolResponse": BlockType.SERVER_TOOL_RESULT,
    "inlineData": BlockType.IMAGE,
    "fileData": BlockType.IMAGE,
}


def kind_of(part: JsonObject) -> str:
    """The field that gives a part its kind; empty where there is only text, or nothing.

    >>> kind_of({"thoughtSignature": "AAAA", "toolCall": {}})
    'toolCall'
    >>> kind_of({"somethingNew": 1, "functionCall": {}})
    'functionCall'
    """
    unknown = ""
    for key, value in part.items():
        if key in BESIDE or value is None:
            continue
        if (key == CALL or key in KINDS) and isinstance(value, dict):
            return key  # whatever else the part holds, and in whatever order
        unknown = unknown or key
    return unknown


class Signatures(Struct, eq=False):
    """The signatures of a block while its parts arrive.

    Attributes:
        length: That of the text so far.
        signed: Where each signed part began and ended, and its signature.

    >>> signatures = Signatures()
    >>> signatures.add("Hel", None)
    >>> signatures.add("lo", "AAAA")
    >>> signatures.echo()
    {'length': 5, 'seals': [[3, 5, 'AAAA']]}
    """

    length: int = 0
    signed: list[Json] = []

    def add(self, text: str, signature: str | None) -> None:
        """Another part, which may be signed and may be empty."""
        end = self.length + len(text)
        if signature is not None:
            self.signed.append([self.length, end, signature])
        self.length = end

    def echo(self) -> JsonObject | None:
        """The echo for the next request; ``None`` if there is no signature."""
        return {LENGTH: self.length, SEALS: self.signed} if self.signed else None


def split(text: str, echo: JsonObject | None) -> Iterator[JsonObject]:
    """The parts of a text, each signed one by itself. A text that has been changed since has lost its signatures.

    >>> list(split("Hello", {"length": 5, "seals": [[3, 5, "AAAA"]]}))
    [{'text': 'Hel'}, {'text': 'lo', 'thoughtSignature': 'AAAA'}]
    """
    signatures = echo.get(SEALS) if echo and echo.get(LENGTH) == len(text) else None
    at = 0
    for signed in signatures if isinstance(signatures, list) else ():
        match signed:
            case [int(start), int(end), str(signature)] if at <= start <= end:
                if start > at:
                    yield {"text": text[at:start]}
                yield {"text": text[start:end], SIGNATURE: signature}
                at = end
            case _:
                pass
    if at < len(text):
        yield {"text": text[at:]}
