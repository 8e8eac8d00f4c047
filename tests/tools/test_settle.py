from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import reactivex
from reactivex import Observable, Subject, abc, operators
from reactivex.disposable import Disposable
from reactivex.scheduler import NewThreadScheduler

from rxworker import tool
from rxworker.events import ToolProgress
from rxworker.messages import ToolCall, ToolResult
from rxworker.tools import FunctionTool, Progress, Toolbox, ToolContext
from rxworker.tools.run import ToolEvent, run_call


async def run(made: FunctionTool[..., Any]) -> tuple[ToolResult, list[object]]:
    """The result, and the progress told before it."""
    heard: list[object] = []

    def emit(event: ToolEvent) -> None:
        if isinstance(event, ToolProgress):
            heard.append(event.progress)

    result = await run_call(Toolbox([made]), ToolCall("1", made.meta.name, {}), emit=emit)
    return result, heard


def gather(items: list[object]) -> list[FunctionTool[..., Any]]:
    """Tools of every sort that give these items."""

    async def from_async_generator() -> AsyncIterator[object]:
        for item in items:
            yield item

    def from_generator() -> Iterator[object]:
        yield from items

    def from_observable() -> Observable[object]:
        return reactivex.from_iterable(items)

    async def from_coroutine() -> Observable[object]:
        return reactivex.from_iterable(items)

    def from_thread() -> Observable[object]:
        return reactivex.from_iterable(items, NewThreadScheduler())

    return [
        tool(function)
        for function in (from_async_generator, from_generator, from_observable, from_coroutine, from_thread)
    ]


@pytest.mark.parametrize(
    ("items", "text", "progress"),
    [
        ([], "", []),
        (["only"], "only", []),
        ([1, 2, "last"], "last", [1, 2]),
        ([Progress(0.5), "last"], "last", [0.5]),
        ([Progress(1), "last", Progress(2)], "last", [1, 2]),
        ([Progress(1)], "", [1]),
        ([None], "", []),
        ([{"a": 1}, {"b": 2}], '{"b":2}', [{"a": 1}]),
    ],
)
async def test_the_last_value_is_the_result_and_the_others_progress(
    items: list[object], text: str, progress: list[object]
) -> None:
    for made in gather(items):
        result, heard = await run(made)
        assert (result.text, result.is_error, heard) == (text, False, progress), made


async def test_marked_progress_is_reported_at_once() -> None:
    heard: list[object] = []
    seen: list[list[object]] = []

    @tool
    async def go() -> AsyncIterator[object]:
        yield Progress(1)
        seen.append(list(heard))
        yield "a"
        seen.append(list(heard))
        yield "b"
        seen.append(list(heard))

    context = ToolContext(report=heard.append)
    assert await go.execute("", context) == "b"
    assert seen == [[1], [1], [1, "a"]]


def failing() -> list[FunctionTool[..., Any]]:
    async def from_async_generator() -> AsyncIterator[str]:
        yield "a"
        yield "b"
        raise ValueError("broken")

    def from_generator() -> Iterator[str]:
        yield "a"
        yield "b"
        raise ValueError("broken")

    def from_observable() -> Observable[str]:
        return reactivex.concat(reactivex.of("a", "b"), reactivex.throw(ValueError("broken")))

    return [tool(function) for function in (from_async_generator, from_generator, from_observable)]


async def test_an_error_in_the_middle_is_a_failure() -> None:
    for made in failing():
        result, heard = await run(made)
        assert (result.is_error, result.text) == (True, "The tool failed: ValueError: broken")
        assert heard == ["a"]


async def test_progress_without_json_form_ends_an_observable() -> None:
    def go() -> Observable[object]:
        return reactivex.of(object(), "last")

    result, _ = await run(tool(go))
    assert "progress of type object has no JSON form" in result.text


async def test_an_observable_that_raises_on_subscription_is_a_failure() -> None:
    def subscribe(observer: abc.ObserverBase[str], scheduler: abc.SchedulerBase | None = None) -> Any:
        raise ValueError(f"not today, {type(observer).__name__} {scheduler is None}")

    def go() -> Observable[str]:
        return Observable(subscribe)

    result, _ = await run(tool(go))
    assert result.text == "The tool failed: ValueError: not today, AutoDetachObserver False"


async def test_time_in_an_observable_is_the_loops() -> None:
    threads: list[bool] = []
    home = threading.get_ident()

    def note(_: object) -> None:
        threads.append(threading.get_ident() == home)

    def go() -> Observable[int]:
        return reactivex.timer(0.001).pipe(operators.do_action(note))

    result, _ = await run(tool(go))
    assert result.text == "0"
    assert threads == [True]


async def cancel_when(started: asyncio.Event, made: FunctionTool[..., Any]) -> None:
    task = asyncio.create_task(run(made))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelling_disposes_an_observable() -> None:
    started = asyncio.Event()
    disposed: list[bool] = []

    def subscribe(observer: abc.ObserverBase[str], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        assert scheduler is not None
        started.set()

        def dispose() -> None:
            disposed.append(True)
            observer.on_next("too late")

        return Disposable(dispose)

    def go() -> Observable[str]:
        return Observable(subscribe)

    await cancel_when(started, tool(go))
    assert disposed == [True]


async def test_an_observable_that_ended_is_disposed() -> None:
    subject = Subject[str]()

    async def go() -> Observable[str]:
        asyncio.get_running_loop().call_soon(finish)
        return subject

    def finish() -> None:
        subject.on_next("a")
        subject.on_completed()
        subject.on_next("b")

    result, heard = await run(tool(go))
    assert (result.text, heard) == ("a", [])
    assert subject.observers == []


async def test_cancelling_closes_an_async_generator() -> None:
    started = asyncio.Event()
    closed: list[bool] = []

    async def go() -> AsyncIterator[int]:
        try:
            yield 1
            started.set()
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    await cancel_when(started, tool(go))
    assert closed == [True]


async def test_a_generator_in_a_thread_ends_at_its_next_value_when_nothing_waits() -> None:
    started, closed = asyncio.Event(), threading.Event()
    go_on = threading.Event()
    loop = asyncio.get_running_loop()

    def go() -> Iterator[int]:
        try:
            loop.call_soon_threadsafe(started.set)
            go_on.wait(30)
            while True:
                yield 1
        finally:
            closed.set()

    await cancel_when(started, tool(go))
    go_on.set()
    assert await asyncio.to_thread(closed.wait, 30)


async def test_a_function_that_makes_an_observable_runs_on_the_loop() -> None:
    def go() -> Observable[str]:
        # This would fail in a thread, which has no loop.
        return reactivex.from_future(asyncio.ensure_future(later()))

    async def later() -> str:
        return "later"

    result, _ = await run(tool(go))
    assert result.text == "later"


async def test_a_plain_function_may_return_a_coroutine() -> None:
    async def later() -> str:
        return "later"

    def go() -> Any:
        return later()

    made: Callable[..., Any] = go
    result, _ = await run(tool(made))
    assert result.text == "later"
