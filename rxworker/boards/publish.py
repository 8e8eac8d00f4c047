"""Any observable as a stream that has what a run has: isolated watchers, deliveries, numbers, and memory for late ones.

Theory of operation. The items are the records of a `Hub`, each with an `Item` as its event. The observable is
subscribed to once: at once in a running event loop, otherwise with the first use, so that a module may publish before
its program has a loop. What the observable pushes in another thread is pushed on the loop of the hub, and operators
that wait have the time of that loop. A number belongs to one publication: the cursor of an earlier process, or of
another stream of the same name, has another ``epoch``.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from reactivex import Observable, abc

from rxworker.errors import ConfigurationError, as_exception
from rxworker.events import Event, Record
from rxworker.hub import Coalesce, Delivery, Hub, Item, Reliable, Watch
from rxworker.hub.watcher import WatcherClock
from rxworker.messages import JsonObject
from rxworker.messages.settings import check_number, check_plain
from rxworker.operators.kernel import Scheduler, SerialDisposable, Sink, Stage
from rxworker.tools.schema import schema_of
from rxworker.watchdog import running_loop

A = TypeVar("A")

Keep: TypeAlias = Literal["last", "all"] | int
"""The items that a stream keeps for watchers that come late: the ``last``, ``all``, or so many of the newest."""

User: TypeAlias = str | Callable[[str], bool]
"""The user who may watch a stream, or a function that takes the name of a user and returns whether that user may."""

NAME = re.compile(r"(?!\.{1,2}\Z)[^/\x00-\x1f\x7f]{1,80}")

logger = logging.getLogger("rxworker.boards")


def publish(
    name: str,
    observable: Observable[A],
    *,
    type: type[A] | None = None,  # noqa: A002 - what it is
    keep: Keep = "last",
    delivery: Delivery | None = None,
    user: User | None = None,
    scheduler: abc.SchedulerBase | None = None,
) -> Published[A]:
    """Give an observable what a run has.

    Isolated watchers, each with its own delivery, numbered items, and a memory for watchers that come late.

    The observable is subscribed to once, however many watch: at once if an event loop runs, otherwise when the stream
    is used first. Its error ends the stream for its watchers, and is logged.

    Args:
        name: The name of the stream, for its address and its messages.
        observable: The values. It may push in any thread.
        type: The type of the values, for the schema; by default that of the first value.
        keep: The items that a watcher that comes late receives.
        delivery: How items are delivered to a watcher that names no delivery; by default `Coalesce`, which gives each
            item to every watcher that is not more than 1,024 items behind. `Latest` suits a value of which only the
            newest counts.
        user: Who may watch it on a server with users.
        scheduler: The clock of the observable and of the watchers; by default that of the event loop.

    Raises:
        ConfigurationError: A value is not valid, or the type has no JSON schema.

    Example:
        >>> import reactivex
        >>> from reactivex import operators as ops
        >>> total = publish("total", reactivex.of(3, 4).pipe(ops.scan(int.__add__)), keep="all")
        >>> _ = total.subscribe(print)
        3
        7
        >>> total.latest
        Item(seq=2, time=..., value=7)
    """
    return Published(name, observable, type, keep, delivery, user, scheduler)


class Published(Stage[A]):
    """A published stream: an observable of its values, with memory. Made by `publish`.

    - ``published.subscribe(...)`` and ``published.pipe(...)``: pushed once a turn of the event loop, first what is
      kept.
    - ``async for value in published`` reads at the reader's own pace.
    - ``published.watch(delivery, after=...)`` gives the items with their numbers.

    A watcher that raises is detached, and harms neither the stream nor the other watchers.

    Attributes:
        name: Its name.
        keep: The items that it keeps.
        delivery: How items are delivered to a watcher that names no delivery.
        user: Who may watch it on a server with users.
        epoch: A number that distinguishes it from the same stream of another process.
    """

    is_direct = True

    def __init__(
        self,
        name: str,
        observable: Observable[A],
        type: type[A] | None,  # noqa: A002 - as `publish` has it
        keep: Keep,
        delivery: Delivery | None,
        user: User | None,
        scheduler: abc.SchedulerBase | None,
    ) -> None:
        super().__init__()
        if not isinstance(name, str) or not NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise ConfigurationError(f"name={name!r:.100}: give 1 to 80 characters without a slash")
        if not isinstance(observable, Observable):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise ConfigurationError(f"{name} is {observable!r:.60}: give an observable, such as run.records.pipe(...)")
        if user is not None and not (callable(user) or (isinstance(user, str) and user)):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise ConfigurationError(f"user={user!r:.60}: give the name of a user, or a function that takes one")
        check_plain("publish(user)", user)
        if keep not in ("last", "all"):
            check_number("keep", keep, least=1, whole=True)
        self.name = name
        self.keep: Keep = keep
        self.delivery: Delivery = _checked(Coalesce() if delivery is None else delivery)
        self.user = user
        self.epoch = secrets.randbelow(10**15 - 1) + 1
        self._type: Any = type
        self._is_mixed = False
        self._schema = None if type is None else _schema(name, type)
        self._latest: Item[A] | None = None
        self._source = observable
        self._scheduler = scheduler
        self._known_hub: Hub | None = None
        self._subscription = SerialDisposable()
        if running_loop() is not None:
            self.begin()

    def __repr__(self) -> str:
        return f"Published({self.name!r}, keep={self.keep!r})"

    # The source.

    @property
    def hub(self) -> Hub:
        """Its items as records, whose event is an `Item`. It begins the stream."""
        return self.begin()

    def begin(self) -> Hub:
        """Subscribe to the observable, unless that was done."""
        hub = self._known_hub
        if hub is not None:
            return hub
        keep = {"last": 1, "all": None}.get(cast("str", self.keep), self.keep)
        hub = Hub(scheduler=self._scheduler, keep=cast("int | None", keep))
        self._known_hub = hub

        def end(error: BaseException | None = None) -> None:
            failure = None if error is None else as_exception(error)
            hub.call_in_loop(partial(self._end, hub, failure))

        def take(value: A) -> None:
            hub.call_in_loop(partial(self._push, hub, value))

        clock = self._scheduler
        if clock is None and hub.loop is not None:
            clock = WatcherClock(hub.loop, end)

        try:
            self._subscription.put(self._source.subscribe(take, end, end, scheduler=clock))
        except Exception as error:
            end(error)
        return hub

    def _push(self, hub: Hub, value: A) -> None:
        seq = hub.last_seq + 1
        clock = self._scheduler
        now = time.time() if clock is None else clock.to_seconds(clock.now)
        self._latest = item = Item(seq, now, value)
        if self._schema is None and not self._is_mixed:
            kind = value.__class__
            self._type = self._type or kind
            self._is_mixed = self._type is not kind
        hub.push(Record(seq, self.name, 0, 0, now, cast("Event", item)))

    def _end(self, hub: Hub, error: Exception | None) -> None:
        if hub.ended:
            return
        if error is not None:
            logger.warning("the published stream %s has failed", self.name, exc_info=error, extra={"stream": self.name})
        hub.end(error)
        self._subscription.dispose()

    def close(self) -> None:
        """End the stream: the observable is disposed, and the streams of its watchers complete."""
        hub = self.begin()
        hub.call_in_loop(partial(self._end, hub, None))

    # What it is.

    @property
    def latest(self) -> Item[A] | None:
        """The newest item; ``None`` before the first."""
        self.begin()
        return self._latest

    @property
    def schema(self) -> JsonObject:
        """The JSON schema of its values.

        Without a type it is that of the first value, and ``{}`` once a value of another type has followed.
        """
        if self._schema is not None:
            return self._schema
        if self._type is None or self._is_mixed:
            return {}
        try:
            return schema_of(self._type)
        except Exception:  # annotations of the program's, which may raise anything
            return {}

    def allows(self, user: str) -> bool:
        """Whether a user of a server with users may watch it. Without ``user=`` none may."""
        return self.user(user) is True if callable(self.user) else self.user == user

    # Watching.

    def watch(self, delivery: Delivery | None = None, *, after: int = 0, name: str = "") -> WatchItems[A]:
        """A way of watching, with numbers.

        Each subscription to it, and each iteration over it, is a watcher of its own.

        Args:
            delivery: How items are delivered; by default as the stream was published.
            after: The number of the last item that it does not need. Of those before what is kept it receives none,
                which the numbers show.
            name: A label that users see; by default it is numbered.

        Raises:
            ConfigurationError: ``delivery`` is not a delivery, or would make the observable wait; or ``after`` is not a
                number.
        """
        chosen = self.delivery if delivery is None else _checked(delivery)
        return WatchItems(self.hub.watch(chosen, after=after, name=name))

    async def __aiter__(self) -> AsyncIterator[A]:
        """The values one by one, at the reader's own pace."""
        async with aclosing(self.watch().batches()) as batches:
            async for batch in batches:
                for item in batch:
                    yield item.value

    @property
    def timing(self) -> Callable[[Observable[Any]], Stage[Any]]:  # pyright: ignore[reportIncompatibleVariableOverride] - the hub is made when it is needed
        """Gives a pipeline the time of the event loop."""
        return self._timed

    def _timed(self, pipeline: Observable[Any]) -> Stage[Any]:
        def subscribe(observer: abc.ObserverBase[Any], scheduler: Scheduler) -> abc.DisposableBase:
            return self.hub.timing(pipeline)._subscribe_core(observer, scheduler)

        return Stage(subscribe)

    def _subscribe_core(self, observer: abc.ObserverBase[A], scheduler: Scheduler = None) -> abc.DisposableBase:
        def push(item: Item[A]) -> None:
            observer.on_next(item.value)

        return self.watch()._subscribe_core(Sink(push, observer.on_error, observer.on_completed), scheduler)


