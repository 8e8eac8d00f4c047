"""Writes the golden log of this format: `python -m tests.log.golden`. Those of earlier formats stay as they are.

A golden log is a folder with an SQLite log, its runs as lines of JSON, and the states of the runs. The tools must not change: a worker with other tools does
not recover these runs.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec

from rxworker import Paused, Worker, before_tool_call, tool
from rxworker.hooks import Pause, Skip, ToolCallContext
from rxworker.log import EventLog, SQLiteLog, export_run, records_of
from rxworker.log.entry import VERSION
from rxworker.log.sqlite import FORMAT
from rxworker.state import fold_run
from rxworker.testing import Reply, ScriptedModel, call, say, think

GOLDEN = Path(__file__).parent / "golden"
NAME = f"{FORMAT}-{VERSION}"
"""The versions of the tables and of the entries."""


@tool(effect="idempotent")
async def book(seats: int) -> str:
    """Book seats."""
    return f"booked {seats}"


@tool
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@before_tool_call
def limit(context: ToolCallContext) -> Pause | Skip | None:
    """Ask a person about payments, and skip large ones."""
    euros = context.input.get("euros")
    if not isinstance(euros, int):
        return None
    return Skip("too much") if euros > 100 else Pause(f"Pay {euros} euros?")


def worker(log: EventLog, *replies: Reply) -> Worker:
    """The worker of all golden runs."""
    return Worker(
        ScriptedModel(replies),
        tools=[book, pay],
        hooks=[limit],
        log=log,
        name="clerk",
        labels={"customer": "c-17"},
    )


async def states(log: EventLog) -> dict[str, Any]:
    """The state of each run."""
    found: dict[str, Any] = {}
    for info in await log.list():
        entries = [entry async for entry in log.read(info.run)]
        found[info.run] = msgspec.json.decode(
            msgspec.json.encode(fold_run(records_of(entries, info.run)))
        )
    return found


async def lines(log: EventLog) -> dict[str, list[bytes]]:
    """Each run as it is exported."""
    return {
        info.run: [line.rstrip() async for line in export_run(log, info.run)]
        for info in await log.list()
    }


async def write(folder: Path) -> None:
    """Write a log with a run that has finished, one that is paused, and one that was cut."""
    async with SQLiteLog(folder / "runs.db") as log:
        await worker(
            log,
            think("Two seats, then the large payment.") + say("At once.") + call("book", seats=2),
            call("pay", euros=400),
            say("Booked, not paid: \U0001f4b6 400 is too much."),
        ).run("Book 2 seats, and pay 400 euros.")
        paused = await worker(log, call("pay", euros=3)).run("Pay 3 euros.")
        assert isinstance(paused, Paused)
        cut = worker(log, call("book", seats=1)).run("One seat.")
        async for record in cut:
            if record.turn == 1:
                break
        await cut.hand_over(reason="a deployment")
        for run, exported in (await lines(log)).items():
            (folder / f"{run}.jsonl").write_bytes(b"".join(line + b"\n" for line in exported))
        (folder / "states.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(await states(log)), indent=1)
        )


if __name__ == "__main__":
    shutil.rmtree(GOLDEN / NAME, ignore_errors=True)
    (GOLDEN / NAME).mkdir(parents=True)
    asyncio.run(write(GOLDEN / NAME))
