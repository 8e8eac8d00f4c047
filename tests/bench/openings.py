"""What it costs to open a dashboard over a log: the first time, the next time, at a moment of the past, and of a range.

    python tests/bench/openings.py                            2,000 and 20,000 runs in SQLite, some minutes
    python tests/bench/openings.py --runs 200000 --store postgres --board Calls

A run has 26 records, one in ten of them 1,000 deltas more. The runs began in the last day, and for the last figure, a
day, in the last 30 days. A moment is the median of some at random, after the opening. A stall is how much later than
it was due a task ran that sleeps a millisecond. Beside each time is that of the CPU, which says more on a machine that
has other work. What is imported is not collected, as in `rxworker serve`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import astuple, replace

sys.path.insert(0, str(Path(__file__).parents[2]))

from rxworker import Worker, tool
from rxworker.boards import Dashboard, PanelState, Selection, fold_log, panel
from rxworker.boards.moments import Moments
from rxworker.boards.stored import LogRecords
from rxworker.cli.process import COLLECTOR
from rxworker.events import Record, TextDelta, ToolStart
from rxworker.log import EventLog, MemoryLog, open_log
from rxworker.log.format import Entry, entries_of, record_of
from rxworker.log.values import RunRow
from rxworker.panels import FLEET, USAGE, count, tool_of
from rxworker.testing import ScriptedModel, call, say

DAY, HOUR = 86400.0, 3600.0
ENTRY = "run, first, last, epoch, kind, time, body, changes, version"
RUN = "id, run, {}, status, epoch, last, created, updated, size"
CALLS = Dashboard([panel("Calls", count(ToolStart), view="bar", group=tool_of)], title="Calls")
BOARDS = (USAGE, FLEET, CALLS)
MOMENTS = 11


@tool
def look(word: str) -> str:
    """Look."""
    return word


async def recorded() -> tuple[list[Entry], list[Entry], RunRow]:
    """The entries of a run of 26 records, of one with 1,000 deltas more, and their row."""
    async with MemoryLog() as log:
        model = ScriptedModel([call("look", word="a"), say("An old p")])
        run = Worker(model, tools=[look], log=log, labels={"tenant": "acme"}).run("Hi")
        await run
        short = [entry async for entry in log.read(run.id)]
        row = (await log.existing(run.id)).row
    assert short[-1].last == 26
    at = next(n for n, each in enumerate(short) if each.kind == "text_delta")
    text, after = short[at], short[at].last
    like, more = record_of(text, ""), list[Entry]()
    for first in range(after + 1, after + 1001, 25):
        spans = [
            Record(n, "", like.turn, like.attempt, text.time + (n - after) / 100, TextDelta(0, "four"))
            for n in range(first, first + 25)
        ]
        more += entries_of(spans, 1)
    rest = [
        replace(each, first=each.first + 1000, last=each.last + 1000, time=each.time + 10) for each in short[at + 1 :]
    ]
    return short, [*short[: at + 1], *more, *rest], row


Rows: TypeAlias = Iterator[tuple[tuple[object, ...], list[tuple[object, ...]]]]


async def rows_of(count: int, seconds: float) -> Rows:
    """The rows of runs that began at random times in the last so many seconds, and those of their entries."""
    short, long, row = await recorded()
    chance, now = random.Random(count), time.time()
    begins = sorted(now - chance.uniform(0, seconds) for _ in range(count))
    data = msgspec.json.encode(row)

    def made() -> Rows:
        for number, begin in enumerate(begins, 1):
            entries = long if number % 10 == 0 else short
            shift = begin - entries[0].time
            moved: list[tuple[object, ...]] = [
                (number, *astuple(replace(each, time=round(each.time + shift, 3)))) for each in entries
            ]
            size = sum(len(each.body) for each in entries)
            last = entries[-1]
            yield (number, f"run-{number:06}", data, "finished", 1, last.last, begin, last.time + shift, size), moved

    return made()


async def fill(address: str, count: int, seconds: float) -> None:
    """Store runs as a log has them."""
    async with open_log(address):
        pass
    rows = await rows_of(count, seconds)
    if address.startswith("sqlite:"):
        _fill_sqlite(address, rows)
    else:
        await _fill_postgres(address, rows)


def _fill_sqlite(address: str, rows: Rows) -> None:
    db = sqlite3.connect(address.removeprefix("sqlite:"))
    for run, entries in rows:
        db.execute(f"INSERT INTO runs({RUN.format('row')}) VALUES(?,?,?,?,?,?,?,?,?)", run)
        db.executemany(f"INSERT INTO entries({ENTRY}) VALUES(?,?,?,?,?,?,?,?,?)", entries)
    db.execute("UPDATE runs SET revision=id")
    db.commit()
    db.close()


async def _fill_postgres(address: str, rows: Rows) -> None:
    from rxworker.log.postgres_connection import Server  # needs psycopg

    kept = list(rows)
    connection = await Server(address).connect()
    tables = (
        (f"runs({RUN.format('data')})", [run for run, _ in kept]),
        (f"entries({ENTRY})", chain(*[e for _, e in kept])),
    )
    async with connection.transaction(), connection.cursor() as cursor:
        for table, values in tables:
            async with cursor.copy(f"COPY {table} FROM STDIN".encode()) as into:
                for each in values:
                    await into.write_row(each)
        await cursor.execute(b"INSERT INTO revisions SELECT id, nextval('revision') FROM runs")
    await connection.execute(b"ANALYZE")
    await connection.close()


@contextmanager
def stalls() -> Generator[list[tuple[float, float]]]:
    """How late a task ran that sleeps a millisecond, and for how long its thread has computed, each time in ms."""
    late: list[tuple[float, float]] = []

    async def tick() -> None:
        while True:
            began, computed = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.001)
            late.append((1000 * (time.perf_counter() - began) - 1, 1000 * (time.thread_time() - computed)))

    task = asyncio.create_task(tick())
    try:
        yield late
    finally:
        task.cancel()


class Opened(NamedTuple):
    """What it took to open a board, in seconds and in seconds of CPU, and of stalls in milliseconds."""

    hour: float
    hour_cpu: float
    whole: float
    whole_cpu: float
    stall: float
    stall_cpu: float


async def opened(log: EventLog, board: Dashboard, moments: Moments) -> Opened:
    """Open a board as a server does, until what follows the log has begun."""
    began, computed, read, hour = time.perf_counter(), time.process_time(), asyncio.Event(), list[float]()

    def note(state: PanelState) -> None:
        if not hour and (state.reading is None or getattr(state, "since", None) is not None):
            hour.extend((time.perf_counter() - began, time.process_time() - computed))

    with stalls() as late:
        shown = board.show(LogRecords(log, moments.since, board.selection, read.set, moments))
        shown.changes.subscribe(note)
        await read.wait()
        whole = time.perf_counter() - began, time.process_time() - computed
        await asyncio.sleep(1)
    shown.dispose()
    return Opened(hour[0], hour[1], whole[0], whole[1], max(each for each, _ in late), max(each for _, each in late))


async def timed(work: Awaitable[object]) -> tuple[float, float]:
    """Seconds, and seconds of CPU."""
    began, computed = time.perf_counter(), time.process_time()
    await work
    return time.perf_counter() - began, time.process_time() - computed


async def measure(address: str, count: int, boards: Sequence[Dashboard]) -> None:
    """Print the figures of a log."""
    chance = random.Random(count)
    await fill(f"{address}day", count, DAY)
    await fill(f"{address}month", count, 30 * DAY)
    for board in boards:
        async with open_log(f"{address}day") as log:
            moments = Moments(board, log, time.time() - DAY - HOUR)
            first = await opened(log, board, moments)
            times = [await timed(moments.at(time.time() - chance.uniform(0, DAY))) for _ in range(MOMENTS)]
            half = median(one for one, _ in times), median(one for _, one in times)
        async with open_log(f"{address}month") as log:
            now = time.time()
            selected = replace(board, selection=Selection(since=now - 11 * DAY, until=now - 10 * DAY))
            day = await timed(fold_log(selected, log))
        cells = [f"{first.hour:.2f} ({first.hour_cpu:.2f})", f"{first.whole:.1f} ({first.whole_cpu:.1f})"]
        cells += [f"{first.stall:.0f} ({first.stall_cpu:.0f})", f"{half[0]:.2f} ({half[1]:.2f})"]
        print(f"| {count:,} | {board.title} |", " | ".join([*cells, f"{day[0]:.2f} ({day[1]:.2f})"]), "|", flush=True)


async def main(store: str, counts: Sequence[int], boards: Sequence[Dashboard]) -> None:
    """Print a table."""
    print("| runs | dashboard | last hour, s (CPU) | all, s (CPU) | stall, ms (CPU) | moment, s (CPU) | day, s (CPU) |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    if store == "postgres":
        from tests.log.postgres_server import PostgresServer

        server = PostgresServer(fsync="on", full_page_writes="on")
        try:
            for count in counts:
                await measure(server.new_address() + "_", count, boards)
        finally:
            server.close()
        return
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            await measure(f"sqlite:{folder}/", count, boards)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default="sqlite", choices=("sqlite", "postgres"))
    parser.add_argument("--runs", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--board", nargs="+", default=[each.title for each in BOARDS])
    given = parser.parse_args()
    gc.freeze()
    gc.set_threshold(*COLLECTOR)
    asyncio.run(main(given.store, given.runs, [each for each in BOARDS if each.title in given.board]))
