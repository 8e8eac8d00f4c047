"""A call of a tool of an MCP server, and the questions of the server during it.

Theory of operation. Since revision 2026-07-28 of the protocol a server cannot send requests. A call that needs an answer ends with its questions and an opaque state, and the client
sends the call again with the answers and that state. The questions are the state of the paused call, so that any process can go on.

Until revision 2025-11-25 the server sends a request of its own while it serves the call. The call then stays open, held by the connection under a random name, and goes on with the
answer. Another process, or another connection, cannot answer: the call is lost, and is not made again. Which call such a request belongs to is not on the wire: where more than one could be meant, it is cancelled.

Where nothing can answer (no run, or a run inside another one), the server reads that the question was cancelled. Nothing is ever accepted but by a decision of a person.

Sources: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr, https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation and
https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ExecutionFailedError
from rxworker.events.pause import Begun
from rxworker.messages import JsonObject
from rxworker.tools.context import ToolContext
from rxworker.tools.mcp_connection import Connection, OpenCall, question_of, report

if TYPE_CHECKING:
    import mcp
    from mcp import types

ROUNDS = 10
"""How often a call is sent in a row that no person answers for, before it is given up."""
PAUSES = (0.05, 0.1, 0.2, 0.25)
"""Seconds before a call is sent again that the server wants to be repeated without an answer; the last one from then on."""
CANCEL: JsonObject = {"action": "cancel"}
LOST = (
    "the server sent a question during the call, and its connection was closed before the answer. In this revision of the protocol the call cannot go on, and it was not made again: "
    "whether it had an effect is not known"
)


class Asked(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state of a call that waits for an answer.

    Attributes:
        held: The name of the call that stays open at its connection.
        requests: The requests of the server by their keys, those that have an answer too.
        responses: The answers so far.
        request_state: The state of the server.
        is_again: Whether the call is sent again as it was, when all is answered.
    """

    held: str = ""
    requests: dict[str, JsonObject] = {}
    responses: dict[str, JsonObject] = {}
    request_state: str | None = None
    is_again: bool = False


class RemoteCall:
    """One call, until it has a result or a question.

    Args:
        connection: The connection to its server.
        name: The name of the tool on the server.
        arguments: The arguments.
        context: The call.
    """

    def __init__(
        self, connection: Connection, name: str, arguments: JsonObject, context: ToolContext
    ) -> None:
        self._connection = connection
        self._name = name
        self._arguments = arguments
        self._context = context

    async def run(self) -> types.CallToolResult:
        """Make the call, or go on with it after an answer.

        Raises:
            QuestionError: The server has a question, and a person can answer it.
            ExecutionFailedError: The call is lost, or the server requests what this client does not have.
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
                    str(number): {"method": "elicitation/create", "params": _json(each)}
                    for number, each in enumerate(required.elicitations)
                }
                asked = Asked(requests=requests, is_again=True)
                continue
            if not isinstance(result, types.InputRequiredResult):
                return result
            requests = {key: _json(each) for key, each in (result.input_requests or {}).items()}
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
        questions = {
            key: question_of(request, self._connection.source)
            for key, request in asked.requests.items()
        }
        for question in questions.values():
            if isinstance(question, str):
                raise self._failed(
                    f"the server requests what this client does not have: {question}"
                )
        for key, question in questions.items():
            if key in asked.responses or isinstance(question, str):
                continue
            if self._context.can_ask:
                self._context.ask(question, msgspec.to_builtins(asked))
            asked = _with_response(asked, CANCEL)
        if asked.is_again and any(each["action"] != "accept" for each in asked.responses.values()):
            raise self._failed("the user has not visited the address that the server requires")
        return asked

    async def _send(
        self, client: mcp.Client, asked: Asked
    ) -> types.CallToolResult | types.InputRequiredResult:
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

        async def send() -> types.CallToolResult | types.InputRequiredResult:
            return await client.session.call_tool(
                self._name,
                self._arguments,
                progress_callback=partial(report, self._context),
                input_responses=responses,
                request_state=asked.request_state,
                allow_input_required=True,
                allow_claimed=False,
            )

        try:
            return await send()
        except MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
        await self._connection.list_all("tools", cache_mode="refresh")  # its schema has changed
        return await send()

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


def _json(value: types.InputRequest | types.ElicitRequestURLParams) -> JsonObject:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)
