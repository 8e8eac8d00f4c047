"""A permission belongs to the run that it was given to: what a recovery, a fork, an import, and a new process make of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rxworker import Finished, Paused, Worker, tool
from rxworker.log import (
    Entry,
    EventLog,
    MemoryLog,
    RunRow,
    set_allowed,
)
from rxworker.messages import Conversation
from rxworker.testing import call, say
from rxworker.worker.paused import decide_command
from tests.log.victim import ByTurn

ALWAYS = ("wipe", "requires_approval")


class Disk:
    """Tools that need approval, and count what they do."""

    def __init__(self, *, requires_approval: bool = True, replies: Sequence[Any] = ()) -> None:
        self.wiped: list[str] = []
        self.replies = replies or [call("wipe", disk="a"), say("Done.")]

        @tool(effect="idempotent", requires_approval=requires_approval)
        async def wipe(disk: str) -> str:
            """Wipe a disk."""
            self.wiped.append(disk)
            return f"{disk} is empty"

        self.tools = [wipe]

    def worker(self, log: EventLog | None, **options: Any) -> Worker:
        """A worker with these tools."""
        return Worker(ByTurn(self.replies), tools=self.tools, log=log, **options)


async def cut(log: MemoryLog, run: str, kind: str, *, new: str = "", **row: Any) -> str:
    """Copy a run up to the first entry of a kind into the log, as the run of a process that has ended."""
    entries: list[Entry] = []
    async for entry in log.read(run):
        entries.append(entry)
        if entry.kind == kind:
            break
    name = new or f"{run}-cut"
    lease, log.lease = log.lease, 0.0
    claim = await log.claim(name, create=True)
    await log.append(claim, entries, after=0, row=RunRow(title="cut", **row))
    log.lease = lease
    return name


async def allowed_of(log: EventLog, run: str) -> tuple[tuple[str, str], ...]:
    info = await log.info(run)
    assert info is not None
    return info.row.allowed


async def test_a_recovery_leaves_no_permission_in_its_worker() -> None:
    disk = Disk()
    async with MemoryLog() as log:
        worker = disk.worker(log)
        worker.allowed.append(ALWAYS)
        run = worker.run("Clean up.")
        await run
        cut_off = await cut(log, run.id, "run_start", allowed=(ALWAYS,))
        other = disk.worker(log)
        assert isinstance(await (await other.recover(cut_off)), Finished)
        assert (disk.wiped, other.allowed) == (["a", "a"], [])
        other.use_conversation(Conversation())
        assert isinstance(await other.run("Something else."), Paused)
        assert disk.wiped == ["a", "a"]


async def test_a_recovered_run_has_no_permission_of_its_worker() -> None:
    disk = Disk()
    async with MemoryLog() as log:
        run = disk.worker(log).run("Clean up.")
        await run
        worker = disk.worker(log)
        worker.allowed.append(ALWAYS)
        recovered = await worker.recover(await cut(log, run.id, "run_start"))
        assert isinstance(await recovered, Paused)
        assert (disk.wiped, recovered.allowed, worker.allowed) == ([], [], [ALWAYS])


@pytest.mark.parametrize("verb", ["decide", "recover"])
async def test_a_paused_run_that_is_resumed_from_its_log_has_its_own_permissions(verb: str) -> None:
    twice = [call("wipe", disk="a"), call("wipe", disk="b"), say("Done.")]
    for is_own in (True, False):
        disk = Disk(replies=twice)
        async with MemoryLog() as log:
            paused = disk.worker(log, labels={"tenant": "acme"}).run("Clean up.")
            await paused
            if is_own:
                await set_allowed(log, paused.id, [ALWAYS])
            worker = disk.worker(log, labels={"tenant": "other"})
            if not is_own:
                worker.allowed.append(ALWAYS)
            if verb == "decide":
                resumed = await worker.decide(paused.id)
            else:
                waiting = await worker.load(paused.id)
                assert isinstance(waiting, Paused)
                await log.send(paused.id, decide_command(waiting, None, (), worker.hooks))
                resumed = await worker.recover(paused.id)
            result = await resumed
            assert isinstance(result, Finished if is_own else Paused)
            assert worker.allowed == ([] if is_own else [ALWAYS])
            info = await log.info(resumed.id)
            assert info is not None
            assert info.row.labels == {"tenant": "acme"}


async def test_what_is_allowed_while_a_run_runs_is_stored_with_it_and_concerns_no_other() -> None:
    disk = Disk(replies=[call("wipe", disk="a"), say("Done.")])
    async with MemoryLog() as log:
        worker = disk.worker(log)
        run = worker.run("Clean up.")
        run.allowed.append(ALWAYS)
        assert isinstance(await run, Finished)
        assert (worker.allowed, await allowed_of(log, run.id)) == ([], (ALWAYS,))
        worker.use_conversation(Conversation())
        assert isinstance(await worker.run("Again."), Paused)
        worker.allowed.append(ALWAYS)
        worker.use_conversation(Conversation())
        begun = worker.run("Again.")
        worker.allowed.clear()
        assert isinstance(await begun, Finished)
        assert disk.wiped == ["a", "a"]
