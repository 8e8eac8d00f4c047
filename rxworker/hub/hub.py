"""The records of one run, with many watchers, none of which can harm another or the run.

Theory of operation. What is pushed is kept in one history, whose memory is that of its text. Each watcher is a cursor
in it, with a delivery; watchers have no buffers, so a slow watcher delays only itself, as long as it does not block the
event loop. There are three ways to watch:

* An observer of the hub itself is pushed to within ``Hub.push``, record by record, from the first.
* An observer of a `Watch` is pushed to once a turn of the event loop: everything since the last turn, as its delivery
  defines.
* A reader (``async for`` over a `Watch`) takes the new records at each step.

A watcher that pushes a record while it is pushed to does not break the order: that record is the newest, and every
watcher reaches it in turn.

A watcher that raises is detached, whatever it raises: a warning with the traceback is logged, ``on_detach`` is called,
and the watcher's own stream ends with what it raised. ``KeyboardInterrupt`` must also reach the program: it leaves the
event loop.

The hub belongs to one thread, that of its event loop; a `Watch` may be used in any thread.

A reader takes its records itself: ``async for`` over a `Watch`, and ``for`` in another thread. The history belongs to
the thread of the hub's event loop. A reader in another thread, or on another event loop, has each of its steps made on
the hub's loop, and receives a list. When the run has ended or that loop is closed, nothing is written any more, and the
reader reads what is left directly: it does not wait for a loop that is about to close.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, TypeVar, cast

from msgspec import Struct
from reactivex import Observable, abc
from reactivex.internal import default_error, noop

from rxworker.errors import ConfigurationError, LocalProtocolError, own
from rxworker.events import Event, Record
from rxworker.hub.delivery import Coalesce, Delivery, Reliable, take
from rxworker.hub.history import History
from rxworker.hub.scheduler import Callback, Defer, FlushScheduler, ImmediateWatchers
from rxworker.hub.watcher import (
    OnRaise,
    Takes,
    Watcher,
    WatcherClock,
    WatcherState,
    fail_stream,
    noted,
    raise_from_loop,
)
from rxworker.messages.settings import check_number, check_plain
from rxworker.operators.kernel import Both, Call, Scheduler, SerialDisposable, Sink, Stage, check_observer, connect
from rxworker.watchdog import running_loop

A = TypeVar("A")

reporters: list[OnRaise] = []
"""Called for each watcher that has raised, of every hub of the process; for `rxworker.testing`."""

logger = logging.getLogger("rxworker.hub")


class DetachReporter(Struct, eq=False):
    """Reports the watchers that have raised and are detached.

    The first arguments are what is called with the name of the watcher, and what it raised; the event loop of the hub,
    if any; and its records, which name the run.

    Attributes:
        on_interrupt: Called with a ``KeyboardInterrupt`` that a watcher has raised; by default it leaves the event loop
            at once.
    """

    _on_detach: OnRaise | None
    _loop: asyncio.AbstractEventLoop | None
    _history: History
    on_interrupt: Callable[[KeyboardInterrupt], None] | None = None

    def report(self, name: str, error: BaseException) -> None:
        """Report that a watcher has raised. Raises nothing: the code that pushed the record did not cause it.

        Args:
            name: The watcher's name.
            error: The exception that it raised.
        """
        try:
            logger.warning(
                "watcher %s has raised and is detached",
                name,
                exc_info=error,
                extra={"watcher": name, "run": self._run_id()},
            )
            for reporter in tuple(reporters):
                reporter(name, error)
            if self._on_detach is not None:
                self._on_detach(name, error)
        except BaseException as failure:
            with suppress(BaseException):
                logger.warning(
                    "on_detach has raised, called for watcher %s",
                    name,
                    exc_info=failure,
                    extra={"watcher": name, "run": self._run_id()},
                )
            if not isinstance(error, KeyboardInterrupt):
                error = failure
        if not isinstance(error, KeyboardInterrupt):
            return
        if self.on_interrupt is not None:
            self.on_interrupt(error)
        elif self._loop is not None:
            raise_from_loop(self._loop, error)

    def _run_id(self) -> str:
        return next((record.run_id for record in self._history.records(0)), "")


class Hub(Stage[Record]):
    """The records of a run: hot, with memory, and with watchers that are kept apart.

    Args:
        on_detach: Called with the name of a watcher that has raised, and what it raised.
        defer: Calls a function a little later, when the code that pushes has finished; by default in the next turn of
            the event loop that the hub was made on, and at once without one.
        loop: The running event loop, where the caller has it.
        scheduler: The clock of watchers with a pace; by default the event loop's.
        keep: How many of the newest records it keeps for watchers that come later; ``None`` for all. A watcher that is
            behind has more of them held for it: as many as its delivery allows it to be behind, or 1,024.

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

    Example:
        >>> from rxworker.events import TextDelta
        >>> hub = Hub()
        >>> hub.push(Record(1, "r", 1, 1, 0.0, TextDelta(0, "hi")))
        >>> _ = hub.subscribe(lambda record: print(record.seq))
        1
        >>> hub.push(Record(2, "r", 1, 1, 0.0, TextDelta(0, "you")))
        2
    """

    is_direct = True
    emits_records = True

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
        if self._keep is not None:  # more may be held at the moment, for watchers that are behind
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

    # Ways of watching.

    def watch(self, delivery: Delivery | None = None, *, after: int = 0, name: str = "") -> Watch:
        """A way of watching. Each subscription to it, and each iteration over it, is a watcher of its own.

        Args:
            delivery: How records are delivered; `Coalesce` by default.
            after: The number of the last record that it does not need.
            name: A label that users see; by default it is numbered.

        Raises:
            ConfigurationError: ``delivery`` is not a delivery, or ``after`` is not a number.
        """
        delivery = Coalesce() if delivery is None else delivery
        # Checked here, in the caller's code: a watcher would raise it much later.
        if not isinstance(delivery, Delivery):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            message = f"delivery={delivery!r} is not a delivery: use Reliable(), Coalesce(), Latest() or DropOldest()"
            raise ConfigurationError(message)
        if not isinstance(after, int) or isinstance(after, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            message = (
                f"after={after!r} is not the number of a record: pass the number of the last record that is not "
                "needed, or 0"
            )
            raise ConfigurationError(message)
        return Watch(self, delivery, max(after, 0), name)

    @property
    def timing(self) -> Callable[[Observable[Any]], Stage[Any]]:  # pyright: ignore[reportIncompatibleVariableOverride] - an attribute would be a circle
        """Gives a pipeline the time of the event loop."""
        return partial(TIMED, self)

    @property
    def records(self) -> Stage[Record]:
        """The records, without what the hub itself has: each subscriber receives all of them, from the first."""
        return self._stage("records")

    @property
    def events(self) -> Stage[Event]:
        """The bare events of the records: what ``pipe(events())`` emits, without a record being made for each.

        That operator is the plain definition. Deltas from one network read reach the observer without a record being
        made of each.
        """
        return self._stage("events")

    def entries(self, after: int = 0, name: str = "") -> Stage[Record]:
        """The records after a number, for instruments, which need not see each delta.

        Deltas from one network read are one record, with a `Deltas`.

        Its observers are not watchers: a hub that has only them counts as unwatched, and they are not listed.

        Args:
            after: The number of the last record to skip.
            name: A label that users see.
        """
        return self._stage("entries", after, name or "instrument")

    def _stage(self, takes: Takes, after: int = 0, name: str = "") -> Stage[Any]:
        def subscribe(observer: abc.ObserverBase[Any], scheduler: Scheduler) -> Watcher:
            return noted(self.push_to(observer, None, after, name, takes=takes), scheduler)

        stage: Stage[Any] = Stage(subscribe)
        stage.is_direct, stage.emits_records, stage.timing = True, takes == "records", self.timing
        return stage

    def _subscribe_core(self, observer: abc.ObserverBase[Record], scheduler: Scheduler = None) -> abc.DisposableBase:
        return noted(self.push_to(observer), scheduler)

    def __aiter__(self) -> AsyncIterator[Record]:
        """Everything from the start, record by record, at the reader's own pace."""
        return aiter(self.watch(Reliable(limit=None)))


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

    def __init__(self, hub: Hub, delivery: Delivery, after: int, name: str) -> None:
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
        delivery, last = self.delivery, self._hub.history.last_seq
        if not isinstance(delivery, Reliable) or delivery.limit is None or delivery.when_full != "detach":
            return
        # Records from before it was attached do not show that it is slow.
        if last - max(self.seen, self._attached_at) > delivery.limit:
            behind = f"{self.name} is {last - self.seen} records behind"
            raise LocalProtocolError(f"{behind}, more than its delivery allows: read faster, or watch with Coalesce()")

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
        loop, step = self._hub.loop, self._step
        if loop is not None and not loop.is_closed():
            future.cancel()
        if step is not None:
            step.close()  # it may never have begun, of which Python would warn

    def _submit(self) -> concurrent.futures.Future[list[Record] | None] | None:
        """The next step, made on the hub's event loop; ``None`` when nothing is written any more."""
        loop = self._hub.loop
        if loop is None or loop.is_closed() or not self._hub.pushes.locked():
            return None
        step = self._step = self.next()
        try:
            return asyncio.run_coroutine_threadsafe(step, loop)
        except RuntimeError:  # it was closed meanwhile
            step.close()
            return None

    def _rest(self) -> list[Record] | None:
        batch = self.now(is_paced=False)  # no clock opens the pace any more
        if batch is not None and not batch:
            raise LocalProtocolError("the run's event loop has closed before the run ended")
        return batch


