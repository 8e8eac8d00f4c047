"""A tool that ends the program, or raises something other than an `Exception`.

A failed call, whatever sort of tool it is.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker, tool
from rxworker.errors import ToolError
from rxworker.events import PausedCall
from rxworker.messages import ToolCall, ToolMeta
from rxworker.operators import only
from rxworker.testing import ScriptedModel
from rxworker.testing import call as say_call
from rxworker.tools import Toolbox, ToolContext, run_tools
from rxworker.tools.calls import FinishedCall
from rxworker.tools.run import CallEnd, CallScope, Limiter, RunningCall, run_at, run_call


class PanicError(BaseException):
    """What an extension written in Rust raises, for example."""


ENDS = [SystemExit("over"), PanicError("over"), GeneratorExit("over")]
IDS = [type(end).__name__ for end in ENDS]


def plain(end: BaseException) -> Callable[..., object]:
    def go() -> str:
        raise end

    return go


def coroutine(end: BaseException) -> Callable[..., object]:
    async def go() -> str:
        raise end

    return go


def coroutine_later(end: BaseException) -> Callable[..., object]:
    async def go() -> str:
        await asyncio.sleep(0)
        raise end

    return go


def generator(end: BaseException) -> Callable[..., object]:
    def go() -> Iterator[str]:
        yield "half"
        raise end

    return go


def async_generator(end: BaseException) -> Callable[..., object]:
    async def go() -> AsyncIterator[str]:
        yield "half"
        await asyncio.sleep(0)
        raise end

    return go


def cleaning_up(end: BaseException) -> Callable[..., object]:
    async def go() -> AsyncIterator[str]:
        try:
            yield "half"
        finally:
            raise end

    return go


def observable(end: BaseException) -> Callable[..., object]:
    def leave(_: object) -> str:
        raise end

    def go() -> Observable[str]:
        return reactivex.of(1).pipe(ops.map(leave))

    return go


def observable_later(end: BaseException) -> Callable[..., object]:
    """The scheduler of the event loop calls it, not we."""

    def leave(_: object) -> str:
        raise end

    def go() -> Observable[str]:
        return reactivex.timer(0.0).pipe(ops.map(leave))

    return go


def awaitable_from_thread(end: BaseException) -> Callable[..., object]:
    def go() -> object:
        return coroutine_later(end)()

    return go


SORTS = [
    plain,
    coroutine,
    coroutine_later,
    generator,
    async_generator,
    cleaning_up,
    observable,
    observable_later,
    awaitable_from_thread,
]
POLICIES: list[dict[str, Any]] = [{}, {"timeout": 30.0}, {"effect": "pure"}]


@tool
async def echo(text: str) -> str:
    await asyncio.sleep(0)
    return text


@pytest.mark.parametrize("policy", POLICIES, ids=["usual", "timeout", "pure"])
@pytest.mark.parametrize("end", ENDS, ids=IDS)
@pytest.mark.parametrize("sort", SORTS)
async def test_it_is_a_result_that_the_model_reads_and_the_other_calls_and_the_run_go_on(
    sort: Callable[[BaseException], Callable[..., object]], end: BaseException, policy: dict[str, Any]
) -> None:
    made = tool(name="go", **policy)(sort(end))
    calls = say_call("echo", text="a") + say_call("go") + say_call("echo", text="b")
    result = await Worker(ScriptedModel([calls, "Done."]), tools=[echo, made]).run("?")
    failed = f"The tool failed: {type(end).__name__}: over"
    results = [(it.text, it.is_error) for it in result.conversation.messages[2].tool_results]
    assert results == [("a", False), (failed, True), ("b", False)]
    assert result.text == "Done."


async def test_run_tools_and_tools_of_another_make_answer_as_well() -> None:
    class Other:
        meta = ToolMeta("other", "", {"type": "object"})

        async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
            sys.exit("over")

    toolbox = Toolbox([Other()])
    calls = reactivex.just(ToolCall("1", "other", {}))
    done = await calls.pipe(run_tools(toolbox), only(FinishedCall))
    assert done.result.text == "The tool failed: SystemExit: over"


async def test_it_is_retried_like_any_failure_and_its_cause_is_kept() -> None:
    seen: list[object] = []
    calls: list[int] = []

    def format_error(error: ToolError) -> str:
        seen.append(error.__cause__)
        return "no"

    @tool(effect="idempotent", retries=2)
    async def go() -> None:
        calls.append(1)
        sys.exit(3)

    result = await run_call(Toolbox([go], error_formatter=format_error), ToolCall("1", "go", {}))
    assert (result.text, len(calls)) == ("no", 3)
    assert isinstance(seen[0], SystemExit)


async def test_an_action_that_fails_on_the_scheduler_is_a_failure() -> None:
    """It used to be logged by the event loop, and the call waited forever."""

    def subscribe(observer: Any, scheduler: Any = None) -> Any:
        def act(*_: object) -> None:
            raise ValueError("in an action")

        return scheduler.schedule(act)

    @tool
    def go() -> Observable[str]:
        return Observable(subscribe)

    result = await run_call(Toolbox([go]), ToolCall("1", "go", {}))
    assert result.text == "The tool failed: ValueError: in an action"


INTERRUPTS = [KeyboardInterrupt(), BaseExceptionGroup("both", [ValueError(), KeyboardInterrupt()])]


@pytest.mark.parametrize("end", INTERRUPTS, ids=["alone", "in a group"])
@pytest.mark.parametrize("policy", POLICIES[:2], ids=["usual", "timeout"])
@pytest.mark.parametrize("sort", [s for s in SORTS if s is not cleaning_up])
def test_an_interrupt_passes(
    sort: Callable[[BaseException], Callable[..., object]], end: BaseException, policy: dict[str, Any]
) -> None:
    made = tool(name="go", **policy)(sort(end))
    with pytest.raises(type(end)):
        asyncio.run(run_call(Toolbox([made]), ToolCall("1", "go", {})))


def test_a_call_that_is_closed_ends_without_a_result() -> None:
    """To close a coroutine raises GeneratorExit in it, which is then no failure of the tool."""
    ended: list[str] = []
    results: list[object] = []

    @tool
    async def go() -> None:
        try:
            await asyncio.Event().wait()
        except GeneratorExit:
            ended.append("closed")
            raise

    loop = asyncio.new_event_loop()

    async def work() -> CallEnd:
        call, box = ToolCall("1", "go", {}), Toolbox([go])
        running = RunningCall(PausedCall(0, call), CallScope())
        running.task = task
        end = await run_at(Limiter(1), box, running)
        results.append(end)
        return end

    task = loop.create_task(work())
    try:
        loop.run_until_complete(asyncio.sleep(0))
        coroutine: Any = task.get_coro()
        coroutine.close()
        assert ended == ["closed"]
        assert results == []
    finally:
        task.cancel()
        loop.run_until_complete(asyncio.wait({task}))
        loop.close()
