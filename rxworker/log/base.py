"""Event logs: what is the same for all stores. What a store does is in `Store`.

A log holds runs. Each run is one gapless sequence of entries, written by one owner at a time. An owner claims the run,
which raises its epoch; an append names the epoch and the last number, and is refused if either has changed. To steer a
run, any process sends it a command; the owner reads the commands in order, and each is taken once.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import Any, Self, TypeVar
from weakref import WeakValueDictionary

from msgspec.structs import replace
from reactivex import Observable

from rxworker.decisions import Approve, StoredDecision
from rxworker.errors import (
    CommandConflictError,
    ConfigurationError,
    FencedError,
    LeaseHeldError,
    LocalProtocolError,
    LogError,
    RunStatusError,
    RxWorkerError,
)
from rxworker.events import Annotation, CustomEvent, Event, Record, RunAbort, RunPause, RunRequeue
from rxworker.events.pause import woken_by
from rxworker.log.bases import Bases
from rxworker.log.fold import StoredRun, Where, fold_stored, stored_runs
from rxworker.log.format import Entry, entries_of, record_of, round_time
from rxworker.log.kept import forget
from rxworker.log.leases import LEASE, Heartbeat, Leases
from rxworker.log.replay import emitted, replay
from rxworker.log.search import KINDS, Found, excerpt, matches, texts_of, words_of
from rxworker.log.store import ALL_RUNS, PAGE, Append, Codec, Encoding, Followers, Store, StoredRow, Waker
from rxworker.log.values import (
    CARRIED,
    DECIDE,
    DELIVER,
    ENDED,
    LATER,
    OPEN,
    TAPPED,
    Claim,
    Command,
    DeliveredResult,
    RunInfo,
    RunRow,
    StoredStatus,
    carried_over,
    checked_command,
    decision_command,
    decisions_in,
    deliver_command,
    is_storable,
    resumed_id,
    returned_command,
    signal_command,
)
from rxworker.messages import JsonObject
from rxworker.messages.settings import check_number, check_type, checks_arguments
from rxworker.tools.results import to_content

S = TypeVar("S")

REPORTING = 1.0
"""Seconds for which a log that is closed waits until it has reported that its process returned."""
LEAVING = 10.0
"""Seconds, beside its patience, for which a log that is closed waits for its runs to be handed over."""
FEW = 20
"""How many runs are read one by one."""
PRUNED = 500
"""How many runs are deleted in one transaction."""
PRUNED_BYTES = 4_000_000
"""About how many bytes of entries; one run may have more."""


class EventLog(Store):
    """Stored runs. Made by `open_log`, or by the constructor of a store.

    Its methods belong to one event loop at a time. Close it with ``await log.close()``, or use ``async with``.

    Args:
        codec: Applied to what is stored.
        owner: The name of this process in claims; by default the host, the process and a random part.
        lease: Seconds that a claim lasts without a heartbeat; there are three heartbeats in a lease.

    Attributes:
        id: The name of the log, the same in each process that opens it.
        owner: The name of this process in claims.
        lease: Seconds that a claim lasts.
        heartbeat: Renews the claims of the runs of this process.
        followers: The followers of runs in this process.
        patience: Seconds for which a call of the log may take before it fails by itself, for example while its server
            is away.
        folds: The tasks of the folds that are kept with it.
        in_background: The calls that go on in this process while their runs are paused, by the ids of these.
        leaving: Called when it is closed, for each run that goes on: hands the run over, and returns the future of its
            end.
        bases: The conversations that are stored once.
        is_closed: Whether the log is closed.
        searches_texts: Whether `search` searches texts, and not titles alone.
    """

    id: str
    searches_texts: bool = False
    patience: float = 5.0
    _wall: Callable[[], float] = staticmethod(lambda: time.time())  # looked up each time: tests set the clock

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        checks_arguments(cls)

    def __init__(self, *, codec: Codec | None = None, owner: str = "", lease: float = LEASE) -> None:
        check_number("lease", lease)
        check_type("owner", owner, str, "owner='desk-1'")
        if codec is not None and not callable(getattr(codec, "encode", None)):
            message = "codec: give an object with encode(data) and decode(data)"
            raise ConfigurationError(message, page="operate-a-log#encrypt-a-log")
        self.lease = lease
        self.owner = owner or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self.heartbeat = Heartbeat(self.renew, max(lease / 3, 0.01))
        self.followers = Followers(self._follow_started, self._follow_ended)
        self.is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reports: dict[Claim, asyncio.Task[None]] = {}
        self._encoding = Encoding(codec)
        self.bases = Bases(self, self._encoding)
        self.folds: set[asyncio.Task[None]] = set()
        self.leaving: set[Callable[[], asyncio.Future[Any] | None]] = set()
        self.in_background: WeakValueDictionary[str, object] = WeakValueDictionary()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Owners

    async def claim(
        self, run_id: str, *, create: bool = False, row: RunRow | None = None, statuses: Collection[StoredStatus] = OPEN
    ) -> Claim:
        """Become the owner of a run. Its epoch rises, so that the appends of an earlier owner are refused.

        The store compares the status in the transaction of the claim, so that a run that has just ended is never
        continued.

        Args:
            run_id: The run's id.
            create: Whether it is a new run, without entries; otherwise it must exist.
            row: The values of a new run that a list shows.
            statuses: The statuses that the run may have. Only code that does not continue the run, such as
                `set_allowed`, names others than the default.

        Raises:
            RunStatusError: It has another status: it has ended, or is paused.
            LeaseHeldError: An owner holds it. This process holds the runs that it executes even if a lease has expired,
                for example because the machine was suspended.
            LogError: It does not exist, its values cannot be decoded, or ``create`` was given and it has entries.
        """
        self._check_open()
        # Its lease may have expired while the machine was suspended. To claim it would end the run that goes on here,
        # and count as a death.
        if create and not is_storable(run_id):
            raise LogError(
                f"{run_id!r} cannot be the id of a run: give a text that is not empty, without null characters and "
                "without half characters"
            )
        if not create:
            if self.heartbeat.renews(run_id):
                raise LeaseHeldError(run_id, self.owner, time.time() + self.lease)
            # It raises where the row, which is written again, cannot be decoded.
            await self._take_back([await self.info(run_id)])
        self._loop = asyncio.get_running_loop()
        encoded = self._encoding.encode(row or RunRow(), run_id) if create else None
        claim = await self._claim(run_id, encoded, frozenset(statuses))
        self.followers.wake(run_id)
        return claim

    async def append(
        self, claim: Claim, entries: Sequence[Entry], *, after: int, row: RunRow | None = None, durable: bool = True
    ) -> bool:
        """Append entries in one transaction.

        Args:
            claim: The claim of the run.
            entries: The entries, adjacent and in order.
            after: The number of the last record before them.
            row: The new last values of the run.
            durable: Whether the entries must survive a loss of power when this returns. Without that they survive the
                end of the process.

        Returns:
            Whether another process watches the run, so that it should be written more often.

        Raises:
            FencedError: Another owner has claimed the run, or its last number is not ``after``. Nothing was written.
            LogError: The store failed. Nothing was written.
        """
        self._check_open()
        entries = self._encoding.encode_entries(entries, claim.run_id)
        encoded = None if row is None else self._encoding.encode(row, claim.run_id)
        status = None if row is None else row.status
        try:
            is_watched = await self._append(Append(claim, entries, after, encoded, status, durable))
        except LogError as error:
            if isinstance(error, FencedError) or error.retryable:
                self._note_return(claim)
            raise
        self.followers.wake(claim.run_id, by_entries=True)
        return is_watched

    async def requeue(self, run_id: str, *, reason: str = "") -> None:
        """Put an aborted run back, so that `work`, `recover_all` or ``worker.recover`` continues it.

        It keeps its id and the sequence of its records.

        The deaths of its processes are counted anew. Its calls keep the results that they have; commands that it has
        not taken are void.

        Args:
            run_id: The run's id.
            reason: Shown to users; not interpreted. It is in the `RunRequeue`.

        Raises:
            RunStatusError: It is not aborted, was dismissed while it was paused, or is nested in another run, or is
                performed by another program.
            LeaseHeldError: Its process has not released it yet.
            LogError: There is no such run, or the log cannot be read or written.

        Example:
            >>> from rxworker import Worker
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.testing import ScriptedModel
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
            ...         await run.cancel()
            ...         await log.requeue(run.id, reason="it was cancelled by mistake")
            ...         print((await Worker(ScriptedModel(["Hello."]), log=log).recover(run.id)).text)
            >>> asyncio.run(main())
            Hello.
        """
        async with claimed(self, run_id, ("aborted",)) as (claim, info):
            last, refused = await self._end_of(info), ""
            if info.row.outer:
                refused = f"is nested in {info.row.outer}: put that run back, which makes the call again"
            elif info.row.worker.startswith(TAPPED):
                refused = "is a run of another program, which has ended: no worker goes on with it"
            elif not isinstance(last.event, RunAbort):
                refused = "was dismissed while it was paused: it cannot be put back; fork it"
            if refused:
                raise RunStatusError(f"{run_id} {refused}", run_id=run_id, status="aborted")
            row = replace(info.row, status="queued", reason="", cause="", end=0, ended=0.0)
            await append_events(self, claim, last, [RunRequeue(reason, info.sent)], row)
        await self.call_worker(row.worker)

    async def annotate(self, run_id: str, *events: CustomEvent) -> None:
        """Record what a person or a program thinks of a run that has ended or is paused.

        The events follow the last record of the run, whose status remains. Dashboards, searches and pages show them as
        any other record, with the time of now. Several processes may annotate a run at the same time.

        Args:
            run_id: The run's id.
            events: What is recorded: an `Annotation`, or an event of a class of your own. Without one, nothing is.

        Raises:
            ConfigurationError: An event has no JSON form, too long a text, or a record that the run does not have.
            RunStatusError: It has not ended, or is nested in another run.
            LogError: There is no such run, or the log cannot be read or written.

        Example:
            >>> from rxworker import Worker
            >>> from rxworker.events import Annotation
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.testing import ScriptedModel
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
            ...         await run
            ...         await log.annotate(run.id, Annotation("rating", 5, by="anna"))
            ...         *_, last = [entry async for entry in log.read(run.id)]
            ...         print(Annotation.of(record_of(last, run.id).event))
            >>> asyncio.run(main())
            Annotation(name='rating', value=5, comment='', by='anna', seq=0)
        """
        customs = [event.custom for event in events]
        info = await self.existing(run_id)
        if info.row.outer or info.status not in ENDED:  # its process holds it until it ends
            why = "annotate the run that it is nested in" if info.row.outer else "wait until it has ended"
            raise RunStatusError(f"{run_id} is {info.status}: {why}", run_id=run_id, status=info.status)
        async with released(self, run_id, ENDED) as (claim, info):
            last = await self._end_of(info)
            for event in events:
                if isinstance(event, Annotation) and not 0 <= event.seq <= info.last_seq:
                    raise ConfigurationError(f"the run has records 1 to {info.last_seq}, not {event.seq}: 0 is the run")
            ended = info.row.ended or max(last.time, info.created)  # an imported run is created after its records
            if customs:
                await append_events(self, claim, last, customs, replace(info.row, end=last.seq, ended=ended))

    async def _end_of(self, info: RunInfo) -> Record:
        """The record with which a run has ended or paused, before its annotations."""
        page = await self._read_page(info.run_id, (info.row.end or info.last_seq) - 1)
        if not page:
            raise no_run(info.run_id)
        return record_of(page[0], info.run_id)

    async def claim_any(self, infos: Sequence[RunInfo]) -> Claim | None:
        """Claim the first of some runs that no process holds, with one statement; ``None`` if there is none any more.

        Args:
            infos: Runs that are queued or cut off, as the log has listed them.

        Raises:
            LogError: The log cannot be written.
        """
        self._check_open()
        self._loop = asyncio.get_running_loop()
        await self._take_back(infos)
        runs = [one.run_id for one in infos if not self.heartbeat.renews(one.run_id)]
        claim = await self._claim_any(runs, frozenset(OPEN)) if runs else None
        if claim is not None:
            self.followers.wake(claim.run_id)
        return claim

    async def call_worker(self, kind: str, *, to_all: bool = False) -> None:
        """Wake one process that waits for a run of a kind, or all of them.

        Only a log that does not wake all processes for each change needs it.

        Args:
            kind: The kind of the run that waits; see `RunRow.worker`.
            to_all: Whether to wake all, since one of them cannot continue it.
        """
        if self.calls:
            with suppress(RxWorkerError):  # each looks by itself, later
                await self._call(kind, to_all)

    async def release(self, claim: Claim, *, until: float = 0.0) -> None:
        """Give a claim back, so that another process may claim the run at once.

        A claim that is lost already is ignored.

        Args:
            claim: The claim.
            until: When the run is due, if it is queued for later; see `RunRow.due`.
        """
        await (self._postpone(claim, until) if until > self._wall() else self._release(claim))
        self.followers.wake(claim.run_id)

    async def _take_back(self, infos: Iterable[RunInfo | None]) -> None:
        """Free queued runs that are kept from older processes until they are due."""
        for info in infos:
            if info is not None and info.status == "queued" and info.row.due and not info.owner:
                await self._release(Claim(info.run_id, info.epoch, info.last_seq, LATER))

    def renew(self, claims: Sequence[Claim]) -> list[str]:
        """Extend claims. Blocks; called from a thread of its own.

        Returns:
            The ids of the runs that another owner has claimed since.
        """
        lost = self._renew(claims)
        for claim in claims:
            if claim.run_id in lost and self._loop is not None:
                with suppress(RuntimeError):  # its event loop is closed
                    self._loop.call_soon_threadsafe(self._note_return, claim)
        return lost

    def _note_return(self, claim: Claim) -> None:
        """Report that this process has lost a run and still runs.

        Its suspension, or the cut of its network, is not to count as a death.
        """
        if not self.is_closed and claim not in self._reports:
            task = asyncio.get_running_loop().create_task(self._report_return(claim))
            self._reports[claim] = task

    async def _report_return(self, claim: Claim) -> None:
        try:
            while not self.is_closed:
                try:
                    await self.send(claim.run_id, returned_command(claim.epoch))
                except LogError as error:
                    if not error.retryable:
                        return  # reported before, or the run has ended
                    await asyncio.sleep(self.lease / 3)
                else:
                    return
        except LocalProtocolError:
            return  # the log was closed
        finally:
            del self._reports[claim]

    # Readers

    async def read(self, run_id: str, after: int = 0) -> AsyncGenerator[Entry, None]:
        """The entries of a run after a number, up to the present.

        The first entry may begin before ``after``, where that is within a span.
        """
        while entries := await self._read_page(run_id, after):
            for entry in entries:
                yield entry
            after = entries[-1].last

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[Entry, None]:
        """The entries of a run after a number, and then those that are appended, by any process.

        It ends when the log is closed.
        """
        async with aclosing(self.pages(run_id, after, until_end=False)) as pages:
            async for entries in pages:
                for entry in entries:
                    yield entry

    async def pages(
        self, run_id: str, after: int = 0, *, until_end: bool = True, until: int | None = None
    ) -> AsyncGenerator[list[Entry], None]:
        """The same in pages, which end also when the run has ended or is paused and all of it was given.

        If ``until_end`` is false, they do not end there.

        With ``until``, the number of a record that is stored, it follows nothing, and ends with the page that has it.
        """
        if until is not None:
            while after < until and (entries := await self._read_page(run_id, after)):
                after = entries[-1].last
                yield entries
            return
        with self._waker(run_id, reads_entries=True) as waker:
            while not self.is_closed:
                waker.clear()
                entries = await self._read_page(run_id, after)
                if entries:
                    after = entries[-1].last
                    yield entries
                elif not until_end:
                    await waker.wait()
                elif not self.is_closed:
                    info = await self.listed(run_id)
                    if info is not None and info.last_seq <= after:
                        if info.status not in (*OPEN, "deleted"):
                            return
                        await waker.wait()

    def records(self, run_id: str, after: int = 0) -> Observable[Record]:
        """A run as one observable, from its history to what is appended now, by any process, without a gap or a double.

            abc|    d--e|         what is stored, and what is appended
            [ log.records(run) ]
            abc----d--e|

        It is `replay` without pauses: each subscription reads the run anew, on the event loop that is running. It
        completes after the last record of a run that has ended or is paused, or when the log is closed.

        Args:
            run_id: The run's id.
            after: The number of the last record to leave out. It may be within a span.

        Raises:
            LogError: As ``on_error``: there is no such run, or the log cannot be read.

        Example:
            >>> from rxworker import Worker
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.operators import events, text_deltas
            >>> from rxworker.testing import ScriptedModel
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         run = Worker(ScriptedModel(["An old pond."]), log=log).run("A haiku!")
            ...         await run
            ...         texts = log.records(run.id).pipe(events(), text_deltas())
            ...         texts.subscribe(lambda text: print(text, end="|"))
            ...         await texts
            >>> asyncio.run(main())
            An o|ld p|ond.|
        """
        return replay(self, run_id, speed=0, after=after)

    async def info(self, run_id: str) -> RunInfo | None:
        """A stored run without its records; ``None`` if there is none.

        Raises:
            LogError: The log cannot be read, or the values of the run cannot be decoded.
        """
        return await self._decoded(run_id, is_strict=True)

    async def existing(self, run_id: str) -> RunInfo:
        """A stored run without its records, which was not deleted.

        Raises:
            LogError: There is none, or as for `info`.
        """
        info = await self.info(run_id)
        if info is None or info.status == "deleted":
            raise no_run(run_id)
        return info

    async def listed(self, run_id: str) -> RunInfo | None:
        """The same as `list` shows it: a run whose values cannot be decoded has an ``error``.

        Raises:
            LogError: The log cannot be read.
        """
        return await self._decoded(run_id)

    async def _decoded(self, run_id: str, *, is_strict: bool = False) -> RunInfo | None:
        self._check_open()
        found = await self._info(run_id)
        return None if found is None else self._encoding.decode_info(found, is_strict=is_strict)

    async def list(self, *, status: StoredStatus | None = None, before: str = "", limit: int = 100) -> list[RunInfo]:
        """Stored runs, the newest first, without deleted ones and without those that have no entry yet.

        One whose values cannot be decoded has an ``error``.

        Args:
            status: Only runs of this status.
            before: Only runs that are older than this one, for the next page.
            limit: At most so many.
        """
        self._check_open()
        return [self._encoding.decode_info(found) for found in await self._list(status, before, limit)]

    async def list_pages(
        self, *, status: StoredStatus | None = None, before: str = ""
    ) -> AsyncGenerator[list[RunInfo], None]:
        """All of them in pages; see `list`."""
        while infos := await self.list(status=status, before=before, limit=PAGE):
            yield infos
            before = infos[-1].run_id

    async def search(self, text: str = "", *, tool: str = "") -> AsyncGenerator[Found, None]:
        """The stored runs that match, the newest first.

        Whose title or texts contain each word of a text, in upper or lower case, also within other words.

        The texts are the messages to a run, its thinking and its answers, the arguments and results of its tools, and
        why it has failed. A log in memory reads them. A log in an SQLite file has an index of them, which it makes and
        completes when it is searched; so does a log in Postgres. With a codec, or without FTS5, they search titles, as
        a log in NATS does.

        Args:
            text: The words; all runs match an empty text.
            tool: Only runs that have started a tool of this name.

        Raises:
            LogError: The log cannot be read.

        Example:
            >>> from rxworker import Worker
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.testing import ScriptedModel
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         await Worker(ScriptedModel(["An old pond."]), log=log).run("A haiku!")
            ...         print([(found.info.row.title, found.excerpt) async for found in log.search("POND")])
            >>> asyncio.run(main())
            [('A haiku!', 'An old pond.')]
        """
        words = words_of(text)
        self._check_open()
        if (words or tool) and await self._index_texts():
            rows = await self._find_texts(words, tool, sys.maxsize, PAGE)
            while rows:
                for _, texts, stored in rows:
                    info = self._encoding.decode_info(stored)
                    yield Found(info, excerpt(words, info.row.title, texts))
                is_last = len(rows) < PAGE
                rows = [] if is_last else await self._find_texts(words, tool, rows[-1][0], PAGE)
            return
        async for infos in self.list_pages():
            for info in infos:
                title, texts, tools = info.row.title, "", ()
                if (tool and info.row.tool_calls) or (words and self.searches_texts):
                    # One that cannot be decoded, or was deleted meanwhile, has no texts.
                    with suppress(LogError):
                        read = texts_of([entry async for entry in self.read(info.run_id) if entry.kind in KINDS])
                        texts, tools = (read.text.lstrip() if self.searches_texts else ""), read.tools
                if matches(words, f"{title}\n{texts}") and (not tool or tool in tools):
                    yield Found(info, excerpt(words, title, texts))

    async def changes(self, *, limit: int | None = 100, every: float = 0.25) -> AsyncGenerator[list[RunInfo], None]:
        """The stored runs, and then those that have changed or whose lease was renewed or has ended, by any process.

        It yields the stored runs in pages, then an empty list, and then lists of changed runs. A run may come again
        without a change. It ends when the log is closed.

        Args:
            limit: How many runs are stored ones, the newest; ``None``: all. Those that are queued, running or paused
                come in any case.
            every: At most one list of changed runs in so many seconds.
        """
        with self._waker(ALL_RUNS) as waker:
            cursor = ChangeCursor(self)
            async for infos in cursor.stored(limit):
                yield infos
            yield []
            while not self.is_closed:
                waker.clear()
                if infos := await cursor.newer():
                    yield infos
                    # Many changes, such as those of a deletion of old runs, are read without pauses.
                    await asyncio.sleep(every if len(infos) < PAGE else 0.0)
                else:
                    await waker.wait(cursor.next_due)

    def fleet(self, *, every: float = 0.25) -> Observable[RunInfo]:
        """The last values of all runs as one observable.

        Those that are stored, and then each one that changes, by any process.

            abc|   b--d            what is stored, and what changes
            [ log.fleet() ]
            abc----b--d-

        `Fleet` folds it. A run comes again when it has changed, and when its lease was renewed or has ended, possibly
        more often. Each subscription reads the log anew, on the event loop that is running. It completes when the log
        is closed.

        Args:
            every: Changes are collected for so many seconds.

        Raises:
            LogError: As ``on_error``: the log cannot be read.

        Example:
            >>> from reactivex import operators as ops
            >>> from rxworker import Worker
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.testing import ScriptedModel
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         statuses = log.fleet(every=0).pipe(ops.map(lambda info: info.status))
            ...         statuses.pipe(ops.distinct_until_changed()).subscribe(print)
            ...         await Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
            >>> asyncio.run(main())
            running
            finished
        """

        async def emit(push: Callable[[RunInfo], None]) -> None:
            async with aclosing(self.changes(limit=None, every=every)) as changes:
                async for infos in changes:
                    for info in infos:
                        push(info)

        return emitted(emit)

    def runs(self, *, since: float | None = None, where: Where | None = None) -> Observable[StoredRun]:
        """The runs of the log as one observable.

        Those that are stored, and then each one that begins, in any process, each once.

            AB|    C--D          what is stored, and what begins
            [ log.runs() ]
            AB-----C--D

        `merge_runs` makes the records of all of them from it, without a gap or a double. Runs that have not ended come
        at once, and then those that have ended, the oldest first, as fast as they are read: of those, a few are read at
        once. A nested run does not come, since its records are among those of the run that it is nested in. A run that
        is put back after its end comes again, with the records that follow; see `requeue`. Each subscription reads the
        log anew, on the event loop that is running. It completes when the log is closed.

        Args:
            since: Only runs that were created at this time or later, in seconds since the epoch.
            where: Only runs for which it returns true. It is called with what a list shows of a run, when that is read
                and when it has changed, until it returns true.

        Raises:
            LogError: As ``on_error``: the log cannot be read. So does what ``where`` raises.

        Example:
            >>> from reactivex import operators as ops
            >>> from rxworker import Worker
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.operators import events, merge_runs, text_deltas
            >>> from rxworker.testing import ScriptedModel
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         worker = Worker(ScriptedModel(["One. ", "Two."]), log=log)
            ...         await worker.run("1?")
            ...         texts = merge_runs(log.runs()).pipe(events(), text_deltas())
            ...         texts.subscribe(lambda text: print(text, end="|"))
            ...         await worker.run("2?")
            ...         await texts.pipe(ops.take(3))
            >>> asyncio.run(main())
            One.| |Two.|
        """
        return stored_runs(self, since, where)

    def fold_stored(
        self, key: str, step: Callable[[S, Record], S], initial: S, *, where: Where | None = None, version: int = 1
    ) -> Observable[S]:
        """Fold all records of all runs, and keep the state with the log: a restart reads no record again.

            --r---r-r--          records, by any process
            [ log.fold_stored("count", lambda n, _: n + 1, 0) ]
            0-1---2-3--

        It emits what was kept, or ``initial``, and then the state whenever it has read records, many of them in one
        step. The records of a run come in their order, those of different runs in any. What counts is as for `runs`:
        nested runs count with their outer one, and a fork from its `Fork` on. The deletion of a run that was folded
        changes nothing.

        The state is written about once a second while records arrive, when the subscription is disposed, and when the
        log is closed, in one write with the place up to which the log was read. Several processes may fold under one
        key: one of them writes, and the others follow what it has written. The observable completes when the log is
        closed.

        Args:
            key: The name of the fold in this log.
            step: Returns the next state from a state and a record. It must always return the same for the same, and
                change nothing else.
            initial: The first state. msgspec must be able to encode and decode it, and all states have its type.
            where: Only runs for which it returns true; see `runs`.
            version: Raise it when ``step``, ``where`` or the type has changed: then all is folded anew.

        Raises:
            ConfigurationError: JSON cannot hold ``initial``, or an argument is wrong. As ``on_error``: ``step`` has
                returned another type.
            LogError: As ``on_error``: what was kept is of another type or of a later version, or the log cannot be read
                or written. So does what ``step`` raises; then the state before is kept.

        Example:
            >>> from rxworker import Worker
            >>> from rxworker.events import RunStop
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.testing import ScriptedModel
            >>> def ended(count: int, record: Record) -> int:
            ...     return count + isinstance(record.event, RunStop)
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         await Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
            ...         counts = log.fold_stored("ended", ended, 0)
            ...         print(await counts.pipe(ops.first(bool)))
            >>> from reactivex import operators as ops
            >>> asyncio.run(main())
            1
        """
        return fold_stored(self, key, step, initial, where, version)

    # Commands

    async def send(self, run_id: str, command: Command) -> int:
        """Store a command for the owner of a run.

        A message or a cancellation for a paused run that was resumed is sent on to the run that resumes it, once.

        Returns:
            Its number among the commands of this run. When this returns, the command is stored.

        Raises:
            ConfigurationError: No run can take it.
            CommandConflictError: The run has a command with the same key.
            LogError: There is no such run, or it has ended, or the run that resumes it has.
        """
        self._check_open()
        checked_command(command)
        number = await self._send(run_id, command.key, self._encoding.encode(command, run_id))
        self.followers.wake(run_id)
        if command.kind in (DECIDE, DELIVER, "send", "signal") and self.calls:
            info = await self.listed(run_id)
            if info is not None and info.status == "paused":
                await self.call_worker(info.row.worker)
        if command.kind in CARRIED:
            # After it is stored: a run that is resumed just now carries over what it finds, and makes the same key of
            # it.
            resumed = resumed_id(run_id)
            if await self._info(resumed) is not None:
                with suppress(CommandConflictError):
                    await self.send(resumed, carried_over(command, run_id, number))
        return number

    async def deliver(self, run_id: str, call_id: str, result: object, *, is_error: bool = False) -> None:
        """Give the result of a call in the background, with or without a process that has the run.

        A run that goes on adds it to its conversation at the next safe moment. For a paused one it is kept; one that
        waits for results alone is then resumed by a process that has `work` or `recover_all`. The result of a tool that
        still runs is dropped.

        Args:
            run_id: The id of the run, also of a paused one that was resumed since.
            call_id: The id of the call, or its idempotency key: ``call_id`` and ``idempotency_key`` of `ToolContext`.
                One that the run does not have in the background yet waits for it.
            result: What a tool may return.
            is_error: Whether the call has failed.

        Raises:
            CommandConflictError: The call has a result: the first one counts.
            ExecutionFailedError: The result has no JSON form.
            LogError: There is no such run, or it has ended.

        Example:
            >>> import asyncio
            >>> from rxworker import Worker, tool
            >>> from rxworker.events import BlockStop
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.testing import ScriptedModel, call
            >>> from rxworker.tools import ToolContext
            >>> @tool
            ... async def order(what: str, context: ToolContext) -> str:
            ...     context.later()
            >>> async def main() -> None:
            ...     log = MemoryLog()
            ...     model = ScriptedModel([call("order", what="tea"), "It is ordered.", "It is here."])
            ...     run = Worker(model, tools=[order], log=log).run("Order tea.")
            ...     async for record in run:
            ...         if record.turn == 2 and isinstance(record.event, BlockStop):  # the model has answered
            ...             await log.deliver(run.id, run.state.background[0].id, "a parcel")
            ...     print((await run).text)
            >>> asyncio.run(main())
            It is here.
        """
        content = to_content(result, call_id)
        await self.send(run_id, deliver_command(DeliveredResult(call_id, content, is_error)))

    async def signal(self, run_id: str, name: str, value: JsonObject | str = "") -> None:
        """Give a run a signal, for which a tool waits now or later; see `ToolContext.until`.

        A run has the first signal of each name, whatever is given later, so that a webhook may come twice. The runs
        that resume it have it, too.

        Args:
            run_id: The run's id, or that of a paused run that was resumed. Of a run inside another one, the outermost
                run has the signal.
            name: The name of the signal.
            value: An object or a text.

        Raises:
            ConfigurationError: The name or the value is invalid.
            LogError: There is no such run, it has ended, or the log cannot be written.
        """
        command = signal_command(name, value)
        info = await self.listed(run_id)
        while info is not None and info.row.outer and (outer := await self.listed(info.row.outer)) is not None:
            run_id, info = outer.run_id, outer
        while True:
            try:
                await self.send(run_id, command)
                return
            except CommandConflictError:  # the call that stored it may have ended before it was carried over
                run_id = resumed_id(run_id)
                if await self._info(run_id) is None:
                    return

    async def wake(self, run_id: str) -> None:
        """Let a run go on now that is queued for later, or whose tools wait; see `ToolContext.until`.

        Raises:
            CommandConflictError: It was decided about before.
            RunStatusError: It waits for nothing that `wake` can end.
            LogError: There is no such run, or the log cannot be read or written.
        """
        info = await self.existing(run_id)
        last = (await self._end_of(info)).event
        if info.status == "queued" and info.row.due:
            async with claimed(self, run_id, ("queued",)) as (claim, info):
                await self.append(claim, [], after=claim.last_seq, row=replace(info.row, due=0.0, reason=""))
            await self.call_worker(info.row.worker)
        elif info.status == "paused" and isinstance(last, RunPause) and last.pause.waits:
            woken = tuple([Approve() if wait else None for wait in woken_by(last.pause.tree)])
            await self.send(run_id, decision_command(StoredDecision(woken)))
        else:
            text = f"{run_id} is {info.status}, and waits for no moment, signal, message or run: nothing was changed"
            raise RunStatusError(text, run_id=run_id, status=info.status)

    async def commands(self, run_id: str, after: int = 0) -> AsyncGenerator[Command, None]:
        """The commands to a run after a number, and then those that are sent. It ends when the log is closed."""
        with self._waker(run_id) as waker:
            while not self.is_closed:
                waker.clear()
                found = await self._read_commands(run_id, after)
                for number, stored, data in found:
                    after = number
                    yield self._encoding.decode_command(run_id, number, stored, data)
                if not found:
                    await waker.wait()

    async def sent(self, run_id: str) -> list[Command]:
        """The commands to a run so far."""
        self._check_open()
        return [self._encoding.decode_command(run_id, *found) for found in await self._read_commands(run_id, 0)]

    # The whole log

    async def delete(self, run_id: str) -> None:
        """Delete the entries and commands of a run. A tombstone remains, so that nothing is appended to it later.

        A run that continues its conversation keeps that.

        Before the last run of a conversation, what a person always allows in it is deleted.

        Raises:
            LeaseHeldError: A process is running it.
            LogError: There is no such run.
        """
        info = await self.listed(run_id)
        if info is None or info.status == "deleted":
            raise no_run(run_id)
        await self._take_back([info])
        await forget(self, [info])
        for _ in range(FEW):
            await self.bases.fold([run_id])
            row = await self._info(run_id)
            is_held = row is not None and bool(row.owner) and row.lease_until > self._wall()
            if row is None or row.status == "deleted" or (not is_held and await self._prune([row])):
                self.followers.wake(run_id)
                return
            if is_held:
                raise LeaseHeldError(run_id, row.owner, row.lease_until)
            await asyncio.sleep(0.05)
        raise LogError(f"a run that continues {run_id} begins just now: delete it again", retryable=True)

    async def prune(
        self, *, max_age: float | None = None, max_runs: int | None = None, max_bytes: int | None = None
    ) -> list[str]:
        """Delete the oldest runs that have ended, the oldest first.

        A run that is queued or running is never deleted, and neither is a paused run that was decided about and not
        resumed yet, or that waits for something other than a person. One that waits for a decision is not deleted for
        its age alone; one that was resumed has ended here, since the run that resumes it goes on. A nested one ends
        with its outer run. The runs are deleted in short transactions, so that other processes work meanwhile; several
        may prune at once.

        Args:
            max_age: Delete runs whose last entry is older than so many seconds, and those without an entry that were
                claimed before that and never accepted.
            max_runs: Keep at most so many runs.
            max_bytes: Keep at most so many bytes of entries.

        Returns:
            The ids of the runs that this call has deleted.

        Raises:
            LogError: The log cannot be read or written. What was deleted before stays deleted.

        Example:
            >>> from rxworker import Worker
            >>> from rxworker.log import MemoryLog
            >>> from rxworker.testing import ScriptedModel
            >>> async def main() -> None:
            ...     async with MemoryLog() as log:
            ...         for text in ("One", "Two", "Three"):
            ...             await Worker(ScriptedModel(["Well."]), log=log).run(text)
            ...         await log.prune(max_runs=1)
            ...         print([info.row.title for info in await log.list()])
            >>> asyncio.run(main())
            ['Three']
        """
        self._check_open()
        rows: list[StoredRow] = []
        runs, size, now = 0, 0, time.time()
        async for row in self._all(None):
            runs, size = runs + 1, size + row.size
            is_over = (max_runs is not None and runs > max_runs) or (max_bytes is not None and size > max_bytes)
            is_old = max_age is not None and row.updated < now - max_age
            if row.status in OPEN or not (is_over or is_old):
                continue
            if row.status == "paused" and not await self._may_prune(row, is_over):
                continue
            rows.append(row)
            runs, size = runs - 1, size - row.size
        if max_age is not None:
            # Those whose process ended between the claim and the first entry.
            rows += [row async for row in self._all("running", is_empty=True) if row.updated < now - max_age]
        deleted: list[str] = []
        while rows:
            some = _take_some(rows)
            await forget(self, [self._encoding.decode_info(row) for row in some])
            await self.bases.fold([row.run_id for row in some])
            gone = await self._prune(some)
            for run in gone:
                self.followers.wake(run)
            deleted += [row.run_id for row in some if row.run_id in gone]
        if deleted:
            await self._reclaim()
        return deleted

    async def _all(self, status: StoredStatus | None, *, is_empty: bool = False) -> AsyncGenerator[StoredRow, None]:
        """All runs with entries, or those without, the newest first."""
        before = ""
        while page := await self._list(status, before, PAGE, is_empty=is_empty):
            for row in page:
                yield row
            before = page[-1].run_id

    async def _may_prune(self, row: StoredRow, is_over: bool) -> bool:
        """Whether nothing is lost with a paused run."""
        info = self._encoding.decode_info(row)
        resumed = await self._info(resumed_id(row.run_id))
        if resumed is not None and resumed.last_seq:  # it has entries
            return True
        if outer := info.row.outer:  # which continues it, unless that has ended
            while (later := await self._info(resumed_id(outer))) is not None and later.last_seq:
                outer = later.run_id
            around = await self._info(outer)
            return around is None or around.status not in (*OPEN, "paused")
        if info.is_waiting:
            return False
        try:
            return is_over and not decisions_in(await self.sent(row.run_id))
        except LogError:  # its commands cannot be decoded, so that nothing resumes it
            return is_over

    async def upgrade(self) -> None:
        """Store conversations once from now on, in a log that an older rxworker has made.

        Until then each run has its whole conversation, so that older processes can continue it.

        Replace the older processes before that, and start the others again after it.

        Raises:
            LogError: The log cannot be written.
        """
        self._check_open()
        await self._upgrade()

    async def close(self) -> None:
        """Hand over the runs that go on, write what is outstanding, and end everything that follows the log."""
        if self.is_closed:
            return
        if ends := [end for leave in [*self.leaving] if (end := leave()) is not None]:
            await asyncio.wait(ends, timeout=self.patience + LEAVING)
        if self._reports:
            await asyncio.wait([*self._reports.values()], timeout=REPORTING)
        self.is_closed = True
        self.followers.wake_all()
        if self.folds:
            await asyncio.wait([*self.folds], timeout=self.patience)
        for report in self._reports.values():
            report.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self.heartbeat.close)
        await self._close()

    # For the methods above

    def _check_open(self) -> None:
        if self.is_closed:
            raise LocalProtocolError("this log is closed: open it again")

    def _waker(self, run_id: str, *, reads_entries: bool = False) -> Waker:
        self._check_open()
        return Waker(self.followers, run_id, reads_entries)

    async def _read_page(self, run_id: str, after: int) -> list[Entry]:
        self._check_open()
        entries = self._encoding.decode_entries(await self._read(run_id, after, PAGE), run_id)
        if entries and entries[0].first == 1:
            entries = [await self.bases.whole(run_id, entries[0]), *entries[1:]]
        return entries


class ChangeCursor:
    """Reads the stored runs of a log, and then, each time, those that have changed.

    Args:
        log: The log.

    Attributes:
        revision: The revision of the last change that was read.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._leases = Leases(log.lease / 3)  # by a clock that is not set
        self.revision = 0

    @property
    def next_due(self) -> float | None:
        """When to look at a run again whose lease is renewed without a change."""
        due = self._leases.next_due
        return None if due is None else due - time.monotonic() + time.time()

    async def stored(self, limit: int | None) -> AsyncGenerator[list[RunInfo], None]:
        """The newest runs and all before them, or, with a limit, those that have not ended."""
        log = self._log
        newest = await log.list(limit=PAGE if limit is None else max(limit, 1))
        self.revision = max((info.revision for info in newest), default=0)
        if newest:
            yield self._noted(newest)
            if limit is None:
                rest = [log.list_pages(before=newest[-1].run_id)]
            else:
                rest = [log.list_pages(status=one) for one in ("queued", "running", "paused")]
            for pages in rest:
                async for infos in pages:
                    yield self._noted(infos)

    async def newer(self) -> list[RunInfo]:
        """The runs that have changed since, and those whose lease was to end; at most a page of the former."""
        log, decode = self._log, self._log._encoding.decode_info
        infos = [decode(each) for each in await log._changed_since(self.revision, PAGE)]
        if infos:
            self.revision = infos[-1].revision
        due = {*self._leases.due(time.monotonic())} - {info.run_id for info in infos}
        if len(due) > FEW:
            async for some in log.list_pages(status="running"):
                infos += [info for info in some if info.run_id in due]
                due -= {info.run_id for info in some}
        for run in due:
            if (info := await log.listed(run)) is not None:
                infos.append(info)
        return self._noted(infos)

    def _noted(self, infos: list[RunInfo]) -> list[RunInfo]:
        now = time.monotonic()
        self._leases.note(infos, now, now - time.time())
        return infos


