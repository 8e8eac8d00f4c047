"""`gather`: neighbours that add to the same text go together, and nothing else changes."""

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
)
from rxworker.events.kinds import FEW, Deltas, add_deltas, flatten, gather

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
    for row in gather(events):
        if isinstance(row, Deltas):
            assert len(row) >= FEW
            assert len({(type(e), getattr(e, "index", 0), getattr(e, "choice", 0)) for e in row}) == 1
            told.extend(row)
        else:
            told.append(row)
    assert told == events


def test_a_long_row_is_one_thing_wherever_it_stands() -> None:
    for before in ([], [Ping()]):
        for behind in ([], [Ping()]):
            events: list[Event] = [*before, *[TextDelta(0, "a")] * 10, *behind]
            kinds = [type(row) for row in gather(events)]
            assert kinds == [Ping] * len(before) + [Deltas] + [Ping] * len(behind)


def test_few_go_one_by_one() -> None:
    assert [type(row) for row in gather([TextDelta(0, "a")] * (FEW - 1))] == [TextDelta] * (FEW - 1)


def test_rows_of_several_blocks_are_not_mixed() -> None:
    events = [TextDelta(n % 2, "a") for n in range(10)]
    assert [type(row) for row in gather(events)] == [TextDelta] * 10


def test_a_row_is_the_events_that_it_stands_for() -> None:
    for like in (TextDelta(1, "", 2), ThinkingDelta(1, ""), RefusalDelta(1, ""), InputJsonDelta(1, "")):
        row: Deltas[Event] = Deltas(like, ["a", "b"])
        events = [replace(like, text="a"), replace(like, text="b")]
        assert list(row) == events
        assert (row[0], row[-1], row[1:], len(row)) == (events[0], events[1], events[1:], 2)


@given(st.lists(st.text(alphabet="ab ü\ud800", max_size=3)), st.data())
def test_packing_changes_nothing(texts: list[str], data: st.DataObject) -> None:
    plain, packed = (Deltas[Event](TextDelta(2, "", 1), list(texts)) for _ in range(2))
    packed.pack()
    start = data.draw(st.integers(0, len(texts)))
    stop = data.draw(st.integers(start, len(texts)))
    for deltas in (plain, packed):
        assert deltas.texts == texts
        assert deltas.cut(start, stop) == texts[start:stop]
        assert deltas.text(start) == "".join(texts[start:])
        assert list(deltas) == [TextDelta(2, text, 1) for text in texts]
        assert deltas[start:stop] == [TextDelta(2, text, 1) for text in texts[start:stop]]
        assert deltas[::-1] == [TextDelta(2, text, 1) for text in reversed(texts)]
        assert len(deltas) == len(texts)


def test_parts_are_flattened_in_order() -> None:
    deltas: Deltas[Event] = Deltas(TextDelta(0, ""), ["a", "b"])
    ping = Ping()
    assert list(flatten([ping, deltas, ping])) == [ping, *deltas, ping]


@pytest.mark.parametrize("count", [1, FEW - 1, FEW])
def test_few_texts_are_added_as_events(count: int) -> None:
    events: list[object] = [Ping()]
    add_deltas(TextDelta(0, ""), ["a"] * count, events)
    assert len(events) == (2 if count == FEW else count + 1)
