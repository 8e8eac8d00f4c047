"""Kinds: what a handler may be registered for, and the type of event that it then receives."""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from rxworker.events import (
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
    Usage,
)
from rxworker.messages import StopReason

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
        stop_reason: Why its choice ended, where the protocol says so with the block.
    """

    index: int
    stop_reason: StopReason | None = None


class TextBlockAbort(Struct, frozen=True):
    """A text block will not become whole."""

    index: int
    reason: str = ""


TextBlockEvent: TypeAlias = (
    TextBlockStart | TextDelta | CitationDelta | TextBlockStop | TextBlockAbort
)


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


class ToolUseBlockStart(Struct, frozen=True):
    """A tool call begins.

    Attributes:
        index: Its name within the response.
        id: What the result must name.
        name: The tool's name.
    """

    index: int
    id: str
    name: str


class ToolUseBlockStop(Struct, frozen=True):
    """A tool call's arguments are whole.

    Attributes:
        index: Its name within the response.
        id: What the result must name.
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
        id: What the result would have had to name.
        name: The tool's name.
        reason: For people.
    """

    index: int
    id: str
    name: str
    reason: str = ""


ToolUseBlockEvent: TypeAlias = (
    ToolUseBlockStart | InputJsonDelta | InputValueDelta | ToolUseBlockStop | ToolUseBlockAbort
)


class Kind(Generic[E_co]):
    """What a handler may be registered for. The type parameter is the type of the events it then receives.

    There are the seven of this module; a timeline takes no other.

    The deltas of a block kind are the very delta events of the stream, since they are its most frequent objects.

    Attributes:
        name: For people.
        deltas: The deltas that a block of this kind may hold; empty for the kinds of meta events.
    """

    def __init__(self, name: str, *deltas: type[object]) -> None:
        self.name = name
        self.deltas = frozenset(deltas)

    def __repr__(self) -> str:
        return f"Kind({self.name})"


USAGE: Kind[Usage] = Kind("usage")
PING: Kind[Ping] = Kind("ping")
STATUS: Kind[Status] = Kind("status")
ERROR: Kind[Error] = Kind("error")
TEXT_BLOCK: Kind[TextBlockEvent] = Kind("text block", TextDelta, CitationDelta)
THINKING_BLOCK: Kind[ThinkingBlockEvent] = Kind("thinking block", ThinkingDelta, SignatureDelta)
TOOL_USE_BLOCK: Kind[ToolUseBlockEvent] = Kind("tool use block", InputJsonDelta, InputValueDelta)

KIND_OF_META: dict[type[object], Kind[object]] = {
    Usage: USAGE,
    Ping: PING,
    Status: STATUS,
    Error: ERROR,
}
KIND_OF_BLOCK: dict[BlockType, Kind[object]] = {
    BlockType.TEXT: TEXT_BLOCK,
    BlockType.TOOL_RESULT: TEXT_BLOCK,  # what a tool said is read like what the model says
    BlockType.THINKING: THINKING_BLOCK,
    BlockType.TOOL_USE: TOOL_USE_BLOCK,
}

KINDS: tuple[Kind[object], ...] = (
    *KIND_OF_META.values(),
    *dict.fromkeys(KIND_OF_BLOCK.values()),
)

__all__ = [
    "ERROR",
    "KINDS",
    "KIND_OF_BLOCK",
    "KIND_OF_META",
    "PING",
    "STATUS",
    "TEXT_BLOCK",
    "THINKING_BLOCK",
    "TOOL_USE_BLOCK",
    "USAGE",
    "Kind",
    "TextBlockAbort",
    "TextBlockEvent",
    "TextBlockStart",
    "TextBlockStop",
    "ThinkingBlockAbort",
    "ThinkingBlockEvent",
    "ThinkingBlockStart",
    "ThinkingBlockStop",
    "ToolUseBlockAbort",
    "ToolUseBlockEvent",
    "ToolUseBlockStart",
    "ToolUseBlockStop",
]
