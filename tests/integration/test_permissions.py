"""What can allow a call, through every door: whatever is not understood runs nothing, and the answer states what to do.

`DOORS` is a table of {every door} x {every malformation}. A call ``pay(euros=1000)`` waits for approval; `PAID` is the
effect. To add a door, add a row: how it sends something to a run that waits, and what is malformed in its wire format.
A cell that cannot exist states the reason.

The ASGI application has the same handlers as the web server. The dialogs of the page and of the terminal app have no
wire format: their tests are theirs.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import itertools
import json
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stderr, redirect_stdout
from typing import Any, ClassVar, TypeAlias, cast

import aiohttp
import mcp
import msgspec
import pytest
from mcp.types import ElicitResult
from msgspec import Struct
from msgspec.structs import replace

from rxworker import Answer, Approve, Deny, Paused, Worker, before_tool_call, on_turn_end, tool, worker_tool
from rxworker.adapters.mcp import McpServer
from rxworker.cli import main
from rxworker.errors import RxWorkerError
from rxworker.events import RunPause
from rxworker.events.pause import RECOVERY
from rxworker.hooks import Pause, Skip, ToolCallContext, TurnEndContext
from rxworker.log import EventLog, MemoryLog, open_log
from rxworker.log.format import entries_of
from rxworker.log.recover import DECIDE
from rxworker.log.values import Command, resumed_id
from rxworker.providers import Request
from rxworker.resume.paused import VERSION
from rxworker.testing import Call, Reply, ScriptedModel, say
from rxworker.ui.web import WebRequest, WebServer
from rxworker.worker import load_paused, save_paused
from tests.adapters.acp import test_agent as acp
from tests.adapters.mcp import test_mcp
from tests.log.processes import stored

PAID: list[int] = []


@pytest.fixture(autouse=True)
def nothing_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    PAID.clear()


@tool(requires_approval=True)
def pay(euros: int) -> str:
    """Pay an amount."""
    PAID.append(euros)
    return f"paid {euros}"


@before_tool_call(name="limit", matcher="pay")
def limit(context: ToolCallContext) -> Skip | None:
    return Skip("666 is forbidden") if context.input.get("euros") == 666 else None


def script(request: Request) -> Reply:
    messages = list(request.conversation.messages)
    results = messages[-1].tool_results
    if results and not (len(messages) < 4 and messages[0].text.startswith("again")):
        return say("Done: " + "; ".join(result.text for result in results))
    if messages[-1].text.startswith("inside"):
        return Reply(tool_calls=(Call("ask", {"task": "pay"}, "ask_1"),))
    name = "pay_2" if results else "pay_1"
    call = Call("pay", {"euros": 1000}, name)
    return Reply(tool_calls=(call, call) if messages[-1].text.startswith("twins") else (call,))


def make_worker() -> Worker:
    ask = worker_tool(Worker(ScriptedModel(script), tools=[pay], hooks=[limit]), name="ask", description="Ask.")
    return Worker(ScriptedModel(script), tools=[pay, ask], hooks=[limit])


# The doors

CASES = (
    "missing",
    "empty",
    "misspelt",
    "wrong type",
    "unknown member",
    "unknown call",
    "two calls of one id",
    "inside another call",
    "text for an object",
    "edited and then forbidden",
    "stale",
    "of another user",
    "twice",
)


class Cell(Struct, frozen=True):
    """What a client sends, and what follows.

    Attributes:
        sent: What is sent to the run, one after the other; ``RUN`` in it is the id of the run.
        answer: What the last answer contains.
        begins: The message with which the run begins.
        waits: Whether the call still waits afterwards.
        paid: What was paid.
        user: Who sends it.
    """

    sent: Sequence[Any]
    answer: str
    begins: str = "pay"
    waits: bool = True
    paid: Sequence[int] = ()
    user: str = "ada"


Cells: TypeAlias = Mapping[str, Sequence[Cell] | str]


def inside(sent: Any, answer: str, *paid: int, waits: bool = False) -> Cell:
    """The call waits in a run that another call has begun."""
    return Cell([sent], answer, "inside", waits, paid)


def no(sent: Any, answer: str) -> Cell:
    """It is refused, and the call waits."""
    return Cell([sent], answer)


class Door(ABC):
    """How clients reach a run.

    Attributes:
        right: What approves the call.
        cells: What is malformed; for a cell that cannot exist, the reason.
    """

    right: ClassVar[Any]
    cells: ClassVar[Cells]

    async def open(self, stack: AsyncExitStack) -> None:  # noqa: B027 - a door may have nothing to open
        """Begin to serve."""

    @abstractmethod
    async def begin(self, text: str) -> str:
        """Begin a run, and wait until it waits. Returns its id."""

    @abstractmethod
    async def send(self, run_id: str, sent: Any, user: str) -> str:
        """Send something to the run, and return the answer, or that of the run when it has ended."""

    @abstractmethod
    async def waits(self, run_id: str) -> bool:
        """Whether the run still waits."""


def named(sent: Any, run_id: str) -> Any:
    if isinstance(sent, bytes):
        return sent.replace(b"RUN", run_id.encode())
    return json.loads(json.dumps(sent).replace("RUN", run_id))


YES, NO = {"type": "approve"}, {"type": "deny"}
TWO = '{"euros": 1, "euros": 1000}'
"""Arguments as a text, of which it is not known what a person meant."""


def by_name(request: WebRequest) -> str:
    return request.headers.get("X-User", "")


class WebDoor(Door):
    """A door of the web server. One server is enough for all rows."""

    async def open(self, stack: AsyncExitStack) -> None:
        server = await stack.enter_async_context(WebServer(make_worker, port=0, user=by_name))
        self.http = await stack.enter_async_context(aiohttp.ClientSession(server.url, trust_env=False))
        self.number = 0

    async def post(self, path: str, body: Any, user: str = "ada") -> tuple[int, str, str]:
        self.number += 1
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"X-User": user, "Content-Type": "application/json"}
        async with self.http.post(path, data=data, headers=headers) as answer:
            return answer.status, await answer.text(), answer.headers.get("X-Rxworker-Run", "")

    async def state(self, run_id: str) -> dict[str, Any]:
        async with self.http.get(f"api/runs/{run_id}", headers={"X-User": "ada"}) as answer:
            return await answer.json()

    async def waits(self, run_id: str) -> bool:
        state = await self.state(run_id)
        return state["status"] == "paused" and state["resumed_as"] is None

    async def begin(self, text: str) -> str:
        _, told, _ = await self.post("api/runs", {"input": text})
        run = json.loads(told)["id"]
        await self.ended(run)
        return run

    async def ended(self, run_id: str) -> str:
        async with self.http.get(f"api/runs/{run_id}/events", headers={"X-User": "ada"}) as events:
            return await events.text()


class Http(WebDoor):
    """``POST /api/runs/ID/resume``."""

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        body = b"" if sent is None else named(sent, run_id)
        status, told, _ = await self.post(f"api/runs/{run_id}/resume", body, user)
        return await self.ended(json.loads(told)["id"]) if status == 201 else f"{status} {told}"

    right: ClassVar[Any] = {"decisions": {"pay_1": YES}}
    cells: ClassVar[Cells] = {
        "missing": [
            no(None, "400 .*decisions and continue are both missing"),
            no({}, "400 .*both missing"),
            no({"decisions": {"pay_1": {}}}, r"400 .*decisions\['pay_1'\].type is missing"),
            no({"decisions": {"pay_1": {"type": "answer"}}}, r"400 .*content is missing"),
        ],
        "empty": [
            no({"decisions": {}}, "400 .*decisions has no decision"),
            no({"decisions": []}, "400 .*decisions has no decision"),
            no({"decisions": [None]}, "400 .*decisions has no decision"),
            no({"continue": True}, "400 .*paused at the call 'pay_1' of pay"),
        ],
        "misspelt": [
            no({"Decisions": {"pay_1": NO}}, "400 .*did you mean 'decisions'"),
            no({"decision": {"pay_1": NO}}, "400 .*did you mean 'decisions'"),
            no({"decisions": {"pay_1": {"type": "aprove"}}}, "400 .*did you mean 'approve'"),
            no({"decisions": {"pay_1": {"Type": "deny"}}}, "400 .*type is missing"),
            no({"decisions": {"pay_1": {**YES, "inputs": {"euros": 1}}}}, "did you mean 'input'"),
            no({"decisions": {"pay_1": {**YES, "Input": {"euros": 1}}}}, "did you mean 'input'"),
            no({"Continue": True}, "400 .*did you mean 'continue'"),
        ],
        "wrong type": [
            no("approve", "400 .*the body: expected `object`"),
            no([YES], "400 .*the body: expected `object`"),
            no({"decisions": "approve"}, "400 .*decisions: expected"),
            no({"decisions": {"pay_1": "approve"}}, "400 .*is a text"),
            no({"decisions": {"pay_1": True}}, "400 .*is a boolean"),
            no({"decisions": {"pay_1": None}}, "400 .*is null"),
            no({"decisions": {"pay_1": {"type": True}}}, "400 .*type is True"),
            no({"decisions": {"pay_1": {**YES, "always": "false"}}}, "400 .*always: expected"),
            no({"decisions": {"pay_1": {**YES, "input": [1]}}}, "400 .*input: expected"),
            no({"decisions": {"pay_1": {**YES, "input": None}}}, "400 .*input: expected"),
            no({"decisions": {"pay_1": {**NO, "reason": 1}}}, "400 .*reason: expected"),
            no({"continue": "true"}, "400 .*continue: expected `bool`"),
            no({"continue": 1}, "400 .*continue: expected `bool`"),
            no(b"{'decisions'}", "400 .*not valid JSON"),
        ],
        "unknown member": [
            no({"decisions": {"pay_1": YES}, "x": 1}, "400 .*x: there is no such member"),
            no({"decisions": {"pay_1": {**YES, "editedArgs": {}}}}, "editedArgs: there is no such"),
            no({"decisions": {"pay_1": {**NO, "input": {}}}}, "input: there is no such member"),
            no({"decisions": {"pay_1": YES}, "continue": True}, "400 .*both given"),
            no(b'{"decisions": {"pay_1": {"type": "deny"}, "pay_1": {"type": "approve"}}}', "twice"),
            no(b'{"decisions": {"pay_1": {"type": "deny", "type": "approve"}}}', "twice"),
            no({"decisions": {"pay_1": {**YES, "input": TWO}}}, "400 .*'euros' twice"),
        ],
        "unknown call": [
            no({"decisions": {"pay_9": YES}}, "400 .*no pending call has the id 'pay_9'"),
            no({"decisions": {"pay_1": YES, "pay_9": NO}}, "400 .*pending are: 'pay_1' of pay"),
            no({"decisions": [YES, YES]}, "400 .*2 decisions about 1 pending calls"),
        ],
        "two calls of one id": [
            Cell([{"decisions": {"pay_1": YES}}], "400 .*give a list with one", "twins"),
            Cell([{"decisions": {"pay_1": NO}}], "400 .*give a list with one", "twins"),
            Cell([{"decisions": [NO, NO]}], "not approved", "twins", waits=False),
        ],
        "inside another call": [
            inside({"decisions": {"ask_1/pay_1": YES}}, "paid 1000", 1000),
            inside({"decisions": [None, {**YES, "input": {"euros": 5}}]}, "paid 5", 5),
            inside({"decisions": {"ask_1/pay_1": {**YES, "input": {"euros": 666}}}}, "666 is forbidden"),
            inside({"decisions": {"ask_1": NO}}, "not approved"),
            inside({"decisions": {"ask_1": YES}}, "400 .*'ask_1/pay_1' of pay in ask", waits=True),
            inside({"decisions": {"ask_2/pay_1": YES}}, "400 .*did you mean|400 .*no pending call", waits=True),
            inside({"decisions": {"ask_1/pay_1": {**YES, "always": True}}}, "400 .*always", waits=True),
        ],
        "text for an object": [
            no({"decisions": {"pay_1": {**YES, "input": "1"}}}, "400 .*give an object"),
            no({"decisions": {"pay_1": {**YES, "input": ""}}}, "400 .*give an object"),
            no({"decisions": {"pay_1": {**YES, "input": "null"}}}, "400 .*give an object"),
            Cell([{"decisions": {"pay_1": {**YES, "input": '{"e\\u0075ros": 666}'}}}], "666 is forbidden", waits=False),
        ],
        "edited and then forbidden": [
            Cell([{"decisions": {"pay_1": {**YES, "input": {"euros": 666}}}}], "666 is forbidden", waits=False)
        ],
        "stale": [Cell([right, right], "409 .*resumed already", "again", waits=False, paid=[1000])],
        "of another user": [Cell([right], "404 ", user="bob")],
        "twice": [Cell([right, right], "409 .*resumed already", waits=False, paid=[1000])],
    }


class Socket(WebDoor):
    """The WebSocket, which carries no decisions."""

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        async with self.http.ws_connect("api/ws", headers={"X-User": user}) as socket:
            await socket.receive_json()
            await socket.send_json(named(sent, run_id))
            while (message := await socket.receive_json())["type"] != "error":
                pass
            return json.dumps(message)

    right: ClassVar[Any] = None
    _resume: ClassVar[Any] = {"type": "resume", "run": "RUN", "decisions": {"pay_1": YES}}
    cells: ClassVar[Cells] = {
        **dict.fromkeys(CASES, "no message of the socket carries a decision"),
        "unknown member": [no(_resume, "resume"), no({"type": "send", "run": "RUN", "message": "yes"}, "send")],
    }


def resolved(payload: Any, name: str = "RUN:pay_1") -> list[Any]:
    return [{"interruptId": name, "status": "resolved", "payload": payload}]


class AgUi(WebDoor):
    """The ``resume`` of an AG-UI client."""

    async def begin(self, text: str) -> str:
        self.thread = f"thread-{self.number}"
        body = {"threadId": self.thread, "runId": "r", "messages": [{"id": "1", "role": "user", "content": text}]}
        status, told, run = await self.post("ag-ui", body)
        assert status == 200, told
        return run

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        given = named(sent, run_id)
        more: dict[str, Any] = {} if isinstance(given, bytes) else {"resume": given}
        if isinstance(given, dict):
            more = cast("dict[str, Any]", given)
        body: Any = {"threadId": self.thread, "runId": "s", "messages": [], **more}
        if isinstance(given, bytes):  # the last members of the body
            body = json.dumps(body).encode()[:-1] + b", " + given + b"}"
        status, told, _ = await self.post("ag-ui", body, user)
        return f"{status} {told}"

    right: ClassVar[Any] = resolved({"approved": True})
    cells: ClassVar[Cells] = {
        "missing": [
            no(resolved(None), "400 .*payload is missing"),
            no([{"interruptId": "RUN:pay_1", "status": "resolved"}], "400 .*payload is missing"),
            no(resolved({}), "400 .*payload.approved is missing"),
            no([{"status": "resolved", "payload": True}], "400 .*interruptId is missing"),
            no([{"interruptId": "RUN:pay_1", "payload": True}], "400 .*status is missing"),
        ],
        "empty": [
            no([], "400 .*nothing to answer"),
            no({"resume": None}, "400 .*nothing to answer"),
            no(resolved(True, "RUN:"), "400 .*decision about the call 'pay_1'"),
            no(resolved("go on", "RUN:"), "400 .*decision about the call 'pay_1'"),
            no([{"interruptId": "RUN:", "status": "cancelled"}], "400 .*decision about the call"),
        ],
        "misspelt": [
            no({"Resume": right}, "400 .*nothing to answer"),
            no(resolved({"aproved": True}), "400 .*did you mean 'approved'"),
            no(resolved({"approve": False}), "400 .*did you mean 'approved'"),
            no(resolved({"approved": True, "edited_args": {}}), "400 .*did you mean 'editedArgs'"),
            no([{"interruptId": "RUN:pay_1", "status": "resolvd", "payload": True}], "400 .*status"),
        ],
        "wrong type": [
            no(resolved({"approved": "false"}), "400 .*approved: expected"),
            no(resolved({"approved": 1}), "400 .*approved: expected"),
            no(resolved([True]), "400 .*payload: expected"),
            no(resolved(1), "400 .*payload: expected"),
            no(resolved({"approved": True, "editedArgs": [1]}), "400 .*editedArgs: expected"),
            no(resolved({"approved": True, "editedArgs": None}), "400 .*editedArgs: expected"),
            no({"resume": {"interruptId": "RUN:pay_1"}}, "400 .*resume: expected"),
        ],
        "unknown member": [
            no(resolved({"approved": True, "input": {"euros": 1}}), "400 .*input: there is no"),
            no([{**right[0], "decision": "deny"}], "400 .*decision: there is no such member"),
            no(
                b'"resume": [{"interruptId": "RUN:pay_1", "status": "resolved", "payload": false}], '
                b'"resume": [{"interruptId": "RUN:pay_1", "status": "resolved", "payload": true}]',
                "400 .*'resume' twice",
            ),
        ],
        "unknown call": [
            no(resolved(True, "RUN:pay_9"), "400 .*no pending call has the id 'pay_9'"),
            no(resolved(True, "pay_1"), "400 .*not an interrupt of this server"),
            no([*right, *resolved(False)], "400 .*two different answers"),
            no([*right, *resolved(True, "RUN:")], "400 .*decision about the call 'pay_1'"),
            no([*right, *resolved("go on", "RUN:")], "400 .*decision about the call 'pay_1'"),
        ],
        "two calls of one id": [
            Cell([resolved(True, "RUN:pay_1~2")], "400 .*no decision was given", "twins"),
            Cell([[*resolved(False), *resolved(False, "RUN:pay_1~2")]], "200 ", "twins", waits=False),
        ],
        "inside another call": [
            inside(resolved(True, "RUN:ask_1/pay_1"), "200 .*paid 1000", 1000),
            inside(resolved({"approved": True, "editedArgs": {"euros": 5}}, "RUN:ask_1/pay_1"), "200 .*paid 5", 5),
            inside(resolved(False, "RUN:ask_1"), "200 .*not approved"),
            inside(resolved(True, "RUN:ask_1"), "400 .*'ask_1/pay_1' of pay in ask", waits=True),
        ],
        "text for an object": [
            no(resolved({"approved": True, "editedArgs": "1"}), "400 .*give an object"),
            no(resolved({"approved": True, "editedArgs": TWO}), "400 .*'euros' twice"),
            Cell([resolved({"approved": True, "editedArgs": '{"euros": 666}'})], "666 is forbidden", waits=False),
        ],
        "edited and then forbidden": [
            Cell([resolved({"approved": True, "editedArgs": {"euros": 666}})], "666 is forbidden", waits=False)
        ],
        "stale": [Cell([right, right], "409 .*resumed already", "again", waits=False, paid=[1000])],
        "of another user": [Cell([right], "404 ", user="bob")],
        "twice": [Cell([right, right], "409 .*resumed already", waits=False, paid=[1000])],
    }


def responded(state: str = "approval-responded", **approval: Any) -> dict[str, Any]:
    return {"state": state, "approval": {"id": "RUN:pay_1", **approval}}


class Chat(WebDoor):
    """The approval in the last message of ``useChat``."""

    async def begin(self, text: str) -> str:
        self.chat, self.text = f"chat-{self.number}", text
        user = {"id": "1", "role": "user", "parts": [{"type": "text", "text": text}]}
        status, told, run = await self.post("api/chat", {"id": self.chat, "messages": [user]})
        assert status == 200, told
        return run

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        given = named(sent, run_id)
        call = {"type": "tool-pay", "toolCallId": "pay_1", "input": {"euros": 1000}}
        several = cast("list[Any]", given) if isinstance(given, list) else [given]
        parts = [call if isinstance(part, bytes) else {**call, **part} for part in several]
        messages: list[Any] = [
            {"id": "1", "role": "user", "parts": [{"type": "text", "text": self.text}]},
            {"id": "2", "role": "assistant", "parts": parts},
        ]
        body: Any = {"id": self.chat, "messages": messages}
        if isinstance(given, bytes):  # the last members of the last part
            body = json.dumps(body).encode().removesuffix(b"}]}]}") + b", " + given + b"}]}]}"
        status, told, _ = await self.post("api/chat", body, user)
        return f"{status} {told}"

    right: ClassVar[Any] = responded(approved=True)
    cells: ClassVar[Cells] = {
        "missing": [
            no(responded(), "400 .*approval.approved is missing"),
            no({"state": "approval-responded"}, "400 .*approval.id is missing"),
            no({"state": "approval-responded", "approval": {"approved": True}}, "approval.id is"),
        ],
        "empty": [
            no({"state": "approval-responded", "approval": {}}, "400 .*approval.id is missing"),
            no({"state": "input-available"}, "400 .*nothing to answer"),
        ],
        "misspelt": [
            no(responded(aproved=True), "400 .*did you mean 'approved'"),
            no(responded(approve=False), "400 .*did you mean 'approved'"),
            no(responded("approval-respond", approved=True), "400 .*nothing to answer"),
        ],
        "wrong type": [
            no(responded(approved="false"), "400 .*approved: expected"),
            no(responded(approved=1), "400 .*approved: expected"),
            no(responded(approved=None), "400 .*approved: expected"),
            no({"state": "approval-responded", "approval": True}, "400 .*approval is a boolean"),
            no(responded(approved=True, reason=1), "400 .*reason: expected"),
        ],
        "unknown member": [
            no(responded(approved=True, input={"euros": 1}), "400 .*input: there is no such"),
            no(
                b'"state": "approval-responded", "approval": {"id": "RUN:pay_1", "approved": false}, '
                b'"approval": {"id": "RUN:pay_1", "approved": true}',
                "400 .*'approval' twice",
            ),
            no(
                b'"state": "output-denied", "state": "approval-responded", '
                b'"approval": {"id": "RUN:pay_1", "approved": true}',
                "400 .*'state' twice",
            ),
        ],
        "unknown call": [
            no(responded(id="RUN:pay_9", approved=True), "400 .*no pending call has the id"),
            no(responded(id="pay_1", approved=True), "400 .*not an interrupt of this server"),
            no(responded(id="RUN:", approved=True), "400 .*no pending call has the id ''"),
            no([right, responded(approved=False)], "400 .*two different answers"),
            no(responded(isAutomatic=True, approved=True), "400 .*nothing to answer"),
        ],
        "two calls of one id": [
            Cell([responded(id="RUN:pay_1~2", approved=True)], "400 .*no decision", "twins"),
            Cell(
                [[responded(approved=False), responded(id="RUN:pay_1~2", approved=False)]], "200 ", "twins", waits=False
            ),
        ],
        "inside another call": [
            inside(
                {**responded(id="RUN:ask_1/pay_1", approved=True), "toolCallId": "inside:ask_1/pay_1"},
                "200 .*tool-output-available.*inside:ask_1/pay_1.*paid 1000",
                1000,
            ),
            inside(responded(id="RUN:ask_1/pay_1", approved=False), "200 .*not approved"),
            inside(responded(id="RUN:ask_1/pay_9", approved=True), "400 .*no pending call", waits=True),
        ],
        "text for an object": "an approval of useChat has no arguments: they are not read from the message",
        "edited and then forbidden": "an approval of useChat has no arguments",
        "stale": [Cell([right, right], "409 .*resumed already", "again", waits=False, paid=[1000])],
        "of another user": [Cell([right], "404 ", user="bob")],
        "twice": [Cell([right, right], "409 .*resumed already", waits=False, paid=[1000])],
    }


CANNOT = "a client of OpenAI's APIs can give results of calls, which run nothing, and approve none"
FUNCTION = {"name": "pay", "arguments": '{"euros": 1000}'}


class Completions(WebDoor):
    """The results of tools of a client of Chat Completions."""

    async def begin(self, text: str) -> str:
        self.text = f"{text} {self.number}"  # two runs with the same messages cannot be distinguished
        messages = [{"role": "user", "content": self.text}]
        body = {"model": "worker", "messages": messages}
        status, told, _ = await self.post("v1/chat/completions", body)
        assert status == 200, told
        return json.loads(told)["id"]

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        calls = [{"id": "pay_1", "type": "function", "function": FUNCTION}]
        messages = [
            {"role": "user", "content": self.text},
            {"role": "assistant", "content": None, "tool_calls": calls},
            *named(sent, run_id),
        ]
        body = {"model": "worker", "messages": messages}
        status, told, _ = await self.post("v1/chat/completions", body, user)
        return f"{status} {told}"

    _result: ClassVar[Any] = {"role": "tool", "tool_call_id": "pay_1", "content": "yes"}
    right: ClassVar[Any] = None
    cells: ClassVar[Cells] = {
        **dict.fromkeys(CASES, CANNOT),
        "missing": [no([{"role": "tool", "content": "yes"}], "400 .*needs the id of its call")],
        "empty": [no([], "400 .*nothing to answer")],
        "misspelt": [no([{"role": "tool", "tool_call": "pay_1", "content": "yes"}], "400 .*id")],
        "wrong type": [no([{**_result, "tool_call_id": 1}], "400 .*tool_call_id")],
        "unknown member": [Cell([[{**_result, "approved": True}]], "200 .*yes", waits=False)],
        "unknown call": [no([{**_result, "tool_call_id": "pay_9"}], "200 ")],
        "two calls of one id": [Cell([[_result]], "200 .*waits for a decision about pay", "twins", waits=False)],
        "of another user": [Cell([[_result]], "200 ", user="bob")],
        "twice": [Cell([[_result], [_result]], "200 ", waits=False)],
    }


class Responses(WebDoor):
    """The results of tools of a client of Responses."""

    async def begin(self, text: str) -> str:
        status, told, _ = await self.post("v1/responses", {"model": "worker", "input": text})
        assert status == 200, told
        return json.loads(told)["id"]

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        body = {"model": "worker", "previous_response_id": run_id, "input": named(sent, run_id)}
        status, told, _ = await self.post("v1/responses", body, user)
        return f"{status} {told}"

    _result: ClassVar[Any] = {"type": "function_call_output", "call_id": "pay_1", "output": "yes"}
    right: ClassVar[Any] = None
    cells: ClassVar[Cells] = {
        **dict.fromkeys(CASES, CANNOT),
        "missing": [no([{"type": "function_call_output", "output": "yes"}], "400 .*needs the id")],
        "empty": [no([], "400 .*nothing to answer")],
        "wrong type": [no([{**_result, "call_id": 1}], "400 .*call_id")],
        "unknown member": [
            Cell([[{**_result, "approved": True}]], "200 .*yes", waits=False),
            no([{"type": "mcp_approval_response", "approve": True}], "400 .*not supported"),
        ],
        "of another user": [Cell([[_result]], "404 ", user="bob")],
    }


def accepted(content: Any) -> list[Any]:
    return ["accept", content]


NOT_FILLED = "Done: The form was not filled in: form"


def denied(content: Any, answer: str = NOT_FILLED, action: str = "accept") -> Cell:
    return Cell([[action, content]], answer, waits=False)


class Mcp(Door):
    """The form of an MCP client. Whatever does not approve denies: the client cannot always answer again."""

    mode = "auto"

    async def open(self, stack: AsyncExitStack) -> None:
        self.log = await stack.enter_async_context(MemoryLog())
        server = McpServer({"clerk": make_worker}, log=self.log)
        self.url = await stack.enter_async_context(server.listen())
        self.stack = stack
        self.using = await stack.enter_async_context(test_mcp.client(self.url, self.mode, self.elicit))

    async def elicit(self, *_: Any) -> ElicitResult:
        raise AssertionError

    async def begin(self, text: str) -> str:
        self.text = text
        asked = await self.using.session.call_tool("clerk", {"message": text}, allow_input_required=True)
        assert isinstance(asked, mcp.types.InputRequiredResult)
        self.state = asked.request_state
        (info,) = await self.log.list(limit=1)
        return info.run_id

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        action, content = sent or (None, None)
        given = ElicitResult(action=action, content=content) if action else None
        responses: Any = {} if given is None else {"approval": given}
        try:
            result = await self.using.session.call_tool(
                "clerk",
                {"message": self.text},
                input_responses=responses,
                request_state=self.state,
                allow_input_required=True,
            )
        except mcp.MCPError as error:
            return str(error)
        if isinstance(result, mcp.types.InputRequiredResult):
            return "it waits again"
        return test_mcp.text_of(result)

    async def waits(self, run_id: str) -> bool:
        return await self.log.info(f"{run_id}~2") is None and await is_paused(self.log, run_id)

    right: ClassVar[Any] = accepted({"approve": True})
    cells: ClassVar[Cells] = {
        "missing": [no(None, "nothing was decided"), denied(None), denied({"reason": "do not"})],
        "empty": [denied({}, f"{NOT_FILLED}.approve is missing")],
        "misspelt": [
            denied({"Approve": True}, "did you mean 'approve'"),
            denied({"approved": True}, "did you mean 'approve'"),
            denied({"approve": True, "reasons": "no"}, "did you mean 'reason'"),
        ],
        "wrong type": [
            denied({"approve": "true"}, "approve: expected"),
            denied({"approve": 1}, "approve: expected"),
            denied({"approve": False}, "This call was not approved"),
            denied({"approve": True}, "This call was not approved", "decline"),
            denied({"approve": True}, "cancelled", "cancel"),
        ],
        "unknown member": [denied({"approve": True, "input": "x"}, "input: there is no such")],
        "unknown call": "a form has no id of a call",
        "two calls of one id": [Cell([accepted({"approve": False})], "not approved|waits again", "twins", waits=False)],
        "inside another call": [
            inside(accepted({"approve": True}), "paid 1000", 1000),
            inside(accepted({"approve": False}), "not approved"),
        ],
        "text for an object": "a form has no arguments",
        "edited and then forbidden": "a form has no arguments",
        "stale": [Cell([right, right], "resumed already", "again", waits=False, paid=[1000])],
        "of another user": "the state of a request is encrypted, and belongs to who has it",
        "twice": [Cell([right, right], "resumed already", waits=False, paid=[1000])],
    }


class McpLegacy(Mcp):
    """The same until revision 2025-11-25, where the server sends the form during the call."""

    mode = "legacy"

    async def elicit(self, *_: Any) -> ElicitResult:
        return self.reply

    async def begin(self, text: str) -> str:
        self.text = text
        return "the run of the next call"

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        action, content = sent
        self.reply = ElicitResult(action=action, content=content)
        return test_mcp.text_of(await self.using.call_tool("clerk", {"message": self.text}))

    async def waits(self, run_id: str) -> bool:
        return await waits_in(self.log)

    right: ClassVar[Any] = Mcp.right
    cells: ClassVar[Cells] = {
        **Mcp.cells,
        "missing": [denied(None), denied({"reason": "do not"})],
        "two calls of one id": [Cell([accepted({"approve": False})], "not approved", "twins", waits=False)],
        "stale": "a form belongs to a request of the server, which is answered once",
        "twice": "a form belongs to a request of the server, which is answered once",
    }


async def waits_in(log: MemoryLog) -> bool:
    """Whether a run waits that was not resumed."""
    runs = {info.run_id: info.status for info in await log.list()}
    return any(runs[name] == "paused" and resumed_id(name) not in runs for name in runs)


async def is_paused(log: EventLog, run_id: str) -> bool:
    info = await log.info(run_id)
    return info is not None and info.status == "paused"


class Editor(acp.Client):
    """An ACP client that answers with raw results."""

    results: Sequence[Any] = ()

    async def write(self, line: bytes) -> None:
        message = json.loads(line)
        if message.get("method") != "session/request_permission":
            return await super().write(line)
        self.questions.append(message["params"])
        for result in self.results:
            data = result if isinstance(result, bytes) else json.dumps(result).encode()
            self.send_line(b'{"jsonrpc": "2.0", "id": %d, "result": %b}' % (message["id"], data))
        self.results = [{"outcome": {"outcome": "cancelled"}}]
        return None


def chosen(option: Any = "allow_once", **more: Any) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option, **more}}


class Acp(Door):
    """The choice of the user of an ACP client."""

    async def open(self, stack: AsyncExitStack) -> None:
        self.stack = stack

    async def begin(self, text: str) -> str:
        self.text = text
        return "the run of the next prompt"

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        log, editor = MemoryLog(), Editor()
        self.log = log
        task = asyncio.create_task(acp.AcpAgent(make_worker, editor, log=log).serve())
        editor.results = sent if isinstance(sent, list) else [sent]
        try:
            await editor.prompt(await editor.open(), self.text)
        except acp.RefusedError as error:
            return str(error)
        finally:
            editor.leave()
            await task
        return f"answered: {editor.text}"

    async def waits(self, run_id: str) -> bool:
        return await waits_in(self.log)

    right: ClassVar[Any] = chosen()
    cells: ClassVar[Cells] = {
        "missing": [
            no({}, "outcome"),
            no({"outcome": {}}, "outcome"),
            no({"outcome": {"outcome": "selected"}}, "optionId is missing"),
        ],
        "empty": [no(chosen(""), "optionId is missing")],
        "misspelt": [
            no({"outcome": {"outcome": "selected", "optionID": "allow_once"}}, "optionID"),
            no({"outcome": {"outcome": "Selected", "optionId": "allow_once"}}, "Selected"),
            no(chosen("allow"), "did you mean 'allow_"),
            no(chosen("allow_onc"), "did you mean 'allow_once'"),
        ],
        "wrong type": [
            no(chosen(True), "optionId"),
            no({"outcome": "selected"}, "outcome"),
            no("allow_once", "request_permission"),
        ],
        "unknown member": [
            no(chosen(input={"euros": 1}), "input"),
            no({**chosen(), "approved": False}, "approved"),
            no(
                b'{"outcome": {"outcome": "selected", "optionId": "reject_once", "optionId": "allow_once"}}',
                "'optionId' twice",
            ),
        ],
        "unknown call": "an answer belongs to a request, which is about one call",
        "two calls of one id": [Cell([chosen("reject_once")], "answered", "twins", waits=False)],
        "inside another call": [
            inside(chosen(), "paid 1000", 1000),
            inside(chosen("reject_once"), "answered"),
            inside(chosen("allow_always"), "optionId", waits=True),
        ],
        "text for an object": "a choice has no arguments",
        "edited and then forbidden": "a choice has no arguments",
        "stale": "an answer belongs to a request; a second one to the same is dropped",
        "of another user": "an agent of this protocol has one user",
        "twice": [Cell([[right, right]], "paid 1000", waits=False, paid=[1000])],
    }


class Stored(Door):
    """A ``decide`` command in the log."""

    async def open(self, stack: AsyncExitStack) -> None:
        self.log = await stack.enter_async_context(MemoryLog())

    async def begin(self, text: str) -> str:
        worker = make_worker()
        worker.log = self.log
        return (await worker.run(text)).run_id

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        other = make_worker()
        other.log = self.log
        try:
            await self.log.send(run_id, Command(DECIDE, sent, key=DECIDE))
            result = await other.recover(run_id)
        except RxWorkerError as error:
            return str(error)
        return result.text

    async def waits(self, run_id: str) -> bool:
        return await self.log.info(f"{run_id}~2") is None and await is_paused(self.log, run_id)

    right: ClassVar[Any] = {"decisions": [YES]}
    cells: ClassVar[Cells] = {
        "missing": [no({}, "decisions is missing.*resume it in a program"), no({"decisions": [{}]}, "type")],
        "empty": [no({"decisions": []}, "0 decisions"), no({"decisions": [None]}, "no decision")],
        "misspelt": [
            no({"Decisions": [YES]}, "did you mean 'decisions'"),
            no({"decisions": [{"type": "aprove"}]}, "aprove"),
        ],
        "wrong type": [
            no({"decisions": None}, "decisions: expected"),
            no({"decisions": {"pay_1": YES}}, "decisions: expected"),
            no({"decisions": ["approve"]}, "expected"),
            no({"decisions": [{**YES, "input": 1}]}, "input: expected"),
        ],
        "unknown member": [
            no({"decisions": [YES], "always": True}, "always: there is no such member"),
            no({"decisions": [{**YES, "inputs": {}}]}, "inputs: there is no such member"),
        ],
        "unknown call": [no({"decisions": [YES, YES]}, "2 decisions about 1 pending calls")],
        "two calls of one id": [Cell([{"decisions": [NO, NO]}], "not approved", "twins", waits=False)],
        "inside another call": [
            inside({"decisions": [None, YES]}, "paid 1000", 1000),
            inside({"decisions": [None, {**YES, "input": {"euros": 666}}]}, "666 is forbidden"),
            inside({"decisions": [YES]}, "1 decisions about 2 pending calls", waits=True),
            inside({"decisions": [YES, None]}, "'ask_1/pay_1' of pay in ask", waits=True),
        ],
        "text for an object": [
            no({"decisions": [{**YES, "input": "1"}]}, "give an object"),
            no({"decisions": [{**YES, "input": TWO}]}, "'euros' twice"),
            Cell([{"decisions": [{**YES, "input": '{"euros": 666}'}]}], "forbidden", waits=False),
        ],
        "edited and then forbidden": [
            Cell([{"decisions": [{**YES, "input": {"euros": 666}}]}], "forbidden", waits=False)
        ],
        "stale": "a command belongs to one pause of one run",
        "of another user": "who can write to the log is trusted",
        "twice": [Cell([right, right], "decided|sent|already", waits=False, paid=[1000])],
    }


class CommandLine(Door):
    """``rxworker runs decide``: what is sent are its arguments."""

    async def open(self, stack: AsyncExitStack) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.address = f"sqlite:{folder}/runs.db"
        self.log = await stack.enter_async_context(open_log(self.address))

    async def begin(self, text: str) -> str:
        worker = make_worker()
        worker.log = self.log
        return (await worker.run(text)).run_id

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            code = await asyncio.to_thread(main, ["runs", "--log", self.address, "decide", run_id, *sent])
        if code:
            return f"{code} {output.getvalue()}"
        other = make_worker()
        other.log = self.log
        return (await other.recover(run_id)).text

    async def waits(self, run_id: str) -> bool:
        return await self.log.info(f"{run_id}~2") is None and await is_paused(self.log, run_id)

    right: ClassVar[Any] = ["--approve", "pay_1"]
    cells: ClassVar[Cells] = {
        "missing": [
            no([], r"waits for pay_1: pay\(euros=1000\)\. Give --approve ID"),
            no(["--approve"], "expected one argument"),
            no(["--reason", "yes"], "Give --approve ID or --deny ID"),
            no(["--decisions", '{"decisions": {"pay_1": {}}}'], "type is missing"),
        ],
        "empty": [
            no(["--approve", ""], "no pending call has the id ''"),
            no(["--decisions", ""], "both missing"),
            no(["--decisions", '{"decisions": {}}'], "has no decision"),
            no(["--continue"], r"waits for pay_1: pay\(euros=1000\)\. Give --approve ID"),
        ],
        "misspelt": [
            no(["--aprove", "pay_1"], "unrecognized arguments"),
            no(["--app", "pay_1"], "unrecognized arguments"),
            no(["--decisions", '{"decisions": {"pay_1": {"type": "aprove"}}}'], "did you mean"),
        ],
        "wrong type": [
            no(["--decisions", "approve"], "not valid JSON"),
            no(["--decisions", '["approve"]'], "the body: expected `object`"),
            no(["approve"], "unrecognized arguments"),
        ],
        "unknown member": [
            no(["--decisions", '{"decisions": {"pay_1": {"type": "approve", "inputs": {}}}}'], "did you mean 'input'"),
            no(["--decisions", '{"decisions": {"pay_1": {"type": "approve", "always": true}}}'], "always is for"),
            no([*right, "--reason", "well"], "unclear|Give|--reason"),
        ],
        "unknown call": [
            no(["--approve", "pay_9"], "no pending call has the id 'pay_9'"),
            no([*right, "--deny", "pay_9"], "pending are: 'pay_1' of pay"),
        ],
        "two calls of one id": [
            Cell([["--deny", "pay_1"]], "", "twins", waits=False),
            Cell([["--deny", "pay_1", "--deny", "pay_1~2"]], "not approved", "twins", waits=False),
        ],
        "inside another call": [
            inside(["--approve", "ask_1/pay_1"], "paid 1000", 1000),
            inside(["--deny", "ask_1"], "not approved"),
            inside(["--approve", "ask_1"], "'ask_1/pay_1' of pay in ask", waits=True),
        ],
        "text for an object": [
            no(["--decisions", '{"decisions": {"pay_1": {"type": "approve", "input": "1"}}}'], "give an object")
        ],
        "edited and then forbidden": [
            Cell(
                [["--decisions", '{"decisions": {"pay_1": {"type": "approve", "input": {"euros": 666}}}}']],
                "forbidden",
                waits=False,
            )
        ],
        "stale": [Cell([["--deny", "pay_1"], right], "already", waits=False)],
        "of another user": "who can write to the log is trusted",
        "twice": [
            no([*right, "--deny", "pay_1"], "two different decisions"),
            no([*right, "--decisions", "{}"], "Give --approve ID or --deny ID"),
            no(
                [
                    *("--decisions", '{"decisions": {"pay_1": {"type": "deny"}}}'),
                    *("--decisions", '{"decisions": {"pay_1": {"type": "approve"}}}'),
                ],
                "--decisions is given twice",
            ),
            Cell([right, right], "already", waits=False, paid=[1000]),
        ],
    }


def tampered(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A saved run that was changed, and sealed again: without a key anyone can."""
    saved = json.loads(data)
    change(saved["state"])
    state = msgspec.json.encode(saved["state"])
    seal = hmac.new(b"rxworker", b"%d:%b" % (VERSION, state), hashlib.sha256).hexdigest()
    return msgspec.json.encode({"version": VERSION, "seal": seal, "state": msgspec.Raw(state)})


