"""The blocks of the Messages stream: what they become, and what must be kept of them for the next request."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rxworker.events import (
    BlockMetadata,
    BlockType,
    OpaqueMetadata,
    ToolResultMetadata,
    ToolUseMetadata,
)
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import read_mended

PROSE = {"text": BlockType.TEXT, "thinking": BlockType.THINKING}
TOOL_USE = BlockType.TOOL_USE
OWN = frozenset({"type", "id", "name", "input"})  # what the next request says of a call anyway
NAMELESS = OpaqueMetadata("tool_use")  # a call that names no tool, and so cannot run
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")


Opening: TypeAlias = tuple[BlockType, BlockMetadata | None, JsonObject | None]
"""How a block begins: what it holds; which tool, result or unknown kind; and what the next request must repeat, as far as it is known."""


class OpenBlock(Struct):
    """A block that has started, with what its deltas add to its echo.

    Attributes:
        index: Its number among the blocks of the response.
        block_type: What it holds.
        began_whole: Whether it is a call whose start had its arguments.
        is_nameless: Whether it is a call that names no tool, and so cannot run.
        pieces: Texts for the echo, by their fields, in pieces.
        kept: What goes into the echo as it is.
    """

    index: int
    block_type: BlockType
    began_whole: bool = False
    is_nameless: bool = False
    pieces: dict[str, list[str]] | None = None
    kept: JsonObject | None = None

    def keep(self, field: str, piece: str) -> None:
        """Add to a text that the echo will hold."""
        if self.pieces is None:
            self.pieces = {}
        self.pieces.setdefault(field, []).append(piece)

    def keep_all(self, fields: JsonObject) -> None:
        """Put these into the echo as they are."""
        self.kept = {**(self.kept or {}), **fields}

    def echo(self) -> JsonObject | None:
        """What the deltas have added, ``None`` for nothing."""
        if self.pieces is None:
            return self.kept or None
        joined: JsonObject = {field: "".join(pieces) for field, pieces in self.pieces.items()}
        if "input" in joined:
            joined["input"] = parsed(joined["input"])
        return {**(self.kept or {}), **joined}


def read_block(block: JsonObject) -> Opening:
    """What a ``content_block`` is.

    >>> read_block({"type": "text", "text": ""})
    (<BlockType.TEXT: 'text'>, None, None)
    """
    sort = block.get("type")
    if sort == "tool_use":
        echo: JsonObject | None = None
        if not OWN.issuperset(block):
            echo = {key: value for key, value in block.items() if key not in OWN}
        tool = _tool(block)
        if not tool.name:
            return BlockType.OPAQUE, NAMELESS, None
        return TOOL_USE, tool, echo
    kind = text_of(sort)
    if kind in PROSE:
        return PROSE[kind], None, None
    if kind == "redacted_thinking":
        return BlockType.THINKING, None, block
    if kind in SERVER_CALLS:
        return BlockType.SERVER_TOOL_USE, _tool(block), block
    if kind.endswith("_tool_result"):
        metadata = ToolResultMetadata(text_of(block.get("tool_use_id")), kind)
        return BlockType.SERVER_TOOL_RESULT, metadata, block
    return BlockType.OPAQUE, OpaqueMetadata(kind), block


def parsed(value: Json) -> Json:
    """The arguments of a server's tool; nothing at all stands for no arguments."""
    if not isinstance(value, str):
        return value
    decoded = read_mended(value.encode() or b"{}")
    if decoded is None:
        return {} if value.strip() == "null" else value
    return decoded


def text_of(value: Json) -> str:
    """A text, or the empty one for what is none."""
    return value if isinstance(value, str) else ""


def _tool(block: JsonObject) -> ToolUseMetadata:
    call_id, name = block.get("id"), block.get("name")
    if type(call_id) is str and type(name) is str:
        return ToolUseMetadata(call_id, name)
    return ToolUseMetadata(text_of(call_id), text_of(name))


__all__ = ["OpenBlock", "Opening", "parsed", "read_block", "text_of"]
