"""The web server as an aiohttp application, and on an address of its own: limits and an orderly shutdown.

Every client that reaches the port may connect, with or without a token. A connection that sends no request in time is
closed, and so is one above the limit: a program without free file descriptors cannot run tools either. A malformed
request is neither quoted nor logged, since it may contain a token.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Unpack, cast

from aiohttp import WSMsgType, web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from aiohttp.typedefs import Handler as AiohttpHandler
from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.log import EventLog
from rxworker.messages.settings import awaited
from rxworker.transport.listening import is_loopback, stop_listening
from rxworker.ui.web.api import routes_of
from rxworker.ui.web.guard import HEADERS, Guard, add_headers
from rxworker.ui.web.http.request import (
    SUBPROTOCOL,
    Outlet,
    ResponseStream,
    Route,
    Socket,
    WebRequest,
    with_authorization,
)
from rxworker.ui.web.http.responses import error_response, health_routes
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
        self.settings = settings or Settings()
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
        return _Stream(self._request, response, self.settings.stall_seconds)

    async def open_socket(self, max_message: int) -> _Socket | None:
        """Accept a WebSocket."""
        self._sent = socket = web.WebSocketResponse(
            heartbeat=self.settings.heartbeat,
            max_msg_size=max_message,
            compress=False,
            timeout=CLOSE_SECONDS,
            protocols=(SUBPROTOCOL,),
        )
        if not socket.can_prepare(self._request):
            return None
        await socket.prepare(self._request)
        return _Socket(self._request, socket, self.settings.stall_seconds)


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


class _Outlet(Outlet):
    """What is written to a connection of aiohttp."""

    writes_now = True

    def __init__(
        self, request: web.Request, send: Callable[[bytes], Coroutine[object, object, None]], stall_seconds: float
    ) -> None:
        self._request, self._send, self._stall_seconds = request, send, stall_seconds

    def write_now(self, piece: bytes, /) -> bool:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            return False
        if transport.get_write_buffer_size() + len(piece) >= MAX_WAITING:
            return False
        writing = self._send(piece)
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

    async def write(self, piece: bytes, /) -> None:
        with _write_timeout(self._request, self._stall_seconds):
            await self._send(piece)


class _Stream(_Outlet, ResponseStream):
    """A response that aiohttp sends."""

    def __init__(self, request: web.Request, response: web.StreamResponse, stall_seconds: float) -> None:
        super().__init__(request, response.write, stall_seconds)
        self._response = response

    async def end(self) -> None:
        await self._response.write_eof()

    def abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


CLOSE_SECONDS = 2.0
"""Seconds a client has to answer when its WebSocket is closed."""


class _Socket(_Outlet, Socket):
    """A WebSocket of aiohttp."""

    def __init__(self, request: web.Request, socket: web.WebSocketResponse, stall_seconds: float) -> None:
        super().__init__(request, partial(socket.send_frame, opcode=WSMsgType.TEXT), stall_seconds)
        self._socket = socket

    async def messages(self) -> AsyncGenerator[str | bytes, None]:
        async for message in self._socket:
            if message.type is WSMsgType.ERROR:
                return
            yield message.data if message.type is WSMsgType.TEXT else b""

    async def close(self, code: int, reason: str) -> None:
        await self._socket.close(code=code, message=reason.encode())


HEAD_SECONDS = 10.0
"""Seconds the head of a connection's first request may take to arrive."""

IDLE_SECONDS = 30.0
"""Seconds a connection may wait for its next request."""


class Connection(web.RequestHandler):
    """A connection.

    Args:
        server: The aiohttp server that handles its requests, and counts its connections.
        most: The maximum number of connections of the server.
    """

    __slots__ = ("_most", "_server", "_timer")

    def __init__(self, server: web.Server, most: int) -> None:
        # No access log: addresses may contain private data. Bodies are not decompressed: see `read_body`.
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # pyright: ignore[reportArgumentType] - as documented
            keepalive_timeout=IDLE_SECONDS,
            auto_decompress=False,
        )
        self._server = server
        self._most = most
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it if the limit is exceeded."""
        super().connection_made(transport)
        # A transport of uvloop does not derive from asyncio.Transport.
        abort = cast("asyncio.Transport", transport).abort
        if len(self._server.connections) > self._most:
            abort()
        else:
            self._timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, abort)

    def begin(self) -> None:
        """Cancel the timer: the first request has arrived."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the timer."""
        self.begin()
        super().connection_lost(exc)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Respond to data that is not valid HTTP."""
        if not isinstance(exc, HttpProcessingError) or request.writer.output_size:
            return super().handle_error(request, status, exc, message)
        response = error_response(400, "bad_request", "this cannot be read as HTTP")
        response.headers.update(HEADERS)
        response.force_close()
        return response


@web.middleware
async def note_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware that reports the first request to its connection."""
    if isinstance(request.protocol, Connection):
        request.protocol.begin()
    return await handler(request)


BACKLOG = 128
"""The maximum number of connections that wait to be accepted."""

MAX_PROBES = 32
"""The maximum number of connections of `serve_health`."""

CLOSING_SECONDS = 3.0
"""Seconds requests have to end when the server stops."""


