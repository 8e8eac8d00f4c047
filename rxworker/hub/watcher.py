"""One watcher of a hub: a cursor in its history, with a delivery, that is pushed to or pulls.

Theory of operation. A watcher with an observer is pushed to; one without takes its records itself. Neither has a buffer: what a watcher has not
seen is in the history. The history belongs to the thread of the hub's event loop. A watcher in another thread, or on another event loop, has
each of its steps made on the hub's loop, and receives a list. When the run has ended or that loop is closed, nothing is written any more, and the
watcher reads what is left directly: it does not wait for a loop that is about to close.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal, Protocol

from msgspec import Struct
from reactivex import Observable, abc

from rxworker.errors import LocalProtocolError
from rxworker.events import Record
from rxworker.hub.delivery import (
    Coalesce,
    Counts,
    Delivery,
    DropOldest,
    Latest,
    Reliable,
    add,
    count,
    take,
)
from rxworker.hub.history import History
from rxworker.operators.kernel import Many, Stage, many

END_TIMEOUT = 5.0
"""Seconds that a watcher elsewhere waits for the end of a run whose event loop is closing."""

CHECK_INTERVAL = 0.25
"""Seconds after which such a watcher checks whether the event loop still runs."""

NAMES: dict[type[object], str] = {
    type(None): "reliable",
    Reliable: "reliable",
    Coalesce: "coalesce",
    Latest: "latest",
    DropOldest: "drop_oldest",
}


class WatcherState(Struct, frozen=True):
    """A watcher at one moment.

    Attributes:
        name: Its name, as passed or numbered.
        delivery: ``reliable``, ``coalesce``, ``latest`` or ``drop_oldest``.
        seq: The number of the last record that it has seen.
        lag: How many records it is behind.
        delivered: How many records were delivered to it.
        merged: How many records were merged into others on the way to it.
        dropped: How many records were neither delivered nor merged.
    """

    name: str
    delivery: str
    seq: int
    lag: int
    delivered: int
    merged: int
    dropped: int


class WatchedHub(Protocol):
    """What a watcher needs of its hub.

    Attributes:
        history: The records so far.
        loop: The event loop of the hub, if any.
        over: Set when the hub has ended; for other threads.
    """

    history: History
    loop: asyncio.AbstractEventLoop | None
    over: OneShotEvent

    @property
    def timing(self) -> Callable[[Observable[Any]], Stage[Any]] | None:
        """Gives a pipeline the time of the event loop."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no more records follow."""
        ...

    @property
    def error(self) -> Exception | None:
        """The error with which it ended; ``None`` if there is none."""
        ...

    def name_watcher(self, name: str) -> str:
        """The name of a new watcher."""
        ...

    def attach(self, watcher: Watcher) -> None:
        """Serve a new watcher."""
        ...

    def detach(self, watcher: Watcher) -> None:
        """Serve a watcher no more."""
        ...

    def may_take(self, watcher: Watcher) -> bool:
        """Whether the pace of a watcher that pulls allows it to take what is new."""
        ...

    def notify_taken(self) -> None:
        """A watcher has taken records."""
        ...

    def sleep(self, watcher: Watcher) -> asyncio.Future[None]:
        """A future that is done when there may be more for a watcher that pulls."""
        ...


def _push_events(push: Callable[[Any], None]) -> Callable[[Record], None]:
    def push_event(record: Record) -> None:
        if not record.path:
            push(record.event)

    return push_event


