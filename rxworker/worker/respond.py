"""Second stage of a turn: the request goes out, the response comes in."""

from __future__ import annotations

import reactivex
from reactivex import Observable

from rxworker.events import AttemptStart, Event
from rxworker.providers import Request
from rxworker.worker.attempts import retry_attempts
from rxworker.worker.context import RunContext, TurnScope
from rxworker.worker.early import began_early, start_early
from rxworker.worker.through import through


def respond(context: RunContext, scope: TurnScope) -> Observable[Event]:
    """The events of one response, or of several attempts at it, through the worker's operators and its timeline."""
    model = context.model

    def attempt() -> Observable[Event]:
        started = reactivex.just(AttemptStart(model.name, model.model))
        request = scope.request or Request(context.journal.state.conversation)
        response = through(context.operators, model.stream(request), context.scheduler)
        events = response.pipe(context.timeline, start_early(context, scope))
        return reactivex.concat(started, events)

    def delay(error: Exception, attempts: int) -> float | None:
        return None if began_early(scope) else context.retry.delay(error, attempts)

    return retry_attempts(attempt, delay, context.scheduler)


__all__ = ["respond"]
