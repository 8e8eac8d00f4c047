"""A call of a tool of an MCP server, and the questions of the server during it.

Theory of operation. Since revision 2026-07-28 of the protocol a server cannot send requests. A call that needs an
answer ends with its questions and an opaque state, and the client sends the call again with the answers and that state.
The questions are the state of the paused call, so that any process can go on.

Until revision 2025-11-25 the server sends a request of its own while it serves the call. The call then stays open, held
by the connection under a random name, and goes on with the answer. Another process, or another connection, cannot
answer: the call is lost, and is not made again. Which call such a request belongs to is not on the wire: where more
than one could be meant, it is cancelled.

A server may answer with a task instead of a result (the extension ``io.modelcontextprotocol/tasks`` of revision
2026-07-28). Its id is stored before the first poll, so that a process that recovers the run takes it up. It is polled
as seldom as the server wants, its questions are answered by ``tasks/update``, and a call that is cancelled cancels it.

Where nothing can answer (no run), the server reads that the question was cancelled.
Nothing is ever accepted but by a decision of a person.

Sources: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr,
https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation and
https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation; for tasks
https://modelcontextprotocol.io/seps/2663-tasks-extension
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ExecutionFailedError
from rxworker.events.pause import Begun
from rxworker.messages import JsonObject
from rxworker.tools.base import ToolContext
from rxworker.tools.mcp_connection import Connection, OpenCall, json_of, question_of, report, task_request

if TYPE_CHECKING:
    import mcp
    from mcp import types

ROUNDS = 10
"""How often a call is sent in a row that no person answers for, before it is given up."""
PAUSES = (0.05, 0.1, 0.2, 0.25)
"""Seconds before a call is sent again that the server wants to be repeated without an answer.

The last one from then on.
"""
MAX_STATE = 1_000_000
"""Bytes of the questions and the state of a server, which the pause of the run keeps and its watchers receive."""
CANCEL: JsonObject = {"action": "cancel"}
DEFAULT_INTERVAL = 1.0
"""Seconds between two polls of a task whose server names no interval."""
LEAST_INTERVAL, MAX_INTERVAL = 0.05, 3600.0
CANCEL_SECONDS = 5.0
"""Seconds for the request that a task is cancelled."""
LOST = (
    "the server sent a question during the call, and its connection was closed before the answer. In this revision of "
    "the protocol the call cannot go on, and it was not made again: whether it had an effect is not known"
)


class Asked(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state of a call that waits for an answer.

    Attributes:
        held: The name of the call that stays open at its connection.
        requests: The requests of the server by their keys, those that have an answer too.
        responses: The answers so far.
        request_state: The state of the server.
        is_again: Whether the call is sent again as it was, when all is answered.
        task: The id of the task that the server has begun.
        answered: The requests of the task that it has the answers to.
    """

    held: str = ""
    requests: dict[str, JsonObject] = {}
    responses: dict[str, JsonObject] = {}
    request_state: str | None = None
    is_again: bool = False
    task: str = ""
    answered: tuple[str, ...] = ()


class Task(Struct, frozen=True, rename="camel"):
    """The state of a task, as ``tasks/get`` returns it. Members that are not known are left out: they permit nothing.

    Attributes:
        task_id: Its id.
        status: How far it is.
        status_message: Shown to users.
        poll_interval_ms: Milliseconds until it is polled again, at least.
        input_requests: The requests that wait for answers.
        result: The result of the call.
        error: The error of the call.
    """

    task_id: str
    status: Literal["working", "input_required", "completed", "cancelled", "failed"]
    status_message: str = ""
    poll_interval_ms: float | None = None
    input_requests: dict[str, JsonObject] = {}
    result: JsonObject | None = None
    error: JsonObject | None = None


