"""The journal numbers what comes together as it numbers what comes one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import (
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    Event,
    InputJsonDelta,
    Ping,
    Record,
    ResponseStatus,
    Status,
    TextDelta,
    ToolUseMetadata,
    TurnStart,
    TurnStop,
    Usage,
)
from rxworker.events.deltas import Batch, Counted, Deltas
from rxworker.hub.history import TAIL
from rxworker.messages import StopKind, StopReason
from rxworker.state import RunState, fold_run, step_run
from rxworker.worker.journal import Journal

ROW = Deltas[Event](TextDelta(0, ""), ["a", "b", "c", "d", "e"])
KINDS: dict[str, Event | Deltas[Event]] = {
    "turn": TurnStart(),
    "stop": TurnStop(),
    "attempt": AttemptStart("p", "m"),
    "ping": Ping(),
    "text": TextDelta(0, "x"),
    "row": ROW,
}
RESPONSE: dict[str, Event | Deltas[Event]] = {
    "begin": Status(ResponseStatus.STARTED, "id", "model-1"),
    "end": Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.TOOL_USE)),
    "failed": Status(ResponseStatus.FAILED),
    "error": Error("broken", "it broke"),
    "usage": Usage(9, 1),
    "ping": Ping(),
    "open": BlockStart(0, BlockType.TEXT),
    "stop": BlockStop(0, BlockType.TEXT),
    "abort": BlockAbort(0, BlockType.TEXT),
    "text": TextDelta(0, "x"),
    "row": ROW,
    "other": TextDelta(1, "y"),
    "call": BlockStart(2, BlockType.TOOL_USE, ToolUseMetadata("c", "look")),
    "piece": InputJsonDelta(2, '{"a": 1}'),
    "called": BlockStop(2, BlockType.TOOL_USE),
}
READS = st.lists(st.lists(st.sampled_from(sorted(RESPONSE)), max_size=9), max_size=6)
COUNTED = Counted[Event](ROW, [Usage(9, n) for n in range(5)])


def told(journal: Journal) -> list[Record]:
    return list(journal.hub.history.records(0))


@given(st.lists(st.lists(st.sampled_from(sorted(KINDS)), max_size=8), max_size=8))
def test_a_read_is_numbered_as_its_events_are(reads: Sequence[Sequence[str]]) -> None:
    together, single = Journal("r", lambda: 1.0), Journal("r", lambda: 1.0)
    seen: list[Event] = []
    together.hub.events.subscribe(seen.append)
    for read in reads:
        batch = Batch([KINDS[name] for name in read])
        together.emit_many(batch)
        for event in batch:
            single.emit(event)
    assert told(together) == told(single)
    assert together.turn == single.turn
    assert seen == [record.event for record in told(single)]


@given(READS, st.frozensets(st.integers(0, 5)), st.frozensets(st.integers(0, 5)))
def test_a_read_is_read_again_and_folded_as_its_events_are(
    reads: Sequence[Sequence[str]], packs: frozenset[int], looks: frozenset[int]
) -> None:
    together, single = Journal("r", lambda: 1.0), Journal("r", lambda: 1.0)
    history = together.hub.history
    single_state = RunState()
    for place, read in enumerate(reads):
        for journal in (together, single):
            if "begin" in read:
                journal.emit(AttemptStart("p", "m"))
        batch = Batch([RESPONSE[name] for name in read])
        together.emit_many(batch)
        for event in batch:
            single.emit(event)
        if place in packs:
            history.pack()
        if place in looks:
            assert together.state == single.state
    records = told(single)
    for record in records:
        single_state = step_run(single_state, record)
    assert together.state == single.state == single_state
    for after in range(len(records) + 1):
        assert list(history.records(after)) == records[after:]
        assert history.merged(after) == single.hub.history.merged(after)
        before = fold_run(records[:after])
        assert fold_run(history.standing(after), before) == single_state


@pytest.mark.parametrize("attach", ["events", "records", "nobody"])
def test_a_counted_row_is_numbered_told_and_folded_as_its_events_are(attach: str) -> None:
    together, single = Journal("r", lambda: 1.0), Journal("r", lambda: 1.0)
    seen: list[Event | Record] = []
    if attach == "events":
        together.hub.events.subscribe(seen.append)
    elif attach == "records":
        together.hub.subscribe(seen.append)
    for _ in range(TAIL // len(COUNTED) + 2):
        for journal in (together, single):
            journal.emit(AttemptStart("p", "m"))
        together.emit_many(COUNTED)
        for event in COUNTED:
            single.emit(event)
        assert together.state == single.state
    records = told(single)
    assert told(together) == records
    events: list[Event | Record] = [record.event for record in records]
    assert seen == {"events": events, "records": records, "nobody": []}[attach]