def _take_some(rows: list[StoredRow]) -> list[StoredRow]:
    """Take the rows of one transaction from the end of a list, at least one."""
    some: list[StoredRow] = []
    size = 0
    while rows and (not some or (len(some) < PRUNED and size + rows[-1].size <= PRUNED_BYTES)):
        row = rows.pop()
        some.append(row)
        size += row.size
    return some


async def claim_or_release(
    log: EventLog, run_id: str, statuses: Collection[StoredStatus] = OPEN, *, create: bool = False
) -> Claim:
    """Claim a run, and release it if the caller is cancelled meanwhile.

    A store may have taken the claim by then, and it would last until its lease ends.

    Raises:
        LogError: As for `EventLog.claim`.
    """
    claiming = asyncio.ensure_future(log.claim(run_id, create=create, statuses=statuses))
    try:
        return await asyncio.shield(claiming)
    except asyncio.CancelledError:
        await asyncio.wait({claiming})
        if not claiming.cancelled() and claiming.exception() is None:
            await release_shielded(log, claiming.result())
        raise


@asynccontextmanager
async def claimed(
    log: EventLog, run_id: str, statuses: Collection[StoredStatus] = OPEN
) -> AsyncGenerator[tuple[Claim, RunInfo], None]:
    """Hold the claim of a run within the context, in which no other process changes it.

    Yields the claim, and the run as it is now.

    Raises:
        LogError: As for `EventLog.claim`.
    """
    claim = await claim_or_release(log, run_id, statuses)
    try:
        yield claim, await log.existing(run_id)
    finally:
        await release_shielded(log, claim)


