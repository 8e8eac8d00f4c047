"""The official clients of AG-UI and of the UI Message Stream understand what a run is told as, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from rxworker import Approve, Deny, Limits, Paused, Run, Worker, tool, worker_tool
from rxworker.errors import RxWorkerError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    MessageAdd,
    PausedCall,
    PauseState,
    Record,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    TurnStart,
    TurnStop,
    Usage,
)
from rxworker.messages import Conversation, Message, Thinking, ToolCall, ToolResult
from rxworker.protocols.ag_ui import AgUiEncoder, ag_ui_stream, read_run_input
from rxworker.protocols.ag_ui.read import AgUiInput
from rxworker.protocols.common import decisions_of
from rxworker.protocols.ui_messages import read_chat_request, ui_message_stream
from rxworker.protocols.ui_messages.encode import HEADERS
from rxworker.state import RunState, fold_run
from rxworker.testing import ScriptedModel, call, fail, say, stall, think
from rxworker.tools import ToolContext
from rxworker.transport import Retry
from rxworker.transport.listening import stop_listening

if TYPE_CHECKING:
    from conftest import Clients

OLDER, NEWER = "@ag-ui/client-older", "@ag-ui/client"
Told = dict[str, Any]


Handler = Callable[[web.Request], Awaitable[AsyncIterator[bytes] | None]]


async def served(answer: Handler, headers: dict[str, str], use: Callable[[str], Awaitable[Told]]) -> Told:
    """What a client understands of what is served."""

    async def handle(request: web.Request) -> web.StreamResponse:
        pieces = await answer(request)
        if pieces is None:
            return web.Response(status=204)
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(runner.server, "127.0.0.1", 0)
    try:
        return await use(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/chat")
    finally:
        await stop_listening(server)
        await runner.cleanup()


async def in_batches(records: list[Record], size: int = 3) -> AsyncGenerator[list[Record], None]:
    for at in range(0, len(records), size):
        yield records[at : at + size]


async def ag_ui(clients: Clients, client: str, records: list[Record], given: Told | None = None) -> Told:
    async def answer(request: web.Request) -> AsyncIterator[bytes]:
        asked = read_run_input(await request.read())
        encoder = AgUiEncoder(asked.conversation_id, asked.run_id, protocol=asked.protocol)
        return ag_ui_stream(in_batches(records), encoder)

    async def use(address: str) -> Told:
        return await clients.ask("ag_ui", address=address, client=client, given=given or {})

    return await served(answer, {"content-type": "text/event-stream"}, use)


async def ui_messages(clients: Clients, records: list[Record], how: str = "send", given: Told | None = None) -> Told:
    async def answer(request: web.Request) -> AsyncIterator[bytes]:
        if request.method == "POST":
            assert read_chat_request(await request.read()).conversation_id == "chat-1"
        return ui_message_stream(in_batches(records), "message-1")

    async def use(address: str) -> Told:
        return await clients.ask("ui_messages", address=address, how=how, given=given or {})

    return await served(answer, dict(HEADERS), use)


async def raw(clients: Clients, job: str, frames: list[Told], **given: str) -> Told:
    """What a client makes of frames as they are."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        for frame in frames:
            yield b"data: " + json.dumps(frame).encode() + b"\n\n"

    async def answer(_: web.Request) -> AsyncIterator[bytes]:
        return pieces()

    async def use(address: str) -> Told:
        return await clients.ask(job, address=address, **given)

    return await served(answer, dict(HEADERS), use)


# what happens


@tool
async def look(city: str, context: ToolContext) -> str:
    """Look out of a window."""
    context.progress({"window": city})
    return f"rain in {city}"


@tool
def broken() -> str:
    """Fail."""
    raise OSError("no window")


@tool(requires_approval=True)
def remove(path: str) -> str:
    """Remove a file."""
    return f"{path} is gone"


async def told(run: Run[object]) -> list[Record]:
    records: list[Record] = []
    try:
        async for record in run:
            records.append(record)
    except RxWorkerError:
        pass
    return records


async def text() -> list[Record]:
    return await told(Worker(ScriptedModel(["Hällo, wörld! 🌦 " * 5])).run("hi"))


