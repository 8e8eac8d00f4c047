"""Cancel, pause and resume, limits: a run ends in many ways, and the worker can always run again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from rxworker import Finished, Limits, Paused, Worker, before_tool_call, on_abort, on_turn_end, tool
from rxworker.errors import (
    ConfigurationError,
    HookError,
    LimitExceededError,
    LocalProtocolError,
    RunAbortedError,
    RunCancelledError,
    TruncatedError,
)
from rxworker.events import (
    BlockAbort,
    Event,
    Record,
    ResponseStatus,
    RunAbort,
    RunStop,
    Status,
    TextDelta,
    ToolStart,
    ToolStop,
    TurnStop,
)
from rxworker.hooks import (
    Abort,
    AbortContext,
    ContinueWithMessages,
    Hook,
    HookContext,
    Pause,
    ToolCallContext,
    TurnEndContext,
)
from rxworker.hooks.decorate import HookLike
from rxworker.messages import Conversation, repair
from rxworker.testing import ScriptedModel, call, cut, lint, say, stall
from rxworker.transport import Retry
from tests.pauses import pause_of
from tests.runs import finish_of, reached, records_of

ONCE = Retry(retries=0)


@tool
async def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


def is_valid(conversation: Conversation) -> bool:
    return repair(conversation) == conversation


async def test_the_response_of_a_run_that_is_cancelled_is_cancelled_for_watchers_and_handlers() -> None:
    model = ScriptedModel([say("Hello") + stall()])
    worker = Worker(model)
    statuses: list[ResponseStatus] = []
    worker.timeline.on_status(lambda event: statuses.append(event.status))
    run = worker.run("hi")
    await reached(run, TextDelta)
    await run.cancel()
    events = [record.event for record in records_of(run)]
    assert [type(event) for event in events[-3:]] == [BlockAbort, Status, RunAbort]
    assert events[-2] == Status(ResponseStatus.CANCELLED)
    assert statuses == [ResponseStatus.STARTED, ResponseStatus.CANCELLED]


async def test_a_response_that_has_ended_is_not_cancelled_with_its_run() -> None:
    @tool
    async def wait() -> None:
        await asyncio.Event().wait()

    run = Worker(ScriptedModel([call("wait")]), tools=[wait]).run("hi")
    await reached(run, ToolStart)
    await run.cancel()
    events = [record.event for record in records_of(run)]
    assert Status(ResponseStatus.CANCELLED) not in events


async def test_cancel_while_tools_run_stops_them_and_reports_each_call() -> None:
    started = asyncio.Event()
    stopped: list[str] = []

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("wait")
        return "never"

    model = ScriptedModel([call("wait") + call("note", text="a"), "again"])
    worker = Worker(model, tools=[wait, note], parallel=1)
    run = worker.run("go")
    await started.wait()
    await run.cancel()
    assert stopped == ["wait"]
    first, second = worker.session.conversation.messages[-1].tool_results
    assert "Whether it had an effect is not known" in first.text
    assert "not run" in second.text
    assert is_valid(worker.session.conversation)
    assert lint(records_of(run)) == []
    assert (await worker.run("again")).text == "again"


async def test_cancel_after_the_turn_lets_the_tools_finish() -> None:
    model = ScriptedModel([call("note", text="a"), "never asked"])
    worker = Worker(model, tools=[note])
    run = worker.run("go")
    run.cancel("after_turn")
    with pytest.raises(RunCancelledError):
        await run
    assert worker.session.conversation.messages[-1].tool_results[0].text == "noted a"
    assert len(model.requests) == 1


async def test_cancel_after_the_last_turn_is_a_finish_and_after_the_end_does_nothing() -> None:
    run = Worker(ScriptedModel(["done"])).run("go")
    run.cancel("after_turn")
    assert isinstance(await run, Finished)
    await run.cancel()
    assert (await run).text == "done"


@pytest.mark.parametrize("last", [TurnStop, RunStop])
async def test_cancel_after_the_last_event_is_a_finish(last: type[Event], monkeypatch: pytest.MonkeyPatch) -> None:
    """A watcher that cancels at the last records comes too late: a run does not end twice."""
    monkeypatch.setattr("rxworker.run.driver.GRACE", 0.0)
    told: list[AbortContext] = []
    run = Worker(ScriptedModel(["done"]), hooks=[on_abort(told.append)]).run("go")

    def cancel_at_the_last(record: Record) -> None:
        if isinstance(record.event, last):
            run.cancel()

    run.subscribe(cancel_at_the_last)
    assert isinstance(await run, Finished)
    for _ in range(3):
        await asyncio.sleep(0)  # a hook whose time is over is abandoned now
    assert told == []
    records = records_of(run)
    assert isinstance(records[-1].event, RunStop)
    assert lint(records) == []


async def test_cancel_at_the_last_event_of_an_answer_is_received_though_nothing_is_waited_for() -> None:
    told: list[str] = []

    @on_abort
    async def tell(context: AbortContext) -> None:
        await asyncio.sleep(0)
        told.append(context.reason)

    run = Worker(ScriptedModel(["done"]), hooks=[tell]).run("go")

    def cancel_at_the_end(event: Event) -> None:
        if isinstance(event, Status) and event.status is ResponseStatus.COMPLETED:
            run.cancel(reason="enough")

    run.events.subscribe(cancel_at_the_end, lambda _: None)
    with pytest.raises(RunCancelledError, match="enough"):
        await run
    assert told == ["the run was cancelled: enough"]
    records = records_of(run)
    assert isinstance(records[-1].event, RunAbort)
    assert lint(records) == []


async def test_cancel_from_another_thread_is_refused_and_can_be_handed_over() -> None:
    run = Worker(ScriptedModel([stall()])).run("go")
    with pytest.raises(LocalProtocolError, match="call_soon_threadsafe"):
        await asyncio.to_thread(run.cancel)
    await asyncio.to_thread(run.loop.call_soon_threadsafe, run.cancel)
    with pytest.raises(RunCancelledError):
        await run


def pause_at(name: str) -> HookLike:
    @before_tool_call(matcher=name)
    def ask(context: ToolCallContext) -> Pause:
        return Pause("may I?")

    return ask


async def test_pause_shows_the_exact_calls_and_resume_runs_them() -> None:
    ran: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    model = ScriptedModel([call("act") + call("note", text="a") + call("note", text="b"), "done"])
    worker = Worker(model, tools=[act, note], hooks=[pause_at("note")])
    run = worker.run("go")
    paused = await pause_of(run)
    assert [c.input for c in paused.pending] == [{}, {"text": "a"}, {"text": "b"}]
    assert (paused.hook, paused.reason) == ("ask", "may I?")
    assert lint(records_of(run)) == []
    assert isinstance(await worker.resume(), Paused)  # the second call is asked about as well
    assert ran == []  # no tool runs before the hooks have seen all calls
    result = await finish_of(worker.resume())
    assert [r.text for r in result.conversation.messages[2].tool_results] == ["acted", "noted a", "noted b"]
    assert is_valid(result.conversation)


async def test_a_paused_run_may_be_left_and_the_next_run_begins_with_a_valid_conversation() -> None:
    model = ScriptedModel([call("note", text="a"), "ok"])
    worker = Worker(model, tools=[note], hooks=[pause_at("note")])
    await worker.run("go")
    assert (await worker.run("never mind")).text == "ok"
    assert is_valid(worker.session.conversation)
    assert "not run" in worker.session.conversation.messages[2].tool_results[0].text


async def test_hooks_cannot_send_an_answer_back_for_ever() -> None:
    @on_turn_end
    def never_good_enough(context: TurnEndContext) -> ContinueWithMessages:
        return ContinueWithMessages.user("better")

    worker = Worker(ScriptedModel(lambda _: "draft"), hooks=[never_good_enough], limits=Limits(max_continuations=3))
    with pytest.raises(LimitExceededError, match="max_continuations=3"):
        await worker.run("write")
    assert sum(m.text == "better" for m in worker.session.conversation.messages) == 3


def raising(error: Exception) -> Callable[[ToolCallContext], None]:
    def hook(context: ToolCallContext) -> None:
        raise error

    return hook


@pytest.mark.parametrize(
    ("hook", "error", "cause"),
    [
        (lambda _: Abort("too dangerous"), RunAbortedError, "abort"),  # pyright: ignore
        (raising(ValueError("broken")), HookError, "error"),
        (lambda _: "nonsense", HookError, "error"),  # pyright: ignore
    ],
)
async def test_a_hook_that_aborts_or_fails_ends_the_run_and_no_tool_runs(
    hook: Callable[[ToolCallContext], None], error: type[Exception], cause: str
) -> None:
    told: list[str] = []

    @on_abort
    def tell(context: AbortContext) -> None:
        told.append(context.cause)

    model = ScriptedModel([call("note", text="a"), "again"])
    worker = Worker(model, tools=[note], hooks=[before_tool_call(hook), tell])
    run = worker.run("go")
    with pytest.raises(error):
        await run
    assert told == [cause]
    events = [r.event for r in records_of(run)]
    assert not any(isinstance(e, ToolStart) for e in events)
    assert is_valid(worker.session.conversation)
    worker.hooks.clear("before_tool_call")
    assert (await worker.run("again")).text == "again"


async def test_a_response_that_is_cut_fails_with_its_text_kept_and_its_calls_never_run() -> None:
    half = say("Half a sen") + call("note", text="a") + cut()
    worker = Worker(ScriptedModel([half, "again"]), tools=[note], response_retry=ONCE)
    run = worker.run("hi")
    with pytest.raises(TruncatedError):
        await run
    assert worker.session.conversation.messages[1].text.startswith("Half")
    records = records_of(run)
    assert lint(records) == []
    assert not any(isinstance(record.event, ToolStart | ToolStop) for record in records)
    assert (await worker.run("again")).text == "again"


async def test_cancel_at_no_known_time_is_refused_and_does_not_stand_in_the_way_of_another() -> None:
    run = Worker(ScriptedModel(["done"])).run("go")
    with pytest.raises(ConfigurationError, match="a reason goes into"):
        run.cancel("the user has left")  # type: ignore[arg-type]
    run.cancel()
    with pytest.raises(RunCancelledError):
        await run


@pytest.mark.parametrize("point", ["before_tool_call", "on_abort"])
async def test_a_hook_that_does_not_stop_when_its_time_is_over_is_abandoned(
    point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rxworker.hooks.registry.GRACE", 0.01)
    never = asyncio.Event()

    async def stubborn(context: HookContext) -> None:
        while not never.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await never.wait()

    hook = Hook[Any](stubborn, point, timeout=0.01)
    run = Worker(ScriptedModel([call("note", text="a"), "done"]), tools=[note], hooks=[hook]).run("go")
    if point == "on_abort":
        run.cancel()
    with pytest.raises(RunCancelledError if point == "on_abort" else HookError):
        await run
    never.set()
