"""The protocol linter: does a stream of events or records keep the rules that every watcher relies on?

Every block that starts has one stop or one abort, deltas lie within their blocks, a tool call names its tool, and
no event follows the terminal status. Records are numbered without gaps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

from reactivex import Observable, abc

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Event,
    Record,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    ToolOutput,
    ToolProgress,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
    is_block_event,
    is_meta,
)
from rxworker.operators.stage import Operator
from rxworker.testing.lint_response import ResponseLinter


class RunLinter:
    """Reads the events of one run, without those of the runs inside it, and complains.

    >>> from rxworker.messages import ToolResult
    >>> RunLinter().feed(ToolProgress("call_1", 0.5))
    ['ToolProgress of call_1, which does not run']
    """

    def __init__(self, *, implicit: bool = False) -> None:
        self._implicit = implicit
        self._response = ResponseLinter(implicit=implicit)
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
                self._response = ResponseLinter(implicit=self._implicit)
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
        self._events = RunLinter(implicit=implicit)
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
    """What is wrong with a stream; nothing, for a sound one.

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