class Watcher(abc.DisposableBase):
    """A cursor in the history of a hub, with a delivery. Compared by identity.

    Constructing it attaches it to the hub, from whichever thread.

    Args:
        hub: The hub.
        delivery: How records are delivered; ``None`` pushes each record within ``Hub.push``, and needs an observer.
        after: The number of the last record that it does not need.
        name: A label for people; the hub numbers watchers without one.
        observer: Receives what is pushed; without it, the watcher pulls with `now`, `next`, `wait` or `next_from_other_loop`.
        takes: What is pushed within ``Hub.push``: ``records``, the bare ``events`` of the run itself, or ``entries``: records of which one
            stands for adjacent deltas that arrived together.

    Attributes:
        seen: The number of the last record that it has received. For a member of a group, the group keeps this number.
        counts: How many records were delivered to it, merged for it, and dropped for it; in a group, less the counts of the group when it joined.
        push: Takes a record, or an event.
        push_many: Takes several.
        push_record: Takes a record; where events are wanted, it pushes the event of a record of the run itself.
        place: Its index among the watchers of its group; below 0 before it has one.
    """

    __slots__ = (
        "_attached_at",
        "_has_taken",
        "_hub",
        "_step",
        "counts",
        "delivery",
        "name",
        "observer",
        "place",
        "push",
        "push_many",
        "push_record",
        "seen",
        "takes",
    )

    def __init__(
        self,
        hub: WatchedHub,
        delivery: Delivery | None,
        after: int,
        name: str,
        observer: abc.ObserverBase[Any] | None = None,
        *,
        takes: Literal["records", "events", "entries"] = "records",
    ) -> None:
        self.name = hub.name_watcher(name)
        self.delivery = delivery
        self.seen = after
        self.counts: Counts = (0, 0, 0)
        self.observer = observer
        self.push: Callable[[Any], None] = ignore if observer is None else observer.on_next
        self.push_many: Many[Any] = (
            many(observer) if observer is not None and delivery is None else ignore
        )
        self.push_record = self.push if takes != "events" else _push_events(self.push)
        self.takes = takes
        self.place = -1
        self._hub = hub
        self._attached_at = hub.history.last_seq
        self._has_taken = False
        self._step: Coroutine[object, object, list[Record] | None] | None = None
        hub.attach(self)

    def dispose(self) -> None:
        """Detach it. It receives nothing more, not even by a push that is under way."""
        self.silence()
        self._hub.detach(self)

    leave = dispose

    def silence(self) -> None:
        """Push nothing more to it."""
        self.push = self.push_record = self.push_many = ignore

    def note(self, batch: list[Record]) -> None:
        """Count these records, of which there is at least one, as received."""
        self.seen = batch[-1].seq
        self.counts = add(self.counts, count(batch, self.delivery))

    def state(
        self, last_seq: int, seen: int | None = None, counts: Counts | None = None
    ) -> WatcherState:
        """Its state; ``seen`` and ``counts`` default to its own."""
        seen = self.seen if seen is None else seen
        lag = max(last_seq - seen, 0)  # it may begin after a number that does not exist yet
        kind = NAMES[type(self.delivery)]
        return WatcherState(self.name, kind, seen, lag, *(counts or self.counts))

    # Pulled.

    @property
    def wait_limit(self) -> int | None:
        """How far it may be behind before the source has to wait for it; ``None`` for any number."""
        match self.delivery:
            case Reliable(limit=limit, when_full="wait"):
                return limit
            case _:
                return None

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
        if waits and not hub.may_take(self):
            return []
        batch = take(hub.history, self.delivery or Reliable(), self.seen)
        if batch:
            self._has_taken = True
            self.note(batch)
            hub.notify_taken()
            return batch
        if not hub.ended:
            return []
        if hub.error is not None:
            raise hub.error
        return None

    def _raise_if_too_far_behind(self) -> None:
        match self.delivery:
            case Reliable(limit=int(limit), when_full="detach"):
                last = self._hub.history.last_seq
                # Records from before it was attached do not show that it is slow.
                if last - max(self.seen, self._attached_at) > limit:
                    raise LocalProtocolError(
                        f"{self.name} is {last - self.seen} records behind, more than its delivery allows: "
                        "read faster, or watch with Coalesce()"
                    )
            case _:
                pass

    async def next(self) -> list[Record] | None:
        """The new records, as soon as there are some; on the hub's event loop."""
        while True:
            batch = self.now()
            if batch is None or batch:
                return batch
            await self._hub.sleep(self)

    def wait(self) -> list[Record] | None:
        """The same for another thread, which blocks."""
        step = self._submit()
        while step is not None:
            try:
                return step.result(CHECK_INTERVAL)
            except concurrent.futures.CancelledError:
                self._hub.over.wait(END_TIMEOUT)
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
            await asyncio.to_thread(self._hub.over.wait, END_TIMEOUT)
        return self._rest()

    def _is_stranded(self) -> bool:
        """Whether the step will not be made: the event loop is closed, or has stopped after the end of the run."""
        hub = self._hub
        loop = hub.loop
        return loop is None or loop.is_closed() or (hub.over.is_set() and not loop.is_running())

    def _give_up(self, future: concurrent.futures.Future[list[Record] | None]) -> None:
        future.cancel()
        loop, step = self._hub.loop, self._step
        if step is not None and loop is not None and loop.is_closed():
            step.close()  # it may never have begun, of which Python would warn

    def _submit(self) -> concurrent.futures.Future[list[Record] | None] | None:
        """The next step, made on the hub's event loop; ``None`` when nothing is written any more."""
        loop = self._hub.loop
        if loop is None or loop.is_closed() or self._hub.over.is_set():
            return None
        future: concurrent.futures.Future[list[Record] | None] = concurrent.futures.Future()
        try:
            # A coroutine that is made here, and whose loop ends before it begins, would be warned of.
            loop.call_soon_threadsafe(self._begin, loop, future)
        except RuntimeError:
            return None
        return future

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        future: concurrent.futures.Future[list[Record] | None],
    ) -> None:
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


class OneShotEvent:
    """A ``threading.Event`` that is set once and never cleared; it needs a lock, and not a lock with a condition.

    Every run has one, and it is rarely waited for.

    >>> event = OneShotEvent()
    >>> event.set()
    >>> event.is_set(), event.wait(1.0)
    (True, True)
    """

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake every thread that waits."""
        if not self._is_set:
            self._is_set = True
            self._lock.release()

    def wait(self, timeout: float) -> bool:
        """Wait until it is set, for at most so many seconds. Whether it is set."""
        if not self._is_set and self._lock.acquire(timeout=timeout):
            self._lock.release()  # for the next thread that waits
        return self._is_set


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def ignore(_: object) -> None:
    """The observer of a detached watcher, which drops everything."""
