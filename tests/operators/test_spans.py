"""`spans`: how long it was from one record to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import of

from rxworker.events import (
    AttemptStart,
    Event,
    PauseState,
    Ping,
    Record,
    RunAbort,
    RunPause,
    RunStop,
    TextDelta,
    ToolStart,
    ToolStop,
    Usage,
)
from rxworker.messages import ToolCall, ToolResult
from rxworker.operators import spans
from rxworker.operators.gauges import UsageChanges
from rxworker.operators.spans import _Lineage, _Spans
from tests.seen import through


def record(time: float, event: Event, *path: str, run_id: str = "r") -> Record:
    return Record(seq=1, run_id=run_id, turn=1, attempt=1, time=time, event=event, path=path)


def asked(record: Record) -> str | None:
    return "request" if isinstance(record.event, AttemptStart) else None


def answered(record: Record) -> str | None:
    return "request" if isinstance(record.event, TextDelta) else None


def seconds_of(*records: Record) -> list[float]:
    seen = through(records, spans(asked, answered))
    return [span.seconds for span in seen]


ASK, SAY = AttemptStart(), TextDelta(0, "")


INNER = [record(1, ASK), record(2, ASK, "c"), record(3, ASK, run_id="s")]
# What the records are, and the seconds of the spans.
STORIES: dict[str, tuple[list[Record], list[float]]] = {
    "the first end after a begin counts": ([record(1, ASK), record(3, SAY), record(4, SAY)], [2]),
    "an end without a begin is nothing": ([record(1, SAY)], []),
    "what begins again is measured from there": ([record(1, ASK), record(2, ASK), record(5, SAY)], [3]),
    "runs and runs inside them are kept apart": (
        [*INNER, record(10, SAY, run_id="s"), record(20, SAY, "c"), record(30, SAY)],
        [7, 18, 29],
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_span_is_from_a_begin_to_the_first_end_after_it(name: str) -> None:
    records, seconds = STORIES[name]
    assert seconds_of(*records) == seconds


def test_what_is_open_when_its_run_ends_is_dropped() -> None:
    for end in (RunStop(), RunAbort("cancel", ""), RunPause(PauseState("ask", (), ()))):
        assert seconds_of(record(1, ASK), record(2, end), record(3, SAY)) == []
        assert seconds_of(record(1, ASK, "c"), record(2, end), record(3, SAY, "c")) == []
        assert seconds_of(record(1, ASK), record(2, end, "c"), record(3, SAY)) == [2]
        assert seconds_of(record(1, ASK, "c"), record(2, end, "c"), record(3, SAY, "c")) == []


def test_a_record_may_end_something_and_begin_it_again() -> None:
    def every(record: Record) -> int:
        return 0

    records = [record(time, Ping()) for time in (1, 2, 4)]
    seen = through(records, spans(every, every))
    assert [span.seconds for span in seen] == [1, 2]


def call_begins(record: Record) -> str | None:
    return record.event.call.id if isinstance(record.event, ToolStart) else None


def call_ends(record: Record) -> str | None:
    return record.event.call_id if isinstance(record.event, ToolStop) else None


@given(st.permutations(range(6)))
def test_calls_that_overlap_are_distinguished_by_their_names(order: list[int]) -> None:
    begins = [record(n, ToolStart(ToolCall(str(n), "look", {}))) for n in range(6)]
    ends = [record(10 + n, ToolStop(ToolResult(str(n)), call_id=str(n))) for n in order]
    seen = through([*begins, *ends], spans(call_begins, call_ends))
    assert [span.seconds for span in seen] == [10.0] * 6
    assert [span.end for span in seen] == ends


def test_what_a_mark_raises_ends_the_stream() -> None:
    def refuse(record: Record) -> str:
        raise ValueError("no")

    errors: list[Exception] = []
    of(record(1, ASK)).pipe(spans(refuse, refuse)).subscribe(on_error=errors.append)
    assert [str(error) for error in errors] == ["no"]


KEPT: dict[str, Callable[[], tuple[Any, Any]]] = {
    "spans": lambda: (spanning := _Spans(asked, answered), spanning._open),
    "lineage": lambda: (family := _Lineage(), family._told),
    "usage_changes": lambda: (changes := UsageChanges(), changes._open),
}


@pytest.mark.parametrize("name", KEPT)
def test_nothing_is_kept_of_runs_that_have_ended(name: str) -> None:
    machine, kept = KEPT[name]()
    for number in range(100):
        for event in (ASK, Usage(1), ToolStart(ToolCall("c", "look", {}))):
            machine.feed(record(1, event, run_id=str(number)))
            machine.feed(record(1, event, "c", run_id=str(number)))
        assert kept
        machine.feed(record(2, RunStop(), run_id=str(number)))
    assert kept == {}
