"""What a board over a log shows while it reads, and what it reads, held to a fold of all records by hand."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
import reactivex
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops

from rxworker.boards import Dashboard, PanelState, Selection, fold_log, panel
from rxworker.boards.stored import LogRecords
from rxworker.events import Event, Record, RunStart, RunStop, TextDelta, ToolStart, TurnStart
from rxworker.log import EventLog, MemoryLog
from rxworker.log.fold import StoredRun
from rxworker.log.format import entries_of, record_of
from rxworker.log.values import RunRow
from rxworker.messages import Conversation, Message, ToolCall
from rxworker.operators import records_of
from rxworker.panels import COST, FLEET, RUNS, USAGE, count, label_of, run_of
from tests.boards.test_reads import OWN
from tests.boards.test_ready_panels import RECORDS
from tests.log.processes import stored_of_all
from tests.whole import IS_WHOLE

HOUR, DAY = 3600.0, 86400.0
START = RunStart(Conversation((Message.user("Hi"),)), labels={"tenant": "acme"})
LOOK = ToolStart(ToolCall("c", "look", {}))
SPAN: list[Event] = [TextDelta(0, text) for text in ("An ", "old ", "pond, ", "a ", "frog.")]
STORY: list[Event] = [START, TurnStart(), *SPAN, LOOK, *SPAN, LOOK, TurnStart(), *SPAN, *SPAN, RunStop()]


def texts_after_a_tool(records: Observable[Record]) -> Observable[int]:
    """It subscribes to the texts when a record comes."""

    def texts(_: Record) -> Observable[int]:
        return records.pipe(count(TextDelta))

    return records.pipe(records_of(ToolStart), ops.skip(9), ops.take(1), ops.flat_map(texts))


def texts_later(records: Observable[Record]) -> Observable[int]:
    """It subscribes to the texts when a timer runs."""
    texts = records.pipe(count(TextDelta), ops.delay_subscription(100.0))
    return reactivex.merge(records.pipe(count(RunStart)), texts)


AFTER = Dashboard([panel("Texts after a tool", texts_after_a_tool), panel("Calls", count(ToolStart))])
LATER = Dashboard([panel("Texts later", texts_later), panel("Calls", count(ToolStart))])


class Clock:
    """The time of a log."""

    now = 0.0


def stories(seed: int, seconds: float, end: float, runs: int = 30) -> Iterator[list[Record]]:
    """The records of runs that overlap, in so many seconds before a time."""
    chance = random.Random(seed)
    for number in range(runs):
        at, found = end - chance.uniform(0, seconds), list[Record]()
        for seq, event in enumerate(STORY, 1):
            at = round(at + chance.choice([0.001, 0.05, 1.5, 40.0]), 3)
            found.append(Record(seq, f"run-{number}", 1, 1, at, event))
        yield found
    by_run: dict[str, list[Record]] = {}
    for each in RECORDS:
        by_run.setdefault(each.run_id, []).append(each)
    for records in by_run.values():
        shift = end - chance.uniform(0, seconds) - records[0].time
        yield [replace(each, time=round(each.time + shift, 3)) for each in records]


async def store(log: EventLog, clock: Clock, runs: Iterator[list[Record]]) -> list[Record]:
    """Store runs. Returns their records, with the times that the log has."""
    for records in sorted(runs, key=lambda records: records[0].time):
        clock.now = records[0].time
        claim = await log.claim(records[0].run_id, create=True)
        clock.now = records[-1].time
        await log.append(claim, entries_of(records, 1), after=0, row=RunRow("finished", labels={"tenant": "acme"}))
        await log.release(claim)
    return await stored_of_all(log)


def as_shown(states: Any) -> list[PanelState]:
    return [replace(each, reading=None, since=None) for each in states]


FEW = Dashboard(
    [
        *OWN,
        panel("Calls", count(ToolStart), view="bar", group=run_of),
        panel("Turns", count(TurnStart), view="line", group=label_of("tenant", "none")),
    ]
)
"""Panels of which no one reads texts at first, and one that subscribes to its tools at a timer."""


@pytest.mark.parametrize("seed", range(3 if IS_WHOLE else 1))
async def test_a_moment_is_what_all_records_until_then_show_though_few_are_decoded(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded, clock, chance = 0, Clock(), random.Random(seed)

    def counted(entry: Any, run_id: str) -> Record:
        nonlocal decoded
        decoded += 1
        return record_of(entry, run_id)

    monkeypatch.setattr("rxworker.boards.reader.record_of", counted)
    async with MemoryLog(clock=lambda: clock.now) as log:
        records = await store(log, clock, stories(seed, 600.0, 1e6))
        first, last = min(each.time for each in records), max(each.time for each in records)
        for board in (AFTER, LATER, FEW, COST, USAGE, RUNS):
            for _ in range(6 if IS_WHOLE else 2):
                moment = chance.choice([*[each.time for each in records[:50]], chance.uniform(first - 1, last + 99)])
                shown = board.at(records, moment)
                assert as_shown(await fold_log(board, log, time=moment)) == as_shown(shown), (board.title, moment)
            some = replace(board, selection=Selection(since=first + 60, until=last - 60))
            assert await fold_log(some, log) == some.at(records, None)
            some = replace(board, selection=Selection(tool="look", status="finished"))
            assert await fold_log(some, log) == some.at(records, None)
        decoded = 0
        await fold_log(Dashboard([panel("Calls", count(ToolStart))]), log)
        stored = 0
        for info in await log.list(limit=1000):
            stored += len([entry async for entry in log.read(info.run_id)])
        assert decoded < 0.9 * stored


class Reads:
    """Counts the pages that are read of each run."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.runs: list[str] = []
        read = EventLog._read_page  # pyright: ignore[reportPrivateUsage]

        async def counted(log: EventLog, run_id: str, after: int) -> Any:
            self.runs.append(run_id)
            return await read(log, run_id, after)

        patch.setattr(EventLog, "_read_page", counted)


