"""The watchers of a hub as a subject of their own: how far they are behind, and what happens when there are none."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import abc
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from rxworker.hub.detach import fail_stream
from rxworker.hub.hub import Hub
from rxworker.hub.watcher import WatcherState
from rxworker.messages.settings import check_number
from rxworker.operators.kernel import Stage

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
        self,
        observer: abc.ObserverBase[tuple[WatcherState, ...]],
        scheduler: abc.SchedulerBase | None = None,
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
