"""Moments of the past that are folded from copies, held to a fold of all records until then by hand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reactivex
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops

from rxworker.boards import Dashboard, Selection, panel
from rxworker.boards.moments import Moments
from rxworker.boards.stored import LogRecords
from rxworker.events import Record
from rxworker.log import EventLog, MemoryLog
from rxworker.log.format import entries_of
from rxworker.log.values import RunRow
from rxworker.panels import COST, FLEET, RUNS, USAGE
from tests.boards.test_history import AFTER, FEW, LATER, Clock, Reads, as_shown, store, stories
from tests.boards.test_reads import GROUPED
from tests.log.processes import stored_of_all
from tests.whole import IS_WHOLE, one_of

MANY = Dashboard([replace(each, name=f"panel-{at}") for at, each in enumerate([*GROUPED[::3], *FEW.panels])])
BOARDS = {"usage": USAGE, "runs": RUNS, "fleet": FLEET, "cost": COST, "after": AFTER, "later": LATER, "many": MANY}

MANY_RUNS = 30 if IS_WHOLE else 8


def often(patch: pytest.MonkeyPatch) -> None:
    """A turn after each record, a copy in nearly each turn, and the first one tried at once."""
    patch.setattr("rxworker.boards.reader.TURN", 0.0)
    patch.setattr("rxworker.boards.moments.EVERY", 0.0)
    patch.setattr("rxworker.boards.moments.SHARE", 0.0)
    patch.setattr("rxworker.boards.moments.TRIED", 5)


class Checked:
    """Moments of a dashboard, each compared with a fold of all records."""

    def __init__(self, board: Dashboard, log: EventLog, records: list[Record], since: float | None = None) -> None:
        self.moments, self.board, self.records = Moments(board, log, since), board, records

    async def at(self, time: float) -> None:
        shown = as_shown(await self.moments.at(time))
        assert shown == as_shown(self.board.at(self.records, time)), (self.board.title, time)


@pytest.mark.product(4)
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize(
    "selection", [Selection(), Selection(tool="look", status="finished"), Selection(since=1e6 - 400)]
)
async def test_moments_are_those_of_all_records(
    name: str, selection: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    often(monkeypatch)
    board, clock, chance = replace(BOARDS[name], selection=selection), Clock(), random.Random(name)
    async with MemoryLog(clock=lambda: clock.now) as log:
        records = await store(log, clock, stories(3, 600.0, 1e6, MANY_RUNS))
        first, last = min(each.time for each in records), max(each.time for each in records)
        checked = Checked(board, log, records)
        times = [
            chance.uniform(first - 1, last + 99),
            *[chance.choice(records).time for _ in range(9 if IS_WHOLE else 2)],
        ]
        for time in (last, *times):
            await checked.at(time)
        copies = checked.moments._copies  # pyright: ignore[reportPrivateUsage]
        assert len(copies) > 10
        for kept in copies[:: 1 + len(copies) // 300]:  # no timer has run after the last record
            assert kept.copy.fold().clock.seconds <= kept.place.taken[0] + 1e-6
        fewer = Reads(monkeypatch)
        await checked.at(last)
        assert len(fewer.runs) < 20


async def append(log: EventLog, clock: Clock, run: str, records: list[Record], status: Any) -> None:
    claim = await log.claim(run, create=records[0].seq == 1)
    clock.now = max([clock.now, *[each.time for each in records]])
    row = RunRow(status, labels={"tenant": "acme"})
    await log.append(claim, entries_of(records, claim.epoch), after=records[0].seq - 1, row=row)
    await log.release(claim)


@pytest.mark.parametrize("board", one_of([RUNS, USAGE, AFTER]), ids=lambda board: board.title)
async def test_moments_after_a_run_was_deleted_has_grown_or_has_come(
    board: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if what comes is older than moments that were shown, and nothing of what is deleted stays."""
    often(monkeypatch)
    clock, chance = Clock(), random.Random(5)
    async with MemoryLog(clock=lambda: clock.now) as log:
        runs = {each[0].run_id: each for each in stories(5, 600.0, 1e6, MANY_RUNS)}
        growing = sorted(chance.sample([*runs], 6))
        for records in sorted(runs.values(), key=lambda records: records[0].time):
            part = records[:9] if records[0].run_id in growing else records
            clock.now = part[0].time
            await append(log, clock, part[0].run_id, part, "running" if part is not records else "finished")
        checked = Checked(board, log, await stored_of_all(log))
        last = max(each.time for each in checked.records)
        times = [chance.uniform(1e6 - 600, last) for _ in range(5 if IS_WHOLE else 2)]
        for step in range(8 if IS_WHOLE else 4):
            for time in (last, *times):
                await checked.at(time)
            if step % 2:
                gone = chance.choice([run for run in runs if run not in growing])
                await log.delete(gone)
                del runs[gone]
            elif growing:
                run = growing.pop()
                await append(log, clock, run, runs[run][9:], "finished")
            checked.records = await stored_of_all(log)
        late = [replace(each, run_id="late", time=each.time - 200.0) for each in runs[min(runs)]]
        clock.now = late[0].time
        await append(log, clock, "late", late, "finished")
        checked.records = await stored_of_all(log)
        for time in (*times, last):
            await checked.at(time)


