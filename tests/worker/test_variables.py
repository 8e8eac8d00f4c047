"""Variables live as long as the run: over its turns, over a pause, and for tools as for hooks."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rxworker import (
    Approve,
    Worker,
    after_tool_call,
    before_tool_call,
    on_abort,
    on_message_send,
    on_turn_end,
    tool,
    worker_tool,
)
from rxworker.errors import LocalProtocolError, RunCancelledError
from rxworker.hooks import (
    AbortContext,
    HookContext,
    MessageSendContext,
    Pause,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
)
from rxworker.testing import ScriptedModel, call
from rxworker.tools import ToolContext
from rxworker.worker import load_paused, save_paused
from tests.pauses import pause_of
from tests.runs import finish_of


@tool
async def read(context: ToolContext) -> str:
    """Read."""
    context.variables["read"] = True
    return f"asked by {context.variables.get('user')}"


@after_tool_call
def count(context: ToolResultContext) -> None:
    context.set_variable("calls", int(str(context.get_variable("calls", 0))) + 1)


async def test_what_is_put_there_in_one_turn_is_there_in_the_next_ones() -> None:
    seen: list[dict[str, object]] = []

    @on_message_send
    def look(context: MessageSendContext) -> None:
        seen.append(dict(context.variables))

    @on_turn_end
    def end(context: TurnEndContext) -> None:
        seen.append(dict(context.variables))

    model = ScriptedModel([call("read"), call("read"), "Done."])
    await Worker(model, tools=[read], hooks=[look, count, end]).run("Read.")
    once, twice = {"read": True, "calls": 1}, {"read": True, "calls": 2}
    assert seen == [{}, once, twice, twice]


async def test_each_run_begins_with_none() -> None:
    worker = Worker(ScriptedModel(["a", "b"]), hooks=[])
    seen: list[dict[str, object]] = []

    @on_message_send
    def look(context: MessageSendContext) -> None:
        seen.append(dict(context.variables))
        context.set_variable("x", 1)

    worker.hooks.add(look)
    await worker.run("Hi.")
    await worker.run("Hi.")
    assert seen == [{}, {}]


async def test_a_run_inside_has_its_own() -> None:
    seen: list[dict[str, object]] = []

    @on_message_send
    def look(context: MessageSendContext) -> None:
        seen.append(dict(context.variables))
        context.set_variable(f"seen_{len(seen)}", True)

    inner = Worker(ScriptedModel(["Inside."]), hooks=[look])
    ask = worker_tool(inner, name="ask", description="Ask.")
    model = ScriptedModel([call("ask", task="Hi."), "Done."])
    await Worker(model, tools=[ask], hooks=[look]).run("Go.")
    assert seen == [{}, {}, {"seen_1": True}]


async def test_on_abort_sees_them() -> None:
    seen: list[dict[str, object]] = []

    @on_message_send
    def begin(context: MessageSendContext) -> None:
        context.set_variable("lease", "42")
        run.cancel()

    @on_abort
    def release(context: AbortContext) -> None:
        seen.append(dict(context.variables))

    run = Worker(ScriptedModel(["a"]), hooks=[begin, release]).run("Hi.")
    with pytest.raises(RunCancelledError):
        await run
    assert seen == [{"lease": "42"}]


def paused_worker(model: ScriptedModel, value: object, seen: list[object]) -> Worker:
    @before_tool_call
    def ask(context: ToolCallContext) -> Pause | None:
        context.set_variable("user", value)
        return Pause("may it?")

    @on_turn_end
    def end(context: TurnEndContext) -> None:
        seen.append(context.get_variable("user"))

    return Worker(model, tools=[read], hooks=[ask, end])


VALUES: list[Any] = ["Ada", 1, 2**70, 1.5, True, None, ["a", {"b": [1]}], {"a": {"b": None}}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_a_saved_pause_brings_json_values_along(value: object) -> None:
    seen: list[object] = []
    paused = await pause_of(paused_worker(ScriptedModel([call("read")]), value, seen).run("Read."))
    loaded = load_paused(save_paused(paused, key=b"k"), key=b"k")
    assert loaded.variables == {"user": value}
    elsewhere = paused_worker(ScriptedModel(["Done."]), "not asked again", seen)
    result = await finish_of(elsewhere.resume(loaded, decisions={loaded.pending[0].id: Approve()}))
    assert seen == [value]
    assert result.conversation.messages[2].tool_results[0].text == f"asked by {value}"


ODD: list[object] = [
    object(),
    Path("a"),
    date(2026, 1, 2),
    (1, 2),
    {1, 2},
    {1: "a"},
    b"bytes",
    float("nan"),
    float("inf"),
    "half \ud800",
    [(1,)],
]


@pytest.mark.parametrize("value", ODD, ids=lambda v: type(v).__name__)
async def test_what_json_does_not_keep_is_refused_by_name_and_continues_in_the_process(value: object) -> None:
    seen: list[object] = []
    worker = paused_worker(ScriptedModel([call("read"), "Done."]), value, seen)
    paused = await pause_of(worker.run("Read."))
    with pytest.raises(LocalProtocolError, match="the variable 'user' is a"):
        save_paused(paused)
    await worker.resume()
    assert seen[0] is value


async def test_resuming_twice_from_one_pause_does_not_share_them() -> None:
    seen: list[object] = []
    paused = await pause_of(paused_worker(ScriptedModel([call("read")]), "Ada", seen).run("Read."))

    @on_turn_end
    def change(context: HookContext) -> None:
        context.set_variable("user", "Bob")

    await Worker(ScriptedModel(["a"]), tools=[read], hooks=[change]).resume(paused)
    assert paused.variables == {"user": "Ada"}
