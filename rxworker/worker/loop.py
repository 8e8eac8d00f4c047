"""The feedback edge: one turn after the other, each begun by the scheduler.

A turn's results reach the next turn only through here. The hop through the scheduler lets every observer see the end of a turn
before the next one begins, and keeps the stack flat however many turns there are. Where the scheduler is the event loop's own
clock, a coroutine awaits the turns one by one: the hop is then a turn of the loop, and there is no subscription and no task for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from reactivex import Observable, abc

from rxworker.operators.disposables import Both, Slot
from rxworker.operators.stage import Sink, Stage, connect, many
from rxworker.transport.clock import LoopClock
from rxworker.worker.stage import Voice, Work

A = TypeVar("A")


def repeat_turns(
    turn: Callable[[], Observable[A]],
    goes_on: Callable[[], bool],
    scheduler: abc.SchedulerBase,
) -> Observable[A]:
    """Turns, one after the other, for as long as there is something to do.

        turn       --a--b|
        goes_on          yes     no
        [ repeat_turns ]
        --a--b---a--b|

    Args:
        turn: Makes the next turn; called when it begins.
        goes_on: Asked after each turn whether there is another.
        scheduler: Begins each turn.

    Example:
        >>> import reactivex
        >>> from reactivex.scheduler import CurrentThreadScheduler
        >>> left = iter([True, False])
        >>> turns = repeat_turns(lambda: reactivex.of("a", "b"), lambda: next(left), CurrentThreadScheduler())
        >>> seen = []
        >>> _ = turns.subscribe(seen.append)
        >>> seen
        ['a', 'b', 'a', 'b']
    """

    async def turns(voice: Voice[A]) -> None:
        await voice.follow(turn(), scheduler)
        while goes_on():
            await asyncio.sleep(0)
            await voice.follow(turn(), scheduler)

    if isinstance(scheduler, LoopClock):
        return Work(turns, set())

    def subscribe(
        observer: abc.ObserverBase[A], _scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        current = Slot()
        next_one = Slot()

        def begin(_: abc.SchedulerBase, __: object = None) -> None:
            try:
                started = turn()
            except Exception as error:
                observer.on_error(error)
                return
            subscription = Slot()
            current.put(subscription)
            subscription.put(connect(started, sink, scheduler))

        def ended() -> None:
            if goes_on():
                next_one.put(scheduler.schedule(begin))
            else:
                observer.on_completed()

        sink = Sink(observer.on_next, observer.on_error, ended, many(observer))
        next_one.put(scheduler.schedule(begin))
        return Both(next_one, current)

    return Stage(subscribe)


__all__ = ["repeat_turns"]
