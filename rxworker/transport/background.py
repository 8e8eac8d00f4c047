"""Following a response that goes on at the service when its connection is cut, and ending it there."""

from __future__ import annotations

import logging
from contextvars import Context
from typing import cast

from reactivex import Observable, abc

from rxworker.providers.base import HttpRequest, ResponseDecoder, ResumableDecoder
from rxworker.transport.seams import Transport

logger = logging.getLogger("rxworker.transport")

# Requests that end a response are not waited for by anyone, so they are kept here until they are done.
_cancelling: set[abc.DisposableBase] = set()


class Background:
    """One response that goes on without its connection.

    Args:
        transport: Sends the requests.
        sent: The request that began the response.
        decoder: Its decoder, a `ResumableDecoder`.

    Attributes:
        has_progressed: Whether an event has come between the last two resumptions.
    """

    def __init__(self, transport: Transport, sent: HttpRequest, decoder: ResponseDecoder) -> None:
        self._decoder = cast("ResumableDecoder", decoder)
        self.has_progressed = False
        self._resumed = ""  # the last address
        self._transport = transport
        self._sent = sent

    def resume(self) -> Observable[bytes] | None:
        """The bytes of what has not come; ``None`` if the response is over or has not begun."""
        request = self._decoder.resume(self._sent)
        if request is None:
            return None
        # The address names the last event.
        self.has_progressed, self._resumed = request.url != self._resumed, request.url
        return self._transport.send(request)

    def cancel(self) -> None:
        """Ask the service to end the response, without waiting for its answer."""
        request = self._decoder.cancel(self._sent)
        if request is None:
            return
        subscription: abc.DisposableBase | None = None
        is_done = False

        def end(error: Exception | None = None) -> None:
            nonlocal is_done
            is_done = True
            if subscription is not None:
                _cancelling.discard(subscription)
            if error is not None:
                logger.warning("a response in the background could not be cancelled: %s", error)

        source = self._transport.send(request)
        # In a context of its own: the run that is left must not hold this request back.
        subscription = Context().run(source.subscribe, None, end, end)
        if not is_done:
            _cancelling.add(subscription)
