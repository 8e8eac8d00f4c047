"""`Row`: deltas that have come together are the records that they would have been, and the span that is made of them is the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rxworker.events import Record, TextDelta
from rxworker.events.deltas import Deltas
from rxworker.events.row import Row
from rxworker.hub.span import Span, packed

ROW = Row(6, "r", 1, 2, 0.5, Deltas(TextDelta(0, "", 1), list("abcd")), ("call_1",))
HEAD = Record(3, "r", 1, 2, 0.5, TextDelta(0, "a", 1), ("call_1",))
EXACT = [replace(HEAD, seq=n, event=TextDelta(0, letter, 1)) for n, letter in enumerate("abcd", 3)]


def test_it_knows_where_and_when_it_stands() -> None:
    assert (ROW.first, ROW.seq, ROW.time) == (3, 6, 0.5)
    assert ROW.head == HEAD


@pytest.mark.parametrize("after", range(7))
def test_it_and_its_span_give_the_records_and_the_text_behind_any_number(after: int) -> None:
    behind = [record for record in EXACT if record.seq > after]
    text = "".join(record.event.text for record in behind if isinstance(record.event, TextDelta))
    [span] = packed([ROW])
    for entry in (ROW, span):
        assert isinstance(entry, Row | Span)
        for until in range(8):
            expected = [record for record in behind if record.seq <= until]
            assert list(entry.records(after, until)) == expected
        assert entry.text(after) == text
        if behind:
            merged = replace(HEAD, seq=6, event=TextDelta(0, text, 1), covers=len(behind))
            assert entry.merged(after) == merged
