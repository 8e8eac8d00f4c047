"""What watchers cost: each by the event, one that comes late by the text, and a slow one nothing. Work is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rxworker.events import AttemptStart, BlockStart, BlockType, Record, TextDelta, TurnStart
from rxworker.hub import Coalesce, Hub
from rxworker.state import RunState
from rxworker.turn.journal import Journal

Task = Callable[[], object]
WorkOf = Callable[[Task], int]


def record(n: int) -> Record:
    return Record(n, "r", 1, 1, 0.0, TextDelta(0, "word"))


def turns(watchers: int) -> Task:
    """Some records, one each turn, before so many watchers at rest."""

    def note(_: Record) -> None:
        """What a watcher does here."""

    async def go() -> None:
        hub = Hub()
        for _ in range(watchers):
            hub.watch(Coalesce()).subscribe(note)
        await asyncio.sleep(0)
        for n in range(1, 101):
            hub.push(record(n))
            await asyncio.sleep(0)

    return lambda: asyncio.run(go())


def bare(watchers: int) -> Task:
    """The same before a list of callbacks."""

    def note(_: Record) -> None:
        """What a callback does here."""

    async def go() -> None:
        callbacks = [note for _ in range(watchers)]

        def call_all(shown: Record) -> None:
            for callback in callbacks:
                callback(shown)

        loop = asyncio.get_running_loop()
        for n in range(1, 101):
            loop.call_soon(call_all, record(n))
            await asyncio.sleep(0)

    return lambda: asyncio.run(go())


def test_a_watcher_more_is_one_and_a_half_times_the_work_of_a_callback_more(work_of: WorkOf) -> None:
    turns(2)()
    # The least of some: where the machine is slow, a time comes at which what was merged is sent.
    least = [min(work_of(task) for _ in range(3)) for task in (turns(300), turns(100), bare(300), bare(100))]
    more, reference = least[0] - least[1], least[2] - least[3]
    assert more <= 1.5 * reference


def journal_of(events: int, text: str) -> Journal:
    """A run whose answer has come in so many pieces."""
    journal = Journal("r", lambda: 0.0)
    for event in (TurnStart(), AttemptStart("p", "m"), BlockStart(0, BlockType.TEXT)):
        journal.emit(event)
    for _ in range(events):
        journal.emit(TextDelta(0, text))
    return journal


def state_of(journal: Journal) -> RunState:
    journal.hub.history.merged(0)
    return journal.state


def test_a_snapshot_is_work_by_the_text_and_not_by_the_events(work_of: WorkOf) -> None:
    """A hundred times the events of the same text."""
    many, few = journal_of(20_000, "word"), journal_of(200, "word" * 100)
    state_of(journal_of(10, "word"))
    work_of_many, work_of_few = work_of(lambda: state_of(many)), work_of(lambda: state_of(few))
    assert many.state.response == few.state.response
    assert work_of_many < 2 * work_of_few


def test_a_slow_reader_holds_nothing_and_delays_no_other() -> None:
    """A hundred thousand records lie between two steps of it, and it takes the second step at once."""

    async def go() -> None:
        hub = Hub()
        seen: list[int] = []
        hub.watch(Coalesce()).subscribe(lambda shown: seen.append(shown.covers))
        slow = hub.watch(Coalesce()).batches()
        hub.push(record(1))
        await anext(slow)
        for n in range(2, 100_002):
            hub.push(record(n))
            if n % 10 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sum(seen) == 100_001
        assert len(seen) > 10_000
        [rest] = await anext(slow)
        assert rest.covers == 100_000
        await slow.aclose()

    asyncio.run(go())
