"""The web server as an aiohttp application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Unpack

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler as AiohttpHandler
from aiohttp.typedefs import Middleware

from rxworker.ui.web.api import routes_of
from rxworker.ui.web.guard import Guard, add_headers
from rxworker.ui.web.http.request import SUBPROTOCOL, Route, WebRequest, with_authorization
from rxworker.ui.web.http.settings import Settings
from rxworker.ui.web.runs.workers import Workers
from rxworker.ui.web.state import ServerOptions, ServerState

STATE = web.AppKey("rxworker", ServerState)
"""The key of the state in an application."""


def make_app(workers: Workers, **options: Unpack[ServerOptions]) -> web.Application:
    """Return the web server as an application: the page, the API, and the streams of runs.

    It runs by itself (see `serve`), or within another application: ``app.add_subapp("/desk/", make_app(...))``. On
    cleanup, its runs are cancelled and their watchers are notified.

    Args:
        workers: A worker, or a function that makes one for each conversation, or several by name.
        options: See `ServerOptions`.

    Raises:
        ConfigurationError: There is no worker, or ``user`` or ``on_run`` is not callable.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> app = make_app(lambda: Worker(ScriptedModel(["Hello!"])))
        >>> sorted(route.method for route in app.router.routes() if route.name == "page")
        ['GET', 'HEAD']
    """
    state = ServerState(workers, **options)
    app = web.Application(middlewares=[guarded(state.guard, state.settings)])
    app[STATE] = state
    app.add_routes([aiohttp_route(route) for route in routes_of(state)])

    async def start(_: web.Application) -> None:
        await state.start()

    async def shut_down(_: web.Application) -> None:
        await state.close()

    app.on_response_prepare.append(add_security_headers)
    app.on_startup.append(start)
    app.on_shutdown.append(shut_down)
    return app


async def add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the security headers to a response of aiohttp."""
    served = request.get(SERVED)
    add_headers(response.headers, None if served is None else served.origin)


def guarded(guard: Guard, settings: Settings) -> Middleware:
    """The middleware around all handlers."""

    @web.middleware
    async def check_request(request: web.Request, handler: AiohttpHandler) -> web.StreamResponse:
        served = request[SERVED] = AiohttpRequest(request, settings)

        async def handle(_: WebRequest) -> web.Response | None:
            response = await handler(request)
            return response if isinstance(response, web.Response) else None

        try:
            response = await guard.serve(served, handle)
        except ConnectionError:
            if not served.has_sent:
                raise
            response = None  # it was ended on purpose: a link was revoked
        return served.sent if response is None else response

    return check_request


def aiohttp_route(route: Route) -> web.RouteDef:
    """The route for an aiohttp application."""

    async def handle(request: web.Request) -> web.StreamResponse:
        served = request.get(SERVED) or AiohttpRequest(request)
        response = await route.handle(served)
        return served.sent if response is None else response

    name = route.name or None
    if route.method == "GET":
        return web.get(route.path, handle, name=name, allow_head=route.has_head)
    return web.route(route.method, route.path, handle, name=name)


class AiohttpRequest(WebRequest):
    """A request that aiohttp has received.

    Args:
        request: The request.
        settings: The limits of its body, and the time-outs of its response.
    """

    def __init__(self, request: web.Request, settings: Settings | None = None) -> None:
        self._settings = settings = settings or Settings()
        self._sent: web.StreamResponse | None = None
        self.native = self._request = request
        self.method = request.method
        self.path = request.path
        self.raw_path = request.rel_url.raw_path
        self.query = request.query
        self.headers = with_authorization(request.headers)
        self.cookies = request.cookies
        self.remote = request.remote
        self.is_secure = request.secure
        self.params = request.match_info
        found = request.match_info
        self.route = None if found.http_exception else found.route.name or ""
        self.max_body = settings.max_body
        self.body_seconds = settings.body_seconds

    @property
    def host(self) -> str:
        """The host that the request names. A request to a proxy has an absolute address, whose host counts."""
        return self._request.host

    @property
    def sent(self) -> web.StreamResponse:
        """The response that was streamed."""
        assert self._sent is not None
        return self._sent

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed."""
        transport = self._request.transport
        return transport is None or transport.is_closing()

    async def body(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces."""
        try:
            async for piece in self._request.content.iter_any():
                yield piece
        except web.RequestPayloadError as error:
            raise ValueError("the body is cut off, or not framed as HTTP") from error

    async def stream(self, headers: Mapping[str, str]) -> _Stream:
        """Begin a response."""
        self._sent = response = web.StreamResponse(headers=headers)
        self.has_sent = True
        await response.prepare(self._request)
        return _Stream(self._request, response, self._settings.stall_seconds)

    async def open_socket(self, max_message: int) -> _Socket | None:
        """Accept a WebSocket."""
        self._sent = socket = web.WebSocketResponse(
            heartbeat=self._settings.heartbeat,
            max_msg_size=max_message,
            compress=False,
            timeout=CLOSE_SECONDS,
            protocols=(SUBPROTOCOL,),
        )
        if not socket.can_prepare(self._request):
            return None
        await socket.prepare(self._request)
        return _Socket(self._request, socket, self._settings.stall_seconds)


