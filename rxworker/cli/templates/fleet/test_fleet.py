"""A run is submitted twice under one id, taken by a worker, and finished once."""

import asyncio

from fleet import make_worker
from rxworker.log import MemoryLog, Replica
from rxworker.worker import submit, work


async def submit_and_work() -> str:
    async with MemoryLog() as log:
        working = asyncio.create_task(work(log, make_worker))
        for _ in range(2):  # as after a lost connection: the same id is the same run
            await submit(log, "Write to Ada.", kind="letters", run_id="letter-1")
        replica = Replica(log, "letter-1")
        await replica.ended()
        working.cancel()
        await asyncio.wait([working])
        assert len(await log.list()) == 1
        return replica.state.conversation.messages[-1].text


def test_a_queued_run_is_finished() -> None:
    assert asyncio.run(submit_and_work()) == "The letter is on its way."