async def parallel_tools() -> list[Record]:
    first = think("Two windows.", "seal") + say("Let me look.")
    first = first + call("look", city="Kyoto") + call("look", city="Lisbon") + call("broken")
    worker = Worker(ScriptedModel([first, think("Rain.") + say("Rain everywhere.")]), tools=[look, broken])
    return await told(worker.run("hi"))


async def failed() -> list[Record]:
    model = ScriptedModel([say("half a sen") + fail("the machine is broken")])
    return await told(Worker(model, response_retry=Retry(retries=0)).run("hi"))


async def cancelled() -> list[Record]:
    run = Worker(ScriptedModel([think("hm") + say("Once upon a time") + stall()])).run("hi")
    async for record in run:
        if isinstance(record.event, TextDelta):
            break
    await run.cancel(reason="bored")
    return await told(run)


async def retracted() -> list[Record]:
    first = think("so") + say("half a sen") + fail("try again", "overloaded")
    model = ScriptedModel([first, think("so!") + say("A whole sentence.")])
    return await told(Worker(model, response_retry=Retry(retries=1, first=0.0)).run("hi"))


async def nested() -> list[Record]:
    inner = Worker(ScriptedModel([call("look", city="Oslo"), "An old pond."]), tools=[look])
    ask = worker_tool(inner, name="ask_poet", description="Ask a poet.")
    model = ScriptedModel([say("I ask.") + call("ask_poet", task="a verse"), "Here: An old pond."])
    return await told(Worker(model, tools=[ask]).run("hi"))


async def limited() -> list[Record]:
    model = ScriptedModel([call("look", city="Oslo")] * 3)
    return await told(Worker(model, tools=[look], limits=Limits(max_turns=1)).run("hi"))


SCENARIOS = [text, parallel_tools, failed, cancelled, retracted, nested, limited]
Scenario = Callable[[], Awaitable[list[Record]]]


def texts(state: RunState) -> str:
    return "".join(m.text for m in state.conversation.messages if m.role == "assistant")


def thoughts(state: RunState) -> list[str]:
    return [
        block.text
        for message in state.conversation.messages
        for block in message.content
        if isinstance(block, Thinking)
    ]


def calls(state: RunState) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, c.input) for m in state.conversation.messages for c in m.tool_calls]


def results(state: RunState) -> dict[str, str]:
    return {r.tool_use_id: r.text for m in state.conversation.messages for r in m.tool_results}


# AG-UI


def customs(understood: Told, name: str) -> list[Any]:
    return [e["value"] for e in understood["events"] if e.get("name") == name]


def own(understood: Told, role: str) -> list[Told]:
    """The messages of a role, without what was taken back and what runs inside have said."""
    void = {
        name
        for value in customs(understood, "rxworker.retract")
        for name in [*value["messageIds"], *value["toolCallIds"]]
    }
    return [
        message
        for message in understood["messages"]
        if message["role"] == role and message["id"] not in void and "subagentRunId" not in message
    ]


