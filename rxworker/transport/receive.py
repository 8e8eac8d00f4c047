"""From the bytes of a response to its events, also when the connection breaks in the middle."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace
from reactivex import Observable, abc

from rxworker.errors import RxWorkerError, TransportTimeoutError
from rxworker.events import TRUNCATED, Error, ResponseEvent
from rxworker.operators import Operator
from rxworker.operators.stage import Sink, stage
from rxworker.providers.base import ResponseDecoder


def receive(make: Callable[[], ResponseDecoder]) -> Operator[bytes, ResponseEvent]:
    """Decode, and let a broken connection close the blocks that are open before the error goes on.

        --b--b--#              bytes
        [ receive(decoder) ]
        --s--d--(a,e,f,#)      start, delta; abort, Error, Status(FAILED)

    An error before the first byte passes as it is. One after the response's terminal event changes nothing.

    Args:
        make: Makes the provider's decoder.
    """

    def apply(source: Observable[bytes]) -> Observable[ResponseEvent]:
        def start(observer: abc.ObserverBase[ResponseEvent]) -> Sink[bytes]:
            return _sink(make(), observer)

        return stage(source, start)

    return apply


def _sink(decoder: ResponseDecoder, observer: abc.ObserverBase[ResponseEvent]) -> Sink[bytes]:
    push, feed = observer.on_next, decoder.feed
    begun = over = False

    def on_next(data: bytes) -> None:
        nonlocal begun, over
        begun = True
        if over:
            return
        try:
            events = feed(data)
        except Exception as error:
            over = True
            observer.on_error(error)
            return
        for event in events:
            push(event)

    def on_error(error: Exception) -> None:
        nonlocal over
        if over:
            return
        over = True
        if not begun:
            observer.on_error(error)
            return
        broken = False
        for event in decoder.finish():
            if isinstance(event, Error) and event.code == TRUNCATED:
                broken = True
                event = _because(event, error)
            push(event)
        if broken:
            observer.on_error(error)
        else:
            observer.on_completed()

    def on_completed() -> None:
        nonlocal over
        if over:
            return
        over = True
        for event in decoder.finish():
            push(event)
        observer.on_completed()

    return Sink(on_next, on_error, on_completed)


def _because(event: Error, cause: Exception) -> Error:
    """The event of a stream that was cut, with what is known of the knife."""
    kind = "timeout" if isinstance(cause, TransportTimeoutError) else "connection"
    retryable = isinstance(cause, RxWorkerError) and cause.retryable
    return replace(event, code=kind, kind=kind, message=str(cause), retryable=retryable)


__all__ = ["receive"]
