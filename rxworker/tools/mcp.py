"""MCP servers as sources of tools, resources and prompts, through the official package ``mcp``.

``pip install "/path/to/the/checkout[mcp]"``.

Theory of operation. `watch` emits the contents of a resource, again after each update. Each subscription is a task. It
subscribes at the server first and reads then, so that no update between the two is lost. An update is a mark, not a
queue: those that arrive while the contents are read are one more reading. When the subscription is disposed, the task
unsubscribes and ends; the connection cancels those that are left when it closes.

Since revision 2026-07-28 of the protocol a subscription is a stream of its own. Until 2025-11-25 a connection has one
for each address, so that only the last of several observers of one address unsubscribes.

Sources: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions and
https://modelcontextprotocol.io/specification/2025-11-25/server/resources
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxworker.errors import (
    ConfigurationError,
    ExecutionFailedError,
    RemoteProtocolError,
    RxWorkerError,
    TransportError,
    describe,
)
from rxworker.events.arguments import arguments_object, decode_arguments
from rxworker.messages import Audio, Document, Image, JsonObject, Message, Text, ToolMeta
from rxworker.messages.content import LONGEST_NAME, NOT_IN_NAMES, ResultBlock, ResultContent
from rxworker.operators.kernel import Scheduler, Unstaged
from rxworker.tools.base import MAX_OUTPUT, Tool, ToolContext, ToolPolicy, check_policy
from rxworker.tools.cancellation import keep
from rxworker.tools.function import tool
from rxworker.tools.mcp_call import RemoteCall
from rxworker.tools.mcp_connection import Connection, display_name, json_of, server_of
from rxworker.tools.schema import inlined

if TYPE_CHECKING:
    import mcp
    from mcp import types


A = TypeVar("A")


def watch(connection: Connection, uri: str, read: Callable[[], Awaitable[A]]) -> Observable[A]:
    """What ``read`` returns, now and after each update of a resource. Cold: each subscription is one at the server.

    Args:
        connection: The connection to the server.
        uri: The address of the resource.
        read: Reads it.
    """

    async def work(observer: abc.ObserverBase[A]) -> None:
        try:
            async with aclosing(_updates(connection, uri)) as updates:
                async for _ in updates:
                    observer.on_next(await read())
        except asyncio.CancelledError:
            # Where it was disposed, this reaches no observer.
            observer.on_error(TransportError(f"the connection to {connection.where} is closed"))
            raise
        except RxWorkerError as error:
            observer.on_error(error)
        else:
            observer.on_completed()

    def subscribe(observer: abc.ObserverBase[A], scheduler: Scheduler = None) -> abc.DisposableBase:
        del scheduler  # no time passes here
        loop = asyncio.get_running_loop()
        task = keep(work(observer), connection.watching, f"rxworker mcp watch {connection.where}")

        def stop() -> None:
            with suppress(RuntimeError):  # the loop is closed, and with it the task
                loop.call_soon_threadsafe(task.cancel)

        return Disposable(stop)

    return Unstaged(subscribe)


async def _updates(connection: Connection, uri: str) -> AsyncGenerator[None, None]:
    """Yields when the subscription stands, and after each update.

    Raises:
        TransportError: The connection is closed, or the server does not answer.
        RemoteProtocolError: The server reports an error, or has no updates of this resource.
    """
    from mcp.types.version import MODERN_PROTOCOL_VERSIONS

    client = connection.connected()
    is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    updates = _listening(connection, client, uri) if is_modern else _subscribed(connection, uri)
    async with aclosing(updates):
        async for _ in updates:
            yield


async def _listening(connection: Connection, client: mcp.Client, uri: str) -> AsyncGenerator[None, None]:
    from mcp.client.subscriptions import ResourceUpdated, SubscriptionLost

    try:
        async with connection.bounded() as limit, client.listen(resource_subscriptions=[uri]) as subscription:
            limit.reschedule(None)
            if uri not in (subscription.honored.resource_subscriptions or ()):
                raise RemoteProtocolError(_NO_UPDATES.format(connection.where, uri))
            yield
            async for event in subscription:
                if isinstance(event, ResourceUpdated):
                    yield
    except SubscriptionLost as error:
        text = f"the updates of {uri} from {connection.where} were cut off: {describe(error)}"
        raise TransportError(text, retryable=True) from error


async def _subscribed(connection: Connection, uri: str) -> AsyncGenerator[None, None]:
    from mcp import types

    def subscribe(client: mcp.Client) -> Awaitable[object]:
        params = types.SubscribeRequestParams(uri=uri)
        return client.session.send_request(types.SubscribeRequest(params=params), types.EmptyResult)

    def unsubscribe(client: mcp.Client) -> Awaitable[object]:
        request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
        return client.session.send_request(request, types.EmptyResult)

    offered = connection.connected().server_capabilities.resources
    if offered is None or not offered.subscribe:
        raise RemoteProtocolError(_NO_UPDATES.format(connection.where, uri))
    mark = asyncio.Event()
    marks = connection.marks.setdefault(uri, set())
    marks.add(mark)
    try:
        await connection.request(subscribe)  # again for each: the first one may still be on its way
        mark.set()
        while True:
            await mark.wait()
            mark.clear()
            if connection.is_cut:
                raise TransportError(f"{connection.where} has closed the connection")
            yield
    finally:
        marks.discard(mark)
        if not marks:
            connection.marks.pop(uri, None)
            with suppress(RxWorkerError):
                await connection.request(unsubscribe)


_NO_UPDATES = "{} sends no updates of {}: read it with read_resource"


class McpTool:
    """A tool of an MCP server, made by `mcp_tools` or `McpClient`.

    Attributes:
        meta: The description for the model.
        policy: The execution policy.
        remote_name: Its name on the server.
    """

    def __init__(
        self, connection: Connection, remote_name: str, meta: ToolMeta, policy: ToolPolicy, *, audio: bool = False
    ) -> None:
        self.meta = meta
        self.policy = policy
        self.remote_name = remote_name
        self._connection = connection
        self._audio = audio

    def __repr__(self) -> str:
        return f"<mcp tool {self.meta.name!r}>"

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> ResultContent:
        """Have the server run it.

        Raises:
            InvalidArgumentError: The arguments are not an object.
            ExecutionFailedError: The server reports a failure, or does not answer.
            QuestionError: The server has a question, for which the run pauses.
        """
        name = self.meta.name
        text = input_json if isinstance(input_json, str) else input_json.decode()
        arguments = arguments_object(decode_arguments(text, self.meta), self.meta)
        try:
            result = await RemoteCall(self._connection, self.remote_name, arguments, context).run()
        except ExecutionFailedError:
            raise
        except Exception as error:
            raise ExecutionFailedError(describe(error), tool=name) from error
        if result.is_error:
            raise ExecutionFailedError(text_of(result), tool=name)
        return content_of(result, audio=self._audio)


class McpClient:
    """A connection to an MCP server, made by `mcp_client`.

    It gives the server's tools, resources and prompts to workers.

    Each method sends a request to the server, so the lists are current. They contain values of the package ``mcp``.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        return f"McpClient({self._connection.where!r})"

    async def tools(
        self,
        *,
        only: Collection[str] | None = None,
        prefix: str = "",
        call_timeout: float | None = None,
        trust_hints: bool = False,
        max_output: int | None = MAX_OUTPUT,
        audio: bool = False,
    ) -> list[McpTool]:
        """The tools of the server. The arguments are those of `mcp_tools`.

        Raises:
            ConfigurationError: ``only`` names a tool that the server does not have.
            TransportError: The connection is closed, or the server does not answer.
            RemoteProtocolError: The server reports an error.
        """
        policy = check_policy(ToolPolicy(call_timeout, max_output=max_output))
        listed = await self._connection.list_all("tools")
        names = {each.name for each in listed}
        for name in only or ():
            if name not in names:
                known = ", ".join(sorted(names)) or "none"
                raise ConfigurationError(f"the server has no tool {name!r}; it has: {known}")
        wanted = [each for each in listed if only is None or each.name in only]
        made: list[McpTool] = []
        legal = legal_names([prefix + each.name for each in wanted])
        for each, name in zip(wanted, legal, strict=True):
            meta = ToolMeta(name, each.description or each.title or "", _schema(each.input_schema))
            chosen = _policy(each, policy) if trust_hints else policy
            made.append(McpTool(self._connection, each.name, meta, chosen, audio=audio))
        return made

    async def resources(self) -> list[types.Resource]:
        """The resources that the server lists, each with a ``uri`` and a ``name``; none if it has none.

        Raises:
            TransportError: The connection is closed, or the server does not answer.
            RemoteProtocolError: The server reports an error.
        """
        return await self._connection.list_all("resources")

    async def resource_templates(self) -> list[types.ResourceTemplate]:
        """The templates of further resources, each with a ``uri_template``; see ``read_resource``.

        Raises:
            TransportError: The connection is closed, or the server does not answer.
            RemoteProtocolError: The server reports an error.
        """
        return await self._connection.list_all("resource_templates")

    async def read_resource(
        self, uri: str, values: Mapping[str, str | Sequence[str]] | None = None
    ) -> tuple[ResultBlock, ...]:
        """The content of a resource, for a message.

        ``Message.user("Summarise this.", *await client.read_resource(uri))``.

        Args:
            uri: Its address, or a template of addresses.
            values: The values of the template's variables.

        Raises:
            ConfigurationError: The template is malformed.
            TransportError: The connection is closed, or the server does not answer.
            RemoteProtocolError: The server reports an error, such as that there is no such resource.
        """
        address = uri if values is None else _expanded(uri, values)
        result = await self._connection.request(lambda client: client.read_resource(address))
        return tuple([block_of(part) for part in result.contents])

    def watch_resource(self, uri: str) -> Observable[tuple[ResultBlock, ...]]:
        """The content of a resource, at once and after each update that the server reports.

        Cold: a subscription subscribes at the server, and its disposal unsubscribes.

            --a-----b--c--      a: at once; b, c: updates. Several during one reading are one

        It completes when the server ends the subscription. It belongs to the event loop of the connection.

        Args:
            uri: Its address.

        Raises:
            TransportError: As an error of the stream: the connection is closed or was cut off, or the server does not
                answer.
            RemoteProtocolError: As an error of the stream: the server reports an error, or sends no updates.

        Example: ``client.watch_resource("file:///notes.md").subscribe(show)``
        """

        async def read() -> tuple[ResultBlock, ...]:
            result = await self._connection.request(lambda client: client.read_resource(uri, cache_mode="refresh"))
            return tuple([block_of(part) for part in result.contents])

        return watch(self._connection, uri, read)

    def resource_tools(self, *, prefix: str = "", max_output: int | None = MAX_OUTPUT) -> list[Tool]:
        """Two tools with which the model itself lists and reads the resources.

        ``list_resources`` and ``read_resource``.

        Args:
            prefix: Put before their names.
            max_output: Characters of each result that are sent to the model.
        """

        @tool(name=f"{prefix}list_resources", effect="pure", max_output=max_output)
        async def list_resources() -> list[JsonObject]:
            """List the resources that can be read, and the templates of the addresses of others."""
            listed = [*await self.resources(), *await self.resource_templates()]
            return [json_of(each, {"uri", "uri_template", "name", "description", "mime_type"}) for each in listed]

        @tool(name=f"{prefix}read_resource", effect="pure", max_output=max_output)
        async def read_resource(uri: str) -> ResultContent:
            """Read a resource.

            Args:
                uri: Its address.
            """
            result = await self._connection.request(lambda client: client.read_resource(uri))
            return tuple([block_of(part, audio=False) for part in result.contents])

        return [list_resources, read_resource]

    async def prompts(self) -> list[types.Prompt]:
        """The prompts of the server, each with a ``name`` and its ``arguments``; none if it has none.

        Raises:
            TransportError: The connection is closed, or the server does not answer.
            RemoteProtocolError: The server reports an error.
        """
        return await self._connection.list_all("prompts")

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> tuple[Message, ...]:
        """The messages of a prompt, for ``worker.run(await client.get_prompt(name))``.

        Args:
            name: Its name.
            arguments: Its arguments. The protocol has texts alone.

        Raises:
            TransportError: The connection is closed, or the server does not answer.
            RemoteProtocolError: The server reports an error, such as that an argument is missing.
        """
        given = dict(arguments or {})
        result = await self._connection.request(lambda client: client.get_prompt(name, given))
        return tuple([Message(each.role, (_block(each.content, audio=True),)) for each in result.messages])


