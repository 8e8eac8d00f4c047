"""A request that fails after its first event is made again, and everybody can see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reactivex import Observable, abc

from rxworker.events import AttemptRetract, AttemptStart, Event
from rxworker.operators.stage import Stage, connect, many


def retry_attempts(
    attempt: Callable[[], Observable[Event]],
    started: AttemptStart,
    delay: Callable[[Exception, int], float | None],
    scheduler: abc.SchedulerBase,
) -> Observable[Event]:
    """Attempts, until one succeeds or there is no use in another.

        attempt    ---d--#            d what the response said
                            ---e--|
        [ retry_attempts ]
        --a--d--r-----------a--e--|    a AttemptStart, r AttemptRetract: what was said is taken back

    An attempt that failed before it said anything is not made again: whoever made the request has tried already.

    Args:
        attempt: Makes the next attempt.
        started: What is said before each of them.
        delay: Asked with the error and the number of attempts so far, from 1: seconds until the next; ``None`` to give up.
        scheduler: Whose time it is.
    """

    def subscribe(
        observer: abc.ObserverBase[Event], default: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        attempts = _Attempts(attempt, started, delay, scheduler, observer, default)
        attempts.begin()
        return attempts

    return Stage(subscribe)


class _Attempts(abc.ObserverBase[Event], abc.DisposableBase):
    """The attempts at one response, for one observer: one object, since it is made for each response. It observes each of them."""

    __slots__ = (
        "_attempt",
        "_default",
        "_delay",
        "_held",
        "_is_over",
        "_is_waiting",
        "_number",
        "_observer",
        "_push_many",
        "_said",
        "_scheduler",
        "_started",
    )

    def __init__(
        self,
        attempt: Callable[[], Observable[Event]],
        started: AttemptStart,
        delay: Callable[[Exception, int], float | None],
        scheduler: abc.SchedulerBase,
        observer: abc.ObserverBase[Event],
        default: abc.SchedulerBase | None,
    ) -> None:
        self._attempt = attempt
        self._started = started
        self._delay = delay
        self._scheduler = scheduler
        self._observer = observer
        self._push_many = many(observer)
        self._default = default
        self._held: abc.DisposableBase | None = None
        self._number = 0
        self._said = self._is_waiting = self._is_over = False

    def begin(self, _: abc.SchedulerBase | None = None, __: object = None) -> None:
        """Make the next attempt."""
        self._number += 1
        self._said = self._is_waiting = False
        observer = self._observer
        try:
            response = self._attempt()
            observer.on_next(self._started)
            subscription = connect(response, self, self._default)
        except Exception as error:
            observer.on_error(error)
            return
        if self._is_waiting or self._is_over:  # it has failed, or was left, while it began
            subscription.dispose()
        else:
            self._held = subscription

    def dispose(self) -> None:
        """Leave the attempt that is under way, or the pause before the next."""
        self._is_over = True
        self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.dispose()

    def on_next(self, value: Event) -> None:
        """Pass on what an attempt says."""
        self._said = True
        self._observer.on_next(value)

    def on_many(self, values: Sequence[Event]) -> None:
        """Pass on what has come together."""
        self._said = True
        self._push_many(values)

    def on_completed(self) -> None:
        """An attempt has succeeded."""
        self._observer.on_completed()

    def on_error(self, error: Exception) -> None:
        """An attempt has failed: make another, if there is use in it."""
        try:
            wait = self._delay(error, self._number) if self._said else None
        except Exception as other:
            self._observer.on_error(other)
            return
        if wait is None:
            self._observer.on_error(error)
            return
        self._observer.on_next(AttemptRetract(str(error), wait))
        self._let_go()
        self._is_waiting = True
        if not self._is_over:
            self._held = self._scheduler.schedule_relative(wait, self.begin)


__all__ = ["retry_attempts"]