def without(name: str) -> Any:
    *path, last = name.split(".")

    def change(state: dict[str, Any]) -> None:
        del part_of(state, path)[last]

    return change, {"pay_1": Approve()}


def part_of(state: Any, path: Iterable[str]) -> Any:
    for name in path:
        state = state[int(name) if name.isdigit() else name]
    return state


def with_(path: str = "", **members: Any) -> Any:
    def change(state: dict[str, Any]) -> None:
        part_of(state, path.split(".") if path else ()).update(members)

    return change, {"pay_1": Approve()}


def with_input(given: Any) -> Any:
    return with_()[0], [Approve(given)]


class Saved(Door):
    """A paused run that was saved. What is sent is a change of it."""

    async def begin(self, text: str) -> str:
        paused = await make_worker().run(text)
        assert isinstance(paused, Paused)
        self.data, self.last, self.is_resumed = save_paused(paused), make_worker(), False
        return paused.run_id

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        change, decisions = sent
        try:
            paused = load_paused(tampered(self.data, change))
            result = await self.last.resume(paused, decisions=decisions)
        except RxWorkerError as error:
            return str(error)
        self.is_resumed = True
        return result.text

    async def waits(self, run_id: str) -> bool:
        return not self.is_resumed

    right: ClassVar[Any] = with_()
    cells: ClassVar[Cells] = {
        "missing": [
            no(without(name), f"required field `{name.rpartition('.')[2]}`")
            for name in (
                "run",
                "conversation",
                "signatures",
                "is_foreign",
                "pause",
                "pause.hook",
                "pause.calls",
                "pause.required",
                "pause.calls.0.place",
                "pause.calls.0.call",
            )
        ],
        "empty": [no(with_("pause", calls=[]), "required"), no(with_(signatures=[]), "0 calls were paused")],
        "misspelt": [
            no(with_("pause", requires=[0]), "requires"),
            no(with_("pause.calls.0", is_aproved=False), "is_aproved"),
            no(with_(Pause={}), "Pause"),
        ],
        "wrong type": [
            no(with_("pause", required="0"), "required"),
            no(with_("pause", required=[7]), "required"),
            no(with_("pause.calls.0", is_approved="yes"), "is_approved"),
        ],
        "unknown member": [
            no(with_(approved=True), "approved"),
            no(with_("pause", approved=True), "approved"),
            no(with_("pause.calls.0", approved=True), "approved"),
        ],
        "unknown call": [no(with_("pause", required=[9]), "required")],
        "two calls of one id": "the decisions are those of the program: its row has them",
        "inside another call": [
            inside(with_(), "paid 1000", 1000),
            inside(with_("pause.calls.0.begun.paused.calls.0.call", input={"euros": 1}), "was changed", waits=True),
            inside(with_("pause.calls.0.begun.paused", required=[3]), "required", waits=True),
            inside(with_("pause.calls.0.begun", allowed=True), "allowed", waits=True),
        ],
        "text for an object": [no(with_input("1"), "give an object"), no(with_input(TWO), "'euros' twice")],
        "edited and then forbidden": [Cell([with_input({"euros": 666})], "forbidden", waits=False)],
        "stale": [Cell([right, right], "resumed already", "again", waits=False, paid=[1000])],
        "of another user": "a key of the application tells its own saved runs from others",
        "twice": [Cell([right, right], "resumed already", waits=False, paid=[1000])],
    }