@contextlib.asynccontextmanager
async def mcp_client(
    command: Sequence[str] | None = None,
    *,
    url: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    request_timeout: float = 30.0,
) -> AsyncGenerator[McpClient, None]:
    """A connection to an MCP server, for as long as the block runs.

    Args:
        command: A program that speaks MCP over its standard input and output, with its arguments. It is ended at the
            end of the block. It inherits of the environment only what is harmless, such as ``PATH``, and no keys.
        url: Instead, the address of a server that speaks MCP over HTTP.
        env: Additional environment variables of the program.
        cwd: The working directory of the program.
        headers: Additional headers of each HTTP request, such as ``Authorization``.
        request_timeout: Seconds until the server must have connected, and must have answered each request that is not a
            call of a tool.

    Raises:
        ConfigurationError: The package is missing, or neither or both of ``command`` and ``url`` are given.
        TransportError: The server could not be started or reached, or does not speak MCP.
    """
    server = server_of(command, url, env=env, cwd=cwd, headers=headers)
    connection = Connection(display_name(command, url), request_timeout)
    await connection.open(server)
    try:
        yield McpClient(connection)
    finally:
        await connection.close()


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
    audio: bool = False,
) -> AsyncGenerator[list[McpTool], None]:
    """The tools of an MCP server, for as long as the block runs: ``tools`` of an `mcp_client`.

    Names are made legal for all providers; ``$ref`` in their schemas is replaced by what it refers to.

    Args:
        command: As for `mcp_client`.
        url: As for `mcp_client`.
        env: As for `mcp_client`.
        cwd: As for `mcp_client`.
        headers: As for `mcp_client`.
        only: The names of the tools that are wanted, as the server calls them; all, unless it is given.
        prefix: Put before each name, to distinguish servers.
        call_timeout: Seconds until a call is given up.
        trust_hints: Whether to believe the server which of its tools only look and which may be repeated; see
            ``effect``.
        connect_timeout: Seconds until the server must have connected, and until it must have listed its tools.
        max_output: Characters of each result that are sent to the model; ``None`` sends everything. See `ToolPolicy`.
        audio: Whether sounds in results are kept as `Audio`, for a provider that accepts them; otherwise the model
            reads a note.

    Raises:
        ConfigurationError: The package is missing, neither or both of ``command`` and ``url`` are given, or ``only``
            names a tool that the server does not have.
        TransportError: The server could not be started or reached, or does not speak MCP.
        RemoteProtocolError: The server cannot list its tools.
    """
    check_policy(ToolPolicy(call_timeout, max_output=max_output))
    connected = mcp_client(command, url=url, env=env, cwd=cwd, headers=headers, request_timeout=connect_timeout)
    async with connected as client:
        yield await client.tools(
            only=only,
            prefix=prefix,
            call_timeout=call_timeout,
            trust_hints=trust_hints,
            max_output=max_output,
            audio=audio,
        )


