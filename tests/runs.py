"""What a run tells, to those who watch it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

from rxworker import Finished, Run, RunResult
from rxworker.errors import RxWorkerError
from rxworker.events import Record
from rxworker.state import RunState

T = TypeVar("T")


def records_of(run: Run[Any]) -> list[Record]:
    """The records of a run, a list that grows while it goes on."""
    records: list[Record] = []
    run.subscribe(records.append, lambda _: None)
    return records


def joined(state: RunState) -> list[str]:
    """The results of calls in the background that have joined, in order."""
    texts = [message.text for message in state.conversation.messages if message.role == "user"]
    return [text.partition("\n")[2] for text in texts if text.startswith("[The result of")]


async def all_records(run: Run[Any]) -> list[Record]:
    """The records of a run, which may fail."""
    records = records_of(run)
    with suppress(RxWorkerError):
        await run
    return records


async def reached(run: Run[Any], kind: type[object]) -> Record:
    """Wait for an event of this kind."""
    async for record in run:
        if isinstance(record.event, kind):
            return record
    raise AssertionError(f"the run has ended without a {kind.__name__}")


def results_of(result: RunResult[Any]) -> list[str]:
    """The texts of the results of its tools."""
    return [result.text for message in result.conversation.messages for result in message.tool_results]


async def finish_of(run: Awaitable[RunResult[T]]) -> Finished[T]:
    """Wait for a run that finishes."""
    finished = await run
    assert isinstance(finished, Finished)
    return finished


async def settle(steps: int = 20) -> None:
    """Let everything that is ready happen."""
    for _ in range(steps):
        await asyncio.sleep(0)
