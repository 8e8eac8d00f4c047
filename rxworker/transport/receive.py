"""From the bytes of a response to its events, also when the connection breaks in the middle.

Theory of operation. A `Receiver` has three states. *Nothing emitted*: an error is passed on alone, so that the request
can be made again and no observer notices. *Emitting*: events pass; the first `Error` among them, or the exception of
the connection, is kept as the failure. *Over*: it has ended, and drops whatever arrives. An error ends the response
only after its ``Status(FAILED)``, which the decoder emits after it has closed the open blocks. What surprises: the
usage is emitted a second time before an error, as a partial one, since more was received than was counted; and an error
of the connection after the terminal event of the response changes nothing.

Reads that hold neither a usage nor an error are the usual case, and are pushed as they are, several deltas as one
`Deltas`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace
from reactivex import abc

from rxworker.errors import ProviderError, RemoteProtocolError, RxWorkerError, TransportError, TransportTimeoutError
from rxworker.events import BlockAbort, Error, Opaque, Ping, ResponseEvent, ResponseStatus, Status, Usage
from rxworker.events.kinds import Deltas, flatten, gather
from rxworker.events.meta import NO_RESPONSE, TRUNCATED
from rxworker.operators.kernel import many
from rxworker.operators.recovery import error_to_exception
from rxworker.providers.base import ResponseDecoder
from rxworker.providers.batch_decoder import Part


class Receiver(abc.ObserverBase[bytes]):
    """One response that arrives: takes the bytes and emits events to the observer.

        --b--b--#                bytes
        --s--d--(a,e,f,#)        start, delta; abort, Error, Status(FAILED)

    It ends with an error if the response reports a failure, or breaks off. The open blocks are closed before the error
    goes on.

    Args:
        make: Makes the provider's decoder.
        observer: The observer of the events.
        hide: Removes the secrets of the request from a text of an error, which may quote them.
    """

    def __init__(
        self,
        make: Callable[[], ResponseDecoder],
        observer: abc.ObserverBase[ResponseEvent],
        hide: Callable[[str], str] = str,
    ) -> None:
        self._make = make
        self._hide = hide
        self._observer = observer
        self._push_many = many(observer)
        self._decoder = decoder = make()
        # Not by their types, of which most processes need one.
        self._feed: Callable[[bytes], Sequence[Part]] = getattr(decoder, "feed_parts", self._feed_one_by_one)
        self._reads = 0
        self._progress = 0  # reads that brought an event, other than pings
        self._has_emitted = False
        self._over = False
        self._failure: Exception | None = None
        self._usage: Usage | None = None

    def on_next(self, value: bytes) -> None:
        """Take what was read."""
        if self._over:
            return
        self._reads += 1
        try:
            events = self._feed(value)
        except Exception as error:
            self._give_up(self._hidden(error))
            return
        if events and (type(events[0]) is not Ping or not all(type(e) is Ping for e in events)):
            self._progress += 1
        self._emit(events)

    def on_completed(self) -> None:
        """Take the end of the connection."""
        if self._over or self._goes_on(None):
            return
        if events := self._decoder.finish():
            self._emit(events)
        self._close()

    def on_error(self, error: Exception) -> None:
        """Take what broke the connection; unless the response was complete, that is how it ends."""
        if self._over:
            return
        if self._goes_on(error):
            return
        events = self._decoder.finish() if self._reads else ()
        if not self._reads or (not self._has_emitted and _is_half_a_line(events)):
            self._fail(error)
            return
        self._emit(events, error)
        self._close()

    def _goes_on(self, error: Exception | None) -> bool:
        """Whether more of the response comes after the end of the connection, or after this error."""
        del error
        return False

    def _give_up(self, error: Exception) -> None:
        """End a response that cannot be decoded; what is open is closed before the error."""
        try:
            events = self._decoder.finish()
        except Exception:  # its first exception has more details
            events = ()
        self._emit(events, error)
        if isinstance(error, RemoteProtocolError):
            self._close()  # what comes after the end of a response changes nothing
        elif not self._over:
            self._fail(error)

    def _close(self) -> None:
        """Nothing more comes."""
        if self._over:
            return
        if self._failure is not None:
            self._fail(self._failure)
            return
        self._stop()
        self._observer.on_completed()

    def _feed_one_by_one(self, data: bytes) -> Sequence[Part]:
        return gather(self._decoder.feed(data))

    def _emit(self, parts: Sequence[Part], broken: Exception | None = None) -> None:
        """Push what a read brought."""
        kinds = [*map(type, reversed(parts))]
        if self._failure is not None or not _FAILING.isdisjoint(kinds):
            for event in flatten(parts):
                if not self._over:
                    self._emit_one(event, broken)
            return
        if not parts or self._over:
            return
        if Usage in kinds:
            self._usage = parts[~kinds.index(Usage)]  # pyright: ignore[reportAttributeAccessIssue] - the last one
        self._has_emitted = True
        if len(parts) == 1 and not isinstance(parts[0], Deltas):
            self._observer.on_next(parts[0])
        else:
            self._push_many(parts)

    def _emit_one(self, event: ResponseEvent, broken: Exception | None) -> None:
        if type(event) in _RARE:
            event = self._look_at(event, broken)
            if self._over:
                return
        self._has_emitted = True
        self._observer.on_next(event)
        if self._failure is not None and _is_failed(event):
            self._fail(self._failure)

    def _look_at(self, event: ResponseEvent, broken: Exception | None) -> ResponseEvent:
        """Keep what the end of the response needs to know."""
        if isinstance(event, Usage):
            self._usage = event
        elif isinstance(event, BlockAbort):
            event = replace(event, reason=self._hide(event.reason))
        elif isinstance(event, Error):
            code, request = (_optional(self._hide, event.code), _optional(self._hide, event.request_id))
            event = replace(event, code=code, request_id=request, message=self._hide(event.message))
            if broken is not None and event.code == TRUNCATED:
                event, self._failure = _because(event, broken), broken
            else:
                self._failure = error_to_exception(event)
                self._failure.__cause__ = broken
            if not self._has_emitted:  # without the event: the request may be made again
                self._fail(self._failure)
            elif self._usage is not None:
                # More was received than was counted: the response was cut before its last usage.
                self._observer.on_next(replace(self._usage, is_partial=True))
        return event

    def _stop(self) -> None:
        """From now on nothing is emitted."""
        self._over = True

    def _fail(self, error: Exception) -> None:
        self._stop()
        self._observer.on_error(error)

    def _hidden(self, error: Exception) -> Exception:
        """The error without what it quotes of the secrets of the request."""
        if isinstance(error, RxWorkerError):
            error.message = self._hide(error.message)
            error.args = (error.message, *error.args[1:])
            error.request_id = _optional(self._hide, error.request_id)
        if isinstance(error, ProviderError):
            error.code = _optional(self._hide, error.code)
        return error


def _optional(hide: Callable[[str], str], text: str | None) -> str | None:
    return None if text is None else hide(text)


CAUSES: tuple[tuple[type[Exception], str], ...] = (
    (TransportTimeoutError, "timeout"),
    (TransportError, "connection"),
    (RemoteProtocolError, "protocol"),
)
_FAILING: frozenset[type[object]] = frozenset({BlockAbort, Error})
_RARE: frozenset[type[object]] = _FAILING | {Usage}


def _is_failed(event: ResponseEvent) -> bool:
    return isinstance(event, Status) and event.status is ResponseStatus.FAILED


def _is_half_a_line(events: Sequence[ResponseEvent]) -> bool:
    """Whether a response that was cut has not begun: the end of its first line makes no sense of its own."""
    codes = {event.code for event in events if isinstance(event, Error)}
    return codes in ({NO_RESPONSE}, {TRUNCATED}) and all(
        isinstance(event, Error | Opaque) or _is_failed(event) for event in events
    )


def _because(event: Error, cause: Exception) -> Error:
    """The event of a stream that was cut, annotated with the transport error."""
    kind = next((kind for sort, kind in CAUSES if isinstance(cause, sort)), "unknown")
    retryable = isinstance(cause, RxWorkerError) and cause.retryable
    return replace(event, code=kind, kind=kind, message=str(cause), retryable=retryable)
