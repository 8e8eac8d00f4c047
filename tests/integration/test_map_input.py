"""What ``map_input`` of a worker takes out of a message, door x verb: nothing has it, and the conversation goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import reactivex
from msgspec.structs import replace
from reactivex import operators as ops

from rxworker import Paused, Run, Session, Worker, tool, worker_tool
from rxworker.errors import ConfigurationError, InputRefusedError, RunHandedOverError
from rxworker.events import CommandTaken, Record
from rxworker.hub import iterate
from rxworker.log import EventLog, MemoryLog, Replica, open_log
from rxworker.log.format import record_of
from rxworker.messages import Image, Message, Text
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, fail
from rxworker.ui.web import WebServer
from rxworker.worker import QueuedWorker, run_inputs, submit, work
from tests.integration.test_permissions_between_doors import CommandLine, Desk, Door, Editor, Python, Terminal, answer
from tests.log.conftest import NewAddress

SECRET = "hunter2"
TEXT = f"My password is {SECRET}."
QUESTION = Message.user(TEXT)


def masked(message: Message) -> Message:
    content = [
        replace(each, text=each.text.replace(SECRET, "***")) if isinstance(each, Text) else each
        for each in message.content
    ]
    return replace(message, content=tuple(content))


async def stored_in(log: EventLog) -> str:
    """All that a log has, and what its search finds."""
    found: list[object] = []
    async for infos in log.list_pages():
        for info in infos:
            entries = [record_of(entry, info.run_id) async for entry in log.read(info.run_id)]
            found += [info, entries, await log.sent(info.run_id)]
    return str([*found, [one.info.run_id async for one in log.search(SECRET)]])


def done(request: Request) -> str:
    return "Done."


@pytest.mark.product(2)
@pytest.mark.parametrize("answers", [done, answer])
@pytest.mark.parametrize("door", Door.every)
async def test_what_is_masked_at_a_door_is_in_nothing_that_is_stored_shown_or_sent(
    door: type[Door], answers: Callable[[Request], Reply | str], new_address: NewAddress
) -> None:
    """The first run has finished, or waits for a decision about a call."""
    if door in (CommandLine, Terminal) and answers is answer:
        return  # they refuse to go on with a run that waits
    address = new_address("sqlite")
    async with asyncio.timeout(60), open_log(address) as log:
        desk = Desk(log, address, answers=answers, map_input=masked)
        first = Python(desk)
        first.text = TEXT
        await first.say()
        async with door(desk).opened() as opened:
            opened.text = TEXT
            for _ in range(2):
                await opened.say()
        for place in await stored_in(log), str(opened.shown), str(desk.model.requests):
            assert SECRET not in place
        said = [m.text for m in desk.model.requests[-1].conversation.messages if "***" in m.text]
        assert len(said) >= (1 if door.names_no_conversation else 2), said
    for file in Path(address.removeprefix("sqlite:")).parent.iterdir():
        assert SECRET.encode() not in file.read_bytes(), file.name


# The verbs of a program.


@tool(requires_approval=True)
async def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"{disk} is empty"


class Program:
    """A worker, and what a program does with it.

    Attributes:
        begun: Set when the model has a request.
    """

    def __init__(self, log: EventLog | None, map_input: Callable[[Message], Message] = masked) -> None:
        self.log, self.begun = log, asyncio.Event()
        self.model = ScriptedModel(self._answer)
        self.options: dict[str, Any] = {"log": log, "map_input": map_input}
        self.worker = Worker(self.model, tools=[wipe, self.slow()], **self.options)

    def slow(self) -> Any:
        @tool
        async def wait() -> str:
            """Wait."""
            self.begun.set()
            return await self.ended

        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return wait

    def _answer(self, request: Request) -> Reply | str:
        said = request.conversation.messages[-1]
        if said.tool_results or "***" in said.text:
            return "Done."
        return call("wait") if said.text == "Wait." else call("wipe", disk="a")

    async def paused(self) -> Paused[object]:
        result = await self.worker.run("Wipe it.")
        assert isinstance(result, Paused)
        return result

    async def taken(self) -> None:
        """Let a process take what is queued or decided, until nothing is."""
        assert self.log is not None
        taking = asyncio.create_task(work(self.log, lambda _: self.worker))
        while infos := await self.log.list():
            resumed = [info.row.resumes for info in infos]
            if all(i.status == "finished" or i.run_id in resumed for i in infos):
                break
            await asyncio.sleep(0)
        taking.cancel()
        with suppress(asyncio.CancelledError):
            await taking


async def run_it(program: Program) -> None:
    await program.worker.run(TEXT)


async def run_message(program: Program) -> None:
    await program.worker.session.run([Message.user(TEXT, Image(url="https://a.b/c.png")), Message.user(TEXT)])


async def run_two(program: Program) -> None:
    await Session(program.worker).run([TEXT, TEXT], output=None)


async def run_sync(program: Program) -> None:
    await asyncio.to_thread(program.worker.run_sync, TEXT)


async def stream_sync(program: Program) -> None:
    await asyncio.to_thread(lambda: list(program.worker.stream_sync(TEXT)))


async def inputs(program: Program) -> None:
    runs = reactivex.of(TEXT, TEXT).pipe(run_inputs(program.worker))
    async for run in iterate(runs):
        await run


async def send(program: Program) -> None:
    run = program.worker.run("Wait.")
    await program.begun.wait()
    delivered = run.send(TEXT)
    program.ended.set_result("over")
    await delivered
    await run


async def resume(program: Program) -> None:
    await program.worker.resume(await program.paused(), add=[Message.user(TEXT)])


async def decide(program: Program) -> None:
    await program.worker.decide((await program.paused()).run_id, add=[Message.user(TEXT)])


async def decide_later(program: Program) -> None:
    queue = QueuedWorker("", **program.options)
    await queue.decide_later((await program.paused()).run_id, add=[Message.user(TEXT)])
    await program.taken()


async def run_queued(program: Program) -> None:
    with suppress(RunHandedOverError):
        await QueuedWorker("", **program.options).run(TEXT)
    await program.taken()


async def submit_twice(program: Program) -> None:
    assert program.log is not None
    for _ in range(2):
        await submit(program.log, TEXT, run_id="order-1", map_input=masked)
    await program.taken()


async def nested(program: Program) -> None:
    inner = worker_tool(Worker(program.model, map_input=masked), name="ask", description="Ask.")
    model = ScriptedModel([call("ask", task=TEXT), "Done."])
    outer = Worker(model, tools=[inner], log=program.log)
    result = await outer.run("Hi")
    assert SECRET in str(model.requests), result  # the model of the outer run has written it


def records_of(run: Run[object]) -> reactivex.Observable[Record]:
    return run.records


Verb = Callable[[Program], Awaitable[None]]
PLAIN: list[Verb] = [run_it, run_message, run_two, run_sync, stream_sync, inputs, send, resume]
STORED: list[Verb] = [decide, decide_later, run_queued, submit_twice]


@pytest.mark.parametrize("verb", [*PLAIN, *STORED])
@pytest.mark.parametrize("is_stored", [True, False])
async def test_what_a_program_sends_is_masked(verb: Verb, is_stored: bool) -> None:
    if not is_stored and verb in STORED:
        return
    async with MemoryLog() as log:
        program = Program(log if is_stored else None)
        seen: list[object] = []
        program.worker.runs.pipe(ops.flat_map(records_of)).subscribe(seen.append, seen.append)
        await verb(program)
        requests = str(program.model.requests)
        assert "***" in requests
        assert SECRET not in requests + str(seen) + await stored_in(log)


async def test_a_nested_run_has_its_input_as_its_own_worker_has_changed_it() -> None:
    program = Program(None)
    await nested(program)
    assert "***" in str(program.model.requests)
    assert SECRET not in str(program.model.requests)


async def test_what_a_foreign_process_sends_is_masked_by_the_worker_that_takes_it() -> None:
    """The log has the command as it was sent; no record and no request has it."""
    async with MemoryLog() as log:
        program = Program(log)
        run = program.worker.run("Wait.")
        await program.begun.wait()
        await Replica(log, run.id).send(Message.user(TEXT))
        program.ended.set_result("over")
        await run
        paused = await program.paused()
        await QueuedWorker("", log=log).decide_later(paused.run_id, add=[Message.user(TEXT)])
        await program.taken()
        sent = str([await log.sent(info.run_id) for info in await log.list()])
        assert sent.count(SECRET) == 2
        left = (await stored_in(log)).replace(TEXT, "", 2) + str(program.model.requests)
        assert SECRET not in left
        assert left.count("***") > 2


# What it refuses.


def refuse(message: Message) -> Message:
    raise ValueError(f"not {message.text}")


def explain(message: Message) -> Message:
    raise InputRefusedError("write no passwords")


def nothing(message: Message) -> Message:
    return replace(message, content=())


def other_role(message: Message) -> Message:
    return Message("assistant" if message.role == "user" else "user", message.content)


def text_of(message: Message) -> str:
    return message.text


def none_of(message: Message) -> None: ...


REFUSING: dict[str, Any] = {
    "raised ValueError": refuse,
    "write no passwords": explain,
    "returned a NoneType": none_of,
    "returned a str": text_of,
    "return a Message of that role": other_role,
    "left nothing": nothing,
}


@pytest.mark.parametrize("problem", REFUSING)
async def test_what_it_refuses_is_in_no_error_and_not_stored(problem: str) -> None:
    async with MemoryLog() as log:
        worker = Worker(ScriptedModel([]), log=log, map_input=REFUSING[problem])
        with pytest.raises(InputRefusedError, match=problem) as refused:
            worker.run(TEXT)
        assert SECRET not in str(refused.value)
        with pytest.raises(InputRefusedError):
            await submit(log, TEXT, map_input=REFUSING[problem])
        async with (
            WebServer(worker, port=0, log=log) as server,
            aiohttp.ClientSession(server.url, trust_env=False) as http,
        ):
            for path, body in DOORS.values():
                async with http.post(path, json=body) as response:
                    shown = await response.text()
                assert response.status == 400
                assert problem in shown
                assert SECRET not in shown
        assert await log.list() == []


@pytest.mark.parametrize("door", Door.every)
async def test_what_it_refuses_at_a_door_is_not_stored_or_shown(door: type[Door], new_address: NewAddress) -> None:
    address = new_address("sqlite")
    async with asyncio.timeout(60), open_log(address) as log:
        desk = Desk(log, address, answers=done, map_input=refuse_passwords)
        await Python(desk).say()
        before = await stored_in(log)
        async with door(desk).opened() as opened:
            opened.text, raised = TEXT, ""
            try:
                await opened.say()
            except (InputRefusedError, AssertionError, KeyError) as error:  # as the door has it
                raised = str(error)
        shown = raised + str(opened.shown)
        assert "map_input raised ValueError" in shown or door is CommandLine  # on standard error
        assert SECRET not in shown
        assert await stored_in(log) == before
        assert len(desk.model.requests) == 1


async def test_what_it_refuses_of_a_foreign_process_is_ignored_with_a_record(caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryLog() as log:
        program = Program(log, refuse_passwords)
        run = program.worker.run("Wait.")
        await program.begun.wait()
        await Replica(log, run.id).send(QUESTION)
        program.ended.set_result("over")
        await run
        [taken] = [
            each.event
            async for entry in log.read(run.id)
            if isinstance((each := record_of(entry, run.id)).event, CommandTaken)
        ]
        assert (taken.kind, "map_input raised ValueError" in taken.ignored) == ("ignored", True)
        assert SECRET not in caplog.text + str(run.state)


def refuse_passwords(message: Message) -> Message:
    return refuse(message) if SECRET in message.text else message


def test_a_text_is_refused_when_it_is_given() -> None:
    with pytest.raises(ConfigurationError, match="from a Message to a Message"):
        Worker(ScriptedModel([]), map_input="***")  # pyright: ignore[reportArgumentType]


# What clients of the server send.

HISTORY = [
    {"role": "system", "content": f"The user said {SECRET}."},
    {"role": "user", "content": TEXT},
    {"role": "assistant", "content": f"I keep {SECRET}."},
    {"role": "user", "content": TEXT},
]
AG_UI = [{"id": str(at), **each} for at, each in enumerate(HISTORY)]
UI = [{"id": each["id"], "role": each["role"], "parts": [{"type": "text", "text": each["content"]}]} for each in AG_UI]
DOORS: dict[str, tuple[str, dict[str, Any]]] = {
    "api": ("api/runs", {"input": TEXT}),
    "ag-ui": ("ag-ui", {"threadId": "t", "runId": "r", "messages": AG_UI}),
    "chat": ("api/chat", {"id": "c", "messages": UI}),
    "regenerate": ("api/chat", {"id": "c", "messages": UI, "trigger": "regenerate-message"}),
    "completions": ("v1/chat/completions", {"model": "worker", "messages": HISTORY}),
    "responses": ("v1/responses", {"model": "worker", "input": HISTORY[1:], "instructions": TEXT}),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("is_stored", [True, False])
async def test_the_history_of_a_client_is_masked_and_its_conversation_goes_on(door: str, is_stored: bool) -> None:
    """Also if it sends again what it has sent, unmasked."""
    path, body = DOORS[door]
    model = ScriptedModel(done)
    async with (
        MemoryLog() as log,
        WebServer(lambda: Worker(model, map_input=masked), port=0, log=log if is_stored else None) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        shown = ""
        for _ in range(2):
            async with http.post(path, json=body) as response:
                shown += await response.text()
                assert response.status < 300, shown
        for page in ("api/runs", f"api/runs/search?text={SECRET}", "api/chat/c/messages"):
            async with http.get(page) as response:
                shown += (await response.text()).replace(f'"{SECRET}"', "")
        for run in server.state.runs:
            await run.open()
            await run.accepted()
            shown += str([run.info.row.title, run.info.row.labels, run.run.state])
        for place in shown, str(model.requests), await stored_in(log):
            assert SECRET not in place
        assert "***" in str(model.requests[-1].conversation.messages[-1])
        assert len(model.requests) == 2


async def test_a_chat_that_replaces_its_last_message_goes_back_to_what_was_before() -> None:
    """To what the server has, which the client need not have sent."""
    model = ScriptedModel(lambda request: f"Answer {len(request.conversation.messages)}.")
    async with (
        WebServer(lambda: Worker(model, map_input=masked), port=0) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        for more in ({}, {}, {"trigger": "regenerate-message"}):
            body = {"id": "c", "messages": UI[-1:], **more}
            async with http.post("api/chat", json=body) as response:
                await response.read()
        assert model.requests[1].conversation == model.requests[2].conversation
        assert len(model.requests[1].conversation.messages) == 3


async def test_the_title_that_an_editor_is_shown_is_masked() -> None:
    async with MemoryLog() as log, Editor(Desk(log, answers=done, map_input=masked)).opened() as door:
        door.text = TEXT
        await door.say()
    assert masked(QUESTION).text in str(door.shown)
    assert SECRET not in str(door.shown)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_what_the_page_sends_into_a_run_or_in_place_of_a_message_is_masked(is_stored: bool) -> None:
    async with MemoryLog() as log:
        program = Program(log if is_stored else None)
        async with (
            WebServer(program.worker, port=0, log=program.log) as server,
            aiohttp.ClientSession(server.url, trust_env=False) as http,
        ):
            async with http.post("api/runs", json={"input": "Wait."}) as response:
                run = (await response.json())["id"]
            await program.begun.wait()
            async with http.post(f"api/runs/{run}/send", json={"message": TEXT}) as response:
                assert response.status == 200
            program.ended.set_result("over")
            async with http.get(f"api/runs/{run}/events") as response:
                shown = await response.text()
            for number, text in (1, TEXT), (1, masked(Message.user(TEXT)).text):
                edits = {"run": run, "message": number, "text": text}
                body = {"input": TEXT, "edits": edits}
                async with http.post("api/runs", json=body) as response:
                    shown += await response.text()
                    assert response.status == 201, shown
        for place in shown, str(program.model.requests), await stored_in(log):
            assert SECRET not in place


async def test_a_client_of_completions_that_sends_its_tools_results_continues_its_run() -> None:
    model = ScriptedModel(lambda request: "Done." if request.conversation.messages[-1].tool_results else call("look"))
    function: dict[str, Any] = {"name": "look", "parameters": {"type": "object", "properties": {}}}
    body: dict[str, Any] = {
        "model": "worker",
        "messages": HISTORY[:2],
        "tools": [{"type": "function", "function": function}],
    }
    async with (
        MemoryLog() as log,
        WebServer(lambda: Worker(model, map_input=masked), port=0, log=log) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        async with http.post("v1/chat/completions", json=body) as response:
            told = (await response.json())["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": told["tool_calls"][0]["id"], "content": "blue"}
        body["messages"] = [*HISTORY[:2], told, result]
        async with http.post("v1/chat/completions", json=body) as response:
            assert (await response.json())["choices"][0]["message"]["content"] == "Done."
        infos = await log.list()
        assert sorted(info.row.resumes != "" for info in infos) == [False, True]
        assert SECRET not in await stored_in(log)


async def test_a_chat_whose_run_has_failed_sends_its_message_again_and_it_is_there_once() -> None:
    model = ScriptedModel([fail("no", retryable=False), "Done."])
    async with (
        WebServer(lambda: Worker(model, map_input=masked), port=0) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        for number in (1, 2):
            messages = [{**UI[1], "id": str(at)} for at in range(number)]
            async with http.post("api/chat", json={"id": "c", "messages": messages}) as response:
                await response.read()
    assert [m.text for m in model.requests[-1].conversation.messages] == [masked(QUESTION).text] * 2


@pytest.mark.parametrize("path", ["api/chat", "v1/responses"])
async def test_a_message_that_is_refused_leaves_the_conversation_as_it_was(path: str) -> None:
    def short(message: Message) -> Message:
        if len(message.text) > 100:
            raise InputRefusedError("at most 100 characters")
        return message

    model = ScriptedModel(lambda request: f"Answer {len(request.conversation.messages)}.")
    async with (
        WebServer(lambda: Worker(model, map_input=short), port=0) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        body: dict[str, Any] = {"id": "c", "model": "worker"}
        for text in ("Hi", "x" * 101, "And?"):
            body |= {"input": text, "messages": [{**UI[1], "parts": [{"type": "text", "text": text}]}]}
            more = {"trigger": "regenerate-message"} if len(text) > 100 else {}
            async with http.post(path, json=body | more) as response:
                shown = await response.text()
            assert (response.status, "at most 100" in shown) == ((400, True) if more else (200, False))
            [run] = [run.id for run in server.state.runs if run.resumed_as is None][:1]
            body["previous_response_id"] = run
    texts = [message.text for message in model.requests[-1].conversation.messages]
    assert texts == ["Hi", "Answer 1.", "And?"]
