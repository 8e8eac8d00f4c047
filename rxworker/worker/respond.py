"""Second stage of a turn: the request goes out, the response comes in."""

from __future__ import annotations

from functools import reduce

import reactivex
from reactivex import Observable

from rxworker.events import AttemptStart, Event, ResponseEvent
from rxworker.providers import Request
from rxworker.worker.attempts import retry_attempts
from rxworker.worker.context import ResponseOperator, RunContext, TurnScope


def respond(context: RunContext, scope: TurnScope) -> Observable[Event]:
    """The events of one response, or of several attempts at it, through the worker's operators and its timeline."""
    model = context.model

    def attempt() -> Observable[Event]:
        started = reactivex.just(AttemptStart(model.name, model.model))
        request = scope.request or Request(context.journal.state.conversation)
        response = reduce(_through, context.operators, model.stream(request))
        return reactivex.concat(started, response.pipe(context.timeline))

    return retry_attempts(attempt, context.retry.delay, context.scheduler)


def _through(
    source: Observable[ResponseEvent], operator: ResponseOperator
) -> Observable[ResponseEvent]:
    return operator(source)


__all__ = ["respond"]
