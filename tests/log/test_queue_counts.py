"""What a queued run costs does not grow with the number of processes that wait for one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rxworker import Worker
from rxworker.errors import RunCancelledError
from rxworker.log import EventLog, Replica, SQLiteLog, open_log, recover
from rxworker.log.store import CALLS, Waker
from rxworker.testing import ScriptedModel
from rxworker.worker import submit
from tests.bench.queue_counts import count
from tests.log.conftest import NewAddress
from tests.log.processes import end_of, working
from tests.whole import SLOW_STORES


@pytest.mark.parametrize("store", SLOW_STORES)
async def test_a_queued_run_wakes_one_process_and_costs_the_same_with_any_number_of_them(
    store: str, new_address: NewAddress
) -> None:
    """Of runs that are submitted together, two processes take several while they look; of twelve, each takes one."""
    [few] = await count(new_address(store), 2, 5)
    many, together = await count(new_address(store), 12, 5, 12)
    assert many.woken <= 1.4, (few, many)
    assert many.statements < 1.3 * few.statements, (few, many)
    assert together.woken <= 1.5, (few, together)
    assert together.statements < 2 * few.statements, (few, together)


@pytest.mark.parametrize("store", SLOW_STORES)
async def test_a_run_for_later_costs_the_same_with_any_number_of_processes(store: str, new_address: NewAddress) -> None:
    """One process is called when it is submitted, and that one alone sleeps until it is due."""
    costs = [await count(new_address(store), processes, 2, seconds=0.3) for processes in (2, 12)]
    assert all(cost.woken <= 2.0 and cost.statements < 35 for [cost] in costs), costs


async def test_a_run_of_another_kind_wakes_only_processes_of_that_kind(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with SQLiteLog(path) as desk, SQLiteLog(path) as clerk, SQLiteLog(path) as cook:
        with Waker(clerk.followers, CALLS, False), Waker(cook.followers, CALLS, False) as cooks:
            await clerk._await_call(["clerk"])
            await cook._await_call(["cook", "baker"])
            await desk.call_worker("baker")
            await cooks.wait()
            await cook._await_call(["cook"])
            await desk.call_worker("baker")
            await desk.call_worker("clerk")
            await desk.call_worker("cook")
            assert await cooks.wait()


@pytest.mark.parametrize("store", SLOW_STORES)
async def test_a_run_that_the_called_process_cannot_continue_is_taken_by_another_one(
    store: str, new_address: NewAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recover, "LOOK", 600.0)
    address = new_address(store)
    logs = _open(address), _open(address), _open(address)
    async with logs[0] as desk, logs[1] as able, logs[2] as other, working(able), working(other, lambda _: None):
        for _ in range(3):
            await end_of(desk, await submit(desk, "Hi"))
    # And a run whose call is lost, as of a process of an older version, which makes none.
    monkeypatch.setattr(recover, "LOOK", 0.05)
    async with _open(address) as desk, _open(address) as log, working(log):
        desk.calls = False
        for _ in range(2):
            await end_of(desk, await submit(desk, "Hi"))


@pytest.mark.parametrize("store", SLOW_STORES)
async def test_a_command_wakes_the_owner_that_follows_nothing_else(store: str, new_address: NewAddress) -> None:
    address = new_address(store)
    async with _open(address) as desk, _open(address) as log:
        worker = Worker(ScriptedModel(["Never ends"], delay=600.0), log=log)
        run = worker.run("Hi")
        while await desk.info(run.id) is None:  # noqa: ASYNC110 - another process has no event
            await asyncio.sleep(0.001)
        replica = Replica(desk, run.id)
        await replica.cancel(reason="enough")
        with pytest.raises(RunCancelledError):
            await run


def _open(address: str) -> EventLog:
    return open_log(address, lease=600.0)
