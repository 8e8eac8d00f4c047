"""A log in a Postgres database, for several machines: ``pip install "/path/to/the/checkout[postgres]"``.

Theory of operation. The event loop has a connection that writes, one that reads, and one that listens; the thread of
the heartbeat has another. What waits to be written, or to be read, goes to the server together. Each write is one
function of the server and one transaction (see ``postgres.sql``), committed without waiting for the disk; if there is
a barrier among them, a ``flush`` follows.

A lost connection leaves open whether the last writes were done, and a server that crashed has lost those that the disk
did not have yet, though they were reported as done. So appends are kept until they are on the disk, which the server
does by itself within a second, and on a new connection they are made again, before those that wait; the server refuses
those that it has, and reports its last number. A claim and a command are stored with a token, which shows that they
were done.

The server notifies each process that watches runs of the ids of those that have changed. A process that only runs its
runs, or waits for one, has a channel of its own. A process that has begun to listen reads everything that it follows
once, so that nothing is missed between a lost connection and the next one. Leases are compared on the server, by its
clock; times that are read are converted to the clock of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from operator import itemgetter
from typing import Any, Generic, TypeVar, final

try:
    import psycopg
    from psycopg import sql
except ImportError as error:
    raise ImportError(
        f"a log in Postgres needs the package psycopg ({error}): pip install '/path/to/the/checkout[postgres]'"
    ) from error

from reactivex.internal import noop

from rxworker.errors import LeaseHeldError, LocalProtocolError, LogError
from rxworker.log.base import EventLog, already_stored, no_run
from rxworker.log.format import Entry
from rxworker.log.leases import LEASE, Offset
from rxworker.log.memory import check_command, check_status, conflict, refusal
from rxworker.log.postgres_connection import (
    OLDEST,
    PATIENCE,
    PAUSES,
    AsyncConnection,
    Connection,
    Link,
    Row,
    Server,
    is_lost,
    pipelined,
)
from rxworker.log.search import KINDS, indexed_texts, lines_of, storable
from rxworker.log.store import ALL_RUNS, CALLS, Append, Codec, StoredRow, check_version, sql_parts
from rxworker.log.values import LATER, LISTED, Claim, StoredStatus
from rxworker.tools.cancellation import retrieve

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

WATCHED = 10.0
"""Seconds for which a process marks a run as watched."""
UNFLUSHED = 4_000_000
"""Bytes of entries that are kept before they are flushed."""
FEWEST = 20
"""Entries that a read gives at least, where many runs are read together."""
ENTRY_COLUMNS = ("last", "first", "epoch", "kind", "time", "changes_state", "version", "body")
"""The parts of an entry, in the order in which the query ``append`` takes them."""
FORMAT = 2
"""The version of the tables and the functions."""
SQL = {name: text.encode() for name, text in sql_parts("postgres").items()}
"""The tables, the functions and the queries, by their names in ``postgres.sql``."""
UPGRADES = {
    # It claimed runs that had ended. Processes of that version, which are open while others are upgraded, go on
    # claiming with it.
    1: SQL["claim_run"] + SQL["claim_run_1"]
}
"""What brings the functions of a log from a version to the next one."""
BATCHED = (SQL["entries"], SQL["infos"], SQL["commands"])
"""The queries that read for several jobs at once."""


@dataclass(eq=False)
class _Job(Generic[T_co]):
    """One thing for the server to do, and the future of its result.

    Args:
        query: A query with one row.
        values: Its parameters.
        judge: Makes the result of the row, or raises.
        durable: Whether to flush it.
    """

    query: bytes
    values: Sequence[object] | Mapping[str, object]
    judge: Callable[[Any], T_co]
    _: KW_ONLY
    durable: bool = False

    def __post_init__(self) -> None:
        self.is_repeated = False  # whether the query was possibly done before
        self.future: asyncio.Future[T_co] = asyncio.get_running_loop().create_future()

    def done(self, row: object) -> None:
        """Set the result."""
        if self.future.done():
            return
        try:
            self.future.set_result(self.judge(row))
        except Exception as error:
            self.future.set_exception(error)

    def failed(self, error: Exception) -> None:
        """Set the error."""
        if not self.future.done():
            self.future.set_exception(error)


class _AppendJob(_Job[bool]):
    def __init__(self, append: Append) -> None:
        super().__init__(SQL["append"], (), self._judge, durable=append.durable)
        self.append = append
        self.size = append.size

    def _judge(self, row: Row) -> bool:
        is_watched, epoch, last, status = row
        if is_watched is not None:
            return is_watched
        append, is_own = self.append, epoch == self.append.claim.epoch
        if self.is_repeated and is_own and last >= append.last and status != "deleted":
            return False  # only this owner writes in its epoch
        raise refusal(append, None if epoch is None else (epoch, last, status))


class _Pump:
    """Gives all jobs that wait to a function, until there are none.

    Args:
        link: The connection.
        work: Does jobs on it, and sets their results.
    """

    def __init__(self, link: Link, work: Callable[[AsyncConnection, Sequence[_Job[object]]], Awaitable[None]]) -> None:
        self._link = link
        self._work = work
        self._waiting: list[_Job[object]] = []
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def put(self, job: _Job[T]) -> asyncio.Future[T]:
        """Do a job soon. Returns the future of its result."""
        if self._is_closed:
            raise LocalProtocolError("this log is closed: open it again")
        self._waiting.append(job)
        self._begin()
        return job.future

    def _begin(self, _: object = None) -> None:
        """Do what waits, unless that is done already.

        A task that was cancelled leaves jobs, and one that is cancelled before it begins leaves them all.
        """
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(self._begin)

    async def _run(self) -> None:
        while self._waiting:
            jobs, self._waiting = self._waiting, []
            try:
                await self._do(jobs)
            except BaseException:
                for job in jobs:
                    job.future.cancel()
                raise

    async def _do(self, jobs: Sequence[_Job[object]]) -> None:
        try:
            await self._link.run(lambda connection: self._work(connection, jobs))
        except Exception as error:
            if len(jobs) == 1 or is_lost(error.__cause__):
                for job in jobs:
                    job.failed(error)
                return
            for job in jobs:  # one that cannot be done must not fail the others
                await self._do([job])

    async def close(self) -> None:
        """Do what waits, and take nothing more."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])
        self._is_closed = True
        await self._link.close()


