"""Writes the golden log of a format. Those of earlier formats stay as they are.

    python -m tests.log.golden                                       that of this format
    PYTHONPATH=OLDER python tests/log/golden.py tests/log/golden     that of an older rxworker, in the folder OLDER

``golden/1-1`` was written so by commit 6927748, the first whose logs are read; there, the module
``rxworker.log.format`` is ``rxworker.log.entry``. A golden log is a folder with an SQLite log, its runs as lines of
JSON, the states of the runs, and a paused run as `save_paused` has saved it. Each run has the label ``case``. The tools
must not change: a worker with other tools does not recover these runs.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec

from rxworker import Answer, Approve, Paused, Run, Worker, after_tool_call, before_tool_call, on_turn_end, tool
from rxworker.hooks import Pause, Skip, ToolCallContext, ToolResultContext, TurnEndContext
from rxworker.log import EventLog, SQLiteLog, export_run
from rxworker.log.format import VERSION, records_of
from rxworker.log.sqlite import FORMAT
from rxworker.messages import ToolMeta
from rxworker.state import fold_run
from rxworker.testing import Reply, ScriptedModel, call, say, think
from rxworker.tools import ClientTool
from rxworker.worker import save_paused

GOLDEN = Path(__file__).parent / "golden"
NAME = f"{FORMAT}-{VERSION}"
"""The versions of the tables and of the entries."""
HELD = asyncio.Event()
"""Not set while the log is written: the hook of the results then waits where it sees "booked 7"."""


@tool(effect="idempotent")
async def book(seats: int) -> str:
    """Book seats."""
    return f"booked {seats}"


@tool
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


SHOW = ClientTool(ToolMeta("show", "Show it.", {"type": "object", "properties": {}}))


@before_tool_call
def limit(context: ToolCallContext) -> Pause | Skip | None:
    """Ask a person about payments, and skip large ones."""
    context.variables["calls"] = context.variables.get("calls", 0) + 1  # type: ignore[operator]
    euros = context.input.get("euros")
    if not isinstance(euros, int):
        return None
    return Skip("too much") if euros > 100 else Pause(f"Pay {euros} euros?")


@before_tool_call
def note(_: ToolCallContext) -> None:
    """Run behind the hook that pauses."""


@after_tool_call
async def check(context: ToolResultContext) -> None:
    """See the results before the model."""
    if context.result.text == "booked 7":
        await HELD.wait()
    context.set_content(f"{context.result.text}!")


@on_turn_end
def review(context: TurnEndContext) -> Pause | None:
    """Ask a person about drafts."""
    return Pause("Send it?") if context.text.startswith("Draft") else None


def worker(log: EventLog, case: str, *replies: Reply) -> Worker:
    """The worker of all golden runs."""
    return Worker(
        ScriptedModel(replies),
        tools=[book, pay, SHOW],
        hooks=[limit, note, check, review],
        log=log,
        name="clerk",
        labels={"case": case},
    )


async def states(log: EventLog) -> dict[str, Any]:
    """The state of each run; of a pause those members that it has in every version."""
    found: dict[str, Any] = {}
    for info in await log.list():
        state = fold_run(records_of([entry async for entry in log.read(info.run_id)], info.run_id))
        found[info.run_id] = msgspec.to_builtins(state)
        if (pause := state.pause) is not None:
            members = {"hook": pause.hook, "reason": pause.reason, "key": pause.key}
            found[info.run_id]["pause"] = {**members, "pending": pause.pending}
    return msgspec.json.decode(msgspec.json.encode(found))


async def lines(log: EventLog) -> dict[str, list[bytes]]:
    """Each run as it is exported."""
    return {info.run_id: [line.rstrip() async for line in export_run(log, info.run_id)] for info in await log.list()}


async def paused(run: Run[None]) -> Paused[None]:
    result = await run
    assert isinstance(result, Paused)
    return result


async def cut(run: Run[None], kind: str) -> None:
    """Leave a run to another process behind an event of this kind."""
    async for record in run:
        if type(record.event).__name__ == kind:
            break
    await run.hand_over(reason="a deployment", seconds=0.0)


SEVERAL = call("book", seats=2) + call("pay", euros=400) + call("pay", euros=3) + call("pay", euros=5)


async def write(folder: Path) -> None:
    """Write a log with runs that have ended, that wait in every way, and that were cut."""
    async with SQLiteLog(folder / "runs.db") as log:
        await worker(
            log,
            "finished",
            think("Two seats, then the large payment.") + say("At once.") + call("book", seats=2),
            call("pay", euros=400),
            say("Booked, not paid: \U0001f4b6 400 is too much."),
        ).run("Book 2 seats, and pay 400 euros.")
        await paused(worker(log, "call", call("pay", euros=3)).run("Pay 3 euros."))
        await paused(worker(log, "turn", say("Draft: hello.")).run("Write."))
        run = worker(log, "caller", call("book", seats=1) + call("pay", euros=3)).run("Wait.")
        run.pause(reason="lunch")
        await paused(run)
        several = await paused(worker(log, "several", SEVERAL).run("All of it."))
        (folder / "saved.json").write_bytes(save_paused(several))
        client = call("book", seats=3) + call("show")
        await paused(worker(log, "client", client).run("Show it."))
        clerk = worker(log, "resumed", SEVERAL, say("Done."))
        again = await paused(clerk.run("All of it, slowly."))
        again = await paused(clerk.resume(decisions={again.pending[1].id: Answer("by hand")}))
        await clerk.resume(decisions={again.pending[-1].id: Approve()})
        clerk = worker(log, "resumed and cut", call("pay", euros=3) + call("book", seats=1))
        twice = await paused(clerk.run("Pay by hand."))
        by_hand = {twice.pending[0].id: Answer("by hand")}
        await cut(clerk.resume(decisions=by_hand), "RunResume")
        run = worker(log, "aborted", call("book", seats=1)).run("No, wait.")
        await run.cancel(reason="changed my mind")
        await cut(worker(log, "cut", call("book", seats=1)).run("One seat."), "TurnStart")
        await cut(worker(log, "held", call("book", seats=7)).run("Seven seats."), "ToolStop")
        for run_id, exported in (await lines(log)).items():
            (folder / f"{run_id}.jsonl").write_bytes(b"".join(line + b"\n" for line in exported))
        (folder / "states.json").write_bytes(msgspec.json.encode(await states(log)))


if __name__ == "__main__":
    folder = (Path(sys.argv[1]) if sys.argv[1:] else GOLDEN) / NAME
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    asyncio.run(write(folder))
