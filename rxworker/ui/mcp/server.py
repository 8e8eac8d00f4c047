"""An MCP server whose tools are workers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TypeAlias

from mcp.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ListToolsResult, PaginatedRequestParams

from rxworker.errors import ConfigurationError
from rxworker.log import EventLog
from rxworker.ui.mcp.calls import Calls, Context
from rxworker.ui.mcp.tool import McpWorker, ServedTool
from rxworker.ui.mcp.transports import GuardedApp, listening, standard_messages
from rxworker.ui.web.runs import MakeServedWorker, Runs, WorkerSource
from rxworker.ui.web.settings import Settings, is_loopback
from rxworker.ui.web.store import RunStore
from rxworker.worker import Worker

ServedWorkers: TypeAlias = Mapping[str, McpWorker | Callable[[], Worker]]
"""The workers by the names of their tools."""

PATH = "/mcp"
"""The path of streamable HTTP."""

DECISION_SECONDS = 24 * 3600.0
"""Seconds that a client of the newest protocol may take to send a decision."""


class McpServer:
    """An MCP server whose tools are workers. A call starts a run and returns its answer.

    While a run continues, the client receives notifications of its progress. A run that pauses for approval requests the decision from the client's user, as a
    form. The result names the run: with this id as ``conversation``, a later call continues the conversation.

    Args:
        workers: The workers, by the names of their tools: functions that return a worker, or `McpWorker` for a description and an output type.
        name: The name of the server.
        settings: The settings of the server. Of these it uses the limits, and for HTTP also the token, the hosts and the origins.
        log: Where runs are stored; the program closes it after the server. Without a log, runs and conversations end with the process.

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
        self._settings = settings or Settings()
        self._tools = {
            name: ServedTool(name, worker if isinstance(worker, McpWorker) else McpWorker(worker))
            for name, worker in workers.items()
        }
        makers: dict[str, MakeServedWorker] = {n: t.worker.make for n, t in self._tools.items()}
        self._store = RunStore(self._settings, None, log)
        calls = Calls(self._tools, Runs(self._store, WorkerSource(makers), self._settings))
        self._server = Server(
            name,
            version=metadata.version("rxworker"),
            on_list_tools=self._list_tools,
            on_call_tool=calls.call,
        )
        security = RequestStateSecurity.ephemeral(ttl=DECISION_SECONDS)
        self._server.middleware.append(RequestStateBoundary(security, default_audience=name))

    def __repr__(self) -> str:
        return f"McpServer({self._server.name!r}, tools={list(self._tools)})"

    async def _list_tools(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        del context, params  # there is one page
        return ListToolsResult(tools=[tool.describe() for tool in self._tools.values()])

    async def serve_stdio(self) -> None:
        """Serve one client over standard input and output, until it closes them. Output of tools goes to standard error.

        Raises:
            OSError: Standard input or output is closed.
        """
        async with self._closed(), standard_messages(self._settings.max_body) as (source, sink):
            await self._server.run(source, sink, self._server.create_initialization_options())

    @asynccontextmanager
    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[str, None]:
        """Context manager: serve clients over streamable HTTP; yields the address.

        Args:
            host: The address to listen on. Other machines can reach any but those of the loopback interface; then the settings need a token.
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
        guarded = GuardedApp(app, self._settings)
        async with self._closed(), listening(guarded, host, port, self._settings) as chosen:
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{chosen}{PATH}"

    @asynccontextmanager
    async def _closed(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self._store.close()
            self._store.forget()