def _expanded(template: str, values: Mapping[str, str | Sequence[str]]) -> str:
    from mcp.shared.uri_template import UriTemplate

    try:
        return UriTemplate.parse(template).expand(values)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{template!r:.80} with these values: {error}") from error


def _schema(schema: JsonObject) -> JsonObject:
    try:
        return inlined(schema)
    except RecursionError:
        return {"type": "object"}  # the server checks the arguments itself


def _policy(tool: mcp.Tool, policy: ToolPolicy) -> ToolPolicy:
    hints = tool.annotations
    if hints is None or not (hints.read_only_hint or hints.idempotent_hint):
        return policy
    return msgspec.structs.replace(policy, effect="pure" if hints.read_only_hint else "idempotent")


def legal_names(names: Iterable[str]) -> list[str]:
    """Names of the letters that all providers take, at most 64 of them, and no two the same.

    >>> legal_names(["read file", "read.file", "x" * 70])[:2]
    ['read_file', 'read_file_2']
    """
    made: dict[str, None] = {}
    for name in names:
        plain = NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME] or "tool"
        legal, number = plain, 1
        while legal in made:
            number += 1
            legal = f"{plain[: LONGEST_NAME - len(str(number)) - 1]}_{number}"
        made[legal] = None
    return list(made)


