"""A connection to an MCP server.

Theory of operation. A connection runs in a task of its own, which opens it, reports this, and waits until it may close it.
That is because the package opens and closes in one and the same task, whereas a program may leave the ``async with`` in
another one, and its calls are made in still others. A call that is cancelled is cancelled at the server, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rxworker.errors import (
    ConfigurationError,
    ExecutionFailedError,
    RemoteProtocolError,
    TransportError,
    describe,
)

if TYPE_CHECKING:
    import mcp

A = TypeVar("A")

MOST_PAGES = 1000
"""A list with more pages has no end."""

MISSING = 'tools of MCP servers need the package mcp: pip install "rxworker[mcp]"'


class Connection:
    """A session with a server, and the task that it lives in.

    Args:
        where: The name of the server in errors.
        seconds: How long the server may take to connect, and to answer a request that is not a call of a tool.
    """

    def __init__(self, where: str, seconds: float) -> None:
        self.where = where
        self._seconds = seconds
        self._client: mcp.Client | None = None
        self._may_close = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def client(self, tool: str) -> mcp.Client:
        """The session, for a call of a tool.

        Raises:
            ExecutionFailedError: It is closed.
        """
        if self._client is None:
            raise ExecutionFailedError("the connection to its server is closed", tool=tool)
        return self._client

    async def request(self, send: Callable[[mcp.Client], Awaitable[A]]) -> A:
        """Send a request that is not a call of a tool.

        Raises:
            TransportError: The connection is closed, or the server does not answer in time.
            RemoteProtocolError: The server answers with an error, or with what the protocol does not allow.
        """
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        if self._client is None:
            raise TransportError(f"the connection to {self.where} is closed")
        try:
            async with asyncio.timeout(self._seconds):
                return await send(self._client)
        except TimeoutError as error:
            text = f"{self.where} has not answered within {self._seconds:g} seconds"
            raise TransportError(text, retryable=True) from error
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise TransportError(f"{self.where} has closed the connection") from error
            raise RemoteProtocolError(f"{self.where} reports: {error.message}") from error
        except ValueError as error:  # of pydantic
            text = f"the answer of {self.where} is not one of MCP: {describe(error)}"
            raise RemoteProtocolError(text) from error

    async def list_all(self, name: str) -> list[Any]:
        """All pages of a list; empty if the server has no such list.

        Args:
            name: The name of the list in the answers, and of the method that requests a page after ``list_``.

        Raises:
            TransportError: As for ``request``.
            RemoteProtocolError: As for ``request``, or the list has no end.
        """
        capability = name.replace("resource_templates", "resources")
        if self._client is not None and not getattr(self._client.server_capabilities, capability):
            return []
        listed: list[Any] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            send = methodcaller(f"list_{name}", cursor=cursor)
            page: Any = await self.request(send)
            listed += getattr(page, name)
            cursor = page.next_cursor
            if cursor is None:
                return listed
        raise RemoteProtocolError(f"the list of {name} of {self.where} has no end")

    async def open(self, server: Any) -> None:
        """Connect."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(
            self._live(server, ready), name=f"rxworker mcp {self.where}"
        )
        try:
            async with asyncio.timeout(self._seconds):
                await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            await self._end()
            text = f"{self.where} has not connected within {self._seconds:g} seconds"
            raise TransportError(text, retryable=True) from error
        except asyncio.CancelledError:
            await self._end()
            raise
        if self._task.done():
            error = self._task.exception()
            text = f"{self.where} is not an MCP server that can be used: {_innermost(error)}"
            raise TransportError(text) from error

    async def close(self) -> None:
        """Let the task close the session, and wait for it."""
        self._may_close.set()
        await self._end(cancel=False)

    async def _live(self, server: Any, ready: asyncio.Future[None]) -> None:
        import mcp

        async with mcp.Client(server) as client:
            self._client = client
            if not ready.done():
                ready.set_result(None)
            try:
                await self._may_close.wait()
            finally:
                self._client = None

    async def _end(self, *, cancel: bool = True) -> None:
        task = self._task
        if task is None:
            return
        if cancel:
            task.cancel()
        # An error at the end has no use; the package waits for a program with a time-out.
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()


def server_of(
    command: Sequence[str] | None,
    url: str | None,
    *,
    env: Mapping[str, str] | None,
    cwd: str | Path | None,
    headers: Mapping[str, str] | None,
) -> Any:
    """How to reach a server, as the package takes it.

    Raises:
        ConfigurationError: The package is missing, or neither or both of the two ways are given.
    """
    if (command is None) == (url is None):
        raise ConfigurationError("give mcp_tools either a command or a url")
    if isinstance(command, str) or (command is not None and not command):
        raise ConfigurationError(
            f"command={command!r}: give the program and its arguments as a list"
        )
    try:
        import mcp
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client
    except ImportError as error:
        raise ConfigurationError(MISSING) from error
    if command is None:
        http = create_mcp_http_client(headers=dict(headers or {}))
        return _with_client(http, streamable_http_client(str(url), http_client=http))
    parameters = mcp.StdioServerParameters(
        command=command[0], args=list(command[1:]), env=dict(env or {}), cwd=cwd
    )
    return _with_errors(parameters)


def display_name(command: Sequence[str] | None, url: str | None) -> str:
    """The name of a server in errors, logs and ``repr``: without the parts in which secrets are passed, such as arguments and queries.

    >>> display_name(None, "https://me:secret@example.org/mcp?key=secret"), display_name(["/bin/files", "--token", "secret"], None)
    ('https://example.org/mcp', '/bin/files')
    """
    if url is None:
        return command[0] if command else ""
    scheme, separator, rest = re.split("[?#]", url, maxsplit=1)[0].rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


@contextlib.asynccontextmanager
async def _with_client(http: Any, transport: Any) -> AsyncGenerator[Any, None]:
    async with http, transport as streams:
        yield streams


@contextlib.asynccontextmanager
async def _with_errors(parameters: Any) -> AsyncGenerator[Any, None]:
    """The program, with its standard error where ours is."""
    from mcp import stdio_client

    with contextlib.ExitStack() as stack:
        # A program without a console has no standard error: its output there is dropped.
        errors = sys.__stderr__ or stack.enter_context(TemporaryFile("w+", encoding="utf-8"))
        async with stdio_client(parameters, errlog=errors) as streams:
            yield streams


def _innermost(error: BaseException | None) -> str:
    """The description of an error inside the exception groups of task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return "it ended" if error is None else describe(error)
