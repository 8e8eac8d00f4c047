"""rxworker: the records of a run; each watcher is one of the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import with_rxworker as program

from rxworker import Run, Worker, tool, worker_tool
from rxworker.errors import RxWorkerError
from rxworker.events import Record


@tool
def look(number: int) -> str:
    """Look."""
    return f"found {number}"


async def events(case: str, numbers: list[int]) -> AsyncGenerator[Record]:
    ask = worker_tool(Worker(program.model()), name="ask", description="Run another agent.")
    run = Worker(program.model(), tools=[ask if case == "nested" else look]).run("Go.")
    async for record in run:
        numbers.append(record.seq)
        yield record


async def watched() -> Run[Any]:
    run = Worker(program.model()).run("Count.")
    asyncio.get_running_loop().create_task(ended(run))
    return run


async def ended(run: Run[Any]) -> None:
    with suppress(RxWorkerError):
        await run