@final
class PostgresLog(EventLog):
    """A log in a schema of a Postgres database. Processes on any machines may open the same one.

    It connects when it is made, which blocks, and creates its schema and tables if they do not exist.

    Args:
        address: The address: ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``, with the parameters of libpq, and
            ``schema=``, so that several logs share a database; by default the schema ``rxworker``.
        codec: Applied to what is stored.
        owner: The name of this process in claims.
        lease: Seconds that a claim lasts without a heartbeat.

    Attributes:
        address: The address without its passwords.

    Raises:
        ConfigurationError: This is not an address.
        LogError: The database cannot be opened, or has a log of a newer version.
    """

    patience = PATIENCE

    def __init__(self, address: str, *, codec: Codec | None = None, owner: str = "", lease: float = LEASE) -> None:
        super().__init__(codec=codec, owner=owner, lease=lease)
        self._server = server = Server(address)
        self.address = server.address
        try:
            with server.connect_now() as connection:
                self.id, clock, self.keeps_bases, self._channel = _prepare(connection, server, self.owner)
        except psycopg.Error as error:
            raise server.explained(error) from error
        self._ahead = Offset(clock - time.time())  # the clock of the server, before ours
        self.calls = bool(self._channel)
        self.searches_texts = codec is None
        self._searching = Link(server, lambda connection: connection.execute(SQL["search_tables"]))
        self._folding = Link(server, lambda connection: connection.execute(SQL["fold_table"]))
        self._search_lock = asyncio.Lock()
        self._renewing: Connection | None = None
        self._renew_lock = threading.Lock()
        self._writes = _Pump(Link(server, self._prepare_writing), self._write)
        self._reads = _Pump(Link(server), self._read_together)
        self._unflushed: deque[tuple[int, Sequence[_AppendJob]]] = deque()
        self._unflushed_size = 0
        self._is_new = False  # the connection that writes
        self._own_pid = 0
        self._listeners: dict[str, asyncio.Task[None]] = {}
        self._to_mark: set[str] = set()
        self._marking: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"PostgresLog({self.address!r}, schema={self._server.schema!r})"

    # Owners

    async def _claim(self, run_id: str, row: bytes | None, statuses: Collection[StoredStatus]) -> Claim:
        def judge(found: Row) -> Claim:
            is_taken, epoch, last, status, owner, remaining = found
            if is_taken:
                return Claim(run_id, epoch, last, self.owner)
            if row is not None:
                if last or status == "deleted":
                    raise already_stored(run_id)
            elif status in (None, "deleted"):
                raise no_run(run_id)
            else:
                check_status(run_id, status, statuses)
            raise LeaseHeldError(run_id, owner, time.time() + remaining)

        values = (run_id, row is not None, row, self.owner, uuid.uuid4().hex, self.lease, [*statuses])
        return await self._writes.put(_Job(SQL["claim"], values, judge, durable=True))

    async def _claim_any(self, runs: Sequence[str], statuses: Collection[StoredStatus]) -> Claim | None:
        if not self.calls:
            return await super()._claim_any(runs, statuses)

        def judge(found: Row) -> Claim | None:
            run, epoch, last = found
            return None if run is None else Claim(run, epoch, last, self.owner)

        values = ([*runs], self.owner, uuid.uuid4().hex, self.lease, [*statuses])
        return await self._writes.put(_Job(SQL["claim_any"], values, judge, durable=True))

    async def _await_call(self, kinds: Sequence[str]) -> None:
        await self._writes.put(_Job(SQL["await_call"], (self.owner, [*kinds]), noop))

    async def _dismiss_call(self) -> None:
        await self._writes.put(_Job(SQL["dismiss_call"], (self.owner,), noop))

    async def _call(self, kind: str, to_all: bool) -> None:
        await self._writes.put(_Job(SQL["call"], {"kind": kind, "most": None if to_all else 1}, noop))

    async def _append(self, append: Append) -> bool:
        return await self._writes.put(_AppendJob(append))

    async def _release(self, claim: Claim) -> None:
        await self._writes.put(_Job(SQL["release"], (claim.run_id, claim.epoch), noop))

    async def _postpone(self, claim: Claim, until: float) -> None:
        values = (LATER, until - time.time(), claim.run_id, claim.epoch)
        await self._writes.put(_Job(SQL["postpone"], values, noop))

    def _renew(self, claims: Sequence[Claim]) -> list[str]:
        held = sorted((claim.run_id, claim.epoch) for claim in claims)
        values = [run for run, _ in held], [epoch for _, epoch in held], self.lease
        with self._renew_lock:
            was_lost = False
            while True:
                try:
                    if self._renewing is None:
                        self._renewing = self._server.connect_now()
                    renewed = {run for (run,) in self._renewing.execute(SQL["renew"], values)}
                    return [run for run, _ in held if run not in renewed]
                except psycopg.Error as error:
                    self._close_renewing()
                    if was_lost or not is_lost(error):
                        raise self._server.explained(error) from error
                    was_lost = True  # since the last time

    def _close_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.close()
            self._renewing = None

    # Readers

    async def _read(self, run_id: str, after: int, limit: int) -> list[Entry]:
        def judge(rows: list[Row]) -> list[Entry]:
            if not rows or rows[0][0] == "deleted":
                raise no_run(run_id)
            # A run without such entries has one row without an entry.
            return [Entry(*row[1:]) for row in rows if row[1] is not None]

        return await self._reads.put(_Job(SQL["entries"], (run_id, after, limit), judge))

    async def _info(self, run_id: str) -> StoredRow | None:
        def judge(rows: list[Row]) -> StoredRow | None:
            return self._stored(rows[0]) if rows else None

        return await self._reads.put(_Job(SQL["infos"], (run_id,), judge))

    async def _list(
        self, status: StoredStatus | None, before: str, limit: int, *, is_empty: bool = False
    ) -> list[StoredRow]:
        statuses = [*LISTED] if status is None else [status]
        values = {"before": before, "limit": limit, "statuses": statuses, "is_empty": is_empty}
        return await self._reads.put(_Job(SQL["list"], values, self._all_stored))

    async def _changed_since(self, revision: int, limit: int) -> list[StoredRow]:
        return await self._reads.put(_Job(SQL["changed"], (revision, limit), self._all_stored))

    def _all_stored(self, rows: list[Row]) -> list[StoredRow]:
        return [self._stored(row) for row in rows]

    def _stored(self, row: Sequence[Any]) -> StoredRow:
        """A run, with its times by our clock."""
        clock, run, data, status, epoch, last, owner, lease, created, updated, *rest = row
        ahead = self._ahead.measured(clock - time.time())
        lease = lease and lease - ahead
        times = (lease, created - ahead, updated - ahead)
        return StoredRow(run, data, status, epoch, last, owner, *times, *rest)

    async def _index_texts(self) -> bool:
        """Store the texts of the runs that have changed, by their revision, in a table of the same schema.

        So a word is found within others and in scripts without spaces, without an extension of the server; the text
        search of Postgres finds whole words of one language. Several processes may do so at once: the newer revision
        stays. A trigger deletes the text of a run together with the run.
        """
        if self.searches_texts:
            try:
                for key, revision, row in await self._query(SQL["unsearched"]):
                    entries = [Entry(*each) for each in await self._query(SQL["texts"], (key, [*KINDS]))]
                    texts = await asyncio.to_thread(indexed_texts, row, entries)
                    values = (revision, texts.text, texts.text.lower(), lines_of(texts.tools), key)
                    await self._query(SQL["index"], values)
            except LogError as error:  # without the right to make a table, titles are searched
                if not isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
                    raise
                self.searches_texts = False
        return self.searches_texts

    async def _find_texts(
        self, words: Sequence[str], tool: str, before: int, limit: int
    ) -> list[tuple[int, str, StoredRow]]:
        some, name = [storable(word) for word in words], lines_of([tool] if tool else [])
        rows = await self._query(SQL["find"], {"words": some, "tool": name, "before": before, "limit": limit})
        return [(key, text, self._stored(row)) for key, text, *row in rows]

    async def _load_fold(self, key: str) -> tuple[int, bytes] | None:
        found = await self._query(SQL["load_fold"], {"key": key}, self._folding)
        return (found[0][0], found[0][1]) if found else None

    async def _kept_of(self, keys: Sequence[str]) -> set[str]:
        return {key for (key,) in await self._query(SQL["kept_of"], {"keys": [*keys]}, self._folding)}

    async def _save_fold(self, key: str, expected: int, data: bytes) -> int:
        values = {"key": key, "expected": expected, "data": data}
        found = await self._query(SQL["save_fold"] if expected else SQL["first_fold"], values, self._folding)
        return found[0][0] if found else 0

    async def _query(
        self, query: bytes, values: Sequence[object] | Mapping[str, object] = (), link: Link | None = None
    ) -> list[Row]:
        async def work(connection: AsyncConnection) -> list[Row]:
            cursor = await connection.execute(query, values, binary=True)
            return await cursor.fetchall() if cursor.description else []

        async with self._search_lock:
            return await (link or self._searching).run(work)

    # Commands

    async def _send(self, run_id: str, key: str, data: bytes) -> int:
        def judge(found: Row) -> int:
            status, number = found
            if status in (None, "deleted"):
                raise no_run(run_id)
            if number is None:
                check_command(run_id, status)
                raise conflict(run_id, key)
            return number

        token = uuid.uuid4().hex
        return await self._writes.put(_Job(SQL["send"], (run_id, key or token, token, data), judge, durable=True))

    async def _read_commands(self, run_id: str, after: int) -> list[tuple[int, float, bytes]]:
        def judge(rows: list[Row]) -> list[tuple[int, float, bytes]]:
            return [(number, stored - self._ahead.seconds, data) for number, stored, data in rows]

        return await self._reads.put(_Job(SQL["commands"], (run_id, after), judge))

    async def _refer(self, claim: Claim, run_id: str, seq: int) -> bool:
        is_found: Callable[[Row], bool] = itemgetter(0)
        return await self._writes.put(_Job(SQL["refer"], (claim.run_id, run_id, seq), is_found))

    async def _referring(self, runs: Collection[str]) -> Sequence[str]:
        def judge(rows: list[Row]) -> list[str]:
            return [run for (run,) in rows]

        return await self._reads.put(_Job(SQL["referring"], ([*runs],), judge))

    async def _refold(self, run_id: str, entry: Entry | None, base: str) -> None:
        body, version = (None, 0) if entry is None else (entry.body, entry.version)
        await self._writes.put(_Job(SQL["refold"], (run_id, body, version, base), noop, durable=True))

    async def _prune(self, rows: Sequence[StoredRow]) -> set[str]:
        def judge(found: Row) -> set[str]:
            return {*found[0]}

        names = ("run_id", "epoch", "last_seq", "sent")
        values = [[getattr(row, name) for row in rows] for name in names]
        job = _Job(SQL["prune_referred"] if self.keeps_bases else SQL["prune"], values, judge, durable=True)
        return await self._writes.put(job)

    async def _upgrade(self) -> None:
        def work() -> None:
            with self._server.connect_now() as connection, connection.transaction():
                connection.execute(SQL["lock"])
                ((has_bases,),) = connection.execute(SQL["has_bases"]).fetchall()
                if not has_bases:
                    connection.execute(SQL["bases"])
                    connection.execute(SQL["durable"])

        try:
            await asyncio.to_thread(work)
        except psycopg.Error as error:
            raise self._server.explained(error) from error
        self.keeps_bases = True

    async def _close(self) -> None:
        if self._marking is not None:
            self._marking.cancel()
        for pump in (self._writes, self._reads):
            await pump.close()
        for listener in self._listeners.values():
            listener.cancel()
        if self._listeners:
            await asyncio.wait(self._listeners.values())
        await self._searching.close()
        await self._folding.close()
        with self._renew_lock:
            self._close_renewing()

    # Writing

    async def _prepare_writing(self, connection: AsyncConnection) -> None:
        await connection.execute(SQL["skip"])
        await connection.execute(SQL["flush"])
        self._own_pid = connection.info.backend_pid
        self._is_new = True

    async def _write(self, connection: AsyncConnection, jobs: Sequence[_Job[object]]) -> None:
        is_new, self._is_new = self._is_new, False
        try:
            lost = [job for _, appends in self._unflushed for job in appends] if is_new else []
            await self._write_once(connection, [*lost, *jobs], is_new)
        except psycopg.Error:
            for job in jobs:
                job.is_repeated = True
            raise

    async def _write_once(self, connection: AsyncConnection, jobs: Sequence[_Job[object]], is_new: bool) -> None:
        appends = [job for job in jobs if isinstance(job, _AppendJob)]
        others = [job for job in jobs if not isinstance(job, _AppendJob)]
        # Rows are locked in this order by everything that locks several of them.
        appends.sort(key=lambda job: job.append.claim.run_id)
        is_full = self._unflushed_size > UNFLUSHED
        flushes = is_new or is_full or any(job.durable for job in jobs)
        found: list[tuple[Sequence[_Job[object]], psycopg.AsyncCursor[Row]]] = []
        async with pipelined(connection) as pipeline:
            if appends:
                cursor = await connection.execute(SQL["append"], _arrays(appends), prepare=True, binary=True)
                found.append((appends, cursor))
            for job in others:
                if found:
                    await pipeline.sync()
                cursor = await connection.execute(job.query, job.values, prepare=True, binary=True)
                found.append(([job], cursor))
            await pipeline.sync()
            last = await connection.execute(SQL["flush"] if flushes else SQL["positions"], binary=True)
        rows = [(some, await cursor.fetchall()) for some, cursor in found]
        if flushes:
            self._unflushed.clear()
            self._unflushed_size = 0
        else:
            self._keep(appends, *await last.fetchall())
        for some, each in rows:
            for job, row in zip(some, each, strict=True):
                job.done(row)
        for job in appends:
            job.is_repeated = True

    def _keep(self, appends: Sequence[_AppendJob], positions: Row) -> None:
        """Keep appends that are not on the disk yet."""
        written, flushed = positions
        self._unflushed.append((written, appends))
        self._unflushed_size += sum(job.size for job in appends)
        while self._unflushed and self._unflushed[0][0] <= flushed:
            _, done = self._unflushed.popleft()
            self._unflushed_size -= sum(job.size for job in done)

    # Reading

    async def _read_together(self, connection: AsyncConnection, jobs: Sequence[_Job[object]]) -> None:
        """Read the pages of all runs with one query, and so on."""
        together: dict[bytes, list[_Job[object]]] = {}
        queries: list[tuple[bytes, Sequence[object] | Mapping[str, object], Sequence[_Job[object]]]] = []
        for job in jobs:
            if job.query in BATCHED:
                together.setdefault(job.query, []).append(job)
            else:
                queries.append((job.query, job.values, [job]))
        for query, some in together.items():
            queries.append((query, _columns(query, some), some))
        context = pipelined(connection) if len(queries) > 1 else contextlib.nullcontext()
        async with context:
            # The best plan of a list depends on the status and the number.
            cursors = [
                await connection.execute(query, values, prepare=query in BATCHED, binary=True)
                for query, values, _ in queries
            ]
        for (query, _, some), cursor in zip(queries, cursors, strict=True):
            rows = await cursor.fetchall()
            if query in BATCHED:
                for job, its_rows in zip(some, _parts(rows, len(some)), strict=True):
                    job.done(its_rows)
            else:
                some[0].done(rows)

    # Following

    def _follow_started(self, run_id: str) -> None:
        is_own = self.calls and run_id != ALL_RUNS and not self.followers.has_reader(run_id)
        channel = self._channel if is_own else f"rxworker:{self._server.schema}"
        if channel not in self._listeners or self._listeners[channel].done():
            loop = asyncio.get_running_loop()
            listening = loop.create_task(self._listen(channel), name="rxworker log listener")
            self._listeners[channel] = listening
        if self.followers.has_reader(run_id):
            if not self._to_mark:
                asyncio.get_running_loop().call_soon(self._mark)
            self._to_mark.add(run_id)

    async def _listen(self, channel: str) -> None:
        """Wake what follows runs that other processes have changed or sent commands to, until the log is closed."""
        pauses = iter(PAUSES)
        pause = 0.0
        while True:
            # What follows reads now, and so fails if the server does not come back.
            self.followers.wake_all()
            with contextlib.suppress(psycopg.Error):
                connection = await self._server.connect()
                try:
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                    pauses = iter(PAUSES)
                    self.followers.wake_all()
                    await self._receive(connection)
                finally:
                    await connection.close()
            pause = next(pauses, pause)
            await asyncio.sleep(pause)

    async def _receive(self, connection: AsyncConnection) -> None:
        """Receive notifications until the connection is lost.

        The library's own way looks for them ten times a second.
        """
        loop = asyncio.get_running_loop()
        lost: asyncio.Future[None] = loop.create_future()
        received = connection.pgconn

        def receive() -> None:
            try:
                received.consume_input()
                while (note := received.notifies()) is not None:
                    run = note.extra.decode()
                    if note.relname.decode() == self._channel:
                        run = CALLS if run == "call" else run[4:]
                    elif note.be_pid == self._own_pid:
                        continue
                    self.followers.wake(run) if run else self.followers.wake_all()
            except psycopg.OperationalError:
                loop.remove_reader(file)
                if not lost.done():
                    lost.set_result(None)

        file = connection.fileno()
        loop.add_reader(file, receive)
        receive()  # what came with the answer
        try:
            await lost
        finally:
            loop.remove_reader(file)

    def _mark(self) -> None:
        """Request that the owners of followed runs write more often."""
        runs, self._to_mark = self._to_mark, set()
        if self.is_closed or not runs:
            return
        job = _Job(SQL["mark"], (sorted(runs), self.owner, WATCHED), noop)
        job.future.add_done_callback(retrieve)  # the next write reports an error
        self._writes.put(job)
        if self._marking is None:
            self._marking = asyncio.get_running_loop().call_later(WATCHED / 2, self._mark_again)

    def _mark_again(self) -> None:
        self._marking = None
        self._to_mark.update(self.followers.read_runs)
        self._mark()


