"""A connection to an MCP server.

Theory of operation. A connection lives in a task of its own, which opens it, reports this, and waits until it may close it.
That is because the package opens and closes in one and the same task, whereas a program may leave the ``async with`` in
another one, and its calls are made in still others. A call that is cancelled is cancelled at the server, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, cast

from rxworker.errors import ConfigurationError, ExecutionFailedError, TransportError, describe

if TYPE_CHECKING:
    import mcp

MISSING = 'tools of MCP servers need the package mcp: pip install "rxworker[mcp]"'


class Connection:
    """A session with a server, and the task that it lives in.

    Args:
        where: What the server is called in errors.

    Attributes:
        listed: The tools that it has.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._client: mcp.Client | None = None
        self._may_close = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.listed: list[mcp.Tool] = []

    def client(self, tool: str) -> mcp.Client:
        """The session.

        Raises:
            ExecutionFailedError: It is over.
        """
        if self._client is None:
            raise ExecutionFailedError("the connection to its server is closed", tool=tool)
        return self._client

    async def open(self, server: Any, seconds: float) -> None:
        """Connect, and ask what there is."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(
            self._live(server, ready), name=f"rxworker mcp {self._where}"
        )
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            await self._end()
            text = f"{self._where} has not said within {seconds:g} seconds which tools it has"
            raise TransportError(text, retryable=True) from error
        except asyncio.CancelledError:
            await self._end()
            raise
        if self._task.done():
            error = self._task.exception()
            text = f"{self._where} is no MCP server that can be used: {_innermost(error)}"
            raise TransportError(text) from error

    async def close(self) -> None:
        """Let the task close the session, and wait for it."""
        self._may_close.set()
        await self._end(cancel=False)

    async def _live(self, server: Any, ready: asyncio.Future[None]) -> None:
        import mcp

        async with mcp.Client(server) as client:
            cursor: str | None = None
            while True:
                page = await client.list_tools(cursor=cursor)
                self.listed += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    break
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
    """What went wrong, where task groups have wrapped it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return "it ended" if error is None else describe(error)
