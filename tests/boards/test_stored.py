"""The records of a log in the order of their times, and then what is appended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from rxworker import Worker, tool
from rxworker.boards import Dashboard, fold_log, log_records, panel
from rxworker.boards.dashboard import Fold
from rxworker.boards.stored import take_stored
from rxworker.errors import LogError
from rxworker.events import Record, RunStart, TextDelta
from rxworker.hub.history import expand
from rxworker.log import EventLog, MemoryLog, RunInfo, SQLiteLog, fork_run
from rxworker.log.format import Entry, record_of
from rxworker.panels import count, run_of
from rxworker.run.run import Run
from rxworker.testing import Reply, ScriptedModel, call, say

BOARD = Dashboard([panel("Begun", count(RunStart)), panel("Deltas", count(TextDelta), view="bar", group=run_of)])


def key(record: Record) -> tuple[str, int]:
    return record.run_id, record.seq


class Reader:
    """Follows a log."""

    def __init__(self, log: EventLog) -> None:
        self.seen: list[Record] = []
        self._more = asyncio.Event()
        self.subscription = log_records(log).subscribe(self._take)

    def _take(self, record: Record) -> None:
        self.seen.append(record)
        self._more.set()

    async def has(self, count: int) -> None:
        """Wait until it has so many records."""
        async with asyncio.timeout(30):
            while len(self.seen) < count:
                self._more.clear()
                await self._more.wait()


async def test_every_record_comes_once_the_stored_ones_in_the_order_of_their_times() -> None:
    go_on = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await go_on.wait()
        return "done"

    def begin(log: EventLog, *replies: Reply | str) -> Run[None]:
        return Worker(ScriptedModel([*replies]), tools=[wait], log=log).run("Hi")

    async with MemoryLog() as log:
        done = [begin(log, "An old pond.") for _ in range(5)]
        await asyncio.gather(*done)
        waiting = begin(log, call("wait"), say("Late."))
        await waiting.barrier()
        before = sorted(await _stored_times(log))
        reader = Reader(log)
        await reader.has(len(before))
        assert [record.time for record in reader.seen[: len(before)]] == before
        later = [begin(log, "A frog.") for _ in range(3)]
        go_on.set()
        await asyncio.gather(waiting, *later)
        expected = {key(record) for run in (*done, waiting, *later) async for record in run}
        await reader.has(len(expected))
        reader.subscription.dispose()
        assert len(reader.seen) == len(expected)
        assert {key(record) for record in reader.seen} == expected


async def _stored_times(log: EventLog) -> list[float]:
    return [
        record.time
        for info in await log.list()
        async for entry in log.read(info.run_id)
        for record in expand(record_of(entry, info.run_id))
    ]


async def test_a_run_that_is_put_back_goes_on_where_it_was(log: MemoryLog) -> None:
    run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
    await run.cancel()
    reader = Reader(log)
    await reader.has(run.last_seq)
    await log.requeue(run.id)
    again = Worker(ScriptedModel(["Hello."]), log=log).recover(run.id)
    await again
    await reader.has(again.last_seq)
    reader.subscription.dispose()
    assert [record.seq for record in reader.seen] == [*range(1, again.last_seq + 1)]


class SlowLog(MemoryLog):  # pyright: ignore[reportGeneralTypeIssues] - in a test
    """A log whose runs are noticed and read no further than their first entry until they may be."""

    def __init__(self) -> None:
        super().__init__()
        self.noticed, self.opened = asyncio.Event(), asyncio.Event()
        self.asked: asyncio.Queue[int] = asyncio.Queue()

    async def changes(self, *, limit: int | None = 100, every: float = 0.25) -> AsyncGenerator[list[RunInfo], None]:
        async with aclosing(super().changes(limit=limit, every=every)) as changes:
            async for infos in changes:
                if infos:
                    await self.noticed.wait()
                yield [now for info in infos if (now := await self.listed(info.run_id))]

    async def pages(
        self, run_id: str, after: int = 0, *, until_end: bool = True, until: int | None = None
    ) -> AsyncGenerator[list[Entry], None]:
        self.asked.put_nowait(after)
        async with aclosing(super().pages(run_id, after, until_end=until_end, until=until)) as pages:
            async for page in pages:
                for entry in page:
                    yield [entry]
                    await self.opened.wait()


async def test_a_run_that_is_put_back_while_it_is_read_comes_once() -> None:
    async with SlowLog() as log:
        reader = Reader(log)
        run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        await run.cancel()
        log.noticed.set()
        await reader.has(1)
        assert log.asked.get_nowait() == 0
        await log.requeue(run.id)
        again = Worker(ScriptedModel(["Hello."]), log=log).recover(run.id)
        await again
        async with asyncio.timeout(30):
            assert await log.asked.get() == run.last_seq
        log.opened.set()
        await reader.has(again.last_seq)
        reader.subscription.dispose()
        assert sorted(record.seq for record in reader.seen) == [*range(1, again.last_seq + 1)]


@pytest.mark.parametrize("which", [0, -1])
async def test_a_run_that_is_deleted_while_records_are_read_ends_and_no_other_one(which: int, log: MemoryLog) -> None:
    runs = [Worker(ScriptedModel(["Hello."]), log=log).run("Hi") for _ in range(3)]
    for run in runs:
        await run
    gone, seen, fold = runs.pop(which), set[tuple[str, int]](), Fold(BOARD)

    def take(record: Record) -> None:
        seen.add(key(record))

    fold.take = take
    reading = asyncio.ensure_future(take_stored(fold, log, None, None))
    while not seen:  # noqa: ASYNC110 - a record is taken in the middle of a turn
        await asyncio.sleep(0)
    await log.delete(gone.id)
    await reading
    expected = {key(record) for run in runs async for record in run}
    assert {place for place in seen if place[0] != gone.id} == expected
    with pytest.raises(LogError, match="no run"):
        await fold_log(BOARD, log, runs=[gone.id])


class Flipped:
    """A codec of a log."""

    def encode(self, data: bytes, run_id: str) -> bytes:
        return bytes(each ^ 7 for each in data)

    decode = encode


async def test_a_run_that_cannot_be_read_is_left_out_and_a_log_of_no_other_is_refused(tmp_path: Path) -> None:
    async def begin(log: EventLog) -> Run[None]:
        run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        await run
        return run

    async with SQLiteLog(tmp_path / "runs.db", codec=Flipped()) as log:
        await begin(log)
    async with SQLiteLog(tmp_path / "runs.db") as log:
        with pytest.raises(LogError, match="codec="):
            await fold_log(BOARD, log)
        run = await begin(log)
        [begun, deltas] = await fold_log(BOARD, log)
        assert (begun.value, deltas.value) == (1, {run.id: 2})


async def test_a_long_history_lets_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.boards.reader.TURN", 0.0)
    async with MemoryLog() as log:
        for _ in range(30):
            await Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        fold = asyncio.create_task(fold_log(BOARD, log))
        turns = 0
        while not fold.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 30  # at least one for each run


async def test_what_a_fork_has_copied_and_nested_runs_are_counted_once(log: MemoryLog) -> None:
    run = Worker(ScriptedModel(["An old pond."]), log=log).run("Hi")
    await run
    fork = await fork_run(log, run.id, run.last_seq)
    begun, deltas = await fold_log(BOARD, log)
    assert begun.value == 1
    assert deltas.value == {run.id: 3}
    [begun, _] = await fold_log(BOARD, log, runs=[fork])
    assert begun.value == 1
