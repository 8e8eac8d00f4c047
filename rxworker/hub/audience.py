"""Who watches a run and how far behind they are, as an observable."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reactivex import abc
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from rxworker.hub.observers import lose
from rxworker.hub.watcher import WatcherState
from rxworker.operators.stage import Stage

if TYPE_CHECKING:
    from rxworker.hub.hub import Hub

PAUSE = 0.25
"""Seconds between two looks at the watchers."""


class Audience(Stage[tuple[WatcherState, ...]]):
    """The watchers of a run, now and whenever something has changed; at most four times a second.

    It completes when the run has ended and everybody who watched has seen all of it or left.

    Args:
        hub: Whose watchers.
        make_scheduler: Gives the scheduler whose time it is.
        seconds: How long it rests after each look.

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

    def __init__(
        self, hub: Hub, make_scheduler: Callable[[], abc.SchedulerBase], seconds: float = PAUSE
    ) -> None:
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
        is_resting = is_over = False

        def tell() -> None:
            nonlocal last
            states = hub.states()
            if states != last:
                last = states
                observer.on_next(states)
            if not is_over and hub.ended and all(not state.lag for state in states):
                leave()
                observer.on_completed()

        def look() -> None:
            """Look, also when nobody is there to catch what the observer raises."""
            try:
                tell()
            except BaseException as error:
                leave()
                lose(observer, "watcher of the watchers", error, hub.losses.report)

        def leave() -> None:
            nonlocal is_over
            is_over = True
            timer.dispose()
            take_away()

        def rested(_: abc.SchedulerBase, __: object = None) -> None:
            nonlocal is_resting
            is_resting = False
            if not is_over and last != hub.states():
                bell()

        def bell() -> None:
            nonlocal is_resting
            if is_over:
                return
            if not is_resting:
                is_resting = True
                timer.disposable = clock.schedule_relative(self._seconds, rested)
                look()
            elif hub.ended and not hub.watching:
                look()  # the last word

        take_away = hub.add_bell(bell)
        bell()
        return CompositeDisposable(timer, Disposable(take_away))


__all__ = ["Audience"]
