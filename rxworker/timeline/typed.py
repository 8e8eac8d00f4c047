"""The kinds' own typed events, from the events of the stream. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rxworker.events import (
    BlockAbort,
    BlockMetadata,
    BlockStart,
    BlockStop,
    ToolResultMetadata,
    ToolUseMetadata,
)
from rxworker.timeline.kind import (
    TEXT_BLOCK,
    THINKING_BLOCK,
    Kind,
    TextBlockAbort,
    TextBlockStart,
    TextBlockStop,
    ThinkingBlockAbort,
    ThinkingBlockStart,
    ThinkingBlockStop,
    ToolUseBlockAbort,
    ToolUseBlockStart,
    ToolUseBlockStop,
)


def typed_start(kind: Kind[object], start: BlockStart, _: BlockStart) -> object:
    """The start of a block as handlers of the kind see it."""
    if kind is TEXT_BLOCK:
        result = start.metadata
        return TextBlockStart(
            start.index, result.tool_use_id if isinstance(result, ToolResultMetadata) else None
        )
    if kind is THINKING_BLOCK:
        return ThinkingBlockStart(start.index)
    return ToolUseBlockStart(start.index, *_tool(start.metadata))


def typed_stop(kind: Kind[object], start: BlockStart, stop: BlockStop) -> object:
    """The stop of a block as handlers of the kind see it."""
    if kind is TEXT_BLOCK:
        return TextBlockStop(start.index, stop.stop_reason)
    if kind is THINKING_BLOCK:
        return ThinkingBlockStop(start.index)
    metadata = stop.metadata or start.metadata
    is_free_text = isinstance(metadata, ToolUseMetadata) and metadata.is_free_text
    return ToolUseBlockStop(start.index, *_tool(metadata), is_free_text)


def typed_abort(kind: Kind[object], start: BlockStart, abort: BlockAbort) -> object:
    """The abort of a block as handlers of the kind see it."""
    if kind is TEXT_BLOCK:
        return TextBlockAbort(start.index, abort.reason)
    if kind is THINKING_BLOCK:
        return ThinkingBlockAbort(start.index, abort.reason)
    return ToolUseBlockAbort(start.index, *_tool(start.metadata), abort.reason)


def _tool(metadata: BlockMetadata | None) -> tuple[str, str]:
    """The id and name of a call; empty where its start was never seen."""
    return (metadata.id, metadata.name) if isinstance(metadata, ToolUseMetadata) else ("", "")


TYPED: dict[type[object], Callable[[Kind[object], BlockStart, Any], object]] = {
    BlockStart: typed_start,
    BlockStop: typed_stop,
    BlockAbort: typed_abort,
}

__all__ = ["TYPED", "typed_abort", "typed_start", "typed_stop"]
