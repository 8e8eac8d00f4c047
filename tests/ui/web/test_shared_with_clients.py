"""What AG-UI's and useChat's clients share with a run: tools that the client runs, and a state."""

from __future__ import annotations

import io
import json
from typing import Any

import aiohttp
import pytest

from rxworker import Worker
from rxworker import tool as function_tool
from rxworker.log import MemoryLog
from rxworker.messages import ToolMeta
from rxworker.providers import Request
from rxworker.state.shared_state import MAX_SHARED_STATE
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.tools import ClientTool, ToolContext
from rxworker.ui.web import WebServer

from .conftest import Desk, OpenDesk

Body = dict[str, Any]
JSON = {"Content-Type": "application/json"}
PARAMETERS = {"type": "object", "properties": {"color": {"type": "string"}}}
TOOLS = [{"name": "paint", "description": "Paint the page.", "parameters": PARAMETERS}]
ASK = {"id": "1", "role": "user", "content": "paint it"}
PAINT = say("Let me.") + call("paint", color="red")


async def post(desk: Desk, path: str, body: Body) -> list[Any]:
    """The events of an answer."""
    async with desk.http.post(desk.url(path), json=body) as response:
        text = await response.text()
        assert response.status == 200, text
    lines = [line[6:] for line in text.split("\n\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def ag_ui(*messages: Body, **more: Any) -> Body:
    return {
        "threadId": "t-1",
        "runId": "r-1",
        "messages": list(messages),
        "tools": TOOLS,
        "context": [],
        "state": {},
        "forwardedProps": {},
        "protocolVersion": "1.0",
        **more,
    }


def called(name: str, *ids: str) -> Body:
    made = [{"id": i, "type": "function", "function": {"name": name, "arguments": '{"color":"red"}'}} for i in ids]
    return {"id": "2", "role": "assistant", "content": "Let me.", "toolCalls": made}


def tool(call_id: str, content: str = "painted", **more: str) -> Body:
    return {"id": f"r-{call_id}", "role": "tool", "toolCallId": call_id, "content": content, **more}


def heard(desk: Desk) -> list[tuple[str, str, bool]]:
    """The results that the model has received."""
    return [(r.tool_use_id, r.text, r.is_error) for m in desk.sessions[0].conversation.messages for r in m.tool_results]


def types(events: list[Body]) -> list[str]:
    return [event["type"] for event in events]


async def test_an_ag_ui_client_runs_its_tool_and_continues(open_desk: OpenDesk) -> None:
    asked: list[Request] = []

    def script(request: Request) -> Reply:
        asked.append(request)
        return [PAINT, say("It is red."), say("Bye.")][len(asked) - 1]

    desk = await open_desk(script=script)
    events = await post(desk, "ag-ui", ag_ui(ASK))
    assert [t.name for t in asked[0].tools] == ["wait", "delete", "order", "sure", "paint"]
    assert types(events)[-1] == "RUN_FINISHED"
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["call_1_1"]}
    assert "TOOL_CALL_END" in types(events)
    # A client before 1.0 continues with results only if there is no outcome.
    (run,) = (await desk.get("api/runs"))[1]["runs"]
    assert "outcome" not in (await desk.frames(f"api/runs/{run['id']}/ag-ui"))[-1]["data"]
    body = ag_ui(ASK, called("paint", "call_1_1"), tool("call_1_1"), runId="r-2")
    events = await post(desk, "ag-ui", body)
    # The client has the result; a second one would be a second message of its own.
    assert "TOOL_CALL_RESULT" not in types(events)
    assert events[-1]["outcome"] == {"type": "success"}
    assert heard(desk) == [("call_1_1", "painted", False)]
    # The result again, in a request that a client has repeated.
    status, answer = await desk.post("ag-ui", body)
    assert (status, answer["error"]["code"]) == (409, "no_call")
    # Tools come and go with the requests.
    bye = {"id": "9", "role": "user", "content": "bye"}
    await post(desk, "ag-ui", ag_ui(*body["messages"], bye, tools=[]))
    assert [t.name for t in asked[2].tools] == ["wait", "delete", "order", "sure"]


async def test_the_calls_of_both_sides_run_side_by_side(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("paint", color="red") + call("wait", n=3) + call("paint", color="blue"), "Done.")
    desk.release.set()
    events = await post(desk, "ag-ui", ag_ui(ASK))
    (result,) = [e for e in events if e["type"] == "TOOL_CALL_RESULT"]
    assert (result["toolCallId"], result["content"]) == ("call_1_2", "waited 3")
    assert events[-1]["outcome"]["pendingToolCallIds"] == ["call_1_1", "call_1_3"]
    history = [ASK, called("paint", "call_1_1", "call_1_2", "call_1_3"), tool("call_1_2", "x")]
    # One result, and then the other, which is an error; the result of the worker's own call is not taken from a client.
    events = await post(desk, "ag-ui", ag_ui(*history, tool("call_1_3")))
    assert events[-1]["outcome"]["pendingToolCallIds"] == ["call_1_1"]
    failed = tool("call_1_1", "no paint", error="no paint")
    await post(desk, "ag-ui", ag_ui(*history, tool("call_1_3"), failed))
    assert heard(desk) == [
        ("call_1_1", "no paint", True),
        ("call_1_2", "waited 3", False),
        ("call_1_3", "painted", False),
    ]


async def test_an_approval_and_a_result_of_the_client_come_together(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("paint", color="red") + call("delete", path="a"), "Done.")
    events = await post(desk, "ag-ui", ag_ui(ASK))
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert interrupt["toolCallId"] == "call_1_2"
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    history = [ASK, called("paint", "call_1_1"), tool("call_1_1")]
    # The result alone does not decide about the other call.
    status, body = await desk.post("ag-ui", ag_ui(*history))
    assert (status, "no decision was given" in body["error"]["message"]) == (400, True), body
    await post(desk, "ag-ui", ag_ui(*history, resume=[answer]))
    assert desk.deleted == ["a"]
    assert heard(desk)[0] == ("call_1_1", "painted", False)


async def test_a_server_that_does_not_know_the_run_takes_the_history_of_its_client(open_desk: OpenDesk) -> None:
    desk = await open_desk("It is red.")
    events = await post(desk, "ag-ui", ag_ui(ASK, called("paint", "c-1"), tool("c-1")))
    assert events[-1]["type"] == "RUN_FINISHED"
    assert heard(desk) == [("c-1", "painted", False)]
    unknown = ag_ui(ASK, called("paint", "c-1"), tool("c-2"), threadId="t-2")
    status, body = await desk.post("ag-ui", unknown)
    assert (status, body["error"]["code"]) == (400, "no_call")


@pytest.mark.parametrize(
    ("tools", "code"),
    [
        ([{"name": "wait", "description": "Taken."}], "bad_tools"),
        ([*TOOLS, *TOOLS], "bad_tools"),
        ([{"name": "no spaces allowed"}], "bad_tools"),
        ([{"name": "x", "parameters": {"type": "string"}}], "bad_tools"),
        ([{"description": "no name"}], "bad_request"),
        ([{"name": "x", "parameters": "none"}], "bad_request"),
        ("paint", "bad_request"),
    ],
)
async def test_tools_that_cannot_be_offered_are_refused_and_nothing_starts(
    open_desk: OpenDesk, tools: Any, code: str
) -> None:
    desk = await open_desk("unused")
    status, body = await desk.post("ag-ui", ag_ui(ASK, tools=tools))
    assert (status, body["error"]["code"]) == (400, code), body
    assert (await desk.get("api/runs"))[1]["runs"] == []


@pytest.mark.parametrize("where", ["page", "worker"])
async def test_a_chat_runs_its_tool_and_continues_the_same_message(open_desk: OpenDesk, where: str) -> None:
    """The tool is sent by the page, or the worker has it: `DefaultChatTransport` sends none by itself."""
    desk = await open_desk(PAINT, "It is red.")
    sent = {"tools": {"paint": {"description": "Paint.", "parameters": PARAMETERS}}}
    if where == "worker":
        sent = {}
        make = desk.make_worker

        def make_worker() -> Worker:
            worker = make()
            worker.tools.add(ClientTool(ToolMeta("paint", "Paint.", {"type": "object"})))
            return worker

        desk.server.state.workers._makers["worker"] = make_worker  # pyright: ignore[reportPrivateUsage]
    user = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "paint it"}]}
    parts = await post(desk, "api/chat", {"id": "c-1", "messages": [user], **sent})
    assert types(parts)[-1] == "finish"
    assert "tool-approval-request" not in types(parts)
    (waiting,) = (await desk.get("api/chat/c-1/messages"))[1][-1:]
    made = waiting["parts"][-1]
    assert (made["state"], "approval" in made) == ("input-available", False)
    part = {"type": "tool-paint", "toolCallId": "call_1_1", "state": "output-available"}
    message = {
        "id": "a-1",
        "role": "assistant",
        "parts": [{"type": "step-start"}, {**part, "input": {"color": "red"}, "output": {"ok": 1}}],
    }
    parts = await post(desk, "api/chat", {"id": "c-1", "messages": [user, message], **sent})
    assert parts[0] == {"type": "start", "messageId": "a-1"}
    # A call that arrives for a second time would be run by the page for a second time.
    assert "tool-input-available" not in types(parts)
    assert heard(desk) == [("call_1_1", '{"ok":1}', False)]


