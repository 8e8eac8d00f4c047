"""A stored run as an observable: from its history to what is appended now, at any speed.

Theory of operation. A task reads the run page by page. The records of a page are emitted by the task itself, or, where
they have to wait, by actions of the scheduler; the task reads the next page when the last record of this one was
emitted. So the memory is bounded by a page, and with a virtual scheduler nothing depends on the time that reading
takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from reactivex import Observable, abc

from rxworker.errors import LocalProtocolError
from rxworker.events import Custom, Record, RunAbort, RunPause, RunStop
from rxworker.hub.history import expand
from rxworker.log.format import Entry, records_of
from rxworker.operators.kernel import Call, Scheduler, SerialDisposable, Stage, Unstaged
from rxworker.transport.clock import loop_clock

A = TypeVar("A")

STEP = 0.0005
"""Seconds that a record may come early. Times are stored in milliseconds."""


class Pages(Protocol):
    """A log, as far as replaying needs it."""

    def pages(self, run_id: str, after: int = 0) -> AsyncGenerator[list[Entry], None]:
        """The entries of a run after a number, in pages."""
        ...


def replay(
    log: Pages,
    run_id: str,
    *,
    speed: float = 1.0,
    after: int = 0,
    until: int | None = None,
    scheduler: Scheduler = None,
) -> Observable[Record]:
    """A stored run, each record at its original distance in time from the first one.

        --a----b--c|           the run, as it was
        [ replay(log, run, speed=2) ]
        a--b-c|

    A run that is still running is followed: what is appended, by any process, is emitted when it is due, which is at
    once where the replay has caught up. Annotations follow the end at once. The observable completes after the last
    record of a run that has ended or is paused, or when the log is closed. It is cold: each subscription reads the run
    anew, on the event loop that is running, and disposing it stops the reading.

    Args:
        log: The log of the run.
        run_id: The run's id.
        speed: How much faster than it was; 0 for no pauses.
        after: The number of the last record to leave out.
        until: The number of the last record to emit; by default all.
        scheduler: The scheduler; by default the event loop's. Its actions must run in the thread of the event loop.

    Raises:
        LocalProtocolError: The speed is negative. As ``on_error``: the log is closed.
        LogError: As ``on_error``: there is no such run, or the log cannot be read.

    Example:
        >>> from reactivex import operators as ops
        >>> from rxworker import Worker
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        ...         await run
        ...         print(await replay(log, run.id, speed=0).pipe(ops.count()) == run.last_seq)
        >>> asyncio.run(main())
        True
    """
    if not speed >= 0:
        raise LocalProtocolError(f"speed is {speed}: give a positive number, or 0 for no pauses")

    def subscribe(observer: abc.ObserverBase[Record], _: Scheduler = None) -> abc.DisposableBase:
        pace = _Pace(scheduler or loop_clock(), speed) if speed else None
        return _Replay(log, run_id, after, until, pace, observer)

    made: Stage[Record] = Stage(subscribe)
    made.emits_records = True
    return made


class _Pace:
    """The times at which records are due. The first record is due at once."""

    def __init__(self, clock: abc.SchedulerBase, speed: float) -> None:
        self.clock = clock
        self._speed = speed
        self._began: tuple[datetime, float] | None = None
        self._has_ended = False

    def wait(self, record: Record) -> float:
        """Seconds until a record is due. An annotation follows the end of the run at once, whenever it was made."""
        if self._has_ended and isinstance(record.event, Custom):
            return 0.0
        self._has_ended = not record.path and isinstance(record.event, RunStop | RunAbort | RunPause)
        now = self.clock.now
        began, first = self._began = self._began or (now, record.time)
        return (record.time - first) / self._speed - (now - began).total_seconds()


@dataclass(eq=False)
class _Replay(abc.DisposableBase):
    """One subscription."""

    _log: Pages
    _run: str
    _after: int
    _until: int | None
    _pace: _Pace | None
    _observer: abc.ObserverBase[Record]

    def __post_init__(self) -> None:
        self._records: Iterator[Record] = iter(())
        self._next: Record | None = None  # it waits for its time
        self._timer = SerialDisposable()
        self._is_over = False
        self._page: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = keep_task(self._read())

    async def _read(self) -> None:
        try:
            if self._until is None or self._until > self._after:
                await self._read_pages()
        except Exception as error:
            if self._is_over:  # the observer has raised it
                raise
            self._is_over = True
            self._observer.on_error(error)
        else:
            self._is_over = True
            self._observer.on_completed()

    async def _read_pages(self) -> None:
        async with aclosing(self._log.pages(self._run, self._after)) as pages:
            async for page in pages:
                # The first entry may be a span that begins before.
                records = list(records_of(page, self._run, min(self._after, page[0].first - 1)))
                self._records = (one for each in records for one in expand(each, self._after, self._until))
                self._page = asyncio.get_running_loop().create_future()
                self._emit()
                await self._page
                self._after = page[-1].last
                if self._until is not None and self._after >= self._until:
                    return
                await asyncio.sleep(0)  # a log in memory never waits

    def _emit(self, *_: object) -> None:
        """Emit the records of the page that are due, and come back for the next one."""
        try:
            while not self._is_over:
                record = self._next or next(self._records, None)
                if record is None:
                    self._page.set_result(None)
                    return
                if self._pace is not None and (wait := self._pace.wait(record)) > STEP:
                    self._next = record
                    self._timer.put(self._pace.clock.schedule_relative(wait, self._emit))
                    return
                self._next = None
                self._observer.on_next(record)
        except BaseException:
            # What an observer raises goes to the one that pushed: the scheduler, or the task.
            self._is_over = True
            self._page.cancel()
            raise

    def dispose(self) -> None:
        """Emit nothing any more, and stop reading."""
        self._is_over = True
        self._timer.dispose()
        self._task.cancel()


_tasks: set[asyncio.Task[None]] = set()
"""The event loop itself holds its tasks weakly."""


def keep_task(work: Coroutine[object, object, None]) -> asyncio.Task[None]:
    """Begin a task that emits to an observer.

    What the observer raises goes to the exception handler of the event loop.
    """
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_ended)
    return task


def emitted(work: Callable[[Callable[[A], None]], Awaitable[None]]) -> Observable[A]:
    """An observable of the items that a coroutine function pushes; disposing a subscription cancels its task."""

    def subscribe(observer: abc.ObserverBase[A], _: Scheduler = None) -> abc.DisposableBase:
        async def emit() -> None:
            try:
                await work(observer.on_next)
            except Exception as error:
                if task.cancelling():  # the observer has raised it, which has ended the subscription
                    raise
                observer.on_error(error)
            else:
                observer.on_completed()

        task = keep_task(emit())
        return Call(task.cancel)

    return Unstaged(subscribe)


def _ended(task: asyncio.Task[None]) -> None:
    _tasks.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        message = "an observer of a stored run raised an exception"
        task.get_loop().call_exception_handler({"message": message, "exception": error})