class TimedPipeline(Stage[A]):
    """Operators on the records or events of a hub, with the time of its event loop.

    Args:
        hub: The hub.
        pipeline: What the operators have made.
    """

    def __init__(self, hub: Hub, pipeline: Observable[A]) -> None:
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

    def __init__(self, hub: Hub, delivery: Delivery, after: int, name: str) -> None:
        super().__init__()
        self._hub = hub
        self.timing = partial(TIMED, hub)
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

        The guard of a stage is left out: it would cost half as much as the delivery, and the hub keeps its contract.
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


PAUSE = 0.25
"""Seconds between two reports of `Watchers`."""


class Watchers(Stage[tuple[WatcherState, ...]]):
    """The watchers of a run, now and whenever something has changed; at most four times a second.

    Made by ``run.watchers``.

    It completes when the run has ended and every watcher has seen all of it or is detached.

    Args:
        hub: The hub that they watch.
        make_scheduler: Returns the scheduler for the pauses.
        seconds: The pause after each report.

    Example:
        >>> import asyncio
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> async def count() -> int:
        ...     run = Worker(ScriptedModel(["Hello!"])).run("Hi")
        ...     run.subscribe(lambda record: None)
        ...     return len(run.watchers.now)
        >>> asyncio.run(count())
        1
    """

    def __init__(self, hub: Hub, make_scheduler: Callable[[], abc.SchedulerBase], seconds: float = PAUSE) -> None:
        super().__init__()
        self._hub = hub
        self._make_scheduler = make_scheduler
        self._seconds = seconds

    @property
    def now(self) -> tuple[WatcherState, ...]:
        """The watchers at this moment."""
        return self._hub.states()

    def _subscribe_core(
        self, observer: abc.ObserverBase[tuple[WatcherState, ...]], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        hub, clock = self._hub, scheduler or self._make_scheduler()
        timer = SerialDisposable()
        last: tuple[WatcherState, ...] | None = None
        is_pausing = is_over = False

        def report() -> None:
            """Emit, and catch what the observer raises: a timer may call this."""
            nonlocal last
            try:
                states = hub.states()
                if states != last:
                    last = states
                    observer.on_next(states)
                if not is_over and hub.ended and all(not state.lag for state in states):
                    leave()
                    observer.on_completed()
            except BaseException as error:
                leave()
                on_raise = hub.detach_reporter.report
                fail_stream(observer, "watcher of the watchers", error, on_raise)

        def leave() -> None:
            nonlocal is_over
            is_over = True
            timer.dispose()
            remove_callback()

        def resume(_: abc.SchedulerBase, __: object = None) -> None:
            nonlocal is_pausing
            is_pausing = False
            if not is_over and last != hub.states():
                on_change()

        def on_change() -> None:
            nonlocal is_pausing
            if is_over:
                return
            if not is_pausing:
                is_pausing = True
                timer.put(clock.schedule_relative(self._seconds, resume))
                report()
            elif hub.ended and not hub.watching:
                report()  # the last one

        remove_callback = hub.add_callback(on_change)
        on_change()
        return Both(timer, Call(remove_callback))


def when_idle(hub: Hub, grace: float, scheduler: abc.SchedulerBase, act: Callable[[], None]) -> abc.DisposableBase:
    """Call a function after a time without watchers.

    Args:
        hub: The hub whose watchers count.
        grace: Seconds without a watcher, from now if there is none.
        scheduler: The clock.
        act: The function. It is called once.

    Returns:
        Disposing it stops the timer.

    Raises:
        ConfigurationError: The grace is not a number of seconds.
    """
    check_number("grace", grace)
    timer = SerialDisposable()
    is_waiting = is_over = False

    def over(_: abc.SchedulerBase, __: object = None) -> None:
        nonlocal is_over
        if is_waiting and not is_over and not hub.watching and not hub.ended:
            is_over = True
            remove_callback()
            act()

    def check() -> None:
        nonlocal is_waiting
        is_idle = not hub.watching and not hub.ended and not is_over
        if is_idle != is_waiting:
            is_waiting = is_idle
            timer.put(scheduler.schedule_relative(grace, over) if is_idle else None)

    remove_callback = hub.add_callback(check)
    check()
    return Both(Call(remove_callback), timer)
