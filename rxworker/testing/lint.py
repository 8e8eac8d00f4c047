"""The protocol linter: does a stream of events or records keep the rules that every watcher relies on?

The rules are those of `rxworker.state.grammar`; `rxworker.testing.conformance` has them one by one, with their reasons.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import reactivex
from reactivex import Observable
from reactivex import operators as ops

from rxworker.events import Event, Record
from rxworker.operators.kernel import Operator
from rxworker.state.grammar import Fault, RecordGrammar, RunGrammar
from rxworker.turn.journal import Journal

Lintable: TypeAlias = Event | Record
E = TypeVar("E", bound=Lintable)


class Linter:
    """Reads events or records, one by one, and reports violations."""

    def __init__(self) -> None:
        # Not for records: a run may use the model of another program.
        self._events = RunGrammar(reasons=True)
        self._records = RecordGrammar()
        self._place = 0

    @property
    def is_open(self) -> bool:
        """Whether a run has begun, and has no end yet."""
        return self._events.is_open or self._records.is_open

    def feed(self, event: Lintable, /) -> list[Fault]:
        """Take the next one; return what is wrong with it, with its place in the stream."""
        place, self._place = self._place, self._place + 1
        if isinstance(event, Record):
            return _placed(f"seq {event.seq}", self._records.feed(event))
        return _placed(f"event {place}", self._events.feed(event))

    def finish(self) -> list[Fault]:
        """The stream ended; return what is missing."""
        return _placed("end", [*self._events.finish(), *self._records.finish()])


def _placed(place: str, faults: list[Fault]) -> list[Fault]:
    return [Fault(fault.rule, f"{place}: {fault.text}") for fault in faults]


def lint(events: Iterable[Lintable], *, complete: bool = True) -> list[str]:
    """The errors of a stream; empty for a sound one.

    Args:
        events: Events of one response, or records of runs.
        complete: Whether this is the whole stream; of a part, nothing counts as missing.

    >>> from rxworker.events import BlockStart, BlockType, TextDelta
    >>> lint([TextDelta(0, "Hello")], complete=False)
    ['event 0: TextDelta outside of a block: 0 is not open']
    """
    linter = Linter()
    faults = [fault for event in events for fault in linter.feed(event)]
    return [fault.text for fault in [*faults, *(linter.finish() if complete else [])]]


def check_balanced(events: Iterable[Lintable], *, complete: bool = True) -> None:
    """Assert that a stream keeps the rules; the arguments are those of `lint`.

    Raises:
        AssertionError: It does not; the message lists every complaint.

    >>> from rxworker.testing.reply import say
    >>> from rxworker.testing.reply import reply_events
    >>> check_balanced(reply_events(say("Hello")))
    """
    if complaints := lint(events, complete=complete):
        raise AssertionError("the stream breaks the protocol:\n  " + "\n  ".join(complaints))


def ensure_balanced() -> Operator[E, E]:
    """Pass a stream on, and end it with an `AssertionError` at the first event that breaks the rules.

        --s--d--d--|         s start, d delta, no stop
        [ ensure_balanced() ]
        --s--d--d--X

    A stream that fails is passed on as it is: what it could not finish, it could not finish.
    """

    def ensure(source: Observable[E]) -> Observable[E]:
        def begin(_: object) -> Observable[E]:
            linter = Linter()

            def check_event(event: E) -> None:
                _refuse(linter.feed(event))

            def check_end() -> None:
                _refuse(linter.finish())

            return source.pipe(ops.do_action(check_event, on_completed=check_end))

        return reactivex.defer(begin)

    return ensure


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise AssertionError("; ".join(map(str, faults)))


@contextmanager
def checked_records() -> Generator[list[str]]:
    """Check the records of all runs where they are numbered.

    A record that breaks the rules is refused: it is not emitted, and an `AssertionError` is raised by what emits it.

    A run may turn that error into its own. So an `AssertionError` that lists all faults is raised at the end of the
    block, too. For a fixture that all tests use.

    Raises:
        AssertionError: At the end: a record was refused.

    >>> import asyncio
    >>> from rxworker import Worker
    >>> from rxworker.testing import ScriptedModel
    >>> with checked_records() as faults:
    ...     result = Worker(ScriptedModel(["Hello."])).run_sync("Hi")
    >>> faults
    []
    """
    faults: list[str] = []
    before, Journal.faults = Journal.faults, faults
    try:
        yield faults
    finally:
        Journal.faults = before
    if faults:
        raise AssertionError("records break the rules:\n  " + "\n  ".join(faults))
