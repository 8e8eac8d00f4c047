"""A connection to an MCP server.

Theory of operation. A connection runs in a task of its own, which opens it, reports this, and waits until it may close
it. That is because the package opens and closes in one and the same task, whereas a program may leave the ``async
with`` in another one, and its calls are made in still others. A call that is cancelled is cancelled at the server, too.

A call in whose course the server has sent a question stays open while a person answers: it has a task of its own, and
the connection holds it under a random name. See `mcp_call`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import sys
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from rxworker.errors import ConfigurationError, ExecutionFailedError, RemoteProtocolError, TransportError, describe
from rxworker.events.form import check_form
from rxworker.events.pause import Question
from rxworker.messages import Json, JsonObject
from rxworker.tools.base import ToolContext
from rxworker.tools.cancellation import retrieve

if TYPE_CHECKING:
    import mcp
    from mcp import types
    from mcp.client import ClientRequestContext
    from mcp.client.session import IncomingMessage
    from pydantic import BaseModel

A = TypeVar("A")

MAX_PAGES = 1000
"""A list with more pages has no end."""

MISSING = 'tools of MCP servers need the package mcp: pip install "/path/to/the/checkout[mcp]"'


MAX_MESSAGE, MAX_FORM, MAX_ADDRESS = 10_000, 50_000, 8_000
"""Characters of a question and of an address, and bytes of a form, that a person is shown."""
HELD_SECONDS = 3600.0
"""How long a call stays open that waits for the answer to a question."""


class OpenCall:
    """A call during which the server may send a question.

    Args:
        context: The call.

    Attributes:
        name: A random name.
        context: The call, as the tool has it now.
        task: The request.
        sent: The question that waits for an answer, when it is done.
    """

    task: asyncio.Task[types.CallToolResult]

    def __init__(self, context: ToolContext) -> None:
        self.name = uuid.uuid4().hex
        self.context = context
        self.timer: asyncio.TimerHandle | None = None
        self._answer: asyncio.Future[JsonObject] | None = None
        self.sent: asyncio.Future[Question] = asyncio.get_running_loop().create_future()

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Report its progress."""
        await report(self.context, progress, total, message)

    async def ask(self, question: Question) -> JsonObject:
        """Wait for the answer to a question of the server."""
        answer = self._answer = asyncio.get_running_loop().create_future()
        self.sent.set_result(question)
        try:
            return await answer
        finally:
            if self._answer is answer:  # the server has given it up
                self._reset()

    def answer(self, response: JsonObject) -> None:
        """Answer the question, unless the server has given it up."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(response)
            self._reset()

    def _reset(self) -> None:
        self._answer = None
        self.sent = asyncio.get_running_loop().create_future()


class Connection:
    """A session with a server, and the task that it lives in.

    Args:
        where: The name of the server in errors.
        seconds: How long the server may take to connect, and to answer a request that is not a call of a tool.

    Attributes:
        marks: By the addresses of resources: what is set when the server reports an update. See `mcp_watch`.
        watching: The tasks that watch resources.
        is_cut: Whether the server has closed the connection.
    """

    is_cut = False

    def __init__(self, where: str, seconds: float) -> None:
        self.where = where
        self.seconds = seconds
        self._client: mcp.Client | None = None
        self._may_close = asyncio.Event()
        self._requests = 0
        self.marks: dict[str, set[asyncio.Event]] = {}
        self.watching: set[asyncio.Task[None]] = set()
        self._calls: dict[str, OpenCall] = {}
        self._task: asyncio.Task[None] | None = None

    def client(self, tool: str) -> mcp.Client:
        """The session, for a call of a tool.

        Raises:
            ExecutionFailedError: It is closed.
        """
        if self._client is None:
            raise ExecutionFailedError("the connection to its server is closed", tool=tool)
        return self._client

    @property
    def source(self) -> str:
        """The server, as people read it: the name that it gives itself, and the one by which it is connected."""
        info = None if self._client is None else self._client.server_info
        return self.where if info is None else f"{info.name} ({self.where})"

    def open_call(self, context: ToolContext) -> OpenCall:
        """A new call during which the server may send a question."""
        call = OpenCall(context)
        self._calls[call.name] = call
        return call

    def hold(self, call: OpenCall) -> None:
        """Let a call wait for an answer."""
        call.timer = asyncio.get_running_loop().call_later(HELD_SECONDS, self.drop, call)

    def take(self, name: str, context: ToolContext) -> OpenCall | None:
        """The call that waits under this name, which goes on; ``None`` if this connection holds none."""
        call = self._calls.get(name)
        if call is None or call.timer is None:
            return None
        call.timer.cancel()
        call.timer, call.context = None, context
        return call

    def drop(self, call: OpenCall) -> None:
        """Forget a call, and cancel it unless it has ended."""
        self._calls.pop(call.name, None)
        if call.timer is not None:
            call.timer.cancel()
        call.answer({"action": "cancel"})
        call.task.cancel()
        call.task.add_done_callback(retrieve)

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Answer a question that the server sends.

        It is cancelled unless it can only belong to one call, whose run can pause.
        """
        from mcp import types

        del context  # the call that it belongs to is not there
        calls = [call for call in self._calls.values() if not call.sent.done()]
        question = question_of({"method": "elicitation/create", "params": json_of(params)}, self.source)
        if isinstance(question, str):
            return types.ErrorData(code=types.INVALID_PARAMS, message=question)
        if self._requests or len(calls) != 1 or not calls[0].context.can_ask:
            return types.ElicitResult(action="cancel")
        return types.ElicitResult.model_validate(await calls[0].ask(question))

    def connected(self) -> mcp.Client:
        """The session, for all but calls of tools.

        Raises:
            TransportError: It is closed.
        """
        if self._client is None:
            raise TransportError(f"the connection to {self.where} is closed")
        return self._client

    async def _notified(self, message: IncomingMessage) -> None:
        """Mark the resources that the server reports as updated; an address below another one is a part of it."""
        from mcp import types

        if isinstance(message, types.ResourceUpdatedNotification):
            changed = str(message.params.uri)
            for uri, marks in self.marks.items():
                if changed == uri or changed.startswith(f"{uri.rstrip('/')}/"):
                    for mark in marks:
                        mark.set()

    async def request(self, send: Callable[[mcp.Client], Awaitable[A]]) -> A:
        """Send a request that is not a call of a tool.

        Raises:
            TransportError: The connection is closed, or the server does not answer in time.
            RemoteProtocolError: The server answers with an error, or with what the protocol does not allow.
        """
        client = self.connected()
        self._requests += 1
        try:
            async with self.bounded():
                return await send(client)
        except ValueError as error:  # of pydantic
            text = f"the answer of {self.where} is not one of MCP: {describe(error)}"
            raise RemoteProtocolError(text) from error
        finally:
            self._requests -= 1

    @contextlib.asynccontextmanager
    async def bounded(self) -> AsyncGenerator[asyncio.Timeout, None]:
        """Bound the time of a request, and translate the errors of the server.

        Raises:
            TransportError: The server does not answer in time, or has closed the connection.
            RemoteProtocolError: The server answers with an error.
        """
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        try:
            async with asyncio.timeout(self.seconds) as limit:
                yield limit
        except TimeoutError as error:
            text = f"{self.where} has not answered within {self.seconds:g} seconds"
            raise TransportError(text, retryable=True) from error
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise TransportError(f"{self.where} has closed the connection") from error
            raise RemoteProtocolError(f"{self.where} reports: {error.message}") from error

    async def list_all(self, name: str, **options: object) -> list[Any]:
        """All pages of a list; empty if the server has no such list.

        Args:
            name: The name of the list in the answers, and of the method that requests a page after ``list_``.
            options: Further arguments of that method.

        Raises:
            TransportError: As for ``request``.
            RemoteProtocolError: As for ``request``, or the list has no end.
        """
        capability = name.replace("resource_templates", "resources")
        if self._client is not None and not getattr(self._client.server_capabilities, capability):
            return []
        listed: list[Any] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page: Any = await self.request(methodcaller(f"list_{name}", cursor=cursor, **options))
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
            async with asyncio.timeout(self.seconds):
                await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            await self._end()
            text = f"{self.where} has not connected within {self.seconds:g} seconds"
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

    @contextlib.asynccontextmanager
    async def _noticing(self, transport: Any) -> AsyncGenerator[Any, None]:
        """The transport; when the server has closed the connection, those who watch resources are woken."""
        async with transport as (reading, writing):
            yield _Reading(reading, self._ended), writing

    def _ended(self) -> None:
        self.is_cut = True
        for mark in (mark for marks in self.marks.values() for mark in marks):
            mark.set()

    async def _live(self, server: Any, ready: asyncio.Future[None]) -> None:
        import mcp

        # A server of the package itself, in this process, has no transport.
        given = self._noticing(server) if hasattr(server, "__aenter__") else server
        async with mcp.Client(
            given, elicitation_callback=self._elicit, message_handler=self._notified, extensions=[tasks_extension()]
        ) as client:
            self._client = client
            if not ready.done():
                ready.set_result(None)
            try:
                await self._may_close.wait()
            finally:
                for task in self.watching:
                    task.cancel()
                if self.watching:
                    await asyncio.wait(self.watching)
                self._client = None
                for call in list(self._calls.values()):
                    self.drop(call)

    async def _end(self, *, cancel: bool = True) -> None:
        task = self._task
        if task is None:
            return
        if cancel:
            task.cancel()
        # An error at the end has no use; the package waits for a program with a time-out.
        await asyncio.wait({task})
        retrieve(task)


