"""What a process of one version does with a log, in a rolling upgrade: ADDRESS.

It reads a line for each thing to do, and prints its result. It imports the rxworker of its PYTHONPATH.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from rxworker import Session, Worker
from rxworker.errors import RxWorkerError
from rxworker.log import EventLog, Replica, open_log
from rxworker.testing import ScriptedModel
from rxworker.worker import submit, work

STORED = "rxworker.resume.stored" if find_spec("rxworker.resume") else "rxworker.worker.stored"
"""The module of `read_run`, which has moved since the older version."""
read_run: Any = import_module(STORED).read_run


class Process:
    """What a process has of a log at an address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.log: EventLog = open_log(address, lease=60.0)
        self._working: asyncio.Task[None] | None = None
        self._held: Any = None

    async def do(self, what: str, *rest: str) -> str:
        """Do one thing. Returns its result, or the name of its error."""
        try:
            return str(await getattr(self, what)(*rest))
        except RxWorkerError as error:
            return type(error).__name__

    async def reopen(self) -> str:
        """Open the log again, as a process that is started now does."""
        await self.log.close()
        self.log = open_log(self.address, lease=60.0)
        return "open"

    async def submit(self, text: str) -> str:
        """Submit a run."""
        return await submit(self.log, text)

    async def work(self) -> str:
        """Work until `stop`."""
        make = ScriptedModel(["Done."] * 9)
        self._working = asyncio.create_task(work(self.log, lambda _: Worker(make)))
        return "works"

    async def stop(self) -> str:
        """End `work`."""
        assert self._working is not None
        self._working.cancel()
        await asyncio.wait([self._working])
        return "stopped"

    async def ended(self, run: str) -> str:
        """Wait for the end of a run. Returns its status."""
        replica = Replica(self.log, run)
        await replica.ended()
        return replica.state.status

    async def chat(self, before: str, text: str) -> str:
        """Go on after a stored run, ``-`` for none. Returns the id of the new one."""
        session = Session(Worker(ScriptedModel(["Yes."]), log=self.log))
        if before != "-":
            session.go_on_from((await read_run(self.log, before)).state)
        run = session.run(text)
        await run
        return run.id

    async def length(self, run: str) -> int:
        """How many messages a run has at its end."""
        return len((await read_run(self.log, run)).state.conversation.messages)

    async def hold(self) -> str:
        """Begin a run that does not end."""
        self._held = Worker(ScriptedModel(["Never"], delay=600.0), log=self.log).run("Wait")
        await self._held.barrier()
        return self._held.id

    async def outcome(self) -> str:
        """How it ends."""
        return str(await self._held)

    async def cancel(self, run: str) -> str:
        """Cancel a run."""
        await Replica(self.log, run).cancel(reason="enough")
        return "cancelled"

    async def prune(self) -> int:
        """Delete all but the newest run. Returns how many it has deleted."""
        return len(await self.log.prune(max_runs=1))


async def main(address: str) -> None:
    """Do what is read, until the end of the input."""
    process = Process(address)
    while line := (await asyncio.to_thread(sys.stdin.readline)).split():
        print(await process.do(*line), flush=True)
    await process.log.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