def _prepare(connection: Connection, server: Server, owner: str) -> tuple[str, float, bool, str]:
    """Make the schema and its tables, or check them.

    Returns the id of the log, the time of the server, whether it keeps bases, and the channel of this process, if it
    can be called.

    Raises:
        LogError: There is a log of a newer version, or something else.
    """
    schema = server.schema
    if connection.info.server_version < OLDEST * 10_000:
        raise LogError(f"{server.address} is older than Postgres {OLDEST}: use a newer server")
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('rxworker:' || %s, 0))", (schema,))
        query = "SELECT to_regnamespace(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL"
        names = (schema, f"{schema}.log", f"{schema}.runs")
        has_schema, has_log, has_runs = connection.execute(query, names).fetchall()[0]
        if has_runs and not has_log:
            raise LogError(_other(server))
        if not has_log:
            if not has_schema:
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
            connection.execute(SQL["tables"] + SQL["claim_run"] + SQL["bases"])
            connection.execute("INSERT INTO log VALUES(%s, %s)", (uuid.uuid4().hex, FORMAT))
            connection.execute(SQL["durable"])
        try:
            found = connection.execute(
                "SELECT id, format, date_part('epoch', clock_timestamp()), has_table_privilege(to_regclass('waiting'), "
                "'DELETE'), to_regclass('bases') IS NOT NULL FROM log"
            ).fetchone()
        except psycopg.errors.UndefinedColumn as error:
            raise LogError(_other(server)) from error
        if found is None:
            raise LogError(_other(server))
        identity, version, clock, can_call, has_bases = found
        check_version(f"the schema {schema} of {server.address}", version, FORMAT)
        # The functions of an earlier version are brought up to this one. The tables and the runs stay as they are.
        for earlier in range(version, FORMAT):
            connection.execute(UPGRADES[earlier])
            connection.execute("UPDATE log SET format = %s", (earlier + 1,))
            connection.execute(SQL["durable"])
        if can_call is None:
            # Without the right to make a table, or to use it, each change wakes all.
            with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
                with connection.transaction():
                    connection.execute(SQL["calls"])
                can_call = True
        channel = ""
        if can_call:
            ((channel,),) = connection.execute("SELECT channel_of(%s)", (owner,)).fetchall()
    return identity, clock, has_bases, channel


