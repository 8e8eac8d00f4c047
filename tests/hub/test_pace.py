"""Watchers with a pace: ``Coalesce(every=...)``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import abc
from reactivex.testing import TestScheduler

from rxworker.errors import ConfigurationError
from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    Opaque,
    PauseState,
    Record,
    RunPause,
    TextDelta,
    ToolProgress,
    Usage,
)
from rxworker.hub import Coalesce, Hub, Latest, Watch
from rxworker.hub.hub import Reader as Reading

STOP = BlockStop(0, BlockType.TEXT)


class Table:
    """A hub whose time is virtual.

    Attributes:
        received: What a watcher received, with the time.
    """

    def __init__(self) -> None:
        self.time = TestScheduler()
        self.hub = Hub(defer=self._defer, scheduler=self.time)
        self.received: list[tuple[float, str]] = []
        self._seq = 0

    def _defer(self, call: Callable[[], None]) -> None:
        def act(_: abc.SchedulerBase, __: object = None) -> None:
            call()

        self.time.schedule(act)

    def act_at(self, time: float, call: Callable[[], None]) -> None:
        def act(_: abc.SchedulerBase, __: object = None) -> None:
            call()

        self.time.schedule_absolute(time, act)

    def at(self, time: float, *events: Event | str) -> None:
        """Push these at that time; a text is a delta."""

        def push() -> None:
            for event in events:
                self._seq += 1
                made = TextDelta(0, event) if isinstance(event, str) else event
                self.hub.push(Record(self._seq, "r", 1, 1, 0.0, made))

        self.act_at(time, push)

    def end_at(self, time: float) -> None:
        self.act_at(time, self.hub.end)

    def subscribe(self, watch: Watch, received: list[tuple[float, str]] | None = None) -> None:
        kept = self.received if received is None else received

        def note(record: Record) -> None:
            event = record.event
            text = event.text if isinstance(event, TextDelta) else type(event).__name__
            kept.append((self.time.clock, text))

        watch.subscribe(note, on_completed=lambda: kept.append((self.time.clock, "|")))


def subscribe(*, every: float = 10.0) -> Table:
    table = Table()
    table.subscribe(table.hub.watch(Coalesce(every=every)))
    return table


END = "end"
BARRIERS = [STOP, BlockStart(1, BlockType.TEXT), RunPause(PauseState("ask", (), ()))]
PASSING = [ToolProgress("c", 1), Usage(1, 2), Opaque("x")]


def name_of(event: Event | str) -> str:
    return event if isinstance(event, str) else type(event).__name__


@pytest.mark.parametrize(
    ("pushed", "received"),
    [
        # The first delta is delivered at once, and the others at the pace.
        ([(4 * n, text) for n, text in enumerate("abcdefgh", 1)], [(4, "a"), (14, "bc"), (24, "def"), (34, "gh")]),
        # So is one after a pause.
        ([(5, "a"), (100, "b")], [(5, "a"), (100, "b")]),
        # Events that begin or end something are delivered at once with the deltas before them,
        *(
            ([(5, "a"), (7, "b"), (8, "c"), (8, each), (9, "d")], [(5, "a"), (8, "bc"), (8, name_of(each)), (15, "d")])
            for each in BARRIERS
        ),
        # and so is the end.
        ([(5, "a"), (6, "b"), (7, END)], [(5, "a"), (7, "b"), (7, "|")]),
        # Passing events wait like deltas.
        *(([(5, "a"), (7, each)], [(5, "a"), (15, name_of(each))]) for each in PASSING),
    ],
)
def test_what_is_delivered_when(pushed: list[tuple[float, Event | str]], received: list[tuple[int, str]]) -> None:
    table = subscribe()
    for time, event in pushed:
        if event == END:
            table.end_at(time)
        else:
            table.at(time, event)
    table.time.start()
    assert [(round(time), text) for time, text in table.received] == received


def test_a_late_watcher_receives_everything_so_far_at_once_and_then_keeps_the_pace() -> None:
    table = subscribe()
    late: list[tuple[float, str]] = []
    table.at(5, "a")
    table.at(7, "b")
    watch = table.hub.watch(Coalesce(every=10.0))
    table.act_at(8, lambda: table.subscribe(watch, late))
    table.at(9, "c")
    table.time.start()
    assert [(round(time), text) for time, text in late] == [(8, "ab"), (15, "c")]
    assert "".join(text for _, text in table.received) == "abc"


def test_paces_are_independent() -> None:
    table = subscribe()
    fast: list[tuple[float, str]] = []
    free: list[tuple[float, str]] = []
    table.subscribe(table.hub.watch(Coalesce(every=2.0)), fast)
    table.subscribe(table.hub.watch(), free)
    for time in range(1, 21):
        table.at(time, "x")
    table.time.start()
    assert [len(received) for received in (table.received, fast, free)] == [3, 11, 20]


@given(st.lists(st.sampled_from(["a", "bc", STOP, Usage(1)]), max_size=40), st.integers(1, 9))
def test_nothing_is_lost_whatever_the_pace(events: list[Event | str], step: int) -> None:
    table = Table()
    given: list[Record] = []
    table.hub.watch(Coalesce(every=5.0)).subscribe(given.append)
    for place, event in enumerate(events):
        table.at(step * place, event)
    table.end_at(step * len(events))
    table.time.start()
    places = [0, *(record.seq for record in given)]
    assert [record.first - 1 for record in given] == places[:-1]
    assert places[-1] == len(events)


@pytest.mark.parametrize("delivery", [Coalesce, Latest])
@pytest.mark.parametrize("every", [0, -1.0, float("nan"), float("inf"), "1", 86401])
def test_a_pace_is_a_number_of_seconds(delivery: type[Coalesce | Latest], every: float) -> None:
    with pytest.raises(ConfigurationError, match=rf"{delivery.__name__}\(every\)"):
        delivery(every=every)


async def test_readers_are_woken_at_the_pace_and_share_the_records() -> None:
    table = Table()
    hub = Hub(scheduler=table.time)
    batches: list[list[list[tuple[int, int]]]] = [[], []]

    async def read(into: list[list[tuple[int, int]]]) -> None:
        async for batch in hub.watch(Coalesce(every=10.0)).batches():
            into.append([(record.first, record.seq) for record in batch])

    async def turns() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    readers = [asyncio.ensure_future(read(into)) for into in batches]
    await turns()
    for seq in range(1, 101):
        hub.push(Record(seq, "r", 1, 1, 0.0, TextDelta(0, "x")))
        await turns()
        table.time.advance_by(1.0)
        await turns()
    hub.end()
    await asyncio.gather(*readers)
    assert batches[0] == batches[1]
    assert batches[0][:3] == [[(1, 1)], [(2, 10)], [(11, 20)]]
    assert len(batches[0]) == 11


async def test_a_reader_in_another_thread_keeps_the_pace_and_gets_the_end() -> None:
    hub = Hub()
    watch = hub.watch(Coalesce(every=3600.0))
    has_come = asyncio.Event()
    hub.add_callback(has_come.set)
    reading = asyncio.ensure_future(asyncio.to_thread(list[Record], watch))
    await has_come.wait()
    for seq in range(1, 11):
        hub.push(Record(seq, "r", 1, 1, 0.0, TextDelta(0, "x")))
        await asyncio.sleep(0)
    hub.end()
    records = await reading
    assert "".join(r.event.text for r in records if isinstance(r.event, TextDelta)) == "x" * 10
    assert len(records) <= 2


def test_a_reader_receives_the_rest_after_the_event_loop_is_closed() -> None:
    def record(seq: int) -> Record:
        return Record(seq, "r", 1, 1, 0.0, TextDelta(0, "x"))

    async def begin() -> Reading:
        hub = Hub()
        reading = Reading(hub, Coalesce(every=3600.0), 0, "reader")
        hub.push(record(1))
        assert await reading.next() == [record(1)]
        await asyncio.sleep(0)  # the flush that closes the pace
        await asyncio.sleep(0)
        hub.push(record(2))
        assert reading.now() == []
        return reading

    assert asyncio.run(begin()).wait() == [record(2)]
