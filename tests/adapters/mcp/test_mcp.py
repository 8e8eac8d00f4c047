"""Workers as the tools of an MCP server: the official client over streamable HTTP, in both eras of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

import aiohttp
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.server.session import ServerSession
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import ElicitRequestParams, ElicitResult, InputResponse
from msgspec import Struct

from rxworker import Worker, before_tool_call, on_turn_end, tool
from rxworker.adapters.mcp import McpServer, McpWorker
from rxworker.errors import ConfigurationError
from rxworker.events.pause import Question
from rxworker.hooks import Pause, ToolCallContext, TurnEndContext
from rxworker.log import MemoryLog
from rxworker.messages import JsonObject, ToolMeta
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.tools import ClientTool, ToolContext
from rxworker.ui.web import Settings

TOKEN = "a-very-secret-token-0123456789"
MODES = ["auto", "legacy"]
SECRET = "sk-0123456789abcdef"

Elicit = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """``auto`` is revision 2026-07-28 with this server, ``legacy`` is 2025-11-25."""
    return request.param


def client(
    url: str, mode: str = "auto", elicit: Elicit | None = None, token: str | None = None
) -> AbstractAsyncContextManager[mcp.Client]:
    @asynccontextmanager
    async def streams() -> AsyncGenerator[Any, None]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with (
            create_mcp_http_client(headers=headers) as http,
            streamable_http_client(url, http_client=http) as made,
        ):
            yield made

    return mcp.Client(streams(), mode=mode, elicitation_callback=elicit)


class Desk:
    """Workers that delete, wait, count and fail; and what became of them."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.waiting = asyncio.Event()
        self.stopped = asyncio.Event()
        self.requests: list[Request] = []

    def clerk(self) -> Worker:
        """Files papers,
        and deletes them.

        The rest is for programmers.
        """

        @tool
        async def delete(name: str) -> str:
            """Delete a file."""
            self.deleted.append(name)
            return f"{name} is gone"

        @tool
        async def wait() -> str:
            """Wait for ever."""
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            return "never"

        @before_tool_call(name="permit", matcher="delete")
        def permit(context: ToolCallContext) -> Pause:
            return Pause("It cannot be undone.")

        return Worker(ScriptedModel(self.answer), tools=[delete, wait], hooks=[permit])

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        last = request.conversation.messages[-1]
        if last.tool_results:
            return say(f"Done: {last.tool_results[0].text}")
        if "delete" in last.text:
            return call("delete", name="a.txt")
        if "wait" in last.text:
            return call("wait")
        if "fail" in last.text:
            raise OSError(f"no route for {SECRET}")
        return say(f"{len(request.conversation.messages)}: {last.text} \ud83d")


@pytest.fixture
def desk() -> Desk:
    return Desk()


def text_of(result: mcp.types.CallToolResult) -> str:
    assert result.content[0].type == "text"
    return result.content[0].text


def run_of(result: mcp.types.CallToolResult) -> str:
    assert result.meta is not None
    return result.meta["rxworker/run"]["id"]


async def test_a_call_is_a_run_and_the_next_call_continues_its_conversation(desk: Desk, mode: str) -> None:
    server = McpServer({"clerk": desk.clerk, "poet": McpWorker(desk.clerk, "Writes verses.")})
    shown: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        shown.append((progress, message))

    async with server.listen() as url, client(url, mode) as using:
        clerk, poet = (await using.list_tools()).tools
        assert (clerk.description, poet.description) == ("Files papers, and deletes them.", "Writes verses.")
        first = await using.call_tool("clerk", {"message": "hi"}, progress_callback=note)
        assert (first.is_error, text_of(first)) == (False, "1: hi \ufffd")
        assert first.meta is not None
        assert first.meta["rxworker/run"]["turns"] == 1
        assert shown == [(1, "1: hi \ufffd")]
        given = {"message": "and", "conversation": run_of(first)}
        second = await using.call_tool("clerk", given)
        assert text_of(second) == "3: and \ufffd"
        assert run_of(second) in str(second.content[1])
        # Another branch from the first, as the conversation has gone on.
        assert text_of(await using.call_tool("clerk", given)) == "3: and \ufffd"
        for other in ({**given, "conversation": "run-0"}, {"name": "poet", **given}):
            refused = await using.call_tool(other.pop("name", "clerk"), other)
            assert refused.is_error
            assert "run" in text_of(refused)


Action = Literal["accept", "decline", "cancel"]


