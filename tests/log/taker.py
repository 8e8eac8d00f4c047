"""A process that takes runs of a queue until it is ended: LOG EFFECTS CONCURRENCY.

Each run makes one request, which it notes in a file.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rxworker import Worker
from rxworker.log import EventLog, RunInfo, open_log
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, say
from rxworker.worker.queue import work


def make_worker(effects: Path) -> Worker:
    """The worker of each run."""

    def answer(request: Request) -> Reply:
        with effects.open("ab", buffering=0) as file:
            file.write(f"{request.conversation.messages[0].text}\n".encode())
        return say("Done.")

    return Worker(ScriptedModel(answer))


async def main(address: str, effects: Path, concurrency: int) -> None:
    """Take runs."""

    def make(_: RunInfo) -> Worker:
        return make_worker(effects)

    log: EventLog
    async with open_log(address) as log:
        await work(log, make, concurrency=concurrency)


if __name__ == "__main__":
    _, address, effects, concurrency = sys.argv
    asyncio.run(main(address, Path(effects), int(concurrency)))
