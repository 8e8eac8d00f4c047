from __future__ import annotations

import asyncio

import pytest
import reactivex
from reactivex import Observable, Subject, operators

from rxworker import tool
from rxworker.errors import LocalProtocolError
from rxworker.events import ToolProgress, ToolStart, ToolStop
from rxworker.messages import ToolCall
from rxworker.operators import only
from rxworker.operators.kernel import Sink, connect
from rxworker.tools import Toolbox, ToolContext, run_tools
from rxworker.tools.calls import CallItem, FinishedCall
from rxworker.tools.run import CallScope
from tests.runs import settle


class Stage:
    """Tools that wait for a word, and the record of what happened."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self.running: list[str] = []
        self.cancelled: list[str] = []
        self.heard: list[object] = []

    @tool
    async def wait(self, name: str) -> str:
        self.running.append(name)
        self.gates[name] = asyncio.Event()
        try:
            await self.gates[name].wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        return name

    def watch(self, items: Observable[CallItem]) -> reactivex.abc.DisposableBase:
        def on_next(item: CallItem) -> None:
            if isinstance(item, FinishedCall):
                self.heard.append(item.result.text)

        def on_completed() -> None:
            self.heard.append("|")

        return items.subscribe(on_next, self.heard.append, on_completed)

    async def open(self, *names: str) -> None:
        for name in names:
            self.gates[name].set()
            await settle()


def call(name: str) -> ToolCall:
    return ToolCall(name, "wait", {"name": name})


async def test_results_come_in_call_order() -> None:
    stage, calls = Stage(), Subject[ToolCall]()
    stage.watch(calls.pipe(run_tools(Toolbox([stage.wait]))))
    for name in "abc":
        calls.on_next(call(name))
    await settle()
    await stage.open("b", "a")
    assert stage.heard == ["a", "b"]
    await stage.open("c")
    calls.on_completed()
    assert stage.heard == ["a", "b", "c", "|"]


async def test_it_ends_after_the_last_result() -> None:
    stage = Stage()
    stage.watch(reactivex.of(call("a"), call("b")).pipe(run_tools(Toolbox([stage.wait]))))
    await settle()
    await stage.open("b")
    assert stage.heard == []
    await stage.open("a")
    assert stage.heard == ["a", "b", "|"]


async def test_no_more_run_at_once_than_allowed() -> None:
    stage = Stage()
    calls = reactivex.of(call("a"), call("b"), call("c"))
    stage.watch(calls.pipe(run_tools(Toolbox([stage.wait]), 2)))
    await settle()
    assert stage.running == ["a", "b"]
    await stage.open("b")
    assert stage.running == ["a", "b", "c"]


async def test_disposing_cancels_what_runs() -> None:
    stage, calls = Stage(), Subject[ToolCall]()
    subscription = stage.watch(calls.pipe(run_tools(Toolbox([stage.wait]))))
    for name in "ab":
        calls.on_next(call(name))
    await settle()
    subscription.dispose()
    await settle()
    assert stage.cancelled == ["a", "b"]
    assert stage.heard == []
    assert calls.observers == []


async def test_an_observer_that_raises_as_the_source_ends_leaves_no_task() -> None:
    stage, calls, errors = Stage(), Subject[ToolCall](), list[Exception]()

    def on_next(item: CallItem) -> None:
        if isinstance(item, ToolStop):
            asyncio.get_running_loop().call_soon(calls.on_completed)
            raise ValueError("the observer")

    calls.pipe(run_tools(Toolbox([stage.wait]))).subscribe(on_next, errors.append)
    for name in "ab":
        calls.on_next(call(name))
    await settle()
    await stage.open("b")
    assert [str(error) for error in errors] == ["the observer"]
    assert stage.cancelled == ["a"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_was_stopped_emits_nothing_after_the_error() -> None:
    @tool
    async def tidy(context: ToolContext) -> str:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            context.progress("tidied")

    calls, seen = Subject[ToolCall](), list[object]()
    connect(calls.pipe(run_tools(Toolbox([tidy]))), Sink(seen.append, seen.append, lambda: None))
    calls.on_next(ToolCall("a", "tidy", {}))
    await settle()
    error = ValueError("cut")
    calls.on_error(error)
    await settle()
    assert seen == [ToolStart(ToolCall("a", "tidy", {})), error]


async def test_an_error_of_the_source_cancels_what_runs() -> None:
    stage, calls = Stage(), Subject[ToolCall]()
    stage.watch(calls.pipe(run_tools(Toolbox([stage.wait]))))
    calls.on_next(call("a"))
    await settle()
    error = ValueError("cut")
    calls.on_error(error)
    await settle()
    assert stage.heard == [error]
    assert stage.cancelled == ["a"]


async def test_an_empty_source_is_empty() -> None:
    stage = Stage()
    stage.watch(reactivex.empty().pipe(run_tools(Toolbox())))
    assert stage.heard == ["|"]


async def test_a_source_that_never_speaks_is_waited_for() -> None:
    stage = Stage()
    subscription = stage.watch(reactivex.never().pipe(run_tools(Toolbox())))
    await settle()
    assert stage.heard == []
    subscription.dispose()


async def test_each_subscription_makes_its_own_calls() -> None:
    counted: list[int] = []

    @tool
    async def count() -> int:
        counted.append(1)
        return len(counted)

    results = reactivex.just(ToolCall("1", "count", {})).pipe(run_tools(Toolbox([count])), only(FinishedCall))
    assert [(await results).result.text, (await results).result.text] == ["1", "2"]


async def test_starts_progress_ends_and_results_come_out() -> None:
    @tool
    async def step(context: ToolContext) -> str:
        context.progress("half")
        return context.idempotency_key

    one = ToolCall("1", "step", {})
    items = await reactivex.just(one).pipe(run_tools(Toolbox([step]), scope=CallScope("run/1")), operators.to_list())
    assert items[:2] == [ToolStart(one), ToolProgress("1", "half")]
    assert [type(item) for item in items[2:]] == [ToolStop, FinishedCall]
    assert [item.result.text[:8] for item in items if isinstance(item, FinishedCall)] == ["run/1/0/"]


async def test_calls_without_a_scope_share_no_state() -> None:
    """Neither those of one stream, nor those of another one."""

    @tool
    async def note(context: ToolContext) -> str:
        before = context.shared_state
        context.set_shared_state("noted")
        return f"{before}"

    calls = reactivex.of(ToolCall("a", "note", {}), ToolCall("b", "note", {}))
    for _ in range(2):
        done = await calls.pipe(run_tools(Toolbox([note])), only(FinishedCall), operators.to_list())
        assert [each.result.text for each in done] == ["None", "None"]


async def test_tools_share_the_variables_of_their_scope() -> None:
    @tool
    async def count(context: ToolContext) -> int:
        context.variables["calls"] = context.variables.get("calls", 0) + 1
        return context.variables["calls"]

    async def counted(scope: CallScope) -> list[str]:
        calls = reactivex.of(ToolCall("1", "count", {}), ToolCall("2", "count", {}))
        row = calls.pipe(run_tools(Toolbox([count]), scope=scope), only(FinishedCall), operators.to_list())
        return [done.result.text for done in await row]

    assert await counted(CallScope(variables={})) == ["1", "2"]
    assert await counted(CallScope()) == ["1", "1"]


def test_it_needs_a_running_loop() -> None:
    with pytest.raises(LocalProtocolError, match="outside an event loop"):
        reactivex.just(ToolCall("1", "none", {})).pipe(run_tools(Toolbox())).subscribe()
