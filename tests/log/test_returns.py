"""A process that lost a run while it was suspended, and goes on, did not die."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing

import pytest

from rxworker import Run, Worker, tool
from rxworker.errors import FencedError, LeaseHeldError, LogError, WorkerError
from rxworker.events import RunStop
from rxworker.log import EventLog, MemoryLog, open_log
from rxworker.log.values import Claim, returned_in
from rxworker.testing import ScriptedModel, call
from tests.log.conftest import NewAddress
from tests.log.test_conformance import RUN, begun, entries

LEASE = 0.1


class Desk:
    """A process: a log of its own, and a worker whose tool takes as long as the test wants."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.has_started = asyncio.Event()
        self.may_end = asyncio.Event()

        @tool(effect="idempotent")
        async def work() -> str:
            """Work."""
            self.has_started.set()
            await self.may_end.wait()
            return "done"

        self.worker = Worker(ScriptedModel([call("work")]), tools=[work], log=log)

    def suspend(self, run_id: str) -> Callable[[], None]:
        """Renew the lease no more, as a process that is stopped. Returns what continues it."""
        held = self.log.heartbeat._held.pop(run_id)  # pyright: ignore[reportPrivateUsage]
        return lambda: self.log.heartbeat.add(*held)

    async def take(self, run_id: str) -> Run[object]:
        """Recover the run when the lease of its process is over."""
        while True:
            try:
                return await self.worker.recover(run_id).started()
            except LeaseHeldError as error:
                await asyncio.sleep(max(error.until - time.time(), 0.0) + 0.005)


async def returns(log: EventLog, run_id: str, count: int) -> None:
    """Wait until so many processes have reported that they returned."""
    async with aclosing(log.commands(run_id)) as commands:
        async for _ in commands:
            count -= 1
            if not count:
                return


def _report_nothing(claim: Claim) -> None:
    """A process that has died reports nothing."""


@pytest.mark.parametrize("store", ["sqlite", "postgres", "nats"])
async def test_suspensions_do_not_set_a_run_aside_and_deaths_do(
    store: str, new_address: NewAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At one place, three processes lose the run and go on; then three die."""
    address, desks, lost = new_address(store), list[Desk](), list[Run[object]]()
    async with AsyncExitStack() as logs, asyncio.timeout(60):

        async def desk() -> Desk:
            desks.append(Desk(await logs.enter_async_context(open_log(address, lease=LEASE))))
            return desks[-1]

        owner = await desk()
        run = owner.worker.run("Begin.")
        await owner.has_started.wait()
        for number in range(1, 7):
            if number > 3:
                monkeypatch.setattr(owner.log, "_note_return", _report_nothing)
            resume, before = owner.suspend(run.id), run
            owner = await desk()
            run = await owner.take(run.id)
            if number > 3:
                lost.append(before)
            if number == 6:
                break
            await owner.has_started.wait()
            if number > 3:
                continue
            resume()  # its heartbeat finds that another process has taken the run over
            with pytest.raises(FencedError):
                await before
            await returns(owner.log, run.id, number)
        with pytest.raises(WorkerError, match="3 times after record"):
            await run
        for each in desks:
            each.may_end.set()
        ended = await asyncio.gather(*lost, return_exceptions=True)
        assert [type(error) for error in ended] == [FencedError] * 3


async def test_an_append_that_was_refused_or_not_answered_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MemoryLog(lease=0.0) as log:
        old = await begun(log)
        new = await log.claim(RUN)
        for _ in range(2):
            with pytest.raises(FencedError):
                await log.append(old, entries([RunStop()], 1), after=1)

        async def fail(*_: object) -> bool:
            raise failure

        monkeypatch.setattr(log, "_append", fail)
        for failure in (LogError("the disk is full"), LogError("no network", retryable=True)):
            with pytest.raises(LogError):
                await log.append(new, entries([RunStop()], 1), after=1)
            expected = {1, 2} if failure.retryable else {1}
            async with asyncio.timeout(60):
                await returns(log, RUN, len(expected))
            assert returned_in(await log.sent(RUN)) == expected
        assert len(await log.sent(RUN)) == 2
