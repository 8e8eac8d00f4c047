"""Second stage of a turn: the request goes out, the response comes in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import reactivex
from reactivex import Observable, abc
from reactivex.disposable import SingleAssignmentDisposable

from rxworker.events import AttemptStart, Event, ResponseEvent
from rxworker.providers import Request
from rxworker.worker.attempts import retry_attempts
from rxworker.worker.context import ResponseOperator, RunContext, TurnScope
from rxworker.worker.early import began_early, start_early


def respond(context: RunContext, scope: TurnScope) -> Observable[Event]:
    """The events of one response, or of several attempts at it, through the worker's operators and its timeline."""
    model = context.model

    def attempt() -> Observable[Event]:
        started = reactivex.just(AttemptStart(model.name, model.model))
        request = scope.request or Request(context.journal.state.conversation)
        response = _through(context.operators, model.stream(request))
        events = response.pipe(context.timeline, start_early(context, scope))
        return reactivex.concat(started, events)

    def delay(error: Exception, attempts: int) -> float | None:
        return None if began_early(scope) else context.retry.delay(error, attempts)

    return retry_attempts(attempt, delay, context.scheduler)


def _through(
    operators: Sequence[ResponseOperator], source: Observable[ResponseEvent]
) -> Observable[ResponseEvent]:
    """The response through the operators.

    An operator that raises instead of failing raises into its source, and what stands behind it would wait for ever. So
    its source catches that, and lets it end the response.
    """
    if not operators:
        return source

    def subscribe(
        observer: abc.ObserverBase[ResponseEvent], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        upstream = SingleAssignmentDisposable()

        def guard(
            first: abc.ObserverBase[ResponseEvent], _: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            def on_next(event: ResponseEvent) -> None:
                try:
                    first.on_next(event)
                except Exception as error:
                    upstream.dispose()
                    observer.on_error(error)

            return source.subscribe(
                on_next, first.on_error, first.on_completed, scheduler=scheduler
            )

        upstream.disposable = reduce(_apply, operators, Observable(guard)).subscribe(
            observer, scheduler=scheduler
        )
        return upstream

    return Observable(subscribe)


def _apply(
    source: Observable[ResponseEvent], operator: ResponseOperator
) -> Observable[ResponseEvent]:
    return operator(source)


__all__ = ["respond"]
