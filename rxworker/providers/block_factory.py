"""The events of the blocks that a decoder opens: each has an index and an id of its own, and ends exactly once."""

from __future__ import annotations

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    ResponseEvent,
    ResponseStatus,
    Status,
    ToolUseMetadata,
)
from rxworker.events.block import BlockMetadata
from rxworker.events.meta import TRUNCATED
from rxworker.messages import JsonObject, StopReason
from rxworker.providers.failure import Failure
from rxworker.providers.repeated_calls import Calls

TOOL_USE = BlockType.TOOL_USE
CUT = Failure(
    "the stream ended before the response was complete; the connection was probably cut",
    TRUNCATED,
    TRUNCATED,
)


class BlockFactory:
    """Makes the start, the stop and the abort of every block of a response.

    Attributes:
        calls: Those of its tools, once one has begun.

    >>> blocks = BlockFactory()
    >>> start = blocks.start(BlockType.TEXT)
    >>> blocks.stop(start.index).block_type
    <BlockType.TEXT: 'text'>
    >>> blocks.abort_all("cut")
    []
    """

    def __init__(self) -> None:
        self._open: dict[int, BlockStart] = {}
        self._next = 0
        self.calls: Calls | None = None

    @property
    def is_used(self) -> bool:
        """Whether a block was opened."""
        return self._next > 0

    def start(
        self,
        block_type: BlockType,
        metadata: BlockMetadata | None = None,
        echo: JsonObject | None = None,
        *,
        choice: int = 0,
        wish: int = 0,
    ) -> BlockStart:
        """Open a block under the index wished for, or a higher one if that has been used."""
        index = wish if wish > self._next else self._next
        if block_type is TOOL_USE and type(metadata) is ToolUseMetadata:
            calls = self.calls = self.calls or Calls(self._open)
            metadata = calls.begin(metadata, index, choice)
        self._next = index + 1
        start = BlockStart(index, block_type, metadata, echo, choice)
        self._open[index] = start
        return start

    def stop(self, index: int, stop_reason: StopReason | None = None, echo: JsonObject | None = None) -> BlockStop:
        """Close a block that is whole."""
        start = self._open.pop(index)
        return BlockStop(index, start.block_type, stop_reason, echo, start.metadata)

    def abort(self, index: int, reason: str) -> BlockAbort:
        """Close a block that is not."""
        return BlockAbort(index, self._open.pop(index).block_type, reason)

    def abort_all(self, reason: str) -> list[ResponseEvent]:
        """Close everything, in the order in which it was opened."""
        return [self.abort(index, reason) for index in list(self._open)]

    def begin_again(self, reason: str) -> list[ResponseEvent]:
        """Close everything; the next block is the first one of the response."""
        events = self.abort_all(reason)
        self._next = 0
        if self.calls is not None:
            self.calls.begin_again()
        return events

    def fail(self, failure: Failure, stop: StopReason | None = None) -> list[ResponseEvent]:
        """The end of a response that failed: blocks aborted, one error, one status."""
        return [
            *self.abort_all(failure.message),
            failure.event(),
            Status(ResponseStatus.FAILED, stop_reason=stop),
        ]
