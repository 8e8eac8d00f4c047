"""The grammar of events and records: the rules that every watcher relies on. Pure.

Every block that starts has one stop or one abort, deltas lie within their blocks, a tool call names its tool, and
no event follows the terminal status. A turn stops once, after its tools. Nothing follows the last record of a run, except that a watcher is detached,
or that the run is resumed or put back. Records are numbered without gaps.

A response is before its start, open, or over. A block is open from its start to its stop or abort, and its index is not used again. A second
``Status(STARTED)`` retracts the events before it, so it begins the response again; the open blocks must have been aborted before it.

Each machine takes one event at a time, and costs the same for each. `rxworker.testing.lint` reads streams with them, and a journal checks the records that it numbers, in tests.
"""

from __future__ import annotations

from typing import Any

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockDelta,
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    Event,
    InputJsonDelta,
    InputValueDelta,
    Record,
    RefusalDelta,
    ResponseEvent,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunRecover,
    RunRequeue,
    RunResume,
    RunStart,
    RunStop,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    ToolProgress,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
    TurnStop,
    WatcherDetach,
    is_block_event,
)
from rxworker.events.block import BlockMetadata
from rxworker.events.deltas import Deltas
from rxworker.events.kinds import is_meta
from rxworker.messages import StopKind, StopReason

CALLING = (StopKind.TOOL_USE, StopKind.PAUSE_TURN)
ARGUMENTS = frozenset({BlockType.TOOL_USE, BlockType.SERVER_TOOL_USE, BlockType.OPAQUE})
FITTING: dict[type[BlockDelta], frozenset[BlockType]] = {
    TextDelta: frozenset(BlockType)
    - {BlockType.THINKING, BlockType.REFUSAL, BlockType.TOOL_USE, BlockType.SERVER_TOOL_USE},
    ThinkingDelta: frozenset({BlockType.THINKING, BlockType.OPAQUE}),
    RefusalDelta: frozenset({BlockType.REFUSAL}),
    InputJsonDelta: ARGUMENTS,
    InputValueDelta: ARGUMENTS,
}


_AFTER_THE_END = (RunStart, RunResume, RunRequeue, WatcherDetach)


