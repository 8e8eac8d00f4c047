"""The transports of an MCP server: standard input and output, and streamable HTTP.

Theory of operation. The package reads standard input in a thread that cannot be stopped, so that a server would not end before its client does. Here a
daemon thread reads it, and limits the length of a line. While the server runs, descriptor 0 is empty and descriptor 1 is standard error, so that output of a
tool does not end up among the messages.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from io import BufferedReader
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

import anyio
import msgspec
import uvicorn
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from starlette.types import ASGIApp, Receive, Scope, Send

from rxworker.errors import ConfigurationError
from rxworker.ui.asgi import AsgiRequest
from rxworker.ui.web.guard import Guard
from rxworker.ui.web.responses import ApiError, json_response
from rxworker.ui.web.settings import Settings

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import WriteStream

CLOSE_SECONDS = 5
"""Seconds that requests may take when the server is stopped."""


@asynccontextmanager
async def standard_streams(max_line: int) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams of messages over standard input and output.

    Args:
        max_line: The maximum number of bytes of a message. A longer one is answered with an error, and dropped.
    """
    with _claimed() as (source, sink):
        lines = _Lines(source, max_line)
        given = cast("anyio.AsyncFile[str]", lines)
        async with stdio_server(given, anyio.wrap_file(sink)) as streams:
            lines.messages = streams[1]
            yield streams


@contextmanager
def _claimed() -> Generator[tuple[BufferedReader, TextIO], None, None]:
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    try:
        # The thread may still read: its descriptor must not be closed, and used again, under it.
        yield (
            os.fdopen(source, "rb", closefd=False),
            os.fdopen(sink, "w", encoding="utf-8", closefd=False),
        )
    finally:
        sys.stdout.flush()  # what tools have printed must not come after the messages
        os.dup2(source, 0)
        os.dup2(sink, 1)


class _Lines:
    """The lines of standard input, as the package reads them from a file.

    Args:
        source: Standard input.
        max_line: The maximum number of bytes of a line.

    Attributes:
        messages: Where the messages of the server are sent.
    """

    messages: WriteStream[SessionMessage]

    def __init__(self, source: BufferedReader, max_line: int) -> None:
        self._source = source
        self._max_line = max_line
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._is_wanted = threading.Semaphore(0)
        threading.Thread(target=self._read, name="rxworker-mcp-stdin", daemon=True).start()

    def _read(self) -> None:
        """Read a line whenever one is wanted: what is not read stays in the pipe."""
        while True:
            self._is_wanted.acquire()
            try:
                line = self._source.readline(self._max_line + 1)
                rest = line
                while rest and not rest.endswith(b"\n") and len(line) > self._max_line:
                    rest = self._source.readline(65536)
            except (OSError, ValueError):
                line = b""
            try:
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line or None)
            except RuntimeError:
                return  # the event loop has ended
            if not line:
                return

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        while True:
            self._is_wanted.release()
            line = await self._lines.get()
            if line is None:
                raise StopAsyncIteration
            if len(line) > self._max_line:
                text = f"a message may have at most {self._max_line} bytes"
                await self._refuse(INVALID_REQUEST, text)
                continue
            if not line.strip():
                continue
            try:
                msgspec.json.decode(line, type=_Envelope)
            except msgspec.ValidationError:
                await self._refuse(INVALID_REQUEST, "this is no message of JSON-RPC 2.0")
            except (msgspec.DecodeError, RecursionError):
                await self._refuse(PARSE_ERROR, "this is no JSON")
            else:
                return line.decode("utf-8", "replace")

    async def _refuse(self, code: int, message: str) -> None:
        await self.messages.send(SessionMessage(_error(code, message)))


class _Envelope(msgspec.Struct):
    jsonrpc: Literal["2.0"]


def _error(code: int, message: str) -> JSONRPCError:
    """An error for a request whose id is not known."""
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))


class GuardedApp:
    """An ASGI application behind the guard of the web server: its token, and its checks of ``Host`` and ``Origin``.

    Args:
        app: The application.
        settings: The settings of the server.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._guard = Guard(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] == "http":
            request = AsgiRequest(scope, receive, send, None, {}, self._settings)
            try:
                self._guard.check_source(request)
                self._guard.check_token(request)
            except ApiError as error:
                body = _error(INVALID_REQUEST, error.message).model_dump(exclude_unset=True)
                response = json_response(body, error.status)
                if error.status == 401:
                    response.headers["WWW-Authenticate"] = "Bearer"
                await request.answer(response)
                return
        await self._app(scope, receive, send)


@asynccontextmanager
async def listening(
    app: ASGIApp, host: str, port: int, settings: Settings
) -> AsyncGenerator[int, None]:
    """Serve an ASGI application within the context, and yield the port.

    Raises:
        ConfigurationError: The address is not available.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # addresses may contain private data
        lifespan="on",
        limit_concurrency=settings.max_connections,
        server_header=False,
        timeout_graceful_shutdown=CLOSE_SECONDS,
    )
    server = uvicorn.Server(config)
    # The signals belong to the program.
    server.capture_signals = nullcontext  # pyright: ignore[reportAttributeAccessIssue]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"port {port} of {host} cannot be used: {reason}") from error
    serving = asyncio.create_task(server.serve([listener]), name="rxworker mcp http")
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.wait({serving})
        listener.close()
