"""One reader's walk along the records of a hub, from whichever thread.

The history belongs to the thread of the hub's event loop. A reader in another thread therefore has each of its steps made
there, and gets a list. When the run is over, or the loop has gone, nothing is written any more, and what is left is read
directly: nobody waits for a loop that is about to close.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from functools import partial

from rxworker.errors import LocalProtocolError
from rxworker.events import Record
from rxworker.hub.delivery import Delivery, take
from rxworker.hub.home import at_home
from rxworker.hub.watched import Watched
from rxworker.hub.watcher import Watcher

PATIENCE = 5.0
"""Seconds that a reader elsewhere waits for a run to wind up whose event loop is closing."""

LOOK = 0.25
"""Seconds after which such a reader looks whether the event loop still runs."""


class Reading:
    """A reader and its place.

    Args:
        hub: What it reads.
        delivery: How.
        after: The number of the last record that it need not be given.
        name: For people.
    """

    def __init__(self, hub: Watched, delivery: Delivery, after: int, name: str) -> None:
        self._hub = hub
        self._reader = Watcher(hub.named(name), delivery, after)
        self._came = hub.last_seq
        self._work: Coroutine[object, object, list[Record] | None] | None = None
        self._has_taken = False
        at_home(hub, partial(hub.deferred.add_reader, self._reader))

    def leave(self) -> None:
        """It comes no more."""
        at_home(self._hub, partial(self._hub.deferred.remove_reader, self._reader))

    def now(self, *, is_paced: bool = True) -> list[Record] | None:
        """What there is for it at this moment; ``None`` when nothing will come.

        Args:
            is_paced: Whether it waits for the pace of its delivery.

        Raises:
            LocalProtocolError: It is too far behind, and is to be detached then.
            Exception: What ended the run.
        """
        hub, reader = self._hub, self._reader
        if reader.is_lost(hub.last_seq, self._came):
            raise LocalProtocolError(
                f"{reader.name} is {hub.last_seq - reader.seen} records behind, more than its delivery allows: "
                "read faster, or watch with Coalesce()"
            )
        waits = is_paced and self._has_taken and not hub.ended
        if waits and not hub.deferred.may_take(reader):
            return []
        batch = take(hub.history, reader.delivery, reader.seen)
        if batch:
            self._has_taken = True
            reader.note(batch)
            at_home(hub, hub.deferred.took)
            return batch
        if not hub.ended:
            return []
        if hub.error is not None:
            raise hub.error
        return None

    async def next(self) -> list[Record] | None:
        """What there is, as soon as there is something."""
        while True:
            batch = self.now()
            if batch is None or batch:
                return batch
            await self._hub.deferred.readers.sleep(self._reader)

    def wait(self) -> list[Record] | None:
        """The same for a thread, which waits."""
        step = self._submit()
        while step is not None:
            try:
                return step.result(LOOK)
            except concurrent.futures.CancelledError:
                self._hub.over.wait(PATIENCE)
                break
            except TimeoutError:
                if step.done():  # it is what ended the run
                    raise
                if self._is_stranded():
                    self._give_up(step)
                    break
        return self._rest()

    async def next_from_afar(self) -> list[Record] | None:
        """The same for another event loop."""
        step = self._submit()
        if step is None:
            return self._rest()
        waiting = asyncio.wrap_future(step)
        try:
            while not (await asyncio.wait({waiting}, timeout=LOOK))[0]:
                if self._is_stranded():
                    self._give_up(step)
                    return self._rest()
            return waiting.result()
        except asyncio.CancelledError:
            waiting.cancel()
            task = asyncio.current_task()
            if not step.cancelled() or (task is not None and task.cancelling()):
                raise
            await asyncio.to_thread(self._hub.over.wait, PATIENCE)
        return self._rest()

    def _is_stranded(self) -> bool:
        """Whether the step will not be made: the event loop has closed, or has stopped for good behind the end of the run."""
        hub = self._hub
        loop = hub.loop
        return loop is None or loop.is_closed() or (hub.over.is_open and not loop.is_running())

    def _give_up(self, step: concurrent.futures.Future[list[Record] | None]) -> None:
        step.cancel()
        loop, work = self._hub.loop, self._work
        if work is not None and loop is not None and loop.is_closed():
            work.close()  # it may never have begun, which Python would warn of

    def _submit(self) -> concurrent.futures.Future[list[Record] | None] | None:
        """The next step, made on the hub's event loop; ``None`` when nothing is written any more."""
        loop = self._hub.loop
        if loop is None or loop.is_closed() or self._hub.over.is_open:
            return None
        step = self._work = self.next()
        try:
            return asyncio.run_coroutine_threadsafe(step, loop)
        except RuntimeError:
            step.close()
            return None

    def _rest(self) -> list[Record] | None:
        batch = self.now(is_paced=False)  # no clock opens it any more
        if batch is not None and not batch:
            raise LocalProtocolError("the run's event loop has closed before the run ended")
        return batch


__all__ = ["Reading"]