class Program(Door):
    """``worker.resume`` with what a program has read by itself."""

    async def begin(self, text: str) -> str:
        self.worker, self.is_resumed = make_worker(), False
        return (await self.worker.run(text)).run_id

    async def send(self, run_id: str, sent: Any, user: str) -> str:
        try:
            result = await self.worker.resume(decisions=sent)
        except RxWorkerError as error:
            return str(error)
        self.is_resumed = True
        return result.text

    async def waits(self, run_id: str) -> bool:
        return not self.is_resumed

    right: ClassVar[Any] = {"pay_1": Approve()}
    cells: ClassVar[Cells] = {
        "missing": "worker.resume() of the program itself approves the call that was shown",
        "empty": [no({}, "no decision was given"), no([], "0 decisions"), no([None], "no decision was given")],
        "misspelt": [no({"pay_1": "aprove"}, "is 'aprove'")],
        "wrong type": [
            no({"pay_1": True}, "is True"),
            no({"pay_1": YES}, "is {'type': 'approve'}"),
            no("approve", "decisions"),
            no({"pay_1": Approve(input=[1])}, "of type list"),  # pyright: ignore[reportArgumentType]
            no({"pay_1": Approve(input={1: 2})}, "not a string"),  # pyright: ignore[reportArgumentType]
        ],
        "unknown member": "the structs take none",
        "unknown call": [no({"pay_9": Approve()}, "no pending call has the id 'pay_9'")],
        "two calls of one id": [
            Cell([{"pay_1": Deny()}], "give a list", "twins"),
            Cell([[Deny(), Answer("no")]], "not approved", "twins", waits=False),
        ],
        "inside another call": [
            inside({"ask_1/pay_1": Approve()}, "paid 1000", 1000),
            inside([None, Approve({"euros": 666})], "666 is forbidden"),
            inside({"ask_1": Approve()}, "'ask_1/pay_1' of pay in ask", waits=True),
        ],
        "text for an object": [
            no({"pay_1": Approve("1")}, "give an object"),
            no({"pay_1": Approve(TWO)}, "'euros' twice"),
        ],
        "edited and then forbidden": [Cell([{"pay_1": Approve({"euros": 666})}], "forbidden", waits=False)],
        "stale": [Cell([right, right], "no pending call", "again", waits=False, paid=[1000])],
        "of another user": "a program has one user",
        "twice": [Cell([right, right], "nothing is paused", waits=False, paid=[1000])],
    }


