"""Owners that cannot reach their log, or stand still, for longer than their lease.

Another process replaces them, and they are refused.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import time
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from rxworker import Run
from rxworker.errors import FencedError, LeaseHeldError
from rxworker.events import RunRecover, RunStop
from rxworker.log import EventLog, open_log
from tests.log.clerk import Clerk
from tests.log.conftest import NewAddress
from tests.log.postgres_server import PASSWORD, PostgresServer
from tests.log.processes import stored
from tests.log.proxy import Proxy
from tests.whole import SLOW_STORES

LEASE = 0.6


async def watch(log: EventLog, run_id: str) -> list[int]:
    """The numbers of all records, as a follower sees them."""
    seen: list[int] = []
    async with aclosing(log.follow(run_id)) as following:
        async for entry in following:
            seen += range(entry.first, entry.last + 1)
            if entry.kind == "run_stop":
                break
    return seen


async def recover(clerk: Clerk, run_id: str) -> Run[None]:
    """Recover a run when the lease of its owner has ended."""
    while True:
        try:
            return await clerk.worker.recover(run_id).started()
        except LeaseHeldError as error:
            await asyncio.sleep(max(error.until - time.time(), 0) + 0.01)


@pytest.fixture(params=["nats", "postgres"])
def by_network(request: pytest.FixtureRequest, new_address: NewAddress) -> tuple[str, int]:
    """The address of a log over the network, and its port."""
    address = new_address(request.param)
    if request.param == "nats":
        return address, request.getfixturevalue("nats_server").port
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.address(address.rpartition("=")[2], password=PASSWORD), server.port


async def test_a_worker_that_is_cut_off_is_replaced_and_refused(by_network: tuple[str, int]) -> None:
    address, port = by_network
    async with Proxy(port) as proxy:
        cut = address.replace(f":{port}", f":{proxy.port}")
        # Postgres connects in the constructor, while the proxy needs the event loop.
        opened = await asyncio.to_thread(open_log, cut, lease=LEASE)
        async with opened as log, open_log(address) as other:
            zombie, clerk = Clerk(log), Clerk(other)
            run = zombie.worker.run("Begin.")
            await zombie.started.wait()
            proxy.cut()
            recovered = await recover(clerk, run.id)
            await clerk.started.wait()
            watching = asyncio.create_task(watch(other, run.id))
            proxy.heal()
            async with asyncio.timeout(60):
                with pytest.raises(FencedError, match="taken over"):
                    await run
            assert zombie.was_cancelled
            clerk.go_on.set()
            await recovered
            records = await stored(other, run.id)
            numbers = list(range(1, len(records) + 1))
            assert [record.seq for record in records] == numbers
            assert await watching == numbers
            assert sum(isinstance(record.event, RunRecover) for record in records) == 1
            assert isinstance(records[-1].event, RunStop)


def stop(pid: int, address: str) -> None:
    """Stop a process where it holds no transaction of SQLite, which would keep all others out of the file."""
    path = address.removeprefix("sqlite:")
    while True:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        if path == address:
            return
        try:
            with closing(sqlite3.connect(path, timeout=0.0, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                return
        except sqlite3.OperationalError:
            os.kill(pid, signal.SIGCONT)


STOPPED = f"""
import asyncio, sys
from rxworker.errors import FencedError
from rxworker.log import open_log
from tests.log.clerk import Clerk

async def main():
    async with open_log(sys.argv[1], lease={LEASE}) as log:
        clerk = Clerk(log)
        run = clerk.worker.run("Begin.")
        await clerk.started.wait()
        print(run.id, flush=True)
        try:
            await run
        except FencedError:
            print("refused", clerk.was_cancelled, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("store", SLOW_STORES)
async def test_a_process_that_is_stopped_for_longer_than_its_lease_is_refused(
    store: str, new_address: NewAddress
) -> None:
    address = new_address(store)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STOPPED, address,
        stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert process.stdout is not None
    run = (await process.stdout.readline()).decode().strip()
    stop(process.pid, address)
    async with open_log(address) as log:
        clerk = Clerk(log)
        clerk.go_on.set()
        await (await recover(clerk, run))
        before = await stored(log, run)
        process.send_signal(signal.SIGCONT)
        assert await process.stdout.read() == b"refused True\n"
        await process.wait()
        assert await stored(log, run) == before
        assert [record.seq for record in before] == list(range(1, len(before) + 1))
