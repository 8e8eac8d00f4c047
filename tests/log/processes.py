"""Processes that use a log, as tests have them: a tool that waits, a worker of a queue, and what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from rxworker import Worker, tool
from rxworker.events import Event, Record, RunStart, TurnStart
from rxworker.hub.history import expand
from rxworker.log import EventLog, Replica, RunInfo
from rxworker.log.format import Entry, entries_of, records_of
from rxworker.messages import Conversation, Message
from rxworker.testing import ScriptedModel
from rxworker.worker import work

RUN = "run-1"
START = RunStart(Conversation((Message.user("Hi"),)), 1)


class Waiting:
    """A tool that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

        @tool(effect="idempotent")
        async def wait() -> str:
            """Wait."""
            self.begun.set()
            await self.go_on.wait()
            return "waited"

        self.tool = wait


def says_done(_: RunInfo) -> Worker:
    """A worker that answers at once."""
    return Worker(ScriptedModel(["Done."]))


@asynccontextmanager
async def working(
    log: EventLog, make: Callable[[RunInfo], Worker | Awaitable[Worker | None] | None] = says_done, **options: Any
) -> AsyncGenerator[asyncio.Task[None]]:
    """A process that works."""
    task = asyncio.create_task(work(log, make, **options))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def end_of(log: EventLog, *runs: str) -> list[Replica]:
    """Wait for the ends of runs."""
    replicas = [Replica(log, run) for run in runs]
    async with asyncio.timeout(60):
        for replica in replicas:
            await replica.ended()
    return replicas


def entries(count: int, after: int = 0, epoch: int = 1, event: Event | None = None) -> list[Entry]:
    """So many entries of a run, whose first one begins it."""
    events = [START if n == 1 else event or TurnStart() for n in range(after + 1, after + count + 1)]
    return entries_of([Record(n, RUN, min(n - 1, 1), 0, 0.0, each) for n, each in enumerate(events, after + 1)], epoch)


async def stored(log: EventLog, run_id: str = RUN) -> list[Record]:
    """The records of a run."""
    found = [entry async for entry in log.read(run_id)]
    return [one for record in records_of(found, run_id) for one in expand(record)]


async def numbers(log: EventLog, run_id: str = RUN) -> list[int]:
    """The numbers of the records of a run."""
    return [record.seq for record in await stored(log, run_id)]


async def stored_of_all(log: EventLog) -> list[Record]:
    """The records of all runs."""
    return [record for info in await log.list(limit=1000) for record in await stored(log, info.run_id)]
