"""An MCP server whose tools are workers, over standard input and output, and over streamable HTTP.

The package has a transport for standard input and output, too. It waits for the thread that reads, so that a server
would not end before its client does, takes lines of any length, and does not answer what is not a message.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from importlib import metadata
from typing import TypeAlias

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, ListToolsResult, PaginatedRequestParams
from mcp.types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rxworker.adapters.asgi import AsgiRequest
from rxworker.adapters.mcp.calls import Calls, Context, McpWorker, ServedTool
from rxworker.adapters.stdio import LineStreams, standard_streams
from rxworker.decisions import check_members
from rxworker.errors import ConfigurationError, DecisionError
from rxworker.log import EventLog
from rxworker.transport.listening import is_loopback
from rxworker.ui.web.guard import Guard
from rxworker.ui.web.http.responses import ApiError, json_response
from rxworker.ui.web.http.settings import Settings
from rxworker.ui.web.runs.of_user import Runs
from rxworker.ui.web.runs.store import RunStore
from rxworker.ui.web.runs.workers import MakeServedWorker, WorkerSource
from rxworker.worker.session import Worker

ServedWorkers: TypeAlias = Mapping[str, McpWorker | Callable[[], Worker]]
"""The workers by the names of their tools."""

PATH = "/mcp"
"""The path of streamable HTTP."""

DECISION_SECONDS = 24 * 3600.0
"""Seconds that a client of the newest protocol may take to send a decision."""

CLOSE_SECONDS = 5
"""Seconds that requests may take when the server is stopped."""

Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class McpServer:
    """An MCP server whose tools are workers. A call starts a run and returns its answer.

    While a run continues, the client receives notifications of its progress. A run that pauses for approval requests
    the decision from the client's user, as a form. The result names the run: with this id as ``conversation``, a later
    call continues the conversation.

    Args:
        workers: The workers, by the names of their tools: functions that return a worker, or `McpWorker` for a
            description and an output type.
        name: The name of the server.
        settings: The settings of the server. Of these it uses the limits and the gate, and for HTTP also the token,
            the hosts and the origins.
        log: Where runs are stored; the program closes it after the server. Without a log, runs and conversations end
            with the process.

    Raises:
        ConfigurationError: There is no worker, or a name or an output is invalid.

    >>> from rxworker.testing import ScriptedModel
    >>> McpServer({"greet": lambda: Worker(ScriptedModel(["Hello!"]))})
    McpServer('rxworker', tools=['greet'])
    """

    def __init__(
        self,
        workers: ServedWorkers,
        *,
        name: str = "rxworker",
        settings: Settings | None = None,
        log: EventLog | None = None,
    ) -> None:
        if not workers:
            raise ConfigurationError("the server needs a worker: McpServer({'greet': Worker(...)})")
        self._settings = settings or Settings()
        self._tools = {
            name: ServedTool(name, worker if isinstance(worker, McpWorker) else McpWorker(worker))
            for name, worker in workers.items()
        }
        makers: dict[str, MakeServedWorker] = {n: t.worker.make for n, t in self._tools.items()}
        self._store = RunStore(self._settings, None, log)
        calls = Calls(self._tools, Runs(self._store, WorkerSource(makers)))
        self._server = Server(
            name, version=metadata.version("rxworker"), on_list_tools=self._list_tools, on_call_tool=calls.call
        )
        security = RequestStateSecurity.ephemeral(ttl=DECISION_SECONDS)
        self._server.middleware.append(RequestStateBoundary(security, default_audience=name))

    def __repr__(self) -> str:
        return f"McpServer({self._server.name!r}, tools={list(self._tools)})"

    async def _list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        del context, params  # there is one page
        return ListToolsResult(tools=[tool.describe() for tool in self._tools.values()])

    async def serve_stdio(self) -> None:
        """Serve one client over standard input and output, until it closes them.

        Output of tools goes to standard error.

        Raises:
            OSError: Standard input or output is closed.
        """
        async with self._closed(), standard_messages(self._settings.max_body) as (source, sink):
            await self._server.run(source, sink, self._server.create_initialization_options())

    @asynccontextmanager
    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[str, None]:
        """Context manager: serve clients over streamable HTTP; yields the address.

        Args:
            host: The address to listen on. Other machines can reach any but those of the loopback interface; then the
                settings need a token.
            port: The port; 0 for any free one.

        Raises:
            ConfigurationError: The address is not available, or needs a token.
        """
        if self._settings.token is None and not is_loopback(host):
            raise ConfigurationError(
                f"other machines can reach {host}: give the settings a token, or listen on 127.0.0.1"
            )
        app = self._server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=self._settings.max_body,
            max_sessions=self._settings.max_connections,
            # The guard checks this, with the host names and origins of the settings.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        async with self._closed(), listening(GuardedApp(app, self._settings), host, port, self._settings) as chosen:
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{chosen}{PATH}"

    @asynccontextmanager
    async def _closed(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self._store.close()
            self._store.forget()


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
                    check_members(line, "the message")
                except DecisionError as error:
                    refused = _error(INVALID_REQUEST, error.message)
                except ValidationError as error:
                    is_json = error.errors()[0]["type"] != "json_invalid"
                    code = INVALID_REQUEST if is_json else PARSE_ERROR
                    refused = _error(code, "this is not a message of JSON-RPC 2.0")
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
                await lines.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode())


def _error(code: int, message: str) -> JSONRPCError:
    """An error for a request whose id is not known."""
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))


class GuardedApp:
    """An ASGI application behind the guard of the web server: its token, and its checks of ``Host`` and ``Origin``.

    A message in which an object has a member twice is refused, too: readers of JSON take the last one, and a form is
    then approved that denies.

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
                needs_token = error.status == 401  # the guard's message also names the page
                message = "this needs the token: send Authorization: Bearer ..." if needs_token else error.message
                body = _error(INVALID_REQUEST, message).model_dump(exclude_unset=True)
                response = json_response(body, error.status)
                if needs_token:
                    response.headers["WWW-Authenticate"] = "Bearer"
                await request.answer(response)
                return
            receive, data = await _read(receive, self._settings.max_body)
            try:
                if data:
                    check_members(data, "the message")
            except DecisionError as error:
                code = INVALID_REQUEST if error.__cause__ is None else PARSE_ERROR  # it is not JSON
                body = _error(code, error.message).model_dump(exclude_unset=True)
                await request.answer(json_response(body, 400))
                return
        await self._app(scope, receive, send)


async def _read(receive: Receive, limit: int) -> tuple[Receive, bytes]:
    """Read the body of a request.

    Args:
        receive: Receives its parts.
        limit: The maximum number of bytes. The application refuses a longer body.

    Returns:
        What gives the body to the application, and the body; empty if it is not complete, or too long.
    """
    body, last = bytearray(), await receive()
    body += last.get("body", b"")
    while last.get("more_body", False) and len(body) <= limit:
        last = await receive()
        body += last.get("body", b"")
    held = [{**last, "body": bytes(body)}]

    async def again() -> Message:
        return held.pop() if held else await receive()

    return again, b"" if last.get("more_body", False) else bytes(body)


@asynccontextmanager
async def listening(app: ASGIApp, host: str, port: int, settings: Settings) -> AsyncGenerator[int, None]:
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
    server.capture_signals = nullcontext  # pyright: ignore[reportAttributeAccessIssue] - replaces a method
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"port {port} of {host} cannot be used: {reason}") from error
    # asyncio sets it only on sockets of its own: without it, a response in two parts waits 40 ms for an
    # acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    serving = asyncio.create_task(server.serve([listener]), name="rxworker mcp http")
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.wait({serving})
        listener.close()
