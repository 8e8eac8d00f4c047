"""The file of an SQLite log: damaged, full, locked, of another version, and shared by processes."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rxworker.errors import LogError
from rxworker.log import SQLiteLog, open_log
from rxworker.log import sqlite as module
from rxworker.log.values import send_command
from tests.log.processes import RUN, entries, numbers


async def write(path: Path, count: int = 3) -> None:
    async with SQLiteLog(path) as log:
        claim = await log.claim(RUN, create=True)
        await log.append(claim, entries(count), after=0)


def killed(path: Path, *, appends: int) -> None:
    """Leave a write-ahead log behind, as a process does that is killed."""
    code = f"""
    import asyncio, os, signal
    from pathlib import Path
    from tests.log.processes import RUN, entries
    from rxworker.log import SQLiteLog

    async def main():
        log = SQLiteLog(Path({str(path)!r}), lease=0.0)
        claim = await log.claim(RUN, create=True)
        for n in range({appends}):
            await log.append(claim, entries(1, n), after=n)
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL


async def numbers_in(path: Path) -> list[int]:
    async with SQLiteLog(path) as log:
        return await numbers(log)


async def test_what_a_killed_process_has_stored_is_there_and_its_loss_is_an_error(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    killed(made / "runs.db", appends=5)
    for damage in ("none", "truncated", "flipped", "removed"):
        folder = tmp_path / damage
        shutil.copytree(made, folder)
        path, wal = folder / "runs.db", folder / "runs.db-wal"
        if damage == "none":
            assert await numbers_in(path) == [1, 2, 3, 4, 5]
            continue
        (folder / "runs.db-shm").unlink()
        data = bytearray(wal.read_bytes())
        if damage == "truncated":
            wal.write_bytes(data[:-6000])
        elif damage == "flipped":
            data[-5000] ^= 1
            wal.write_bytes(data)
        else:
            wal.unlink()
        with pytest.raises(LogError, match=r"has lost its last|damaged|not a log of rxworker") as lost:
            SQLiteLog(path)
        if damage == "truncated":  # it can be accepted
            assert re.search(r"delete .*runs\.db-barriers", str(lost.value))
            (folder / "runs.db-barriers").unlink()
            assert 0 < len(await numbers_in(path)) < 5


async def test_another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE orders(id)")
    db.commit()
    db.close()
    with pytest.raises(LogError, match="not a log of rxworker"):
        SQLiteLog(path)
    path.write_bytes(b"These are my notes, and not a database at all." * 100)
    with pytest.raises(LogError, match="damaged"):
        SQLiteLog(path)


async def test_a_log_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    await write(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(LogError, match=r"version 99.*use a newer rxworker"):
        SQLiteLog(path)


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="check that its folder exists"):
        open_log(f"sqlite:{tmp_path}/nowhere/runs.db")


@pytest.mark.parametrize("fails", ["_prepare", "_connect 2", "has_full_text"])
def test_a_log_that_cannot_be_opened_leaves_no_connection_open(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, at = fails.partition(" ")
    opened: list[sqlite3.Connection] = []

    def connect(path: Path) -> sqlite3.Connection:
        if len(opened) + 1 == int(at or 0):
            raise sqlite3.OperationalError
        opened.append(sqlite3.connect(path, isolation_level=None))
        return opened[-1]

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError

    monkeypatch.setattr(module, "_connect", connect)
    if not at:
        monkeypatch.setattr(module, name, fail)
    with pytest.raises(LogError):
        SQLiteLog(tmp_path / "runs.db")
    assert opened
    for db in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            db.execute("SELECT 1")


async def test_a_locked_file_is_an_error_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY", 0.05)
    path = tmp_path / "runs.db"
    async with SQLiteLog(path) as log:
        claim = await log.claim(RUN, create=True)
        await log.append(claim, entries(2), after=0)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogError, match="locked by another process"):
            await log.append(claim, entries(1, 2), after=2)
        assert len([entry async for entry in log.read(RUN)]) == 2
        other.execute("ROLLBACK")
        other.close()
        await log.append(claim, entries(1, 2), after=2)


def test_a_full_disk_is_an_error_and_nothing_is_corrupted(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    code = f"""
    import asyncio, resource, signal
    from pathlib import Path
    from tests.log.test_sqlite import RUN, entries
    from rxworker.errors import LogError
    from rxworker.log import SQLiteLog

    async def main():
        log = SQLiteLog(Path({str(path)!r}), lease=0.0)
        claim = await log.claim(RUN, create=True)
        await log.append(claim, entries(3), after=0)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        after = 3
        try:
            while True:
                await log.append(claim, entries(100, after), after=after)
                after += 100
        except LogError as error:
            assert "make room" in str(error), error
            print(after)

    asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    stored = int(done.stdout)
    assert asyncio.run(numbers_in(path)) == list(range(1, stored + 1))


def test_the_file_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(write(path))
    assert os.stat(path).st_mode & 0o077 == 0


async def test_a_command_of_another_process_arrives_while_this_one_reads_without_a_pause(tmp_path: Path) -> None:
    async with SQLiteLog(tmp_path / "runs.db") as here, SQLiteLog(tmp_path / "runs.db") as there:
        await here.claim(RUN, create=True)
        command = asyncio.ensure_future(anext(here.commands(RUN)))
        await here.listed(RUN)

        async def read() -> None:
            while not command.done():
                await here.listed(RUN)

        async with asyncio.timeout(5.0):
            await there.send(RUN, send_command((), withdraws="a"))
            await asyncio.gather(read(), read(), command)
