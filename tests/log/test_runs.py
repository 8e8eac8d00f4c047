"""The runs of a log as one observable: nothing is missing, and nothing comes twice."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker, tool, worker_tool
from rxworker.errors import LogError
from rxworker.events import Event, Fork, Record, RunAbort, RunRecover, RunStop, TextDelta, TurnStart
from rxworker.log import Claim, EventLog, MemoryLog, SQLiteLog, StoredRun, fork_run
from rxworker.log.fold import AT_ONCE
from rxworker.log.format import entries_of
from rxworker.log.values import RunRow, StoredStatus
from rxworker.operators import merge_runs
from rxworker.testing import ScriptedModel, call, say
from tests.log.conftest import OpenLog, until
from tests.log.test_conformance import START
from tests.whole import IS_WHOLE

ENDS: list[tuple[StoredStatus, Event]] = [
    ("finished", RunStop()),
    ("aborted", RunAbort("cancel", "lost")),
    ("paused", TurnStart()),
]


async def append(log: EventLog, claim: Claim, after: int, events: Sequence[Event], row: RunRow | None = None) -> int:
    """Append to a run. Returns its last number."""
    records = [Record(seq, claim.run_id, 1, 1, 0.0, event) for seq, event in enumerate(events, after + 1)]
    await log.append(claim, entries_of(records, claim.epoch), after=after, row=row)
    return after + len(events)


async def store(log: EventLog, run_id: str, *events: Event, status: StoredStatus = "finished", **row: Any) -> None:
    """Store a run that no process has."""
    claim = await log.claim(run_id, create=True, row=RunRow(**row))
    await append(log, claim, 0, [START, *events], RunRow(status, **row))
    await log.release(claim)


class Reader:
    """What a subscription to all runs has received.

    The numbers of each run, and that none was missing or came twice.
    """

    def __init__(self, log: EventLog) -> None:
        self.last: Counter[str] = Counter()
        self.faults: list[str] = []
        self.failed: list[Exception] = []
        self.subscription = merge_runs(log.runs(), self.failed.append).subscribe(self._take, self.failed.append)

    def _take(self, record: Record) -> None:
        if record.first != self.last[record.run_id] + 1:
            self.faults.append(f"{record.run_id}: {record.first} after {self.last[record.run_id]}")
        self.last[record.run_id] = record.seq

    def has(self, lasts: dict[str, int]) -> bool:
        return all(self.last[run] == last for run, last in lasts.items())


class Writer:
    """Does to runs what can be done to them, in any order."""

    def __init__(self, log: EventLog, chance: random.Random) -> None:
        self.log = log
        self.chance = chance
        self.held: dict[str, Claim] = {}
        self.last: dict[str, int] = {}
        self.status: dict[str, StoredStatus] = {}
        self.begun = 0

    def some(self, *statuses: StoredStatus) -> str | None:
        runs = [run for run, status in self.status.items() if status in statuses]
        return self.chance.choice(runs) if runs else None

    async def begin(self) -> None:
        run, self.begun = f"run-{self.begun}", self.begun + 1
        claim = self.held[run] = await self.log.claim(run, create=True)
        self.last[run] = await append(self.log, claim, 0, [START], RunRow("running"))
        self.status[run] = "running"

    async def go_on(self) -> None:
        if run := self.some("running"):
            events: list[Event] = [TextDelta(0, "word "), TextDelta(0, "word"), TurnStart()]
            some = self.chance.choices(events, k=self.chance.randint(1, 7))
            self.last[run] = await append(self.log, self.held[run], self.last[run], some)

    async def end(self) -> None:
        if run := self.some("running"):
            status, event = self.chance.choice(ENDS)
            claim = self.held.pop(run)
            self.last[run] = await append(self.log, claim, self.last[run], [event], RunRow(status))
            await self.log.release(claim)
            self.status[run] = status

    async def recover(self) -> None:
        """Its process has died: another one goes on with it."""
        run = self.some("queued", "running")
        if run is None:
            return
        if run in self.held:
            await self.log.release(self.held[run])
        claim = self.held[run] = await self.log.claim(run)
        recovered = RunRecover(claim.epoch, "", "")
        self.last[run] = await append(self.log, claim, claim.last_seq, [recovered], RunRow("running"))
        self.status[run] = "running"

    async def requeue(self) -> None:
        if run := self.some("aborted"):
            await self.log.requeue(run)
            self.last[run] += 1
            self.status[run] = "queued"

    async def requeue_at_once(self) -> None:
        """It ends and begins again before anybody has seen that it ended."""
        if run := self.some("running"):
            claim = self.held.pop(run)
            self.last[run] = await append(self.log, claim, self.last[run], [ENDS[1][1]], RunRow("aborted"))
            await self.log.release(claim)
            self.status[run] = "aborted"
            await self.log.requeue(run)
            self.last[run] += 1
            self.status[run] = "queued"

    async def delete(self) -> None:
        if run := self.some("finished", "aborted", "paused"):
            await self.log.delete(run)
            self.status[run] = "deleted"

    async def act(self) -> None:
        verbs = [self.begin, self.go_on, self.end, self.recover, self.requeue]
        verbs += [self.requeue_at_once, self.delete]
        await self.chance.choices(verbs, [4, 8, 4, 2, 3, 1, 1])[0]()

    @property
    def expected(self) -> dict[str, int]:
        return {run: self.last[run] for run, status in self.status.items() if status != "deleted"}


async def check_readers(log: EventLog, logs: Sequence[EventLog], chance: random.Random, steps: int) -> None:
    """Write, while readers begin at any moment."""
    writer, readers = Writer(log, chance), list[Reader]()
    for _ in range(steps):
        await writer.act()
        if chance.random() < 0.1:
            readers.append(Reader(chance.choice(logs)))
        if chance.random() < 0.3:
            await asyncio.sleep(0)
    readers += [Reader(each) for each in logs]
    await until(lambda: all(reader.has(writer.expected) for reader in readers))
    for reader in readers:
        reader.subscription.dispose()
        assert (reader.faults, reader.failed) == ([], [])


@pytest.mark.parametrize("seed", range(2 if IS_WHOLE else 1))
async def test_every_record_comes_once_to_each_reader(open_store: OpenLog, seed: int) -> None:
    async with open_store() as log, open_store() as other:
        is_alone = isinstance(log, MemoryLog)
        await check_readers(log, [log] if is_alone else [log, other], random.Random(seed), 60)


async def test_every_record_comes_once_in_many_orders() -> None:
    for seed in range(20 if IS_WHOLE else 6):
        async with MemoryLog() as log:
            await check_readers(log, [log], random.Random(seed), 80)


async def test_the_runs_of_another_process_come_once(tmp_path: Path) -> None:
    code = """
