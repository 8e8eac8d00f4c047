"""A process of the release before this one and one of this one at work on the same log."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from rxworker import Worker, tool
from rxworker.events import TurnStart
from rxworker.log import RunInfo, open_log
from rxworker.testing import ScriptedModel, call
from rxworker.tools import ToolContext
from rxworker.worker import submit
from tests.log.conftest import NewAddress
from tests.log.processes import stored, working
from tests.log.test_waits import end_of_last
from tests.log.version_at_work import Process
from tests.pauses import pause_of
from tests.whole import SLOW_STORES

ROOT = Path(__file__).parents[2]
BEFORE = "a8785d1c"
"""The commit of the release before: 0.2.0."""
PROGRAM = Path(__file__).with_name("version_at_work.py")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package of the release before."""
    archive = subprocess.run(["git", "archive", BEFORE, "rxworker"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"the history of the repository is missing: it has no commit {BEFORE}")
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


class Older:
    """A process of the release before, with the methods of `Process`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, *what: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(what).encode() + b"\n")
        return (await self._process.stdout.readline()).decode().strip()


@asynccontextmanager
async def older(folder: Path, address: str) -> AsyncGenerator[Older]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        address,
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Older(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(60):
            await process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("store", SLOW_STORES)
async def test_both_versions_work_on_a_log_that_the_older_one_has_made(
    store: str, before: Path, new_address: NewAddress
) -> None:
    """Each opens, submits, works, continues a conversation and cancels what the other one has."""
    address = new_address(store)
    async with older(before, address) as old:
        waits = await old.do("submit", "early")
        new = Process(address)
        assert await old.do("reopen") == "open"  # as a process that is started later
        await new.do("work")
        assert await new.do("ended", waits) == "finished"
        assert await old.do("ended", await old.do("submit", "old")) == "finished"
        await new.do("stop")
        await old.do("work")
        assert await new.do("ended", await new.do("submit", "new")) == "finished"
        at = time.time() + 1.5
        assert await new.do("ended", later := await submit(new.log, "later", at=at)) == "finished"  # by the older one
        assert next(one.time for one in await stored(new.log, later) if type(one.event) is TurnStart) >= at
        await old.do("stop")
        run = "-"
        for number, process in enumerate([old, new, old, new], 1):
            run = await process.do("chat", run, "question")
            assert await old.do("length", run) == await new.do("length", run) == str(2 * number)
        for holds, cancels in ((new, old), (old, new)):
            held = await holds.do("hold")
            await cancels.do("cancel", held)
            assert await holds.do("outcome") == "RunCancelledError"
    await new.log.upgrade()
    more = await new.do("chat", run, "more")
    if new.log.keeps_bases:
        whole, cut = [(await new.log.existing(one)).size for one in (run, more)]
        assert cut < whole
    await new.do("reopen")
    assert await new.do("length", more) == "10"
    await new.log.close()


@pytest.mark.parametrize("store", SLOW_STORES)
async def test_both_versions_work_on_a_log_that_the_newer_one_has_made(
    store: str, before: Path, new_address: NewAddress
) -> None:
    """The older one leaves alone what it would see a part of, and what others refer to.

    It continues no conversation that is stored once, and deletes nothing that such a one refers to.
    """
    address = new_address(store)
    new = Process(address)
    first = await new.do("chat", "-", "one")
    second = await new.do("chat", first, "two")
    async with older(before, address) as old:
        await old.do("work")
        assert await new.do("ended", await new.do("submit", "other")) == "finished"
        await old.do("stop")
        last = await new.do("chat", second, "three")
        if new.log.keeps_bases:
            assert await old.do("chat", last, "four") == "LogError"
        await old.do("prune")
    assert await new.do("length", last) == "6"
    await new.do("reopen")
    assert await new.do("length", last) == "6"
    await new.log.close()


def _only(worker: Worker, info: RunInfo) -> Worker | None:
    return worker if info.row.title == "Ship it." else None


@pytest.mark.slow
@pytest.mark.parametrize("store", SLOW_STORES)
async def test_an_older_process_neither_wakes_nor_loses_a_run_that_waits(
    store: str, before: Path, new_address: NewAddress
) -> None:
    """It works beside the newer one, and is the first to look after the signal."""

    @tool(effect="idempotent")
    async def ship(context: ToolContext) -> str:
        return f"paid: {await context.until(2.5, signal='paid')}"

    address = new_address(store)
    async with older(before, address) as old, open_log(address, lease=60.0) as log:
        await old.do("work")
        for name in ("paid", "other"):
            run = Worker(ScriptedModel([call("ship"), "Done."]), tools=[ship], log=log).run("Ship it.")
            await pause_of(run)
            await log.signal(run.id, name)
            assert await old.do("ended", await old.do("submit", "another")) == "finished"  # it has looked
            assert (await log.existing(run.id)).status == "paused"
            assert await log.info(f"{run.id}~2") is None
            worker = Worker(ScriptedModel(["Done."]), tools=[ship])
            async with working(log, partial(_only, worker)):
                replica = await end_of_last(log, f"{run.id}~2")
            texts = [result.text for message in replica.state.conversation.messages for result in message.tool_results]
            assert texts == ["paid: " + ("" if name == "paid" else "None")]
