"""A request that fails after its first event is made again, and everybody can see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reactivex import Observable, abc

from rxworker.events import AttemptRetract, AttemptStart, Event
from rxworker.operators.disposables import Slot
from rxworker.operators.stage import Sink, Stage, connect, many


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
        current = Slot()
        push, push_many = observer.on_next, many(observer)
        number = 0
        said = False

        def on_next(event: Event) -> None:
            nonlocal said
            said = True
            push(event)

        def on_many(events: Sequence[Event]) -> None:
            nonlocal said
            said = True
            push_many(events)

        def on_error(error: Exception) -> None:
            try:
                wait = delay(error, number) if said else None
            except Exception as other:
                observer.on_error(other)
                return
            if wait is None:
                observer.on_error(error)
                return
            push(AttemptRetract(str(error), wait))
            current.put(scheduler.schedule_relative(wait, begin))

        def begin(_: abc.SchedulerBase | None = None, __: object = None) -> None:
            nonlocal number, said
            number, said = number + 1, False
            subscription = Slot()
            current.put(subscription)
            sink = Sink(on_next, on_error, observer.on_completed, on_many)
            try:
                response = attempt()
                push(started)
                subscription.put(connect(response, sink, default))
            except Exception as error:
                observer.on_error(error)

        begin()
        return current

    return Stage(subscribe)


__all__ = ["retry_attempts"]