async def test_a_run_waits_for_its_client_across_a_restart_of_the_server() -> None:
    replies: list[Reply | str] = []

    def make() -> Worker:
        return Worker(ScriptedModel(replies))

    async with MemoryLog() as log, aiohttp.ClientSession() as http:
        result = ag_ui(ASK, called("paint", "call_1_1"), tool("call_1_1"))
        for body, reply in ((ag_ui(ASK), PAINT), (result, "It is red.")):
            replies = [reply]
            async with WebServer(make, port=0, log=log) as server:
                response = await http.post(server.url + "ag-ui", json=body)
                text = await response.text()
    assert "It is red." in text


# Shared state


def with_state(desk: Desk) -> None:
    """Give the worker a tool that sets the state."""
    make = desk.make_worker

    def make_worker() -> Worker:
        worker = make()

        @function_tool
        def plan(context: ToolContext, step: str) -> str:
            """Add a step."""
            context.set_shared_state(step, "/steps/-")
            return json.dumps(context.shared_state)

        worker.tools.add(plan)
        start: Any = {"steps": []}
        worker.initial_state = start
        return worker

    desk.server.state.workers._makers["worker"] = make_worker  # pyright: ignore[reportPrivateUsage]


async def test_the_state_of_an_ag_ui_client_is_that_of_the_run(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("plan", step="write"), "Done.", "Bye.")
    with_state(desk)
    # A client without a state sends an empty one.
    events = await post(desk, "ag-ui", ag_ui(ASK))
    assert [(e["type"], e.get("snapshot", e.get("delta"))) for e in events if "STATE" in e["type"]] == [
        ("STATE_SNAPSHOT", {"steps": []}),
        ("STATE_DELTA", [{"op": "add", "path": "/steps/-", "value": "write"}]),
    ]
    assert types(events)[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    done = {"id": "2", "role": "assistant", "content": "Done."}
    more = [ASK, done, {"id": "3", "role": "user", "content": "bye"}]
    events = await post(desk, "ag-ui", ag_ui(*more))
    assert events[1]["snapshot"] == {"steps": ["write"]}
    run = (await desk.get("api/runs"))[1]["runs"][0]["id"]
    watched = await desk.frames(f"api/runs/{run}/ag-ui")
    assert any("STATE_SNAPSHOT" in frame["data"] for frame in watched)
    # Another conversation, whose client has a state of its own.
    events = await post(desk, "ag-ui", ag_ui(ASK, threadId="t-2", state={"steps": ["mine"]}))
    (result,) = [e["content"] for e in events if e["type"] == "TOOL_CALL_RESULT"]
    assert json.loads(result) == {"steps": ["mine", "write"]}


async def test_a_client_changes_the_state_while_it_runs_its_tool(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("paint", color="red"), call("plan", step="b"), "Done.")
    with_state(desk)
    await post(desk, "ag-ui", ag_ui(ASK))
    history = [ASK, called("paint", "call_1_1"), tool("call_1_1")]
    events = await post(desk, "ag-ui", ag_ui(*history, state={"steps": ["a"]}))
    (result,) = [e["content"] for e in events if e["type"] == "TOOL_CALL_RESULT"]
    assert json.loads(result) == {"steps": ["a", "b"]}


async def test_a_state_that_cannot_be_shared_is_refused(open_desk: OpenDesk) -> None:
    desk = await open_desk("unused")
    chat: Body = {"id": "c-1", "messages": [], "state": "STATE"}
    for path, body in (("ag-ui", ag_ui(ASK, state="STATE")), ("api/chat", chat)):
        for state in ("[" * 5000 + "]" * 5000, '"' + "x" * MAX_SHARED_STATE + '"', "{"):
            data = json.dumps(body).replace('"STATE"', state)
            async with desk.http.post(desk.url(path), data=io.BytesIO(data.encode()), headers=JSON) as response:
                assert response.status == 400, await response.text()
    assert (await desk.get("api/runs"))[1]["runs"] == []


async def test_a_chat_has_the_state_as_a_part_of_its_message(open_desk: OpenDesk) -> None:
    desk = await open_desk(call("plan", step="write"), "Done.")
    with_state(desk)
    user = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "plan it"}]}
    body = {"id": "c-1", "messages": [user], "state": {"steps": ["mine"]}}
    parts = await post(desk, "api/chat", body)
    shown = [(p["id"], p["data"]) for p in parts if p["type"] == "data-state"]
    assert shown == [("state", {"steps": ["mine"]}), ("state", {"steps": ["mine", "write"]})]
    history = (await desk.get("api/chat/c-1/messages"))[1]
    assert history[-1]["parts"][-1] == {"type": "data-state", "id": "state", "data": {"steps": ["mine", "write"]}}
