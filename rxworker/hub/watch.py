"""One way of watching a run: with a delivery, from a place, on its event loop, on another, or in a thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from functools import partial
from typing import cast

from reactivex import abc
from reactivex.disposable import Disposable
from reactivex.internal import default_error, noop

from rxworker.errors import LocalProtocolError
from rxworker.events import Record
from rxworker.hub.delivery import Delivery
from rxworker.hub.followers import Follower
from rxworker.hub.home import at_home, running_loop
from rxworker.hub.observers import ignore
from rxworker.hub.reading import Reading
from rxworker.hub.watched import Watched
from rxworker.operators.stage import Sink, Stage


class Watch(Stage[Record]):
    """A way of watching. Made by ``run.watch(...)``; each use of it is a watcher of its own.

    - ``async for record in watch`` reads at the reader's own pace, on the run's event loop or on another.
    - ``async for batch in watch.batches()`` takes everything that there is at once.
    - ``for record in watch`` does so in another thread, and waits there.
    - ``watch.subscribe(...)`` and ``watch.pipe(...)``: pushed on the run's event loop, once a turn of it.

    Leaving the loop, or disposing the subscription, detaches. It never ends the run. Iterating raises what ended the run, behind its
    last record.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> import asyncio
        >>> async def read() -> list[int]:
        ...     run = Worker(ScriptedModel(["Hello!"])).run("Hi")
        ...     return [record.seq async for record in run.watch(after=3)]
        >>> asyncio.run(read())[0]
        4
    """

    emits_records = True

    def __init__(self, hub: Watched, delivery: Delivery, after: int, name: str) -> None:
        super().__init__()
        self._hub = hub
        self._delivery = delivery
        self._after = after
        self._name = name

    def __repr__(self) -> str:
        return f"Watch({self._delivery!r}, after={self._after})"

    async def __aiter__(self) -> AsyncIterator[Record]:
        """The records one by one."""
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for record in batch:
                    yield record

    def batches(self) -> AsyncGenerator[list[Record], None]:
        """All that there is for this watcher, each time that there is something.

        Raises:
            LocalProtocolError: It is `Reliable`, to be detached when it is too far behind, and it is; or the run's event loop is gone.
        """
        return self._read() if self._is_at_home() else self._read_from_afar()

    def __iter__(self) -> Iterator[Record]:
        """The records one by one, in a thread of the reader's own.

        Raises:
            LocalProtocolError: This is the thread of the run's event loop, which must not wait; or that loop is gone.
        """
        if running_loop() is not None and self._is_at_home():
            message = "to wait here would stop the run's event loop: use async for, or iterate in another thread"
            raise LocalProtocolError(message)
        reading = self._reading()
        try:
            while (batch := reading.wait()) is not None:
                yield from batch
        finally:
            reading.leave()

    def _reading(self) -> Reading:
        return Reading(self._hub, self._delivery, self._after, self._name)

    def _is_at_home(self) -> bool:
        return self._hub.loop is None or running_loop() is self._hub.loop

    async def _read(self) -> AsyncGenerator[list[Record], None]:
        reading = self._reading()
        try:
            while (batch := await reading.next()) is not None:
                yield batch
        finally:
            reading.leave()

    async def _read_from_afar(self) -> AsyncGenerator[list[Record], None]:
        reading = self._reading()
        try:
            while (batch := await reading.next_from_afar()) is not None:
                yield batch
        finally:
            reading.leave()

    def subscribe(
        self,
        on_next: abc.ObserverBase[Record] | abc.OnNext[Record] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Be pushed to; see ``Observable.subscribe``. May be called in any thread; what is given is called on the run's event loop.

        reactivex's guard is left out: it would cost more than the delivery, and the hub itself keeps what it promises. Nothing comes
        after the end or after disposing, and what an observer raises reaches nobody else.
        """
        if isinstance(on_next, abc.ObserverBase):
            return self._subscribe_core(cast("abc.ObserverBase[Record]", on_next), scheduler)
        sink = Sink[Record](on_next or ignore, on_error or default_error, on_completed or noop)
        return self._subscribe_core(sink, scheduler)

    def _subscribe_core(
        self,
        observer: abc.ObserverBase[Record],
        scheduler: abc.SchedulerBase | None = None,  # noqa: ARG002 - part of the signature
    ) -> abc.DisposableBase:
        hub = self._hub
        follower = Follower(hub.named(self._name), self._delivery, self._after, observer)
        at_home(hub, partial(hub.deferred.add_follower, follower))

        def leave() -> None:
            follower.push = ignore
            at_home(hub, partial(hub.deferred.remove_follower, follower))

        return Disposable(leave)


__all__ = ["Watch"]
