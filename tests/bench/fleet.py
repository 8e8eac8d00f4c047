"""What the fleet costs with 100,000 stored runs, and how many runs a second 1, 2 and 4 workers take.

    python tests/bench/fleet.py [URL]

It shows also what the records of 20,000 runs cost as one stream.

By default the log is an SQLite file. Each figure of the fleet has its reference in the same run: reading the same rows
and doing nothing with them.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager

from msgspec.structs import replace

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

from rxworker import Worker
from rxworker.events import Event, Record, RunStart, RunStop, TextDelta, TurnStart
from rxworker.log import EventLog, Fleet, RunInfo, open_log
from rxworker.log.format import entries_of
from rxworker.log.values import RunRow
from rxworker.messages import Conversation, Message
from rxworker.operators import merge_runs
from rxworker.testing import ScriptedModel
from rxworker.ui.web.boards.fleet import FleetFeed, RunFilter
from rxworker.worker import submit, work

STORED = int(os.environ.get("STORED", 100_000))
MERGED = int(os.environ.get("MERGED", 20_000))
RUNS = 400
START = RunStart(Conversation((Message.user("Hi"),)), 1)
ROW = RunRow(
    "finished",
    "Summarise the quarterly report",
    "clerk",
    turns=3,
    tool_calls=4,
    tool_seconds=2.5,
    tool_durations=(0, 0, 0, 1, 3),
    input_tokens=12_000,
    output_tokens=800,
    cost=0.0123,
    labels={"tenant": "acme"},
)
Changes = AsyncGenerator[list[RunInfo], None]


async def store(log: EventLog, count: int, events: Sequence[Event] = (START,)) -> None:
    """Store runs that have ended."""
    records = [Record(seq, "r", 0, 0, time.time(), event) for seq, event in enumerate(events, 1)]
    entries = entries_of(records, 1)

    async def add(n: int) -> None:
        claim = await log.claim(f"run-{n}", create=True)
        await log.append(claim, entries, after=0, row=ROW, durable=False)
        await log.release(claim)

    for first in range(0, count, 500):
        await asyncio.gather(*(add(n) for n in range(first, min(first + 500, count))))


async def read_all(changes: Changes) -> None:
    async with aclosing(changes):
        while await anext(changes):
            pass


async def of_fleet(address: str) -> None:
    """Print what the fleet of 100,000 runs costs."""
    async with open_log(address) as log:
        await store(log, STORED)
        began = time.perf_counter()
        await read_all(log.changes(limit=None))
        reading = time.perf_counter() - began

        feed = FleetFeed(log)
        began = time.perf_counter()
        fleet = await feed.ready()
        loading = time.perf_counter() - began
        found = await median(feed, RunFilter())
        nothing = await median(feed, RunFilter(text="no such text"))
        info = next(fleet.newest())
        began = time.perf_counter()
        for n in range(10_000):
            info = replace(info, revision=info.revision + 1, row=replace(ROW, turns=n))
            fleet.note(info)
        change = (time.perf_counter() - began) / 10_000
        await feed.close()

        infos: list[RunInfo] = []
        async with aclosing(log.changes(limit=None)) as changes:
            while page := await anext(changes):
                infos += page
    tracemalloc.start()
    folded = Fleet()
    for each in infos:
        folded.note(replace(each, row=replace(each.row)))
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"| rows of {STORED:,} runs read, s | {reading:.2f} |")
    print(f"| the same and folded, until the first answer, s | {loading:.2f} |")
    print(f"| an answer with the newest 50 runs, ms | {found * 1000:.1f} |")
    print(f"| a search of all runs that finds none, ms | {nothing * 1000:.1f} |")
    print(f"| a change of a run, µs | {change * 1e6:.1f} |")
    print(f"| memory, MB | {memory / 1e6:.0f} |")


async def median(feed: FleetFeed, asked: RunFilter) -> float:
    """Seconds for an answer."""
    times: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        await feed.answer(feed.fleet, asked)
        times.append(time.perf_counter() - began)
    return sorted(times)[2]


async def of_runs(address: str) -> None:
    """Print what the records of all stored runs cost as one stream, `merge_runs(log.runs())`, in runs of 23 records."""
    events = [START, TurnStart(), *[TextDelta(0, "word ")] * 20, RunStop()]
    async with open_log(address) as log:
        await store(log, MERGED, events)
        ended, count, most = asyncio.Event(), 0, 0

        def take(record: Record) -> None:
            nonlocal count, most
            count += 1
            if record.seq == len(events):
                most = max(most, len(asyncio.all_tasks()))
            if count == MERGED * len(events):
                ended.set()

        async def read() -> float:
            nonlocal count
            count = 0
            ended.clear()
            began = time.perf_counter()
            subscription = merge_runs(log.runs()).subscribe(take)
            await ended.wait()
            seconds = time.perf_counter() - began
            subscription.dispose()
            return seconds

        seconds = await read()
        tracemalloc.start()
        await read()
        _, memory = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    print(f"| {MERGED:,} runs with {count:,} records merged, s | {seconds:.2f} |")
    print(f"| its memory at most, MB | {memory / 1e6:.1f} |")
    print(f"| its tasks at most | {most} |")


async def be_worker(address: str) -> None:
    """A process that takes runs until its standard input ends."""
    async with open_log(address) as log:
        working = asyncio.create_task(work(log, lambda _: Worker(ScriptedModel(["Done."])), concurrency=32))
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


@asynccontextmanager
async def workers(address: str, count: int) -> AsyncGenerator[None]:
    """So many processes that take runs."""
    pipe = asyncio.subprocess.PIPE
    started = [
        await asyncio.create_subprocess_exec(sys.executable, __file__, "--worker", address, stdin=pipe, stdout=pipe)
        for _ in range(count)
    ]
    for each in started:
        assert each.stdout is not None
        await each.stdout.readline()
    yield
    for each in started:
        await each.communicate(b"")


async def runs_a_second(address: str, count: int) -> float:
    """How many queued runs a second are finished by so many processes, of a model that answers at once."""
    async with open_log(address) as log:
        names = {await submit(log, "Hi") for _ in range(RUNS)}
        ended: set[str] = set()
        began = time.perf_counter()
        async with workers(address, count), aclosing(log.changes(limit=None, every=0.01)) as changes:
            began = time.perf_counter()
            async for infos in changes:
                ended |= {info.run_id for info in infos if info.status == "finished"}
                if names <= ended:
                    break
            seconds = time.perf_counter() - began
    return RUNS / seconds


async def main(address: str | None) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        print("| what | measured |\n|---|---:|")
        await of_fleet(address or f"sqlite:{folder}/fleet.db")
        await of_runs(address or f"sqlite:{folder}/merged.db")
        for count in (1, 2, 4):
            rate = await runs_a_second(address or f"sqlite:{folder}/runs-{count}.db", count)
            print(f"| runs a second over {count} workers | {rate:.0f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        asyncio.run(be_worker(sys.argv[2]))
    else:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
