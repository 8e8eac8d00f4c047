"""The parts that arrive whole, and what they become: calls of Google's own tools, media, and what we do not know."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from rxworker.events import (
    BlockMetadata,
    BlockType,
    OpaqueMetadata,
    ToolResultMetadata,
    ToolUseMetadata,
)
from rxworker.messages import Json, JsonObject
from rxworker.providers.gemini.call import CALL
from rxworker.providers.gemini.seals import SIGNATURE

# What may stand in a part beside the field that gives it its kind.
BESIDE = (SIGNATURE, "thought", "partMetadata", "videoMetadata", "mediaResolution", "text")


class WholePart(Struct, frozen=True):
    """A part as a block.

    Attributes:
        block_type: What it holds.
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
        """What the part becomes."""
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

__all__ = ["READERS", "PartReader", "WholePart", "kind_of"]