class ResponseGrammar:
    """Checks the events of one response, one by one.

    Args:
        implicit: Whether a delta may open its block.
        reasons: Whether to report whole calls whose response has another reason than ``ToolUse`` to end, and not one with which they do not run.

    >>> grammar = ResponseGrammar()
    >>> grammar.feed(BlockStart(0, BlockType.TEXT))
    []
    >>> grammar.finish()
    ['block 0 (text) is still open at the end', 'the response has no terminal status']
    """

    def __init__(self, *, implicit: bool = False, reasons: bool = False) -> None:
        self._implicit = implicit
        self._reasons = reasons
        self._over: Status | None = None
        self._begin()

    def _begin(self) -> None:
        """Reset."""
        self._open: dict[int, BlockStart | None] = {}
        self._used: set[int] = set()
        self._calls: set[str] = set()
        self._whole: list[int] = []  # blocks of calls that are whole
        self._reason: StopReason | None = None  # of a block
        self._failed = False
        self._any = False

    def feed(self, event: ResponseEvent) -> list[str]:
        """Take the next event; return what is wrong with it."""
        self._any = True
        if self._over is not None:
            return [f"{_name(event)} after Status({self._over.status.name})"]
        faults: list[str] = []
        if self._failed and not isinstance(event, Status):
            faults.append(f"{_name(event)} after an Error")
        if isinstance(event, Status):
            faults += self._status(event)
        elif isinstance(event, Error):
            self._failed = True
        elif is_block_event(event):
            faults += self._block(event)
        return faults

    def retract(self) -> list[str]:
        """The response is retracted, and another one may begin."""
        faults = self._still_open("when it was retracted")
        self._begin()
        self._over = None
        return faults

    def abandon(self) -> None:
        """Its process has ended, so that what is open has no end."""
        self._still_open("")

    def finish(self) -> list[str]:
        """The response has ended; return what is missing."""
        faults = self._still_open("at the end")
        if self._any and self._over is None:
            faults.append("the response has no terminal status")
        return faults

    def _status(self, event: Status) -> list[str]:
        if event.status is ResponseStatus.STARTED:
            faults = self.retract()
            self._any = True
            return faults
        self._over = event
        faults = self._still_open(f"at Status({event.status.name})")
        if self._failed and event.status is ResponseStatus.COMPLETED:
            faults.append("Status(COMPLETED) after an Error")
        if self._reasons and event.status is ResponseStatus.COMPLETED and self._whole:
            faults += _reason_for_calls(self._whole[0], event.stop_reason or self._reason)
        return faults

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
            if isinstance(event, BlockStop):
                self._reason = event.stop_reason or self._reason
                if event.block_type is BlockType.TOOL_USE:
                    self._whole.append(event.index)
        return _fits(start, event) if start is not None else []

    def _start(self, event: BlockStart) -> list[str]:
        what = f"block {event.index} ({event.block_type.value})"
        faults: list[str] = []
        if event.index in self._open:
            faults.append(f"{what} starts while it is open")
        elif event.index in self._used:
            faults.append(f"{what} starts again after its end")
        self._open[event.index] = event
        if event.block_type is BlockType.TOOL_USE:
            faults += self._call(what, event.metadata)
        return faults

    def _call(self, what: str, call: BlockMetadata | None) -> list[str]:
        """A tool call has an id at its start, and no two have the same."""
        if not isinstance(call, ToolUseMetadata) or not call.id or not call.name:
            return [f"{what} starts without the id and the name of its call"]
        if call.id in self._calls:
            return [f"{what} has the id of an earlier call: {call.id}"]
        self._calls.add(call.id)
        return []

    def _still_open(self, when: str) -> list[str]:
        """A fault for each block that is open and was not reported before."""
        faults = [
            f"block {index}{f' ({start.block_type.value})' if start else ''} is still open {when}"
            for index, start in self._open.items()
        ]
        self._used.update(self._open)
        self._open.clear()
        return faults


def _reason_for_calls(index: int, reason: StopReason | None) -> list[str]:
    """Whether the reason why a response with whole calls has ended is none that contradicts them."""
    if reason is None or reason.kind in CALLING or not reason.runs_tools:
        return []
    what = f"Status(COMPLETED) has the stop reason {reason.kind.value}"
    return [f"block {index} (tool_use) is a whole call, which will run, and {what}: report ToolUse"]


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


