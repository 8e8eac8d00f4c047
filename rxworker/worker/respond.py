"""Second stage of a turn: the request goes out, the response comes in.

A request that fails after its first event is made again, and everybody can see it.
"""

from __future__ import annotations

from reactivex import Observable, abc

from rxworker.errors import TruncatedError, reason_of
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Event,
    ResponseEvent,
    ResponseStatus,
)
from rxworker.operators import Stage, error_to_exception
from rxworker.providers import Request
from rxworker.transport.seams import PRESSURE
from rxworker.worker.context import RunContext, TurnScope
from rxworker.worker.early import start_early, throw_away
from rxworker.worker.pressure import RunPressure
from rxworker.worker.stage import Voice
from rxworker.worker.through import through


async def respond(context: RunContext, scope: TurnScope, voice: Voice[Event]) -> None:
    """Say what a response says, through the worker's operators and its timeline; again, until it succeeds or there is no use in it.

        response   ---d--#            d what the response said
                            ---e--|
        [ respond ]
        --a--d--r-----------a--e--|    a AttemptStart, r AttemptRetract: what was said is taken back

    Raises:
        Exception: What the last attempt came to.
        TruncatedError: The stream completed without the terminal event of the response.
    """
    model, history = context.model, context.journal.hub.history
    request = scope.request or Request(context.journal.state.conversation)
    started = AttemptStart(model.name, model.model)
    PRESSURE.set(RunPressure(context))  # the subscriptions follow in this context
    attempts = 0
    while True:
        attempts += 1
        response: Observable[Event] = model.stream(request)
        if context.operators:
            response = through(context.operators, response, context.scheduler)
        # Applied by hand: what `pipe` adds costs more than the operators do.
        response = context.timeline(response)
        if context.tools.starts_early:
            response = start_early(context, scope, response)
        voice.emit(started)
        begun = history.last_seq
        try:
            await voice.listen(response, context.scheduler)
            _expect_end(context)
            return
        except Exception as error:
            may_repeat = _may_repeat(context, begun)
            wait = context.retry.delay(error, attempts) if may_repeat else None
            if wait is None:
                raise
            # A model may raise out of the subscription, and not through it.
            throw_away(context, scope)
            scope.early = None
            context.timeline.retract(reason_of(error))
            voice.emit(AttemptRetract(reason_of(error), wait))
        await voice.listen(_pause(wait, context.scheduler))


def _expect_end(context: RunContext) -> None:
    """See that the response has come to its terminal event: what was cut must not pass for an answer.

    Raises:
        TruncatedError: It has not.
        RxWorkerError: It has failed, and the stream completed all the same.
    """
    response = context.journal.state.response
    if response is not None and response.status is ResponseStatus.COMPLETED:
        return
    if response is not None and response.error is not None:
        raise error_to_exception(response.error)
    which = f"the stream of {context.model!r}"
    if context.operators:
        which += ", or what the worker's operators make of it,"
    raise TruncatedError(
        f"{which} completed without the event that ends a response, Status(COMPLETED)"
    )


def _pause(seconds: float, scheduler: abc.SchedulerBase) -> Observable[Event]:
    """Says nothing, and ends when so much of the scheduler's time has gone by."""

    def subscribe(
        observer: abc.ObserverBase[Event], _: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        def end(_: abc.SchedulerBase, __: object = None) -> None:
            observer.on_completed()

        return scheduler.schedule_relative(seconds, end)

    return Stage(subscribe)


def _may_repeat(context: RunContext, begun: int) -> bool:
    """Whether an attempt that failed could be made again: not one without any event, which the client has retried already."""
    records = context.journal.hub.history.records(begun)
    return any(not r.path and isinstance(r.event, ResponseEvent) for r in records)


__all__ = ["respond"]