@pytest.mark.parametrize(
    ("is_logged", "action", "content", "answer"),
    [
        (False, "accept", {}, "Done: The form was not filled in: form.approve is missing"),
        (True, "accept", {"approve": True}, "Done: a.txt is gone"),
        (False, "accept", {"approve": False, "reason": "We need it."}, "Done: We need it."),
        (True, "decline", None, "Done: This call was not approved."),
        (True, "cancel", None, "The run failed: the run was cancelled: the user has cancelled it"),
    ],
)
async def test_a_call_that_needs_approval_asks_the_user(
    desk: Desk, mode: str, is_logged: bool, action: Action, content: Any, answer: str
) -> None:
    asked: list[str] = []

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action=action, content=content)

    log = MemoryLog() if is_logged else None
    server = McpServer({"clerk": desk.clerk}, log=log)
    async with server.listen() as url, client(url, mode, elicit) as using:
        result = await using.call_tool("clerk", {"message": "delete it"})
    assert asked == ['Run delete(name="a.txt")?\nIt cannot be undone.']
    assert (text_of(result), result.is_error) == (answer, action == "cancel")
    assert desk.deleted == (["a.txt"] if answer == "Done: a.txt is gone" else [])
    if log is not None:
        info = await log.existing(run_of(result))
        assert (info.row.worker, info.status) == ("clerk", "aborted" if action == "cancel" else "finished")


async def test_a_client_without_forms_learns_that_approval_is_needed(desk: Desk, mode: str) -> None:
    server = McpServer({"clerk": desk.clerk})
    async with server.listen() as url, client(url, mode) as using:
        result = await using.call_tool("clerk", {"message": "delete it"})
        assert result.is_error
        assert "Approval is needed" in text_of(result)
        assert 'delete(name="a.txt")' in text_of(result)
        given = {"message": "never mind", "conversation": run_of(result)}
        assert "never mind" in text_of(await using.call_tool("clerk", given))
    assert desk.deleted == []


async def test_an_answer_that_does_not_fit_the_form_denies(desk: Desk, mode: str) -> None:
    answers: list[Any] = [{"approve": "perhaps"}]

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content=answers[0])

    server = McpServer({"clerk": desk.clerk})
    async with server.listen() as url, client(url, mode, elicit) as using:
        result = await using.call_tool("clerk", {"message": "delete it"})
    assert text_of(result).startswith("Done: The form was not filled in: form.approve: expected")
    assert desk.deleted == []


