"""The rules of one response: its blocks and its status.

States: before the start, open, over. A block is open from its start to its stop or abort; an index is never used
again. After the terminal status nothing comes. A second ``Status(STARTED)`` retracts the events before it, so
it begins the response anew - but what is open must have been aborted before it.
"""

from __future__ import annotations

from rxworker.events import (
    BlockAbort,
    BlockDelta,
    BlockEvent,
    BlockMetadata,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    InputJsonDelta,
    InputValueDelta,
    RefusalDelta,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    is_block_event,
)

ARGUMENTS = frozenset({BlockType.TOOL_USE, BlockType.SERVER_TOOL_USE, BlockType.OPAQUE})
FITTING: dict[type[BlockDelta], frozenset[BlockType]] = {
    TextDelta: frozenset(BlockType)
    - {BlockType.THINKING, BlockType.REFUSAL, BlockType.TOOL_USE, BlockType.SERVER_TOOL_USE},
    ThinkingDelta: frozenset({BlockType.THINKING, BlockType.OPAQUE}),
    RefusalDelta: frozenset({BlockType.REFUSAL}),
    InputJsonDelta: ARGUMENTS,
    InputValueDelta: ARGUMENTS,
}


class ResponseLinter:
    """Reads the events of one response and complains.

    Args:
        implicit: Whether a delta may open its block.

    >>> linter = ResponseLinter()
    >>> linter.feed(BlockStart(0, BlockType.TEXT))
    []
    >>> linter.finish()
    ['block 0 (text) is still open at the end', 'the response has no terminal status']
    """

    def __init__(self, *, implicit: bool = False) -> None:
        self._implicit = implicit
        self._over: Status | None = None
        self._begin()

    def _begin(self) -> None:
        """Reset."""
        self._open: dict[int, BlockStart | None] = {}
        self._used: set[int] = set()
        self._calls: set[str] = set()
        self._failed = False
        self._any = False

    def feed(self, event: ResponseEvent) -> list[str]:
        """Take the next event; return what is wrong with it."""
        self._any = True
        if self._over is not None:
            return [f"{_name(event)} after Status({self._over.status.name})"]
        complaints: list[str] = []
        if self._failed and not isinstance(event, Status):
            complaints.append(f"{_name(event)} after an Error")
        if isinstance(event, Status):
            complaints += self._status(event)
        elif isinstance(event, Error):
            self._failed = True
        elif is_block_event(event):
            complaints += self._block(event)
        return complaints

    def retract(self) -> list[str]:
        """The response is retracted, and another one may begin."""
        complaints = self._still_open("when it was retracted")
        self._begin()
        self._over = None
        return complaints

    def finish(self) -> list[str]:
        """The response has ended; return what is missing."""
        complaints = self._still_open("at the end")
        if self._any and self._over is None:
            complaints.append("the response has no terminal status")
        return complaints

    def _status(self, event: Status) -> list[str]:
        if event.status is ResponseStatus.STARTED:
            complaints = self.retract()
            self._any = True
            return complaints
        self._over = event
        complaints = self._still_open(f"at Status({event.status.name})")
        if self._failed and event.status is ResponseStatus.COMPLETED:
            complaints.append("Status(COMPLETED) after an Error")
        return complaints

    def _block(self, event: BlockEvent) -> list[str]:
        if isinstance(event, BlockStart):
            return self._start(event)
        if event.index in self._open:
            start = self._open[event.index]
        elif isinstance(event, BlockDelta) and self._implicit and event.index not in self._used:
            start = self._open[event.index] = None
        else:
            return [f"{_name(event)} outside of a block: {event.index} is not open"]
        if isinstance(event, (BlockStop, BlockAbort)):
            del self._open[event.index]
            self._used.add(event.index)
        return _fits(start, event) if start is not None else []

    def _start(self, event: BlockStart) -> list[str]:
        what = f"block {event.index} ({event.block_type.value})"
        complaints: list[str] = []
        if event.index in self._open:
            complaints.append(f"{what} starts while it is open")
        elif event.index in self._used:
            complaints.append(f"{what} starts again after its end")
        self._open[event.index] = event
        if event.block_type is BlockType.TOOL_USE:
            complaints += self._call(what, event.metadata)
        return complaints

    def _call(self, what: str, call: BlockMetadata | None) -> list[str]:
        """A tool call has an id at its start, and no two have the same."""
        if not isinstance(call, ToolUseMetadata) or not call.id or not call.name:
            return [f"{what} starts without the id and the name of its call"]
        if call.id in self._calls:
            return [f"{what} has the id of an earlier call: {call.id}"]
        self._calls.add(call.id)
        return []

    def _still_open(self, when: str) -> list[str]:
        """A complaint for each block that is open, and was not complained of before."""
        complaints = [
            f"block {index}{f' ({start.block_type.value})' if start else ''} is still open {when}"
            for index, start in self._open.items()
        ]
        self._used.update(self._open)
        self._open.clear()
        return complaints


def _fits(start: BlockStart, event: BlockEvent) -> list[str]:
    """Whether an event belongs into the block that it names."""
    what = f"block {start.index} ({start.block_type.value})"
    if isinstance(event, (BlockStop, BlockAbort)):
        if event.block_type is not start.block_type:
            return [f"{what} ends as {event.block_type.value}"]
        ends_as = event.metadata if isinstance(event, BlockStop) else start.metadata
        if start.block_type is BlockType.TOOL_USE and ends_as != start.metadata:
            return [f"{what} does not end with the id and the name of its start"]
        return []
    allowed = FITTING.get(type(event)) if isinstance(event, BlockDelta) else None
    if allowed is not None and start.block_type not in allowed:
        return [f"{what} has a {_name(event)}"]
    return []


def _name(event: object) -> str:
    return type(event).__name__
