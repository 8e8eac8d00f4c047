"""The blocks of the Messages stream: the events of each delta, and the parts that are kept for the next request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from rxworker.events import (
    BlockType,
    CitationDelta,
    InputJsonDelta,
    ResponseEvent,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
)
from rxworker.events.block import BlockMetadata, OpaqueMetadata, ToolResultMetadata
from rxworker.events.deltas import TextDeltas
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import read_repaired, word
from rxworker.providers.anthropic.wire import (
    WireCitationDelta,
    WireCompactionDelta,
    WireInputDelta,
    WireSignatureDelta,
    WireTextDelta,
    WireThinkingDelta,
)

TEXT_TYPES = {"text": BlockType.TEXT, "thinking": BlockType.THINKING}
TOOL_USE = BlockType.TOOL_USE
OWN = frozenset({"type", "id", "name", "input"})  # in the next request anyway
NAMELESS = OpaqueMetadata("tool_use")  # a call that names no tool, and so cannot run
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")


Opening: TypeAlias = tuple[BlockType, BlockMetadata | None, JsonObject | None]
"""How a block begins: what it holds; which tool, result or unknown kind.

And what the next request must repeat, as far as it is known.
"""


class OpenBlock(Struct):
    """A block that has started, with what its deltas add to its echo.

    Attributes:
        index: Its number among the blocks of the response.
        block_type: The type of its content.
        began_whole: Whether it is a call whose start had its arguments.
        is_nameless: Whether it is a call that names no tool, and so cannot run.
        pieces: Texts for the echo, by their fields, in pieces.
        kept: Members that go into the echo unchanged.
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
        """Add these fields to the echo unchanged."""
        self.kept = {**(self.kept or {}), **fields}

    def echo(self) -> JsonObject | None:
        """The echo that the deltas have added; ``None`` if there is none."""
        if self.pieces is None:
            return self.kept or None
        joined: JsonObject = {field: "".join(pieces) for field, pieces in self.pieces.items()}
        if "input" in joined:
            joined["input"] = parsed(joined["input"])
        return {**(self.kept or {}), **joined}


def read_block(block: JsonObject) -> Opening:
    """The block type, the metadata and the echo of a ``content_block``.

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
    kind = word(sort)
    if kind in TEXT_TYPES:
        return TEXT_TYPES[kind], None, None
    if kind == "redacted_thinking":
        return BlockType.THINKING, None, block
    if kind in SERVER_CALLS:
        return BlockType.SERVER_TOOL_USE, _tool(block), block
    if kind.endswith("_tool_result"):
        metadata = ToolResultMetadata(word(block.get("tool_use_id")), kind)
        return BlockType.SERVER_TOOL_RESULT, metadata, block
    return BlockType.OPAQUE, OpaqueMetadata(kind), block


def parsed(value: Json) -> Json:
    """The arguments of a server's tool; nothing at all stands for no arguments."""
    if not isinstance(value, str):
        return value
    decoded = read_repaired(value.encode() or b"{}")
    if decoded is None:
        return {} if value.strip() == "null" else value
    return decoded


def _tool(block: JsonObject) -> ToolUseMetadata:
    call_id, name = block.get("id"), block.get("name")
    if type(call_id) is str and type(name) is str:
        return ToolUseMetadata(call_id, name)
    return ToolUseMetadata(word(call_id), word(name))


Events: TypeAlias = Sequence[ResponseEvent]

# Which blocks a delta may open, when no start has come for it.
IMPLICIT: dict[type, BlockType] = {
    WireTextDelta: BlockType.TEXT,
    WireCitationDelta: BlockType.TEXT,
    WireThinkingDelta: BlockType.THINKING,
    WireSignatureDelta: BlockType.THINKING,
}


# The texts in a start of a text or of thinking.
FIRST = {"text": TextDelta, "thinking": ThinkingDelta, "signature": SignatureDelta}


def first_deltas(opened: OpenBlock, block: JsonObject) -> Events:
    """What a start already holds, as the deltas that would have brought it.

    >>> first_deltas(OpenBlock(0, BlockType.TEXT), {"type": "text", "text": "Hi"})
    [TextDelta(index=0, text='Hi', choice=0)]
    """
    index, kind = opened.index, opened.block_type
    if opened.began_whole and kind in (TOOL_USE, BlockType.SERVER_TOOL_USE):
        return [InputJsonDelta(index, msgspec.json.encode(block["input"]).decode())]
    events: list[ResponseEvent] = []
    if kind in TEXT_TYPES.values():
        events += [FIRST[name](index, word(block[name])) for name in filter(block.get, FIRST)]
    if kind is BlockType.TEXT and isinstance(citations := block.get("citations"), list):
        events += [CitationDelta(index, one) for one in citations if isinstance(one, dict)]
    return events


def _add_signature(block: OpenBlock, delta: WireSignatureDelta) -> Events:
    return [SignatureDelta(block.index, delta.signature)]


def _add_citation(block: OpenBlock, delta: WireCitationDelta) -> Events:
    return [CitationDelta(block.index, delta.citation)]


def _add_server_input(block: OpenBlock, delta: WireInputDelta) -> Events:
    if block.began_whole:
        return ()
    if delta.text:
        block.keep("input", delta.text)
    return [InputJsonDelta(block.index, delta.text)]


def _keep_members(block: OpenBlock, delta: WireCompactionDelta | WireSignatureDelta) -> Events:
    given: JsonObject = msgspec.to_builtins(delta)
    block.keep_all({k: v for k, v in given.items() if k != "type" and v is not None})
    return ()


def _keep_piece(block: OpenBlock, delta: WireTextDelta | WireThinkingDelta | WireInputDelta) -> Events:
    block.keep(KEPT[type(delta)], delta.text)
    return ()


KEPT: dict[type, str] = {
    WireTextDelta: "text",
    WireThinkingDelta: "thinking",
    WireInputDelta: "input",
}
"""The fields of a block of an unknown kind that grow by deltas."""

# What a delta becomes that does nothing but add to the text of its block.
PLAIN: dict[tuple[BlockType, type], Callable[[int, str], TextDeltas]] = {
    (BlockType.TEXT, WireTextDelta): TextDelta,
    (BlockType.THINKING, WireThinkingDelta): ThinkingDelta,
    (BlockType.TOOL_USE, WireInputDelta): InputJsonDelta,
}

# What any other delta does, by the block it is for. What is not in the tables travels on as `Opaque`.
ADDERS: dict[tuple[BlockType, type], Callable[[OpenBlock, Any], Events]] = {
    (BlockType.TEXT, WireCitationDelta): _add_citation,
    (BlockType.THINKING, WireSignatureDelta): _add_signature,
    (BlockType.SERVER_TOOL_USE, WireInputDelta): _add_server_input,
    (BlockType.OPAQUE, WireCompactionDelta): _keep_members,
    (BlockType.OPAQUE, WireSignatureDelta): _keep_members,
    **{(BlockType.OPAQUE, kind): _keep_piece for kind in KEPT},
}