@pytest.mark.parametrize(
    "sent",
    [
        {"action": "accept", "content": [True]},
        {"action": "accept", "content": {"approve": [True]}},
        {"action": "Accept", "content": {"approve": True}},
        {"content": {"approve": True}},
    ],
)
async def test_an_invalid_answer_decides_nothing_and_the_error_states_what_to_send(
    desk: Desk, sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def elicit(*_: Any) -> ElicitResult:
        return ElicitResult.model_validate(sent)  # as the package does with what a client sends

    monkeypatch.setattr(ServerSession, "elicit_form", elicit)
    async with MemoryLog() as log:
        server = McpServer({"clerk": desk.clerk}, log=log)
        async with server.listen() as url, client(url, "legacy", elicit) as using:
            with pytest.raises(mcp.MCPError, match=r'nothing was decided.*"approve": true'):
                await using.call_tool("clerk", {"message": "delete it"})
        assert [info.status for info in await log.list()] == ["paused"]
    assert desk.deleted == []


async def test_a_form_is_answered_once_and_for_no_other_run(desk: Desk) -> None:
    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        raise AssertionError

    server = McpServer({"clerk": desk.clerk})
    given = {"message": "delete it"}
    async with server.listen() as url, client(url, "auto", elicit) as using:
        asked = await using.session.call_tool("clerk", given, allow_input_required=True)
        assert isinstance(asked, mcp.types.InputRequiredResult)
        approved: dict[str, InputResponse] = {}
        approved["approval"] = ElicitResult(action="accept", content={"approve": True})

        async def answer(state: str, arguments: dict[str, Any]) -> mcp.types.CallToolResult:
            return await using.session.call_tool("clerk", arguments, input_responses=approved, request_state=state)

        state = asked.request_state or ""
        for forged, arguments in ((state[:-2] + "xx", given), (state, {"message": "other"})):
            with pytest.raises(mcp.MCPError, match="Invalid or expired requestState"):
                await answer(forged, arguments)
        assert text_of(await answer(state, given)) == "Done: a.txt is gone"
        again = await answer(state, given)
        assert again.is_error
        assert "resumed already" in text_of(again)
    assert desk.deleted == ["a.txt"]


async def test_a_pause_at_the_end_of_a_turn_shows_a_form_to_continue(mode: str) -> None:
    paused: list[bool] = []

    @on_turn_end
    def review(context: TurnEndContext) -> Pause | None:
        if paused:
            return None
        paused.append(True)
        return Pause("Read it first.")

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        assert params.message == "Continue?\nRead it first."
        return ElicitResult(action="accept", content={"approve": True})

    server = McpServer({"clerk": lambda: Worker(ScriptedModel(["A draft."]), hooks=[review])})
    async with server.listen() as url, client(url, mode, elicit) as using:
        result = await using.call_tool("clerk", {"message": "go"})
    assert (text_of(result), result.is_error) == ("A draft.", False)


async def test_a_run_that_waits_is_reported_without_a_form(mode: str, log: MemoryLog) -> None:
    @tool
    async def ship(context: ToolContext) -> str:
        return f"paid: {await context.until(3600.0, signal='paid')}"

    server = McpServer({"clerk": lambda: Worker(ScriptedModel([call("ship"), "Done."]), tools=[ship])}, log=log)
    async with server.listen() as url, client(url, mode) as using:
        result = await using.call_tool("clerk", {"message": "go"})
    assert (text_of(result)[:45], result.is_error) == ("The run waits: ship waits for the signal paid", True)


async def test_a_call_that_only_a_client_can_run_fails_without_a_form(mode: str) -> None:
    open_tab = ClientTool(ToolMeta("open_tab", "Open a tab.", {"type": "object"}))
    replies = [call("open_tab"), "It is not open."]
    server = McpServer({"clerk": lambda: Worker(ScriptedModel(replies), tools=[open_tab])})
    async with server.listen() as url, client(url, mode) as using:
        result = await using.call_tool("clerk", {"message": "go"})
    assert (text_of(result), result.is_error) == ("It is not open.", False)


class Verse(Struct):
    lines: list[str]


async def test_a_worker_with_an_output_type_returns_structured_content(mode: str) -> None:
    replies = {"verse": '{"lines": ["An old pond"]}', "number": '```json\n{"value": 5}\n```'}

    def make(name: str, output: type[Any]) -> McpWorker:
        return McpWorker(lambda: Worker(ScriptedModel([replies[name]])), output=output)

    server = McpServer({"verse": make("verse", Verse), "number": make("number", int)})
    async with server.listen() as url, client(url, mode) as using:
        verse = await using.call_tool("verse", {"message": "a pond"})
        assert verse.structured_content == {"lines": ["An old pond"]}
        number = await using.call_tool("number", {"message": "count"})
        assert number.structured_content == {"value": 5}


async def test_a_request_that_is_cancelled_cancels_its_run(desk: Desk, mode: str) -> None:
    log = MemoryLog()
    server = McpServer({"clerk": desk.clerk}, log=log)
    async with server.listen() as url, client(url, mode) as using:
        asking = asyncio.create_task(using.call_tool("clerk", {"message": "wait"}))
        await desk.waiting.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await desk.stopped.wait()
        assert text_of(await using.call_tool("clerk", {"message": "hi"})).startswith("1: hi")
    [_, cancelled] = await log.list()
    assert (cancelled.status, cancelled.row.cause) == ("aborted", "cancel")


async def test_a_request_that_is_cancelled_while_the_user_decides_dismisses_its_run(desk: Desk) -> None:
    asked = asyncio.Event()

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    log = MemoryLog()
    server = McpServer({"clerk": desk.clerk}, log=log)
    async with server.listen() as url:
        async with client(url, "legacy", elicit) as using:
            asking = asyncio.create_task(using.call_tool("clerk", {"message": "delete it"}))
            await asked.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        async with client(url) as using:  # the server has handled what came before
            await using.call_tool("clerk", {"message": "hi"})
    [_, dismissed] = await log.list()
    assert dismissed.status == "aborted"
    assert desk.deleted == []


async def test_what_fails_is_an_error_result_without_secrets(
    desk: Desk, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DESK_API_KEY", SECRET)

    def broken() -> Worker:
        raise RuntimeError(f"no {SECRET}")

    server = McpServer({"clerk": desk.clerk, "broken": McpWorker(broken, "Fails.")})
    async with server.listen() as url, client(url, mode) as using:
        for arguments, cause in (
            ({"message": "fail"}, "no route for ***"),
            ({"message": 5}, "`str`"),
            ({"message": ""}, "$.message"),
            ({}, "`message`"),
            ({"message": "a", "colour": "red"}, "`colour`"),
        ):
            result = await using.session.call_tool("clerk", arguments)
            assert (result.is_error, cause in text_of(result)) == (True, True), text_of(result)
        with pytest.raises(mcp.MCPError, match="Unknown tool: fly; there are: clerk") as unknown:
            await using.session.call_tool("fly", {})
        assert unknown.value.code == mcp.types.INVALID_PARAMS
    assert SECRET not in caplog.text


async def test_a_request_without_the_token_or_from_another_page_is_refused(desk: Desk) -> None:
    settings = Settings(token=TOKEN, max_body=10_000)
    server = McpServer({"clerk": desk.clerk}, settings=settings)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with server.listen() as url, aiohttp.ClientSession(trust_env=False) as http:

        async def status(data: Any = None, **headers: str) -> int:
            headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKEN}", **headers}
            async with http.post(url, json=data or body, headers=headers) as response:
                text = await response.text()
                assert TOKEN not in text
                assert "the page" not in text
                if response.status in (401, 403):
                    assert (await response.json())["error"]["code"] == mcp.types.INVALID_REQUEST
                return response.status

        assert await status(Authorization="Bearer wrong") == 401
        assert await status(Origin="https://evil.example") == 403
        assert await status(Host="evil.example") == 403
        assert await status({**body, "params": {"pad": "x" * 20_000}}) == 413
        assert await status([1]) == 400
        assert await status(**{"MCP-Protocol-Version": "2199-01-01"}) == 400
        async with client(url, "auto", None, TOKEN) as using:
            assert text_of(await using.call_tool("clerk", {"message": "hi"})).startswith("1: hi")


async def test_a_message_with_a_member_twice_is_refused(desk: Desk) -> None:
    """Of two answers to a form a reader of JSON would take the last."""
    form = '{"action": "accept", "content": {"approve": false, "approve": true}}'
    call = '{"name": "clerk", "arguments": {"message": "delete it"}, "inputResponses": {"approval": %s}}'
    answers = {
        f'{{"jsonrpc": "2.0", "id": 1, "result": {form}}}': "'approve' twice: send it once",
        f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {call % form}}}': "twice",
        "no JSON": "not valid JSON",
    }
    server = McpServer({"clerk": desk.clerk})
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with server.listen() as url, aiohttp.ClientSession(trust_env=False) as http:
        for body, answer in answers.items():
            async with http.post(url, data=body, headers=headers) as response:
                assert response.status == 400
                assert answer in (await response.json())["error"]["message"]
    assert desk.deleted == []


