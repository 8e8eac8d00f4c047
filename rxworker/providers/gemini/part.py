"""The parts of a candidate: function calls, calls of Google's own tools, media, and parts of unknown kinds.

A function call is complete in one part, or its arguments are streamed by path over several. A streamed call begins with a name and ``willContinue``, continues with
``partialArgs``, and ends with a piece that does not continue. That end is sometimes left out: another call, another kind of part or the end of the candidate then end it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from rxworker.events import (
    BlockType,
    InputJsonDelta,
    InputValueDelta,
    ResponseEvent,
    ToolUseMetadata,
)
from rxworker.events.arguments import member_path
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.messages import Json, JsonObject
from rxworker.providers.gemini.signatures import SIGNATURE

CALL = "functionCall"
CONTINUES = "willContinue"


class PendingCall:
    """A call whose block is open.

    Args:
        index: The index of its block.
        wire_id: The id that Gemini sent, empty if none.
        echo: The members of its first part other than the call.

    Attributes:
        index: The index of its block.
        wire_id: The id that Gemini sent, empty if none.
    """

    __slots__ = ("_by_path", "_first_echo", "_growing", "_late_echo", "index", "wire_id")

    def __init__(self, index: int, wire_id: str, echo: JsonObject) -> None:
        self.index = index
        self.wire_id = wire_id
        self._first_echo = echo
        self._late_echo: JsonObject = {}
        self._by_path = False
        self._growing: set[str] = set()  # the paths whose text is not whole

    def take(self, call: JsonObject) -> Iterator[ResponseEvent]:
        """The arguments of a piece."""
        args, partial = call.get("args"), call.get("partialArgs")
        self._by_path |= bool(call.get(CONTINUES) or partial)
        if args:
            if self._by_path and isinstance(args, dict):
                for name, value in args.items():
                    yield InputValueDelta(self.index, member_path(name), value)
            else:
                yield InputJsonDelta(self.index, msgspec.json.encode(args).decode())
        for piece in partial if isinstance(partial, list) else ():
            if isinstance(piece, dict):
                yield from self._take_value(piece)

    def keep(self, echo: JsonObject) -> None:
        """Keep the fields of a later part besides the call."""
        self._late_echo |= echo

    def late_echo(self) -> JsonObject | None:
        """The fields of the echo that arrived after the start of the block."""
        known = self._first_echo
        return {k: v for k, v in self._late_echo.items() if known.get(k) != v} or None

    def _take_value(self, piece: JsonObject) -> Iterator[ResponseEvent]:
        path = piece.get("jsonPath")
        if not isinstance(path, str):
            return
        for value in _values(piece):
            append = path in self._growing and isinstance(value, str)
            yield InputValueDelta(self.index, path, value, append)
        if piece.get(CONTINUES):
            self._growing.add(path)
        else:
            self._growing.discard(path)


def beside(part: JsonObject) -> JsonObject:
    """The fields of a part besides the call itself: its signature, and fields that Google may add. A text has a block of its own.

    >>> beside({"functionCall": {"name": "look"}, "thoughtSignature": "AAAA"})
    {'thoughtSignature': 'AAAA'}
    """
    taken = (CALL, "text", "thought") if part.get("text") else (CALL,)
    return {key: value for key, value in part.items() if key not in taken}


def _values(piece: JsonObject) -> list[Json]:
    """The value of a piece, under the name of its type; none or one."""
    values = [None if name == "nullValue" else v for name, v in piece.items() if _is_value(name)]
    return values[:1]


def _is_value(name: str) -> bool:
    return name.endswith("Value")


# What may stand in a part beside the field that gives it its kind.
BESIDE = (SIGNATURE, "thought", "partMetadata", "videoMetadata", "mediaResolution", "text")


class WholePart(Struct, frozen=True):
    """A part as a block.

    Attributes:
        block_type: The type of its content.
        metadata: Which tool, result or unknown kind.
        arguments: The JSON text of a call's arguments.
    """

    block_type: BlockType
    metadata: BlockMetadata | None = None
    arguments: str = ""


class PartReader:
    """Reads whole parts, and gives ids to calls that have none.

    Args:
        new_id: Makes an id.

    >>> PartReader(str).read({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}).block_type
    <BlockType.IMAGE: 'image'>
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._last_id = ""  # a result without an id belongs to the last call

    def read(self, part: JsonObject) -> WholePart:
        """The block of a part."""
        kind = kind_of(part)
        value = part.get(kind)
        read = READERS.get(kind)
        if read is None or not isinstance(value, dict):
            return WholePart(BlockType.OPAQUE, OpaqueMetadata(kind or SIGNATURE))
        return read(self, kind, value)

    def _code(self, kind: str, value: JsonObject) -> WholePart:
        code: JsonObject = {k: v for k, v in value.items() if k != "id"}
        return self._call(kind, value, code)

    def _server_call(self, kind: str, value: JsonObject) -> WholePart:
        return self._call(_text(value.get("toolType")) or kind, value, value.get("args"))

    def _call(self, name: str, value: JsonObject, arguments: Json) -> WholePart:
        self._last_id = _text(value.get("id")) or self._new_id()
        text = msgspec.json.encode(arguments).decode() if arguments else ""
        return WholePart(BlockType.SERVER_TOOL_USE, ToolUseMetadata(self._last_id, name), text)

    def _result(self, kind: str, value: JsonObject) -> WholePart:
        call_id = _text(value.get("id")) or self._last_id
        return WholePart(BlockType.SERVER_TOOL_RESULT, ToolResultMetadata(call_id, kind))

    def _media(self, kind: str, value: JsonObject) -> WholePart:
        if _text(value.get("mimeType")).startswith("image/"):
            return WholePart(BlockType.IMAGE)
        return WholePart(BlockType.OPAQUE, OpaqueMetadata(kind))


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
        if (key == CALL or key in READERS) and isinstance(value, dict):
            return key  # whatever else the part holds, and in whatever order
        unknown = unknown or key
    return unknown


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


# The parts by their kinds. Any other is opaque, and is sent back as it came.
READERS: dict[str, Callable[[PartReader, str, JsonObject], WholePart]] = {
    "executableCode": PartReader._code,
    "codeExecutionResult": PartReader._result,
    "toolCall": PartReader._server_call,
    "toolResponse": PartReader._result,
    "inlineData": PartReader._media,
    "fileData": PartReader._media,
}
