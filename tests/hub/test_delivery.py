"""The deliveries: what each returns for a history, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.internal import noop

from rxworker.errors import ConfigurationError
from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    Gap,
    Ping,
    Record,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    Usage,
)
from rxworker.events.kinds import PASSING
from rxworker.hub import Coalesce, Delivery, DropOldest, Latest, Reliable
from rxworker.hub.delivery import BATCH, take
from rxworker.hub.history import History
from rxworker.hub.watcher import Watcher

START = BlockStart(0, BlockType.TEXT)
STOP = BlockStop(0, BlockType.TEXT)
EVENTS: list[Event] = [
    TextDelta(0, "a"),
    TextDelta(0, ""),
    TextDelta(1, "b"),
    ThinkingDelta(0, "c"),
    SignatureDelta(0, "d"),
    ToolProgress("call", 1),
    Ping(),
    Usage(1, 2),
    START,
    STOP,
]
DELIVERIES: list[Delivery] = [
    Reliable(),
    Reliable(limit=None),
    Coalesce(),
    Latest(),
    DropOldest(),
    DropOldest(limit=1),
    DropOldest(limit=3),
]


def counts(given: list[Record], delivery: Delivery) -> tuple[int, int, int]:
    """How many records were delivered, merged and dropped."""
    watcher = Watcher(noop, delivery, 0, "")
    watcher.note(given)
    state = watcher.state(given[-1].seq)
    return state.delivered, state.merged, state.dropped


def history_of(events: Sequence[Event], packed: int = 0) -> History:
    history = History()
    for n, event in enumerate(events, start=1):
        history.extend([Record(n, "r", 1, 1, float(n), event)])
        if n == packed:
            history.pack()
    return history


def taken(history: History, delivery: Delivery, after: int = 0) -> list[Record]:
    """All records that a watcher receives if it takes until nothing is left."""
    given: list[Record] = []
    while batch := take(history, delivery, after):
        given += batch
        after = batch[-1].seq
    return given


def events_of(records: Sequence[Record]) -> list[Event]:
    return [record.event for record in records]


STORIES = st.lists(st.sampled_from(EVENTS), max_size=30)


@pytest.mark.parametrize("delivery", DELIVERIES, ids=str)
@given(events=STORIES, packed=st.integers(0, 30), data=st.data())
def test_delivered_records_cover_each_number_once_and_in_order(
    delivery: Delivery, events: list[Event], packed: int, data: st.DataObject
) -> None:
    history = history_of(events, packed)
    after = data.draw(st.integers(0, len(events)))
    before = after
    for record in taken(history, delivery, after):
        assert record.first == before + 1
        before = record.seq
    assert before == len(events)


@pytest.mark.parametrize("delivery", DELIVERIES, ids=str)
@given(events=STORIES, packed=st.integers(0, 30))
def test_every_delivery_has_the_events_that_begin_or_end_something(
    delivery: Delivery, events: list[Event], packed: int
) -> None:
    history = history_of(events, packed)
    expected = [
        (record.seq, record.event)
        for record in history.records(0)
        if type(record.event) not in PASSING and not isinstance(record.event, Usage)
    ]
    lasting = [
        (record.seq, record.event)
        for record in taken(history, delivery)
        if type(record.event) not in PASSING and not isinstance(record.event, Usage | Gap)
    ]
    assert lasting == expected


@pytest.mark.parametrize("delivery", DELIVERIES, ids=str)
@given(events=STORIES, packed=st.integers(0, 30), data=st.data())
def test_the_counts_add_up_to_the_number_of_records(
    delivery: Delivery, events: list[Event], packed: int, data: st.DataObject
) -> None:
    history = history_of(events, packed)
    start = data.draw(st.integers(0, len(events)))
    watcher = Watcher(noop, delivery, start, "")
    while batch := take(history, delivery, watcher.seen):
        watcher.note(batch)
    state = watcher.state(len(events))
    assert state.delivered + state.merged + state.dropped == len(events) - start
    assert min(state.delivered, state.merged, state.dropped) >= 0


def test_reliable_delivers_every_record_in_batches_of_bounded_length() -> None:
    events: list[Event] = [TextDelta(0, str(n)) for n in range(2 * BATCH + 1)]
    history = history_of(events, packed=BATCH)
    assert [len(take(history, Reliable(), after)) for after in (0, BATCH, 2 * BATCH)] == [BATCH, BATCH, 1]
    assert events_of(taken(history, Reliable())) == events


def test_coalesce_merges_neighbours_and_nothing_else() -> None:
    a, b = TextDelta(0, "a"), TextDelta(1, "b")
    history = history_of([START, a, a, b, a, Ping(), a, a, STOP])
    given = taken(history, Coalesce())
    aa = TextDelta(0, "aa")
    assert events_of(given) == [START, aa, b, a, Ping(), aa, STOP]
    assert [record.covers for record in given] == [1, 2, 1, 1, 1, 2, 1]
    assert counts(given, Coalesce()) == (7, 2, 0)


def test_latest_delivers_the_newest_of_each_passing_kind_between_two_lasting_events() -> None:
    old, new = ToolProgress("c", 1), ToolProgress("c", 2)
    events: list[Event] = [old, TextDelta(0, "a"), new, TextDelta(0, "b"), STOP, Usage(1), Usage(2)]
    given = taken(history_of(events), Latest())
    assert events_of(given) == [new, TextDelta(0, "b"), STOP, Usage(2)]
    assert [(record.first, record.seq) for record in given] == [(1, 3), (4, 4), (5, 5), (6, 7)]
    assert counts(given, Latest()) == (4, 0, 3)


def test_latest_separates_the_records_of_nested_runs() -> None:
    history = History()
    paths = [(), ("call_1",), (), ("call_1",), ("call_2",)]
    for n, path in enumerate(paths, start=1):
        history.extend([Record(n, "r", 1, 1, 0.0, TextDelta(0, str(n)), path)])
    assert [record.seq for record in taken(history, Latest())] == [3, 4, 5]


def test_gaps_of_drop_oldest_have_exactly_the_missing_numbers() -> None:
    a = TextDelta(0, "a")
    history = history_of([a, START, a, a, Ping(), STOP, a, a, a], packed=4)
    given = taken(history, DropOldest(limit=2))
    assert events_of(given) == [Gap(1, 1), START, Gap(3, 5), STOP, Gap(7, 7), a, a]
    assert counts(given, DropOldest()) == (4, 0, 5)
    behind = taken(history, DropOldest(limit=2), after=3)
    assert events_of(behind) == [Gap(4, 5), STOP, Gap(7, 7), a, a]


def test_drop_oldest_drops_nothing_if_the_watcher_keeps_up() -> None:
    events: list[Event] = [TextDelta(0, "a"), STOP, Ping()]
    assert events_of(taken(history_of(events), DropOldest(limit=3))) == events


@given(STORIES, st.integers(0, 30), st.integers(1, 9))
def test_gaps_are_as_long_as_possible_and_the_newest_records_are_delivered(
    events: list[Event], packed: int, limit: int
) -> None:
    given = taken(history_of(events, packed), DropOldest(limit))
    gaps = [record for record in given if isinstance(record.event, Gap)]
    assert [(gap.first, gap.seq) for gap in gaps] == [
        (gap.event.first, gap.event.last) for gap in gaps if isinstance(gap.event, Gap)
    ]
    after_one = [place for place, record in enumerate(given) if isinstance(record.event, Gap)]
    assert all(not isinstance(given[place + 1].event, Gap) for place in after_one)
    newest = events[-limit:]
    assert events_of(given)[len(given) - len(newest) :] == newest


@pytest.mark.parametrize("delivery", DELIVERIES, ids=str)
def test_without_new_records_nothing_is_delivered(delivery: Delivery) -> None:
    history = history_of([START])
    assert take(history, delivery, 1) == take(history, delivery, 99) == []


@pytest.mark.parametrize("limit", [0, -1, "many"])
@pytest.mark.parametrize("make", [Reliable, DropOldest], ids=["reliable", "drop_oldest"])
def test_a_limit_is_a_number_above_0(make: Callable[[int], Delivery], limit: int) -> None:
    with pytest.raises(ConfigurationError, match="a whole number from 1 up"):
        make(limit)


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="a whole number from 1 up"):
        DropOldest(limit=None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="'wait' or 'detach'"):
        Reliable(when_full="drop")  # pyright: ignore[reportArgumentType]
