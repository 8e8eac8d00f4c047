"""A log in an SQLite file: the embedded default, for several processes of one machine.

Theory of operation. A writer thread has one connection, and takes all that waits in its queue into one transaction, so
that many runs share a commit. A barrier is committed with ``synchronous=FULL``, so that it survives a loss of power;
other appends with ``NORMAL``, so that they survive the end of the process. A reader thread has another connection.
While something follows a run, it looks every `POLL` seconds whether any process has committed (``PRAGMA data_version``,
which reads no table), since SQLite has no notifications. A process that only runs its runs, or waits for one, looks at
its place in a small file beside the database instead: who sends a command to one of its runs, or calls it to a run that
waits, writes there.

Leases are by a clock that all processes share and that is never set: that of the running system, and a constant that
the first process after its start has stored. So a step of the clock of the machine takes no run from its process. What
is read is converted to the clock of the machine.

SQLite itself stops silently at the first damaged frame of its write-ahead log. So each barrier is counted twice: in the
database, and after its commit in a small file beside it. If the file counts more, barriers are missing, and the log
refuses to open.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, final

from msgspec.structs import astuple, replace

from rxworker.errors import LeaseHeldError, LocalProtocolError, LogError, RunStatusError
from rxworker.log.base import EventLog, already_stored, no_run
from rxworker.log.format import Entry
from rxworker.log.leases import LEASE, Offset
from rxworker.log.memory import check_command, check_status, conflict, refusal
from rxworker.log.search import changed_texts, find_texts, forget, has_full_text, index_texts
from rxworker.log.store import ALL_RUNS, Append, Codec, StoredRow, check_version, sql_parts
from rxworker.log.values import LATER, LISTED, Claim, StoredStatus
from rxworker.messages.settings import check_type

T = TypeVar("T")

FORMAT = 1
"""The version of the tables."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
BOOTTIME = getattr(time, "CLOCK_BOOTTIME", 0)
APPLICATION = 0x72787731  # "rxw1", in the header of the file
POLL, POLL_COMMANDS = 0.005, 0.02
"""Seconds between two looks at the database, and between two at the file of calls while nothing else is followed."""
BUSY = 5.0
"""Seconds to wait for another process that writes."""
WATCHED = 10.0
"""Seconds for which a process marks a run as watched."""
SQL = sql_parts("sqlite")
"""The tables and the statements, by their names in ``sqlite.sql``."""
HAS_BASES = "SELECT 1 FROM sqlite_master WHERE name='bases'"
SELDOM = 0.25
"""Seconds after which the database is looked at in any case.

A process of an older version writes into no file of calls.
"""
PLACES = 4096
"""Places of processes in the file of calls. Two that share one are woken together."""
VACUUMED = 2000
"""How many pages are given back in one transaction."""
INCREMENTAL = 2
"""The mode of a file that gives pages back on request. It is set when the file is made."""


FORGOTTEN = 86400.0
"""Seconds after which a process that waits, and may have ended, is no longer called."""

_WIDTH = len(StoredRow.__struct_fields__)
BEGIN = "BEGIN IMMEDIATE"
"""Locks at its start, so that no transaction fails for a lock in the middle."""


class _Job(NamedTuple):
    """One thing for a thread to do, and the future of its result."""

    work: Callable[[sqlite3.Connection], Any]
    future: Future[Any]
    durable: bool = False