TASKS = "io.modelcontextprotocol/tasks"
"""The extension with which a server answers a call with a task."""


@functools.cache
def task_request() -> Any:
    """The class of the requests about tasks. They have the id of the task in a header."""
    from mcp.types import Request

    class TaskRequest(Request[dict[str, Any], str]):
        method: str
        params: dict[str, Any]
        name_param = "taskId"

    return TaskRequest


def tasks_extension() -> Any:
    """The extension, as the package takes it."""
    from mcp.client.extension import ClientExtension, ResultClaim
    from mcp.types import CallToolResult, Result

    class CreatedTask(Result):
        result_type: Literal["task"] = "task"
        task_id: str
        poll_interval_ms: float | None = None

    async def resolve(result: CreatedTask, _: object) -> CallToolResult:
        raise NotImplementedError(result)  # `mcp_call` does this itself

    class Tasks(ClientExtension):
        identifier = TASKS

        def claims(self) -> Sequence[ResultClaim[Any]]:
            return [ResultClaim(result_type="task", model=CreatedTask, resolve=resolve)]

    return Tasks()


def json_of(model: BaseModel, only: set[str] | None = None) -> JsonObject:
    """A message of the package, or some of its members, as JSON."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, include=only)


def question_of(request: JsonObject, source: str) -> Question | str:
    """The question of a request for input; a text with the reason if it is not a question, or is not understood.

    >>> question_of({"method": "roots/list"}, "tides")
    "'roots/list'"
    >>> params = {"mode": "url", "message": "Sign in.", "url": "file:///etc"}
    >>> question_of({"method": "elicitation/create", "params": params}, "tides")
    'an address that is not of the web'
    """
    params = request.get("params")
    if request.get("method") != "elicitation/create" or not isinstance(params, dict):
        return repr(request.get("method"))
    message, schema, url = (params.get(name) for name in ("message", "requestedSchema", "url"))
    mode = params.get("mode", "form")
    if not isinstance(message, str):
        return "a question without a text"
    if len(message) > MAX_MESSAGE:
        return f"a question that is longer than {MAX_MESSAGE} characters"
    if mode == "form" and isinstance(schema, dict):
        problem = check_form(schema)
        if not problem and len(msgspec.json.encode(schema)) > MAX_FORM:
            problem = f"it is longer than {MAX_FORM} bytes"
        return f"a form whose schema is not one of MCP: {problem}" if problem else Question(source, message, schema)
    if mode == "url" and isinstance(url, str):
        return Question(source, message, url=url) if _is_of_web(url) else "an address that is not of the web"
    return f"an elicitation in the mode {mode!r:.40}"


def _is_of_web(url: str) -> bool:
    """Whether an address is one of the web, which people read as programs do.

    No name of a user before the host looks like another host, and no backslash ends it.
    """
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_plain = not re.search(r"[^!-~]|\\", url) and "@" not in parts.netloc
    return is_whole and is_plain and len(url) <= MAX_ADDRESS


async def report(context: ToolContext, progress: float, total: float | None, message: str | None) -> None:
    """Report the progress of a call."""
    fields: dict[str, Json] = {"progress": progress, "total": total, "message": message}
    context.progress({key: value for key, value in fields.items() if value is not None})


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
        raise ConfigurationError(f"command={command!r}: give the program and its arguments as a list")
    try:
        import mcp
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client
    except ImportError as error:
        raise ConfigurationError(MISSING) from error
    if command is None:
        http = create_mcp_http_client(headers=dict(headers or {}))
        return _with_client(http, streamable_http_client(str(url), http_client=http))
    parameters = mcp.StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(env or {}), cwd=cwd)
    return _with_errors(parameters)


def display_name(command: Sequence[str] | None, url: str | None) -> str:
    """The name of a server in errors, logs and ``repr``.

    Without the parts in which secrets are passed, such as arguments and queries.

    >>> display_name(None, "https://me:secret@example.org/mcp?key=secret")
    'https://example.org/mcp'
    >>> display_name(["/bin/files", "--token", "secret"], None)
    '/bin/files'
    """
    if url is None:
        return command[0] if command else ""
    scheme, separator, rest = re.split("[?#]", url, maxsplit=1)[0].rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


class _Reading:
    """The stream of the messages of a server, which the package leaves when it ends."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._end = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Any:
        return self._stream.__aiter__()

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *about: Any) -> Any:
        self._end()
        return await self._stream.__aexit__(*about)


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