async def test_more_calls_than_runs_are_allowed_are_refused(desk: Desk) -> None:
    server = McpServer({"clerk": desk.clerk}, settings=Settings(max_runs=1))
    async with server.listen() as url, client(url) as using:
        asking = asyncio.create_task(using.call_tool("clerk", {"message": "wait"}))
        await desk.waiting.wait()
        refused = await using.call_tool("clerk", {"message": "hi"})
        assert refused.is_error
        assert "1 runs are running" in text_of(refused)
        asking.cancel()
        await asyncio.wait({asking})


async def test_what_cannot_be_served_is_refused_at_once(desk: Desk) -> None:
    with pytest.raises(ConfigurationError, match="name of a tool"):
        McpServer({"my clerk": desk.clerk})
    with pytest.raises(ConfigurationError, match="needs a worker"):
        McpServer({})
    server = McpServer({"clerk": desk.clerk})
    with pytest.raises(ConfigurationError, match="token"):
        async with server.listen("0.0.0.0"):
            raise AssertionError
    async with server.listen() as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(ConfigurationError, match=f"port {port}"):
            async with McpServer({"clerk": desk.clerk}).listen(port=port):
                raise AssertionError


GUESTS: JsonObject = {"type": "object", "properties": {"guests": {"type": "integer"}}, "required": ["guests"]}

ASKED: list[tuple[Question, ElicitResult, str]] = [
    (
        Question("tides", "How many?", GUESTS),
        ElicitResult(action="accept", content={"guests": 2}),
        "accept {'guests': 2}",
    ),
    (Question("tides", "How many?", GUESTS), ElicitResult(action="accept", content={"guests": "2"}), "decline {}"),
    (Question("tides", "How many?", GUESTS), ElicitResult(action="decline"), "decline {}"),
    (Question("tides", "Sign in.", url="https://a.example/"), ElicitResult(action="accept"), "accept {}"),
]


@pytest.mark.parametrize(("question", "answer", "expected"), ASKED)
async def test_a_question_of_a_tool_is_passed_on_to_the_user(
    question: Question, answer: ElicitResult, expected: str, mode: str
) -> None:
    @tool
    async def book(context: ToolContext) -> str:
        """Book."""
        if context.begun is None:
            context.ask(question)
        reply = context.begun.reply
        assert reply is not None
        return f"{reply.action} {reply.content}"

    asked: list[ElicitRequestParams] = []

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params)
        return answer

    model = ScriptedModel([call("book") + call("book"), "Done."])
    server = McpServer({"clerk": lambda: Worker(model, tools=[book])})
    async with server.listen() as url, client(url, mode, elicit) as using:
        result = await using.call_tool("clerk", {"message": "go"})
    assert text_of(result) == "Done."
    results = model.requests[-1].conversation.messages[-1].tool_results
    assert [each.text for each in results] == [expected, expected]
    assert len(asked) == 2
    for params in asked:
        assert params.message.startswith("tides has a question, for book()\n")
        assert getattr(params, "requested_schema", None) == question.schema
        assert getattr(params, "url", "") == question.url