class Forgetful:
    """A state of an operator of the program that a copy does not have."""

    def __init__(self) -> None:
        self.number = 0

    def __getstate__(self) -> object:
        return {"number": 0}

    def step(self, _: Record) -> int:
        self.number += 1
        return self.number


def numbers() -> Iterator[int]:
    """A state that cannot be copied."""
    number = 0
    while True:
        number += 1
        yield number


def from_an_object(records: Observable[Record]) -> Observable[int]:
    return reactivex.defer(lambda _: records.pipe(ops.map(Forgetful().step)))


def with_a_table(records: Observable[Record]) -> Observable[int]:
    table = bytearray(20_000_000)

    def step(number: int, _: Record) -> int:
        return number + 1 + table[0]

    return records.pipe(ops.scan(step, 0))


def from_a_generator(records: Observable[Record]) -> Observable[int]:
    def counted(_: Any) -> Observable[int]:
        each = numbers()
        return records.pipe(ops.map(lambda _: next(each)))

    return reactivex.defer(counted)


@pytest.mark.parametrize("operator", [from_a_generator, from_an_object, with_a_table])
async def test_what_cannot_be_copied_is_folded_from_the_begin(
    operator: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    often(monkeypatch)
    clock = Clock()
    async with MemoryLog(clock=lambda: clock.now) as log:
        records = await store(log, clock, stories(3, 600.0, 1e6, MANY_RUNS))
        last = max(each.time for each in records)
        moments = Moments(Dashboard([panel("Own", operator)]), log)
        for time in (last, last - 100):
            [own] = await moments.at(time)
            assert own.value == sum(each.time <= time for each in records)
        assert moments._copies == []  # pyright: ignore[reportPrivateUsage]


async def test_a_board_that_is_opened_leaves_copies_and_is_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    often(monkeypatch)
    clock = Clock()
    async with MemoryLog(clock=lambda: clock.now) as log:
        records = await store(log, clock, stories(3, 600.0, 1e6, MANY_RUNS))
        last = max(each.time for each in records)
        checked, read = Checked(USAGE, log, records), asyncio.Event()
        shown = USAGE.show(LogRecords(log, None, USAGE.selection, read.set, checked.moments), every=0)
        async with asyncio.timeout(60):
            await read.wait()
        assert as_shown(shown.states) == as_shown(USAGE.at(records, shown.fold.clock.seconds))
        reads = Reads(monkeypatch)
        for time in (last, last - 60, last - 300):
            await checked.at(time)
        assert len(reads.runs) < 60
        shown.dispose()
