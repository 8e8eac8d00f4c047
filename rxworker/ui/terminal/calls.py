"""The lanes of the tool calls that have no result yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rxworker.events import Record, ToolOutput, ToolProgress, ToolStart, ToolStop
from rxworker.messages import ToolResult
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_arguments, describe_json
from rxworker.ui.terminal.attempts import Attempts, Path
from rxworker.ui.terminal.lane import CallLane, Lane, Stage
from rxworker.ui.terminal.parts import describe_parts

ARGUMENTS = 400
"""Characters of the line that shows a call's arguments."""


class Calls:
    """Follows tool calls from their start to their result.

    Args:
        attempts: Is told of calls that nobody has announced.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._lanes: dict[tuple[Path, str], CallLane] = {}
        self._attempts = attempts

    @property
    def waiting(self) -> list[CallLane]:
        """Those without a result."""
        return [lane for lane in self._lanes.values() if not lane.is_over]

    def add(self, path: Path, lane: CallLane) -> None:
        """The model calls a tool."""
        self._lanes[path, lane.call_id] = lane

    def step(self, record: Record, event: ToolStart | ToolProgress | ToolStop | ToolOutput) -> Lane:
        """The tool starts, tells how far it is, has run, or its result comes; the call's lane."""
        match event:
            case ToolStart(call=call):
                lane = self._find(record, call.id, call.name)
                lane.stage, lane.began, lane.ended = "running", record.time, None
                # After the hooks, or the person who was asked.
                lane.arguments = describe_arguments(call.input, ARGUMENTS)
            case ToolProgress(call_id=call_id, progress=progress):
                lane = self._find(record, call_id, "")
                lane.progress, lane.told = describe_json(progress, ARGUMENTS), lane.told + 1
            case ToolStop(result=result, seconds=seconds, call_id=call_id, is_error=is_error):
                lane = self._find(record, call_id, "" if result is None else result.name)
                never_ran = lane.stage != "running"
                failed: Stage = "refused" if never_ran else "failed"
                lane.stage = failed if is_error else "done"
                lane.ended, lane.took = record.time, seconds
                if result is not None:
                    self._tell(record, lane, result)
            case ToolOutput(result=result):
                lane = self._find(record, result.tool_use_id, result.name)
                lane.stage = "failed" if result.is_error else "done"
                lane.ended = record.time if lane.ended is None else lane.ended
                self._tell(record, lane, result)
        return lane

    def _tell(self, record: Record, lane: CallLane, result: ToolResult) -> None:
        lane.result = _told(result)
        del self._lanes[record.path, result.tool_use_id]

    def refuse_all(self, now: float) -> list[CallLane]:
        """Nobody runs those that wait."""
        refused = list(self._lanes.values())
        for lane in refused:
            lane.end(now, "refused")
        self._lanes.clear()
        return refused

    def forget(self, path: Path, lanes: Iterable[Lane]) -> None:
        """Of the lanes of an attempt that is over, forget the calls that will not get a result."""
        for lane in lanes:
            if isinstance(lane, CallLane) and lane.is_over:
                self._lanes.pop((path, lane.call_id), None)

    def rename(self, path: Path, lane: CallLane, call_id: str) -> None:
        """A call is known by another id from now on."""
        if self._lanes.get((path, lane.call_id)) is lane:
            del self._lanes[path, lane.call_id]
        lane.call_id = call_id
        self.add(path, lane)

    def _find(self, record: Record, call_id: str, name: str) -> CallLane:
        lane = self._lanes.get((record.path, call_id))
        if lane is None:
            depth, began = len(record.path), record.time
            lane = CallLane("call", one_line(name), depth, began=began, call_id=call_id)
            self._lanes[record.path, call_id] = lane
            self._attempts.add(record.path, lane)
        return lane


def _told(result: ToolResult) -> str:
    content = result.content
    told = content if isinstance(content, str) else describe_parts(content)
    return clean(told) or "(no text)"


__all__ = ["ARGUMENTS", "Calls"]
