"""Tools of MCP servers, through the official package ``mcp``: ``pip install "rxworker[mcp]"``. Names and results are adapted to what every provider accepts."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from rxworker.errors import (
    ConfigurationError,
    ExecutionFailedError,
    InvalidArgumentError,
    TransportError,
    describe,
)
from rxworker.messages import Document, Image, JsonObject, ResultContent, Text, ToolMeta
from rxworker.tools.base import MAX_OUTPUT, ToolPolicy, check_policy
from rxworker.tools.context import ToolContext
from rxworker.tools.inline import inlined

if TYPE_CHECKING:
    import mcp
    from mcp.types import CallToolResult, ContentBlock

MISSING = 'tools of MCP servers need the package mcp: pip install "rxworker[mcp]"'


class McpTool:
    """A tool of an MCP server, made by `mcp_tools`.

    Attributes:
        meta: The description for the model.
        policy: How it may be run.
        remote_name: What the server calls it.
    """

    def __init__(
        self, connection: Connection, remote_name: str, meta: ToolMeta, policy: ToolPolicy
    ) -> None:
        self.meta = meta
        self.policy = policy
        self.remote_name = remote_name
        self._connection = connection

    def __repr__(self) -> str:
        return f"<mcp tool {self.meta.name!r}>"

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> ResultContent:
        """Have the server run it.

        Raises:
            InvalidArgumentError: The arguments are no object.
            ExecutionFailedError: The server reports a failure, or does not answer.
        """
        name = self.meta.name
        arguments = _arguments(input_json, name)

        async def report(progress: float, total: float | None, message: str | None) -> None:
            told = {"progress": progress, "total": total, "message": message}
            context.progress({key: value for key, value in told.items() if value is not None})

        client = self._connection.client(name)
        try:
            result = await client.call_tool(self.remote_name, arguments, progress_callback=report)
        except Exception as error:
            raise ExecutionFailedError(describe(error), tool=name) from error
        if result.is_error:
            raise ExecutionFailedError(text_of(result), tool=name)
        return content_of(result)


@contextlib.asynccontextmanager
async def mcp_tools(
    command: Sequence[str] | None = None,
    *,
    url: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
    prefix: str = "",
    call_timeout: float | None = None,
    trust_hints: bool = False,
    connect_timeout: float = 30.0,
    max_output: int | None = MAX_OUTPUT,
) -> AsyncGenerator[list[McpTool], None]:
    """The tools of an MCP server, for as long as the block runs.

    Names are made legal for all providers; ``$ref`` in their schemas is replaced by what it refers to.

    Args:
        command: A program that speaks MCP over its standard input and output, with its arguments. It is ended at the end of
            the block. It inherits of the environment only what is harmless, such as ``PATH``, and no keys.
        url: Instead, the address of a server that speaks MCP over HTTP.
        env: What the program's environment has besides.
        cwd: Where the program runs.
        headers: What each HTTP request carries besides, such as ``Authorization``.
        only: The names of the tools that are wanted, as the server calls them; all, unless it is given.
        prefix: Put before each name, to distinguish servers.
        call_timeout: Seconds until a call is given up.
        trust_hints: Whether to believe the server which of its tools only look and which may be repeated; see ``effect``.
        connect_timeout: Seconds until the server must have listed its tools.
        max_output: Characters of each result that are sent to the model; ``None`` sends everything. See `ToolPolicy`.

    Raises:
        ConfigurationError: The package is missing, neither or both of ``command`` and ``url`` are given, or ``only`` names a
            tool that the server does not have.
        TransportError: The server could not be started or reached, or does not speak MCP.
    """
    policy = check_policy(ToolPolicy(call_timeout, max_output=max_output))
    server = server_of(command, url, env=env, cwd=cwd, headers=headers)
    connection = Connection(url or " ".join(command or ()))
    await connection.open(server, connect_timeout)
    try:
        yield _made(connection, only, prefix, policy, trust_hints)
    finally:
        await connection.close()


def _made(
    connection: Connection,
    only: Collection[str] | None,
    prefix: str,
    policy: ToolPolicy,
    trust_hints: bool,
) -> list[McpTool]:
    listed = [tool for tool in connection.listed if only is None or tool.name in only]
    known = {tool.name for tool in connection.listed}
    for name in only or ():
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise ConfigurationError(f"the server has no tool {name!r}; it has: {names}")
    names = legal_names([prefix + tool.name for tool in listed])
    made: list[McpTool] = []
    for tool, name in zip(listed, names, strict=True):
        meta = ToolMeta(name, tool.description or tool.title or "", _schema(tool.input_schema))
        made.append(
            McpTool(connection, tool.name, meta, _policy(tool, policy) if trust_hints else policy)
        )
    return made


def _schema(schema: JsonObject) -> JsonObject:
    try:
        return inlined(schema)
    except RecursionError:
        return {"type": "object"}  # the server checks the arguments itself


def _policy(tool: mcp.Tool, policy: ToolPolicy) -> ToolPolicy:
    hints = tool.annotations
    if hints is not None and hints.read_only_hint:
        return msgspec.structs.replace(policy, effect="pure")
    if hints is not None and hints.idempotent_hint:
        return msgspec.structs.replace(policy, effect="idempotent")
    return policy


def _arguments(input_json: str | bytes, tool: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(input_json or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"invalid arguments at $: this is no JSON object: {error}", tool=tool
        ) from error


Block: TypeAlias = Text | Image | Document

MOST = 64


def legal_names(names: Iterable[str]) -> list[str]:
    """Names of the letters that all providers take, at most 64 of them, and no two the same.

    >>> legal_names(["read file", "read.file", "x" * 70])[:2]
    ['read_file', 'read_file_2']
    """
    made: dict[str, None] = {}
    for name in names:
        plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:MOST] or "tool"
        legal, number = plain, 1
        while legal in made:
            number += 1
            legal = f"{plain[: MOST - len(str(number)) - 1]}_{number}"
        made[legal] = None
    return list(made)


def content_of(result: CallToolResult) -> ResultContent:
    """The result as the model reads it: a text where it is nothing else, otherwise blocks.

    A result that has a value and no content is the value as JSON.
    """
    blocks = tuple(_block(part) for part in result.content)
    if not blocks and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    if all(isinstance(block, Text) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, Text))
    return blocks


def text_of(result: CallToolResult) -> str:
    """The text of a result that reports an error."""
    content = content_of(result)
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, Text))


def _block(part: ContentBlock) -> Block:
    match part.type:
        case "text":
            return Text(part.text)
        case "image":
            return Image(part.mime_type, part.data)
        case "audio":
            return Text(f"[a sound, {part.mime_type}, which cannot be shown]")
        case "resource_link":
            about = f": {part.description}" if part.description else ""
            return Text(f"[{part.title or part.name}]({part.uri}){about}")
        case "resource":
            resource = part.resource
            text = getattr(resource, "text", None)
            if isinstance(text, str):
                return Text(text)
            return _file(resource.mime_type or "", getattr(resource, "blob", ""), resource.uri)


def _file(media_type: str, data: str, uri: str) -> Block:
    if media_type.startswith("image/"):
        return Image(media_type, data)
    if media_type == "application/pdf":
        return Document(media_type, data, title=uri)
    return Text(f"[a file, {media_type or 'of an unknown sort'}, at {uri}, which cannot be shown]")


class Connection:
    """A session with a server, and the task that it lives in.

    Theory of operation. The package opens and closes a session in one and the same task, whereas a program may leave the ``async with`` in another one,
    and its calls are made in still others. So a task opens the session, reports this, and waits until it may close it. A call that is cancelled is cancelled
    at the server, too.

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