SERVED = web.RequestKey("rxworker_request", AiohttpRequest)
"""The key of a request, as the handlers see it."""


@contextmanager
def _write_timeout(request: web.Request, seconds: float) -> Generator[None, None, None]:
    """Context manager: close a connection to which nothing could be written for too long.

    A slow client that reads a little is not affected.
    """
    loop, pause = asyncio.get_running_loop(), seconds / 2  # progress is seen between two samples
    timer: asyncio.TimerHandle
    before: int | None = None

    def look() -> None:
        nonlocal timer, before
        transport = request.transport
        if transport is None:
            return
        waiting = transport.get_write_buffer_size()
        if before is not None and waiting >= before:
            transport.abort()
            return
        before = waiting
        timer = loop.call_later(pause, look)

    timer = loop.call_later(pause, look)
    try:
        yield
    finally:
        timer.cancel()


MAX_WAITING = 1 << 14
"""The number of bytes that may wait in a connection before its client counts as behind.

Below the low-water mark of asyncio and uvloop (16 KiB) no write waits.
"""


def _now(request: web.Request, data: bytes, write: Callable[[bytes], Coroutine[object, object, None]]) -> bool:
    """Write to a connection unless its client is behind. Whether it was written."""
    transport = request.transport
    if transport is None or transport.is_closing():
        return False
    if transport.get_write_buffer_size() + len(data) >= MAX_WAITING:
        return False
    writing = write(data)
    try:
        writing.send(None)
    except StopIteration:
        return True
    except ConnectionError:
        return False
    # It waits, which it does not below that limit. What it waits for cannot be left: the client connects again.
    writing.close()
    transport.abort()
    return False


@dataclass(slots=True)
class _Stream:
    """A response that aiohttp sends."""

    request: web.Request
    response: web.StreamResponse
    stall_seconds: float
    writes_now: bool = True

    def write_now(self, data: bytes) -> bool:
        return _now(self.request, data, self.response.write)

    async def write(self, data: bytes) -> None:
        with _write_timeout(self.request, self.stall_seconds):
            await self.response.write(data)

    async def end(self) -> None:
        await self.response.write_eof()

    def abort(self) -> None:
        if self.request.transport is not None:
            self.request.transport.abort()


CLOSE_SECONDS = 2.0
"""Seconds a client has to answer when its WebSocket is closed."""


@dataclass(slots=True)
class _Socket:
    """A WebSocket of aiohttp."""

    request: web.Request
    socket: web.WebSocketResponse
    stall_seconds: float
    writes_now: bool = True

    def send_now(self, data: bytes) -> bool:
        return _now(self.request, data, self._send)

    async def _send(self, data: bytes) -> None:
        await self.socket.send_frame(data, WSMsgType.TEXT)

    async def messages(self) -> AsyncGenerator[str | bytes, None]:
        async for message in self.socket:
            if message.type is WSMsgType.ERROR:
                return
            yield message.data if message.type is WSMsgType.TEXT else b""

    async def send(self, data: bytes) -> None:
        with _write_timeout(self.request, self.stall_seconds):
            await self._send(data)

    async def close(self, code: int, reason: str) -> None:
        await self.socket.close(code=code, message=reason.encode())
