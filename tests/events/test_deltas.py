"""`rows`: neighbours that add to the same text go together, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rxworker.events import (
    BlockStart,
    BlockType,
    Event,
    InputJsonDelta,
    Ping,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from rxworker.events.deltas import FEW, Batch, Counted, Deltas, block_rows_of, rows, rows_of

EVENTS: list[Event] = [
    TextDelta(0, "a"),
    TextDelta(0, "b", 1),
    TextDelta(1, "c"),
    ThinkingDelta(0, "d"),
    RefusalDelta(0, "e"),
    InputJsonDelta(2, "f"),
    InputJsonDelta(3, "g"),
    SignatureDelta(0, "s"),
    BlockStart(0, BlockType.TEXT),
    Ping(),
]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 6)), max_size=12))
def test_the_story_is_the_same_and_a_row_is_of_one_text(parts: list[tuple[Event, int]]) -> None:
    events = [event for event, times in parts for _ in range(times)]
    told: list[Event] = []
    for row in rows(events):
        if isinstance(row, Deltas):
            assert len(row) >= FEW
            assert (
                len({(type(e), getattr(e, "index", 0), getattr(e, "choice", 0)) for e in row}) == 1
            )
            told.extend(row)
        else:
            told.append(row)
    assert told == events


def test_a_long_row_is_one_thing_wherever_it_stands() -> None:
    for before in ([], [Ping()]):
        for behind in ([], [Ping()]):
            events: list[Event] = [*before, *[TextDelta(0, "a")] * 10, *behind]
            kinds = [type(row) for row in rows(events)]
            assert kinds == [Ping] * len(before) + [Deltas] + [Ping] * len(behind)


def test_few_go_one_by_one() -> None:
    assert [type(row) for row in rows([TextDelta(0, "a")] * (FEW - 1))] == [TextDelta] * (FEW - 1)


def test_rows_of_several_blocks_are_not_mixed() -> None:
    events = [TextDelta(n % 2, "a") for n in range(10)]
    assert [type(row) for row in rows(events)] == [TextDelta] * 10


def test_a_row_is_the_events_that_it_stands_for() -> None:
    for like in (
        TextDelta(1, "", 2),
        ThinkingDelta(1, ""),
        RefusalDelta(1, ""),
        InputJsonDelta(1, ""),
    ):
        row: Deltas[Event] = Deltas(like, ["a", "b"])
        events = [replace(like, text="a"), replace(like, text="b")]
        assert list(row) == events
        assert (row[0], row[-1], row[1:], len(row)) == (events[0], events[1], events[1:], 2)
        assert row.first == events[0]
        assert row[0] is row[0], "what was made is kept"


def test_a_batch_is_the_events_and_the_rows_that_it_stands_for() -> None:
    row: Deltas[Event] = Deltas(TextDelta(0, ""), ["a", "b"])
    first, last = TextDelta(1, "first"), TextDelta(1, "last")
    batch = Batch[Event]([first, row, last])
    assert list(batch) == [first, *row, last]
    assert (len(batch), batch[0], batch[-1], batch[1:3]) == (4, first, last, list(row))
    assert rows_of(batch) == [first, row, last]
    assert rows_of(row) == (row,)
    assert rows_of([first, last]) == [first, last]


def test_a_counted_row_is_the_deltas_and_the_usages_that_it_stands_for() -> None:
    usages: list[Event] = [Usage(9, n) for n in range(3)]
    row = Counted[Event](Deltas(TextDelta(0, ""), ["a", "b", "c"]), usages)
    events = [
        event for pair in zip(map(TextDelta, [0] * 3, "abc"), usages, strict=True) for event in pair
    ]
    assert (list(row), len(row)) == (events, 6)
    assert rows_of(row) is row
    assert block_rows_of(row) == (row.deltas,)
    for begin in range(-7, 8):
        for stop in range(-7, 8):
            assert row[begin:stop] == events[begin:stop]
            assert row[begin:stop:2] == events[begin:stop:2]
    assert [row[place] for place in range(-6, 6)] == [*events, *events]
    with pytest.raises(IndexError):
        row[6]
