"""A request that fails after its first event is made again, and everybody can see it."""

from __future__ import annotations

from collections.abc import Callable

import reactivex
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.events import AttemptRetract, AttemptStart, Event


def retry_attempts(
    attempt: Callable[[], Observable[Event]],
    delay: Callable[[Exception, int], float | None],
    scheduler: abc.SchedulerBase,
) -> Observable[Event]:
    """Attempts, until one succeeds or there is no use in another.

        attempt    --a--d--#            a AttemptStart, d what the response said
                              --a--e--|
        [ retry_attempts ]
        --a--d--r------------a--e--|    r AttemptRetract: what was said is taken back

    An attempt that failed before it said anything is not made again: whoever made the request has tried already.

    Args:
        attempt: Makes the next attempt.
        delay: Asked with the error and the number of attempts so far, from 1: seconds until the next; ``None`` to give up.
        scheduler: Whose time it is.
    """

    def begin(number: int) -> Observable[Event]:
        said = False

        def note(event: Event) -> None:
            nonlocal said
            said = said or not isinstance(event, AttemptStart)

        def again(error: Exception, _: Observable[Event]) -> Observable[Event]:
            wait = delay(error, number) if said else None
            if wait is None:
                return reactivex.throw(error)
            retracted = reactivex.just(AttemptRetract(str(error), wait))
            pause = reactivex.timer(wait, scheduler=scheduler).pipe(ops.flat_map(_nothing))
            return reactivex.concat(retracted, pause, reactivex.defer(later))

        def later(_: abc.SchedulerBase) -> Observable[Event]:
            return begin(number + 1)

        return attempt().pipe(ops.do_action(note), ops.catch(again))

    return reactivex.defer(lambda _: begin(1))


def _nothing(_: int) -> Observable[Event]:
    return reactivex.empty()


__all__ = ["retry_attempts"]