import asyncio, random, sys
from rxworker.log import open_log
from tests.log.test_runs import Writer

async def main():
    async with open_log(sys.argv[1]) as log:
        writer = Writer(log, random.Random(7))
        for _ in range(60):
            await writer.act()
        print(writer.expected)

asyncio.run(main())
"""
    path = tmp_path / "runs.db"
    async with SQLiteLog(path) as log:
        first = Reader(log)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, f"sqlite:{path}", stdout=asyncio.subprocess.PIPE
        )
        await until(lambda: first.last)
        second = Reader(log)
        out, _ = await process.communicate()
        expected: dict[str, int] = eval(out)
        await until(lambda: first.has(expected) and second.has(expected))
        assert (first.faults, second.faults) == ([], [])


def ids(runs: Observable[StoredRun]) -> list[str]:
    found: list[str] = []
    runs.subscribe(lambda run: found.append(run.id))
    return found


async def test_stored_runs_come_oldest_first_and_what_goes_on_before_them(open_store: OpenLog) -> None:
    async with open_store() as log:
        for n in range(3):
            await store(log, f"old-{n}")
        await store(log, "queued", status="queued")
        await store(log, "old-3", status="paused")
        found = ids(log.runs())
        await until(lambda: len(found) == 5)
        await store(log, "new")
        await until(lambda: len(found) > 5)
        assert found == ["queued", "old-0", "old-1", "old-2", "old-3", "new"]


async def test_pages_of_stored_runs_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.log.fold.PAGE", 3)
    for count in range(8):
        async with MemoryLog() as log:
            for n in range(count):
                await store(log, f"run-{n}")
            found = ids(log.runs())
            await until(lambda found=found, count=count: len(found) == count)
            assert found == [f"run-{n}" for n in range(count)]


async def test_runs_that_begin_and_go_while_the_list_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages move between the two times that they are read."""
    monkeypatch.setattr("rxworker.log.fold.PAGE", 3)
    async with MemoryLog() as log:
        for n in range(12):
            await store(log, f"run-{n}")
        found: list[str] = []

        def on_next(run: StoredRun) -> None:
            if not found:
                changing.append(asyncio.create_task(change()))
            found.append(run.id)

        async def change() -> None:
            for n in range(4):
                await store(log, f"new-{n}")
            await log.delete("run-5")

        changing: list[asyncio.Task[None]] = []
        log.runs().subscribe(on_next)
        await until(lambda: len({*found} - {"run-5"}) == 15)
        assert len(found) == len({*found})
        assert [run for run in found if run.startswith("run-") and run != "run-5"] == [
            f"run-{n}" for n in range(12) if n != 5
        ]


