"""A process of a queue goes on when something fails once: the worker's function, the log, a callback.

And it leaves no claim behind when it stops.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rxworker import Approve, Run, Worker, tool
from rxworker.errors import LogError
from rxworker.log import MemoryLog, RunInfo
from rxworker.messages import Json
from rxworker.resume.stored import read_run
from rxworker.testing import ScriptedModel, call, say
from rxworker.worker import QueuedWorker, recover_all, submit, work
from tests.log.conftest import until
from tests.log.processes import says_done, working


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has failed is tried again at once."""
    monkeypatch.setattr("rxworker.log.recover.RETRIES", (0.001, 0.002))


async def ends(log: MemoryLog, *runs: str) -> None:
    """Wait for the ends of runs, without a call that may fail."""
    await until(lambda: all(run in log._rows and log._rows[run].status == "finished" for run in runs))


async def test_a_worker_that_cannot_be_made_once_or_twice_is_made_later(
    caplog: pytest.LogCaptureFixture, log: MemoryLog
) -> None:
    tries = Counter[str]()

    def make(info: RunInfo) -> Worker:
        tries[info.run_id] += 1
        if tries[info.run_id] < 4:
            raise ValueError("the database of prompts is away")
        return says_done(info)

    runs = [await submit(log, f"{n}") for n in range(3)]
    async with working(log, make):
        await ends(log, *runs)
    assert {*tries.values()} == {4}
    assert "the database of prompts is away. It is tried again in 0.001 s" in caplog.text


async def test_one_run_that_always_fails_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.log.recover.RETRIES", (0.1, 60.0))  # longer than a machine that is busy takes to fail

    def make(info: RunInfo) -> Worker:
        if info.row.title == "bad":
            raise SystemError("never")
        return says_done(info)

    async with MemoryLog() as log:
        await submit(log, "bad", priority=9)
        async with working(log, make, concurrency=1):
            for title in "abc":
                await ends(log, await submit(log, title))
        recovered = [run.id async for run in recover_all(log, make, once=True)]
        assert recovered == []
        assert len(await log.list(status="queued")) == 1


CALLS = ["_claim", "_info", "_list", "_changed_since", "_read_commands", "_release", "_read"]


@pytest.mark.parametrize("cap", [None, 1])
@pytest.mark.parametrize("name", CALLS)
async def test_an_error_of_the_log_ends_no_process(name: str, cap: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call that a log makes for the queue fails, at each of its first times, once."""
    for number in range(6):
        async with MemoryLog(lease=0.05) as log:
            runs = [await submit(log, f"{n}", tenant="acme") for n in range(2)]
            original, count = getattr(log, name), 0

            async def fail(*args: Any, number: int = number, original: Any = original) -> Any:
                nonlocal count
                count += 1
                if count == number + 1:
                    raise LogError("locked by another process for more than 5 s")
                return await original(*args)

            with monkeypatch.context() as patch:
                patch.setattr(log, name, fail)
                async with working(log, says_done, tenant_cap=cap) as task:
                    await ends(log, *runs)
                    assert not task.done()


async def test_a_log_that_stays_away_ends_the_process_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.log.recover.PATIENCE", 0.01)

    async def fail(*_: object) -> Any:
        raise LogError("the server is away")

    async with MemoryLog() as log:
        monkeypatch.setattr(log, "_list", fail)
        with pytest.raises(LogError, match="the server is away"):
            await work(log, says_done)


async def test_a_run_that_ended_while_the_log_was_away_counts_for_no_tenant(
    monkeypatch: pytest.MonkeyPatch, log: MemoryLog
) -> None:
    held = await submit(log, "held", tenant="acme")
    claim = await log.claim(held)
    changed = log._changed_since
    away = asyncio.Event()

    async def fail(*args: Any) -> Any:
        if away.is_set():
            away.clear()
            await log.delete(held)
            raise LogError("away")
        return await changed(*args)

    monkeypatch.setattr(log, "_changed_since", fail)
    async with working(log, says_done, tenant_cap=1):
        other = await submit(log, "other", tenant="acme")
        await log.release(claim)
        away.set()
        await ends(log, other)


async def test_a_callback_that_raises_ends_no_process(caplog: pytest.LogCaptureFixture, log: MemoryLog) -> None:
    def fail(run: Run[object]) -> None:
        raise KeyError("my dashboard")

    runs = [await submit(log, f"{n}") for n in range(3)]
    async with working(log, says_done, on_run=fail, concurrency=1):
        await ends(log, *runs)
    assert "my dashboard" in caplog.text


async def test_the_cap_of_a_tenant_holds_for_runs_that_were_approved(log: MemoryLog) -> None:
    now = most = 0

    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(20):
            await asyncio.sleep(0)
        now -= 1
        return "paid"

    def make(info: RunInfo) -> Worker:
        return Worker(ScriptedModel([say("Paid.")] if info.status == "paused" else [call("pay")]), tools=[pay])

    async with working(log, make, tenant_cap=1):
        runs = [await submit(log, "Pay", tenant="acme") for _ in range(5)]
        await until(lambda: all(log._rows[run].status == "paused" for run in runs))
    desk = QueuedWorker("", log=log)
    given: Json = {"desk": "two"}
    resumed = [
        await desk.decide_later(run, [Approve()], shared_state=given if run is runs[0] else None) for run in runs
    ]
    async with working(log, make, tenant_cap=1), working(log, make, tenant_cap=1):
        await ends(log, *resumed)
    states = [(await read_run(log, run)).state.shared_state for run in resumed]
    assert states == [given, None, None, None, None]
    assert most == 1
    assert all(info.owner == "" for info in await log.list())


async def test_a_process_that_is_stopped_at_any_moment_leaves_no_claim() -> None:
    """It is cancelled after each number of steps of the event loop, with a log whose calls take some."""
    for steps in range(0, 90, 2):
        async with MemoryLog() as log:
            for name in ("_claim", "_info", "_append", "_read", "_release"):
                setattr(log, name, slow(getattr(log, name)))
            runs = [await submit(log, "Go", tenant="acme") for _ in range(2)]
            task = asyncio.create_task(work(log, says_done, tenant_cap=1, drain=0.0))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            held = [info.run_id for run in runs if (info := await log.info(run)) and info.owner]
            assert held == [], f"after {steps} steps"


def slow(work: Callable[..., Any]) -> Callable[..., Any]:
    async def later(*args: Any) -> Any:
        for _ in range(3):
            await asyncio.sleep(0)
        result = await work(*args)
        for _ in range(3):
            await asyncio.sleep(0)
        return result

    return later


async def test_recovering_once_reports_that_a_lease_has_not_ended(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryLog(owner="host:1:dead", lease=15.0) as log:
        run = await submit(log, "Go")
        await log.claim(run)
        log.owner = "host:2:alive"
        assert [one async for one in recover_all(log, says_done, once=True)] == []
        assert f"{run} is held by host:1:dead" in caplog.text
        assert re.search(r"up to 1\d\.\d s", caplog.text)
        assert "once=True" in caplog.text
