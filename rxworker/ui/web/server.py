"""The web server by itself: an address of its own, and an orderly end.

The connections of the server: how many there may be, how long one may say nothing, and what it hears when it speaks no HTTP.

Whoever reaches the port may connect, with or without a token. A connection that sends no request soon is closed, and so is one too many:
a program that has no files left to open cannot run tools either. What cannot be read is neither quoted nor logged, for it may hold a token.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler
from msgspec.structs import replace
from reactivex import Observable

from rxworker.errors import ConfigurationError
from rxworker.transport.listening import stop_listening
from rxworker.ui.web.app import make_app
from rxworker.ui.web.guard import HEADERS, User
from rxworker.ui.web.responses import error_answer
from rxworker.ui.web.runs import Workers
from rxworker.ui.web.settings import Settings, is_loopback
from rxworker.ui.web.state import STATE, ServerState
from rxworker.ui.web.store import OnRun
from rxworker.worker import Run

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


BACKLOG = 128
"""How many connections may wait to be accepted."""

CLOSING_SECONDS = 3.0
"""How long requests may take to end when the server stops."""


class WebServer:
    """The web server while it runs: ``async with WebServer(...) as server``.

    Args:
        workers: As for `make_app`.
        host: Where it listens. Another address than this machine's own needs a token.
        port: On which port; 0 for any that is free.
        settings: How it behaves.
        user: As for `make_app`.
        on_run: As for `make_app`.

    Attributes:
        url: Where the page is.

    Raises:
        ConfigurationError: Other machines could reach it, and it has no token; or the address cannot be had.

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
        self,
        workers: Workers,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        settings: Settings | None = None,
        user: User | None = None,
        on_run: OnRun | None = None,
    ) -> None:
        settings = settings or Settings()
        if settings.token is None and user is None and not is_loopback(host):
            message = (
                f"{host} can be reached from other machines, and whoever reaches the server can run its tools: give it a "
                "token with Settings(token=...), name its users with user=..., or listen on 127.0.0.1"
            )
            raise ConfigurationError(message)
        self._host = host
        self._port = port
        self._app = make_app(
            workers,
            settings=replace(settings, allowed_hosts=_hosts(settings, host)),
            user=user,
            on_run=on_run,
        )
        self._app.middlewares.insert(0, note_request)
        self._settings = settings
        self._listening: asyncio.Server | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""

    @property
    def state(self) -> ServerState:
        """What the server holds, for the program that it is part of."""
        return self._app[STATE]

    @property
    def runs(self) -> Observable[Run[Any]]:
        """The observable of its runs, for a dashboard; see `ServerState.all_runs`."""
        return self.state.all_runs

    def add(
        self,
        run: Run[Any],
        *,
        title: str | None = None,
        conversation: str | None = None,
        worker: str = "program",
        owner: str | None = None,
    ) -> None:
        """Show a run that the program has begun itself; see `ServerState.add`."""
        self.state.add(run, title=title, conversation=conversation, worker=worker, owner=owner)

    async def __aenter__(self) -> WebServer:
        # A handler whose client goes away ends.
        runner = web.AppRunner(
            self._app, handler_cancellation=True, shutdown_timeout=CLOSING_SECONDS
        )
        await runner.setup()
        try:
            assert runner.server is not None
            most = self._settings.max_connections
            connections = Connections(runner.server, most, HEAD_SECONDS)
            listening = await asyncio.get_running_loop().create_server(
                connections, self._host, self._port, backlog=BACKLOG
            )
        except (OSError, OverflowError) as error:
            await runner.cleanup()
            raise ConfigurationError(_why(error, self._host, self._port)) from error
        except BaseException:
            await runner.cleanup()
            raise
        self._listening, self._runner = listening, runner
        port: int = listening.sockets[0].getsockname()[1]
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{shown}:{port}/"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._listening is not None and self._runner is not None:
            try:
                await stop_listening(self._listening)
            finally:
                await self._runner.cleanup()


async def serve(
    workers: Workers,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    settings: Settings | None = None,
    user: User | None = None,
    on_run: OnRun | None = None,
    ready: Callable[[str], object] | None = None,
) -> None:
    """Serve until cancelled. Then the runs are cancelled, and their watchers told.

    Args:
        workers: A function that makes a worker, or several by name.
        host: Where to listen. Another address than this machine's own needs a token.
        port: On which port; 0 for any that is free.
        settings: How the server behaves.
        user: As for `make_app`.
        on_run: As for `make_app`.
        ready: Hears the page's address when the server listens.

    Raises:
        ConfigurationError: Other machines could reach it, and it has no token; or the address cannot be had.
    """
    async with WebServer(
        workers, host=host, port=port, settings=settings, user=user, on_run=on_run
    ) as server:
        if ready is not None:
            ready(server.url)
        await asyncio.Event().wait()


def _hosts(settings: Settings, host: str) -> tuple[str, ...]:
    """By which names a server that listens there may be called."""
    if host in ("", "0.0.0.0", "::"):
        # A foreign name that resolves to this machine is a name; an address can only be meant.
        return (*settings.allowed_hosts, "0.0.0.0/0", "::/0", socket.gethostname())
    return (*settings.allowed_hosts, host)


def _why(error: OSError | OverflowError, host: str, port: int) -> str:
    if isinstance(error, OverflowError):
        return f"port {port} is not a port: choose a number from 0 to 65535"
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: stop what listens there, or choose another port"
    if error.errno == errno.EACCES:
        return f"port {port} needs rights that this program does not have: choose one above 1023"
    return f"cannot listen on {host} port {port}: {error.strerror or error}"