def content_of(result: types.CallToolResult, *, audio: bool = False) -> ResultContent:
    """The result as the model reads it: a text where it is nothing else, otherwise blocks.

    A result that has a value and no content is the value as JSON.

    Args:
        result: The result.
        audio: Whether sounds are kept. Providers that do not accept them refuse the request.
    """
    blocks = tuple([_block(part, audio=audio) for part in result.content])
    if not blocks and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    if all(isinstance(block, Text) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, Text))
    return blocks


def text_of(result: types.CallToolResult) -> str:
    """The text of a result that reports an error."""
    content = content_of(result)
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, Text))


def block_of(part: types.TextResourceContents | types.BlobResourceContents, *, audio: bool = True) -> ResultBlock:
    """The contents of a resource: a text, an image, a PDF document or a sound.

    For any other type, a note that it is there.
    """
    text = getattr(part, "text", None)
    if isinstance(text, str):
        return Text(text)
    media_type, data = part.mime_type or "", str(getattr(part, "blob", ""))
    if media_type.startswith("image/"):
        return Image(media_type, data)
    if media_type == "application/pdf":
        return Document(media_type, data, title=part.uri)
    if media_type.startswith("audio/") and audio:
        return Audio(media_type, data)
    kind = media_type or "of an unknown type"
    return Text(f"[a file, {kind}, at {part.uri}, which cannot be shown]")


def _block(part: types.ContentBlock, *, audio: bool) -> ResultBlock:
    match part.type:
        case "text":
            return Text(part.text)
        case "image":
            return Image(part.mime_type, part.data)
        case "audio" if audio:
            return Audio(part.mime_type, part.data)
        case "audio":
            return Text(f"[a sound, {part.mime_type}, which cannot be shown]")
        case "resource_link":
            about = f": {part.description}" if part.description else ""
            return Text(f"[{part.title or part.name}]({part.uri}){about}")
        case "resource":
            return block_of(part.resource, audio=audio)
