"""Following a log: the tasks that a change of a run wakes, and the changes of all runs.

Theory of operation. A task that follows a run has a `Waker`. It clears the waker, reads what is stored, and waits for the waker if there is nothing new,
so that a change between the two is not missed. A store wakes it from any thread, after its own writes and for those of other processes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol, Self

from rxworker.log.leases import Leases
from rxworker.log.values import RunInfo, StoredStatus

ALL_RUNS = ""
"""In place of the id of a run: what follows it is woken by a change of any run."""

PAGE = 500
"""How many entries or runs are read at once."""

FEW = 20
"""How many runs are read one by one."""


class Followers:
    """The followers of the runs of a log in this process. Any thread may wake them.

    Args:
        started: Called with a run, or `ALL_RUNS`, when something begins to follow it.
        ended: Called when nothing follows it any more.
    """

    def __init__(self, started: Callable[[str], None], ended: Callable[[str], None]) -> None:
        self._started = started
        self._ended = ended
        self._wakers: dict[str, set[Waker]] = {}
        self._reading: Counter[str] = Counter()

    def follow(self, run_id: str, *, reads_entries: bool = False) -> Waker:
        """A waker for a run, to be entered as a context manager.

        Args:
            run_id: The run's id, or `ALL_RUNS`.
            reads_entries: Whether its entries are followed, and not just its commands.
        """
        return Waker(self, run_id, reads_entries)

    def wake(self, run_id: str) -> None:
        """Wake what follows a run, or all runs."""
        for waker in (*self._wakers.get(run_id, ()), *self._wakers.get(ALL_RUNS, ())):
            waker.set()

    def wake_all(self) -> None:
        """Wake everything."""
        for run in tuple(self._wakers):
            self.wake(run)

    @property
    def runs(self) -> Sequence[str]:
        """The ids of the runs that are followed, and `ALL_RUNS`, if all are."""
        return tuple(self._wakers)

    @property
    def read_runs(self) -> Sequence[str]:
        """The ids of the runs whose entries are followed."""
        return tuple(self._reading)

    def has_reader(self, run_id: str) -> bool:
        """Whether the entries of a run are followed."""
        return run_id in self._reading

    def add(self, waker: Waker) -> None:
        """Wake this one when its run changes."""
        if waker.reads_entries:
            self._reading[waker.run_id] += 1
        self._wakers.setdefault(waker.run_id, set()).add(waker)
        self._started(waker.run_id)

    def remove(self, waker: Waker) -> None:
        """Do not wake it any more."""
        wakers = self._wakers.get(waker.run_id, set())
        if waker not in wakers:
            return
        wakers.discard(waker)
        if waker.reads_entries:
            self._reading[waker.run_id] -= 1
            if not self._reading[waker.run_id]:
                del self._reading[waker.run_id]
        if not wakers:
            del self._wakers[waker.run_id]
            self._ended(waker.run_id)


class Milestones:
    """Futures that are done when a number is reached."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def add(self, number: int) -> asyncio.Future[None]:
        """The future of a number that is not reached yet."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((number, future))
        return future

    def reach(self, number: int) -> bool:
        """End what waits for a number up to this one. Returns whether anything waits for a greater one."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each[0] > number:
                self._waiting.append(each)
            elif not each[1].done():
                each[1].set_result(None)
        return bool(self._waiting)

    def take(self) -> list[asyncio.Future[None]]:
        """The futures that are not done. They wait no longer."""
        waiting, self._waiting = self._waiting, []
        return [future for _, future in waiting]


class Waker:
    """Wakes one task when a run changes, from any thread. Made by `Followers.follow`."""

    def __init__(self, followers: Followers, run_id: str, reads_entries: bool) -> None:
        self.run_id = run_id
        self.reads_entries = reads_entries
        self._followers = followers
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_set = False

    def __enter__(self) -> Self:
        self._followers.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._followers.remove(self)

    def set(self) -> None:
        """Wake the task."""
        if self._is_set:
            return
        self._is_set = True
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            self._followers.remove(self)  # its event loop is closed

    def clear(self) -> None:
        """Wait for changes from now on."""
        self._is_set = False
        self._event.clear()

    async def wait(self, until: float | None = None) -> None:
        """Wait until it is set, or until a time."""
        if not self._is_set:
            # `asyncio.wait_for` loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                seconds = None if until is None else max(until - time.time(), 0.0)
                async with asyncio.timeout(seconds):
                    await self._event.wait()


class Runs(Protocol):
    """A log, as far as following all of its runs needs it."""

    @property
    def lease(self) -> float:
        """Seconds that a claim lasts."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it is closed."""
        ...

    async def list(
        self, *, status: StoredStatus | None = None, before: str = "", limit: int = 100
    ) -> list[RunInfo]:
        """Stored runs, the newest first."""
        ...


async def changes_of(
    log: Runs,
    changed_since: Callable[[int, int], Awaitable[Sequence[RunInfo]]],
    info_of: Callable[[str], Awaitable[RunInfo | None]],
    waker: Waker,
    *,
    limit: int | None,
    every: float,
) -> AsyncGenerator[list[RunInfo], None]:
    """The stored runs in pages, an empty list, and then lists of the runs that change; see `EventLog.changes`."""
    newest = await log.list(limit=PAGE if limit is None else max(limit, 1))
    revision = max((info.revision for info in newest), default=0)
    leases = Leases(log.lease / 3)
    async for infos in _stored_pages(log, newest, limit):
        leases.note(infos, time.time())
        yield infos
    yield []
    while not log.is_closed:
        waker.clear()
        infos = [*await changed_since(revision, PAGE)]
        if infos:
            revision = infos[-1].revision
        infos += await _infos(log, info_of, leases.due(time.time()))
        if infos:
            leases.note(infos, time.time())
            yield infos
            # Many changes, such as those of a deletion of old runs, are read without pauses.
            await asyncio.sleep(every if len(infos) < PAGE else 0.0)
        else:
            await waker.wait(leases.next_due)


async def _stored_pages(
    log: Runs, newest: Sequence[RunInfo], limit: int | None
) -> AsyncGenerator[list[RunInfo], None]:
    """The newest runs in pages, and those that have not ended."""
    infos = [*newest]
    while infos:
        yield infos
        infos = [] if limit is not None else await log.list(before=infos[-1].run_id, limit=PAGE)
    if limit is None:
        return
    for status in ("queued", "running", "paused"):
        infos = await log.list(status=status, limit=PAGE)
        while infos:
            yield infos
            infos = await log.list(status=status, before=infos[-1].run_id, limit=PAGE)


async def _infos(
    log: Runs, info_of: Callable[[str], Awaitable[RunInfo | None]], runs: Sequence[str]
) -> list[RunInfo]:
    """Stored runs without their records, in pages if there are many."""
    found: dict[str, RunInfo] = {}
    wanted = {*runs}
    infos = await log.list(status="running", limit=PAGE) if len(runs) > FEW else []
    while infos:
        found.update((info.run_id, info) for info in infos if info.run_id in wanted)
        infos = await log.list(status="running", before=infos[-1].run_id, limit=PAGE)
    for run in wanted - found.keys():
        info = await info_of(run)
        if info is not None:
            found[run] = info
    return [*found.values()]
