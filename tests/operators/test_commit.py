"""`committed` lets nothing pass that a retraction could take back."""

from __future__ import annotations

from typing import Any

import pytest
import reactivex

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockType,
    Error,
    Event,
    Record,
    ResponseStatus,
    RunAbort,
    RunStart,
    RunStop,
    Status,
    TextDelta,
    ToolProgress,
    ToolStart,
)
from rxworker.events.kinds import Deltas
from rxworker.messages import Conversation, ToolCall
from rxworker.operators import committed, events, live, text_deltas
from rxworker.testing.marbles import Marbles, values_of
from tests.seen import through

ROW: dict[str, Event] = {
    "r": RunStart(Conversation()),
    "a": AttemptStart(),
    "s": Status(ResponseStatus.STARTED),
    "b": BlockStart(0, BlockType.TEXT),
    "d": TextDelta(0, "x"),
    "x": BlockAbort(0, BlockType.TEXT, "cut"),
    "e": Error("overloaded", "later"),
    "f": Status(ResponseStatus.FAILED),
    "c": Status(ResponseStatus.COMPLETED),
    "t": AttemptRetract("later"),
    "z": RunStop(),
    "q": RunAbort("error", "later"),
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("-r-a-s-b-d-c---------z-|", "-r---------(a,s,b,d,c)z-|"),
        ("-r-a-d-t-a-s-d-c-------z-|", "-r-------------(a,s,d,c)z-|"),
        ("-a-s-d-s-b-c---------|", "-----------(a,s,b,c)-|"),
        ("-a-d-x-e-f-q-------------|", "-----------(a,d,x,e,f,q)-|"),
        ("-a-d-c-t-|", "-----(a,d,c)|"),
        ("-a-d---|", "-------(a,d,|)"),
        ("-a-d---#", "-------(a,d,#)"),
        ("---|", "---|"),
        ("---#", "---#"),
        ("----", "----"),
    ],
)
def test_what_passes(source: str, expected: str, test: Marbles) -> None:
    seen = test.observe(test.hot(source, ROW).pipe(committed()))
    wanted = test.expected(expected, ROW)
    assert values_of(seen) == values_of(wanted)
    assert [str(r.value) for r in seen[-1:]] == [str(r.value) for r in wanted[-1:]]


def test_records_are_held_back_like_events() -> None:
    records = {letter: Record(n, "r", 1, 1, 0.0, event) for n, (letter, event) in enumerate(ROW.items(), 1)}
    test = Marbles()
    seen = values_of(test.observe(test.hot("-a-d-t-a-b-c-|", records).pipe(committed())))
    assert seen == [records["a"], records["b"], records["c"]]


def inside(seq: int, call: str, event: Event) -> Record:
    return Record(seq, "r", 1, 1, 0.0, event, path=(call,))


def test_runs_inside_a_run_are_held_back_each_by_itself() -> None:
    completed = Status(ResponseStatus.COMPLETED)
    records = [
        inside(1, "x", AttemptStart()),
        inside(2, "y", AttemptStart()),
        inside(3, "x", TextDelta(0, "x")),
        inside(4, "y", TextDelta(0, "y")),
        inside(5, "x", AttemptRetract("again")),
        inside(6, "y", completed),
        inside(7, "x", AttemptStart()),
        Record(8, "r", 1, 1, 0.0, ToolProgress("z", 1)),
    ]
    seen: list[int] = []

    def on_next(record: Record) -> None:
        seen.append(record.seq)

    reactivex.from_iterable(records).pipe(committed()).subscribe(on_next)
    assert seen == [2, 4, 6, 8, 7]


def test_a_tool_that_starts_within_a_response_is_held_back_with_it() -> None:
    started = ToolStart(ToolCall("1", "look", {}))
    completed = Status(ResponseStatus.COMPLETED)
    begun = Status(ResponseStatus.STARTED)
    events: list[Event] = [AttemptStart(), begun, started, begun, TextDelta(0, "a"), completed]
    seen = through(events, committed())
    assert seen == [AttemptStart(), begun, TextDelta(0, "a"), completed]


def test_each_subscription_holds_its_own() -> None:
    source = reactivex.of(ROW["a"], ROW["d"], ROW["c"]).pipe(committed())
    first: list[Event] = []
    second: list[Event] = []
    source.subscribe(first.append)
    source.subscribe(second.append)
    assert first == second == [ROW["a"], ROW["d"], ROW["c"]]


def test_live_is_everything(test: Marbles) -> None:
    drawing = "-a-d-t-a-c-|"
    assert test.observe(test.hot(drawing, ROW).pipe(live())) == test.expected(drawing, ROW)


def test_deltas_of_one_entry_are_held_back_with_their_response() -> None:
    deltas: Any = Deltas(TextDelta(0, ""), ["never", " shown"])
    events: list[Any] = [AttemptStart(), deltas, AttemptRetract("again")]
    entries = [Record(n, "r", 1, 1, 0.0, event) for n, event in enumerate(events, 1)]
    seen = through(entries, committed())
    assert seen == []


def test_records_of_several_runs_are_kept_apart() -> None:
    """One attempt is retracted while that of another run is open; each text counts once."""
    told: list[tuple[str, Event]] = [
        ("one", AttemptStart()),
        ("one", TextDelta(0, "He")),
        ("two", AttemptStart()),
        ("two", TextDelta(0, "Good")),
        ("one", AttemptRetract("overloaded")),
        ("two", Status(ResponseStatus.COMPLETED)),
        ("one", AttemptStart()),
        ("one", TextDelta(0, "Hello")),
        ("one", Status(ResponseStatus.COMPLETED)),
        ("one", RunStop()),
        ("two", RunStop()),
    ]
    records = [Record(seq, run, 1, 1, float(seq), event) for seq, (run, event) in enumerate(told, 1)]
    texts = through(records, committed(), events(), text_deltas())
    assert texts == ["Good", "Hello"]
    shown = through(records, events(), text_deltas())
    assert shown == ["He", "Good", "Hello"]