async def test_only_wanted_runs_come_and_each_as_soon_as_it_is_wanted(log: MemoryLog) -> None:
    await store(log, "cheap", cost=0.1)
    await store(log, "dear", cost=2.0)
    found = ids(log.runs(where=lambda info: (info.row.cost or 0) > 1))
    claim = await log.claim("grows", create=True, row=RunRow(cost=0.5))
    last = await append(log, claim, 0, [START], RunRow(cost=0.5))
    await until(lambda: found == ["dear"])
    await append(log, claim, last, [TurnStart()], RunRow(cost=1.5))
    await until(lambda: found == ["dear", "grows"])
    assert (await log.info("cheap")) is not None


async def test_runs_since_a_time() -> None:
    now = 100.0
    async with MemoryLog(clock=lambda: now) as log:
        for now in (100.0, 200.0, 300.0):
            await store(log, f"run-{now:.0f}")
        found = ids(log.runs(since=200.0))
        now = 400.0
        await store(log, "run-400")
        await until(lambda: len(found) == 3)
        assert found == ["run-200", "run-300", "run-400"]


async def test_a_run_that_is_put_back_comes_again_with_what_follows(log: MemoryLog) -> None:
    await store(log, "run-1", RunAbort("cancel", "lost"), status="aborted")
    numbers: dict[int, list[int]] = defaultdict(list)

    def on_next(run: StoredRun) -> None:
        own = numbers[len(numbers)]
        run.records.subscribe(lambda record: own.append(record.seq))

    log.runs().subscribe(on_next)
    await until(lambda: numbers[0] == [1, 2] if numbers else False)
    await log.requeue("run-1")
    await until(lambda: len(numbers) == 2 and numbers[1] == [3])
    assert numbers[0] == [1, 2]


async def test_records_after_a_number_and_of_several_subscribers(log: MemoryLog) -> None:
    await store(log, "run-1", *[TurnStart()] * 5)
    run = await log.runs().pipe(ops.first())
    assert (run.id, run.info.last_seq, run.log) == ("run-1", 6, log)
    assert repr(run) == "StoredRun('run-1', finished)"
    for after in range(7):
        seqs = await run.records_after(after).pipe(ops.map(_seq), ops.to_list())
        assert seqs == [*range(after + 1, 7)]
    assert await run.records.pipe(ops.count()) == 6


def _seq(record: Record) -> int:
    return record.seq


async def test_a_run_that_was_deleted_completes(log: MemoryLog) -> None:
    await store(log, "run-1")
    run = await log.runs().pipe(ops.first())
    await log.delete("run-1")
    assert await run.records.pipe(ops.count()) == 0


async def test_nothing_of_nested_runs_and_forks_counts_twice(log: MemoryLog) -> None:
    def answers(records: Sequence[Record]) -> int:
        return sum(isinstance(record.event, RunStop) for record in records)

    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    scout = Worker(ScriptedModel([say("Nothing.")]), tools=[look], name="scout")
    send = worker_tool(scout, name="send_scout", description="Look.")
    model = ScriptedModel([call("send_scout", task="Look."), say("Nothing."), say("Again.")])
    worker = Worker(model, tools=[send], log=log)
    run = worker.run("?")
    await run
    fork = await fork_run(log, run.id, run.last_seq - 1)
    await worker.recover(fork)
    assert len(await log.list()) == 3  # the nested one as well
    found: list[Record] = []
    runs = ids(log.runs())
    merge_runs(log.runs()).subscribe(found.append)
    infos = {info.run_id: info.last_seq for info in await log.list()}
    seen = Counter[str]()

    def is_whole() -> bool:
        seen.update(record.run_id for record in found[seen.total() :])
        lasts = {record.run_id: record.seq for record in found}
        return lasts == {each: infos[each] for each in (run.id, fork)}

    await until(is_whole)
    assert sorted(runs) == sorted([run.id, fork])
    of_fork = [record for record in found if record.run_id == fork]
    assert isinstance(of_fork[0].event, Fork)
    assert of_fork[0].seq == run.last_seq
    assert seen[run.id] == run.last_seq
    whole = [each async for each in log.read(fork)]
    assert whole[0].first == 1
    [again] = [each for each in await _all(log) if each.id == fork]
    assert await again.records_after(0).pipe(ops.map(_seq), ops.first()) == 1
    assert answers([record for record in found if record.path]) == 1


