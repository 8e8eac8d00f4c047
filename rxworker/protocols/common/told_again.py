"""What a response has said so far, as the events that say it again."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import (
    BlockAbort,
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    InputJsonDelta,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from rxworker.state import BlockState, ResponseState
from rxworker.state.pieces import joined

_DELTAS = {
    BlockType.TEXT: TextDelta,
    BlockType.TOOL_RESULT: TextDelta,
    BlockType.THINKING: ThinkingDelta,
    BlockType.REFUSAL: RefusalDelta,
    BlockType.TOOL_USE: InputJsonDelta,
    BlockType.SERVER_TOOL_USE: InputJsonDelta,
}


def told_again(response: ResponseState) -> Iterator[BlockEvent]:
    """The events of its blocks, each text in one delta; blocks that are open stay open.

    >>> from rxworker.state import step_response
    >>> state = step_response(step_response(ResponseState(), TextDelta(0, "hel")), TextDelta(0, "lo"))
    >>> [type(event).__name__ for event in told_again(state)]
    ['BlockStart', 'TextDelta']
    """
    for block in response.blocks:
        yield from _block(block)


def _block(block: BlockState) -> Iterator[BlockEvent]:
    index, kind = block.index, block.block_type
    yield BlockStart(index, kind, block.metadata, block.echo, block.choice)
    delta = _DELTAS.get(kind)
    if delta is not None and block.text:
        yield delta(index, joined(block.text))
    yield from block.values
    if block.signature is not None:
        yield SignatureDelta(index, block.signature)
    for citation in block.citations:
        yield CitationDelta(index, citation)
    if block.phase == "stopped":
        yield BlockStop(index, kind, block.stop_reason, metadata=block.metadata)
    elif block.phase == "aborted":
        yield BlockAbort(index, kind, block.reason)


__all__ = ["told_again"]
