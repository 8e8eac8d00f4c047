"""A log, an event loop and a process that end while a run goes on.

The run is left to other processes at once, in every store.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from rxworker import Worker, tool
from rxworker.errors import RunHandedOverError
from rxworker.events import AttemptStart, ToolStart
from rxworker.log import EventLog, MemoryLog, open_log
from rxworker.testing import ScriptedModel, call
from rxworker.worker.nested import worker_tool
from tests.log.conftest import NewAddress, OpenLog
from tests.whole import one_of

Place = tuple[type[AttemptStart | ToolStart], bool]


def streaming() -> Worker:
    return Worker(ScriptedModel(["It does not end."], delay=600.0))


def in_a_tool() -> Worker:
    @tool
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(600.0)
        return "done"

    return Worker(ScriptedModel([call("wait")]), tools=[wait])


def with_a_nested_run() -> Worker:
    return Worker(
        ScriptedModel([call("scout", task="Look")]), tools=[worker_tool(streaming(), name="scout", description="Look.")]
    )


async def left(log: EventLog, worker: Worker, place: Place) -> str:
    """Begin a run, and leave the log as soon as the run is at a place. Returns its id."""
    async with log:
        run = worker.new_session(log=log).run("Hi")
        async for record in run:
            if isinstance(record.event, place[0]) and bool(record.path) is place[1]:
                break
        await run.barrier()
    assert isinstance(run.exception(), RunHandedOverError)
    return run.id


@pytest.mark.parametrize(
    ("make", "place"),
    [(streaming, (AttemptStart, False)), (in_a_tool, (ToolStart, False)), (with_a_nested_run, (AttemptStart, True))],
)
async def test_a_run_that_goes_on_when_its_log_is_closed_is_handed_over(
    make: Callable[[], Worker], place: Place, open_store: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rxworker.run.driver.GRACE", 0.05)
    log = open_store(lease=600.0)
    run = await left(log, make(), place)
    if isinstance(log, MemoryLog):
        log.is_closed = False  # its runs are nowhere else
        again = log
    else:
        again = open_store(lease=600.0)
    async with again:
        infos = await again.list()
        assert run in [info.run_id for info in infos]
        assert {(info.status, info.owner) for info in infos} == {("running", "")}
        assert all(info.is_cut_off() for info in infos)


PROGRAM = """
import asyncio, sys
from rxworker import Worker
from rxworker.log import open_log
from rxworker.testing import ScriptedModel

async def main():
    log = open_log(sys.argv[1])
    run = Worker(ScriptedModel(["It does not end."], delay=600.0), log=log).run("Hi")
    async for record in run:
        break
    await run.barrier()
    print(run.id, flush=True)
    {end}

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("store", "end"),
    one_of(
        [
            ("nats", "raise KeyboardInterrupt"),
            ("nats", "return"),
            ("nats", "sys.exit(3)"),
            ("sqlite", "return"),
            ("postgres", "return"),
        ]
    ),
)
async def test_a_process_that_ends_while_a_run_goes_on_stores_its_end_and_does_not_wait(
    end: str, store: str, new_address: NewAddress
) -> None:
    address, began = new_address(store), time.monotonic()
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", PROGRAM.format(end=end), address],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert time.monotonic() - began < 20  # of a machine that others use too; it was 30 s and more
    async with open_log(address) as log:
        info = await log.existing(done.stdout.strip())
        assert (info.status, info.owner) == ("aborted", ""), done.stderr
    assert "Task was destroyed" not in done.stderr, done.stderr
