"""Kinds: what a handler can be registered for, and the typed events that it receives. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Error,
    InputJsonDelta,
    InputValueDelta,
    Ping,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.block import ToolResultMetadata
from rxworker.messages import StopReason
from rxworker.state.content import call_name

E_co = TypeVar("E_co", covariant=True)


class TextBlockStart(Struct, frozen=True):
    """A text block begins.

    Attributes:
        index: Its name within the response.
        tool_use_id: Which call it is the result of, for a tool result, whose text is text too.
    """

    index: int
    tool_use_id: str | None = None


class TextBlockStop(Struct, frozen=True):
    """A text block is whole.

    Attributes:
        index: Its name within the response.
        stop_reason: Why its choice ended, if the protocol reports it with the block.
    """

    index: int
    stop_reason: StopReason | None = None


class TextBlockAbort(Struct, frozen=True):
    """A text block will not become whole."""

    index: int
    reason: str = ""


TextBlockEvent: TypeAlias = TextBlockStart | TextDelta | CitationDelta | TextBlockStop | TextBlockAbort
"""Any event of a text block."""


class ThinkingBlockStart(Struct, frozen=True):
    """The model begins to think."""

    index: int


class ThinkingBlockStop(Struct, frozen=True):
    """The model has thought."""

    index: int


class ThinkingBlockAbort(Struct, frozen=True):
    """A thinking block will not become whole."""

    index: int
    reason: str = ""


ThinkingBlockEvent: TypeAlias = (
    ThinkingBlockStart | ThinkingDelta | SignatureDelta | ThinkingBlockStop | ThinkingBlockAbort
)
"""Any event of a thinking block."""


class ToolUseBlockStart(Struct, frozen=True):
    """A tool call begins.

    Attributes:
        index: Its name within the response.
        id: The id that the result must name.
        name: The tool's name.
    """

    index: int
    id: str
    name: str


class ToolUseBlockStop(Struct, frozen=True):
    """A tool call's arguments are whole.

    Attributes:
        index: Its name within the response.
        id: The id that the result must name.
        name: The tool's name.
        is_free_text: Whether they are a text that the tool takes as it is.
    """

    index: int
    id: str
    name: str
    is_free_text: bool = False


class ToolUseBlockAbort(Struct, frozen=True):
    """A tool call will not become whole, and must not run.

    Attributes:
        index: Its name within the response.
        id: The id that the result would have named.
        name: The tool's name.
        reason: Shown to users; not interpreted.
    """

    index: int
    id: str
    name: str
    reason: str = ""


ToolUseBlockEvent: TypeAlias = (
    ToolUseBlockStart | InputJsonDelta | InputValueDelta | ToolUseBlockStop | ToolUseBlockAbort
)
"""Any event of a tool call."""


class Kind(Generic[E_co]):
    """An event kind that a handler can be registered for.

    The type parameter is the type of the events it then receives.

    There are the seven of this module; a timeline takes no other.

    The deltas of a block kind are the very delta events of the stream, since they are its most frequent objects.

    Attributes:
        name: Its name, in messages.
        deltas: The deltas that a block of this kind may hold; empty for the kinds of meta events.
    """

    def __init__(self, name: str, *deltas: type[object]) -> None:
        self.name = name
        self.deltas = frozenset(deltas)

    def __repr__(self) -> str:
        return f"Kind({self.name})"


USAGE: Kind[Usage] = Kind("usage")
"""The kind of `Usage`."""
PING: Kind[Ping] = Kind("ping")
"""The kind of `Ping`."""
STATUS: Kind[Status] = Kind("status")
"""The kind of `Status`."""
ERROR: Kind[Error] = Kind("error")
"""The kind of `Error`."""
TEXT_BLOCK: Kind[TextBlockEvent] = Kind("text block", TextDelta, CitationDelta)
"""The kind of the events of a text block, and of the text of tool results."""
THINKING_BLOCK: Kind[ThinkingBlockEvent] = Kind("thinking block", ThinkingDelta, SignatureDelta)
"""The kind of the events of a thinking block."""
TOOL_USE_BLOCK: Kind[ToolUseBlockEvent] = Kind("tool use block", InputJsonDelta, InputValueDelta)
"""The kind of the events of a tool call."""
RETRACT: Kind[str] = Kind("retract")
"""The kind of the reasons of retractions; it has a method of its own."""

KIND_OF_META: dict[type[object], Kind[object]] = {Usage: USAGE, Ping: PING, Status: STATUS, Error: ERROR}
KIND_OF_BLOCK: dict[BlockType, Kind[object]] = {
    BlockType.TEXT: TEXT_BLOCK,
    BlockType.TOOL_RESULT: TEXT_BLOCK,  # text of a tool is read like text of the model
    BlockType.THINKING: THINKING_BLOCK,
    BlockType.TOOL_USE: TOOL_USE_BLOCK,
}

KINDS: tuple[Kind[object], ...] = (*KIND_OF_META.values(), *dict.fromkeys(KIND_OF_BLOCK.values()))


def typed_start(kind: Kind[object], start: BlockStart, _: BlockStart) -> object:
    """The start of a block as handlers of the kind see it."""
    if kind is TEXT_BLOCK:
        result = start.metadata
        return TextBlockStart(start.index, result.tool_use_id if isinstance(result, ToolResultMetadata) else None)
    if kind is THINKING_BLOCK:
        return ThinkingBlockStart(start.index)
    return ToolUseBlockStart(start.index, *call_name(start.metadata))


def typed_stop(kind: Kind[object], start: BlockStart, stop: BlockStop) -> object:
    """The stop of a block as handlers of the kind see it."""
    if kind is TEXT_BLOCK:
        return TextBlockStop(start.index, stop.stop_reason)
    if kind is THINKING_BLOCK:
        return ThinkingBlockStop(start.index)
    metadata = stop.metadata or start.metadata
    is_free_text = isinstance(metadata, ToolUseMetadata) and metadata.is_free_text
    return ToolUseBlockStop(start.index, *call_name(metadata), is_free_text)


def typed_abort(kind: Kind[object], start: BlockStart, abort: BlockAbort) -> object:
    """The abort of a block as handlers of the kind see it."""
    if kind is TEXT_BLOCK:
        return TextBlockAbort(start.index, abort.reason)
    if kind is THINKING_BLOCK:
        return ThinkingBlockAbort(start.index, abort.reason)
    return ToolUseBlockAbort(start.index, *call_name(start.metadata), abort.reason)


TYPED: dict[type[object], Callable[[Kind[object], BlockStart, Any], object]] = {
    BlockStart: typed_start,
    BlockStop: typed_stop,
    BlockAbort: typed_abort,
}