class WebServer:
    """The web server as a context manager: ``async with WebServer(...) as server``.

    Args:
        workers: See `make_app`.
        host: The address to listen on. An address that other machines can reach requires a token.
        port: The port; 0 for any free port.
        options: See `ServerOptions`.

    Attributes:
        url: The address of the page.
        state: The state of the server, for the program that contains it.
        runs: The observable of all runs, for a dashboard; see `ServerState.all_runs`.
        add: Shows a run that the program has started; see `ServerState.add`.
        publish: Serves a published stream; see `ServerState.publish`.

    Raises:
        ConfigurationError: Other machines can reach the server and it has no token; or the address is not available.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     async with WebServer(lambda: Worker(ScriptedModel(["Hello!"])), port=0) as server:
        ...         print(server.url)
        >>> asyncio.run(main()) # doctest: +ELLIPSIS
        http://127.0.0.1:.../
    """

    def __init__(
        self, workers: Workers, *, host: str = "127.0.0.1", port: int = 8080, **options: Unpack[ServerOptions]
    ) -> None:
        settings = options.get("settings") or Settings()
        if settings.token is None and options.get("user") is None and not is_loopback(host):
            raise ConfigurationError(
                f"{host} can be reached from other machines, and every client that reaches the server can run its "
                "tools: give it a token with Settings(token=...), name its users with user=..., or listen on "
                "127.0.0.1"
            )
        self._host = host
        self._port = port
        options["settings"] = replace(settings, allowed_hosts=_hosts(settings, host))
        self._app = make_app(workers, **options)
        self._app.middlewares.insert(0, note_request)
        self._serving = AsyncExitStack()
        self.state = self._app[STATE]
        self.runs, self.add = self.state.all_runs, self.state.add
        self.publish = self.state.publish
        self.url = ""

    async def __aenter__(self) -> WebServer:
        listening = _listening(self._app, self.state.settings.max_connections, self._host, self._port)
        port = await self._serving.enter_async_context(listening)
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{shown}:{port}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            self.state.begin_close()
            await asyncio.sleep(self.state.settings.close_delay)
        finally:
            await self._serving.aclose()


async def serve(
    workers: Workers,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    ready: Callable[[str], object] | None = None,
    **options: Unpack[ServerOptions],
) -> None:
    """Serve until cancelled. Then cancel the runs and notify their watchers.

    Args:
        workers: See `make_app`.
        host: The address to listen on. An address that other machines can reach requires a token.
        port: The port; 0 for any free port.
        ready: Called with the page's address when the server listens.
        options: See `ServerOptions`.

    Raises:
        ConfigurationError: Other machines can reach the server and it has no token; or the address is not available.
    """
    async with WebServer(workers, host=host, port=port, **options) as server:
        if ready is not None:
            await awaited(ready(server.url))
        await asyncio.Event().wait()


@asynccontextmanager
async def serve_health(
    host: str | None,
    port: int,
    find_obstacle: Callable[[], str],
    find_log: Callable[[], EventLog | None] = lambda: None,
) -> AsyncGenerator[int, None]:
    """Serve ``/healthz`` and ``/readyz`` alone, for a process without a web server.

    Args:
        host: The address to listen on; ``None`` for all.
        port: The port; 0 for any free port.
        find_obstacle: See `health_routes`.
        find_log: As well.

    Yields:
        The port.

    Raises:
        ConfigurationError: The address is not available.
    """
    app = web.Application(middlewares=[note_request])
    app.add_routes([aiohttp_route(route) for route in health_routes(find_obstacle, find_log)])
    app.on_response_prepare.append(add_security_headers)
    # Everything on the network may reach it, and it must not use up the files of the process.
    async with _listening(app, MAX_PROBES, host, port) as port:
        yield port


@asynccontextmanager
async def _listening(app: web.Application, most: int, host: str | None, port: int) -> AsyncGenerator[int, None]:
    """Serve an application on connections, at most so many at once; yields the port.

    Raises:
        ConfigurationError: The address is not available.
    """
    # Cancel the handler when its client disconnects.
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=CLOSING_SECONDS)
    await runner.setup()
    try:
        assert runner.server is not None
        connect = partial(Connection, runner.server, most)
        loop = asyncio.get_running_loop()
        try:
            listening = await loop.create_server(connect, host, port, backlog=BACKLOG)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(_why(error, host or "all addresses", port)) from error
        try:
            yield listening.sockets[0].getsockname()[1]
        finally:
            await stop_listening(listening)
    finally:
        await runner.cleanup()


def _hosts(settings: Settings, host: str) -> tuple[str, ...]:
    """Return the allowed host names of a server that listens there."""
    if host in ("", "0.0.0.0", "::"):
        # A name that resolves to this machine may belong to an attacker; an IP address may not.
        return (*settings.allowed_hosts, "0.0.0.0/0", "::/0", socket.gethostname())
    return (*settings.allowed_hosts, host)


def _why(error: OSError | OverflowError, host: str, port: int) -> str:
    if isinstance(error, OverflowError):
        return f"port {port} is not a port: choose a number from 0 to 65535"
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is in use: stop the program that listens there, or choose another one with "
            "port=..., 0 for any that is free"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs rights that this program does not have: choose one above 1023"
    return f"cannot listen on {host} port {port}: {error.strerror or error}"