@pytest.mark.parametrize("client", [NEWER, OLDER])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_an_ag_ui_client_understands_the_run_as_it_was(clients: Clients, client: str, scenario: Scenario) -> None:
    records = await scenario()
    state = fold_run(records)
    understood = await ag_ui(clients, client, records)
    assert understood["refused"] is None
    assert [w for w in understood["warnings"] if "[ag-ui]" in w] == []
    assistant = own(understood, "assistant")
    assert "".join(message.get("content") or "" for message in assistant) == texts(state)
    reasoning = [message["content"] for message in own(understood, "reasoning")]
    if scenario is not cancelled:  # half a thought is shown, and not kept
        assert reasoning == thoughts(state)
    made = [
        (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
        for message in assistant
        for c in message.get("toolCalls", [])
    ]
    assert made == calls(state)
    answers = {m["toolCallId"]: m["content"] for m in own(understood, "tool")}
    assert answers == results(state)
    assert len(own(understood, "tool")) == len(answers)


@pytest.mark.parametrize("client", [NEWER, OLDER])
async def test_an_ag_ui_client_learns_how_a_run_has_ended(clients: Clients, client: str) -> None:
    is_newer = client == NEWER
    assert (await ag_ui(clients, client, await text()))["error"] is None
    error = (await ag_ui(clients, client, await failed()))["error"]
    assert (error["code"], "broken" in error["message"]) == ("error", True)
    understood = await ag_ui(clients, client, await cancelled())
    last = understood["events"][-1]
    if is_newer:
        assert last["outcome"] == {"type": "cancelled"}
    else:
        assert (last["type"], last["code"]) == ("RUN_ERROR", "cancel")


async def test_an_ag_ui_client_keeps_the_seal_on_reasoning_and_the_usage(clients: Clients) -> None:
    understood = await ag_ui(clients, NEWER, await parallel_tools())
    assert own(understood, "reasoning")[0]["encryptedValue"] == "seal"
    usage = understood["events"][-1]["usage"]
    assert [(u["model"], u["inputTokens"], u["totalTokens"]) for u in usage] == [("scripted", 20, 30)]
    assert understood["pendingToolCallIds"] == []


async def test_an_ag_ui_client_groups_the_text_of_a_nested_run(clients: Clients) -> None:
    understood = await ag_ui(clients, NEWER, await nested())
    inside = [m for m in understood["messages"] if m.get("subagentRunId")]
    said = "".join(m.get("content") or "" for m in inside if m["role"] == "assistant")
    assert said == "An old pond."
    started = next(e for e in understood["events"] if e["type"] == "SUBAGENT_STARTED")
    assert (started["name"], started["parentToolCallId"]) == ("ask_poet", "call_1_1")


@pytest.mark.parametrize("client", [NEWER, OLDER])
async def test_an_ag_ui_client_shows_a_paused_call_and_goes_on(clients: Clients, client: str) -> None:
    model = ScriptedModel([say("May I?") + call("remove", path="a") + call("remove", path="b"), "Gone."])
    worker = Worker(model, tools=[remove])
    run = worker.run("hi")
    records = await told(run)
    paused = await run
    assert isinstance(paused, Paused)
    first = await ag_ui(clients, client, records)
    assert first["refused"] is None
    asked = first["interrupts"]
    assert [(i["reason"], i["toolCallId"]) for i in asked] == [("tool_call", "call_1_1")]
    answer = {
        "interruptId": asked[0]["id"],
        "status": "resolved",
        "payload": {"approved": True, "editedArgs": {"path": "c"}},
    }
    given = {"messages": first["messages"], "pending": asked, "resume": [answer]}
    seen: list[Any] = []

    async def goes_on(request: web.Request) -> AsyncIterator[bytes]:
        asked = read_run_input(await request.read())
        seen.append(asked)
        resumed = worker.resume(decisions={**decisions_of(asked.replies), "call_1_2": Deny("not this one")})
        records = await told(resumed)
        encoder = AgUiEncoder(asked.conversation_id, asked.run_id, protocol=asked.protocol)
        return ag_ui_stream(in_batches(records), encoder)

    async def use(address: str) -> Told:
        return await clients.ask("ag_ui", address=address, client=client, given=given)

    second = await served(goes_on, {"content-type": "text/event-stream"}, use)
    assert second["refused"] is None
    assert seen[0].replies[0].decision == Approve({"path": "c"})
    answers = {m["toolCallId"]: m["content"] for m in own(second, "tool")}
    assert answers == {"call_1_1": "c is gone", "call_1_2": "not this one"}
    assert own(second, "assistant")[-1]["content"] == "Gone."
    assert len(own(second, "assistant")) == 2
    assert second["interrupts"] == []


@pytest.mark.parametrize("client", [NEWER, OLDER])
async def test_an_ag_ui_client_accepts_a_run_from_any_place_on_and_up_to_any(clients: Clients, client: str) -> None:
    records = await nested()
    for first, last in [(0, 9), (9, 30), (14, len(records)), (len(records) - 1, len(records))]:
        understood = await ag_ui(clients, client, records[first:last])
        assert understood["refused"] is None, (first, last)


START = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISH = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
BROKEN = [
    [START, {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "hi"}, FINISH],
    [START, {"type": "TEXT_MESSAGE_START", "messageId": "m"}, FINISH],
    [START, {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant", "subagentRunId": None}],
    [START, {"type": "STEP_STARTED", "stepName": "turn 1"}, FINISH],
]


@pytest.mark.parametrize("client", [NEWER, OLDER])
@pytest.mark.parametrize("frames", BROKEN)
async def test_an_ag_ui_client_refuses_a_broken_stream(clients: Clients, client: str, frames: list[Told]) -> None:
    assert (await raw(clients, "ag_ui", frames, client=client))["refused"] is not None


# UI Message Stream


def of_type(understood: Told, *types: str) -> list[Told]:
    message: Told = understood["message"] or {}
    parts: list[Told] = message.get("parts", [])
    return [part for part in parts if part["type"].startswith(types)]


@pytest.mark.parametrize("how", ["send", "reconnect"])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_chat_understands_the_run_as_it_was(clients: Clients, how: str, scenario: Scenario) -> None:
    records = await scenario()
    state = fold_run(records)
    understood = await ui_messages(clients, records, how)
    assert understood["refused"] is None
    assert understood["message"]["id"] == "message-1"
    is_error = state.status == "aborted" and state.cause != "cancel"
    assert [e["message"] for e in understood["errors"]] == ([state.reason] if is_error else [])
    said = of_type(understood, "text")
    assert "".join(part["text"] for part in said) == texts(state)
    if scenario is not cancelled:  # half a thought is shown, and not kept
        assert [part["text"] for part in of_type(understood, "reasoning")] == thoughts(state)
    assert all(part["state"] == "done" for part in of_type(understood, "text", "reasoning"))
    tools = of_type(understood, "tool-")
    made = [(p["toolCallId"], p["type"].removeprefix("tool-"), p["input"]) for p in tools]
    assert made == calls(state)
    assert {
        p["toolCallId"]: p["output"] if p["state"] == "output-available" else p["errorText"] for p in tools
    } == results(state)


async def test_a_chat_learns_how_a_run_has_ended(clients: Clients) -> None:
    assert (await ui_messages(clients, await text()))["chunks"][-1] == {"type": "finish", "finishReason": "stop"}
    last = (await ui_messages(clients, await cancelled()))["chunks"][-1]
    assert (last["type"], "bored" in last["reason"]) == ("abort", True)
    assert (await ui_messages(clients, await failed()))["chunks"][-1]["finishReason"] == "error"


async def test_a_chat_keeps_the_text_of_a_nested_run(clients: Clients) -> None:
    understood = await ui_messages(clients, await nested())
    kept = {part["id"]: part["data"] for part in of_type(understood, "data-inside")}
    assert "An old pond." in [data.get("text") for data in kept.values()]
    assert [part["data"]["status"] for part in of_type(understood, "data-run")] == ["finished"]


async def test_a_chat_shows_a_paused_call_and_goes_on(clients: Clients) -> None:
    model = ScriptedModel([say("May I?") + call("remove", path="a") + call("remove", path="b"), "Gone."])
    worker = Worker(model, tools=[remove])
    run = worker.run("hi")
    first = await ui_messages(clients, await told(run))
    assert isinstance(await run, Paused)
    message = first["message"]
    asked = next(p for p in message["parts"] if p.get("toolCallId") == "call_1_1")
    assert (asked["state"], first["wouldSend"]) == ("approval-requested", False)
    asked["state"] = "approval-responded"
    asked["approval"] |= {"approved": True}
    seen: list[Any] = []

    async def goes_on(request: web.Request) -> AsyncIterator[bytes]:
        asked = read_chat_request(await request.read())
        seen.append(asked)
        resumed = worker.resume(decisions={**decisions_of(asked.replies), "call_1_2": Deny("not this one")})
        return ui_message_stream(in_batches(await told(resumed)), asked.message_id)

    async def use(address: str) -> Told:
        given: Told = {"messages": [{"id": "u", "role": "user", "parts": []}, message]}
        return await clients.ask("ui_messages", address=address, how="send", given=given)

    second = await served(goes_on, dict(HEADERS), use)
    assert (second["refused"], second["errors"]) == (None, [])
    assert decisions_of(seen[0].replies) == {"call_1_1": Approve()}
    assert second["message"]["id"] == message["id"]
    tools = {p["toolCallId"]: p for p in of_type(second, "tool-")}
    assert len(of_type(second, "tool-")) == 2
    assert tools["call_1_1"]["output"] == "a is gone"
    assert tools["call_1_2"]["state"] == "output-denied"
    assert of_type(second, "text")[-1]["text"] == "Gone."


@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_chat_decides_about_a_call_inside_another_and_goes_on(clients: Clients, is_approved: bool) -> None:
    inner = Worker(ScriptedModel([call("remove", path="a"), "Inside."]), tools=[remove])
    model = ScriptedModel([say("I ask.") + call("ask", task="?"), "So."])
    worker = Worker(model, tools=[worker_tool(inner, name="ask", description="Ask.")])
    first = await ui_messages(clients, await told(worker.run("hi")))
    assert (first["refused"], first["errors"], first["wouldSend"]) == (None, [], False)
    message = first["message"]
    outer, asked = of_type(first, "tool-")
    assert (outer["state"], asked["state"]) == ("approval-responded", "approval-requested")
    assert (asked["type"], asked["approval"]["id"].partition(":")[2]) == ("tool-remove", "call_1_1/call_1_1")
    asked["state"] = "approval-responded"
    asked["approval"] |= {"approved": is_approved}

    async def goes_on(request: web.Request) -> AsyncIterator[bytes]:
        given = read_chat_request(await request.read())
        assert [each.name for m in given.conversation.messages for each in m.tool_calls] == ["ask"]
        resumed = worker.resume(decisions=decisions_of(given.replies))
        return ui_message_stream(in_batches(await told(resumed)), given.message_id, continues=True)

    async def use(address: str) -> Told:
        given: Told = {"messages": [{"id": "u", "role": "user", "parts": []}, message]}
        return await clients.ask("ui_messages", address=address, how="send", given=given)

    second = await served(goes_on, dict(HEADERS), use)
    assert (second["refused"], second["errors"], second["wouldSend"]) == (None, [], False)
    outer, asked = of_type(second, "tool-")
    assert outer["output"] == "Inside."
    assert asked["state"] == ("output-available" if is_approved else "output-error")
    assert of_type(second, "text")[-1]["text"] == "So."


async def test_a_chat_sends_when_the_paused_call_alone_is_decided(clients: Clients) -> None:
    """A client waits until no call of the step is open: those that nobody is asked about are not."""
    first = call("look", city="Oslo") + call("remove", path="a") + call("remove", path="b")
    understood = await ui_messages(clients, await told(Worker(ScriptedModel([first]), tools=[look, remove]).run("hi")))
    states = {p["toolCallId"]: p["state"] for p in of_type(understood, "tool-")}
    assert list(states.values()) == ["approval-responded", "approval-requested", "approval-responded"]


async def test_a_chat_accepts_a_run_from_any_place_on_and_up_to_any(clients: Clients) -> None:
    records = await nested()
    for first, last in [(0, 9), (9, 30), (14, len(records)), (len(records) - 1, len(records))]:
        understood = await ui_messages(clients, records[first:last])
        refusals = [e for e in understood["errors"] if e["name"] != "Error"]
        assert (understood["refused"], refusals) == (None, []), (first, last)


async def test_a_chat_has_nothing_to_go_on_with(clients: Clients) -> None:
    async def answer(_: web.Request) -> None:
        return None

    async def use(address: str) -> Told:
        return await clients.ask("ui_messages", address=address, how="reconnect")

    assert (await served(answer, {}, use))["isNothing"] is True


BROKEN_PARTS = [
    [{"type": "start"}, {"type": "text-delta", "id": "1", "delta": "hi"}],
    [{"type": "start"}, {"type": "text-start", "id": "1", "providerMetadata": None}],
    [{"type": "start"}, {"type": "thought", "id": "1"}],
    [{"type": "start"}, {"type": "tool-output-available", "toolCallId": "1", "output": "x"}],
]


@pytest.mark.parametrize("frames", BROKEN_PARTS)
async def test_a_chat_refuses_a_broken_stream(clients: Clients, frames: list[Told]) -> None:
    understood = await raw(clients, "ui_messages", frames, how="send")
    assert [e for e in understood["errors"] if e["name"] != "Error"] or understood["refused"]


# any records


def soup(chance: random.Random, number: int) -> list[Record]:
    """Events in an order in which no worker tells them."""
    which = [ToolUseMetadata("c1", "look"), ToolUseMetadata("c2", "look", True), None]
    calls = [ToolCall("c1", "look", {}), ToolCall("c2", "look", {"x": 1}), ToolCall("c3", "see", "y")]
    said = Conversation((Message.user("hi"), Message.assistant(*calls[:2])))
    kinds = list(BlockType)

    def event() -> Event:
        index = chance.randrange(3)
        result = ToolResult(chance.choice(["c1", "c2", "c3"]), "r", chance.random() < 0.3)
        options: list[Event] = [
            BlockStart(index, chance.choice(kinds), chance.choice(which)),
            BlockStart(index, BlockType.TEXT),
            BlockStart(index, BlockType.TOOL_USE, chance.choice(which[:2])),
            TextDelta(index, "t"),
            ThinkingDelta(index, "h"),
            InputJsonDelta(index, "{"),
            SignatureDelta(index, "s"),
            BlockStop(index, chance.choice(kinds), metadata=chance.choice(which)),
            BlockAbort(index, chance.choice(kinds), "cut"),
            TurnStart(),
            TurnStop(),
            AttemptStart("acme", "large"),
            AttemptRetract("busy"),
            Status(chance.choice(list(ResponseStatus))),
            ToolStart(chance.choice(calls)),
            ToolProgress("c1", 0.5),
            ToolStop(result),
            MessageAdd((Message("user", (result,)),), "tools"),
            MessageAdd((Message.user("go on"),), "send"),
            Usage(1, None),
        ]
        waiting = tuple([PausedCall(*placed) for placed in enumerate(calls)])
        ends: list[Event] = [
            RunStart(said),
            RunResume(said, PauseState("hook", waiting[:2], (), refused={2: result})),
            RunStop(),
            RunAbort(chance.choice(["cancel", "error"]), "why"),
            RunPause(PauseState("hook", waiting, (1,))),
        ]
        return chance.choice(ends if chance.random() < 0.05 else options)

    paths = [(), (), (), ("c1",), ("c1", "c2")]
    turn = 1
    records: list[Record] = []
    for seq in range(1, chance.randrange(2, 40)):
        made = event()
        turn += isinstance(made, TurnStart)
        records.append(Record(seq, f"run-{number}", turn, 1, 0.0, made, chance.choice(paths)))
    return records


SOUPS = [soup(random.Random(number), number) for number in range(60)]


@pytest.mark.parametrize("client", [NEWER, OLDER])
async def test_an_ag_ui_client_accepts_any_records(clients: Clients, client: str) -> None:
    """A stream may hold several runs, one behind the other."""

    async def pieces(asked: AgUiInput) -> AsyncGenerator[bytes, None]:
        for number, records in enumerate(SOUPS):
            batches = in_batches(records)
            encoder = AgUiEncoder(asked.conversation_id, f"run-{number}", protocol=asked.protocol)
            async for piece in ag_ui_stream(batches, encoder):
                yield piece

    async def answer(request: web.Request) -> AsyncIterator[bytes]:
        return pieces(read_run_input(await request.read()))

    async def use(address: str) -> Told:
        return await clients.ask("ag_ui", address=address, client=client)

    understood = await served(answer, {"content-type": "text/event-stream"}, use)
    assert understood["refused"] is None, understood["events"][-3:]
    ends = [e for e in understood["events"] if e["type"] in ("RUN_FINISHED", "RUN_ERROR")]
    assert len(ends) == len(SOUPS)


async def test_a_chat_accepts_any_records(clients: Clients) -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        for number, records in enumerate(SOUPS):
            async for piece in ui_message_stream(in_batches(records), f"message-{number}"):
                yield piece

    async def answer(_: web.Request) -> AsyncIterator[bytes]:
        return pieces()

    async def use(address: str) -> Told:
        return await clients.ask("ui_messages", address=address, how="send")

    understood = await served(answer, dict(HEADERS), use)
    refusals = [e for e in understood["errors"] if e["name"] != "Error"]
    assert (understood["refused"], refusals) == (None, [])
    starts = [chunk for chunk in understood["chunks"] if chunk["type"] == "start"]
    assert len(starts) == len(SOUPS)