class RunGrammar:
    """Checks the events of one run, without those of the runs inside it.

    >>> from rxworker.messages import ToolResult
    >>> RunGrammar().feed(ToolProgress("call_1", 0.5))
    ['ToolProgress of call_1, which does not run']
    """

    def __init__(
        self, *, implicit: bool = False, reasons: bool = False, responses: bool = True
    ) -> None:
        self._implicit = implicit
        self._responses = responses
        self._reasons = reasons
        self._response = ResponseGrammar(implicit=implicit, reasons=reasons)
        self._tools: dict[str, set[int]] = {}  # by their ids: the places of the calls that run
        self._held: set[tuple[str, int]] = (
            set()
        )  # calls that have ended, and whose results are still to come
        self._in_turn: bool | None = False  # None: a resumed run may go on within a turn
        self._over: str | None = None

    def feed(self, event: Event) -> list[str]:
        """Take the next event; return what is wrong with it."""
        name = type(event).__name__
        if self._over is not None and not isinstance(event, _AFTER_THE_END):
            return [f"{name} after {self._over}"]
        if is_meta(event) or is_block_event(event):
            return self._response.feed(event) if self._responses else []
        match event:
            case AttemptStart():
                faults = self._response.finish()
                self._response = ResponseGrammar(implicit=self._implicit, reasons=self._reasons)
                return faults
            case AttemptRetract():
                self._held.clear()
                return self._response.retract()
            case TurnStart():
                faults = ["TurnStart within a turn"] if self._in_turn else []
                self._in_turn = True
                return faults
            case TurnStop():
                faults = ["TurnStop outside of a turn"] if self._in_turn is False else []
                self._in_turn = False
                return faults + self._no_tools(name)
            case ToolStart() | ToolProgress() | ToolStop() | ToolOutput():
                return self._tool(event)
            case RunStart() | RunResume():
                self._over = None
                self._in_turn = None if isinstance(event, RunResume) else False
                return []
            case RunRecover():
                # What its process has left open is retracted, or started again.
                self._tools.clear()
                self._response.abandon()
                if not self._in_turn:
                    self._in_turn = (
                        None  # the end of an answered turn is decided again, and stops it again
                    )
                return []
            case RunStop() | RunAbort() | RunPause():
                return self._end(name)
            case RunRequeue():
                faults = (
                    []
                    if self._over == "RunAbort"
                    else [f"{name} after {self._over or 'a record of a run that goes on'}"]
                )
                self._over = None
                self._in_turn = None
                return faults
            case _:
                return []

    def finish(self) -> list[str]:
        """There are no more records; return what is missing."""
        return [*self._response.finish(), *self._no_tools("the end")]

    def _tool(self, event: ToolStart | ToolProgress | ToolStop | ToolOutput) -> list[str]:
        """A tool that did not start may still stop: it was skipped."""
        match event:
            case ToolStart(call=call, place=place):
                running = self._tools.setdefault(call.id, set())
                again = place in running
                running.add(place)
                return [f"ToolStart of {call.id}, which runs already"] if again else []
            case ToolStop(call_id=call_id, place=place):
                self._tools.get(call_id, set[int]()).discard(place)
                if event.result is None:
                    self._held.add((call_id, place))
                return []
            case ToolOutput(result=result, place=place):
                self._held.discard((result.tool_use_id, place))
                runs = place in self._tools.get(result.tool_use_id, ())
                name = result.tool_use_id
                return [f"ToolOutput of {name}, which still runs"] if runs else []
            case ToolProgress(call_id=call_id, place=place):
                runs = place in self._tools.get(call_id, ())
                return [] if runs else [f"ToolProgress of {call_id}, which does not run"]

    def _end(self, name: str) -> list[str]:
        faults: list[str] = []
        if name == "RunAbort":  # a response that was broken off has no status of its own
            faults += self._response.retract()
        self._over = name
        self._in_turn = False
        return faults + self._no_tools(name)

    def _no_tools(self, when: str) -> list[str]:
        running = sorted(call for call, places in self._tools.items() if places)
        faults = [f"tool call {call} still runs at {when}" for call in running]
        faults += [f"tool call {call} has no result at {when}" for call, _ in sorted(self._held)]
        self._tools.clear()
        self._held.clear()
        return faults


class RecordGrammar:
    """Checks the records of any number of runs, runs inside runs included.

    Args:
        implicit: Whether a delta may open its block.
        responses: Whether the events of responses are checked too: a model of one's own may break these rules.
    """

    def __init__(self, *, implicit: bool = False, responses: bool = True) -> None:
        self._implicit = implicit
        self._responses = responses
        self._seqs: dict[str, int] = {}
        self._runs: dict[tuple[str, tuple[str, ...]], RunGrammar] = {}

    def feed(self, record: Record) -> list[str]:
        """Take the next record, which may cover several deltas; return what is wrong with it."""
        faults = self.feed_number(record)
        key = (record.run_id, record.path)
        if key not in self._runs:
            self._runs[key] = RunGrammar(implicit=self._implicit, responses=self._responses)
        event: Any = record.event
        # The deltas of a record are of one sort, and of one block.
        return faults + self._runs[key].feed(event.like if event.__class__ is Deltas else event)

    def feed_number(self, record: Record) -> list[str]:
        """Take the number of the next record alone."""
        before, first = self._seqs.get(record.run_id), record.seq - record.covers + 1
        self._seqs[record.run_id] = record.seq
        return [] if before is None or first == before + 1 else [f"seq {first} after {before}"]

    def finish(self) -> list[str]:
        """There are no more records; return what is missing."""
        return [fault for run in self._runs.values() for fault in run.finish()]