async def _all(log: EventLog) -> list[StoredRun]:
    count = len([info for info in await log.list() if not info.row.outer])
    return await log.runs().pipe(ops.take(count), ops.to_list())


async def test_a_few_stored_runs_are_read_at_once_and_live_ones_do_not_wait() -> None:
    async with MemoryLog() as log:
        for n in range(100):
            await store(log, f"run-{n}")
        held: Any = log
        read, waiting, most, gate = held._read, 0, 0, asyncio.Event()

        async def slowly(run_id: str, after: int, limit: int) -> object:
            nonlocal waiting, most
            if run_id.startswith("run-"):
                waiting += 1
                most = max(most, waiting)
                await gate.wait()
                waiting -= 1
            return await read(run_id, after, limit)

        held._read = slowly
        tasks = len(asyncio.all_tasks())
        reader = Reader(log)
        await until(lambda: waiting == AT_ONCE)
        await store(log, "live")
        await until(lambda: reader.last["live"])
        assert not reader.last["run-0"]
        assert len(asyncio.all_tasks()) - tasks <= AT_ONCE + 3
        gate.set()
        await until(lambda: len(reader.last) == 101)
        assert (most, reader.faults) == (AT_ONCE, [])


async def test_the_runs_end_with_the_log_and_with_an_error_of_the_caller() -> None:
    ended: list[object] = []
    async with MemoryLog() as log:
        await store(log, "run-1")
        log.runs().subscribe(on_completed=lambda: ended.append("completed"))
        log.runs(where=lambda info: 1 / 0 > 0).subscribe(on_error=ended.append)
        await until(lambda: ended)
    await until(lambda: len(ended) == 2)
    assert isinstance(ended[0], ZeroDivisionError)
    assert ended[1] == "completed"


async def test_an_observer_that_raises_ends_its_subscription_alone(log: MemoryLog) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    await store(log, "run-1")

    def on_next(run: StoredRun) -> None:
        raise ZeroDivisionError(run.id)

    log.runs().subscribe(on_next)
    other = ids(log.runs())
    await until(lambda: reported)
    await store(log, "run-2")
    await until(lambda: len(other) == 2)
    assert [str(each["exception"]) for each in reported] == ["run-1"]


async def test_a_run_that_cannot_be_read_does_not_hide_the_others(log: MemoryLog) -> None:
    for n in range(3):
        await store(log, f"run-{n}")
    held: Any = log
    entries = held._entries["run-1"]
    entries[0] = replace(entries[0], body=b"{}")
    reader = Reader(log)
    await until(lambda: reader.last["run-2"] and reader.failed)
    assert isinstance(reader.failed[0], LogError)


async def test_a_run_that_is_put_back_while_its_reader_finds_its_end_has_no_gap(log: MemoryLog) -> None:
    claim = await log.claim("run-1", create=True)
    last = await append(log, claim, 0, [START])
    seen: list[Record] = []
    runs: list[Any] = []
    log.runs().subscribe(runs.append)
    merge_runs(log.runs().pipe(ops.do_action(runs.append))).subscribe(seen.append)
    await until(lambda: len(seen) == 1 and len(runs) == 2)
    held: Any = log
    listed = held.listed

    async def slowly(run_id: str) -> object:
        found = await listed(run_id)
        if found.status == "aborted":
            await log.requeue(run_id)
            await until(lambda: runs[1]._part.newest == last + 2)
        return found

    held.listed = slowly
    await append(log, claim, last, [RunAbort("cancel", "lost")], RunRow("aborted"))
    await log.release(claim)
    await until(lambda: [each.seq for each in seen] == [1, 2, 3])
