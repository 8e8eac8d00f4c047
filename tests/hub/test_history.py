"""`History`: every record can be read again from any number, and merged records are equivalent to the exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Event,
    InputJsonDelta,
    InputValueDelta,
    Ping,
    Record,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
)
from rxworker.events.kinds import Deltas
from rxworker.hub.history import TAIL, History, deltas_of, expand, merge, packed
from rxworker.operators import merge_deltas

TEXTS = st.lists(st.text(alphabet="ab ü\ud800", max_size=3), min_size=1, max_size=6)
OTHERS: list[Event] = [
    BlockStart(0, BlockType.TEXT),
    BlockStop(0, BlockType.TEXT),
    CitationDelta(0, {"source": "here"}),
    InputValueDelta(0, "$.a", 1),
    ToolProgress("c", 1),
    Ping(),
]


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[Event, tuple[str, ...]]]:
    """Some deltas that add to one text, or another event."""
    path = draw(st.sampled_from([(), ("call_1",), ("call_1", "call_2")]))
    if draw(st.integers(0, 4)) == 0:
        return [(draw(st.sampled_from(OTHERS)), path)]
    index, choice = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    texts = draw(TEXTS)
    if draw(st.booleans()):
        return [(InputJsonDelta(index, text), path) for text in texts]
    kind = draw(st.sampled_from([TextDelta, ThinkingDelta, RefusalDelta]))
    deltas: list[Event] = [kind(index, text, choice) for text in texts]
    return [(delta, path) for delta in deltas]


@st.composite
def stories(draw: st.DrawFn) -> list[Record]:
    """Records that a run may have. Those of one network read have one time."""
    records: list[Record] = []
    for row in draw(st.lists(rows(), max_size=8)):
        step = 0 if draw(st.booleans()) else 1 / 64
        for n, (event, path) in enumerate(row):
            time = len(records) / 8 - n * (1 / 8 - step)
            records.append(Record(len(records) + 1, "r", 1, 1, time, event, path))
    return records


def burst_of(records: Sequence[Record]) -> Record:
    """The entry of deltas from one network read."""
    texts = [getattr(record.event, "text") for record in records]  # noqa: B009 - any delta has one
    event = cast("Event", Deltas(records[0].event, texts))
    return replace(records[-1], event=event, covers=len(records))


def kept(records: Sequence[Record], packs: frozenset[int]) -> History:
    """A history of these, packed after some of them."""
    history = History()
    for _, together in groupby(records, lambda record: record.time):
        row = list(together)
        history.extend([row[0] if len(row) == 1 else burst_of(row)])
        if history.last_seq in packs:
            history.pack()
    return history


PACKS = st.frozensets(st.integers(1, 40))


@given(stories(), PACKS)
def test_every_record_can_be_read_again_after_any_number(records: list[Record], packs: frozenset[int]) -> None:
    history = kept(records, packs)
    assert history.last_seq == len(records)
    for after in range(len(records) + 2):
        assert list(history.records(after)) == records[after:]


@given(stories(), PACKS, st.data())
def test_it_reads_up_to_any_number(records: list[Record], packs: frozenset[int], data: st.DataObject) -> None:
    history = kept(records, packs)
    after = data.draw(st.integers(0, len(records)))
    until = data.draw(st.integers(after, len(records)))
    assert list(history.records(after, until)) == records[after:until]


def is_one_place(one: Record, other: Record) -> bool:
    return one.path == other.path


@given(stories(), PACKS)
def test_merged_records_equal_what_merge_deltas_emits_for_the_exact_ones(
    records: list[Record], packs: frozenset[int]
) -> None:
    history = kept(records, packs)
    for after in range(len(records) + 1):
        merged = history.merged(after)
        expected: list[tuple[tuple[str, ...], Event]] = []
        row: list[Event] = []
        for place, record in enumerate(records[after:], start=after):
            row.append(record.event)
            if place + 1 == len(records) or not is_one_place(record, records[place + 1]):
                expected += [(record.path, event) for event in merge_deltas(row)]
                row = []
        assert [(record.path, record.event) for record in merged] == expected


@given(stories(), PACKS)
def test_merged_records_cover_each_number_once_and_have_the_time_of_their_last(
    records: list[Record], packs: frozenset[int]
) -> None:
    history = kept(records, packs)
    for after in range(len(records) + 1):
        before = after
        for record in history.merged(after):
            assert record.first == before + 1
            assert record.time == records[record.seq - 1].time
            before = record.seq
        assert before == len(records)


@given(stories(), PACKS)
def test_entries_begin_after_the_number_and_hold_the_same_records(records: list[Record], packs: frozenset[int]) -> None:
    history = kept(records, packs)
    for after in range(len(records) + 1):
        entries = list(history.entries(after))
        assert merge(entries, after) == history.merged(after)
        assert entries[0].first == after + 1 if entries else after == len(records)


@given(stories())
def test_packed_entries_hold_equal_records(records: list[Record]) -> None:
    entries = packed(records)
    assert [record for entry in entries for record in expand(entry)] == records
    for entry, following in pairwise(entries):
        assert merge([entry, following], 0) == [*merge([entry], 0), *merge([following], 0)]


def test_deltas_of_different_attempts_turns_and_runs_are_not_merged() -> None:
    for other in ({"attempt": 2}, {"turn": 2}, {"run_id": "s"}, {"path": ("call_1",)}):
        records = [delta(1), replace(delta(2), **other)]
        assert packed(records) == records


def test_a_merged_record_is_not_packed() -> None:
    records = [delta(1), replace(delta(4), covers=3)]
    assert packed(records) == records


def delta(n: int, text: str = "word") -> Record:
    return Record(n, "r", 1, 1, float(n), TextDelta(0, text))


def test_a_long_tail_packs_itself() -> None:
    history = kept([delta(n) for n in range(1, TAIL)], frozenset())
    assert len(list(history.entries(0))) == TAIL - 1
    history.extend([delta(TAIL)])
    [entry] = history.entries(0)
    assert len(deltas_of(entry) or ()) == TAIL
    assert [record.covers for record in history.merged(0)] == [TAIL]


def test_a_burst_packs_the_tail_as_single_records_do() -> None:
    history = History()
    history.extend([burst_of([delta(n) for n in range(1, TAIL + 2)])])
    [entry] = history.entries(0)
    before = deltas_of(entry)
    history.extend([Record(TAIL + 2, "r", 1, 1, 0.0, Ping())])
    assert next(iter(history.entries(0))) is entry
    assert before is not None
    assert list(history.records(0))[:-1] == list(expand(entry))


def test_entries_packed_during_reading_are_read_once() -> None:
    history = kept([delta(n) for n in range(1, 9)], frozenset({4}))
    reading = history.records(0)
    read = [next(reading).seq for _ in range(2)]
    history.pack()
    history.extend([delta(9)])
    assert read + [record.seq for record in reading] in ([*range(1, 9)], [*range(1, 10)])


def test_entries_dropped_during_reading_leave_the_place_of_the_reader() -> None:
    history = History()
    for n in range(1, TAIL + 4):
        history.extend([Record(n, "r", 1, 1, float(n), Ping())])
    reading = history.records(0)
    read = [next(reading).seq for _ in range(5)]
    history.drop(3)
    read += [next(reading).seq for _ in range(2)]
    history.drop(TAIL)
    assert read + [record.seq for record in reading] == [*range(1, 8), *range(TAIL + 1, TAIL + 4)]
    assert history.held == 3
    history.drop(TAIL + 2)
    assert [record.seq for record in history.records(0)] == [TAIL + 3]
