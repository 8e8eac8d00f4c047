"""The protocol linter: does a stream of events or records keep the rules that every watcher relies on?

Every block that starts has one stop or one abort, deltas lie within their blocks, a tool call names its tool, and
no event follows the terminal status. Records are numbered without gaps.

A response is before its start, open, or over. A block is open from its start to its stop or abort, and its index is not used again. A second
``Status(STARTED)`` retracts the events before it, so it begins the response again; the open blocks must have been aborted before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

from reactivex import Observable, abc

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockDelta,
    BlockEvent,
    BlockMetadata,
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
    is_block_event,
    is_meta,
)
from rxworker.messages import StopKind, StopReason
from rxworker.operators.stage import Operator

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


class ResponseLinter:
    """Reads the events of one response and complains.

    Args:
        implicit: Whether a delta may open its block.
        reasons: Whether to complain of whole calls whose response has another reason than ``ToolUse`` to end, and not one with which they do not run.

    >>> linter = ResponseLinter()
    >>> linter.feed(BlockStart(0, BlockType.TEXT))
    []
    >>> linter.finish()
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
        if self._reasons and event.status is ResponseStatus.COMPLETED and self._whole:
            complaints += _reason_for_calls(self._whole[0], event.stop_reason or self._reason)
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
            if isinstance(event, BlockStop):
                self._reason = event.stop_reason or self._reason
                if event.block_type is BlockType.TOOL_USE:
                    self._whole.append(event.index)
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


class RunLinter:
    """Reads the events of one run, without those of the runs inside it, and complains.

    >>> from rxworker.messages import ToolResult
    >>> RunLinter().feed(ToolProgress("call_1", 0.5))
    ['ToolProgress of call_1, which does not run']
    """

    def __init__(self, *, implicit: bool = False, reasons: bool = False) -> None:
        self._implicit = implicit
        self._reasons = reasons
        self._response = ResponseLinter(implicit=implicit, reasons=reasons)
        self._tools: dict[str, set[int]] = {}  # by their ids: the places of the calls that run
        self._held: set[tuple[str, int]] = (
            set()
        )  # calls that have ended, and whose results are still to come
        self._in_turn: bool | None = False  # None: a resumed run may go on within a turn
        self._over: str | None = None

    def feed(self, event: Event) -> list[str]:
        """Take the next event; return what is wrong with it."""
        name = type(event).__name__
        if is_meta(event) or is_block_event(event):
            late = [f"{name} after {self._over}"] if self._over else []
            return late + self._response.feed(event)
        match event:
            case AttemptStart():
                complaints = self._response.finish()
                self._response = ResponseLinter(implicit=self._implicit, reasons=self._reasons)
                return complaints
            case AttemptRetract():
                self._held.clear()
                return self._response.retract()
            case TurnStart():
                complaints = ["TurnStart within a turn"] if self._in_turn else []
                self._in_turn = True
                return complaints
            case TurnStop():
                complaints = ["TurnStop outside of a turn"] if self._in_turn is False else []
                self._in_turn = False
                return complaints + self._no_tools(name)
            case ToolStart() | ToolProgress() | ToolStop() | ToolOutput():
                return self._tool(event)
            case RunStart() | RunResume():
                self._over = None
                self._in_turn = None if isinstance(event, RunResume) else False
                return []
            case RunStop() | RunAbort() | RunPause():
                return self._end(name)
            case RunRequeue():
                complaints = (
                    []
                    if self._over == "RunAbort"
                    else [f"{name} after {self._over or 'a record of a run that goes on'}"]
                )
                self._over = None
                return complaints
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
        complaints = [f"{name} after {self._over}"] if self._over else []
        if name == "RunAbort":  # a response that was broken off has no status of its own
            complaints += self._response.retract()
        self._over = name
        self._in_turn = False
        return complaints + self._no_tools(name)

    def _no_tools(self, when: str) -> list[str]:
        running = sorted(call for call, places in self._tools.items() if places)
        complaints = [f"tool call {call} still runs at {when}" for call in running]
        complaints += [
            f"tool call {call} has no result at {when}" for call, _ in sorted(self._held)
        ]
        self._tools.clear()
        self._held.clear()
        return complaints


