"""How a program watches a run: `Watch` for its records, and `iterate` for any other observable."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, cast

from reactivex import Observable, abc
from reactivex.internal import default_error, noop

from rxworker.errors import LocalProtocolError
from rxworker.events import Record
from rxworker.hub.delivery import Delivery
from rxworker.hub.reader import Reader
from rxworker.hub.registry import WatcherRegistry
from rxworker.hub.timing import TimedPipeline, noted
from rxworker.hub.watcher import running_loop
from rxworker.operators.kernel import Sink, Stage, check_observer

A = TypeVar("A")

WhenFull: TypeAlias = Literal["fail", "drop_oldest"]
"""What a full buffer does: ``fail`` with an error, or ``drop_oldest``."""


class Watch(Stage[Record]):
    """A way of watching. Made by ``run.watch(...)``; each use of it is a watcher of its own.

    - ``async for record in watch`` reads at the reader's own pace, on the run's event loop or on another.
    - ``async for batch in watch.batches()`` takes everything new at once.
    - ``for record in watch`` does so in another thread, which blocks.
    - ``watch.subscribe(...)`` and ``watch.pipe(...)``: pushed on the run's event loop, once a turn.

    Leaving the loop, or disposing the subscription, detaches the watcher. It never ends the run. After the last record,
    iterating raises what ended the run.

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

    def __init__(self, hub: WatcherRegistry, delivery: Delivery, after: int, name: str) -> None:
        super().__init__()
        self._hub = hub
        self.timing = partial(TimedPipeline[Any], hub)
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
        """Everything new for this watcher, each time that there is something.

        Raises:
            LocalProtocolError: It is `Reliable` with ``when_full="detach"`` and too far behind; or the run's event loop
                is closed.
        """
        return self._read(is_local=self._is_in_loop())

    async def _read(self, *, is_local: bool) -> AsyncGenerator[list[Record], None]:
        watcher = self.reader()
        take = watcher.next if is_local else watcher.next_from_other_loop
        try:
            while (batch := await take()) is not None:
                yield batch
        finally:
            watcher.dispose()

    def __iter__(self) -> Iterator[Record]:
        """The records one by one, in a thread of the reader's own.

        Raises:
            LocalProtocolError: This is the thread of the run's event loop, which must not wait; or that loop is closed.
        """
        if running_loop() is not None and self._is_in_loop():
            message = "to wait here would stop the run's event loop: use async for, or iterate in another thread"
            raise LocalProtocolError(message)
        watcher = self.reader()
        try:
            while (batch := watcher.wait()) is not None:
                yield from batch
        finally:
            watcher.dispose()

    def reader(self) -> Reader:
        """A watcher that takes its records itself, attached from now on. Dispose it."""
        return Reader(self._hub, self._delivery, self._after, self._name)

    def _is_in_loop(self) -> bool:
        return self._hub.loop is None or running_loop() is self._hub.loop

    def subscribe(
        self,
        on_next: abc.ObserverBase[Record] | abc.OnNext[Record] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Push to an observer; see ``Observable.subscribe``.

        May be called in any thread; the functions are called on the run's event loop.

        The guard of reactivex is left out: it would cost more than the delivery, and the hub itself keeps its contract.
        Nothing is pushed after the end or after disposing, and an exception of an observer affects only its own stream.
        """
        if isinstance(on_next, abc.ObserverBase):
            return self._subscribe_core(cast("abc.ObserverBase[Record]", on_next), scheduler)
        check_observer(on_next, on_error, on_completed)
        sink = Sink[Record](on_next or noop, on_error or default_error, on_completed or noop)
        return self._subscribe_core(sink, scheduler)

    def _subscribe_core(
        self, observer: abc.ObserverBase[Record], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        watcher = self._hub.push_to(observer, self._delivery, self._after, self._name)
        return noted(watcher, scheduler)


async def iterate(source: Observable[A], *, limit: int = 1024, when_full: WhenFull = "fail") -> AsyncGenerator[A, None]:
    """The items of an observable, one by one. Leaving the loop disposes the subscription.

    A `Run` does not need this: it can be iterated without a buffer, since it keeps its records.

    Args:
        source: The observable. It pushes, and cannot be made to wait.
        limit: The maximum number of items to buffer for a slower reader.
        when_full: ``fail`` ends the iteration with an error, ``drop_oldest`` drops the oldest item.

    Raises:
        LocalProtocolError: The buffer was full.

    Example:
        >>> import asyncio, reactivex
        >>> async def collect() -> list[int]:
        ...     return [item async for item in iterate(reactivex.of(1, 2, 3))]
        >>> asyncio.run(collect())
        [1, 2, 3]
    """
    held: deque[A] = deque()
    arrived = asyncio.Event()
    ended: list[Exception | None] = []

    def on_next(item: A) -> None:
        if len(held) >= limit:
            if when_full == "fail":
                end(LocalProtocolError(f"the reader is more than {limit} items behind"))
                return
            held.popleft()
        held.append(item)
        arrived.set()

    def end(error: Exception | None = None) -> None:
        ended.append(error)
        arrived.set()

    subscription = source.subscribe(on_next, end, end)
    try:
        while True:
            while held:
                yield held.popleft()
            if ended:
                if ended[0] is not None:
                    raise ended[0]
                return
            arrived.clear()
            await arrived.wait()
    finally:
        subscription.dispose()