DOORS: list[type[Door]] = [
    Http, Socket, AgUi, Chat, Completions, Responses, Mcp, McpLegacy, Acp,
    Stored, CommandLine, Saved, Program,
]  # fmt: skip


@asynccontextmanager
async def opened(kind: type[Door]) -> AsyncGenerator[Door, None]:
    async with AsyncExitStack() as stack:
        door = kind()
        await door.open(stack)
        yield door


@pytest.mark.parametrize("kind", DOORS)
def test_every_door_has_every_case(kind: type[Door]) -> None:
    assert set(kind.cells) == set(CASES)
    assert all(cells for cells in kind.cells.values())


@pytest.mark.product(2)
@pytest.mark.parametrize("kind", DOORS)
async def test_what_is_not_understood_runs_nothing_and_the_answer_states_what_to_do(kind: type[Door]) -> None:
    wrong: list[str] = []
    async with opened(kind) as door:
        for case, cells in door.cells.items():
            for cell in () if isinstance(cells, str) else cells:
                PAID.clear()
                run, answer = await door.begin(cell.begins), ""
                assert not PAID
                for sent in cell.sent:
                    answer = await door.send(run, sent, cell.user)
                found = (PAID, await door.waits(run), matches(cell.answer, answer))
                if found != ([*cell.paid], cell.waits, True):
                    wrong.append(f"{case}: {cell.sent!r:.160}: {found} {answer[:300]}")
    assert not wrong, "\n".join(wrong)