@final
class SQLiteLog(EventLog):
    """A log in an SQLite file. Several processes of one machine may open the same file; it must be on a local disk.

    Args:
        path: The file; it is created if it does not exist.
        codec: Applied to what is stored.
        owner: The name of this process in claims.
        lease: Seconds that a claim lasts without a heartbeat.

    Raises:
        LogError: The file cannot be opened, is not a log, is damaged, or has a newer version.

    Example:
        >>> import asyncio, tempfile
        >>> async def main(folder: str) -> None:
        ...     async with SQLiteLog(f"{folder}/runs.db") as log:
        ...         print(await log.list())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(main(folder))
        []
    """

    def __init__(self, path: str | Path, *, codec: Codec | None = None, owner: str = "", lease: float = LEASE) -> None:
        super().__init__(codec=codec, owner=owner, lease=lease)
        check_type("path", path, (str, Path), "SQLiteLog('runs.db')")
        self.path = Path(path)
        _create(self.path)
        with self._explained(), contextlib.ExitStack() as opened:
            self._writing = opened.enter_context(contextlib.closing(_connect(self.path)))
            _prepare(self._writing, self.path)
            _check_barriers(self._writing, self.path)
            self._ahead = _ahead(self._writing)
            self._shift = Offset()  # of the clock of the machine, against that of the leases
            (self.id,) = self._writing.execute("SELECT id FROM log").fetchone()
            self._reading = opened.enter_context(contextlib.closing(_connect(self.path)))
            self.keeps_bases = self._writing.execute(HAS_BASES).fetchone() is not None
            # What a codec encrypts must not be in an index beside it.
            self.searches_texts = codec is None and has_full_text(self._reading)
            opened.pop_all()  # they stay open
        self._calls = os.open(_beside(self.path, "calls"), os.O_RDWR | os.O_CREAT, 0o600)
        if os.fstat(self._calls).st_size < PLACES * 8:
            os.ftruncate(self._calls, PLACES * 8)  # where it grew later, other places would change from none to zeros
        self._indexing, self._has_index = asyncio.Lock(), False
        self._is_full: bool | None = None
        self._writes: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="rxworker log writer", daemon=True)
        self._reader = threading.Thread(target=self._read_on, name="rxworker log reader", daemon=True)
        self._writer.start()
        self._reader.start()

    calls = True

    def __repr__(self) -> str:
        return f"SQLiteLog({str(self.path)!r})"

    # Owners

    async def _claim(self, run_id: str, row: bytes | None, statuses: Collection[StoredStatus]) -> Claim:
        return await self._to_writer(lambda db: self._take(db, run_id, row, statuses), durable=True)

    async def _claim_any(self, runs: Sequence[str], statuses: Collection[StoredStatus]) -> Claim | None:
        def work(db: sqlite3.Connection) -> Claim | None:
            for run in runs:
                with contextlib.suppress(LeaseHeldError, RunStatusError):
                    return self._take(db, run, None, statuses)
            return None

        return await self._to_writer(work, durable=True)

    def _take(
        self, db: sqlite3.Connection, run_id: str, row: bytes | None, statuses: Collection[StoredStatus]
    ) -> Claim:
        now = self._now()
        if row is not None:
            db.execute(SQL["create"], (run_id, row, time.time(), time.time()))
            if db.execute(SQL["is_used"], (run_id,)).fetchone():
                raise already_stored(run_id)
        key, status, held, until = _find(db, run_id, "id, status, owner, lease")
        if row is None:
            check_status(run_id, status, statuses)
        if held and until > now:
            raise LeaseHeldError(run_id, held, until + self._set_by())
        epoch, last = db.execute(SQL["claim"], (self.owner, now + self.lease, key)).fetchone()
        return Claim(run_id, epoch, last, self.owner)

    async def _await_call(self, kinds: Sequence[str]) -> None:
        values = (self.owner, "".join(f"\n{kind}\n" for kind in kinds), time.time())

        def work(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO waiting VALUES(?,?,?)", values)
            db.execute("DELETE FROM waiting WHERE since<?", (values[2] - FORGOTTEN,))

        await self._to_writer(work)

    async def _dismiss_call(self) -> None:
        await self._to_writer(lambda db: db.execute("DELETE FROM waiting WHERE owner=?", (self.owner,)))

    async def _call(self, kind: str, to_all: bool) -> None:
        values = (kind, f"\n{kind}\n", -1 if to_all else 1)
        found = await self._to_writer(lambda db: db.execute(SQL["call"], values).fetchall())
        self._poke([owner for (owner,) in found])

    def _poke(self, owners: Iterable[str]) -> None:
        """Write to the places of processes, which look at them."""
        for owner in owners:
            with contextlib.suppress(OSError):  # they look by themselves, too
                os.pwrite(self._calls, os.urandom(8), _place_of(owner))

    async def _append(self, append: Append) -> bool:
        run, epoch, owner = append.claim.run_id, append.claim.epoch, self.owner
        last, size, row, status = append.last, append.size, append.row, append.status

        def work(db: sqlite3.Connection) -> bool:
            now = time.time()
            values = (last, now, size, row, status, run, epoch, append.after)
            found: tuple[int, float, str] | None = db.execute(SQL["append"], values).fetchone()
            if found is None:
                stored = db.execute("SELECT epoch, last, status FROM runs WHERE run=?", (run,)).fetchone()
                raise refusal(append, stored)
            key, watched, watcher = found
            db.executemany(SQL["add_entry"], [(key, *astuple(entry)) for entry in append.entries])
            return watched > self._now() and watcher != owner

        return await self._to_writer(work, durable=append.durable)

    async def _release(self, claim: Claim) -> None:
        await self._give(claim, "", 0.0)

    async def _postpone(self, claim: Claim, until: float) -> None:
        await self._give(claim, LATER, until - self._set_by())

    async def _give(self, claim: Claim, owner: str, lease: float) -> None:
        await self._to_writer(lambda db: db.execute(SQL["give"], (owner, lease, claim.run_id, claim.epoch)))

    def _renew(self, claims: Sequence[Claim]) -> list[str]:
        def work(db: sqlite3.Connection) -> list[str]:
            until = self._now() + self.lease
            values = [(until, claim.run_id, claim.epoch) for claim in claims]
            return [each[1] for each in values if db.execute(SQL["renew"], each).rowcount == 0]

        return _put(self._writes, work).result()

    # Readers

    async def _read(self, run_id: str, after: int, limit: int) -> list[Entry]:
        def work(db: sqlite3.Connection) -> list[Entry]:
            (key,) = _find(db, run_id, "id")
            rows = db.execute(SQL["read"], (key, after, limit))
            return [
                Entry(first, last, epoch, kind, moment, body, bool(changes), version)
                for first, last, epoch, kind, moment, body, changes, version in rows
            ]

        return await self._to_reader(work)

    async def _info(self, run_id: str) -> StoredRow | None:
        found = await self._stored(SQL["info"], (run_id,))
        return found[0] if found else None

    async def _list(
        self, status: StoredStatus | None, before: str, limit: int, *, is_empty: bool = False
    ) -> list[StoredRow]:
        is_older = "AND id<(SELECT id FROM runs WHERE run=:before)" if before else ""
        # The index of each status, merged: nothing reads the tombstones, of which there may be many.
        some = [
            f"SELECT {SQL['stored']}, id FROM runs WHERE status='{one}' AND last{'=' if is_empty else '>'}0 {is_older}"
            for one in (LISTED if status is None else (status,))
        ]
        query = f"{' UNION ALL '.join(some)} ORDER BY id DESC LIMIT :limit"
        return await self._stored(query, {"before": before, "limit": limit})

    async def _changed_since(self, revision: int, limit: int) -> list[StoredRow]:
        return await self._stored(SQL["changed"], (revision, limit))

    async def _stored(self, query: str, values: Sequence[object] | Mapping[str, object]) -> list[StoredRow]:
        found = await self._to_reader(lambda db: db.execute(query, values).fetchall())
        return [self._shown(StoredRow(*row[:_WIDTH])) for row in found]

    def _now(self) -> float:
        """The time by the clock of the leases."""
        return time.time() if self._ahead is None else self._ahead + time.clock_gettime(BOOTTIME)

    def _set_by(self) -> float:
        """By how much the clock of the machine is ahead of that of the leases."""
        return self._shift.measured(time.time() - self._now())

    def _shown(self, row: StoredRow) -> StoredRow:
        """A run with the end of its lease by the clock of the machine."""
        shift = self._set_by() if row.lease_until else 0.0
        return replace(row, lease_until=row.lease_until + shift) if shift else row

    async def _index_texts(self) -> bool:
        """The first search of a file indexes all of its runs."""
        if self.searches_texts:
            async with self._indexing:
                if not self._has_index:
                    await self._to_writer(partial(_make, name="search"))
                    self._has_index = True
                while (changed := await self._to_reader(changed_texts)) is not None:
                    await self._to_writer(partial(index_texts, changed=changed))
        return self.searches_texts

    async def _find_texts(
        self, words: Sequence[str], tool: str, before: int, limit: int
    ) -> list[tuple[int, str, StoredRow]]:
        columns = ", ".join(f"runs.{column}" for column in SQL["stored"].split(", "))
        found = await self._to_reader(lambda db: find_texts(db, columns, words, tool, before, limit))
        return [(key, text, self._shown(row)) for key, text, row in found]

    # Commands

    async def _send(self, run_id: str, key: str, data: bytes) -> int:
        def work(db: sqlite3.Connection) -> tuple[int, str]:
            key_of_run, status, sent, owner = _find(db, run_id, "id, status, sent, owner")
            check_command(run_id, status)
            try:
                db.execute(SQL["add_command"], (key_of_run, sent + 1, key or None, time.time(), data))
            except sqlite3.IntegrityError:
                raise conflict(run_id, key) from None
            db.execute(SQL["count_command"], (key_of_run,))
            return sent + 1, owner

        number, owner = await self._to_writer(work, durable=True)
        self._poke([owner] if owner else [])
        return number

    async def _read_commands(self, run_id: str, after: int) -> list[tuple[int, float, bytes]]:
        return await self._to_reader(lambda db: db.execute(SQL["commands"], (run_id, after)).fetchall())

    async def _refer(self, claim: Claim, run_id: str, seq: int) -> bool:
        values = (claim.run_id, run_id, seq)
        return await self._to_writer(lambda db: db.execute(SQL["refer"], values).rowcount > 0)

    async def _referring(self, runs: Collection[str]) -> Sequence[str]:
        query = (
            "SELECT run FROM runs WHERE id IN (SELECT bases.run FROM bases JOIN runs ON runs.id=bases.base "
            f"WHERE runs.run IN ({','.join('?' * len(runs))}))"
        )
        found = await self._to_writer(lambda db: db.execute(query, [*runs]).fetchall())
        return [run for (run,) in found]

    async def _refold(self, run_id: str, entry: Entry | None, base: str) -> None:
        def work(db: sqlite3.Connection) -> None:
            (key,) = _find(db, run_id, "id")
            if entry is None:
                db.execute("UPDATE runs SET epoch=epoch+1 WHERE id=?", (key,))
            else:
                db.execute(SQL["resize"], (len(entry.body), key))
                db.execute(SQL["refold"], (entry.body, entry.version, key))
            db.execute("DELETE FROM bases WHERE run=?", (key,))
            if base:
                db.execute("INSERT INTO bases VALUES(?, ?)", (key, *_find(db, base, "id")))

        await self._to_writer(work, durable=True)

    def _unreferred(self, db: sqlite3.Connection, keys: Sequence[int]) -> list[int]:
        """The runs that no other run refers to, or only those among them of which that is so, too."""
        if not db.execute(HAS_BASES).fetchone():
            return [*keys]
        gone: set[int] = set()
        for key in sorted(keys, reverse=True):  # a run that continues another one is newer
            found = db.execute("SELECT run FROM bases WHERE base=?", (key,)).fetchall()
            if gone.issuperset(run for (run,) in found):
                gone.add(key)
        db.executemany("DELETE FROM bases WHERE run=?", [(key,) for key in gone])
        return [*gone]

    async def _prune(self, rows: Sequence[StoredRow]) -> set[str]:
        def work(db: sqlite3.Connection) -> set[str]:
            now = self._now()
            gone: dict[int, str] = {}
            for row in rows:
                found = db.execute(SQL["free"], (row.run_id, row.epoch, row.last_seq, row.sent, now)).fetchone()
                if found is not None:
                    gone[found[0]] = row.run_id
            free = self._unreferred(db, [*gone])
            _bury(db, free)
            return {gone[key] for key in free}

        return await self._to_writer(work, durable=True)

    async def _kept_of(self, keys: Sequence[str]) -> set[str]:
        return await self._to_reader(lambda db: {key for key in keys if db.execute(SQL["has_fold"], (key,)).fetchone()})

    async def _load_fold(self, key: str) -> tuple[int, bytes] | None:
        return await self._to_reader(lambda db: db.execute(SQL["load_fold"], (key,)).fetchone())

    async def _save_fold(self, key: str, expected: int, data: bytes) -> int:
        values = {"key": key, "expected": expected, "data": data}

        def work(db: sqlite3.Connection) -> int:
            done = db.execute(SQL["save_fold" if expected else "first_fold"], values)
            return expected + 1 if done.rowcount else 0

        # A link that was revoked does not come back with a loss of power.
        return await self._to_writer(work, durable=True)

    async def _reclaim(self) -> None:
        """Make the file smaller, in steps.

        A file of an older version has no list of its free pages: it keeps its size, and uses them again.
        """
        is_more = True
        while is_more:
            is_more = await self._to_writer(_vacuum)
        # Where another process reads, the file becomes smaller later.
        await self._to_reader(_checkpoint)

    async def _upgrade(self) -> None:
        def work(db: sqlite3.Connection) -> None:
            if not db.execute(HAS_BASES).fetchone():
                _make(db, "bases")

        await self._to_writer(work, durable=True)
        self.keeps_bases = True

    async def _close(self) -> None:
        self._writes.put(None)
        self._reads.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._join)

    def _join(self) -> None:
        self._writer.join()
        self._reader.join()
        for db in (self._reading, self._writing):
            db.close()
        os.close(self._calls)

    # The writer thread

    async def _to_writer(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = False) -> T:
        return await asyncio.wrap_future(_put(self._writes, work, durable=durable))

    def _write(self) -> None:
        """Take what waits into one transaction, until the log is closed."""
        is_closing = False
        while not is_closing:
            jobs: list[_Job] = []
            job = self._writes.get()
            while job is not None:
                jobs.append(job)
                try:
                    job = self._writes.get_nowait()
                except queue.Empty:
                    break
            is_closing = job is None
            if jobs:
                self._commit(jobs)

    def _commit(self, jobs: Sequence[_Job]) -> None:
        db, durable = self._writing, any(job.durable for job in jobs)
        results: list[tuple[object, BaseException | None]]
        count = 0
        try:
            with self._explained():
                if durable is not self._is_full:
                    db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                    self._is_full = durable
                with db:
                    db.execute(BEGIN)
                    if len(jobs) == 1:
                        results = [(jobs[0].work(db), None)]
                    else:
                        results = [self._in_savepoint(db, job) for job in jobs]
                    if durable:
                        (count,) = db.execute("UPDATE log SET barriers=barriers+1 RETURNING barriers").fetchone()
        except BaseException as error:
            results = [(None, error)] * len(jobs)
        else:
            if durable:
                _write_barriers(self.path, count)
        for job, (result, error) in zip(jobs, results, strict=True):
            if error is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(error)

    def _in_savepoint(self, db: sqlite3.Connection, job: _Job) -> tuple[object, BaseException | None]:
        """Do one job, so that its failure undoes it alone. A failure of the store fails them all."""
        db.execute("SAVEPOINT job")
        try:
            result = job.work(db)
        except sqlite3.Error:
            raise
        except BaseException as error:
            db.execute("ROLLBACK TO job")
            db.execute("RELEASE job")
            return None, error
        db.execute("RELEASE job")
        return result, None

    # The reader thread

    async def _to_reader(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.wrap_future(_put(self._reads, work))

    def _read_on(self) -> None:
        """Read what callers request, and look for commits of other processes while runs are followed."""
        db = self._reading
        version = -1
        known: dict[str, tuple[int, int, str]] = {}
        marked, looked, tried, place = 0.0, 0.0, 0.0, _place_of(self.owner)
        called = os.pread(self._calls, 8, place)
        while True:
            followed = self.followers.runs
            wait = POLL if ALL_RUNS in followed or self.followers.readers else POLL_COMMANDS
            try:
                if followed and time.monotonic() - tried > wait:
                    raise queue.Empty  # a queue that is never empty must not hide what other processes do
                job = self._reads.get(timeout=wait) if followed else self._reads.get()
            except queue.Empty:
                tried = time.monotonic()
                with contextlib.suppress(OSError):
                    before, called = called, os.pread(self._calls, 8, place)
                    if called != before:
                        for run in followed:
                            self.followers.wake(run)
                if wait > POLL and time.monotonic() - looked < SELDOM:
                    continue
                looked = time.monotonic()
                with contextlib.suppress(sqlite3.Error):  # the readers raise what is wrong
                    (now,) = db.execute("PRAGMA data_version").fetchone()
                    if now != version:
                        version = now
                        known = self._changed(db, followed, known)
                        if ALL_RUNS in followed:
                            self.followers.wake(ALL_RUNS)
                    if time.monotonic() - marked > WATCHED / 2:
                        marked = time.monotonic()
                        self._mark_watched(followed)
                continue
            if job is None:
                return
            try:
                with self._explained():
                    result = job.work(db)
            except BaseException as error:
                job.future.set_exception(error)
            else:
                job.future.set_result(result)

    def _changed(
        self, db: sqlite3.Connection, followed: Sequence[str], known: dict[str, tuple[int, int, str]]
    ) -> dict[str, tuple[int, int, str]]:
        """Wake the followers of the runs that have changed.

        Returns the numbers of entries and commands of each, and its status.
        """
        numbers: dict[str, tuple[int, int, str]] = {}
        for start in range(0, len(followed), 500):
            some = followed[start : start + 500]
            marks = ",".join("?" * len(some))
            query = f"SELECT run, last, sent, status FROM runs WHERE run IN ({marks})"
            for run, last, sent, status in db.execute(query, some):
                # A follower of the commands alone has no use for the entries, which are its own.
                numbers[run] = (last if self.followers.has_reader(run) else 0, sent, status)
                if known.get(run) != numbers[run]:
                    self.followers.wake(run)
        return numbers

    def _mark_watched(self, followed: Sequence[str]) -> None:
        """Request that the owners of the followed runs write more often."""
        values = [(self._now() + WATCHED, self.owner, run, self.owner) for run in followed]
        _put(self._writes, lambda db: db.executemany(SQL["watch"], values))

    def _follow_started(self, run_id: str) -> None:  # noqa: ARG002 - one thread looks for all
        _put(self._reads, lambda _: None)  # it looks from then on

    @contextlib.contextmanager
    def _explained(self) -> Generator[None]:
        """Turn the errors of SQLite into `LogError`, with what to do."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise LocalProtocolError(f"{self.path}: {error}") from error
        except sqlite3.Error as error:
            is_busy = isinstance(error, sqlite3.OperationalError) and _is_busy(error)
            raise LogError(_explanation(self.path, error), retryable=is_busy) from error


def _put(
    jobs: queue.SimpleQueue[_Job | None], work: Callable[[sqlite3.Connection], T], *, durable: bool = False
) -> Future[T]:
    """Let a thread do something, also if what waits for its result is cancelled."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    jobs.put(_Job(work, future, durable))
    return future


def _beside(path: Path, name: str) -> Path:
    """A file beside a database, such as the one with the number of barriers that were committed."""
    return path.with_name(f"{path.name}-{name}")


def _place_of(owner: str) -> int:
    """Where calls of a process are in the file of calls."""
    return zlib.crc32(owner.encode("utf-8", "surrogatepass")) % PLACES * 8


def _check_barriers(db: sqlite3.Connection, path: Path) -> None:
    """Compare the two counts of barriers.

    Raises:
        LogError: The database has fewer barriers than were committed.
    """
    file = _beside(path, "barriers")
    try:
        counted = int(file.read_bytes() or b"0")
    except FileNotFoundError:
        counted = 0
    except ValueError as error:
        raise LogError(f"{file} is damaged: {error}") from error
    (count,) = db.execute("SELECT barriers FROM log").fetchone()
    if counted > count:
        raise LogError(
            f"{path} has lost its last {counted - count} barriers: its file or the -wal file beside it was truncated, "
            f"damaged or replaced. Restore all of its files from one backup; to accept the loss, delete {file}"
        )


def _write_barriers(path: Path, count: int) -> None:
    """Keep the number. Called after the commit, so that it is never ahead of the database."""
    # It may not be written where the disk is full: then it is only less strict.
    with contextlib.suppress(OSError):
        file = os.open(_beside(path, "barriers"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, b"%020d" % count, 0)
        finally:
            os.close(file)


def _create(path: Path) -> None:
    """Create the file, if it does not exist, so that only this user can read it: it holds conversations."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise LogError(
            f"{path} cannot be created ({error.strerror}): check that its folder exists and that this user may write "
            "to it"
        ) from error


def _make(db: sqlite3.Connection, name: str) -> None:
    """Make the tables of a part of ``sqlite.sql``."""
    for statement in SQL[name].split("\n\n"):
        db.execute(statement)


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
    db.execute(f"PRAGMA busy_timeout={int(BUSY * 1000)}")
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file, and check those of another.

    Raises:
        LogError: It is another database, or of a newer version.
    """
    db.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")  # of a file without tables
    (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise LogError(f"{path} cannot have a write-ahead log ({mode}): keep it on a local disk")
    with db:
        db.execute(BEGIN)
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION and tables:
            raise LogError(f"{path} is a database, but not a log of rxworker")
        check_version(path, version, FORMAT)
        if not tables:
            _make(db, "tables")
            _make(db, "bases")
            db.execute(f"PRAGMA application_id={APPLICATION}")
            db.execute(f"PRAGMA user_version={FORMAT}")
        _make(db, "opened")


def _ahead(db: sqlite3.Connection) -> float | None:
    """By how much the clock of the leases is ahead of that of the running system.

    ``None`` where a start of the system has no name: it is the clock of the machine there.
    """
    try:
        boot = BOOT.read_text().strip()
    except OSError:
        return None
    db.execute("INSERT OR IGNORE INTO clock VALUES(?,?)", (boot, time.time() - time.clock_gettime(BOOTTIME)))
    (ahead,) = db.execute("SELECT ahead FROM clock WHERE boot=?", (boot,)).fetchone()
    return ahead


def _is_busy(error: sqlite3.Error) -> bool:
    return "locked" in str(error) or "busy" in str(error)


_HELP: tuple[tuple[tuple[str, ...], str], ...] = (
    (("full", "disk I/O"), "cannot be written ({}): make room on its disk, and recover the runs that ended"),
    (
        ("malformed", "not a database", "corrupt"),
        "is damaged ({}): restore it from a backup, together with its -wal and -barriers files",
    ),
    (
        ("readonly", "unable to open"),
        "cannot be opened for writing ({}): check that its folder exists and that this user may write to it",
    ),
)
"""What to do, by words in an error of SQLite."""


def _explanation(path: Path, error: sqlite3.Error) -> str:
    if _is_busy(error):
        return (
            f"{path} is locked by another process for more than {BUSY:g} s: end the process that holds a transaction "
            "in it"
        )
    text = str(error)
    found = (f"{path} {what.format(text)}" for words, what in _HELP if any(word in text for word in words))
    return next(found, f"{path}: {text}")


def _bury(db: sqlite3.Connection, keys: Sequence[int]) -> None:
    """Leave tombstones of runs."""
    each = [(key,) for key in keys]
    db.executemany("DELETE FROM entries WHERE run=?", each)
    db.executemany("DELETE FROM commands WHERE run=?", each)
    forget(db, keys)
    db.executemany(SQL["bury"], each)


def _vacuum(db: sqlite3.Connection) -> bool:
    """Give some free pages back; returns whether there are more."""
    (mode,) = db.execute("PRAGMA auto_vacuum").fetchone()
    if mode == INCREMENTAL:
        db.execute(f"PRAGMA incremental_vacuum({VACUUMED})").fetchall()
    (free,) = db.execute("PRAGMA freelist_count").fetchone()
    return mode == INCREMENTAL and free > 0


def _checkpoint(db: sqlite3.Connection) -> None:
    """Write the log of the file into it, and empty that, unless another process is in the way."""
    db.execute("PRAGMA busy_timeout=100")
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.execute(f"PRAGMA busy_timeout={int(BUSY * 1000)}")


def _find(db: sqlite3.Connection, run_id: str, columns: str) -> Any:
    found = db.execute(f"SELECT {columns} FROM runs WHERE run=? AND status<>'deleted'", (run_id,)).fetchone()
    if found is None:
        raise no_run(run_id)
    return found