def _other(server: Server) -> str:
    return (
        f"the schema {server.schema} of {server.address} has other tables, but not a log of rxworker: give another one "
        "with schema="
    )


def _arrays(appends: Sequence[_AppendJob]) -> Sequence[Sequence[object]]:
    """The parameters of the query ``append``."""
    given = [job.append for job in appends]
    entries = [entry for append in given for entry in append.entries]
    return (
        [append.claim.run_id for append in given],
        [append.claim.epoch for append in given],
        [append.after for append in given],
        [len(append.entries) for append in given],
        [job.size for job in appends],
        [append.row for append in given],
        [append.status for append in given],
        *([getattr(entry, name) for entry in entries] for name in ENTRY_COLUMNS),
    )


def _columns(query: bytes, jobs: Sequence[_Job[object]]) -> Sequence[object]:
    """The parameters of a query for several jobs: each has a row for each of its jobs, first their numbers from 1."""
    runs, *more = map(list, zip(*(job.values for job in jobs), strict=True))
    if query == SQL["entries"]:
        afters, limits = more
        most = min(limits)
        return runs, afters, max(most // len(jobs), min(most, FEWEST))
    return runs, *more


def _parts(rows: Sequence[Row], count: int) -> list[list[Row]]:
    """The rows of each job, without their numbers."""
    parts: list[list[Row]] = [[] for _ in range(count)]
    for number, *values in rows:
        parts[int(number) - 1].append(tuple(values))
    return parts
