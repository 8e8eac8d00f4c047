"""Kinds, handlers and scopes; and what blocks, responses and runs come to, folded from their events."""

from rxworker.timeline.block import BlockPhase, BlockState, step_block
from rxworker.timeline.collectors import TextBlockCollector, ToolCallCollector
from rxworker.timeline.content import content_of
from rxworker.timeline.handler import Handler, HandlerLike
from rxworker.timeline.kind import (
    ERROR,
    PING,
    STATUS,
    TEXT_BLOCK,
    THINKING_BLOCK,
    TOOL_USE_BLOCK,
    USAGE,
    Kind,
    TextBlockAbort,
    TextBlockEvent,
    TextBlockStart,
    TextBlockStop,
    ThinkingBlockAbort,
    ThinkingBlockEvent,
    ThinkingBlockStart,
    ThinkingBlockStop,
    ToolUseBlockAbort,
    ToolUseBlockEvent,
    ToolUseBlockStart,
    ToolUseBlockStop,
)
from rxworker.timeline.message import ResponseState, message_of, step_response
from rxworker.timeline.pieces import Pieces, joined
from rxworker.timeline.run import RunState, RunStatus, fold_run, step_run
from rxworker.timeline.timeline import Timeline

__all__ = [
    # the timeline
    "Timeline",
    "Handler",
    "HandlerLike",
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
    # states and their steps
    "BlockPhase",
    "BlockState",
    "step_block",
    "content_of",
    "ResponseState",
    "step_response",
    "message_of",
    "RunState",
    "RunStatus",
    "step_run",
    "fold_run",
    "Pieces",
    "joined",
]
