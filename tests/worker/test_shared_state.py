"""Tools and hooks share a state with user interfaces.

It is in the records, survives a pause and a process, and is sent to clients.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rxworker import Worker, before_tool_call, tool, worker_tool
from rxworker.errors import LocalProtocolError
from rxworker.events import Record, SharedStateChange
from rxworker.hooks import ToolCallContext
from rxworker.log import MemoryLog
from rxworker.protocols.ag_ui import AgUiEncoder
from rxworker.protocols.ui_messages import UiMessageEncoder
from rxworker.testing import ScriptedModel, call, call_context
from rxworker.tools import ToolContext
from rxworker.worker import load_paused, save_paused
from tests.pauses import pause_of


@tool
async def plan(step: str, context: ToolContext) -> str:
    """Add a step."""
    context.set_shared_state({"title": step, "done": False}, "/steps/-")
    return str(context.shared_state)


@tool
def finish(place: int, context: ToolContext) -> str:
    """Finish a step: in a thread."""
    context.set_shared_state(True, f"/steps/{place}/done")
    return str(context.shared_state)


@tool(requires_approval=True)
def clear(context: ToolContext) -> str:
    """Remove the steps."""
    context.remove_shared_state("/steps")
    return "cleared"


@before_tool_call(matcher="plan")
def count(context: ToolCallContext) -> None:
    shared: Any = context.shared_state
    context.set_shared_state(shared.get("asked", 0) + 1, "/asked")


START: Any = {"steps": []}
CALLS = call("plan", step="write") + call("plan", step="test")


def changes(records: list[Record]) -> list[SharedStateChange]:
    return [r.event for r in records if isinstance(r.event, SharedStateChange)]


async def test_tools_and_hooks_set_the_state_and_the_next_run_continues_it() -> None:
    replies = [CALLS, call("finish", place=1), "Done.", "Hello."]
    worker = Worker(ScriptedModel(replies), tools=[plan, finish], hooks=[count], shared_state=START)
    run = worker.run("go")
    finished = await run
    steps = [{"title": "write", "done": False}, {"title": "test", "done": True}]
    assert finished.shared_state == {"steps": steps, "asked": 2}
    assert run.state.shared_state == worker.session.shared_state == finished.shared_state
    records = [record async for record in run]
    made = changes(records)
    assert [(c.op, c.path) for c in made] == [
        ("replace", ""),
        ("add", "/asked"),
        ("replace", "/asked"),
        ("add", "/steps/-"),
        ("add", "/steps/-"),
        ("replace", "/steps/1/done"),
    ]
    assert START == {"steps": []}
    second = worker.run("again")
    assert (await second).shared_state == finished.shared_state
    assert changes([record async for record in second])[0].value == finished.shared_state


@pytest.mark.unlogged
async def test_a_paused_run_takes_its_state_along() -> None:
    worker = Worker(ScriptedModel([CALLS + call("clear")]), tools=[plan, clear])
    worker.session.shared_state = START
    paused = await pause_of(worker.run("go"))
    other = Worker(ScriptedModel(["Done."]), tools=[plan, clear])
    finished = await other.resume(load_paused(save_paused(paused)))
    assert finished.shared_state == {}
    replaced = Worker(ScriptedModel(["Done."]), tools=[plan, clear])
    finished = await replaced.resume(paused, shared_state={"steps": [], "mine": 1})
    assert finished.shared_state == {"mine": 1}


async def test_a_recovered_run_has_the_state_of_the_log(log: MemoryLog) -> None:
    gate = asyncio.Event()

    @tool(effect="idempotent")
    async def wait(context: ToolContext) -> str:
        """Wait."""
        context.set_shared_state("waiting", "/status")
        await gate.wait()
        return "waited"

    worker = Worker(ScriptedModel([call("wait")]), tools=[wait], log=log, shared_state={"n": 1})
    run = worker.run("go")
    async for record in run:
        if isinstance(record.event, SharedStateChange) and record.event.path:
            break
    run.hand_over(seconds=0.0)
    with pytest.raises(Exception, match="handed over"):
        await run
    gate.set()
    other = Worker(ScriptedModel(["Done."]), tools=[wait], log=log)
    recovered = await other.recover(run.id).started()
    assert (await recovered).shared_state == {"n": 1, "status": "waiting"}
    assert (await other.load(run.id)).shared_state == {"n": 1, "status": "waiting"}


async def test_a_change_that_cannot_be_made_is_an_error_of_the_tool() -> None:
    @tool
    def odd(context: ToolContext) -> str:
        """Set nothing."""
        context.set_shared_state(1, "/not/there")
        return "unreached"

    worker = Worker(ScriptedModel([call("odd"), "Done."]), tools=[odd])
    finished = await worker.run("go")
    assert "has no place" in finished.conversation.messages[-2].tool_results[0].text
    assert finished.shared_state is None


async def test_after_the_run_a_hook_cannot_change_the_state() -> None:
    kept: list[ToolCallContext] = []

    @before_tool_call
    def keep(context: ToolCallContext) -> None:
        kept.append(context)

    model = ScriptedModel([call("plan", step="write"), "Done."])
    await Worker(model, tools=[plan], hooks=[keep], shared_state=START).run("go")
    with pytest.raises(LocalProtocolError, match="has ended"):
        kept[0].set_shared_state(1)


async def test_a_hook_is_tested_with_a_state() -> None:
    received: list[Any] = []
    context = call_context("plan", fields={"shared_state": {"asked": 1}, "received": received})
    await count(context)
    assert received == [SharedStateChange("replace", "/asked", 2)]


async def test_clients_receive_snapshots_and_changes() -> None:
    worker = Worker(ScriptedModel([CALLS, "Done."]), tools=[plan], shared_state=START)
    run = worker.run("go")
    await run
    records = [record async for record in run]
    encoder = AgUiEncoder("t", "r")
    events = [event for record in records for event in encoder.feed(record)]
    assert events[1]["type"] == "STATE_SNAPSHOT"
    deltas = [event["delta"] for event in events if event["type"] == "STATE_DELTA"]
    added: Any = {"op": "add", "path": "/steps/-", "value": {"title": "test", "done": False}}
    assert (len(deltas), deltas[1]) == (2, [added])
    late = AgUiEncoder("t", "r").catch_up(run.state, run.id)
    assert [e["snapshot"] for e in late if e["type"] == "STATE_SNAPSHOT"] == [run.state.shared_state]
    parts = UiMessageEncoder("m")
    sent = [p for r in records for p in parts.feed(r) if p["type"] == "data-state" and p["id"] == "state"]
    states: list[Any] = [part["data"] for part in sent]
    assert [len(state["steps"]) for state in states] == [0, 1, 2]


async def test_each_call_of_a_worker_that_is_a_tool_begins_with_the_same_state() -> None:
    seen: list[object] = []

    @tool
    def note(context: ToolContext) -> str:
        """Note."""
        seen.append(context.shared_state)
        context.set_shared_state({"is_used": True})
        return "noted"

    inner = Worker(
        ScriptedModel([call("note"), call("note"), "One.", "Two."]), tools=[note], shared_state={"is_used": False}
    )
    ask = worker_tool(inner, name="ask", description="Ask it.")
    both = call("ask", task="a") + call("ask", task="b")
    await Worker(ScriptedModel([both, "So."]), tools=[ask]).run("go")
    assert seen == [{"is_used": False}] * 2


def test_resuming_in_a_script_takes_a_shared_state() -> None:
    @tool(requires_approval=True)
    def show(context: ToolContext) -> str:
        """Show the state."""
        return str(context.shared_state)

    worker = Worker(ScriptedModel([call("show"), "Done."]), tools=[show], shared_state=1)
    worker.run_sync("Go")
    result = worker.in_script(worker.resume, shared_state=2)
    assert result.shared_state == 2
