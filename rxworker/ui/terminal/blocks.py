"""The lanes of the blocks that are open: what the model thinks, says, calls, and brings along. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    InputJsonDelta,
    InputValueDelta,
    OpaqueMetadata,
    Record,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ToolResultMetadata,
    ToolUseMetadata,
)
from rxworker.messages import JsonObject
from rxworker.ui.clean import one_line
from rxworker.ui.describe import describe_arguments
from rxworker.ui.terminal.attempts import Attempts, Path
from rxworker.ui.terminal.calls import ARGUMENTS, Calls
from rxworker.ui.terminal.lane import CallLane, Lane, LaneKind
from rxworker.ui.terminal.sources import describe_sources

KINDS: dict[BlockType, LaneKind] = {
    BlockType.THINKING: "thinking",
    BlockType.TEXT: "text",
    BlockType.REFUSAL: "text",
    BlockType.TOOL_USE: "call",
    BlockType.SERVER_TOOL_USE: "call",
}
TITLES = {
    BlockType.IMAGE: "a picture",
    BlockType.TOOL_RESULT: "a result",
    BlockType.SERVER_TOOL_RESULT: "a result of the provider's",
    BlockType.OPAQUE: "something that is not known here",
}
"""What there is, of blocks that a terminal cannot show."""
MOST_SOURCES = 50
IMPLIED: dict[type[object], BlockType] = {
    ThinkingDelta: BlockType.THINKING,
    RefusalDelta: BlockType.REFUSAL,
    InputJsonDelta: BlockType.TOOL_USE,
    InputValueDelta: BlockType.TOOL_USE,
}
"""The type of the block that a delta without a start opens; of all other deltas it is text."""


Writes: TypeAlias = TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta | InputValueDelta
"""The deltas that add to the text of a lane."""


class Blocks:
    """Follows blocks from their start to their stop.

    Args:
        attempts: Is told of every lane.
        calls: Is told of the calls that will run here.
    """

    def __init__(self, attempts: Attempts, calls: Calls) -> None:
        self._lanes: dict[tuple[Path, int], Lane] = {}
        self._attempts, self._calls = attempts, calls

    def start(self, record: Record, start: BlockStart) -> Lane:
        """A block begins."""
        kind, path = KINDS.get(start.block_type, "note"), record.path
        depth, began, metadata = len(path), record.time, start.metadata
        if kind == "call":
            called = metadata if isinstance(metadata, ToolUseMetadata) else ToolUseMetadata("", "")
            name = one_line(called.name) or start.block_type.value
            lane = call = CallLane(kind, name, depth, began=began, call_id=called.id)
            # The worker runs the calls of the first choice. A call without an id is added when its stop brings one.
            if start.block_type is BlockType.TOOL_USE and called.id and not start.choice:
                self._calls.add(path, call)
        else:
            lane = Lane(kind, TITLES.get(start.block_type, ""), depth, began=began)
            if isinstance(metadata, OpaqueMetadata):
                lane.pieces.append(one_line(metadata.kind))
            elif isinstance(metadata, ToolResultMetadata):
                lane.pieces.append(one_line(metadata.name))
        lane.choice = start.choice
        self._attempts.add(path, lane)
        self._lanes[path, start.index] = lane
        return lane

    def write(self, record: Record, event: Writes, text: str) -> Lane:
        """More of it; a delta without a start opens its block.

        Args:
            record: Where it happens.
            event: The delta.
            text: What it adds, clean.
        """
        choice = 0 if isinstance(event, InputJsonDelta | InputValueDelta) else event.choice
        block = IMPLIED.get(type(event), BlockType.TEXT)
        lane = self._find(record, BlockStart(event.index, block, choice=choice))
        lane.pieces.append(text if lane.pieces else text.lstrip("\n"))
        return lane

    def cite(self, record: Record, event: CitationDelta) -> Lane:
        """One more source of a text."""
        lane = self._find(record, BlockStart(event.index, BlockType.TEXT))
        for source in describe_sources(event.citation):
            if source not in lane.sources and len(lane.sources) < MOST_SOURCES:
                lane.sources.append(source)
        return lane

    def stop(self, record: Record, event: BlockStop | BlockAbort) -> Iterable[Lane]:
        """The block is whole, or will not become so."""
        lane = self._lanes.pop((record.path, event.index), None)
        if lane is None:
            return ()
        if isinstance(event, BlockAbort):
            lane.end(record.time, "stopped")
        elif isinstance(lane, CallLane) and event.block_type is BlockType.TOOL_USE:
            self._await_run(record, lane, event)
        else:
            lane.end(record.time)
        if isinstance(lane, CallLane):
            if isinstance(event, BlockStop) and isinstance(event.metadata, ToolUseMetadata):
                lane.title = one_line(event.metadata.name) or lane.title
            lane.arguments = describe_arguments(_read(lane.text), ARGUMENTS)
        return (lane,)

    def forget(self, path: Path) -> None:
        """The run begins anew, or has ended: nothing of it is open."""
        if self._lanes:
            self._lanes = {key: lane for key, lane in self._lanes.items() if key[0] != path}

    def _await_run(self, record: Record, lane: CallLane, stop: BlockStop) -> None:
        """The arguments of a call are complete: the worker runs it, unless it belongs to a further choice."""
        if lane.choice:
            lane.end(record.time, "refused")
            return
        lane.stage = "waiting"
        if isinstance(stop.metadata, ToolUseMetadata) and stop.metadata.id != lane.call_id:
            self._calls.rename(record.path, lane, stop.metadata.id)

    def _find(self, record: Record, start: BlockStart) -> Lane:
        """The open block at that index; opened by this start if there is none."""
        lane = self._lanes.get((record.path, start.index))
        return self.start(record, start) if lane is None else lane


def _read(text: str) -> JsonObject | str:
    """The arguments of a call, from the text that came; what is no JSON object stays text."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"), type=JsonObject)
    except msgspec.DecodeError:
        return text


__all__ = ["Blocks"]
