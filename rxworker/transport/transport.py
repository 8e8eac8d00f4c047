"""The seam where bytes come from."""

from __future__ import annotations

from typing import Protocol

from reactivex import Observable

from rxworker.providers.base import HttpRequest


class Transport(Protocol):
    """Something that sends a request and brings the body of the answer."""

    def send(self, request: HttpRequest) -> Observable[bytes]:
        """The body, as it arrives. Cold: each subscription sends the request, disposing it closes the connection.

        It fails with `HttpStatusError` when the answer is no stream, with `TransportTimeoutError` when no connection
        comes about in time, and with `TransportError` when it breaks.
        """
        ...


__all__ = ["Transport"]