class RemoteCall:
    """One call, until it has a result or a question.

    Args:
        connection: The connection to its server.
        name: The name of the tool on the server.
        arguments: The arguments.
        context: The call.
    """

    def __init__(self, connection: Connection, name: str, arguments: JsonObject, context: ToolContext) -> None:
        self._connection = connection
        self._name = name
        self._arguments = arguments
        self._context = context

    async def run(self) -> types.CallToolResult:
        """Make the call, or go on with it after an answer.

        Raises:
            QuestionError: The server has a question, and a person can answer it.
            ExecutionFailedError: The call is lost, or the server requests a feature that this client does not have.
            MCPError: The server reports an error.
        """
        from mcp import MCPError, types
        from mcp.types import URL_ELICITATION_REQUIRED

        client = self._connection.client(self._context.tool)
        begun = self._context.begun
        asked = Asked() if begun is None else msgspec.convert(begun.state, Asked)
        answer = None if begun is None else _answer_in(begun)
        if answer is not None and not asked.held:
            asked = _with_response(asked, answer)
        for sent in range(ROUNDS + 1):
            try:
                if asked.task:
                    return await self._follow(client, asked)
                if asked.held:
                    result = await self._go_on(asked.held, answer)
                else:
                    asked = self._ask(asked)
                    result = await self._send(client, asked)
            except MCPError as error:
                if error.code != URL_ELICITATION_REQUIRED:
                    raise
                required = types.ElicitationRequiredErrorData.model_validate(error.data)
                requests: dict[str, JsonObject] = {
                    str(number): {"method": "elicitation/create", "params": json_of(each)}
                    for number, each in enumerate(required.elicitations)
                }
                asked = Asked(requests=requests, is_again=True)
                continue
            if isinstance(result, tuple):
                task, wait = result
                return await self._follow(client, Asked(task=task), wait)
            if not isinstance(result, types.InputRequiredResult):
                return result
            requests = {key: json_of(each) for key, each in (result.input_requests or {}).items()}
            asked = Asked(requests=requests, request_state=result.request_state)
            if not requests:
                await asyncio.sleep(PAUSES[min(sent, len(PAUSES) - 1)])
        raise self._failed(f"the server wants the call to be repeated more than {ROUNDS} times")

    def _ask(self, asked: Asked) -> Asked:
        """Leave the call with the first question that has no answer; where nothing can answer, all are cancelled.

        Raises:
            QuestionError: There is one.
            ExecutionFailedError: One is not understood, or what the server requires was declined.
        """
        questions = {key: question_of(request, self._connection.source) for key, request in asked.requests.items()}
        for question in questions.values():
            if isinstance(question, str):
                raise self._failed(f"the server requests a feature that this client does not have: {question}")
        for key, question in questions.items():
            if key in asked.responses or isinstance(question, str):
                continue
            if self._context.can_ask:
                state = msgspec.to_builtins(asked)
                if len(msgspec.json.encode(state)) > MAX_STATE:
                    raise self._failed(f"what the server needs to go on is longer than {MAX_STATE} bytes")
                self._context.ask(question, state)
            asked = _with_response(asked, CANCEL)
        if asked.is_again and any(each["action"] != "accept" for each in asked.responses.values()):
            raise self._failed("the user has not visited the address that the server requires")
        return asked

    async def _send(
        self, client: mcp.Client, asked: Asked
    ) -> types.CallToolResult | types.InputRequiredResult | tuple[str, float]:
        """Send the call; a tuple is the id of a task, and the seconds until its first poll."""
        from mcp import MCPError, types
        from mcp.types import HEADER_MISMATCH
        from mcp.types.version import MODERN_PROTOCOL_VERSIONS

        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            call = self._connection.open_call(self._context)
            call.task = asyncio.get_running_loop().create_task(
                client.call_tool(self._name, self._arguments, progress_callback=call.report)
            )
            return await self._wait(call)
        answers = None if asked.is_again or not asked.responses else asked.responses
        responses: types.InputResponses | None = None
        if answers is not None:
            responses = {k: types.ElicitResult.model_validate(a) for k, a in answers.items()}

        async def send() -> types.CallToolResult | types.InputRequiredResult | tuple[str, float]:
            result = await client.session.call_tool(
                self._name,
                self._arguments,
                progress_callback=partial(report, self._context),
                input_responses=responses,
                request_state=asked.request_state,
                allow_input_required=True,
                allow_claimed=True,
            )
            if isinstance(result, types.CallToolResult | types.InputRequiredResult):
                return result
            created: Any = result
            return created.task_id, _seconds(created.poll_interval_ms)

        try:
            return await send()
        except MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
        await self._connection.list_all("tools", cache_mode="refresh")  # its schema has changed
        return await send()

    async def _follow(self, client: mcp.Client, asked: Asked, wait: float = 0.0) -> types.CallToolResult:
        """Poll a task until it has ended, and answer its questions.

        Raises:
            QuestionError: It has a question.
            ExecutionFailedError: It has failed, or its state is not understood.
        """
        from mcp import types

        shown: JsonObject = {"task": "working"}
        try:
            for _ in range(ROUNDS + 1):  # a person who answers begins with the first one again
                await self._context.keep({"task": asked.task, "answered": asked.answered}, shown)
                asked = await self._update(client, asked)
                found = await self._poll(client, asked, wait)
                if not isinstance(found, Asked):
                    break
                asked, wait = found, 0.0
            else:
                raise self._failed(f"the task of the server has more than {ROUNDS} questions")
        except (asyncio.CancelledError, Exception):
            # Where it cannot be followed, or is not understood, the model may make the call again.
            if not self._context.is_left:
                await self._cancel(client, asked.task)
            raise
        if found.status != "completed" or found.result is None:
            problem = (found.error or {}).get("message") or found.status_message or "no reason given"
            raise self._failed(f"the task of the server is {found.status}: {problem}")
        result = types.CallToolResult.model_validate(found.result, by_name=False)
        if not result.is_error:
            await client.session.validate_tool_result(self._name, result)
        return result

    async def _poll(self, client: mcp.Client, state: Asked, wait: float) -> Asked | Task:
        """Poll a task until it has ended, or has questions.

        Args:
            client: The session.
            state: The task.
            wait: Seconds until the first poll.
        """
        shown = ""
        while True:
            await asyncio.sleep(wait)
            task = await self._task(client, state)
            if task.status not in ("working", "input_required"):
                return task
            if task.status_message and task.status_message != shown:
                shown = task.status_message
                self._context.progress({"task": task.status, "message": shown})
            new = {k: v for k, v in task.input_requests.items() if k not in state.answered}
            if task.status == "input_required" and new:
                return replace(state, requests=new, responses={})
            wait = _seconds(task.poll_interval_ms)

    async def _update(self, client: mcp.Client, asked: Asked) -> Asked:
        """Send the answers to the questions of a task, when all are there."""
        if not asked.requests:
            return asked
        asked = self._ask(asked)
        params: dict[str, Any] = {"taskId": asked.task, "inputResponses": asked.responses}
        await self._request(client, "tasks/update", params)
        return Asked(task=asked.task, answered=(*asked.answered, *asked.responses))

    async def _task(self, client: mcp.Client, asked: Asked) -> Task:
        found = await self._request(client, "tasks/get", {"taskId": asked.task})
        try:
            task = msgspec.convert(found, Task)
        except msgspec.ValidationError as error:
            raise self._failed(f"the state of the task is not one of MCP: {error}") from error
        if task.task_id != asked.task:
            raise self._failed("the server has answered with the state of another task")
        return task

    async def _cancel(self, client: mcp.Client, task: str) -> None:
        """Request that the server ends a task. Whether it does is up to the server."""
        request = asyncio.create_task(self._request(client, "tasks/cancel", {"taskId": task}))
        with suppress(Exception):
            await asyncio.wait({request}, timeout=CANCEL_SECONDS)
        request.cancel()

    async def _request(self, client: mcp.Client, method: str, params: JsonObject) -> Any:
        from pydantic import TypeAdapter

        adapter: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
        request = task_request()(method=method, params=params)
        return await client.session.send_request(request, adapter)

    async def _go_on(self, name: str, answer: JsonObject | None) -> types.CallToolResult:
        """Answer the question of a call that stayed open, and wait for it."""
        call = self._connection.take(name, self._context)
        if call is None:
            raise self._failed(LOST)
        if answer is not None:
            call.answer(answer)
        return await self._wait(call)

    async def _wait(self, call: OpenCall) -> types.CallToolResult:
        """Wait for the result of a call, or for a question, with which it stays open.

        Raises:
            QuestionError: There is one.
        """
        try:
            await asyncio.wait({call.task, call.sent}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._connection.drop(call)
            await asyncio.wait({call.task})
            raise
        if call.task.done():
            self._connection.drop(call)
            return call.task.result()
        self._connection.hold(call)
        return self._context.ask(call.sent.result(), msgspec.to_builtins(Asked(held=call.name)))

    def _failed(self, why: str) -> ExecutionFailedError:
        return ExecutionFailedError(why, tool=self._context.tool)


def _with_response(asked: Asked, response: JsonObject) -> Asked:
    """The state with a response to the first request that has none."""
    key = next((key for key in asked.requests if key not in asked.responses), None)
    return asked if key is None else replace(asked, responses={**asked.responses, key: response})


def _answer_in(begun: Begun) -> JsonObject | None:
    """The answer of a person as the protocol has it; that to an address, and one that declines, have no content."""
    if begun.reply is None or begun.question is None:
        return None
    is_filled = begun.reply.action == "accept" and begun.question.schema is not None
    return {"action": begun.reply.action, **({"content": begun.reply.content} if is_filled else {})}


def _seconds(interval_ms: float | None) -> float:
    """Seconds until a task is polled again."""
    if interval_ms is None or math.isnan(interval_ms):
        return DEFAULT_INTERVAL
    seconds = interval_ms / 1000
    return min(max(seconds, LEAST_INTERVAL), MAX_INTERVAL)
