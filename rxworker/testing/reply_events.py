"""A reply told as events, the way a provider's decoder would tell it."""

from __future__ import annotations

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    InputJsonDelta,
    ResponseEvent,
    ResponseStatus,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
)
from rxworker.messages import Text, Thinking
from rxworker.testing.reply import Reply, ReplyBlock, input_text

BLOCK_TYPES: dict[type[ReplyBlock], BlockType] = {
    Thinking: BlockType.THINKING,
    Text: BlockType.TEXT,
}


def reply_events(reply: Reply, number: int = 1, model: str = "scripted") -> list[ResponseEvent]:
    """Everything that happens while a model gives this reply.

    A reply that fails before it says anything fails before it has started, as a refused request does.

    Args:
        reply: What it answers.
        number: The number of the request, from 1; the ids are made from it.
        model: The model's name.

    >>> from rxworker.testing.reply import say
    >>> [type(event).__name__ for event in reply_events(say("Hello"))]
    ['Status', 'BlockStart', 'TextDelta', 'TextDelta', 'BlockStop', 'Usage', 'Status']
    """
    blocks = reply.blocks(f"call_{number}")
    events: list[ResponseEvent] = []
    if blocks or reply.error is None:
        events.append(Status(ResponseStatus.STARTED, f"response_{number}", model))
    for index, block in enumerate(blocks):
        events += _told(reply, index, block)
    if reply.breaks and blocks:
        events.pop()  # the last block stays open
    if events and reply.usage is not None:
        events.append(reply.usage)
    return events + _end(reply, blocks)


def _told(reply: Reply, index: int, block: ReplyBlock) -> list[ResponseEvent]:
    """The life of one block."""
    kind = BLOCK_TYPES.get(type(block), BlockType.TOOL_USE)
    events: list[ResponseEvent] = []
    if isinstance(block, Thinking):
        events += [ThinkingDelta(index, piece) for piece in reply.pieces(block.text)]
        events += [SignatureDelta(index, block.signature)] if block.signature else []
    elif isinstance(block, Text):
        events += [TextDelta(index, piece) for piece in reply.pieces(block.text)]
    else:
        events += [InputJsonDelta(index, piece) for piece in reply.pieces(input_text(block))]
        which = ToolUseMetadata(block.id, block.name)
        return [BlockStart(index, kind, which), *events, BlockStop(index, kind, metadata=which)]
    return [BlockStart(index, kind), *events, BlockStop(index, kind)]


def _end(reply: Reply, blocks: tuple[ReplyBlock, ...]) -> list[ResponseEvent]:
    """How the response ends, when it does."""
    if reply.error is not None:
        events: list[ResponseEvent] = [reply.error, Status(ResponseStatus.FAILED)]
        if blocks:
            kind = BLOCK_TYPES.get(type(blocks[-1]), BlockType.TOOL_USE)
            events.insert(0, BlockAbort(len(blocks) - 1, kind, reply.error.message))
        return events
    if reply.stalls:
        return []
    return [Status(ResponseStatus.COMPLETED, stop_reason=reply.stop_reason)]


__all__ = ["reply_events"]