class WatchItems(Stage[Item[A]], Generic[A]):
    """A way of watching a published stream, as a `Watch` is of a run. Made by ``published.watch(...)``.

    Example:
        >>> import reactivex
        >>> stream = publish("letters", reactivex.of("a", "b"), keep="all")
        >>> [(item.seq, item.value) for item in stream.watch(after=1)]
        [(2, 'b')]
    """

    is_direct = True

    def __init__(self, records: Watch) -> None:
        super().__init__()
        self._records = records
        self.timing = records.timing

    def __repr__(self) -> str:
        return f"WatchItems({self._records!r})"

    async def __aiter__(self) -> AsyncIterator[Item[A]]:
        """The items one by one, at the reader's own pace."""
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for item in batch:
                    yield item

    async def batches(self) -> AsyncGenerator[list[Item[A]], None]:
        """Everything new for this watcher, each time that there is something.

        Raises:
            LocalProtocolError: It is `Reliable` and too far behind; or the stream's event loop is closed.
            Exception: What ended the observable.
        """
        async with aclosing(self._records.batches()) as batches:
            async for batch in batches:
                yield _items(batch)

    def __iter__(self) -> Iterator[Item[A]]:
        """The items one by one, in a thread of the reader's own."""
        for record in self._records:
            yield from _items((record,))

    def _subscribe_core(self, observer: abc.ObserverBase[Item[A]], scheduler: Scheduler = None) -> abc.DisposableBase:
        def push(record: Record) -> None:
            event: Any = record.event
            if event.__class__ is Item:
                observer.on_next(event)

        return self._records._subscribe_core(Sink(push, observer.on_error, observer.on_completed), scheduler)


def _items(records: Sequence[Record]) -> list[Any]:
    """The items of records. A `Gap` among them stands for items that were dropped, which the numbers show."""
    events: list[Any] = [record.event for record in records]
    return [event for event in events if event.__class__ is Item]


def _checked(delivery: Delivery) -> Delivery:
    """The delivery, unless the source would have to wait for it. A hub refuses what is not a delivery."""
    if isinstance(delivery, Reliable) and delivery.limit is not None and delivery.when_full == "wait":
        raise ConfigurationError(
            "an observable cannot wait for its watchers: use Reliable(when_full='detach'), Reliable(limit=None) or "
            "Coalesce()"
        )
    return delivery


def _schema(name: str, type_: Any) -> JsonObject:
    try:
        return schema_of(type_)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the type of {name} has no JSON schema: {error}") from error
