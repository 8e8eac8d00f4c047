"""The loop of turns.

The results of a turn reach the next turn only through `repeat_turns`. The scheduler starts each turn, so every observer
receives the end of a turn before the next one begins, and the stack stays flat. If the scheduler is the clock of the
event loop, one coroutine awaits the turns: it yields to the loop once between two turns, and needs no subscription and
no task for each. A run with all its turns is one task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import reactivex
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.messages.settings import check_plain
from rxworker.tools.coroutines import CoroutineObservable, Emitter
from rxworker.transport.clock import LoopClock

A = TypeVar("A")


def repeat_turns(
    turn: Callable[[], Observable[A]], goes_on: Callable[[], bool], scheduler: abc.SchedulerBase
) -> Observable[A]:
    """Perform turns one after the other, while there is something to do.

        turn       --a--b|
        goes_on          yes     no
        [ repeat_turns ]
        --a--b---a--b|

    Args:
        turn: Makes the next turn; called when it begins.
        goes_on: Called after each turn; returns whether there is another.
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
    check_plain("turn or goes_on of repeat_turns(...)", turn, goes_on)

    async def turns(emitter: Emitter[A]) -> None:
        await emitter.follow(turn(), scheduler)
        while goes_on():
            await asyncio.sleep(0)
            await emitter.follow(turn(), scheduler)

    if isinstance(scheduler, LoopClock):
        return CoroutineObservable(turns, set())

    def begin(_: abc.SchedulerBase) -> Observable[A]:
        return turn()

    def is_next(_: Observable[A]) -> bool:
        return goes_on()

    one = reactivex.defer(begin).pipe(ops.subscribe_on(scheduler))
    return one.pipe(ops.do_while(is_next))
