"""What `prune` deletes, in every store: runs that have ended, the oldest first, in batches, beside other processes."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rxworker.events import TextDelta
from rxworker.log import EventLog, MemoryLog, SQLiteLog
from rxworker.log.recover import DECIDE, DISMISS
from rxworker.log.values import LISTED, Command, RunRow, StoredStatus, send_command
from rxworker.messages import Message
from rxworker.worker import submit
from tests.log.conftest import STORES, OpenLog, store_of
from tests.log.processes import START
from tests.log.test_conformance import entries

open_store = pytest.fixture(params=STORES, name="open_store")(store_of)

ALL: list[dict[str, Any]] = [{"max_age": -1}, {"max_runs": 0}, {"max_bytes": 0}]
"""Each deletes everything that it may."""


async def store(log: EventLog, run_id: str, status: StoredStatus = "finished", **values: Any) -> None:
    """A run of this status that no process holds."""
    claim = await log.claim(run_id, create=True, row=RunRow(status))
    await log.append(claim, entries([START]), after=0, row=RunRow(status, **values))
    await log.release(claim)


async def kept(log: EventLog) -> list[str]:
    return sorted([info.run_id for info in await log.list()])


async def test_only_what_has_ended_is_deleted(open_store: OpenLog) -> None:
    """Each status, with each reason to delete it. What waits for no process is deleted; what waits for one stays."""
    async with open_store() as log:
        for options in ALL:
            name = next(iter(options))
            for status in LISTED:
                await store(log, f"{name}-{status}", status)
            await log.claim(f"{name}-held", create=True)
            gone = {"finished", "aborted"}
            if name != "max_age":
                gone.add("paused")
            assert {run.removeprefix(f"{name}-") for run in await log.prune(**options)} == gone
            for run in await kept(log):
                if run.endswith("-paused"):
                    await log.delete(run)
        assert {run.partition("-")[2] for run in await kept(log)} == {"queued", "running"}


async def test_what_was_submitted_is_not_deleted(open_store: OpenLog) -> None:
    async with open_store() as log:
        run = await submit(log, "Go")
        for options in ALL:
            assert await log.prune(**options) == []
        assert await kept(log) == [run]


async def test_a_paused_run_is_kept_while_its_decision_waits_and_no_longer_than_other_runs_once_it_was_resumed(
    open_store: OpenLog,
) -> None:
    async with open_store() as log:
        for run in ("decided", "dismissed", "open"):
            await store(log, run, "paused")
        await log.send("decided", Command(DECIDE, {}, key=DECIDE))
        await log.send("dismissed", Command(DECIDE, {DISMISS: "no"}, key=DECIDE))
        await log.send("open", send_command((Message.user("And?"),)))
        assert await log.prune(max_age=-1) == []
        await store(log, "open~2", "paused")
        assert await log.prune(max_age=-1) == ["open"]
        assert sorted(await log.prune(max_runs=0)) == ["dismissed", "open~2"]
        await store(log, "decided~2", "queued")
        assert await log.prune(max_age=-1) == ["decided"]
        assert await kept(log) == ["decided~2"]


async def test_the_newest_are_kept_and_the_oldest_are_deleted_first(open_store: OpenLog) -> None:
    async with open_store() as log:
        for number in range(5):
            await store(log, f"run-{number}")
        size = (await log.list())[0].size
        assert await log.prune(max_age=3600) == []
        assert await log.prune(max_bytes=3 * size) == ["run-0", "run-1"]
        assert await log.prune(max_runs=1) == ["run-2", "run-3"]


async def test_a_run_that_changes_meanwhile_is_kept(open_store: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision, a claim and a new status come between the list and the deletion."""
    async with open_store(owner="me") as log:
        for run in ("claimed", "told", "steered", "old"):
            await store(log, run, "paused")
        prune = log._prune

        async def late(rows: Any) -> set[str]:
            await log.claim("claimed", statuses=("paused",))
            claim = await log.claim("told", statuses=("paused",))
            await log.append(claim, [], after=1, row=RunRow("queued"))
            await log.release(claim)
            await log.send("steered", Command(DECIDE, {}, key=DECIDE))
            return await prune(rows)

        monkeypatch.setattr(log, "_prune", late)
        assert await log.prune(max_runs=0) == ["old"]
        assert await kept(log) == ["claimed", "steered", "told"]


async def test_two_that_prune_at_once_share_the_work(open_store: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.log.base.PRUNED", 3)
    async with open_store() as log, open_store() as opened:
        other = log if isinstance(log, MemoryLog) else opened
        runs = [f"run-{number:02}" for number in range(20)]
        await asyncio.gather(*(store(log, run) for run in runs))
        found = await asyncio.gather(log.prune(max_runs=2), other.prune(max_runs=2))
        assert len(found[0]) + len(found[1]) == len({*found[0], *found[1]}) == 18
        assert len(await kept(log)) == 2


async def test_a_prune_passes_in_short_transactions(open_store: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many runs, and about so many bytes, since others wait for it."""
    monkeypatch.setattr("rxworker.log.base.PRUNED", 3)
    sizes: list[int] = []
    async with open_store() as log:
        prune = log._prune

        async def note(rows: Any) -> set[str]:
            sizes.append(len(rows))
            return await prune(rows)

        monkeypatch.setattr(log, "_prune", note)
        await asyncio.gather(*(store(log, f"run-{number}") for number in range(8)))
        assert len(await log.prune(max_age=-1)) == 8
        assert sizes == [3, 3, 2]
        sizes.clear()
        monkeypatch.setattr("rxworker.log.base.PRUNED_BYTES", 1)
        await asyncio.gather(*(store(log, f"more-{number}") for number in range(3)))
        assert len(await log.prune(max_age=-1)) == 3
        assert sizes == [1, 1, 1]


async def test_a_list_goes_on_behind_a_run_that_was_deleted(open_store: OpenLog) -> None:
    async with open_store() as log:
        for number in range(6):
            await store(log, f"run-{number}")
        await log.delete("run-3")
        await log.delete("run-5")
        assert [info.run_id for info in await log.list(limit=2)] == ["run-4", "run-2"]
        assert [info.run_id for info in await log.list(before="run-3")] == ["run-2", "run-1", "run-0"]
        assert [info.run_id for info in await log.list(before="run-5", status="finished", limit=1)] == ["run-4"]


async def test_the_list_of_a_file_does_not_read_its_tombstones(tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as log:
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        async def cost() -> int:
            nonlocal steps
            steps = 0
            assert len(await log.list(limit=2)) == 2
            assert len(await log.list(limit=2, status="finished")) == 2
            return steps

        for number in range(5):
            await store(log, f"run-{number}")
        log._reading.set_progress_handler(count, 1)
        before = await cost()
        await asyncio.gather(*(store(log, f"gone-{number}") for number in range(300)))
        await store(log, "last")
        await log._prune(await log._list(None, "last", 300))
        assert len(await kept(log)) == 6
        assert await cost() < before * 1.5


async def test_a_file_becomes_smaller(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    text = TextDelta(0, "four" * 5000)
    async with SQLiteLog(path) as log:
        for number in range(40):
            claim = await log.claim(f"run-{number}", create=True)
            await log.append(claim, entries([START, text]), after=0, row=RunRow("finished"))
            await log.release(claim)
        await log.prune(max_runs=2)
        assert path.stat().st_size < 200_000
        assert path.with_name("runs.db-wal").stat().st_size < 200_000
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert [len([e async for e in log.read(run)]) for run in await kept(log)] == [2, 2]
