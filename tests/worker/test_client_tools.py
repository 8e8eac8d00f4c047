"""Tools that a client runs: the other calls of the response run first, then the run waits for the client's results."""

from __future__ import annotations

import pytest

from rxworker import Answer, Approve, Finished, Worker, before_tool_call, tool
from rxworker.hooks import Pause, ToolCallContext
from rxworker.messages import JsonObject, ToolMeta
from rxworker.testing import ScriptedModel, call, lint
from rxworker.tools import ClientTool
from rxworker.worker import load_paused, save_paused
from tests.pauses import pause_of
from tests.runs import finish_of

RAN: list[str] = []
SCHEMA: JsonObject = {"type": "object", "properties": {"what": {"type": "string"}}}
show = ClientTool(ToolMeta("show", "Show something.", SCHEMA))


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool
def note(text: str) -> str:
    """Write a note."""
    RAN.append(text)
    return f"noted {text}"


@tool(requires_approval=True)
def wipe() -> str:
    """Wipe."""
    RAN.append("wipe")
    return "wiped"


MIXED = call("show", what="a") + call("note", text="b") + call("show", what="c")


def results(finished: Finished[None]) -> list[tuple[str, str, bool]]:
    return [(r.tool_use_id, r.text, r.is_error) for m in finished.conversation.messages for r in m.tool_results]


async def test_the_workers_own_calls_run_before_the_run_waits_for_its_client() -> None:
    worker = Worker(ScriptedModel([MIXED, "done"]), tools=[show, note])
    run = worker.run("go")
    paused = await pause_of(run)
    assert (paused.hook, paused.paused_at) == ("client_tool", None)
    assert [c.input for c in paused.pending] == [{"what": "a"}, {"what": "c"}]
    assert [r.text for r in paused.pause.refused.values()] == ["noted b"]
    lint([record async for record in run])
    # Another process, which has the bytes alone.
    other = Worker(ScriptedModel(["done"]), tools=[show, note])
    resumed = other.resume(
        load_paused(save_paused(paused)),
        decisions={"call_1_1": Answer("seen"), "call_1_3": Answer("broken", is_error=True)},
    )
    finished = await finish_of(resumed)
    assert results(finished) == [
        ("call_1_1", "seen", False),
        ("call_1_2", "noted b", False),
        ("call_1_3", "broken", True),
    ]
    assert RAN == ["b"]
    lint([record async for record in resumed])


async def test_a_client_may_answer_one_call_after_another() -> None:
    asked: list[str] = []

    @before_tool_call
    def watch(context: ToolCallContext) -> None:
        asked.append(context.call.name)

    worker = Worker(ScriptedModel([MIXED, "done"]), tools=[show, note], hooks=[watch])
    await worker.run("go")
    second = await pause_of(worker.resume(decisions={"call_1_3": Answer("second")}))
    assert [c.id for c in second.pending] == ["call_1_1"]
    # An approval does not run what only the client can run.
    await pause_of(worker.resume(decisions={"call_1_1": Approve()}))
    finished = await finish_of(worker.resume(decisions={"call_1_1": Answer("first")}))
    assert [text for _, text, _ in results(finished)] == ["first", "noted b", "second"]
    assert asked == ["show", "note", "show"]


async def test_approvals_and_client_tools_of_one_response_are_decided_together_or_in_turn() -> None:
    reply = call("show", what="a") + call("wipe") + call("note", text="b")
    tools = [show, wipe, note]
    together = Worker(ScriptedModel([reply, "done"]), tools=tools)
    paused = await pause_of(together.run("go"))
    assert (paused.hook, RAN) == ("requires_approval", [])
    decisions = {"call_1_1": Answer("seen"), "call_1_2": Approve()}
    assert isinstance(await together.resume(decisions=decisions), Finished)
    assert sorted(RAN) == ["b", "wipe"]
    in_turn = Worker(ScriptedModel([reply, "done"]), tools=tools)
    await in_turn.run("go")
    waits = await pause_of(in_turn.resume(decisions={"call_1_2": Approve()}))
    assert (waits.hook, [c.name for c in waits.pending]) == ("client_tool", ["show"])
    assert isinstance(await in_turn.resume(decisions={"call_1_1": Answer("seen")}), Finished)
    assert sorted(RAN) == ["b", "b", "wipe", "wipe"]


async def test_a_hook_decides_about_the_call_of_a_client_like_about_any_other() -> None:
    @before_tool_call(matcher="show")
    def ask(context: ToolCallContext) -> Pause:
        return Pause("may it?")

    worker = Worker(ScriptedModel([call("show", what="a"), "done"]), tools=[show], hooks=[ask])
    paused = await pause_of(worker.run("go"))
    assert paused.hook == "ask"
    waits = await pause_of(worker.resume())
    assert waits.hook == "client_tool"
    assert isinstance(await worker.resume(decisions={"call_1_1": Answer("seen")}), Finished)
