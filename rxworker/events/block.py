"""Block events: the life of a content block, from its start over its deltas to its stop or abort.

Several blocks may be open at once. ``index`` names a block within its response. A response with several choices
numbers all their blocks in one row, and names with ``choice`` whose they are.

A delta is one object, since it is the most frequent one: what the design calls ``BlockDelta(index, content)`` is a
subclass of `BlockDelta` for each sort of content.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from rxworker.messages.json import Json, JsonObject
from rxworker.messages.stop import StopReason


class BlockType(Enum):
    """The kind of content of a block."""

    # A member is one object; the hash that an Enum has is a function in Python, called at each look into a table.
    __hash__ = object.__hash__

    TEXT = "text"
    THINKING = "thinking"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    REFUSAL = "refusal"
    IMAGE = "image"
    SERVER_TOOL_USE = "server_tool_use"
    SERVER_TOOL_RESULT = "server_tool_result"
    OPAQUE = "opaque"


class ToolUseMetadata(Struct, frozen=True, tag="tool_use", omit_defaults=True, repr_omit_defaults=True, gc=False):
    """Which tool is called, by the client or by the provider itself.

    Attributes:
        id: The id that the result must name.
        name: The tool's name.
        is_free_text: Whether the tool takes a text as it is, not a JSON object.
    """

    id: str
    name: str
    is_free_text: bool = False


class ToolResultMetadata(Struct, frozen=True, tag="tool_result"):
    """Which call a result belongs to.

    Attributes:
        tool_use_id: The ``id`` of the call.
        name: The provider's name for the kind of result.
    """

    tool_use_id: str
    name: str = ""


class OpaqueMetadata(Struct, frozen=True, tag="opaque"):
    """The provider's name for a block of an unknown kind."""

    kind: str


BlockMetadata: TypeAlias = ToolUseMetadata | ToolResultMetadata | OpaqueMetadata
"""Any metadata of a block."""


class BlockStart(Struct, frozen=True, tag="block_start", omit_defaults=True, gc=False):
    """A block begins.

    Attributes:
        index: Its name within the response.
        block_type: The type of its content.
        metadata: Which tool or result; ``None`` for text and thinking.
        echo: Content that the provider requires back, as far as it is known now.
        choice: The index of its choice, if a response has several choices.
    """

    index: int
    block_type: BlockType
    metadata: BlockMetadata | None = None
    echo: JsonObject | None = None
    choice: int = 0


class BlockDelta(Struct, frozen=True):
    """The base of all deltas: something to add to the open block ``index``."""

    index: int


class TextDelta(BlockDelta, frozen=True, tag="text_delta", gc=False, omit_defaults=True):
    """More visible text. ``choice`` is whose it is, where a response has several choices."""

    text: str
    choice: int = 0


class ThinkingDelta(BlockDelta, frozen=True, tag="thinking_delta", gc=False, omit_defaults=True):
    """More thinking."""

    text: str
    choice: int = 0


class RefusalDelta(BlockDelta, frozen=True, tag="refusal_delta", gc=False, omit_defaults=True):
    """More of a refusal."""

    text: str
    choice: int = 0


class InputJsonDelta(BlockDelta, frozen=True, tag="input_json_delta", gc=False):
    """More of the JSON text of a tool call's arguments. The pieces make JSON only when joined."""

    text: str


class InputValueDelta(BlockDelta, frozen=True, tag="input_value_delta"):
    """One value within a tool call's arguments, for providers that stream them by path and not as text.

    Attributes:
        path: Where, as a JSON path, for example ``$.items[0].name``.
        value: What.
        append: Whether a text goes after the text that is there.
    """

    path: str
    value: Json
    append: bool = False


class SignatureDelta(BlockDelta, frozen=True, tag="signature_delta", gc=False):
    """The provider's seal on a thinking block. It replaces an earlier one."""

    signature: str


class CitationDelta(BlockDelta, frozen=True, tag="citation_delta"):
    """One more source of a text block, as the provider gave it."""

    citation: JsonObject


class BlockStop(Struct, frozen=True, tag="block_stop", omit_defaults=True, gc=False):
    """A block is whole.

    Attributes:
        index: Its name within the response.
        block_type: The type of its content.
        stop_reason: Why its choice ended, if the protocol reports it with the block.
        echo: Content that the provider requires back; these keys override those of the start.
        metadata: For a tool call: its id and name, as at the start.
    """

    index: int
    block_type: BlockType
    stop_reason: StopReason | None = None
    echo: JsonObject | None = None
    metadata: BlockMetadata | None = None


class BlockAbort(Struct, frozen=True, tag="block_abort", omit_defaults=True):
    """A block will not become whole: the response was cut, cancelled or retracted.

    Attributes:
        index: Its name within the response.
        block_type: The type of its content.
        reason: Shown to users; not interpreted.
    """

    index: int
    block_type: BlockType
    reason: str = ""


Delta: TypeAlias = (
    TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta | InputValueDelta | SignatureDelta | CitationDelta
)
"""Any delta."""
BlockEvent: TypeAlias = BlockStart | Delta | BlockStop | BlockAbort
"""Any event of a block."""
