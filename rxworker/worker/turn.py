"""One turn: a cold observable of what its stages emit, one stage after the other."""

from __future__ import annotations

import asyncio

from reactivex import Observable

from rxworker.events import Event
from rxworker.hub.scheduler import FlushScheduler
from rxworker.worker.call_tools import call_tools
from rxworker.worker.context import RunContext, TurnScope
from rxworker.worker.decide import decide
from rxworker.worker.prepare import prepare
from rxworker.worker.respond import respond
from rxworker.worker.stage import Voice, Work


def turn(context: RunContext, scope: TurnScope) -> Observable[Event]:
    """What happens from one request to the decision whether there is another.

    prepare     --a|
    respond         b--c--d|
    call_tools             --e--f|
    decide                       g|
    [ turn ]
    --a--b--c--d--e--f--g|

    All stages are one coroutine: a stage that has nothing to wait for costs a call.
    """
    flushes = context.journal.hub.flush_scheduler

    async def stages(voice: Voice[Event]) -> None:
        if not scope.is_resumed:
            await prepare(context, scope, voice.emit)
            await respond(context, scope, voice)
            if flushes.is_needed:
                await _let_watchers_act(flushes)
        await call_tools(context, scope, voice)
        await decide(context, scope, voice.emit)
        if flushes.is_needed and context.journal.state.status == "running":
            await _let_watchers_act(flushes)

    return Work(stages, context.tasks)


async def _let_watchers_act(flushes: FlushScheduler) -> None:
    """Let readers receive the last records and act on them: they are woken in the next turn of the loop, and read in the one after."""
    await asyncio.sleep(0)
    if flushes.is_needed:
        await asyncio.sleep(0)


__all__ = ["turn"]
