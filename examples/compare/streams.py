"""What the programs share that try the rules of a stream on a peer's own events; it needs rxworker.

A program, ``rules_<peer>.py``, has ``events(case, numbers)``, which yields the events of a run as the peer reports
them, each as the one of rxworker that means the same, and ``watched()``, which begins a run whose watchers iterate over
its text in the way that the peer offers. What a peer does not report is not made up, but for the boundaries of
responses that its other events imply.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    Record,
    ResponseStatus,
    RunAbort,
    RunStart,
    RunStop,
    Status,
    TextDelta,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
    TurnStop,
    Usage,
)
from rxworker.messages import Conversation, ToolCall, ToolResult

__all__ = ["AttemptRetract", "Handler", "InputJsonDelta", "RunStop", "TextDelta", "Told", "Usage"]


class Told:
    """The events of one run.

    Args:
        path: The peer's name of the place of the run; empty for the one that was begun.
    """

    def __init__(self, path: tuple[str, ...] = ()) -> None:
        self._path = path
        self._count = 0
        self._in_turn = self._in_response = False
        self._calls: dict[int, ToolUseMetadata] = {}

    def record(self, *events: Event) -> Iterator[Record]:
        """Events as records, for the rules that need a path; their numbers are not those of the peer."""
        for event in events:
            self._count += 1
            yield Record(self._count, "run", 0, 0, 0.0, event, self._path)

    def begin(self) -> Iterator[Record]:
        """The run starts."""
        yield from self.record(RunStart(Conversation()))

    def response(self, *, again: bool = False) -> Iterator[Record]:
        """A response starts, if none is open; ``again``: another one in place of it."""
        if self._in_response and not again:
            return
        if not self._in_response:
            yield from self.record(*[TurnStop()] * self._in_turn, TurnStart())
        self._in_turn = self._in_response = True
        yield from self.record(AttemptStart(), Status(ResponseStatus.STARTED))

    def text_block(self, index: int, text: str = "") -> Iterator[Record]:
        """A text starts."""
        yield from self.record(BlockStart(index, BlockType.TEXT), *[TextDelta(index, text)] * bool(text))

    def call_block(self, index: int, id: str, name: str, arguments: str = "") -> Iterator[Record]:  # noqa: A002
        """A call starts to be written."""
        self._calls[index] = call = ToolUseMetadata(id, name)
        start = BlockStart(index, BlockType.TOOL_USE, call)
        yield from self.record(start, *[InputJsonDelta(index, arguments)] * bool(arguments))

    def stop(self, index: int) -> Iterator[Record]:
        """A block ends."""
        call = self._calls.pop(index, None)
        yield from self.record(
            BlockStop(index, BlockType.TOOL_USE, metadata=call) if call else BlockStop(index, BlockType.TEXT)
        )

    def done(self) -> Iterator[Record]:
        """The response is complete."""
        if self._in_response:
            self._in_response = False
            yield from self.record(Status(ResponseStatus.COMPLETED))

    def call(self, id: str, name: str) -> Iterator[Record]:  # noqa: A002
        """A tool starts."""
        yield from self.done()
        yield from self.record(ToolStart(ToolCall(id, name, {})))

    def result(self, id: str) -> Iterator[Record]:  # noqa: A002
        """A tool has a result."""
        yield from self.record(ToolStop(ToolResult(id), call_id=id))

    def fail(self, reason: str) -> Iterator[Record]:
        """The run fails, which its stream reports."""
        yield from self.record(RunAbort("error", reason))

    def end(self) -> Iterator[Record]:
        """The run succeeds, which its stream shows by ending."""
        yield from self.done()
        yield from self.record(*[TurnStop()] * self._in_turn, RunStop())


class Handler:
    """A handler that a library calls, as an asynchronous iterator: a call takes as long as the item is looked at."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        self._free = asyncio.Event()
        self._has_left = False

    async def __call__(self, item: str) -> None:
        """Take an item; raise if the watcher has raised."""
        self._free.clear()
        self._items.put_nowait(item)
        await self._free.wait()
        if self._has_left:
            raise OSError("the watcher is broken")

    def end(self, error: Exception | None = None) -> None:
        """No more items follow."""
        self._items.put_nowait(error)

    async def read(self) -> AsyncIterator[str]:
        """The items."""
        try:
            while (item := await self._items.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
                self._free.set()
        except GeneratorExit:
            self._has_left = True
            raise
        finally:
            self._free.set()