def matches(pattern: str, answer: str) -> bool:
    return re.search(pattern, answer.replace("\\u0027", "'"), re.DOTALL) is not None


@pytest.mark.parametrize("kind", [door for door in DOORS if door.right is not None])
async def test_what_is_understood_runs_the_call_once(kind: type[Door]) -> None:
    async with opened(kind) as door:
        run = await door.begin("pay")
        answer = await door.send(run, door.right, "ada")
        assert (PAID, await door.waits(run)) == ([1000], False), answer


# Calls that may have had their effect


async def doubtful(log: MemoryLog, run_id: str) -> str:
    """A run like one that waits for approval, whose call was running when its process ended."""
    records = await stored(log, run_id)
    pause = records[-1].event
    assert isinstance(pause, RunPause)
    asked = RunPause(replace(pause.pause, hook=RECOVERY))
    entries = [
        entry for each in (*records[:-1], replace(records[-1], event=asked))
        for entry in entries_of([each], 1)
    ]  # fmt: skip
    info = await log.existing(run_id)
    claim = await log.claim("doubt-1", create=True)
    await log.append(claim, entries, after=0, row=info.row)
    await log.release(claim)
    return "doubt-1"


async def test_a_call_that_may_have_run_is_decided_about_once_and_never_allowed_always() -> None:
    """Over HTTP: to go on, or to allow the tool always, is refused; a decision about the call is not."""
    async with (
        MemoryLog() as log,
        WebServer(make_worker, port=0, log=log) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        async with http.post("api/runs", json={"input": "pay"}) as answer:
            run = (await answer.json())["id"]
        async with http.get(f"api/runs/{run}/events") as events:
            await events.read()
        path = f"api/runs/{await doubtful(log, run)}"
        async with http.get(path) as answer:
            pause = (await answer.json())["pause"]
        assert [call["needs_decision"] for call in pause["pending"]] == [True]
        for body, problem in [
            ({"continue": True}, "not known whether the call 'pay_1' of pay had an effect"),
            ({"decisions": [{**YES, "always": True}]}, "always: only the call"),
        ]:
            async with http.post(f"{path}/resume", json=body) as answer:
                told = await answer.json()
            assert (answer.status, problem in told["error"]["message"]) == (400, True), told
        assert not PAID
        async with http.post(f"{path}/resume", json={"decisions": [NO]}) as answer:
            assert (answer.status, (await answer.json())["allowed"]) == (201, [])
    assert not PAID


@pytest.mark.parametrize(("option", "paid"), [("allow_always", []), ("reject_once", []), ("allow_once", [1000])])
async def test_an_editor_offers_no_always_for_a_call_that_may_have_run(option: str, paid: list[int]) -> None:
    async with MemoryLog() as log:
        first = Editor()
        first.results = [chosen("no such option")]
        task = asyncio.create_task(acp.AcpAgent(make_worker, first, log=log).serve())
        session = await first.open()
        with pytest.raises(acp.RefusedError):
            await first.prompt(session, "pay")
        first.leave()
        await task
        (info,) = await log.list()
        await doubtful(log, info.run_id)
        second = Editor()
        second.results = [chosen(option)]
        task = asyncio.create_task(acp.AcpAgent(make_worker, second, log=log).serve())
        await second.ask("initialize", protocolVersion=1)
        await second.ask("session/load", sessionId=session, cwd="/home/me", mcpServers=[])
        if option == "allow_always":
            with pytest.raises(acp.RefusedError, match="optionId is 'allow_always'"):
                await second.prompt(session, "and?")
        else:
            await second.prompt(session, "and?")
        second.leave()
        await task
        assert paid == PAID
        options = [each["optionId"] for each in second.questions[0]["options"]]
        assert options == ["allow_once", "reject_once"]
        assert {info.row.allowed for info in await log.list()} == {()}


async def test_the_end_of_a_turn_is_left_by_a_word_of_the_client() -> None:
    """AG-UI: a text or true goes on, false and a cancelled interrupt end the run, and nothing else is understood."""

    @on_turn_end
    def review(context: TurnEndContext) -> Pause | None:
        return Pause("Read it.") if context.text == "A draft." else None

    def make() -> Worker:
        return Worker(ScriptedModel(["A draft.", "Better."]), hooks=[review])

    rows: list[tuple[Any, str, str]] = [
        (resolved("Shorter.", "RUN:"), "Better.", "paused"),
        (resolved(True, "RUN:"), "RUN_FINISHED", "paused"),
        (resolved({"approved": True}, "RUN:"), "RUN_FINISHED", "paused"),
        (resolved(False, "RUN:"), "did not want to go on", "aborted"),
        (resolved({"approved": False, "reason": "Too long."}, "RUN:"), "Too long", "aborted"),
        ([{"interruptId": "RUN:", "status": "cancelled"}], "did not want to go on", "aborted"),
        (resolved(None, "RUN:"), "payload is missing", "paused"),
        (resolved({"aproved": False}, "RUN:"), "did you mean 'approved'", "paused"),
        (resolved({"text": "go"}, "RUN:"), "payload", "paused"),
        (resolved(1, "RUN:"), "payload", "paused"),
    ]
    async with AsyncExitStack() as stack:
        door = AgUi()
        server = await stack.enter_async_context(WebServer(make, port=0, user=by_name))
        session = aiohttp.ClientSession(server.url, trust_env=False)
        door.http, door.number = await stack.enter_async_context(session), 0
        for sent, answer, status in rows:
            run = await door.begin("write")
            told = await door.send(run, sent, "ada")
            assert (answer in told.replace("\\u0027", "'"), (await door.state(run))["status"]) == (True, status), (
                sent,
                told,
            )


# Which run a client of OpenAI's APIs continues


OPEN_TAB: Any = {"name": "open_tab", "parameters": {"type": "object", "properties": {}}}


TABS = itertools.count()


def introduce(request: Request) -> Reply:
    messages = request.conversation.messages
    results = messages[-1].tool_results
    if results:
        return say(f"{messages[0].text}: {results[0].text}")
    number = 0 if messages[0].text == "Eve" else next(TABS)
    return Reply(tool_calls=(Call("open_tab", {"number": number}, "x"),))


@pytest.mark.parametrize("api", ["v1/chat/completions", "v1/responses"])
async def test_results_continue_the_run_of_the_messages_that_are_sent_with_them(api: str) -> None:
    """Two users of one token have calls of one id.

    Neither gets the conversation of the other, whose results come in any order.
    """
    is_chat = "chat" in api

    async def post(*items: Any) -> Any:
        tools: Any = [{"type": "function", "function": OPEN_TAB} if is_chat else {"type": "function", **OPEN_TAB}]
        body: Any = {"model": "worker", "tools": tools, "messages" if is_chat else "input": items}
        async with http.post(api, json=body) as answer:
            assert answer.status == 200, await answer.text()
            told = await answer.json()
        return told["choices"][0]["message"] if is_chat else told["output"]

    def with_result(text: str, made: Any) -> list[Any]:
        said = {"role": "user", "content": text}
        if is_chat:
            return [said, made, {"role": "tool", "tool_call_id": "x", "content": "done"}]
        return [said, *made, {"type": "function_call_output", "call_id": "x", "output": "done"}]

    async with (
        WebServer(lambda: Worker(ScriptedModel(introduce)), port=0) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        made = {name: await post({"role": "user", "content": name}) for name in ("Ada", "Bob")}
        for name in ("Ada", "Bob"):
            told = json.dumps(await post(*with_result(name, made[name])))
            assert f"{name}: done" in told
        async with http.get("api/runs") as answer:
            runs = (await answer.json())["runs"]
        resumed = {run["title"] for run in runs if run["resumed_as"]}
        assert resumed == {"Ada", "Bob"}  # their own runs were continued
        # Nor is a run whose call has other arguments, when the results of a call that was answered come again.
        first = await post({"role": "user", "content": "Max"})
        await post(*with_result("Max", first))
        await post({"role": "user", "content": "Max"})
        await post(*with_result("Max", first))
        # Of two runs with the same messages and calls neither is continued, and a stranger's messages continue none.
        twice = [await post({"role": "user", "content": "Eve"}) for _ in range(2)]
        await post(*with_result("Eve", twice[0]))
        await post(*with_result("Mallory", made["Ada"]))
        async with http.get("api/runs") as answer:
            runs = (await answer.json())["runs"]
        resumed = [run["title"] for run in runs if run["resumed_as"]]
        assert sorted(resumed) == ["Ada", "Bob", "Max"]
