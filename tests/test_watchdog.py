"""What holds the event loop is named, once.

The innermost function that did not return, and not the functions around it.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from rxworker import Worker, before_tool_call, on_message_send, tool
from rxworker.boards import Dashboard, panel
from rxworker.events import LoopHold, Record, RunStart
from rxworker.hooks.context import MessageSendContext, ToolCallContext
from rxworker.hub import Coalesce
from rxworker.messages import Message
from rxworker.panels import count
from rxworker.testing import ScriptedModel, call
from rxworker.timeline import TextBlockStop
from rxworker.watchdog import call_watched, watchdog, watched
from rxworker.worker.callbacks import Callback


class Clock:
    """A clock that only what blocks moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def block(self, seconds: float = 4.0) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    given = Clock()
    monkeypatch.setattr(watchdog, "limit", type(watchdog)().limit)
    monkeypatch.setattr(watchdog, "clock", given)
    monkeypatch.setattr(watchdog, "reported", 0.0)
    monkeypatch.setattr(watchdog, "held", {})
    return given


def names(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was named, in warnings."""
    records = [each for each in caplog.records if " held the event loop" in each.getMessage()]
    assert {each.levelno for each in records} <= {logging.WARNING}
    return [each.getMessage().partition(" held ")[0] for each in records]


async def test_a_tool_that_blocks_is_named_once_in_the_log_and_among_the_records(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def search() -> str:
        await asyncio.sleep(0)
        clock.block()
        return "found"

    @tool
    async def innocent() -> str:
        await asyncio.sleep(0)
        return "nothing"

    replies = [call("search") + call("innocent"), call("search"), "Done."]
    run = Worker(ScriptedModel(replies), tools=[search, innocent]).run("Hi")
    await run
    assert names(caplog) == ["tool search"]
    held = [record.event async for record in run if isinstance(record.event, LoopHold)]
    assert held == [LoopHold("tool", "search", 4.0)]
    assert watchdog.held == {("tool", "search"): (2, 8.0)}


async def test_a_tool_with_a_timeout_is_named_as_well(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    @tool(timeout=60.0)
    async def search() -> str:
        clock.block()
        return "found"

    await Worker(ScriptedModel([call("search"), "Done."]), tools=[search]).run("Hi")
    assert names(caplog) == ["tool search"]


async def test_a_hook_that_blocks_is_named_and_a_tool_that_it_runs_in_its_place(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def look() -> str:
        clock.block(3.0)
        return "found"

    @on_message_send
    async def asks(context: MessageSendContext) -> None:
        await context.run_tool("look", {})

    @before_tool_call
    def permit(context: ToolCallContext) -> None:
        clock.block()

    run = Worker(ScriptedModel([call("look"), "Done."]), tools=[look], hooks=[asks, permit]).run("Hi")
    await run
    assert names(caplog) == ["tool look", "hook permit"]
    assert LoopHold("hook", "permit", 4.0) in [record.event async for record in run]


@pytest.mark.parametrize("beside", [[], ["calm"]])
async def test_a_handler_of_the_timeline_that_blocks_is_named(
    beside: list[str], clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(ScriptedModel(["Hello!"]))

    def calm(_: object) -> None: ...

    def slow(event: object) -> None:
        clock.block(0.3 if isinstance(event, TextBlockStop) else 0.001)

    for _ in beside:
        worker.timeline.on_text_block(calm)
    worker.timeline.on_text_block(slow)
    await worker.run("Hi")
    assert names(caplog) == [f"callback {', '.join([*beside, 'slow'])}"]


@pytest.mark.parametrize("delivery", [None, Coalesce()])
async def test_a_watcher_that_blocks_is_named(
    delivery: Coalesce | None, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    run = Worker(ScriptedModel(["Hello!"])).run("Hi")

    def block(record: Record) -> None:
        clock.block(0.3 if isinstance(record.event, RunStart) else 0.001)

    if delivery is None:
        run.subscribe(lambda _: None)
        run.subscribe(block)
    else:
        run.watch(delivery, name="slow").subscribe(block)
    await run
    await asyncio.sleep(0)
    assert names(caplog) == ["watcher watcher-2" if delivery is None else "watcher slow"]


async def test_a_panel_that_blocks_is_named_and_not_the_watcher_that_is_its_board(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def group(record: Record) -> str:
        clock.block()
        return ""

    run = Worker(ScriptedModel(["Hello!"])).run("Hi")
    board = Dashboard([panel("Slow", count(RunStart), group=group), panel("Quick", count(RunStart))])
    shown = board.show(run.records)
    await run
    assert "quick" in shown.states[1].panel
    assert names(caplog) == ["panel slow"]


async def test_the_function_that_changes_messages_is_named(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    def slow(message: Message) -> Message:
        clock.block()
        return message

    await Worker(ScriptedModel(["Done."]), map_input=slow).run("Hi")
    assert names(caplog) == ["callback map_input"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_callback_that_blocks_is_named(is_async: bool, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    def notify(_: int) -> None:
        clock.block()

    async def notify_later(_: int) -> None:
        clock.block()

    called = Callback(notify_later if is_async else notify, print)
    called(1)
    called(2)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    [name] = names(caplog)
    assert name.startswith("callback ")
    assert name.endswith("notify_later" if is_async else "notify")


async def test_what_waits_or_stays_below_the_limit_is_not_named(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    async def wait() -> None:
        for _ in range(9):
            clock.block(0.1)
            await asyncio.sleep(0)

    waiting = asyncio.ensure_future(call_watched("waits", wait))
    for _ in range(9):
        await asyncio.sleep(0)
        clock.block(1.0)  # other code
    await waiting
    assert names(caplog) == []


async def test_the_limit_is_a_setting(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "limit", 10.0)
    await call_watched("slow", clock.block)
    assert names(caplog) == []
    await call_watched("slow", clock.block, 11.0)
    assert names(caplog) == ["callback slow"]


async def test_what_is_watched_is_cancelled_and_raises_as_it_does_alone(clock: Clock) -> None:
    seen: list[str] = []

    async def work() -> int:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            return 7
        return 0

    async def watch() -> int:
        return await watched(work(), "tool", "work")

    task = asyncio.create_task(watch())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == 7
    assert seen == ["cancelled"]

    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await watched(fail(), "tool", "fail")
