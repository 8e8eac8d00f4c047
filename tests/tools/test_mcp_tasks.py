"""Tasks of MCP servers: a call is polled, goes on in another process, and is cancelled at the server."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest

from rxworker import Approve, Deny, Finished, Paused, Worker, before_tool_call, tool
from rxworker.decisions import Decision
from rxworker.errors import DecisionError, RunCancelledError, RunHandedOverError
from rxworker.events import ToolProgress
from rxworker.hooks import Pause, ToolCallContext
from rxworker.log import MemoryLog
from rxworker.log.format import Entry
from rxworker.log.values import RunRow
from rxworker.messages import ToolCall
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, lint, say
from rxworker.tools import McpClient, Toolbox
from rxworker.tools.mcp import McpTool
from rxworker.tools.mcp_call import ROUNDS
from rxworker.tools.mcp_connection import TASKS, Connection
from rxworker.tools.run import run_call

pytest.importorskip("mcp")

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

from tests.runs import records_of

FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ASK = {"method": "elicitation/create", "params": {"mode": "form", "message": "How many?", "requestedSchema": FORM}}
WORKING: dict[str, Any] = {"status": "working", "statusMessage": "digging"}
DONE: dict[str, Any] = {
    "status": "completed",
    "result": {"content": [{"type": "text", "text": "gold"}], "isError": False},
}


class Mine:
    """A server whose one tool answers with a task; its states are given, and the last one stays."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self.states = list(states)
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.polled = asyncio.Event()

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        meta = params.pop("_meta", {})
        self.seen.append((method, params))
        match method:
            case "server/discover":
                capabilities: dict[str, Any] = {"tools": {}, "extensions": {TASKS: {}}}
                return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **CACHE}
            case "tools/list":
                return {"tools": [{"name": "dig", "inputSchema": {"type": "object"}}], **CACHE}
            case "tools/call":
                client = meta["io.modelcontextprotocol/clientCapabilities"]
                assert client["extensions"] == {TASKS: {}}
                return {"resultType": "task", **self.task(WORKING)}
            case "tasks/get":
                self.polled.set()
                state = self.states[0] if len(self.states) == 1 else self.states.pop(0)
                return {"resultType": "complete", **self.task(state)}
            case "tasks/update" | "tasks/cancel":
                return {"resultType": "complete"}
            case _:
                raise KeyError(method)

    def task(self, state: dict[str, Any]) -> dict[str, Any]:
        about = {"createdAt": "2026-07-28T10:00:00Z", "lastUpdatedAt": "2026-07-28T10:00:00Z"}
        return {"taskId": "t1", "ttlMs": None, "pollIntervalMs": 50, **about, **state}

    def count(self, method: str) -> int:
        return [each for each, _ in self.seen].count(method)

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[Any, None]:
        to_client, from_server = anyio.create_memory_object_stream[Any](100)
        to_server, from_client = anyio.create_memory_object_stream[Any](100)

        async def serve() -> None:
            async for given in from_client:
                request = given.message
                if not isinstance(request, JSONRPCRequest):
                    continue
                try:
                    result = self.answer(request.method, dict(request.params or {}))
                    answer: Any = JSONRPCResponse(jsonrpc="2.0", id=request.id, result=result)
                except KeyError:
                    error: Any = {"code": -32601, "message": "no"}
                    answer = JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
                await to_client.send(SessionMessage(answer))

        serving = asyncio.create_task(serve())
        async with to_client, from_server, to_server, from_client:
            yield from_server, to_server
        serving.cancel()
        await asyncio.wait({serving})


