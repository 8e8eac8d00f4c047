"""The events of the blocks that a decoder opens: each has an index and an id of its own, and ends exactly once."""

from __future__ import annotations

from msgspec.structs import replace

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
from rxworker.providers.ids import repeated_id

TOOL_USE = BlockType.TOOL_USE
CUT = Failure(
    "the stream ended before the response was complete; the connection was probably cut",
    TRUNCATED,
    TRUNCATED,
)


class BlockFactory:
    """Makes the start, the stop and the abort of every block of a response.

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
        self._call_ids: dict[str, int] = {}  # how often each came

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
        if block_type is TOOL_USE and type(metadata) is ToolUseMetadata:
            metadata = self._with_own_id(metadata)
        index = wish if wish > self._next else self._next
        self._next = index + 1
        start = BlockStart(index, block_type, metadata, echo, choice)
        self._open[index] = start
        return start

    def _with_own_id(self, call: ToolUseMetadata) -> ToolUseMetadata:
        """The call under its id, or under a numbered one if an earlier call of the response has it.

        Results are matched by ids.
        """
        seen = self._call_ids
        number = seen[call.id] = seen.get(call.id, 0) + 1
        if number == 1:
            return call
        return self._with_own_id(replace(call, id=repeated_id(call.id, number)))

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

    def fail(self, failure: Failure, stop: StopReason | None = None) -> list[ResponseEvent]:
        """The end of a response that failed: blocks aborted, one error, one status."""
        return [
            *self.abort_all(failure.message),
            failure.event(),
            Status(ResponseStatus.FAILED, stop_reason=stop),
        ]
