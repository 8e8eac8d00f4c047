"""What waits in the background of a run is shown at every door while the run goes on, and decided about there, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import mcp
import pytest
from msgspec.structs import replace

from rxworker import Approve, Deny, Paused, Run, Session, Worker, tool
from rxworker.adapters.acp import AcpAgent
from rxworker.adapters.mcp import McpServer
from rxworker.decisions import Decided, Decision
from rxworker.desk.meanwhile import Meanwhile, decided_now
from rxworker.errors import RunCancelledError
from rxworker.events import PausedCall, PauseState
from rxworker.events.pause import BackgroundCall, Begun
from rxworker.log import EventLog, MemoryLog
from rxworker.messages import JsonObject, ToolCall
from rxworker.resume.paused import decide_command
from rxworker.testing import ScriptedModel, call
from rxworker.ui.web import WebServer
from tests.adapters.acp.test_agent import SECONDS, Client
from tests.adapters.mcp import test_mcp
from tests.tools.test_mcp_questions import Small, connected
from tests.ui.terminal.conftest import Open
from tests.ui.terminal.conftest import open_app as open_app  # a fixture
from tests.worker.test_background_waits import NESTED, Bench

pytestmark = pytest.mark.unlogged  # each test gives its log
LOGS = [None, MemoryLog]


@pytest.fixture(params=LOGS, ids=["memory", "log"])
async def log(request: pytest.FixtureRequest) -> AsyncGenerator[EventLog | None, None]:
    if request.param is None:
        yield None
    else:
        async with request.param() as made:
            yield made


# The desk


class Person:
    """Is asked, and answers when the test has them answer."""

    def __init__(self) -> None:
        self.shown: list[PauseState] = []
        self.answers: asyncio.Queue[dict[int, Decision] | None] = asyncio.Queue()
        self.meanwhile = Meanwhile(self.ask)

    async def ask(self, shown: PauseState) -> dict[int, Decision] | None:
        self.shown.append(shown)
        return await self.answers.get()


async def asked(bench: Bench, *kinds: str) -> tuple[Run[Any], Person]:
    run, person = bench.worker(*kinds).run("go"), Person()
    run.events.subscribe(lambda event: person.meanwhile.look(run, event), lambda _: None)
    await until(lambda: person.shown)
    return run, person


async def test_a_decision_is_about_the_call_that_was_shown_also_when_the_run_has_paused(log: EventLog | None) -> None:
    bench = Bench(log)
    run, person = await asked(bench, "nested", "slow", "asks")
    which = person.shown[0].background[0].call.name
    decisions: dict[str, dict[int, Decision]] = {"nested": {1: Approve()}, "asks": {0: Approve({"day": "today"})}}
    person.answers.put_nowait(decisions.pop(which))
    await until(lambda: bench.done and len(person.shown) == 2)  # the other one
    bench.may_end.set()
    paused = await run
    assert isinstance(paused, Paused)
    person.answers.put_nowait(decisions.popitem()[1])
    decided = await person.meanwhile.answered(paused.pause)
    assert decided is not None
    assert len(decided) == 1
    await Session(bench.worker("nested"), log=log).resume(
        paused, decisions=[decided.get(at) for at in range(len(paused.pause.tree))]
    )
    assert sorted(bench.done) == ["a", "accept"]
    assert await person.meanwhile.answered(paused.pause) == {}  # once


def test_a_decision_is_bound_to_the_call_its_arguments_what_waits_inside_and_its_step() -> None:
    inside = PauseState("permit", (PausedCall(0, ToolCall("y", "pay", {"sum": 1})),), (0,))
    more = PauseState("permit", (PausedCall(0, ToolCall("y", "pay", {"sum": 2})),), (0,))
    shown = BackgroundCall("x", ToolCall("x", "clerk", {}), "k", begun=Begun(run="run-1.1", paused=inside), step=1)
    others = [
        replace(shown, step=2),
        replace(shown, call=ToolCall("x", "clerk", {"task": "!"})),
        replace(shown, begun=Begun(run="run-1.1", paused=more)),
        replace(shown, id="z"),
    ]
    approved: dict[int, Decision] = {1: Approve()}
    waiting = PauseState("permit", (PausedCall(0, ToolCall("a", "wipe", {})),), (0,), background=(*others, shown))
    alone = PauseState("background", (), (), background=(shown,))
    assert decided_now(replace(waiting, background=tuple(others)), alone, approved) == {}
    [(place, decision)] = decided_now(waiting, alone, approved).items()
    assert (waiting.tree[place].call.input, decision) == ({"sum": 1}, Approve())
    assert place == len(waiting.tree) - 1


@pytest.mark.parametrize("late", [{1: Approve()}, None])
async def test_a_decision_that_another_was_faster_than_counts_for_nothing(
    log: EventLog | None, late: dict[int, Decision] | None
) -> None:
    bench = Bench(log)
    run, person = await asked(bench, "nested", "slow")
    run.decide({NESTED: Deny("no")})
    await until(lambda: run.state.waiting is None)
    person.answers.put_nowait(late)
    bench.may_end.set()
    await run
    assert (bench.done, len(person.shown)) == ([], 1)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_person_who_cancels_ends_the_run_and_a_failure_leaves_it(log: EventLog | None, fails: bool) -> None:
    bench = Bench(log)
    run, person = await asked(bench, "nested", "slow")
    person.answers.put_nowait({7: Approve()} if fails else None)
    bench.may_end.set()
    if fails:
        assert isinstance(await run, Paused)
    else:
        with pytest.raises(RunCancelledError):
            await run
    assert bench.done == []


async def test_questions_of_an_mcp_server_are_answered_one_after_the_other(log: EventLog | None) -> None:
    server, may_end, person = Small(), asyncio.Event(), Person()

    @tool
    async def hold() -> str:
        await may_end.wait()
        return "held"

    async with connected(server) as tools:
        for each in tools:
            each.policy = replace(each.policy, background=True)
        model = ScriptedModel([call("both") + call("hold"), "One.", "Two."])
        run = Worker(model, tools=[*tools, hold], log=log).run("go")
        run.events.subscribe(lambda event: person.meanwhile.look(run, event), lambda _: None)
        contents: list[JsonObject | None] = [{"guests": 2}, None]
        for content in contents:
            person.answers.put_nowait({0: Approve(content)})
        await until(lambda: server.done)
        may_end.set()
        await run
    questions = [one.background[0].begun for one in person.shown]
    assert [one.question.message for one in questions if one and one.question] == ["How many?", "Sign in."]
    assert server.done == ["both [{'action': 'accept', 'content': {'guests': 2}}, {'action': 'accept'}]"]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - of another task, which has no event
            await asyncio.sleep(0)


# The editor


@asynccontextmanager
async def editor(bench: Bench, make: Callable[[], Worker], *choices: str) -> AsyncGenerator[Client, None]:
    client = Client(*choices)
    task = asyncio.create_task(AcpAgent(make, client, log=bench.log).serve())
    try:
        yield client
    finally:
        client.leave()
        await task


@pytest.mark.parametrize(("choice", "done"), [("allow_once", ["a"]), ("reject_once", [])])
async def test_an_editor_decides_while_its_prompt_is_open(log: EventLog | None, choice: str, done: list[str]) -> None:
    bench = Bench(log)
    async with editor(bench, lambda: bench.worker("nested", "slow"), choice) as client:
        prompt = client.prompt(await client.open(), "go")
        await client.until(
            lambda: (client.questions and "It is gone" in str(client.received)) or choice != "allow_once"
        )
        await client.until(lambda: client.questions)
        assert not prompt.done()
        bench.may_end.set()
        assert (await prompt)["stopReason"] == "end_turn"
        [question] = client.questions
    assert question["toolCall"]["rawInput"] == {"what": "a"}
    assert bench.done == done


async def test_an_editors_question_stays_open_when_the_run_pauses(log: EventLog | None) -> None:
    bench = Bench(log)
    async with editor(bench, lambda: bench.worker("nested"), "wait") as client:
        prompt = client.prompt(await client.open(), "go")
        await client.until(lambda: client.questions and "I wait." in client.text)
        client.send({"id": 1, "result": {"outcome": {"outcome": "selected", "optionId": "allow_once"}}})
        assert (await prompt)["stopReason"] == "end_turn"
        assert len(client.questions) == 1
    assert bench.done == ["a"]


async def test_a_question_of_an_editor_decides_nothing_after_another_door_has(log: EventLog | None) -> None:
    bench = Bench(log)
    client = Client("wait")
    agent = AcpAgent(lambda: bench.worker("nested", "slow"), client, log=log)
    serving = asyncio.create_task(agent.serve())
    session = await client.open()
    prompt = client.prompt(session, "go")
    await client.until(lambda: client.questions)
    run = agent._sessions[session].opened.run  # pyright: ignore[reportPrivateUsage]
    assert run is not None
    run.decide({NESTED: Approve()})
    await client.until(lambda: bench.done and client.withdrawn == [1])
    client.send({"id": 1, "result": {"outcome": {"outcome": "selected", "optionId": "reject_once"}}})
    bench.may_end.set()
    assert (await prompt)["stopReason"] == "end_turn"
    client.leave()
    await serving
    assert bench.done == ["a"]


async def test_a_prompt_that_is_cancelled_decides_nothing(log: EventLog | None) -> None:
    bench = Bench(log)
    async with editor(bench, lambda: bench.worker("nested", "slow"), "wait") as client:
        session = await client.open()
        prompt = client.prompt(session, "go")
        await client.until(lambda: client.questions)
        client.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert (await prompt)["stopReason"] == "cancelled"
        client.send({"id": 1, "result": {"outcome": {"outcome": "selected", "optionId": "allow_once"}}})
    assert bench.done == []


async def test_a_prompt_that_is_cancelled_at_a_question_of_a_paused_run_dismisses_the_run(log: EventLog | None) -> None:
    bench, client = Bench(log), Client("wait")
    agent = AcpAgent(lambda: bench.worker("nested"), client, log=log)
    serving = asyncio.create_task(agent.serve())
    session = await client.open()
    prompt = client.prompt(session, "go")
    await client.until(lambda: client.questions and "I wait." in client.text)
    client.send({"method": "session/cancel", "params": {"sessionId": session}})
    assert (await prompt)["stopReason"] == "cancelled"
    assert agent._sessions[session].opened.paused is None  # pyright: ignore[reportPrivateUsage]
    client.leave()
    await serving
    assert bench.done == []


# MCP clients


@pytest.mark.parametrize(("kind", "content"), [("nested", {"approve": True}), ("asks", {"day": "today"})])
async def test_an_mcp_client_decides_while_its_call_is_open(
    log: EventLog | None, kind: str, content: dict[str, Any]
) -> None:
    bench, forms = Bench(log), list[Any]()

    async def elicit(_: Any, params: Any) -> mcp.types.ElicitResult:
        forms.append(params)
        assert not bench.may_end.is_set()
        return mcp.types.ElicitResult(action="accept", content=content)

    async with (
        McpServer({"worker": lambda: bench.worker(kind, "slow")}, log=log).listen() as url,
        test_mcp.client(url, "legacy", elicit) as using,
    ):
        call = asyncio.create_task(using.call_tool("worker", {"message": "go"}))
        await until(lambda: bench.done)
        assert not call.done()
        bench.may_end.set()
        result = await call
    assert not result.is_error
    assert len(forms) == 1


async def test_a_form_of_an_mcp_client_stays_open_when_the_run_pauses(log: EventLog | None) -> None:
    bench, forms, may_answer = Bench(log), list[Any](), asyncio.Event()

    async def elicit(_: Any, params: Any) -> mcp.types.ElicitResult:
        forms.append(params)
        await may_answer.wait()
        return mcp.types.ElicitResult(action="accept", content={"approve": True})

    server = McpServer({"worker": lambda: bench.worker("nested")}, log=log)
    async with server.listen() as url, test_mcp.client(url, "legacy", elicit) as using:
        call = asyncio.create_task(using.call_tool("worker", {"message": "go"}))
        await until(lambda: [each.status for each in server._store.of(None)] == ["paused"])  # pyright: ignore
        may_answer.set()
        await call
    assert (len(forms), bench.done) == (1, ["a"])


async def test_what_was_denied_while_the_run_went_on_is_not_part_of_the_next_form(log: EventLog | None) -> None:
    bench, forms, may_answer = Bench(log), list[str](), asyncio.Event()

    async def elicit(_: Any, params: Any) -> mcp.types.ElicitResult:
        forms.append(params.message)
        if len(forms) > 1:
            return mcp.types.ElicitResult(action="accept", content={"approve": True})
        await may_answer.wait()
        return mcp.types.ElicitResult(action="decline")

    own = call("wipe", what="own")
    server = McpServer({"worker": lambda: bench.worker("nested", "hold", second=own)}, log=log)
    async with server.listen() as url, test_mcp.client(url, "legacy", elicit) as using:
        calling = asyncio.create_task(using.call_tool("worker", {"message": "go"}))
        await until(lambda: forms)
        bench.may_end.set()
        await until(lambda: [each.status for each in server._store.of(None)] == ["paused"])  # pyright: ignore
        may_answer.set()
        await calling
    assert bench.done == ["own"]
    assert ['"own"' in form for form in forms] == [False, True]
    assert ['"a"' in form for form in forms] == [True, False]


@pytest.mark.parametrize("ends_it", ["decision", "cancel"])
async def test_a_form_is_withdrawn_when_its_question_is_decided_elsewhere(log: EventLog | None, ends_it: str) -> None:
    bench, forms, withdrawn = Bench(log), list[Any](), asyncio.Event()

    async def elicit(_: Any, params: Any) -> mcp.types.ElicitResult:
        forms.append(params)
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        raise AssertionError

    server = McpServer({"worker": lambda: bench.worker("nested", "slow")}, log=log)
    async with server.listen() as url, test_mcp.client(url, "legacy", elicit) as using:
        calling = asyncio.create_task(using.call_tool("worker", {"message": "go"}))
        await until(lambda: forms)
        [entry] = server._store.of(None)  # pyright: ignore[reportPrivateUsage]
        assert entry.here is not None
        if ends_it == "cancel":
            entry.here.cancel()
            assert (await calling).is_error
        else:
            entry.here.decide({NESTED: Approve()})
            await until(lambda: bench.done)
        async with asyncio.timeout(SECONDS):
            await withdrawn.wait()
        assert [task for task in asyncio.all_tasks() if task.get_name() == "question" and not task.cancelling()] == []
        bench.may_end.set()
        await calling
    assert len(forms) == 1


async def test_a_call_that_is_cancelled_while_its_form_stays_open_dismisses_the_paused_run(
    log: EventLog | None,
) -> None:
    bench, asked = Bench(log), asyncio.Event()

    async def elicit(*_: Any) -> mcp.types.ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    server = McpServer({"worker": lambda: bench.worker("nested")}, log=log)
    async with server.listen() as url, test_mcp.client(url, "legacy", elicit) as using:
        calling = asyncio.create_task(using.call_tool("worker", {"message": "go"}))
        await until(lambda: [each.status for each in server._store.of(None)] == ["paused"])  # pyright: ignore
        await asked.wait()
        calling.cancel()
        await until(lambda: [each.status for each in server._store.of(None)] == ["aborted"])  # pyright: ignore
    assert bench.done == []


# The terminal


async def test_the_terminal_opens_its_dialog_while_the_run_goes_on(log: EventLog | None, open_app: Open) -> None:
    bench = Bench(log)
    async with open_app(Session(bench.worker("nested", "slow"), log=log)) as person:
        await person.say("go", sees="wipe waits for approval")
        await person.press("ctrl+s")
        await person.until(lambda: bool(bench.done))
        assert person.app.session.active is not None
        bench.may_end.set()
        await person.rest()
    assert bench.done == ["a"]


async def test_the_dialog_of_the_terminal_stays_when_the_run_pauses(log: EventLog | None, open_app: Open) -> None:
    bench = Bench(log)
    async with open_app(Session(bench.worker("nested"), log=log)) as person:
        await person.say("go", sees="wipe waits for approval")
        await person.until(lambda: person.app.session.status == "paused")
        await person.press("ctrl+s")
        await person.until(lambda: bool(bench.done))
        await person.rest()
        assert person.app.session.status == "ready"
    assert bench.done == ["a"]


async def test_the_dialog_of_a_paused_run_closes_when_another_door_has_decided(open_app: Open) -> None:
    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    async with MemoryLog() as log:
        worker = Worker(ScriptedModel([call("pay"), "Paid."]), tools=[pay], log=log)
        async with open_app(Session(worker, log=log)) as person:
            await person.say("go", sees="pay waits for approval")
            paused = person.app.session.paused
            assert paused is not None
            before = len(person.app.screen_stack)
            await log.send(paused.run_id, decide_command(paused, Decided((Approve(),))))
            await person.is_notified("decided elsewhere")
            assert len(person.app.screen_stack) == before - 1


# AG-UI and useChat


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("ag-ui", {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "go"}]}),
        ("api/chat", {"id": "t", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "go"}]}]}),
    ],
)
async def test_a_stream_shows_what_waits_and_the_route_decides(
    log: EventLog | None, path: str, body: dict[str, Any]
) -> None:
    bench, shown = Bench(log), list[Any]()
    server = WebServer(lambda: bench.worker("nested", "slow"), port=0, log=log)
    async with server, aiohttp.ClientSession(server.url, trust_env=False) as http, http.post(path, json=body) as stream:
        run = stream.headers["X-Rxworker-Run"]
        async for line in stream.content:
            if b"waiting" not in line:
                continue
            event = json.loads(line.removeprefix(b"data: "))
            value = event["value"] if path == "ag-ui" else event["data"]
            shown.append(value.get("interrupts", value.get("calls")))
            if len(shown) == 1:
                [asked] = shown[0]
                name = asked["id"].partition(":")[2] or asked["id"]
                decisions = {"decisions": {name: {"type": "approve"}}}
                async with http.post(f"api/runs/{run}/resume", json=decisions) as response:
                    assert response.status == 201, await response.text()
            else:
                bench.may_end.set()
    assert shown[1:] == [[]]
    assert bench.done == ["a"]
