"""The transports of an MCP server: standard input and output, and streamable HTTP.

The package has a transport for standard input and output, too. It waits for the thread that reads, so that a server would not end before its client
does, takes lines of any length, and does not answer what is no message.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TypeAlias

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from mcp.types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from rxworker.errors import ConfigurationError
from rxworker.ui.asgi import AsgiRequest
from rxworker.ui.stdio import LineStreams, standard_streams
from rxworker.ui.web.guard import Guard
from rxworker.ui.web.responses import ApiError, json_response
from rxworker.ui.web.settings import Settings

CLOSE_SECONDS = 5
"""Seconds that requests may take when the server is stopped."""

Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


@asynccontextmanager
async def standard_messages(limit: int) -> AsyncGenerator[Streams, None]:
    """The messages over standard input and output, as the package reads and writes them.

    Args:
        limit: The maximum number of bytes of a message. A longer one is answered with an error, and dropped.
    """
    received, source = anyio.create_memory_object_stream[SessionMessage | Exception]()
    sink, sent = anyio.create_memory_object_stream[SessionMessage]()
    with standard_streams(limit=limit) as lines:
        receiving = asyncio.create_task(_receive(lines, received, limit))
        sending = asyncio.create_task(_send(lines, sent))
        try:
            yield source, sink
            await sink.aclose()
            await asyncio.wait({sending}, timeout=CLOSE_SECONDS)
        finally:
            receiving.cancel()
            sending.cancel()
            await asyncio.wait({receiving, sending})


async def _receive(
    lines: LineStreams, received: MemoryObjectSendStream[SessionMessage | Exception], limit: int
) -> None:
    async with received:
        async for line in lines.lines():
            if line is None:
                refused = _error(INVALID_REQUEST, f"a message may have at most {limit} bytes")
            elif not line.strip():
                continue
            else:
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError as error:
                    is_json = error.errors()[0]["type"] != "json_invalid"
                    code = INVALID_REQUEST if is_json else PARSE_ERROR
                    refused = _error(code, "this is no message of JSON-RPC 2.0")
                else:
                    await received.send(SessionMessage(message))
                    continue
            with suppress(OSError):
                await lines.write(refused.model_dump_json(exclude_unset=True).encode())


async def _send(lines: LineStreams, sent: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Write messages until the client no longer reads."""
    async with sent:
        with suppress(OSError):
            async for each in sent:
                data = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await lines.write(data.encode())


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
