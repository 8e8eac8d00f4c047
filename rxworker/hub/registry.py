"""The history of a run and the watchers that it serves: what a `Hub` is, without the ways of watching it.

Watchers need their registry, and a hub makes watchers: the registry knows the first alone.

The time of the operators in a watcher's pipeline.

They run on the hub's event loop, and what they raise detaches the watcher.

Theory of operation. An operator of reactivex that waits takes the scheduler that the subscriber passes, and otherwise
one that calls from threads of its own. A pipeline on a hub therefore ends in a `TimedPipeline`, which passes a
`WatcherClock` where the subscriber passes none. What waits, waits on the event loop. What does not wait runs at once in
the calling thread, as it does without a scheduler, so that ``of`` or ``start_with`` in a pipeline emit when they always
did.

A record is pushed within ``Hub.push``, which catches what its observer raises. A timer calls from the event loop, where
the clock catches it: the subscription is disposed, the stream ends with the exception, and the hub reports it as it
reports any watcher that raises.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, TypeVar

from reactivex import Observable, abc, typing
from reactivex.scheduler.eventloop import AsyncIOScheduler

from rxworker.events import Record
from rxworker.hub.delivery import Delivery
from rxworker.hub.history import History
from rxworker.hub.scheduler import Callback, Defer, FlushScheduler, ImmediateWatchers
from rxworker.hub.watcher import DetachReporter, OnRaise, Takes, Watcher, WatcherState, fail_stream, running_loop
from rxworker.messages.settings import check_plain
from rxworker.operators.kernel import TRAMPOLINE, Call, SerialDisposable, Stage, connect


class WatcherRegistry:
    """The records so far, and who watches them. See `Hub`.

    Attributes:
        history: The records so far.
        loop: The event loop that it was made on, if any.
        pushes: Locked until it has ended; for other threads, which wait by `wait_until_over`.
        flush_scheduler: Serves the watchers that are not pushed to at once.
        detach_reporter: Reports the watchers that have raised.
        ended: Whether it has ended.
        error: The error with which it ended; ``None`` if there is none.
        error_trace: Its traceback then.
        watched: Whether it ever had a watcher.
    """

    def __init__(
        self,
        on_detach: OnRaise | None = None,
        *,
        defer: Defer | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        scheduler: abc.SchedulerBase | None = None,
        keep: int | None = None,
    ) -> None:
        super().__init__()
        check_plain("on_detach or defer of Hub(...)", on_detach, defer)
        self.history = History()
        self.loop = loop or running_loop()
        self.pushes = threading.Lock()  # an event would be nine calls for each run
        self.pushes.acquire()
        self.detach_reporter = reporter = DetachReporter(on_detach, self.loop, self.history)
        self._interrupt: KeyboardInterrupt | None = None
        if self.loop is None:
            reporter.on_interrupt = self._keep_interrupt
        self.flush_scheduler = FlushScheduler(self.history, self.loop, defer, reporter.report, scheduler)
        self._immediate = ImmediateWatchers(self.history, reporter.report)
        self.ended = False
        self.error: Exception | None = None
        self.error_trace: TracebackType | None = None
        self._keep = keep
        self._drop_at = 0
        self._names = count(1)
        self.watched = False

    @property
    def is_pushing(self) -> bool:
        """Whether a record is on its way to the watchers that are pushed to at once."""
        return self._immediate.is_pushing

    @property
    def last_seq(self) -> int:
        """The number of the last record; 0 before the first."""
        return self.history.last_seq

    @property
    def kept_after(self) -> int:
        """The number of the last record that is not kept for watchers that come late; 0 if all are."""
        return 0 if self._keep is None else max(self.last_seq - self._keep, 0)

    def push(self, entry: Record) -> None:
        """Push a record to every watcher. Its first number is ``last_seq + 1``. After the end it does nothing.

        Args:
            entry: A record, or one whose event is a `Deltas`: watchers of records receive one for each delta.
        """
        self.push_many((entry,))

    def push_many(self, entries: Sequence[Record]) -> None:
        """Push several, in order. All of them are in the history before the first is pushed."""
        if self.ended or not entries:
            return
        self.history.extend(entries)
        if self._keep is not None:
            self._drop(self._keep)
        immediate = self._immediate
        if immediate.is_pushing:
            return
        if immediate.watchers:
            immediate.push(entries)
        if self.ended:
            self._close()
        elif self.flush_scheduler.is_needed:
            self.flush_scheduler.request()
        if self._interrupt is not None:
            interrupt, self._interrupt = self._interrupt, None
            raise interrupt

    def _drop(self, keep: int) -> None:
        """Drop what is neither kept nor needed by a watcher.

        Rarely while watchers are behind, since each of them is looked at.
        """
        history = self.history
        if history.held <= self._drop_at:
            return
        last = history.last_seq
        history.drop(int(min(last - keep, self.flush_scheduler.needed_after(last))))
        self._drop_at = history.held + history.held // 8

    def _keep_interrupt(self, interrupt: KeyboardInterrupt) -> None:
        """Without a loop that it could leave, `push` raises it after the round."""
        self._interrupt = interrupt

    def end(self, error: Exception | None = None) -> None:
        """No more records follow: the streams of the watchers complete, or end with the error."""
        if self.ended:
            return
        self.ended, self.error = True, error
        self.error_trace = None if error is None else error.__traceback__
        if not self._immediate.is_pushing:
            self._close()

    def _close(self) -> None:
        self._immediate.end(self.error)
        self.pushes.release()
        self.flush_scheduler.end(self.error)
        # A run that is kept costs memory for as long as it is kept; a short one has not been packed until now.
        self.history.pack()

    def wait_until_over(self, seconds: float) -> None:
        """Wait in another thread until it has ended."""
        if self.pushes.acquire(timeout=seconds):
            self.pushes.release()

    def hold(self) -> asyncio.Future[None] | None:
        """A future that a source awaits before it reads on: done when no `Reliable` watcher is too far behind.

        ``None`` when none is.
        """
        return self.flush_scheduler.readers.hold()

    # What watchers call.

    def name_watcher(self, name: str) -> str:
        """The name of a new watcher."""
        number = next(self._names)  # in one step, since any thread may call this
        return name or f"watcher-{number}"

    def push_to(
        self,
        observer: abc.ObserverBase[Any],
        delivery: Delivery | None = None,
        after: int = 0,
        name: str = "",
        *,
        takes: Takes = "records",
    ) -> Watcher:
        """Attach a new watcher that is pushed to; see `Watcher`."""
        watcher = Watcher(self.detach, delivery, after, self.name_watcher(name), observer, takes=takes)
        self.attach(watcher)
        return watcher

    def attach(self, watcher: Watcher) -> None:
        """Serve a new watcher. One without a delivery is pushed everything so far at once."""
        self.watched = self.watched or watcher.takes != "entries"
        # More may be held at the moment, for watchers that are behind.
        watcher.seen = max(watcher.seen, self.kept_after)
        if watcher.delivery is not None:
            self.call_in_loop(partial(self.flush_scheduler.add, watcher))
        elif self._immediate.add(watcher):
            if self.ended and not self._immediate.is_pushing:
                self._immediate.end(self.error)
            elif self.flush_scheduler.is_needed:
                self.flush_scheduler.notify_change()

    def detach(self, watcher: Watcher) -> None:
        """Serve a watcher no more."""
        if watcher.delivery is not None:
            self.call_in_loop(partial(self.flush_scheduler.remove, watcher))
            return
        self._immediate.remove(watcher)
        if self.flush_scheduler.is_needed:
            self.flush_scheduler.notify_change()

    def call_in_loop(self, call: Callback) -> None:
        """Call a function in the thread of the event loop: now, if this is that thread; else soon."""
        loop = self.loop
        if loop is None or running_loop() is loop:
            call()
            return
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            call()  # the loop is closed, so that no other thread uses the hub

    # The present watchers.

    @property
    def watching(self) -> int:
        """The number of watchers now."""
        return len(self._immediate) + len(self.flush_scheduler)

    def states(self) -> tuple[WatcherState, ...]:
        """The states of the watchers."""
        last = self.last_seq
        return (*self._immediate.states(last), *self.flush_scheduler.states(last))

    def add_callback(self, callback: Callback) -> Callback:
        """Call a function, once a loop turn, when records were pushed or taken, or a watcher was attached or detached.

        Returns:
            A function that removes it again.
        """
        check_plain("add_callback(...)", callback)
        return self.flush_scheduler.add_callback(callback)


A = TypeVar("A")


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

        def caught(clock: abc.SchedulerBase, state: A | None = None) -> abc.DisposableBase | None:
            try:
                return action(clock, state)
            except BaseException as error:
                self._fail(error)
                return None

        if self.to_seconds(duetime) <= 0:
            return super().schedule(caught, state)
        return super().schedule_relative(duetime, caught, state)


class TimedPipeline(Stage[A]):
    """Operators on the records or events of a hub, with the time of its event loop.

    Args:
        hub: The hub.
        pipeline: What the operators have made.
    """

    def __init__(self, hub: WatcherRegistry, pipeline: Observable[A]) -> None:
        super().__init__()
        self.timing = partial(TIMED, hub)
        self._hub = hub
        self._pipeline = pipeline

    def _subscribe_core(
        self, observer: abc.ObserverBase[A], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        loop = self._hub.loop
        if scheduler is not None or loop is None or not loop.is_running():
            return self._pipeline.subscribe(observer, scheduler=scheduler)
        upstream = SerialDisposable()

        def fail(error: BaseException) -> None:
            upstream.dispose()
            name = clock.watcher or self._hub.name_watcher("")
            fail_stream(observer, name, error, self._hub.detach_reporter.report)

        clock = WatcherClock(loop, fail)

        if running_loop() is loop:
            upstream.put(connect(self._pipeline, observer, clock))
            return upstream

        def subscribe() -> None:
            upstream.put(self._pipeline.subscribe(observer, scheduler=clock))

        self._hub.call_in_loop(subscribe)
        return Call(partial(self._hub.call_in_loop, upstream.dispose))


TIMED = TimedPipeline[Any]
"""One alias: to subscript it at each use would be four calls."""


def noted(watcher: Watcher, scheduler: abc.SchedulerBase | None) -> Watcher:
    """The watcher that a pipeline has made, whose name its clock reports."""
    if isinstance(scheduler, WatcherClock):
        scheduler.watcher = watcher.name
    return watcher
