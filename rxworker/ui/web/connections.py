"""The connections of the server: how many there may be, how long one may say nothing, and what it hears when it speaks no HTTP.

Whoever reaches the port may connect, with or without a token. A connection that sends no request soon is closed, and so is one too many:
a program that has no files left to open cannot run tools either. What cannot be read is neither quoted nor logged, for it may hold a token.
"""

from __future__ import annotations

import asyncio
from typing import cast

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler

from rxworker.ui.web.answers import error_answer
from rxworker.ui.web.guard import HEADERS

HEAD_SECONDS = 10.0
"""How long the head of a connection's first request may take to arrive."""

IDLE_SECONDS = 30.0
"""How long a connection may wait for its next request."""


class Connections:
    """Makes the connections of a server, and counts them.

    Args:
        server: What answers their requests.
        most: How many there may be.
        head_seconds: How long the head of a connection's first request may take.

    Attributes:
        count: How many there are.
    """

    def __init__(self, server: web.Server, most: int, head_seconds: float) -> None:
        self.count = 0
        self.head_seconds = head_seconds
        self._server = server
        self._most = most
        self._loop = asyncio.get_running_loop()

    @property
    def is_full(self) -> bool:
        """Whether there are more than there may be."""
        return self.count > self._most

    def __call__(self) -> Connection:
        """One more."""
        return Connection(self, self._server, self._loop)


class Connection(web.RequestHandler):
    """A connection.

    Args:
        connections: Where it is counted.
        server: What answers its requests.
        loop: Where it lives.
    """

    __slots__ = ("_connections", "_timer")

    def __init__(
        self,
        connections: Connections,
        server: web.Server,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        # Requests are not written to a log: their addresses are nobody's business. Bodies stay as they were sent: see `read_body`.
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # pyright: ignore[reportArgumentType] - as its documentation says
            keepalive_timeout=IDLE_SECONDS,
            auto_decompress=False,
        )
        self._connections = connections
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It begins, unless it is one too many."""
        super().connection_made(transport)
        self._connections.count += 1
        # A transport of uvloop is one without being derived from it.
        abort = cast("asyncio.Transport", transport).abort
        if self._connections.is_full:
            abort()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._connections.head_seconds, abort)

    def begin(self) -> None:
        """Its first request is there."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """It has ended."""
        self._connections.count -= 1
        self.begin()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is answered to something that is no request."""
        if not isinstance(exc, HttpProcessingError) or request.writer.output_size:
            return super().handle_error(request, status, exc, message)
        response = error_answer(400, "bad_request", "this cannot be read as HTTP")
        response.headers.update(HEADERS)
        response.force_close()
        return response


@web.middleware
async def note_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tells a connection that its request is there."""
    if isinstance(request.protocol, Connection):
        request.protocol.begin()
    return await handler(request)


__all__ = ["HEAD_SECONDS", "IDLE_SECONDS", "Connection", "Connections", "note_request"]
