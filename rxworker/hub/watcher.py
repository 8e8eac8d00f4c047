"""One watcher of a hub: a cursor in its history, with a delivery.

Theory of operation. A watcher with an observer is pushed to; a `Reader` takes its records itself. Neither has a buffer:
what a watcher has not seen is in the history, and ``seen`` is all that distinguishes two watchers of one delivery.
Those of one delivery that are pushed to once a turn are in a group, which keeps the number for all of them. What
surprises: a watcher may be disposed in the middle of a push, by itself or by another one. So `Watcher.silence` replaces
its functions instead of setting a flag that each push would have to read.

The end of a watcher is here too: how its stream ends, also when it has raised.

Theory of operation of its clock. An operator of reactivex that waits takes the scheduler that the subscriber passes,
and otherwise one that calls from threads of its own. A pipeline on a hub therefore ends in a `TimedPipeline`, which
passes a `WatcherClock` where the subscriber passes none. What waits, waits on the event loop. What does not wait runs
at once in the calling thread, as it does without a scheduler, so that ``of`` or ``start_with`` in a pipeline emit when
they always did. A record is pushed within ``Hub.push``, which catches what its observer raises. A timer calls from the
event loop, where the clock catches it: the subscription is disposed, the stream ends with the exception, and the hub
reports it as it reports any watcher that raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

from msgspec import Struct
from reactivex import abc, typing
from reactivex.internal import noop
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker.errors import RxWorkerError, as_exception, describe
from rxworker.events import Record
from rxworker.hub.delivery import Coalesce, Delivery, DropOldest, Latest, Reliable, count
from rxworker.operators.kernel import TRAMPOLINE, Kinds, Many, many

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")

Takes: TypeAlias = Literal["records", "events", "entries"]
"""What is pushed to a watcher that is pushed to at once."""

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


class Watcher(abc.DisposableBase):
    """A cursor in the history of a hub, with a delivery. Compared by identity.

    Args:
        detach: Called when it is disposed: it is to be served no more.
        delivery: How records are delivered; ``None`` pushes each record within ``Hub.push``, and needs an observer.
        after: The number of the last record that it does not need.
        name: A label that users see.
        observer: Receives what is pushed; a `Reader` has none.
        takes: What is pushed within ``Hub.push``: ``records``, the bare ``events`` of the run itself, or ``entries``:
            records of which one stands for adjacent deltas that arrived together.

    Attributes:
        seen: The number of the last record that it has received. For a member of a group, the group keeps this number.
        delivered: How many records were delivered to it; in a group, less the number of the group when it joined.
        push: Takes a record, or an event.
        push_many: Takes several.
        kinds: The classes of the events that its observer takes notice of; ``None`` for all.
        push_batch: Takes the records of one turn, if its observer has an ``on_batch`` that does.
        place: Its index among the watchers of its group; below 0 before it has one.
    """

    def __init__(
        self,
        detach: Callable[[Watcher], None],
        delivery: Delivery | None,
        after: int,
        name: str,
        observer: abc.ObserverBase[Any] | None = None,
        *,
        takes: Takes = "records",
    ) -> None:
        self.name = name
        self.delivery = delivery
        self.seen = self._after = after
        self.delivered = 0
        self.observer = observer
        self.push: Callable[[Any], None] = noop if observer is None else observer.on_next
        self.push_many: Many[Any] = many(observer) if observer is not None and delivery is None else noop
        self.push_batch: Callable[[list[Record]], None] | None = getattr(observer, "on_batch", None)
        self.takes = takes
        self.kinds: Kinds | None = getattr(observer, "kinds", None)
        self.place = -1
        self._detach = detach

    def dispose(self) -> None:
        """Detach it. It receives nothing more, not even by a push that is under way."""
        self.silence()
        self._detach(self)

    def silence(self) -> None:
        """Push nothing more to it."""
        self.push = self.push_many = noop
        if self.push_batch is not None:
            self.push_batch = noop

    def note(self, batch: list[Record]) -> None:
        """Count these records, of which there is at least one, as received."""
        self.seen = batch[-1].seq
        self.delivered += count(batch, self.delivery)

    def state(self, last_seq: int, seen: int | None = None, delivered: int | None = None) -> WatcherState:
        """Its state; ``seen`` and ``delivered`` default to its own."""
        seen = self.seen if seen is None else seen
        delivered = self.delivered if delivered is None else delivered
        lag = max(last_seq - seen, 0)  # it may begin after a number that does not exist yet
        # What it has received covers every number: the others are merged into these, or dropped.
        rest = max(seen - self._after, 0) - delivered
        drops = isinstance(self.delivery, Latest | DropOldest)
        merged, dropped = (0, rest) if drops else (rest, 0)
        kind = NAMES[type(self.delivery)]
        return WatcherState(self.name, kind, seen, lag, delivered, merged, dropped)

    @property
    def wait_limit(self) -> int | None:
        """How far it may be behind before the source has to wait for it; ``None`` for any number."""
        delivery = self.delivery
        if isinstance(delivery, Reliable) and delivery.when_full == "wait":
            return delivery.limit
        return None


def wake(waiting: Iterable[asyncio.Future[A]], outcome: A | Exception) -> None:
    """Wake the tasks that wait for these futures, with a result or an error."""
    for future in waiting:
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


OnRaise: TypeAlias = Callable[[str, BaseException], None]


def raise_from_loop(loop: asyncio.AbstractEventLoop, interrupt: KeyboardInterrupt) -> None:
    """Raise an interrupt out of the event loop, in the code that runs it, when the current callback has returned."""

    def raise_it() -> None:
        raise interrupt

    with suppress(RuntimeError):  # the loop is closed, and the program is past it
        loop.call_soon_threadsafe(raise_it)


def end_stream(observer: abc.ObserverBase[Any] | None, name: str, error: Exception | None, on_raise: OnRaise) -> None:
    """Complete the stream of an observer, or end it with an error, and report what the observer raises then."""
    if observer is None:
        return
    trace = None if error is None else error.__traceback__
    try:
        if error is None:
            observer.on_completed()
        else:
            observer.on_error(error)
    except BaseException as raised:
        # reactivex raises the error itself for an observer without on_error. Awaiting the run raises it too.
        if raised is not error:
            on_raise(name, raised)
        raised.__traceback__ = trace if raised is error else raised.__traceback__


def fail_stream(observer: abc.ObserverBase[Any] | None, name: str, error: BaseException, on_raise: OnRaise) -> None:
    """End the stream of an observer that has raised with what it raised, and report it.

    Operators may be subscribed downstream, and a program may await what they emit.
    """
    failure = as_exception(error)
    if isinstance(error, KeyboardInterrupt):
        # The hub forwards the interrupt itself, once. Awaiting the stream raises another exception.
        failure = RxWorkerError(describe(error))
        failure.__cause__ = error
    trace = error.__traceback__
    with suppress(BaseException):
        if observer is not None:
            observer.on_error(failure)
    # An observer without on_error raises it once more, which would lengthen the traceback.
    on_raise(name, error.with_traceback(trace))


class WatcherClock(AsyncIOScheduler):
    """The time of an event loop for the operators of one subscription.

    Args:
        loop: The event loop.
        fail: Called with what an action has raised.

    Attributes:
        watcher: The name of the watcher at the other end of the pipeline, as soon as there is one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, fail: Callable[[BaseException], None]) -> None:
        super().__init__(loop)
        self.watcher = ""
        self._fail = fail

    def schedule(self, action: typing.ScheduledAction[A], state: A | None = None) -> abc.DisposableBase:
        """Run an action that does not wait, as soon as the calling thread has finished those before it."""
        return TRAMPOLINE.schedule(action, state)

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: typing.ScheduledAction[A], state: A | None = None
    ) -> abc.DisposableBase:
        """Run an action after a while, on the event loop."""
        guarded = caught(action, self._fail)
        if self.to_seconds(duetime) <= 0:
            return super().schedule(guarded, state)
        return super().schedule_relative(duetime, guarded, state)


def caught(call: Callable[P, B | None], fail: Callable[[BaseException], None]) -> Callable[P, B | None]:
    """Wrap a function so that its exceptions go to ``fail``."""

    def safe(*args: P.args, **kwargs: P.kwargs) -> B | None:
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            fail(error)
            return None

    return safe


def noted(watcher: Watcher, scheduler: abc.SchedulerBase | None) -> Watcher:
    """The watcher that a pipeline has made, whose name its clock reports."""
    if isinstance(scheduler, WatcherClock):
        scheduler.watcher = watcher.name
    return watcher
