"""Following a log: the tasks that a change of a run wakes.

Theory of operation. A task that follows a run has a `Waker`. It clears the waker, reads what is stored, and waits for
the waker if there is nothing new, so that a change between the two is not missed. A store wakes it from any thread,
after its own writes and for those of other processes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

ALL_RUNS = ""
"""In place of the id of a run: what follows it is woken by a change of any run."""
CALLS = "\0"
"""In place of the id of a run: what follows it is woken when the log calls this process to a run that waits."""

PAGE = 500
"""How many entries or runs are read at once."""


class Followers:
    """The followers of the runs of a log in this process. Any thread may wake them, and look which there are.

    The event loop adds and removes some meanwhile, so that other threads go through copies.

    Args:
        started: Called with a run, or `ALL_RUNS`, when something begins to follow it.
        ended: Called when nothing follows it any more.
    """

    def __init__(self, started: Callable[[str], None], ended: Callable[[str], None]) -> None:
        self._started = started
        self._ended = ended
        self._wakers: dict[str, set[Waker]] = {}

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
        """The ids of the runs that are followed, `ALL_RUNS`, if all are, and `CALLS`."""
        return tuple(self._wakers)

    @property
    def read_runs(self) -> Sequence[str]:
        """The ids of the runs whose entries are followed."""
        return [run for run in self.runs if self.has_reader(run)]

    def has_reader(self, run_id: str) -> bool:
        """Whether the entries of a run are followed."""
        return any(waker.reads_entries for waker in tuple(self._wakers.get(run_id, ())))

    def add(self, waker: Waker) -> None:
        """Wake this one when its run changes."""
        self._wakers.setdefault(waker.run_id, set()).add(waker)
        self._started(waker.run_id)

    def remove(self, waker: Waker) -> None:
        """Do not wake it any more."""
        wakers = self._wakers.get(waker.run_id, set())
        if waker not in wakers:
            return
        wakers.discard(waker)
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
    """Wakes one task when a run changes, from any thread, while it is entered as a context manager.

    Args:
        followers: The followers of the log.
        run_id: The run's id, or `ALL_RUNS`.
        reads_entries: Whether its entries are followed, and not just its commands.
    """

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

    async def wait(self, until: float | None = None) -> bool:
        """Wait until it is set, or until a time. Returns whether it is set."""
        if not self._is_set:
            # `asyncio.wait_for` loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                seconds = None if until is None else max(until - time.time(), 0.0)
                async with asyncio.timeout(seconds):
                    await self._event.wait()
        return self._is_set
