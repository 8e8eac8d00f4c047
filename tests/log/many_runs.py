"""A process that begins its share of runs and recovers those of others: LOG EFFECTS FIRST LAST LEASE AT_ONCE PAYMENT.

The test kills it and starts it again.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from rxworker import Worker, tool
from rxworker.errors import RxWorkerError
from rxworker.log import EventLog, RunInfo, open_log
from rxworker.messages import JsonObject
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.tools import Done, NotDone, ToolContext
from rxworker.worker import recover_all


def answer(request: Request) -> Reply:
    """Two calls, then the end."""
    messages = request.conversation.messages
    turn = sum(message.role == "assistant" for message in messages)
    return call("pay", n=turn) if turn < 2 else say(f"{messages[0].text} has ended.")


def make_worker(log: EventLog, effects: Path, payment: float) -> Worker:
    """The worker of each run.

    A payment takes `payment` seconds, and until there is no file ``held`` beside the effects.
    """
    held = effects.with_name("held")

    def note(what: str, key: str) -> None:
        with effects.open("ab", buffering=0) as file:
            file.write(f"{what} {key}\n".encode())

    async def was_paid(key: str, _: JsonObject) -> Done | NotDone:
        is_done = f"end {key}\n" in effects.read_text()  # noqa: ASYNC240
        return Done("paid before") if is_done else NotDone()

    @tool(reconcile=was_paid)
    async def pay(n: int, context: ToolContext) -> str:
        """Pay."""
        note("start", context.idempotency_key)
        await asyncio.sleep(payment)
        while held.exists():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)
        note("end", context.idempotency_key)
        return f"paid {n}"

    return Worker(ScriptedModel(answer, delay=0.002), tools=[pay], log=log)


async def main(address: str, effects: Path, first: int, last: int, lease: float, at_once: int, payment: float) -> None:
    """Begin what does not exist yet, and recover until killed."""
    places = asyncio.Semaphore(at_once)
    ending: set[asyncio.Task[Any]] = set()

    async with open_log(address, lease=lease) as log:
        known: set[str] = set()
        before = ""
        while infos := await log.list(before=before):
            before = infos[-1].run_id
            known.update(info.row.title for info in infos)

        async def begin(title: str) -> None:
            async with places:
                await make_worker(log, effects, payment).run(title)

        def recovers(_: RunInfo) -> Worker:
            return make_worker(log, effects, payment)

        for number in range(first, last):
            if f"Run {number}" not in known:
                ending.add(asyncio.create_task(begin(f"Run {number}")))
        async for run in recover_all(log, recovers):
            task = asyncio.ensure_future(end_of(run))
            ending.add(task)


async def end_of(run: Any) -> None:
    """Wait for a recovered run."""
    try:
        await run
    except RxWorkerError as error:
        print(f"{run.id}: {error}", flush=True)


if __name__ == "__main__":
    _, address, effects, first, last, lease, at_once, payment = sys.argv
    asyncio.run(main(address, Path(effects), int(first), int(last), float(lease), int(at_once), float(payment)))
