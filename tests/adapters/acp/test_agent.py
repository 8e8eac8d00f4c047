"""An agent of the Agent Client Protocol, and a client that writes and reads its lines.

What it sends is what the official package knows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp.schema import (
    CancelRequestNotification,
    InitializeResponse,
    ListSessionsResponse,
    NewSessionResponse,
    PromptResponse,
    RequestPermissionRequest,
    SessionNotification,
)

from rxworker import Limits, Paused, Session, Worker, before_tool_call, on_message_send, on_turn_end, tool
from rxworker.adapters.acp import AcpAgent
from rxworker.adapters.acp.agent import AcpSession
from rxworker.events.pause import Question
from rxworker.hooks import Cancel, MessageSendContext, Pause, TurnEndContext
from rxworker.log import EventLog, MemoryLog
from rxworker.log.values import CONVERSATION
from rxworker.messages import Audio, Document, Image, Json, JsonObject, StopKind, Text, ToolMeta
from rxworker.protocols.acp import wire
from rxworker.testing import Reply, ScriptedModel, call, fail, say, stall, think
from rxworker.tools import ClientTool, FileEdit, Plan, PlanStep, ToolContext, update_plan
from rxworker.transport import Retry
from tests.protocols.story import booking

SECONDS = 60.0
MCP_SERVER = Path(__file__).parents[2] / "tools" / "mcp_server.py"
RESULTS = {
    "initialize": InitializeResponse,
    "session/new": NewSessionResponse,
    "session/list": ListSessionsResponse,
    "session/prompt": PromptResponse,
}

Told = dict[str, Any]
Make = Callable[[], Worker]


class RefusedError(Exception):
    """A request failed."""

    def __init__(self, error: Told) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


class Client:
    """An editor. It chooses the options of `choices` in turn, and leaves a question open for ``wait``."""

    def __init__(self, *choices: str) -> None:
        self.received: list[Told] = []
        self.questions: list[Told] = []
        self.withdrawn: list[int] = []
        self.changed = asyncio.Event()
        self.choices = [*choices]
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._results: dict[int, asyncio.Future[Told]] = {}
        self.number = 0

    # The end of the agent

    async def lines(self) -> AsyncIterator[bytes | None]:
        while (line := await self._sent.get()) != b"left":
            yield line

    async def write(self, line: bytes) -> None:
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if message.get("method") == "session/update":
            SessionNotification.model_validate(message["params"])
            self.received.append(message["params"]["update"])
        elif message.get("method") == "$/cancel_request":
            CancelRequestNotification.model_validate(message["params"])
            self.withdrawn.append(message["params"]["requestId"])
        elif "method" in message:
            RequestPermissionRequest.model_validate(message["params"])
            self.questions.append(message["params"])
            choice = self.choices.pop(0)
            if choice != "wait":
                is_choice = choice != "cancelled"
                outcome = {"outcome": "selected", "optionId": choice} if is_choice else {"outcome": choice}
                self.send({"id": message["id"], "result": {"outcome": outcome}})
        else:
            self._results[message["id"] or 0].set_result(message)
        self.changed.set()

    # The end of the editor

    def send(self, message: Told) -> None:
        self._sent.put_nowait(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send_line(self, line: bytes | None) -> asyncio.Future[Told]:
        """A line that is not a request: the error has no id."""
        future = self._results[0] = asyncio.get_running_loop().create_future()
        self._sent.put_nowait(line)
        return future

    def leave(self) -> None:
        self._sent.put_nowait(b"left")

    def begin(self, method: str, **params: Any) -> asyncio.Task[Told]:
        self.number += 1
        future = self._results[self.number] = asyncio.get_running_loop().create_future()
        self.send({"id": self.number, "method": method, "params": params})
        return asyncio.create_task(self._result(method, future))

    async def ask(self, method: str, **params: Any) -> Told:
        return await self.begin(method, **params)

    async def _result(self, method: str, future: asyncio.Future[Told]) -> Told:
        async with asyncio.timeout(SECONDS):
            message = await future
        if "error" in message:
            raise RefusedError(message["error"])
        if method in RESULTS:
            RESULTS[method].model_validate(message["result"])
        return message["result"]

    async def open(self, cwd: str = "/home/me", **params: Any) -> str:
        await self.ask("initialize", protocolVersion=1)
        return (await self.ask("session/new", cwd=cwd, mcpServers=[], **params))["sessionId"]

    def prompt(self, session: str, *content: str | Told) -> asyncio.Task[Told]:
        blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
        return self.begin("session/prompt", sessionId=session, prompt=blocks)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    # What it shows

    @property
    def kinds(self) -> list[str]:
        return [update["sessionUpdate"] for update in self.received]

    @property
    def text(self) -> str:
        return self.text_of("agent_message_chunk")

    def text_of(self, kind: str) -> str:
        chunks = [u["content"].get("text", "") for u in self.received if u["sessionUpdate"] == kind]
        return "".join(chunks)

    def call(self, name: str = "") -> Told:
        """A call with all of its updates."""
        shown: Told = {}
        for update in self.received:
            if update["sessionUpdate"].startswith("tool_call") and name in update["toolCallId"]:
                shown.update(update)
        return shown


@asynccontextmanager
async def serving(make: Worker | Make, *choices: str, log: EventLog | None = None) -> AsyncGenerator[Client, None]:
    """A client of an agent. It leaves at the end."""
    client = Client(*choices)
    task = asyncio.create_task(AcpAgent(make, client, log=log).serve())
    try:
        yield client
    finally:
        client.leave()
        await task


def scripted(*replies: Reply | str, **options: Any) -> tuple[Make, ScriptedModel]:
    model = ScriptedModel([*replies])
    return lambda: Worker(model, **options), model


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@tool
def edit_file(path: str, old_string: str, new_string: str, context: ToolContext) -> str:
    """Edit a file."""
    context.progress("reading")
    context.progress(FileEdit(path, f"# {new_string}", f"# {old_string}"))
    return "done"


async def test_a_prompt_is_answered_with_thoughts_and_text() -> None:
    make, model = scripted(think("A greeting.") + say("Hello!"))
    async with serving(make) as client:
        told = await client.prompt(await client.open(), "Hi")
        assert told == {"stopReason": "end_turn"}
    assert client.text_of("agent_thought_chunk") == "A greeting."
    assert client.text == "Hello!"
    assert client.received[0] == {"sessionUpdate": "session_info_update", "title": "Hi"}
    assert len({u["messageId"] for u in client.received if "messageId" in u}) == 2
    assert model.requests[0].conversation.messages[0].text == "Hi"


async def test_the_agent_answers_an_unknown_version_with_its_own() -> None:
    make, _ = scripted()
    async with serving(make) as client:
        for version in (0, 1, 2, 99):
            told = await client.ask("initialize", protocolVersion=version, clientInfo=None)
            assert told["protocolVersion"] == 1
        assert told["agentInfo"]["name"] == "rxworker"
        assert told["agentCapabilities"]["promptCapabilities"]["embeddedContext"]
        assert told["agentCapabilities"]["loadSession"] is False


async def test_a_worker_serves_several_sessions_and_stays_as_it_is() -> None:
    model = ScriptedModel(["One.", "Two."])
    worker = Worker(model, tools=[delete])
    async with MemoryLog() as log, serving(worker, log=log) as client:
        for cwd in ("/home/me", "/home/you"):
            await client.prompt(await client.open(cwd), "Hi")
        labels = [info.row.labels["cwd"] for info in await log.list()]
    assert labels == ["/home/you", "/home/me"]
    assert [len(request.conversation.messages) for request in model.requests] == [1, 1]
    assert (worker.workspace, worker.name, worker.log, worker.labels) == (Path(), "", None, {})
    assert not worker.session.conversation.messages


async def test_the_content_of_a_prompt_reaches_the_model() -> None:
    make, model = scripted("I see.")
    content: list[str | Told] = [
        "Look:",
        {"type": "image", "data": "AAAA", "mimeType": "image/png", "uri": None},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a.py", "name": "a.py"},
        {"type": "resource", "resource": {"uri": "file:///b.py", "text": "x = 1"}},
        {"type": "resource", "resource": {"uri": "file:///c.pdf", "blob": "AAAA", "mimeType": "application/pdf"}},
        {"type": "resource", "resource": {"uri": "file:///d.bin", "blob": "AAAA"}},
    ]  # fmt: skip
    async with serving(make) as client:
        await client.prompt(await client.open(), *content)
    sent = model.requests[0].conversation.messages[0].content
    assert [type(block) for block in sent] == [Text, Image, Audio, Text, Text, Document, Text]
    text = model.requests[0].conversation.messages[0].text
    assert "[@a.py](file:///a.py)" in text
    assert '<context ref="file:///b.py">\nx = 1\n</context>' in text
    assert "cannot be shown" in text


async def test_a_call_is_shown_from_its_arguments_to_its_diff_and_its_result() -> None:
    edit = call("edit_file", path="a.py", old_string="1", new_string="2")
    make, _ = scripted(edit, "Done.", tools=[edit_file])
    async with serving(make) as client:
        await client.prompt(await client.open(), "Edit")
    calls = [u for u in client.received if "toolCallId" in u]
    first = {"title": "edit_file", "kind": "edit", "status": "pending"}
    assert calls[0] == {"sessionUpdate": "tool_call", "toolCallId": "call_1_1", **first}
    assert calls[1]["title"] == "edit_file: a.py"
    assert calls[1]["locations"] == [{"path": "/home/me/a.py"}]
    assert calls[1]["content"][0] == {"type": "diff", "path": "/home/me/a.py", "newText": "2", "oldText": "1"}
    assert calls[2]["status"] == "in_progress"
    shown = client.call()
    assert shown["rawInput"] == {"path": "a.py", "old_string": "1", "new_string": "2"}
    assert (shown["status"], shown["rawOutput"]) == ("completed", "done")
    # The tool knows the file better than its arguments do.
    assert [part.get("newText") for part in shown["content"]] == ["# 2", None]


async def test_a_plan_of_the_model_is_the_plan_of_the_editor() -> None:
    @tool
    def publish(context: ToolContext) -> str:
        """Publish a plan."""
        context.progress(Plan((PlanStep("Test", priority="high"),)))
        return "ok"

    steps: Json = [{"content": "Read", "status": "completed"}, {"content": "Write"}]
    make, _ = scripted(call("update_plan", steps=steps), call("publish"), "Done.", tools=[update_plan, publish])
    async with serving(make) as client:
        await client.prompt(await client.open(), "Plan")
    plans = [u["entries"] for u in client.received if u["sessionUpdate"] == "plan"]
    assert plans == [
        [
            {"content": "Read", "priority": "medium", "status": "completed"},
            {"content": "Write", "priority": "medium", "status": "pending"},
        ],
        [{"content": "Test", "priority": "high", "status": "pending"}],
    ]


async def test_a_failed_tool_and_a_tool_that_does_not_exist_are_failed_calls() -> None:
    make, _ = scripted(call("nothing", at="a"), "I cannot.")
    async with serving(make) as client:
        await client.prompt(await client.open(), "Try")
    assert client.call()["status"] == "failed"


# Questions


def deleting(*paths: str) -> tuple[Make, ScriptedModel]:
    calls = [call("delete", path=path) for path in paths]
    return scripted(*calls, "Done.", tools=[delete])


async def test_a_call_that_needs_approval_waits_for_the_user() -> None:
    make, model = deleting("a.py")
    async with serving(make, "allow_once") as client:
        assert await client.prompt(await client.open(), "Delete") == {"stopReason": "end_turn"}
    (question,) = client.questions
    assert question["toolCall"]["toolCallId"] == client.call()["toolCallId"]
    assert question["toolCall"]["rawInput"] == {"path": "a.py"}
    kinds = [option["kind"] for option in question["options"]]
    assert kinds == ["allow_once", "allow_always", "reject_once", "reject_always"]
    assert (client.call()["status"], client.text) == ("completed", "Done.")
    assert model.requests[1].conversation.messages[-1].tool_results[0].text == "deleted a.py"


async def test_what_waits_in_the_background_waits_for_the_user_when_the_model_has_answered() -> None:
    @tool(background=True)
    async def sure(context: ToolContext) -> str:
        if context.begun is None:
            context.ask(Question("sure", "Sure?"))
        return "They are sure."

    make, model = scripted(call("sure"), "I wait.", "They are.", tools=[sure])
    async with serving(make, "allow_once") as client:
        assert await client.prompt(await client.open(), "Go") == {"stopReason": "end_turn"}
    (question,) = client.questions
    assert question["toolCall"]["content"][0]["content"]["text"] == "sure has a question: Sure?"
    assert client.text.endswith("They are.")
    assert "They are sure." in model.requests[2].conversation.messages[-1].text


async def test_always_is_remembered_in_the_session_and_once_is_not() -> None:
    make, model = deleting("a.py", "b.py", "c.py")
    async with serving(make, "allow_once", "allow_always") as client:
        await client.prompt(await client.open(), "Delete")
        assert len(client.questions) == 2
    assert model.requests[3].conversation.messages[-1].tool_results[0].text == "deleted c.py"


async def test_a_rejected_call_does_not_run_and_the_model_goes_on() -> None:
    make, model = deleting("a.py", "b.py")
    async with serving(make, "reject_always") as client:
        assert await client.prompt(await client.open(), "Delete") == {"stopReason": "end_turn"}
    assert len(client.questions) == 1
    for request in model.requests[1:]:
        assert "does not allow" in request.conversation.messages[-1].tool_results[0].text
    assert client.call()["status"] == "failed"


async def test_a_pause_of_a_hook_is_a_question_also_at_the_end_of_a_turn() -> None:
    @before_tool_call(matcher="echo")
    def permit(_: Any) -> Pause:
        return Pause("Really?")

    @on_turn_end
    def check(_: TurnEndContext) -> Pause:
        return Pause("Publish this?")

    @tool
    def echo(text: str) -> str:
        """Echo."""
        return text

    make, _ = scripted(call("echo", text="x"), "Done.", tools=[echo], hooks=[permit, check])
    async with serving(make, "allow_once", "reject_once") as client:
        session = await client.open()
        assert await client.prompt(session, "Go") == {"stopReason": "end_turn"}
    assert client.questions[0]["toolCall"]["content"][0]["content"]["text"] == "Really?"
    assert client.questions[1]["toolCall"]["title"] == "Publish this?"
    assert len(client.questions[1]["options"]) == 2


async def test_a_run_that_waits_ends_the_prompt_without_a_question() -> None:
    @tool
    async def ship(context: ToolContext) -> str:
        """Ship."""
        return f"paid: {await context.until(3600.0, signal='paid')}"

    make, _ = scripted(call("ship"), "Done.", tools=[ship])
    async with serving(make, log=MemoryLog()) as client:
        session = await client.open()
        assert await client.prompt(session, "Go") == {"stopReason": "end_turn"}
        assert await client.prompt(session, "And?") == {"stopReason": "end_turn"}  # it waits again
    assert client.questions == []


async def test_a_call_that_only_a_client_can_run_is_a_failed_call_and_no_question() -> None:
    """An editor runs no tools: to ask whether to continue would pause at the same call again, without an end."""
    open_tab = ClientTool(ToolMeta("open_tab", "Open a tab.", {"type": "object"}))
    make, model = scripted(call("open_tab"), "It is not open.", tools=[open_tab])
    async with serving(make) as client:
        session = await client.open()
        assert await client.prompt(session, "Go") == {"stopReason": "end_turn"}
    assert (client.questions, client.text) == ([], "It is not open.")
    assert client.call()["status"] == "failed"
    (result,) = model.requests[-1].conversation.messages[-1].tool_results
    assert (result.is_error, "cannot run open_tab" in result.text) == (True, True)


# Cancel


async def test_a_cancel_ends_the_run_and_the_next_prompt_is_answered() -> None:
    make, model = scripted(say("Well") + stall(), "Hello!")
    async with serving(make) as client:
        session = await client.open()
        prompt = client.prompt(session, "Hi")
        await client.until(lambda: client.text == "Well")
        client.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert await prompt == {"stopReason": "cancelled"}
        assert model.left == 1
        assert await client.prompt(session, "Hi again") == {"stopReason": "end_turn"}


async def test_a_prompt_whose_request_is_cancelled_ends_its_run() -> None:
    make, model = scripted(say("Well") + stall(), "Hello!")
    async with serving(make) as client:
        session = await client.open()
        prompt = client.prompt(session, "Hi")
        await client.until(lambda: client.text == "Well")
        client.send({"method": "$/cancel_request", "params": {"requestId": client.number}})
        with pytest.raises(RefusedError, match="was cancelled") as caught:
            await prompt
        assert caught.value.code == -32800
        assert await client.prompt(session, "Hi again") == {"stopReason": "end_turn"}
    assert model.left == 1


async def test_a_cancel_answers_an_open_question() -> None:
    make, model = deleting("a.py")
    async with serving(make, "wait") as client:
        session = await client.open()
        prompt = client.prompt(session, "Delete")
        await client.until(lambda: client.questions)
        client.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert await prompt == {"stopReason": "cancelled"}
        assert client.call()["status"] == "failed"
        await client.prompt(session, "Never mind")
    assert len(model.requests) == 2


async def test_a_prompt_that_was_cancelled_before_its_pause_was_shown_decides_about_no_other_call() -> None:
    class Slow:
        """A client that does not read from the second run on."""

        asked = 0
        stopped = asyncio.Event()

        async def notify(self, *_: object) -> None:
            if len(session.opened.known) == 2:
                self.stopped.set()
                await asyncio.Event().wait()

        async def request(self, *_: object) -> wire.PermissionResult:
            self.asked += 1
            return wire.PermissionResult(wire.Outcome("selected", "allow_once"))

    async def given(text: str) -> wire.Prompt:
        return wire.Prompt("c-1", [wire.TextContent(text)])

    make, model = deleting("a.py", "b.py")
    client = Slow()
    session = AcpSession(Session(make(), labels={CONVERSATION: "c-1"}), "/", client)  # pyright: ignore[reportArgumentType] - what it uses of a peer
    prompt = asyncio.ensure_future(session.prompt(given("Delete")))
    async with asyncio.timeout(SECONDS):
        await client.stopped.wait()
    assert session.opened.run is not None
    assert isinstance(await session.opened.run, Paused)
    prompt.cancel()
    await asyncio.wait({prompt})
    await session.prompt(given("Go on"))
    assert client.asked == 1
    assert [result.is_error for result in model.requests[-1].conversation.messages[-2].tool_results] == [True]


async def test_a_question_that_the_client_cancels_cancels_the_prompt() -> None:
    make, _ = deleting("a.py")
    async with serving(make, "cancelled") as client:
        assert await client.prompt(await client.open(), "x") == {"stopReason": "cancelled"}


async def test_an_option_that_does_not_exist_is_an_error_and_nothing_runs() -> None:
    make, model = deleting("a.py")
    async with serving(make, "sudo", "allow_once") as client:
        session = await client.open()
        with pytest.raises(RefusedError, match="optionId is 'sudo'"):
            await client.prompt(session, "Delete")
        # The question is still open: the next prompt asks it again.
        assert await client.prompt(session, "Do it") == {"stopReason": "end_turn"}
    sent = [message.text for message in model.requests[1].conversation.messages]
    assert sent[0] == "Delete"
    assert sent[-1] == "Do it"


# Ends


@pytest.mark.parametrize(
    ("reply", "options", "reason"),
    [
        (say("Wel", stop=StopKind.MAX_TOKENS), {}, "max_tokens"),
        (say("No.", stop=StopKind.REFUSAL), {}, "refusal"),
        (call("delete", path="a"), {"limits": Limits(max_turns=1)}, "max_turn_requests"),
        (call("delete", path="a"), {"limits": Limits(max_tokens=1)}, "max_tokens"),
    ],
)
async def test_the_end_of_a_run_is_a_stop_reason(reply: Reply, options: dict[str, Any], reason: str) -> None:
    make, _ = scripted(reply, tools=[delete], **options)
    async with serving(make, "reject_once") as client:
        assert await client.prompt(await client.open(), "Go") == {"stopReason": reason}


async def test_a_failed_run_is_an_error_and_the_session_goes_on() -> None:
    @on_message_send
    def stop(context: MessageSendContext) -> Cancel | None:
        return Cancel("Enough.") if context.messages[-1].text == "Stop" else None

    broken = fail("the model is broken", retryable=False)
    make, _ = scripted(broken, "Hello!", hooks=[stop], response_retry=Retry(retries=0))
    async with serving(make) as client:
        session = await client.open()
        with pytest.raises(RefusedError, match="the model is broken"):
            await client.prompt(session, "Hi")
        with pytest.raises(RefusedError, match="Enough"):
            await client.prompt(session, "Stop")
        assert await client.prompt(session, "Hi") == {"stopReason": "end_turn"}


# Bad input


async def test_bad_input_is_answered_with_the_error_of_the_protocol() -> None:
    make, _ = scripted(stall(), "Hello!")
    async with serving(make) as client:
        session = await client.open()
        for line, code in [
            (b"{", -32700),
            (b"\xff", -32700),
            (b"[]", -32600),
            (b'{"id": {}, "method": "initialize"}', -32600),
            (b'{"id": 1}', -32600),
            (None, -32600),
        ]:
            told = await client.send_line(line)
            assert told["id"] is None
            assert told["error"]["code"] == code
        client.send({"method": "$/unknown"})
        client.send({"id": 77, "result": {}})  # a response to nothing
        refused: list[tuple[str, Told, int]] = [
            ("session/nothing", {}, -32601),
            ("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []}, -32601),
            ("initialize", {"protocolVersion": "one"}, -32602),
            ("session/new", {"cwd": "here", "mcpServers": []}, -32602),
            ("session/prompt", {"sessionId": session, "prompt": [{"type": "dance"}]}, -32602),
            ("session/prompt", {"sessionId": session, "prompt": []}, -32600),
            ("session/prompt", {"sessionId": "x", "prompt": []}, -32002),
            ("session/close", {"sessionId": "x"}, -32002),
        ]
        for method, params, code in refused:
            with pytest.raises(RefusedError) as caught:
                await client.ask(method, **params)
            assert caught.value.code == code, method
        prompt = client.prompt(session, "Hi")
        with pytest.raises(RefusedError, match="cancel it"):
            await client.prompt(session, "Hi again")
        await client.ask("session/close", sessionId=session)
        assert await prompt == {"stopReason": "cancelled"}
        with pytest.raises(RefusedError, match="no session"):
            await client.prompt(session, "Hi")


async def test_a_defect_is_logged_and_the_client_is_not_given_its_words(caplog: pytest.LogCaptureFixture) -> None:
    def make() -> Worker:
        raise ValueError("the password is open sesame")

    async with serving(make) as client:
        with pytest.raises(RefusedError, match="standard error"):
            await client.open()
    assert "open sesame" in caplog.text


async def test_secrets_and_half_characters_do_not_reach_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOORS_API_KEY", "sk-0123456789abcdef")
    make, _ = scripted(say("sk-0123456789abcdef \ud83d", chunk=100))
    async with serving(make) as client:
        await client.prompt(await client.open(), "Hi")
    assert client.text == "*** \ufffd"


# MCP servers


@pytest.mark.slow
async def test_the_client_s_mcp_servers_are_tools_and_a_broken_one_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("mcp")
    caplog.set_level(logging.WARNING)
    make, model = scripted(call("echo_er__echo", text="hi"), "Done.")
    servers: list[Told] = [
        {"name": "echo er", "command": sys.executable, "args": [str(MCP_SERVER)], "env": []},
        {"name": "gone", "command": "/nowhere/at/all", "args": [], "env": []},
        {"name": "old", "type": "sse", "url": "http://127.0.0.1:9/", "headers": []},
    ]
    async with serving(make) as client:
        await client.ask("initialize", protocolVersion=1)
        told = await client.ask("session/new", cwd=str(Path.cwd()), mcpServers=servers)
        await client.prompt(told["sessionId"], "Echo")
    assert model.requests[1].conversation.messages[-1].tool_results[0].text == "hi"
    assert "'gone'" in caplog.text
    assert "'old'" in caplog.text


# Stored sessions


async def test_a_stored_session_is_listed_loaded_continued_and_deleted(log: MemoryLog) -> None:
    edit = call("edit_file", path="a.py", old_string="1", new_string="2")
    make, _ = scripted(think("Hm.") + edit, "Done.", "Bye.", tools=[edit_file])
    async with serving(make, log=log) as client:
        session = await client.open()
        await client.prompt(session, "Edit")
        await client.prompt(session, "Thanks")
        assert await client.ask("session/new", cwd="/elsewhere", mcpServers=[])
    shown = [u for u in client.received if u["sessionUpdate"] != "session_info_update"]

    make, model = scripted("Hello again!", "And again.", tools=[edit_file])
    async with serving(make, log=log) as client:
        told = await client.ask("initialize", protocolVersion=1)
        assert told["agentCapabilities"]["loadSession"]
        (listed,) = (await client.ask("session/list", cwd="/home/me"))["sessions"]
        assert (listed["sessionId"], listed["title"]) == (session, "Edit")
        assert (await client.ask("session/list", cwd="/elsewhere"))["sessions"] == []
        await client.ask("session/load", sessionId=session, cwd="/home/me", mcpServers=[])
        replayed = [u for u in client.received if u["sessionUpdate"] != "user_message_chunk"]
        assert joined(replayed) == joined(shown)
        assert client.text_of("user_message_chunk") == "EditThanks"
        assert await client.prompt(session, "Hi") == {"stopReason": "end_turn"}
        assert model.requests[0].conversation.messages[-2].text == "Bye."
        client.received.clear()
        await client.ask("session/resume", sessionId=session, cwd="/home/me", mcpServers=[])
        assert client.received == []
        assert await client.prompt(session, "Hi") == {"stopReason": "end_turn"}
        await client.ask("session/delete", sessionId=session)
        with pytest.raises(RefusedError, match="no session"):
            await client.ask("session/load", sessionId=session, cwd="/", mcpServers=[])
    assert await log.list() == []


def joined(updates: list[Told]) -> list[Told]:
    """The updates, with adjacent pieces of one message joined."""
    whole: list[Told] = []
    for update in updates:
        last = whole[-1] if whole else {}
        if "messageId" in update and last.get("messageId") == update["messageId"]:
            last["content"]["text"] += update["content"]["text"]
        else:
            whole.append(json.loads(json.dumps(update)))
    return whole


async def test_a_client_that_leaves_ends_its_run() -> None:
    make, model = scripted(say("Well") + stall())
    async with serving(make) as client:
        client.prompt(await client.open(), "Hi").cancel()
        await client.until(lambda: client.text == "Well")
    assert model.left == 1


async def test_a_stored_run_whose_client_has_left_is_continued_with_the_next_prompt(log: MemoryLog) -> None:
    make, _ = scripted(say("Well") + stall())
    async with serving(make, log=log) as client:
        session = await client.open()
        client.prompt(session, "Hi").cancel()
        await client.until(lambda: client.text == "Well")
    (info,) = await log.list()
    assert info.status == "running"
    assert info.is_cut_off()

    make, model = scripted("Well, hello!", "You are welcome.")
    async with serving(make, log=log) as client:
        await client.ask("session/load", sessionId=session, cwd="/home/me", mcpServers=[])
        assert client.text.startswith("Well[The response above is void")
        assert await client.prompt(session, "Thanks") == {"stopReason": "end_turn"}
    sent = [message.text for message in model.requests[-1].conversation.messages]
    assert sent[0] == "Hi"
    assert sent[-1] == "Thanks"
    (info,) = await log.list()
    assert info.status == "finished"


async def test_a_question_that_the_client_has_left_open_is_sent_again(log: MemoryLog) -> None:
    make, _ = deleting("a.py")
    async with serving(make, "wait", log=log) as client:
        session = await client.open()
        client.prompt(session, "Delete").cancel()
        await client.until(lambda: client.questions)
    assert [info.status for info in await log.list()] == ["paused"]

    make, model = scripted("Done.", tools=[delete])
    async with serving(make, "allow_once", log=log) as client:
        await client.ask("session/load", sessionId=session, cwd="/home/me", mcpServers=[])
        assert client.call()["status"] == "pending"
        assert await client.prompt(session, "Go on") == {"stopReason": "end_turn"}
        assert client.call()["status"] == "completed"
    last = model.requests[0].conversation.messages
    assert last[-2].tool_results[0].text == "deleted a.py"
    assert last[-1].text == "Go on"


async def test_a_refused_prompt_is_neither_sent_with_the_next_nor_replayed(log: MemoryLog) -> None:
    make, model = scripted("Hello!", say("No.", stop=StopKind.REFUSAL), "Yes.")
    async with serving(make, log=log) as client:
        session = await client.open()
        for text in ("Hi", "Something bad", "Something good"):
            await client.prompt(session, text)
    make, later = scripted("Bye.")
    async with serving(make, log=log) as client:
        await client.ask("session/load", sessionId=session, cwd="/home/me", mcpServers=[])
        assert client.text_of("user_message_chunk") == "HiSomething good"
        await client.prompt(session, "Bye")
    sent = [[message.text for message in one.requests[-1].conversation.messages] for one in (model, later)]
    assert sent == [["Hi", "Hello!", "Something good"], ["Hi", "Hello!", "Something good", "Yes.", "Bye"]]


GUESTS: JsonObject = {"type": "object", "properties": {"guests": {"type": "integer"}}, "required": ["guests"]}


@pytest.mark.parametrize(
    ("question", "kinds", "choice", "expected"),
    [
        (
            Question("tides", "Sign in.", url="https://a.example/"),
            ["allow_once", "reject_once"],
            "allow_once",
            "accept",
        ),
        (
            Question("tides", "Fine?", {"type": "object", "properties": {}}),
            ["allow_once", "reject_once"],
            "reject_once",
            "decline",
        ),
        (Question("tides", "How many?", GUESTS), ["reject_once"], "reject_once", "decline"),
    ],
)
async def test_a_question_of_a_tool_is_shown_and_a_form_that_must_be_filled_in_is_declined(
    question: Question, kinds: list[str], choice: str, expected: str
) -> None:
    make, model = scripted(call("book"), "Done.", tools=[booking(question)])
    async with serving(make, choice) as client:
        assert await client.prompt(await client.open(), "Go") == {"stopReason": "end_turn"}
    (shown,) = client.questions
    assert [option["kind"] for option in shown["options"]] == kinds
    assert shown["toolCall"]["content"][-1]["content"]["text"] == str(question)
    assert client.call()["status"] == "completed"
    assert model.requests[-1].conversation.messages[-1].tool_results[0].text == expected
