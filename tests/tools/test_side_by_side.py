"""Calls of one response run side by side, each in a task of its own."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from contextvars import ContextVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker import tool
from rxworker.events import ToolStart, ToolStop
from rxworker.messages import ToolCall
from rxworker.tools import Toolbox, ToolContext
from rxworker.tools.run import ToolEvent
from tests.tools.row import run_calls

who = ContextVar("who", default="nobody")


inside = list[str]()  # the calls of `plain` that run
others = list[int]()  # how many of them ran beside a call of `alone`


class WaitedForError(Exception):
    """What a tool waits for and catches."""


async def act(does: str, name: str, waits: int) -> str:
    """What a call does, and how often it waits before."""
    task = asyncio.current_task()
    assert task is not None
    before = who.get()
    who.set(name)
    for _ in range(waits):
        await asyncio.sleep(0)
    assert asyncio.current_task() is task
    match does:
        case "fail":
            raise ValueError(before)
        case "cancel":
            task.cancel()
        case "cancel and wait":
            task.cancel()
            await asyncio.sleep(0)
        case "raise a cancellation":
            raise asyncio.CancelledError
        case "time out":
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        case _:
            pass
    return f"{before}, then {who.get()}"


@tool
async def plain(does: str, name: str, waits: int) -> str:
    inside.append(name)
    try:
        return await act(does, name, waits)
    finally:
        inside.remove(name)


@tool(barrier=True)
async def alone(does: str, name: str, waits: int) -> str:
    others.append(len(inside))
    try:
        return await act(does, name, waits)
    finally:
        others.append(len(inside))


@tool(timeout=60)
async def timed(does: str, name: str, waits: int) -> str:
    return await act(does, name, waits)


@tool(effect="idempotent", retries=1)
async def again(does: str, name: str, waits: int, context: ToolContext) -> str:
    context.progress(name)
    return await act(does, name, waits)


TOOLS = Toolbox([plain, alone, timed, again])
DOES = ["pass", "pass", "pass", "fail", "cancel", "cancel and wait", "raise a cancellation", "time out"]


@st.composite
def mixes(draw: st.DrawFn) -> list[ToolCall]:
    rows = st.tuples(st.sampled_from([*TOOLS.names, "none"]), st.sampled_from(DOES), st.sampled_from([0, 0, 1, 3]))
    return [
        ToolCall(str(place), name, {"does": does, "name": str(place), "waits": waits})
        for place, (name, does, waits) in enumerate(draw(st.lists(rows, max_size=6)))
    ]


@given(mixes(), st.integers(1, 4))
def test_each_call_starts_and_ends_once_and_results_keep_the_order(calls: list[ToolCall], limit: int) -> None:
    async def run() -> None:
        events: list[ToolEvent] = []
        finished = await run_calls(TOOLS, calls, events.append, limit=limit)
        assert [done.result.tool_use_id for done in finished] == [call.id for call in calls]
        places = list(range(len(calls)))
        assert sorted(e.place for e in events if isinstance(e, ToolStart)) == places
        assert sorted(e.place for e in events if isinstance(e, ToolStop)) == places
        assert who.get() == "nobody"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert not any(others)


@given(mixes(), st.integers(1, 4), st.integers(0, 12))
def test_a_cancellation_leaves_no_task(calls: list[ToolCall], limit: int, turns: int) -> None:
    async def go() -> None:
        running = asyncio.create_task(run_calls(TOOLS, calls, limit=limit))
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(go())


def call(name: str, does: str = "pass", waits: int = 0) -> ToolCall:
    return ToolCall(name, name, {"does": does, "name": name, "waits": waits})


if sys.version_info >= (3, 12):  # no task is eager before

    @pytest.mark.parametrize("waits", [(0, 0), (0, 1, 0, 1), (1, 0, 0)])
    async def test_calls_come_to_the_same_where_tasks_are_eager(waits: tuple[int, ...]) -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)
        names = [str(place) for place in range(len(waits))]
        rows = zip(names, waits, strict=True)
        calls = [ToolCall(n, "plain", {"does": "", "name": n, "waits": turns}) for n, turns in rows]
        try:
            finished = await run_calls(TOOLS, calls)
        finally:
            loop.set_task_factory(None)
        assert [done.result.tool_use_id for done in finished] == names
        assert [done.result.text.split()[-1] for done in finished] == names


async def test_no_circle_keeps_an_error_that_a_tool_has_waited_for() -> None:
    errors: list[weakref.ref[Exception]] = []

    @tool
    async def fail() -> None:
        loop = asyncio.get_running_loop()
        waited, error = loop.create_future(), WaitedForError()
        errors.append(weakref.ref(error))
        loop.call_soon(waited.set_exception, error)
        del error
        try:
            await waited
        except WaitedForError:
            return
        finally:
            del waited

    gc.disable()
    try:
        await run_calls(Toolbox([fail]), [ToolCall("1", "fail", {})])
        assert [error() for error in errors] == [None]
    finally:
        gc.enable()


async def test_each_call_has_context_variables_of_its_own() -> None:
    calls = [ToolCall(n, "plain", {"does": "", "name": n, "waits": int(n == "c")}) for n in "abcd"]
    finished = await run_calls(TOOLS, calls)
    assert [done.result.text for done in finished] == [f"nobody, then {n}" for n in "abcd"]


async def test_a_call_that_waits_holds_none_after_it() -> None:
    go = asyncio.Event()

    @tool
    async def wait() -> str:
        await go.wait()
        return "waited"

    @tool
    async def let_go() -> str:
        go.set()
        return "let go"

    calls = [ToolCall("1", "wait", {}), ToolCall("2", "let_go", {})]
    finished = await run_calls(Toolbox([wait, let_go]), [call("plain"), *calls, call("fly")])
    assert [done.result.text for done in finished][1:3] == ["waited", "let go"]


async def test_what_a_call_lets_pass_ends_no_other() -> None:
    heard: list[str] = []

    @tool
    async def break_off() -> None:
        # An interrupt passes; alone it would end the event loop of the test.
        raise BaseExceptionGroup("interrupted", [KeyboardInterrupt()])

    @tool
    async def wait() -> None:
        await asyncio.sleep(0)
        heard.append("the other has ended")

    calls = [ToolCall("1", "break_off", {}), ToolCall("2", "wait", {})]
    with pytest.raises(BaseExceptionGroup, match="interrupted"):
        await run_calls(Toolbox([break_off, wait]), calls)
    assert heard == ["the other has ended"]


async def test_calls_that_are_cancelled_before_they_begin_are_answered() -> None:
    running = asyncio.create_task(run_calls(TOOLS, [call("plain"), call("alone")]))
    asyncio.get_running_loop().call_soon(cancel_all_but, asyncio.current_task(), running)
    finished = await running
    assert [done.result.text for done in finished] == ["The tool cancelled itself."] * 2


def cancel_all_but(*kept: asyncio.Task[object] | None) -> None:
    for task in asyncio.all_tasks() - set(kept):
        task.cancel()
