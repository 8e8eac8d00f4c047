"""Messages into a running turn, and inputs as a stream."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from reactivex import operators as ops
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

from rxworker import Limits, Run, Worker, on_turn_end, tool
from rxworker.errors import ConfigurationError, HookError, LocalProtocolError, RunCancelledError
from rxworker.events import MessageAdd, TextDelta, ToolStart, TurnStart
from rxworker.hooks import TurnEndContext
from rxworker.messages import Message, Text, ToolCall, ToolResult, validate
from rxworker.testing import ScriptedModel, call, lint, say, stall
from rxworker.worker import Input, run_inputs
from tests.runs import reached


@tool
async def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.unlogged
async def test_a_message_is_delivered_behind_the_results_of_the_turn() -> None:
    model = ScriptedModel([call("look"), "done"])
    run = Worker(model, tools=[look]).run("go")
    async for record in run:
        if isinstance(record.event, ToolStart):
            delivered = run.send("and be quick")
            break
    else:
        pytest.fail("no tool ran")
    await delivered
    result = await run
    said = [(m.role, m.text) for m in result.conversation.messages]
    assert said == [("user", "go"), ("assistant", ""), ("user", ""), ("user", "and be quick"), ("assistant", "done")]
    events = [record.event async for record in run]
    assert [e.source for e in events if isinstance(e, MessageAdd)] == ["tools", "send"]
    assert lint([record async for record in run]) == []


@pytest.mark.unlogged
async def test_a_message_that_comes_while_the_model_answers_makes_another_turn() -> None:
    asked: list[str] = []

    @on_turn_end
    def end(context: TurnEndContext) -> None:
        asked.append(context.text)

    model = ScriptedModel(["first answer", "second answer"])
    run = Worker(model, hooks=[end]).run("go")
    sent = False
    async for record in run:
        if isinstance(record.event, TurnStart) and not sent:
            sent = True
            run.send("wait, also this")
    result = await run
    assert result.text == "second answer"
    assert asked == ["second answer"]
    assert [m.text for m in result.conversation.messages] == ["go", "first answer", "wait, also this", "second answer"]


@pytest.mark.unlogged
@pytest.mark.parametrize(
    ("message", "says"),
    [
        (3, "."),
        (Message.assistant("I never said that."), "only messages"),
        (Message.user(ToolResult("zz", "a result of no call")), "only messages"),
        (Message.assistant(ToolCall("zz", "look", {})), "only messages"),
    ],
)
async def test_words_are_sent_into_a_run_in_their_order_and_nothing_else(message: Any, says: str) -> None:
    run = Worker(ScriptedModel(["one", "two"])).run("go")
    run.send("a")
    with pytest.raises(ConfigurationError, match=says):
        run.send(message)
    run.send("b")
    result = await run
    assert [m.text for m in result.conversation.messages][:3] == ["go", "a", "b"]
    with pytest.raises(LocalProtocolError, match="this run has ended"):
        run.send("too late")


@pytest.mark.unlogged
async def test_a_message_that_could_not_be_delivered_informs_its_sender() -> None:
    run = Worker(ScriptedModel([say("Hm") + stall()])).run("go")
    await reached(run, TurnStart)
    await asyncio.sleep(0)
    delivered = run.send("hello?")
    await run.cancel()
    with pytest.raises(LocalProtocolError, match="ended before the message"):
        await delivered


async def collect(worker: Worker, inputs: Subject[Input], when_busy: str) -> tuple[list[Run], asyncio.Future[None]]:
    runs: list[Run] = []
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    inputs.pipe(run_inputs(worker, when_busy)).subscribe(  # type: ignore[arg-type]
        runs.append, over.set_exception, lambda: over.set_result(None)
    )
    return runs, over


@pytest.mark.unlogged
@pytest.mark.parametrize(("when_busy", "answers"), [("queue", ["one", "two", "three"]), ("send", ["one"])])
async def test_inputs_run_one_after_the_other_or_are_put_into_the_run_that_is_on(
    when_busy: str, answers: list[str]
) -> None:
    inputs = Subject[Input]()
    worker = Worker(ScriptedModel(["one", "two", "three"]))
    runs, over = await collect(worker, inputs, when_busy)
    for text in ("a", "b", "c"):
        inputs.on_next(text)
    assert len(runs) == 1
    inputs.on_completed()
    await over
    assert [(await run).text for run in runs] == answers
    assert [m.text for m in worker.session.conversation.messages if m.role == "user"] == ["a", "b", "c"]


async def test_switch_cancels_the_run_and_begins_the_newest_input() -> None:
    inputs = Subject[Input]()
    worker = Worker(ScriptedModel([say("Hm") + stall(), "newest"]))
    runs, over = await collect(worker, inputs, "switch")
    inputs.on_next("a")
    await reached(runs[0], TextDelta)
    inputs.on_next("b")
    inputs.on_next("c")
    inputs.on_completed()
    await over
    with pytest.raises(RunCancelledError, match="a newer input came"):
        await runs[0]
    assert (await runs[1]).text == "newest"
    assert [m.text for m in worker.session.conversation.messages if m.role == "user"] == ["a", "c"]


async def test_a_burst_is_one_input_when_it_is_debounced() -> None:
    scheduler = TestScheduler()
    inputs = Subject[Input]()
    worker = Worker(ScriptedModel(["one"]))
    runs: list[Run] = []
    inputs.pipe(ops.debounce(5, scheduler), run_inputs(worker)).subscribe(runs.append)
    for text in ("h", "he", "hello"):
        inputs.on_next(text)
        scheduler.advance_by(1)
    scheduler.advance_by(10)
    assert len(runs) == 1
    assert (await runs[0]).conversation.messages[0].text == "hello"


async def test_a_failed_run_does_not_end_the_stream_of_inputs() -> None:
    inputs = Subject[Input]()
    worker = Worker(ScriptedModel([call("look"), "fine"]), limits=Limits(max_tool_calls=0))
    runs, over = await collect(worker, inputs, "queue")
    inputs.on_next("a")
    inputs.on_next("b")
    inputs.on_completed()
    await over
    assert (await runs[1]).text == "fine"
    await asyncio.wait([asyncio.ensure_future(runs[0]._wait())])


async def test_an_observer_of_runs_that_raises_does_not_stop_the_inputs() -> None:
    model = ScriptedModel(["one", "two", "three"])
    inputs: Subject[Input] = Subject()
    ended = asyncio.Event()
    runs: list[Run] = []

    def on_next(run: Run) -> None:
        runs.append(run)
        if len(runs) == 2:
            raise ValueError("a bug")

    inputs.pipe(run_inputs(Worker(model))).subscribe(on_next, on_completed=ended.set)
    for text in ("a", "b", "c"):
        inputs.on_next(text)
    inputs.on_completed()
    await ended.wait()
    assert [(await run).text for run in runs] == ["one", "two", "three"]


@pytest.mark.parametrize(("when_busy", "given"), [("queue", 3), ("send", "")])
async def test_an_invalid_input_fails_the_stream_and_not_its_source(when_busy: str, given: Any) -> None:
    inputs = Subject[Input]()
    runs, over = await collect(Worker(ScriptedModel(["one"])), inputs, when_busy)
    inputs.on_next("a")
    inputs.on_next(given)
    with pytest.raises(ConfigurationError):
        await over
    assert (await runs[0]).text == "one"


async def test_a_message_that_comes_while_the_last_hook_thinks_is_delivered() -> None:
    runs: list[Run] = []

    @on_turn_end
    async def think(context: TurnEndContext) -> None:
        if context.turn == 1:
            runs[0].send("one more thing")
        await asyncio.sleep(0)

    runs.append(Worker(ScriptedModel(["done", "that, too"]), hooks=[think]).run("go"))
    result = await runs[0]
    assert [m.text for m in result.conversation.messages[1:]] == ["done", "one more thing", "that, too"]


def test_an_unknown_way_of_being_busy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="give one of"):
        run_inputs(Worker(ScriptedModel([])), "sned")  # type: ignore[arg-type]


async def test_an_input_that_its_run_did_not_take_begins_the_next_one() -> None:
    """Such as one that comes when the run is ending."""
    inputs = Subject[Input]()
    runs, over = await collect(Worker(ScriptedModel([say("Hm") + stall(), "two"])), inputs, "send")
    inputs.on_next("a")
    await reached(runs[0], TextDelta)
    inputs.on_next("b")
    inputs.on_completed()
    with pytest.raises(RunCancelledError):
        await asyncio.gather(runs[0], runs[0].cancel())
    await over
    assert [(await run).text for run in runs[1:]] == ["two"]


async def test_no_run_begins_once_the_subscription_is_disposed() -> None:
    inputs = Subject[Input]()
    runs: list[Run] = []
    worker = Worker(ScriptedModel(["one", "two"]))
    subscription = inputs.pipe(run_inputs(worker, "queue")).subscribe(runs.append)
    inputs.on_next("a")
    inputs.on_next("b")
    subscription.dispose()
    assert (await runs[0]).text == "one"
    await worker.run("c")  # it is free
    assert [m.text for m in worker.session.conversation.messages] == ["a", "one", "c", "two"]


@pytest.mark.parametrize(
    "message",
    [Message.user(ToolResult("zz", "stray")), Message("robot", (Text("x"),))],  # type: ignore[arg-type]
)
async def test_a_hook_adds_words_and_nothing_else(message: Message) -> None:
    @on_turn_end
    def add(context: TurnEndContext) -> None:
        context.add_message(message)

    worker = Worker(ScriptedModel(["done", "again"]), hooks=[add])
    with pytest.raises(HookError, match="hook 'add' failed"):
        await worker.run("go")
    assert validate(worker.session.conversation) == []
