"""A watcher that takes its records itself: ``async for`` over a `Watch`, and ``for`` in another thread.

Theory of operation. The history belongs to the thread of the hub's event loop. A reader in another thread, or on
another event loop, has each of its steps made on the hub's loop, and receives a list. When the run has ended or that
loop is closed, nothing is written any more, and the reader reads what is left directly: it does not wait for a loop
that is about to close.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from contextlib import suppress

from rxworker.errors import LocalProtocolError, own
from rxworker.events import Record
from rxworker.hub.delivery import Delivery, Reliable, take
from rxworker.hub.registry import WatcherRegistry
from rxworker.hub.watcher import Watcher

END_TIMEOUT = 5.0
"""Seconds that a watcher elsewhere waits for the end of a run whose event loop is closing."""

CHECK_INTERVAL = 0.25
"""Seconds after which such a watcher checks whether the event loop still runs."""


class Reader(Watcher):
    """A watcher that pulls, with `now`, `next`, `wait` or `next_from_other_loop`.

    Constructing it attaches it to the hub, from whichever thread.

    Args:
        hub: The hub.
        delivery: How records are delivered.
        after: The number of the last record that it does not need.
        name: A label that users see; the hub numbers watchers without one.
    """

    __slots__ = ("_attached_at", "_has_taken", "_hub", "_step")

    def __init__(self, hub: WatcherRegistry, delivery: Delivery, after: int, name: str) -> None:
        super().__init__(hub.detach, delivery, after, hub.name_watcher(name))
        self._hub = hub
        self._attached_at = hub.history.last_seq
        self._has_taken = False
        self._step: Coroutine[object, object, list[Record] | None] | None = None
        hub.attach(self)

    def now(self, *, is_paced: bool = True) -> list[Record] | None:
        """The records that are new for it now; ``None`` if no more will follow.

        Args:
            is_paced: Whether it waits for the pace of its delivery.

        Raises:
            LocalProtocolError: It is further behind than its delivery allows.
            Exception: What ended the run.
        """
        hub = self._hub
        self._raise_if_too_far_behind()
        waits = is_paced and self._has_taken and not hub.ended
        if waits and not hub.flush_scheduler.may_take(self):
            return []
        batch = take(hub.history, self.delivery or Reliable(), self.seen)
        if batch:
            self._has_taken = True
            self.note(batch)
            hub.call_in_loop(hub.flush_scheduler.notify_taken)
            return batch
        if not hub.ended:
            return []
        if hub.error is not None:
            raise own(hub.error, hub.error_trace)
        return None

    def _raise_if_too_far_behind(self) -> None:
        match self.delivery:
            case Reliable(limit=int(limit), when_full="detach"):
                last = self._hub.history.last_seq
                # Records from before it was attached do not show that it is slow.
                if last - max(self.seen, self._attached_at) > limit:
                    behind = f"{self.name} is {last - self.seen} records behind"
                    raise LocalProtocolError(
                        f"{behind}, more than its delivery allows: read faster, or watch with Coalesce()"
                    )
            case _:
                pass

    async def next(self) -> list[Record] | None:
        """The new records, as soon as there are some; on the hub's event loop."""
        while True:
            batch = self.now()
            if batch is None or batch:
                return batch
            await self._hub.flush_scheduler.readers.sleep(self)

    def wait(self) -> list[Record] | None:
        """The same for another thread, which blocks."""
        step = self._submit()
        while step is not None:
            try:
                return step.result(CHECK_INTERVAL)
            except concurrent.futures.CancelledError:
                self._hub.wait_until_over(END_TIMEOUT)
                break
            except TimeoutError:
                if step.done():  # it is what ended the run
                    raise
                if self._is_stranded():
                    self._give_up(step)
                    break
        return self._rest()

    async def next_from_other_loop(self) -> list[Record] | None:
        """The same for another event loop."""
        step = self._submit()
        if step is None:
            return self._rest()
        waiting = asyncio.wrap_future(step)
        try:
            while not (await asyncio.wait({waiting}, timeout=CHECK_INTERVAL))[0]:
                if self._is_stranded():
                    self._give_up(step)
                    return self._rest()
            return waiting.result()
        except asyncio.CancelledError:
            waiting.cancel()
            task = asyncio.current_task()
            if not step.cancelled() or (task is not None and task.cancelling()):
                raise
            await asyncio.to_thread(self._hub.wait_until_over, END_TIMEOUT)
        return self._rest()

    def _is_stranded(self) -> bool:
        """Whether the step will not be made: the event loop is closed, or has stopped after the end of the run."""
        hub = self._hub
        loop = hub.loop
        return loop is None or loop.is_closed() or not (hub.pushes.locked() or loop.is_running())

    def _give_up(self, future: concurrent.futures.Future[list[Record] | None]) -> None:
        future.cancel()
        loop, step = self._hub.loop, self._step
        if step is not None and loop is not None and loop.is_closed():
            step.close()  # it may never have begun, of which Python would warn

    def _submit(self) -> concurrent.futures.Future[list[Record] | None] | None:
        """The next step, made on the hub's event loop; ``None`` when nothing is written any more."""
        loop = self._hub.loop
        if loop is None or loop.is_closed() or not self._hub.pushes.locked():
            return None
        future: concurrent.futures.Future[list[Record] | None] = concurrent.futures.Future()
        try:
            # A coroutine that is made here, and whose loop ends before it begins, would be warned of.
            loop.call_soon_threadsafe(self._begin, loop, future)
        except RuntimeError:
            return None
        return future

    def _begin(self, loop: asyncio.AbstractEventLoop, future: concurrent.futures.Future[list[Record] | None]) -> None:
        """Take a step on the hub's event loop. What waits for it may cancel it."""
        if future.cancelled():
            return
        self._step = self.next()
        step = loop.create_task(self._step)

        def cancel(waiting: concurrent.futures.Future[list[Record] | None]) -> None:
            if waiting.cancelled():
                with suppress(RuntimeError):  # the loop was closed
                    loop.call_soon_threadsafe(step.cancel)

        def finish(done: asyncio.Task[list[Record] | None]) -> None:
            with suppress(concurrent.futures.InvalidStateError):  # the watcher has left
                if done.cancelled():
                    future.cancel()
                elif (error := done.exception()) is not None:
                    future.set_exception(error)
                else:
                    future.set_result(done.result())

        future.add_done_callback(cancel)
        step.add_done_callback(finish)

    def _rest(self) -> list[Record] | None:
        batch = self.now(is_paced=False)  # no clock opens the pace any more
        if batch is not None and not batch:
            raise LocalProtocolError("the run's event loop has closed before the run ended")
        return batch
