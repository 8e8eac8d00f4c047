"""One turn: a cold observable of its stages, one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import reactivex
from reactivex import Observable

from rxworker.events import Event
from rxworker.worker.call_tools import call_tools
from rxworker.worker.context import RunContext, TurnScope
from rxworker.worker.decide import decide
from rxworker.worker.prepare import prepare
from rxworker.worker.respond import respond
from rxworker.worker.stage import stage

Emit = Callable[[Event], None]
Work = Callable[[RunContext, TurnScope, Emit], Awaitable[None]]


def turn(context: RunContext, scope: TurnScope) -> Observable[Event]:
    """What happens from one request to the decision whether there is another.

    prepare     --a|
    respond         b--c--d|
    call_tools             --e--f|
    decide                       g|
    [ turn ]
    --a--b--c--d--e--f--g|
    """

    def staged(work: Work) -> Observable[Event]:
        async def begin(emit: Emit) -> None:
            await work(context, scope, emit)

        return stage(begin, context.tasks)

    rest = (staged(call_tools), staged(decide))
    if scope.is_resumed:
        return reactivex.concat(*rest)
    return reactivex.concat(staged(prepare), respond(context, scope), *rest)


__all__ = ["turn"]
