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
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from rxworker.errors import ConfigurationError
from rxworker.events import Event, Record
from rxworker.hub.delivery import Coalesce, Delivery, Reliable
from rxworker.hub.detach import fail_stream
from rxworker.hub.registry import WatcherRegistry
from rxworker.hub.timing import TIMED, noted
from rxworker.hub.watch import Watch
from rxworker.hub.watcher import Takes, Watcher, WatcherState
from rxworker.messages.settings import check_number
from rxworker.operators.kernel import Scheduler, Stage, connect

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
                timer.disposable = clock.schedule_relative(self._seconds, resume)
                report()
            elif hub.ended and not hub.watching:
                report()  # the last one

        remove_callback = hub.add_callback(on_change)
        on_change()
        return CompositeDisposable(timer, Disposable(remove_callback))


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
            timer.disposable = scheduler.schedule_relative(grace, over) if is_idle else None

    remove_callback = hub.add_callback(check)
    check()
    return CompositeDisposable(Disposable(remove_callback), timer)


class Hub(WatcherRegistry, Stage[Record]):
    """The records of a run: hot, with memory, and with watchers that are kept apart.

    Args:
        on_detach: Called with the name of a watcher that has raised, and what it raised.
        defer: Calls a function a little later, when the code that pushes has finished; by default in the next turn of
            the event loop that the hub was made on, and at once without one.
        loop: The running event loop, where the caller has it.
        scheduler: The clock of watchers with a pace; by default the event loop's.
        keep: How many of the newest records it keeps for watchers that come later; ``None`` for all. A watcher that is
            behind has more of them held for it: as many as its delivery allows it to be behind, or 1,024.

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

    # Watching.

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
        records: Stage[Record] = Stage(partial(connect, self))
        records.is_direct = records.emits_records = True
        records.timing = self.timing
        return records

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
        stage.is_direct, stage.timing = True, self.timing
        return stage

    def _subscribe_core(self, observer: abc.ObserverBase[Record], scheduler: Scheduler = None) -> abc.DisposableBase:
        return noted(self.push_to(observer), scheduler)

    def __aiter__(self) -> AsyncIterator[Record]:
        """Everything from the start, record by record, at the reader's own pace."""
        return aiter(self.watch(Reliable(limit=None)))
