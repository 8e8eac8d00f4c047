"""The records of a log in the order of their times, and then what is appended."""

from __future__ import annotations

import asyncio

from rxworker import Worker, tool
from rxworker.boards import Dashboard, fold_log, log_records, panel
from rxworker.events import Record, RunStart, TextDelta
from rxworker.hub.history import expand
from rxworker.log import EventLog, MemoryLog, fork_run
from rxworker.log.format import record_of
from rxworker.panels import count, run_of
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.worker.run import Run

BOARD = Dashboard(
    [panel("Begun", count(RunStart)), panel("Deltas", count(TextDelta), view="bar", group=run_of)]
)


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


async def test_a_run_that_is_put_back_goes_on_where_it_was() -> None:
    async with MemoryLog() as log:
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


async def test_what_a_fork_has_copied_and_nested_runs_are_counted_once() -> None:
    async with MemoryLog() as log:
        run = Worker(ScriptedModel(["An old pond."]), log=log).run("Hi")
        await run
        fork = await fork_run(log, run.id, run.last_seq)
        begun, deltas = await fold_log(BOARD, log)
        assert begun.value == 1
        assert deltas.value == {run.id: 3}
        [begun, _] = await fold_log(BOARD, log, runs=[fork])
        assert begun.value == 1