class RecordLinter:
    """Reads the records of any number of runs, runs inside runs included, and complains."""

    def __init__(self, *, implicit: bool = False) -> None:
        self._implicit = implicit
        self._seqs: dict[str, int] = {}
        self._runs: dict[tuple[str, tuple[str, ...]], RunLinter] = {}

    def feed(self, record: Record) -> list[str]:
        """Take the next record; return what is wrong with it."""
        complaints: list[str] = []
        before = self._seqs.get(record.run)
        if before is not None and record.seq != before + 1:
            complaints.append(f"seq {record.seq} after {before}")
        self._seqs[record.run] = record.seq
        key = (record.run, record.path)
        if key not in self._runs:
            self._runs[key] = RunLinter(implicit=self._implicit)
        return complaints + self._runs[key].feed(record.event)

    def finish(self) -> list[str]:
        """There are no more records; return what is missing."""
        return [complaint for run in self._runs.values() for complaint in run.finish()]


Lintable: TypeAlias = Event | Record
E = TypeVar("E", bound=Lintable)


class Linter:
    """Reads events or records, one by one, and complains.

    Args:
        implicit: Whether a delta may open its block.
    """

    def __init__(self, *, implicit: bool = False) -> None:
        # Not for records: a run may use the model of another program.
        self._events = RunLinter(implicit=implicit, reasons=True)
        self._records = RecordLinter(implicit=implicit)
        self._place = 0

    def feed(self, event: Lintable, /) -> list[str]:
        """Take the next one; return what is wrong with it, with its place in the stream."""
        place, self._place = self._place, self._place + 1
        if isinstance(event, Record):
            return [f"seq {event.seq}: {complaint}" for complaint in self._records.feed(event)]
        return [f"event {place}: {complaint}" for complaint in self._events.feed(event)]

    def finish(self) -> list[str]:
        """The stream ended; return what is missing."""
        return [f"end: {c}" for c in [*self._events.finish(), *self._records.finish()]]


def lint(events: Iterable[Lintable], *, implicit: bool = False, complete: bool = True) -> list[str]:
    """The errors of a stream; empty for a sound one.

    Args:
        events: Events of one response, or records of runs.
        implicit: Whether a delta may open its block.
        complete: Whether this is the whole stream; of a part, nothing counts as missing.

    >>> from rxworker.events import BlockStart, BlockType, TextDelta
    >>> lint([TextDelta(0, "Hello")], complete=False)
    ['event 0: TextDelta outside of a block: 0 is not open']
    """
    linter = Linter(implicit=implicit)
    complaints = [complaint for event in events for complaint in linter.feed(event)]
    return complaints + (linter.finish() if complete else [])


def check_balanced(
    events: Iterable[Lintable], *, implicit: bool = False, complete: bool = True
) -> None:
    """Assert that a stream keeps the rules; the arguments are those of `lint`.

    Raises:
        AssertionError: It does not; the message lists every complaint.

    >>> from rxworker.testing.reply import say
    >>> from rxworker.testing.reply import reply_events
    >>> check_balanced(reply_events(say("Hello")))
    """
    complaints = lint(events, implicit=implicit, complete=complete)
    if complaints:
        raise AssertionError("the stream breaks the protocol:\n  " + "\n  ".join(complaints))


def ensure_balanced(*, implicit: bool = False) -> Operator[E, E]:
    """Pass a stream on, and end it with an `AssertionError` at the first event that breaks the rules.

        --s--d--d--|         s start, d delta, no stop
        [ ensure_balanced() ]
        --s--d--d--X

    A stream that fails is passed on as it is: what it could not finish, it could not finish.
    """

    def ensure(source: Observable[E]) -> Observable[E]:
        def subscribe(
            observer: abc.ObserverBase[E], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            linter = Linter(implicit=implicit)

            def on_next(event: E) -> None:
                complaints = linter.feed(event)
                if complaints:
                    observer.on_error(AssertionError("; ".join(complaints)))
                else:
                    observer.on_next(event)

            def on_completed() -> None:
                complaints = linter.finish()
                if complaints:
                    observer.on_error(AssertionError("; ".join(complaints)))
                else:
                    observer.on_completed()

            return source.subscribe(on_next, observer.on_error, on_completed, scheduler=scheduler)

        return Observable(subscribe)

    return ensure
