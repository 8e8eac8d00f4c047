"""A tool that does not stop when it is told to holds nobody for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
import reactivex

from rxworker import Worker, tool
from rxworker.errors import RunCancelledError
from rxworker.events import ToolStart
from rxworker.messages import ToolCall
from rxworker.testing import ScriptedModel, call, lint
from rxworker.tools import Toolbox, ToolContext, run_tools
from rxworker.tools.run import run_call
from tests.runs import records_of
from tests.tools.row import run_calls


class Stubborn:
    """A tool that swallows every cancellation until it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.started = asyncio.Event()
        self.ended = asyncio.Event()

    async def hold_on(self) -> str:
        self.started.set()
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                continue
        self.ended.set()
        return "at last"

    @tool
    async def hold(self) -> str:
        return await self.hold_on()

    @tool(timeout=0.01)
    async def hold_a_moment(self) -> str:
        return await self.hold_on()


@pytest_asyncio.fixture
async def stubborn(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Stubborn, None]:
    monkeypatch.setattr("rxworker.tools.cancellation.GRACE", 0.01)
    it = Stubborn()
    yield it
    it.go.set()  # or the loop could not be closed
    await it.ended.wait()


async def test_a_time_out_gives_it_up_and_reports_that(stubborn: Stubborn, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rxworker.tools"):
        result = await run_call(Toolbox([stubborn.hold_a_moment]), ToolCall("1", "hold_a_moment", {}))
    assert result.is_error
    assert "does not stop: it is abandoned" in result.text
    assert "tool hold_a_moment was cancelled and has not stopped" in caplog.text


async def test_a_cancelled_run_ends_without_it(stubborn: Stubborn, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(ScriptedModel([call("hold"), "again"]), tools=[stubborn.hold])
    run = worker.run("go")
    await stubborn.started.wait()
    with caplog.at_level(logging.WARNING, "rxworker.tools"):
        await run.cancel()
    with pytest.raises(RunCancelledError):
        await run
    assert "tool hold was cancelled and has not stopped" in caplog.text
    records = records_of(run)
    assert lint(records) == []
    assert any(isinstance(record.event, ToolStart) for record in records)
    (result,) = worker.session.conversation.messages[-1].tool_results
    assert "Whether it had an effect is not known" in result.text
    assert (await worker.run("and now?")).text == "again"


async def test_an_abandoned_call_emits_no_more(stubborn: Stubborn) -> None:
    heard: list[object] = []
    contexts: list[ToolContext] = []

    @tool
    async def hold(context: ToolContext) -> str:
        contexts.append(context)
        text = await stubborn.hold_on()
        context.progress("still here")
        return text

    running = asyncio.create_task(run_calls(Toolbox([hold]), [ToolCall("1", "hold", {})], heard.append))
    await stubborn.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert contexts[0].cancelled
    stubborn.go.set()
    await stubborn.ended.wait()
    await asyncio.sleep(0)
    assert [type(event) for event in heard] == [ToolStart]


async def test_an_operator_that_is_disposed_receives_no_more_of_it(stubborn: Stubborn) -> None:
    contexts: list[ToolContext] = []

    @tool
    async def hold(context: ToolContext) -> str:
        contexts.append(context)
        return await stubborn.hold_on()

    calls = reactivex.concat(reactivex.just(ToolCall("1", "hold", {})), reactivex.never())
    running = calls.pipe(run_tools(Toolbox([hold]))).subscribe()
    await stubborn.started.wait()
    running.dispose()
    stopping = [task for task in asyncio.all_tasks() if "_until_stopped" in repr(task.get_coro())]
    await asyncio.wait(stopping)  # the tool itself does not stop
    assert contexts[0].cancelled
