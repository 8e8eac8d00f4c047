"""Kinds, handlers and scopes: calling functions with the events of a response, block by block."""

from rxworker.timeline.kind import (
    ERROR,
    PING,
    STATUS,
    TEXT_BLOCK,
    THINKING_BLOCK,
    TOOL_USE_BLOCK,
    USAGE,
    Handler,
    Kind,
    TextBlockAbort,
    TextBlockCollector,
    TextBlockEvent,
    TextBlockStart,
    TextBlockStop,
    ThinkingBlockAbort,
    ThinkingBlockEvent,
    ThinkingBlockStart,
    ThinkingBlockStop,
    ToolCallCollector,
    ToolUseBlockAbort,
    ToolUseBlockEvent,
    ToolUseBlockStart,
    ToolUseBlockStop,
)
from rxworker.timeline.timeline import Timeline

__all__ = [
    # the timeline
    "Timeline",
    "Handler",
    # kinds
    "Kind",
    "USAGE",
    "PING",
    "STATUS",
    "ERROR",
    "TEXT_BLOCK",
    "THINKING_BLOCK",
    "TOOL_USE_BLOCK",
    # the events of block kinds
    "TextBlockEvent",
    "TextBlockStart",
    "TextBlockStop",
    "TextBlockAbort",
    "ThinkingBlockEvent",
    "ThinkingBlockStart",
    "ThinkingBlockStop",
    "ThinkingBlockAbort",
    "ToolUseBlockEvent",
    "ToolUseBlockStart",
    "ToolUseBlockStop",
    "ToolUseBlockAbort",
    # collectors
    "TextBlockCollector",
    "ToolCallCollector",
]