@asynccontextmanager
async def released(
    log: EventLog, run_id: str, statuses: Collection[StoredStatus]
) -> AsyncGenerator[tuple[Claim, RunInfo], None]:
    """As `claimed`, when the process that holds the run has released it, which follows its pause or its end.

    Raises:
        LogError: The log was closed before, or as for `EventLog.claim`.
    """
    async with AsyncExitStack() as stack:
        async with aclosing(log.changes(limit=0, every=0.0)) as changes:
            async for infos in changes:
                # At first in any case, since the log has noted no change since.
                if not infos or any(one.run_id == run_id and one.lease_until <= time.time() for one in infos):
                    with suppress(LeaseHeldError):
                        held = await stack.enter_async_context(claimed(log, run_id, statuses))
                        break
            else:
                raise LogError(f"the log was closed before {run_id} was released")
        yield held


async def change_row(
    log: EventLog, run_id: str, statuses: Collection[StoredStatus], change: Callable[[RunInfo], RunRow]
) -> None:
    """Store other values of a run when its process has released it."""
    async with released(log, run_id, statuses) as (claim, info):
        await log.append(claim, [], after=claim.last_seq, row=change(info))


async def release_shielded(log: EventLog, claim: Claim, seconds: float | None = None) -> None:
    """Release a claim, also if the caller is cancelled meanwhile, which then takes at most so many seconds."""
    releasing = asyncio.ensure_future(log.release(claim))
    try:
        await asyncio.shield(releasing)
    except asyncio.CancelledError:
        await asyncio.wait({releasing}, timeout=seconds)
        raise


async def append_events(log: EventLog, claim: Claim, last: Record, events: Sequence[Event], row: RunRow) -> None:
    """Append events of now to a run that is not running, after its last record.

    Raises:
        LogError: As for `EventLog.append`.
    """
    now = round_time(log._wall())
    records = [
        Record(seq, claim.run_id, last.turn, last.attempt, now, event)
        for seq, event in enumerate(events, claim.last_seq + 1)
    ]
    await log.append(claim, entries_of(records, claim.epoch), after=claim.last_seq, row=row)


def already_stored(run_id: str) -> LogError:
    """The error for a new run that is stored."""
    return LogError(f"the log has a run {run_id!r} already")


def no_run(run_id: str) -> LogError:
    """The error for a run that is not stored."""
    return LogError(f"the log has no run {run_id!r}")