CACHE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@asynccontextmanager
async def connected(mine: Mine) -> AsyncGenerator[list[McpTool], None]:
    connection = Connection("mine", 20.0)
    await connection.open(mine.transport())
    try:
        yield await McpClient(connection).tools()
    finally:
        await connection.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that are waited, which take none here."""
    waited: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        if seconds:
            waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr("rxworker.tools.mcp_call.asyncio.sleep", note)
    return waited


def texts(result: Any) -> list[str]:
    return [r.text for m in result.conversation.messages for r in m.tool_results]


async def test_a_task_is_polled_as_seldom_as_the_server_wants(quick: list[float]) -> None:
    slow = {**WORKING, "pollIntervalMs": 7000}
    mine = Mine(WORKING, slow, WORKING, DONE)
    async with connected(mine) as tools:
        run = Worker(ScriptedModel([call("dig"), "Done."]), tools=tools).run("go")
        records = records_of(run)
        assert texts(await run) == ["gold"]
    assert quick == [0.05, 0.05, 7.0, 0.05]
    assert lint(records) == []
    shown = [r.event.progress for r in records if isinstance(r.event, ToolProgress)]
    assert shown == [{"task": "working"}, {"task": "working", "message": "digging"}]
    methods = [each for each in mine.seen if each[0].startswith("tasks/")]
    assert methods == [("tasks/get", {"taskId": "t1"})] * 4


ENDS: list[tuple[dict[str, Any], str, int]] = [
    ({"status": "failed", "error": {"code": 1, "message": "caved in"}}, "is failed: caved in", 0),
    ({"status": "cancelled", "statusMessage": "dusk"}, "is cancelled: dusk", 0),
    ({"status": "completed"}, "is completed: no reason given", 0),
    ({"status": "completed", "result": {"content": [{"type": "text", "text": "dust"}], "isError": True}}, "dust", 0),
    ({"status": "resting"}, "the state of the task is not one of MCP", 1),
    ({"status": "working", "taskId": "t2"}, "the state of another task", 1),
    ({"status": "input_required", "inputRequests": {"a": {"method": "roots/list"}}}, "'roots/list'", 1),
]


@pytest.mark.parametrize(("state", "why", "cancels"), ENDS)
async def test_a_task_that_fails_or_is_not_understood_is_an_error_result(
    state: dict[str, Any], why: str, cancels: int
) -> None:
    mine = Mine(state)
    async with connected(mine) as tools:
        result = await run_call(Toolbox(tools), ToolCall("1", "dig", {}))
    assert result.is_error
    assert why in result.text
    assert mine.count("tasks/cancel") == cancels


ANSWERS: list[tuple[Decision, dict[str, Any]]] = [
    (Approve({"n": 2}), {"action": "accept", "content": {"n": 2}}),
    (Deny(), {"action": "decline"}),
]


@pytest.mark.parametrize(("decision", "expected"), ANSWERS)
async def test_a_question_of_a_task_is_answered_by_another_connection_and_once(
    decision: Decision, expected: dict[str, Any]
) -> None:
    asking = {"status": "input_required", "inputRequests": {"n": ASK}}
    mine = Mine(WORKING, asking, asking, WORKING, DONE)  # the answer is seen late
    async with connected(mine) as tools:
        paused: Any = await Worker(ScriptedModel([call("dig")]), tools=tools).run("go")
        assert isinstance(paused, Paused)
        assert paused.reason == "mine has a question: How many?"
    assert mine.count("tasks/cancel") == 0
    async with connected(mine) as tools:
        other = Worker(ScriptedModel(["Done."]), tools=tools)
        result = await other.resume(cast("Paused[object]", paused), decisions=[decision])
    assert isinstance(result, Finished)
    assert texts(result) == ["gold"]
    updates = [params for method, params in mine.seen if method == "tasks/update"]
    assert updates == [{"taskId": "t1", "inputResponses": {"n": expected}}]
    assert mine.count("tools/call") == 1


async def test_where_nothing_can_answer_the_question_of_a_task_is_cancelled() -> None:
    mine = Mine({"status": "input_required", "inputRequests": {"n": ASK}}, DONE)
    async with connected(mine) as tools:
        assert (await run_call(Toolbox(tools), ToolCall("1", "dig", {}))).text == "gold"
    [update] = [params for method, params in mine.seen if method == "tasks/update"]
    assert update["inputResponses"] == {"n": {"action": "cancel"}}


async def test_a_run_that_is_cancelled_at_any_moment_cancels_its_task() -> None:
    steps, seen = 0, 0
    while seen < 20:
        mine = Mine(WORKING)
        async with connected(mine) as tools:
            run = Worker(ScriptedModel([call("dig")]), tools=tools).run("go")
            for _ in range(steps):
                await asyncio.sleep(0)
            await run.cancel()
            with suppress(RunCancelledError):
                await run
            if mine.count("tasks/get"):
                seen += 1
                assert mine.seen[-1] == ("tasks/cancel", {"taskId": "t1"})
        steps += 1


def script(request: Request) -> Reply:
    return say("Done.") if request.conversation.messages[1:] else call("dig")


async def test_a_stored_run_takes_up_its_task_wherever_its_process_has_ended() -> None:
    mine, log = Mine(WORKING, WORKING, DONE), MemoryLog()
    async with log, connected(mine) as tools:
        run = Worker(ScriptedModel([call("dig"), "Done."]), tools=tools, log=log).run("go")
        assert texts(await run) == ["gold"]
        entries = [entry async for entry in log.read(run.id)]
    taken_up = 0
    for cut in range(1, len(entries)):
        kinds = [entry.kind for entry in entries[:cut]]
        mine, left = Mine(WORKING, DONE), MemoryLog(lease=0.0)
        async with left, connected(mine) as tools:
            claim = await left.claim(run.id, create=True)
            await left.append(claim, entries[:cut], after=0, row=RunRow())
            left.lease = 15.0
            model = ScriptedModel(script)
            result: Any = await Worker(model, tools=tools, log=left).recover(run.id)
            if kinds[-1] == "tool_start":
                assert result.hook == "recovery"  # the server may have begun a task
                assert mine.count("tools/call") == 0
                continue
            assert texts(result) == ["gold"]
            if "tool_progress" in kinds and "tool_stop" not in kinds:
                taken_up += 1
                assert (mine.count("tools/call"), mine.count("tasks/get")) == (0, 2)
    assert taken_up


async def test_a_run_that_is_handed_over_leaves_its_task_running() -> None:
    mine, log = Mine(WORKING), MemoryLog()
    async with log:
        async with connected(mine) as tools:
            run = Worker(ScriptedModel([call("dig")]), tools=tools, log=log).run("go")
            await mine.polled.wait()
            await run.hand_over(reason="a test", seconds=0.0)
            with pytest.raises(RunHandedOverError):
                await run
        assert mine.count("tasks/cancel") == 0
        mine.states = [DONE]
        async with connected(mine) as tools:
            other = Worker(ScriptedModel(["Done."]), tools=tools, log=log)
            assert texts(await other.recover(run.id)) == ["gold"]
        assert mine.count("tools/call") == 1


async def log_of(run_id: str, entries: list[Entry]) -> MemoryLog:
    """A log with these entries, whose process has ended."""
    left = MemoryLog(lease=0.0)
    claim = await left.claim(run_id, create=True)
    await left.append(claim, entries, after=0, row=RunRow())
    left.lease = 15.0
    return left


async def test_a_task_is_taken_up_where_its_call_waits_again_before() -> None:
    """A hook that the first process did not have, another call whose effect is not known, and a pause of the program.

    None makes the call from its start.
    """
    may_pay, log = asyncio.Event(), MemoryLog()

    @tool
    async def pay() -> str:
        """Pay."""
        await may_pay.wait()
        return "paid"

    @before_tool_call(matcher="dig")
    def ask(context: ToolCallContext) -> Pause:
        return Pause("a new rule")

    mine = Mine(WORKING)
    async with log, connected(mine) as tools:
        first = ScriptedModel([call("dig") + call("pay")])
        run = Worker(first, tools=[*tools, pay], log=log).run("go")
        await mine.polled.wait()
        entries = [entry async for entry in log.read(run.id)]
        await run.cancel()
        with suppress(RunCancelledError):
            await run
    may_pay.set()
    mine = Mine(WORKING, DONE)
    async with await log_of(run.id, entries) as left, connected(mine) as tools:
        worker = Worker(ScriptedModel(script), tools=[*tools, pay], log=left, hooks=[ask])
        paused: Any = await worker.recover(run.id)
        assert paused.hook == "recovery"  # of the other call
        resumed = worker.resume(paused, decisions=[None, Approve()])
        resumed.pause()
        paused = await resumed
        assert paused.hook == "pause"
        paused = await worker.resume(paused)
        assert (paused.hook, paused.paused_at) == ("ask", "call_1_1")
        with pytest.raises(DecisionError, match="has begun"):
            await worker.resume(paused, decisions=[Approve({"depth": 2}), None])
        result: Any = await worker.resume(paused, decisions=[Approve(), None])
        assert texts(result) == ["gold", "paid"]
        assert mine.count("tools/call") == 0


class Asking(Mine):
    """Its task has a new question at each poll."""

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = self.count("tasks/get")
        asked: dict[str, Any] = {"status": "input_required", "inputRequests": {str(number): ASK}}
        self.states = [asked if number < 100 else DONE]
        return super().answer(method, params)


async def test_a_task_that_has_questions_forever_is_given_up_where_nothing_answers() -> None:
    mine = Asking(WORKING)
    async with connected(mine) as tools:
        result = await run_call(Toolbox(tools), ToolCall("1", "dig", {}))
    assert f"more than {ROUNDS} questions" in result.text
    assert mine.count("tasks/update") == ROUNDS
    assert mine.count("tasks/cancel") == 1


@pytest.mark.parametrize("failing", ["tasks/get", "tasks/update"])
async def test_a_task_that_cannot_be_followed_is_cancelled(failing: str) -> None:
    """The model reads that the call has failed, and may make it again."""

    class Failing(Mine):
        def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
            if method == failing:
                raise KeyError(method)
            return super().answer(method, params)

    mine = Failing({"status": "input_required", "inputRequests": {"n": ASK}})
    async with connected(mine) as tools:
        result = await run_call(Toolbox(tools), ToolCall("1", "dig", {}))
    assert (result.is_error, result.text) == (True, "The tool failed: MCPError: no")
    assert mine.count("tasks/cancel") == 1


INTERVALS: list[tuple[float, float]] = [(-1, 0.05), (0, 0.05), (1e12, 3600.0), (math.inf, 3600.0), (math.nan, 1.0)]


@pytest.mark.parametrize(("given", "seconds"), INTERVALS)
async def test_an_interval_that_cannot_be_right_is_brought_into_its_limits(
    given: float, seconds: float, quick: list[float]
) -> None:
    mine = Mine({**WORKING, "pollIntervalMs": given}, DONE)
    async with connected(mine) as tools:
        assert (await run_call(Toolbox(tools), ToolCall("1", "dig", {}))).text == "gold"
    assert quick == [0.05, seconds]
