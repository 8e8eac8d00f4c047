"""``gate=hold_back(check)`` of a server: what a check refuses reaches no run, log, watcher or model, door x verb."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, redirect_stdout
from typing import Any, get_args, get_type_hints

import aiohttp
import mcp
import pytest
from rich.console import Console

from rxworker import Session, Worker, tool
from rxworker.adapters.acp import AcpAgent
from rxworker.adapters.acp.peer import Method
from rxworker.adapters.asgi import AsgiApp
from rxworker.adapters.mcp import McpServer
from rxworker.cli.answer import Page
from rxworker.cli.answer import answer as answer_to
from rxworker.cli.chat import converse
from rxworker.cli.main import COMMANDS, main
from rxworker.cli.process import CommandError
from rxworker.cli.resolve import WorkerOptions
from rxworker.errors import ConfigurationError, RunCancelledError
from rxworker.log import MemoryLog
from rxworker.operators import hold_back
from rxworker.protocols import socket as wire
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call
from rxworker.transport.clock import LoopThread
from rxworker.ui.terminal.run import run_app
from rxworker.ui.web import Settings, WebServer
from rxworker.ui.web.api import routes_of
from tests.adapters.acp.test_agent import Client, RefusedError
from tests.adapters.mcp import test_mcp
from tests.integration.test_map_input import stored_in
from tests.ui.terminal.conftest import Open
from tests.ui.terminal.conftest import open_app as open_app  # a fixture
from tests.ui.web.conftest import BODIES, serve_asgi

SECRET = "hunter2"
REFUSED = "the input is not accepted: a check refused it"


async def is_clean(text: str) -> bool:
    await asyncio.sleep(0)
    return SECRET not in text


gate = hold_back(is_clean)


def answer(request: Request) -> Reply | str:
    last = request.conversation.messages[-1]
    return call("wipe", disk="a") if "wipe" in last.text and not last.tool_results else "Done."


class Desk:
    """A worker, its log, and what became of it.

    Attributes:
        shown: What the door has shown.
        wiped: The arguments of the calls that have run.
    """

    def __init__(self) -> None:
        self.log, self.model = MemoryLog(), ScriptedModel(answer)
        self.shown: list[object] = []
        self.wiped: list[str] = []

    def make(self) -> Worker:
        @tool(requires_approval=True)
        async def wipe(disk: str) -> str:
            """Wipe a disk."""
            self.wiped.append(disk)
            return f"{disk} is empty"

        return Worker(self.model, tools=[wipe], name="worker")


@pytest.fixture
async def desk(caplog: pytest.LogCaptureFixture) -> AsyncGenerator[Desk, None]:
    """What a door did not let pass is nowhere."""
    caplog.set_level(logging.DEBUG)
    made = Desk()
    yield made
    logged = [each for each in caplog.messages if "tools/call" not in each]  # of the client itself
    for place in await stored_in(made.log), str(made.model.requests), str(made.shown), str(made.wiped), str(logged):
        assert SECRET not in place
    await made.log.close()


# The web server


IGNORES = {"chat-stop", "openai-cancel"}
"""Routes that read no body."""


async def test_no_route_takes_what_a_check_refuses(desk: Desk) -> None:
    """Each route with a body, and what it understands; also hidden behind what a lenient reader passes over."""
    server = WebServer(desk.make, port=0, log=desk.log, settings=Settings(gate=gate))
    async with server, aiohttp.ClientSession(server.url, trust_env=False) as http:
        async with http.post("api/runs", json={"input": "hi"}) as response:
            run = await response.json()
        async with http.get(f"api/runs/{run['id']}/events") as response:
            await response.read()
        routes = [each for each in routes_of(server.state) if each.method not in ("GET", "HEAD", "DELETE")]
        assert len(routes) > 20
        for route in routes:
            name = run["conversation"] if "conversations" in route.path else run["id"]
            body = json.dumps({**BODIES.get(route.path, {}), "planted": SECRET})
            body = body.replace('"x"', f'"{SECRET}"').replace("RUN", run["id"])
            body = body.replace("CONVERSATION", run["conversation"])
            unread = body[:-1].encode()
            for data in [body.encode(), unread + b', "z": 1e999}', unread + b', "z": "\xff"}']:
                headers = {"Content-Type": "application/json"}
                address = route.path.removeprefix("/").format(id=name)
                async with http.post(address, data=data, headers=headers) as response:
                    text = await response.text()
                    desk.shown.append(text)
                if route.name not in IGNORES:
                    assert (response.status, "the input is not accepted" in text) == (400, True), (route, text)
        async with http.get("api/runs") as response:
            desk.shown.append(listed := await response.json())
        assert len(listed["runs"]) == 1
    assert len(desk.model.requests) == 1


CHAT = [{"id": "1", "role": "user", "content": "slow", "parts": [{"type": "text", "text": "slow"}]}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("api/runs", {"input": "slow"}),
        ("ag-ui", {"threadId": "t", "runId": "r", "messages": CHAT}),
        ("api/chat", {"id": "t", "messages": CHAT}),
        ("v1/responses", {"model": "worker", "input": "slow"}),
    ],
)
@pytest.mark.parametrize("is_mounted", [False, True])
async def test_a_client_that_disconnects_while_its_request_is_checked_begins_no_run(
    desk: Desk, path: str, body: dict[str, Any], is_mounted: bool
) -> None:
    slow = Slow()
    settings = Settings(gate=hold_back(slow))
    async with AsyncExitStack() as open_ones:
        if is_mounted:
            app = AsgiApp(desk.make, log=desk.log, settings=settings)
            url = await open_ones.enter_async_context(serve_asgi(app))
        else:
            server = WebServer(desk.make, port=0, log=desk.log, settings=settings)
            url = (await open_ones.enter_async_context(server)).url
        http = await open_ones.enter_async_context(aiohttp.ClientSession(url, trust_env=False))
        asking = asyncio.create_task(http.post(path, json=body).__aenter__())
        await slow.is_checking.wait()
        asking.cancel()
        await slow.is_over.wait()
        async with http.get("api/runs") as response:
            assert (await response.json())["runs"] == []
    assert (await desk.log.list(), slow.cancelled) == ([], 1)


async def test_no_message_of_a_socket_shows_what_a_check_refuses(desk: Desk) -> None:
    server = WebServer(desk.make, port=0, log=desk.log, settings=Settings(gate=gate))
    async with server, aiohttp.ClientSession(server.url, trust_env=False) as http:
        async with http.post("api/runs", json={"input": "hi"}) as response:
            run = await response.json()
        async with http.ws_connect("api/ws") as socket:
            await socket.receive_json()
            for kind in get_args(wire.ClientMessage):
                hints = get_type_hints(kind)
                texts = [name for name in kind.__struct_encode_fields__ if hints.get(name) is str or name == "run"]
                fields = {"run": run["id"], "stream": "none"}
                sent = {name: fields.get(name, SECRET) for name in texts}
                await socket.send_str(json.dumps({"type": kind.__struct_config__.tag, **sent}))
                while "name" in sent and (shown := await socket.receive_json()).get("code") != "input_refused":
                    desk.shown.append(shown)
            async with http.get("api/runs") as response:
                desk.shown.append(await response.json())


# An editor


@asynccontextmanager
async def editor(desk: Desk, gate: Any, *choices: str) -> AsyncGenerator[tuple[AcpAgent, Client], None]:
    client = Client(*choices)
    agent = AcpAgent(desk.make, client, log=desk.log, gate=gate)
    task = asyncio.create_task(agent.serve())
    try:
        yield agent, client
    finally:
        desk.shown += [client.received, client.questions]
        client.leave()
        await task


async def test_no_method_of_an_editor_takes_what_a_check_refuses(desk: Desk) -> None:
    async with editor(desk, gate) as (agent, client):
        session = await client.open()
        methods: dict[str, Method] = agent._peer._methods  # pyright: ignore[reportPrivateUsage] - also new ones
        assert len(methods) > 8
        for name, method in methods.items():
            if name == "session/prompt" or not method.at_once:
                for planted in ({"planted": SECRET}, {"prompt": [{"type": "text", "text": SECRET}]}):
                    with pytest.raises(RefusedError, match=REFUSED):
                        await client.ask(name, sessionId=session, cwd="/home/me", protocolVersion=1, **planted)
        assert (await client.prompt(session, "Hi"))["stopReason"] == "end_turn"
        # The keys of its servers are no input.
        server = {"name": "a", "command": "/none", "args": [], "env": [{"name": "KEY", "value": SECRET}]}
        await client.ask("session/new", cwd="/home/me", mcpServers=[server])
    assert len(desk.model.requests) == 1


class Slow:
    """A check that takes its time about texts with ``slow`` in them.

    Attributes:
        is_checking: Set while it does.
        is_over: Set since it has.
        may_pass: Ends it.
        cancelled: How many were cancelled.
    """

    def __init__(self) -> None:
        self.is_checking, self.is_over, self.may_pass = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.cancelled = 0

    async def __call__(self, text: str) -> bool:
        if "slow" in text:
            self.is_checking.set()
            self.is_over.clear()
            try:
                await self.may_pass.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            finally:
                self.is_checking.clear()
                self.is_over.set()
        return SECRET not in text


async def test_a_prompt_that_is_cancelled_while_it_is_checked_begins_no_run(desk: Desk) -> None:
    slow = Slow()
    async with editor(desk, hold_back(slow)) as (_, client):
        session = await client.open()
        for text in "Hi", "Go on":  # before the first run, and after one
            prompts = [client.prompt(session, f"slow {number}") for number in range(2)]
            await slow.is_checking.wait()
            client.send({"method": "session/cancel", "params": {"sessionId": session}})
            after = client.prompt(session, text)  # what comes after a cancel is not cancelled
            assert [(await each)["stopReason"] for each in prompts] == ["cancelled"] * 2
            assert (await after)["stopReason"] == "end_turn"
        slow.may_pass.set()
        assert (await client.prompt(session, "slow")) == {"stopReason": "end_turn"}
    assert slow.cancelled == 4
    assert [request.conversation.messages[-1].text for request in desk.model.requests] == ["Hi", "Go on", "slow"]
    assert len(await desk.log.list()) == 3


@pytest.mark.parametrize("steps", range(30))
@pytest.mark.parametrize("is_gated", [True, False])
async def test_a_cancel_reaches_the_prompts_before_it_and_none_after_it(desk: Desk, steps: int, is_gated: bool) -> None:
    """Whichever await of the first prompt it meets: the check, the log, the beginning of the run, or its answer."""
    async with editor(desk, gate if is_gated else None) as (_, client):
        session = await client.open()
        first = client.prompt(session, "First")
        for _ in range(steps):
            await asyncio.sleep(0)
        client.send({"method": "session/cancel", "params": {"sessionId": session}})
        await asyncio.wait({first})
        second = client.prompt(session, "Second")
        reasons = [(await each)["stopReason"] for each in (first, second)]
        assert reasons in (["cancelled", "end_turn"], ["end_turn"] * 2)
    assert [m.text for m in desk.model.requests[-1].conversation.messages if m.role == "user"][-1] == "Second"
    runs = [(info.row.title, info.status) for info in reversed(await desk.log.list())]
    several = [("First", "finished")], *[[("First", "aborted")], []] * (reasons[0] == "cancelled")
    assert runs[-1] == ("Second", "finished")
    assert runs[:-1] in several  # one that had finished just then is what it is


async def test_a_client_that_leaves_while_its_prompt_is_checked_begins_no_run(desk: Desk) -> None:
    slow = Slow()
    async with editor(desk, hold_back(slow)) as (_, client):
        prompt = client.prompt(await client.open(), "slow")
        await slow.is_checking.wait()
        client.leave()
        assert (await prompt)["stopReason"] == "cancelled"
    assert (await desk.log.list(), slow.cancelled) == ([], 1)


async def test_a_check_that_fails_refuses_but_not_the_end_of_a_prompt(desk: Desk) -> None:
    began = asyncio.Event()

    async def slow(text: str) -> bool:
        if "wait" in text:
            began.set()
            await asyncio.Event().wait()
        if "fail" in text:
            raise OSError(text)
        return True

    async with editor(desk, hold_back(slow)) as (_, client):
        session = await client.open()
        with pytest.raises(RefusedError, match="a check raised OSError"):
            await client.prompt(session, f"fail {SECRET}")
        waiting = client.prompt(session, "wait")
        await began.wait()
        client.send({"method": "$/cancel_request", "params": {"requestId": client.number}})
        with pytest.raises(RefusedError, match="was cancelled"):
            await waiting
        assert (await client.prompt(session, "Hi"))["stopReason"] == "end_turn"


async def test_an_answer_of_an_editor_that_is_refused_decides_nothing(desk: Desk) -> None:
    async with editor(desk, gate, SECRET, "allow_once") as (_, client):
        session = await client.open()
        with pytest.raises(RefusedError, match=REFUSED):
            await client.prompt(session, "wipe")
        assert desk.wiped == []
        await client.prompt(session, "Go on.")
    assert desk.wiped == ["a"]


# An MCP client


@pytest.mark.parametrize("mode", test_mcp.MODES)
async def test_no_input_of_an_mcp_client_passes_that_a_check_refuses(desk: Desk, mode: str) -> None:
    answers: list[Any] = [{"approve": False, "reason": SECRET}, {"approve": True}]

    async def elicit(*_: Any) -> mcp.types.ElicitResult:
        return mcp.types.ElicitResult(action="accept", content=answers.pop(0))

    server = McpServer({"worker": desk.make}, log=desk.log, settings=Settings(gate=gate))
    async with server.listen() as url, test_mcp.client(url, mode, elicit) as using:
        for given in {"message": SECRET}, {"message": "hi", SECRET: 1}, {"message": "hi", "conversation": SECRET}:
            result = await using.call_tool("worker", given)
            desk.shown.append(result)
            assert result.is_error
            assert REFUSED in test_mcp.text_of(result)
        assert desk.model.requests == []
        result = await using.call_tool("worker", {"message": "wipe"})
        desk.shown.append(result)
        assert REFUSED in test_mcp.text_of(result)
        assert desk.wiped == []
        result = await using.call_tool("worker", {"message": "wipe"})
        assert test_mcp.text_of(result) == "Done."


@pytest.mark.parametrize("mode", test_mcp.MODES)
async def test_a_call_that_is_cancelled_while_it_is_checked_begins_no_run(desk: Desk, mode: str) -> None:
    slow = Slow()
    server = McpServer({"worker": desk.make}, log=desk.log, settings=Settings(gate=hold_back(slow)))
    async with server.listen() as url, test_mcp.client(url, mode) as using:
        calling = asyncio.create_task(using.call_tool("worker", {"message": "slow"}))
        await slow.is_checking.wait()
        calling.cancel()
        await slow.is_over.wait()
        assert test_mcp.text_of(await using.call_tool("worker", {"message": "Hi"})) == "Done."
    assert (len(await desk.log.list()), slow.cancelled) == (1, 1)


async def test_a_call_that_is_cancelled_while_its_answer_is_checked_dismisses_its_run(desk: Desk) -> None:
    slow = Slow()

    async def elicit(*_: Any) -> mcp.types.ElicitResult:
        return mcp.types.ElicitResult(action="accept", content={"approve": True, "reason": "slow"})

    server = McpServer({"worker": desk.make}, log=desk.log, settings=Settings(gate=hold_back(slow)))
    async with server.listen() as url, test_mcp.client(url, "legacy", elicit) as using:
        calling = asyncio.create_task(using.call_tool("worker", {"message": "wipe"}))
        await slow.is_checking.wait()
        calling.cancel()
        await slow.is_over.wait()
        async with asyncio.timeout(30), aclosing(desk.log.changes()) as changes:
            async for _ in changes:
                if [info.status for info in await desk.log.list()] == ["aborted"]:
                    break
    assert (desk.wiped, slow.cancelled) == ([], 1)


# The terminal


async def test_what_is_cancelled_while_it_is_checked_stays_in_the_input_of_the_terminal(
    desk: Desk, open_app: Open
) -> None:
    slow = Slow()
    async with open_app(Session(desk.make(), log=desk.log), gate=hold_back(slow)) as person:
        for text in "slow", "//slow", "/now slow":
            saying = asyncio.create_task(person.say(text))  # until it is checked
            await slow.is_checking.wait()
            await person.press("ctrl+c")
            await saying
            assert person.typed == text
            assert desk.model.requests == []
        slow.may_pass.set()
        await person.ask("slow", sees="Done.")
    assert slow.cancelled == 3


async def test_a_message_that_is_checked_begins_no_run_when_the_one_before_is_cancelled(
    desk: Desk, open_app: Open
) -> None:
    slow, began = Slow(), asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        began.set()
        await asyncio.Event().wait()

    worker = Worker(ScriptedModel([call("wait"), "Done."]), tools=[wait])
    async with open_app(Session(worker, log=desk.log), gate=hold_back(slow)) as person:
        await person.say("Hi")
        await began.wait()
        saying = asyncio.create_task(person.say("slow"))
        await slow.is_checking.wait()
        await person.press("ctrl+c")
        await saying
        await person.rest()
        slow.may_pass.set()
        await person.until(lambda: person.app.session.status == "ready")
        assert person.typed == "slow"
    assert (len(await desk.log.list()), slow.cancelled) == (1, 1)


@pytest.mark.parametrize("text", [SECRET, f"/now {SECRET}", f"/rename {SECRET}", f"//{SECRET}"])
async def test_the_terminal_keeps_what_a_check_refuses_in_its_input(desk: Desk, open_app: Open, text: str) -> None:
    async with open_app(Session(desk.make(), log=desk.log), gate=gate) as person:
        await person.ask("Hi", sees="Done.")
        await person.say(text)
        await person.is_notified(REFUSED)
        assert person.typed == text
    assert len(desk.model.requests) == 1


async def test_the_terminal_decides_nothing_with_what_a_check_refuses(desk: Desk, open_app: Open) -> None:
    async with open_app(Session(desk.make(), log=desk.log), gate=gate) as person:
        await person.ask("wipe", sees="wipe waits for approval")
        await person.press("ctrl+e", sees="text, required")
        await person.press("backspace", *SECRET, "ctrl+s")
        await person.is_notified(REFUSED)
        await person.press("ctrl+r", sees="wipe waits for approval")
        await person.press("ctrl+s", sees="Done.")
    assert desk.wiped == ["a"]


# The command line


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_an_interrupt_ends_the_check_of_a_line() -> None:
    slow, desk, shown = Slow(), Desk(), io.StringIO()

    async def interrupted(text: str) -> bool:
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        signal.pthread_kill(main_thread, signal.SIGINT)
        return await slow(text)

    # A runner in the background may ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with LoopThread("loop", asyncio.run) as background:
            check = hold_back(interrupted)
            error = answer_to(Session(desk.make()), background, "slow", Page(Console(file=shown)), check, counted=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(error, RunCancelledError)
    assert (shown.getvalue().strip(), slow.cancelled) == ("cancelled", 1)
    assert desk.model.requests == []


async def test_a_line_that_a_check_refuses_begins_no_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\nHi\n"))
    with redirect_stdout(io.StringIO()) as shown:
        code = await asyncio.to_thread(converse, desk.make(), is_person=False, gate=gate)
    desk.shown += [shown.getvalue(), error := capsys.readouterr().err]
    assert (code, REFUSED in error) == (1, True)
    assert desk.model.requests == []


def test_the_commands_that_serve_a_worker_take_the_name_of_a_gate(capsys: pytest.CaptureFixture[str]) -> None:
    taken: list[str] = []
    for command in COMMANDS:
        main([command, "--help"])
        taken += [command] * ("--gate MODULE:NAME" in capsys.readouterr().out)
    assert taken == ["chat", "serve", "mcp", "acp"]
    assert WorkerOptions(gate=f"{__name__}:gate").input_gate() is gate
    with pytest.raises(CommandError, match=r"--gate .*: .*give gate=hold_back"):
        WorkerOptions(gate=f"{__name__}:is_clean").input_gate()


@pytest.mark.parametrize("wrong", [is_clean, Worker, "gate"])
def test_a_gate_is_what_hold_back_returns(wrong: Any) -> None:
    makers: list[Callable[[], object]] = [
        lambda: Settings(gate=wrong),
        lambda: AcpAgent(Desk().make, Client(), gate=wrong),
        lambda: run_app(Desk().make(), gate=wrong),
    ]
    for make in makers:
        with pytest.raises(ConfigurationError, match="give gate=hold_back"):
            make()
