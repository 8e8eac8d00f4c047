"""The journal numbers what comes together as it numbers what comes one by one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rxworker.events import AttemptStart, Event, Ping, Record, TextDelta, TurnStart, TurnStop
from rxworker.events.deltas import Batch, Deltas
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
