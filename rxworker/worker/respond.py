"""Second stage of a turn: the request goes out, the response comes in."""

from __future__ import annotations

from reactivex import Observable

from rxworker.events import AttemptStart, Event
from rxworker.providers import Request
from rxworker.transport.pressure import PRESSURE
from rxworker.worker.attempts import retry_attempts
from rxworker.worker.context import RunContext, TurnScope
from rxworker.worker.early import began_early, start_early
from rxworker.worker.pressure import RunPressure
from rxworker.worker.through import through


def respond(context: RunContext, scope: TurnScope) -> Observable[Event]:
    """The events of one response, or of several attempts at it, through the worker's operators and its timeline."""
    model = context.model

    def attempt() -> Observable[Event]:
        # The subscription follows in this context.
        PRESSURE.set(RunPressure(context))
        request = scope.request or Request(context.journal.state.conversation)
        response = through(context.operators, model.stream(request), context.scheduler)
        # Applied by hand: what `pipe` adds costs more than the operators do.
        return start_early(context, scope)(context.timeline(response))

    def delay(error: Exception, attempts: int) -> float | None:
        return None if began_early(scope) else context.retry.delay(error, attempts)

    started = AttemptStart(model.name, model.model)
    return retry_attempts(attempt, started, delay, context.scheduler)


__all__ = ["respond"]
