"""Turning an error that came as an event into the error that ends the stream."""

from __future__ import annotations

from reactivex import Observable, abc

from rxworker.errors import ProviderError, RxWorkerError, TruncatedError
from rxworker.events import TRUNCATED, Error, ResponseEvent, ResponseStatus, Status
from rxworker.operators.records import expect_events
from rxworker.operators.stage import Sink, stage
from rxworker.operators.types import Operator


def error_to_exception(event: Error) -> RxWorkerError:
    """The exception that an error event stands for.

    >>> error_to_exception(Error("overloaded_error", "try later", retryable=True, kind="overloaded"))
    ProviderError('try later')
    """
    if event.code == TRUNCATED:
        return TruncatedError(event.message, retryable=event.retryable, request_id=event.request_id)
    return ProviderError(
        event.message,
        kind=event.kind,
        code=event.code,
        retryable=event.retryable,
        retry_after=event.retry_after,
        request_id=event.request_id,
    )


def fail_on_error() -> Operator[ResponseEvent, ResponseEvent]:
    """Pass all events on, and end with the matching exception after an `Error` event.

        --t--e--f----|         t a delta, e Error, f Status(FAILED)
        [ fail_on_error() ]
        --t--e--(f,#)

    The end comes behind the ``Status(FAILED)`` that follows the error, or where the source ends without one. Should the
    source itself end with an error, that one becomes the exception's ``__cause__``.
    """

    def apply(source: Observable[ResponseEvent]) -> Observable[ResponseEvent]:
        expect_events(source, "fail_on_error()")
        return stage(source, _watch)

    return apply


def _watch(observer: abc.ObserverBase[ResponseEvent]) -> Sink[ResponseEvent]:
    push = observer.on_next
    failure: RxWorkerError | None = None
    over = False

    def on_next(event: ResponseEvent) -> None:
        nonlocal failure, over
        if over:
            return
        push(event)
        if type(event) is Error:
            failure = failure or error_to_exception(event)
        elif (
            failure is not None and type(event) is Status and event.status is ResponseStatus.FAILED
        ):
            over = True
            observer.on_error(failure)

    def on_error(error: Exception) -> None:
        nonlocal over
        if over:
            return
        over = True
        if failure is None:
            observer.on_error(error)
        else:
            failure.__cause__ = error
            observer.on_error(failure)

    def on_completed() -> None:
        nonlocal over
        if over:
            return
        over = True
        if failure is None:
            observer.on_completed()
        else:
            observer.on_error(failure)

    return Sink(on_next, on_error, on_completed)


__all__ = ["error_to_exception", "fail_on_error"]
