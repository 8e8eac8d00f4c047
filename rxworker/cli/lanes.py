"""The timeline of a run as lanes. A machine: feed it records, look at the lanes."""

from __future__ import annotations

from collections import deque

from rxworker.cli.lane import Activity, Lane
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    InputJsonDelta,
    Record,
    ResponseStatus,
    RunAbort,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    ToolProgress,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
)
from rxworker.ui.describe import describe_json, describe_result

MOST_LANES = 200
ACTIVITIES: dict[BlockType, Activity] = {
    BlockType.THINKING: "thinking",
    BlockType.TEXT: "text",
    BlockType.REFUSAL: "text",
    BlockType.TOOL_USE: "arguments",
    BlockType.SERVER_TOOL_USE: "arguments",
}


class Lanes:
    """Folds records to lanes. Of many, it keeps the last.

    Attributes:
        lanes: One for each block and tool, in the order in which they began.
        now: The time of the last record, in seconds since the first.

    >>> lanes = Lanes()
    >>> start = BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("call_1", "forecast"))
    >>> lanes.feed(Record(seq=1, run="r", turn=1, attempt=1, time=0.0, event=start))
    >>> lanes.feed(Record(seq=2, run="r", turn=1, attempt=1, time=0.1, event=InputJsonDelta(0, '{"ci')))
    >>> lanes.lanes[0].name, lanes.lanes[0].detail
    ('forecast', '{"ci')
    """

    def __init__(self) -> None:
        self.lanes: deque[Lane] = deque(maxlen=MOST_LANES)
        self.now = 0.0
        self._began: float | None = None
        self._blocks: dict[int, Lane] = {}
        self._calls: dict[str, Lane] = {}
        self._attempt: list[Lane] = []
        self._is_started = False

    def feed(self, record: Record) -> None:
        """Take the next record."""
        if self._began is None:
            self._began = record.time
        # A clock may be set back while a run is on.
        self.now = max(self.now, record.time - self._began)
        if not record.path:
            self._take(record)

    def _take(self, record: Record) -> None:
        match record.event:
            case BlockStart() as start:
                self._open(record.turn, start)
            case TextDelta(index=index, text=text) | ThinkingDelta(index=index, text=text):
                self._tell(index, text)
            case InputJsonDelta(index=index, text=text):
                self._tell(index, text)
            case BlockStop(index=index):
                self._close_block(index)
            case BlockAbort(index=index):
                self._close_block(index, failed=True)
            case AttemptStart():
                self._attempt.clear()
                self._is_started = False
            case Status(status=ResponseStatus.STARTED):
                if self._is_started:
                    self._retract()
                self._is_started = True
            case AttemptRetract():
                self._retract()
            case RunAbort():
                for lane in self._attempt:
                    if lane.outcome == "open":
                        lane.end(self.now, "failed")
                self._forget()
            case ToolStart() | ToolProgress() | ToolStop() | ToolOutput():
                self._take_tool(record.turn, record.event)
            case _:
                pass

    def _open(self, turn: int, start: BlockStart) -> None:
        activity = ACTIVITIES.get(start.block_type, "other")
        called = start.metadata if isinstance(start.metadata, ToolUseMetadata) else None
        name = called.name if called else start.block_type.value
        lane = self._blocks[start.index] = self._add(turn, name)
        lane.begin(activity, self.now)
        if called:
            self._calls[called.id] = lane

    def _add(self, turn: int, name: str) -> Lane:
        lane = Lane(turn, name)
        self.lanes.append(lane)
        self._attempt.append(lane)
        return lane

    def _tell(self, index: int, text: str) -> None:
        lane = self._blocks.get(index)
        if lane is not None:
            lane.tell(text)

    def _close_block(self, index: int, *, failed: bool = False) -> None:
        lane = self._blocks.pop(index, None)
        if lane is not None:
            lane.end(self.now, "failed" if failed else "done")

    def _retract(self) -> None:
        for lane in self._attempt:
            lane.end(self.now, "retracted")
        self._forget()

    def _forget(self) -> None:
        """Nothing of the attempt goes on."""
        self._attempt.clear()
        self._blocks.clear()
        self._calls.clear()

    def _take_tool(
        self, turn: int, event: ToolStart | ToolProgress | ToolStop | ToolOutput
    ) -> None:
        match event:
            case ToolStart(call=call):
                lane = self._calls.get(call.id) or self._add(turn, call.name)
                self._calls[call.id] = lane
                lane.begin("tool", self.now)
            case ToolProgress(call_id=call_id, progress=progress):
                if (lane := self._calls.get(call_id)) is not None:
                    lane.detail = describe_json(progress)
            case ToolStop(result=result, call_id=call_id, is_error=is_error):
                name = "" if result is None else result.name
                lane = self._calls.get(call_id) or self._add(turn, name)
                lane.end(self.now, "failed" if is_error else "done")
                if result is not None:
                    self._calls.pop(call_id, None)
                    lane.detail = describe_result(result).removeprefix(f"{name}: ")
            case ToolOutput(result=result):
                lane = self._calls.pop(result.tool_use_id, None)
                if lane is not None:
                    lane.outcome = "failed" if result.is_error else "done"
                    lane.detail = describe_result(result).removeprefix(f"{result.name}: ")


__all__ = ["Lanes"]
