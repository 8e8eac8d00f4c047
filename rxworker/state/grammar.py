"""The grammar of events and records: the rules that every watcher relies on. Pure.

Every block that starts has one stop or one abort, deltas lie within their blocks, a tool call names its tool, and no
event follows the terminal status. A turn stops once, after its tools. A call in the background has its result before
its run stops. Nothing follows the last record of a run, except that a watcher is detached, or that the run is
annotated, resumed or put back. Records are numbered without gaps.

Each fault names the rule that is broken; `rxworker.testing.conformance` gives the reason of each.

A response is before its start, open, or over. A block is open from its start to its stop or abort, and its index is not
used again. A second ``Status(STARTED)`` retracts the events before it, so it begins the response again; the open blocks
must have been aborted before it.

Each machine takes one event at a time, and costs the same for each. `rxworker.testing.conformance` reads streams with
them, and a journal checks the records that it numbers, in tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from rxworker import events
from rxworker.events.kinds import Deltas, is_meta
from rxworker.messages import StopKind, StopReason


class Rule(StrEnum):
    """A rule of a stream. The last four are of its delivery, and no list of records shows them."""

    BLOCKS_END = "blocks-end"
    NOTHING_AFTER_END = "nothing-after-end"
    CUT_IS_NOT_SUCCESS = "cut-is-not-success"
    RETRACTED_IS_MARKED = "retracted-is-marked"
    USAGE_ONCE = "usage-once"
    ERRORS_ARE_SEEN = "errors-are-seen"
    CALLS_END = "calls-end"
    NESTED_BY_PATH = "nested-by-path"
    NUMBERS_WITHOUT_GAPS = "numbers-without-gaps"
    TWO_WATCHERS = "two-watchers"
    LATE_WATCHER = "late-watcher"
    RAISING_WATCHER = "raising-watcher"
    SLOW_WATCHER = "slow-watcher"


class Fault(NamedTuple):
    """What is wrong with an event, or with the end of a stream.

    Attributes:
        rule: The rule that is broken.
        text: What is wrong.
    """

    rule: Rule
    text: str

    def __str__(self) -> str:
        return self.text


Faults: TypeAlias = Iterator[Fault]
"""What is wrong with an event."""

CALLING = (StopKind.TOOL_USE, StopKind.PAUSE_TURN)
Kind = events.BlockType
_ALL = frozenset(Kind)
ARGUMENTS = frozenset({Kind.TOOL_USE, Kind.SERVER_TOOL_USE, Kind.OPAQUE})
FITTING: dict[type[object], frozenset[events.BlockType]] = {
    events.TextDelta: _ALL - {Kind.THINKING, Kind.REFUSAL, Kind.TOOL_USE, Kind.SERVER_TOOL_USE},
    events.ThinkingDelta: frozenset({Kind.THINKING, Kind.OPAQUE}),
    events.RefusalDelta: frozenset({Kind.REFUSAL}),
    events.InputJsonDelta: ARGUMENTS,
    events.InputValueDelta: ARGUMENTS,
}


_ENDS = (events.RunStop, events.RunAbort, events.RunPause)
_AFTER_A_CUT = (events.AttemptStart, events.AttemptRetract, events.TurnStop, *_ENDS)
_BEGINS = (events.RunStart, events.RunResume, events.RunRequeue)
_AFTER_THE_END = (*_BEGINS, events.WatcherDetach, events.Custom, events.Fork)


class ResponseGrammar:
    """Checks the events of one response, one by one.

    Args:
        reasons: Whether to report whole calls whose response has another reason than ``ToolUse`` to end, and not one
            with which they do not run.

    >>> grammar = ResponseGrammar()
    >>> grammar.feed(events.BlockStart(0, Kind.TEXT))
    []
    >>> [fault.text for fault in grammar.finish()]
    ['block 0 (text) is still open at the end', 'the response has no terminal status']
    """

    def __init__(self, *, reasons: bool = False) -> None:
        self._reasons = reasons
        self._begin()

    def _begin(self) -> None:
        """Reset."""
        self._over: events.Status | None = None
        self._open: dict[int, events.BlockStart] = {}
        self._used: set[int] = set()
        self._calls: set[str] = set()
        self._whole: list[int] = []  # blocks of calls that are whole
        self._reason: StopReason | None = None  # of a block
        self._failed = False
        self._any = False

    def feed(self, event: events.ResponseEvent) -> list[Fault]:
        """Take the next event; return what is wrong with it."""
        return list(self._feed(event))

    def _feed(self, event: events.ResponseEvent) -> Faults:
        self._any = True
        if self._over is not None:
            rule = Rule.USAGE_ONCE if isinstance(event, events.Usage) else Rule.NOTHING_AFTER_END
            yield Fault(rule, f"{_name(event)} after Status({self._over.status.name})")
            return
        if self._failed and not isinstance(event, events.Status):
            yield Fault(Rule.NOTHING_AFTER_END, f"{_name(event)} after an Error")
        if isinstance(event, events.Status):
            yield from self._status(event)
        elif isinstance(event, events.Error):
            self._failed = True
        elif events.is_block_event(event):
            yield from self._block(event)

    def retract(self) -> list[Fault]:
        """The response is retracted, and another one may begin."""
        faults = self._still_open("when it was retracted")
        self._begin()
        return faults

    def abandon(self) -> None:
        """Its process has ended, so that what is open has no end."""
        self._still_open("")

    def finish(self) -> list[Fault]:
        """The response has ended; return what is missing."""
        faults = self._still_open("at the end")
        if self._any and self._over is None:
            faults.append(Fault(Rule.CUT_IS_NOT_SUCCESS, "the response has no terminal status"))
        return faults

    def _status(self, event: events.Status) -> Faults:
        if event.status is events.ResponseStatus.STARTED:
            yield from self.retract()
            self._any = True
            return
        self._over = event
        yield from self._still_open(f"at Status({event.status.name})")
        if event.status is events.ResponseStatus.FAILED and not self._failed:
            yield Fault(Rule.ERRORS_ARE_SEEN, "Status(FAILED) without an Error")
        if event.status is not events.ResponseStatus.COMPLETED:
            return
        if self._failed:
            yield Fault(Rule.CUT_IS_NOT_SUCCESS, "Status(COMPLETED) after an Error")
        reason = event.stop_reason or self._reason
        contradicts = reason is not None and reason.runs_tools and reason.kind not in CALLING
        if self._reasons and self._whole and reason is not None and contradicts:
            what = f"Status(COMPLETED) has the stop reason {reason.kind.value}"
            index = self._whole[0]
            call = f"block {index} (tool_use) is a whole call, which will run"
            yield Fault(Rule.CALLS_END, f"{call}, and {what}: report ToolUse")

    def _block(self, event: events.BlockEvent) -> Faults:
        index = event.index
        if isinstance(event, events.BlockStart):
            yield from self._start(event)
            return
        if index not in self._open:
            yield Fault(Rule.BLOCKS_END, f"{_name(event)} outside of a block: {index} is not open")
            return
        start = self._open[index]
        if isinstance(event, (events.BlockStop, events.BlockAbort)):
            del self._open[index]
            self._used.add(index)
        if isinstance(event, events.BlockStop):
            self._reason = event.stop_reason or self._reason
            if event.block_type is Kind.TOOL_USE:
                self._whole.append(index)
        yield from _misfits(start, event)

    def _start(self, event: events.BlockStart) -> Faults:
        what = f"block {event.index} ({event.block_type.value})"
        if event.index in self._open:
            yield Fault(Rule.BLOCKS_END, f"{what} starts while it is open")
        elif event.index in self._used:
            yield Fault(Rule.BLOCKS_END, f"{what} starts again after its end")
        self._open[event.index] = event
        if event.block_type is not Kind.TOOL_USE:
            return
        # A tool call has an id at its start, and no two have the same.
        call = event.metadata
        if not isinstance(call, events.ToolUseMetadata) or not call.id or not call.name:
            yield Fault(Rule.CALLS_END, f"{what} starts without the id and the name of its call")
        elif call.id in self._calls:
            yield Fault(Rule.CALLS_END, f"{what} has the id of an earlier call: {call.id}")
        else:
            self._calls.add(call.id)

    def _still_open(self, when: str) -> list[Fault]:
        """A fault for each block that is open and was not reported before."""
        faults = [
            Fault(Rule.BLOCKS_END, f"block {index} ({start.block_type.value}) is still open {when}")
            for index, start in self._open.items()
        ]
        self._used.update(self._open)
        self._open.clear()
        return faults


def _misfits(start: events.BlockStart, event: events.BlockEvent) -> Faults:
    """What shows that an event does not belong into the block that it names."""
    what = f"block {start.index} ({start.block_type.value})"
    if isinstance(event, (events.BlockStop, events.BlockAbort)):
        ends_as = event.metadata if isinstance(event, events.BlockStop) else start.metadata
        if event.block_type is not start.block_type:
            yield Fault(Rule.BLOCKS_END, f"{what} ends as {event.block_type.value}")
        elif start.block_type is Kind.TOOL_USE and ends_as != start.metadata:
            yield Fault(Rule.CALLS_END, f"{what} does not end with the id and the name of its start")
    elif start.block_type not in FITTING.get(type(event), _ALL):
        yield Fault(Rule.BLOCKS_END, f"{what} has a {_name(event)}")


def _name(event: object) -> str:
    return type(event).__name__


class RunGrammar:
    """Checks the events of one run, without those of the runs inside it.

    >>> from rxworker.messages import ToolResult
    >>> RunGrammar().feed(events.ToolProgress("call_1", 0.5))
    [Fault(rule=<Rule.CALLS_END: 'calls-end'>, text='ToolProgress of call_1, which does not run')]
    """

    def __init__(self, *, reasons: bool = False, responses: bool = True) -> None:
        self._responses = responses
        self._response = ResponseGrammar(reasons=reasons)
        # By their ids and places: the calls that run, and those that have ended, whose results are still to come.
        self._running: set[tuple[str, int]] = set()
        self._held: set[tuple[str, int]] = set()
        self._left: set[tuple[str, int]] = set()  # those of a process that has ended: of a tapped run they go on
        self._background: set[str] = set()
        self._in_turn: bool | None = False  # None: a resumed run may go on within a turn
        self._over: str | None = None
        self._is_cut = False  # its process has ended, and nothing of the response has come since
        self._begun = False  # it has the start of its run
        self._content = False  # an attempt has content, which is not retracted
        self._status: events.ResponseStatus | None = None  # of the last response
        self.calls: set[str] = set()  # that have started

    @property
    def is_open(self) -> bool:
        """Whether the run has begun and has no end yet."""
        return self._begun and self._over is None

    def feed(self, event: events.Event) -> list[Fault]:
        """Take the next event; return what is wrong with it."""
        return list(self._feed(event, _name(event)))

    def _feed(self, event: events.Event, name: str) -> Faults:
        if self._over is not None and not isinstance(event, _AFTER_THE_END):
            yield Fault(Rule.NOTHING_AFTER_END, f"{name} after {self._over}")
            return
        if is_meta(event) or events.is_block_event(event):
            self._is_cut = False  # it goes on
            self._content = self._content or not is_meta(event)
            if isinstance(event, events.Status):
                self._status = event.status
                self._content &= event.status is not events.ResponseStatus.STARTED
            if self._responses:
                yield from self._response.feed(event)
        elif isinstance(event, events.RunStart | events.RunResume):
            yield from self._begin(event)
        else:
            yield from self._step(event, name)

    def _begin(self, event: events.RunStart | events.RunResume) -> Faults:
        is_resumed = isinstance(event, events.RunResume)
        if self.is_open and not is_resumed:
            yield Fault(Rule.NESTED_BY_PATH, "RunStart within a run: the records of a run inside have a path")
        self._begun, self._over, self._content = True, None, False
        self._in_turn = None if is_resumed else False
        self._background = {each.id for each in event.background} if isinstance(event, events.RunResume) else set()

    def _step(self, event: events.Event, name: str) -> Faults:
        """A step of a run that has begun."""
        if self._is_cut and isinstance(event, _AFTER_A_CUT):
            self._abandon()
        match event:
            case events.AttemptStart():
                if self._content:
                    yield Fault(Rule.RETRACTED_IS_MARKED, "AttemptStart after content that was not retracted")
                self._content, self._status = False, None
                yield from self._response.finish()
                self._response.retract()
            case events.AttemptRetract():
                self._content = False
                self._held.clear()
                yield from self._response.retract()
            case events.TurnStart():
                if self._in_turn:
                    yield Fault(Rule.BLOCKS_END, "TurnStart within a turn")
                self._in_turn, self._content = True, False
            case events.TurnStop():
                if self._in_turn is False:
                    yield Fault(Rule.BLOCKS_END, "TurnStop outside of a turn")
                self._in_turn = self._content = False
                yield from self._no_tools(name)
            case events.ToolStart(call=call):
                yield from self._tool(event, call.id)
            case events.ToolOutput(result=result):
                yield from self._tool(event, result.tool_use_id)
            case events.ToolProgress(call_id=call_id) | events.ToolStop(call_id=call_id):
                yield from self._tool(event, call_id)
            case events.BackgroundStart(background=call):
                self._background.add(call.id)
            case events.BackgroundProgress(id=id) | events.BackgroundStop(id=id):
                if id not in self._background:
                    yield Fault(Rule.CALLS_END, f"{name} of {id}, which is not in the background")
                if isinstance(event, events.BackgroundStop):
                    self._background.discard(id)
            case events.RunRecover():
                # What its process has left open is retracted, started again, or goes on.
                self._left = self._running.copy()
                self._running.clear()
                self._is_cut, self._content = True, False
                # The end of an answered turn is decided again, and stops it again.
                self._in_turn = self._in_turn or None
            case events.HandOver():
                self._is_cut = True
            case events.Fork():  # what was copied may end with a pause, which the copy waits at
                self._over = None
            case events.RunStop() | events.RunAbort() | events.RunPause():
                yield from self._end(event, name)
            case events.RunRequeue():
                if self._over != "RunAbort":
                    after = self._over or "a record of a run that goes on"
                    yield Fault(Rule.NOTHING_AFTER_END, f"{name} after {after}")
                self._over = self._in_turn = None
            case _:
                pass

    def _end(self, event: events.RunStop | events.RunAbort | events.RunPause, name: str) -> Faults:
        if isinstance(event, events.RunAbort) and event.cause == "error" and not event.reason:
            yield Fault(Rule.ERRORS_ARE_SEEN, "RunAbort after an error, without its text")
        if isinstance(event, events.RunAbort):
            # A response that was broken off has no status.
            yield from self._response.retract()
            self._background.clear()
        elif isinstance(event, events.RunStop):
            if self._status not in (None, events.ResponseStatus.COMPLETED):
                yield Fault(Rule.CUT_IS_NOT_SUCCESS, f"RunStop after a response with Status({self._status.name})")
            left = sorted(self._background)
            yield from [Fault(Rule.CALLS_END, f"call {call} is still in the background at {name}") for call in left]
        else:  # what waits for an answer goes on, or begins again, if it had started early
            for each in event.pause.calls:
                self._running.discard((each.call.id, each.place))
                self._held.discard((each.call.id, each.place))
        self._over = name
        self._in_turn = False
        yield from self._no_tools(name)

    def finish(self) -> list[Fault]:
        """There are no more records; return what is missing."""
        if self._is_cut:
            self._abandon()
            self._response.retract()
        turn = [Fault(Rule.BLOCKS_END, "the turn is still open at the end")] if self._in_turn else []
        return [*self._response.finish(), *turn, *self._no_tools("the end")]

    def _abandon(self) -> None:
        self._is_cut = False
        self._response.abandon()

    def _tool(
        self, event: events.ToolStart | events.ToolProgress | events.ToolStop | events.ToolOutput, name: str
    ) -> Faults:
        """A tool that did not start may still stop: it was skipped."""
        key = name, event.place
        runs = key in self._running
        match event:
            case events.ToolStart():
                self.calls.add(name)
                self._running.add(key)
                if runs:
                    yield Fault(Rule.CALLS_END, f"ToolStart of {name}, which runs already")
            case events.ToolStop(result=result):
                self._running.discard(key)
                if result is None:
                    self._held.add(key)
            case events.ToolOutput():
                self._held.discard(key)
                if runs:
                    yield Fault(Rule.CALLS_END, f"ToolOutput of {name}, which still runs")
            case events.ToolProgress():
                if not runs and key not in self._left:
                    yield Fault(Rule.CALLS_END, f"ToolProgress of {name}, which does not run")

    def _no_tools(self, when: str) -> list[Fault]:
        running = sorted({call for call, _ in self._running})
        faults = [Fault(Rule.CALLS_END, f"tool call {call} still runs at {when}") for call in running]
        faults += [Fault(Rule.CALLS_END, f"tool call {call} has no result at {when}") for call, _ in sorted(self._held)]
        self._running.clear()
        self._held.clear()
        return faults


class RecordGrammar:
    """Checks the records of any number of runs, runs inside runs included.

    Args:
        responses: Whether the events of responses are checked too: a model of one's own may break these rules.
    """

    def __init__(self, *, responses: bool = True) -> None:
        self._responses = responses
        self._seqs: dict[str, int] = {}
        self._runs: dict[tuple[str, tuple[str, ...]], RunGrammar] = {}

    def feed(self, record: events.Record) -> list[Fault]:
        """Take the next record, which may cover several deltas; return what is wrong with it."""
        faults = self.feed_number(record)
        key = (record.run_id, record.path)
        if key not in self._runs:
            faults += self._begin_inner(record)
            self._runs[key] = RunGrammar(responses=self._responses)
        event: Any = record.event
        # The deltas of a record are of one sort, and of one block.
        return faults + self._runs[key].feed(event.like if event.__class__ is Deltas else event)

    def _begin_inner(self, record: events.Record) -> Faults:
        """The first record of a run inside begins it, or its path names a call that has started."""
        around = self._runs.get((record.run_id, record.path[:-1])) if record.path else None
        begins = isinstance(record.event, events.RunStart | events.RunResume)
        if around is not None and around.is_open and not begins and record.path[-1] not in around.calls:
            path = "/".join(record.path)
            yield Fault(Rule.NESTED_BY_PATH, f"the path {path} names neither a call that has started nor a run")

    def feed_number(self, record: events.Record) -> list[Fault]:
        """Take the number of the next record alone."""
        before, first = self._seqs.get(record.run_id), record.first
        self._seqs[record.run_id] = record.seq
        if before is None or first == before + 1:
            return []
        return [Fault(Rule.NUMBERS_WITHOUT_GAPS, f"seq {first} after {before}")]

    def finish(self) -> list[Fault]:
        """There are no more records; return what is missing."""
        return [fault for run in self._runs.values() for fault in run.finish()]

    @property
    def is_open(self) -> bool:
        """Whether a run that is not inside another one has begun, and has no end yet."""
        return any(run.is_open for (_, path), run in self._runs.items() if not path)