@pytest.mark.parametrize("board", [USAGE, RUNS, FLEET, FEW], ids=lambda board: board.title)
async def test_a_board_that_is_opened_shows_the_last_hour_and_then_everything(
    board: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rxworker.boards.reader.TURN", 0.0)
    clock, now = Clock(), time.time()
    async with MemoryLog(clock=lambda: clock.now) as log:
        records = await store(log, clock, stories(7, 6 * HOUR, now - 60))
        reads, read, seen, followed = Reads(monkeypatch), asyncio.Event(), list[PanelState](), list[str]()

        def follow(run: StoredRun, seq: int) -> Observable[Record]:
            followed.append(f"{run.id} {seq}")
            return reactivex.never()

        monkeypatch.setattr(StoredRun, "records_after", follow)
        shown = board.show(LogRecords(log, None, board.selection, read.set), every=0)
        shown.changes.subscribe(seen.append)
        async with asyncio.timeout(30):
            await read.wait()
        recent = {each.panel: each for each in seen if each.since is not None}
        since = next(iter(recent.values())).since
        assert since is not None
        assert since == pytest.approx(now - HOUR, abs=5)
        narrow = replace(board, selection=Selection(since=since))
        for each, expected in zip(board.panels, narrow.at(records, time.time()), strict=True):
            state = recent[each.name]
            assert state.reading is not None
            assert state.value == expected.value, each.name
        assert as_shown(shown.states) == as_shown(board.at(records, shown.fold.clock.seconds))
        for _ in range(50):  # what follows the runs reads no run again
            await asyncio.sleep(0)
        ended = {each.run_id for each in records}
        late = {each.run_id for each in records if each.time >= since}
        assert sorted(reads.runs) == sorted([*ended, *late])
        assert followed == []
        shown.dispose()


async def test_a_day_of_a_month_reads_the_runs_of_that_day(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    async with MemoryLog(clock=lambda: clock.now) as log:
        records = await store(log, clock, stories(9, 30 * DAY, 1e8))
        day = Selection(since=1e8 - 12 * DAY, until=1e8 - 10 * DAY)
        reads, some = Reads(monkeypatch), replace(USAGE, selection=day)
        assert await fold_log(some, log) == some.at(records)
        begun = {each.run_id: each.time for each in records if each.seq == 1}
        read = asyncio.Event()
        shown = some.show(LogRecords(log, None, some.selection, read.set))
        async with asyncio.timeout(30):
            await read.wait()
        assert shown.error is None
        assert as_shown(shown.states) == as_shown(some.at(records))
        shown.dispose()
        assert 0 < len(reads.runs) < 20
        assert all(1e8 - 12 * DAY - HOUR < begun[run] < 1e8 - 10 * DAY for run in reads.runs)
