"""The journal numbers what comes together as it numbers what comes one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import (
    AttemptStart,
    Event,
    Ping,
    Record,
    TextDelta,
    TurnStart,
    TurnStop,
    Usage,
)
from rxworker.events.deltas import Batch, Counted, Deltas
from rxworker.hub.history import TAIL
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
