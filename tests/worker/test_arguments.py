"""What a worker is given is checked where it is given."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler

from rxworker import Limits, Paused, Worker, before_tool_call, tool
from rxworker.errors import ConfigurationError, LimitExceededError
from rxworker.events import ResponseEvent, TextDelta
from rxworker.hooks import Pause, ToolCallContext
from rxworker.messages import Conversation, Message, ToolCall, ToolResult
from rxworker.testing import ScriptedModel, call, say


@tool
def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("empty", ["", "  \n", [""], []])
async def test_an_empty_input_is_refused(empty: Any) -> None:
    worker = Worker(ScriptedModel(["fine"]))
    with pytest.raises(ConfigurationError):
        worker.run(empty)
    assert (await worker.run("hi")).text == "fine"


async def test_an_operator_that_takes_its_time_takes_it_on_the_loop() -> None:
    threads: set[int] = set()

    def note(event: ResponseEvent) -> None:
        threads.add(threading.get_ident())

    worker = Worker(ScriptedModel(["Hello."]), operators=[ops.delay(0.01), ops.do_action(note)])
    assert (await worker.run("hi")).text == "Hello."
    assert threads == {threading.get_ident()}


async def test_what_an_operator_moves_to_another_thread_is_brought_back_in_order() -> None:
    threads: set[int] = set()
    elsewhere = NewThreadScheduler()

    def away(source: Observable[ResponseEvent]) -> Observable[ResponseEvent]:
        return source.pipe(ops.observe_on(elsewhere))

    worker = Worker(ScriptedModel(["A longer answer, in many pieces."]), operators=[away])
    run = worker.run("hi")
    run.events.subscribe(lambda _: threads.add(threading.get_ident()))
    result = await asyncio.wait_for(run, 60)
    assert result.text == "A longer answer, in many pieces."
    texts = [r.event.text async for r in run if isinstance(r.event, TextDelta)]
    assert "".join(texts) == result.text
    assert threads == {threading.get_ident()}


async def test_what_a_run_took_before_a_pause_counts_after_it() -> None:
    @before_tool_call
    def ask(context: ToolCallContext) -> Pause:
        return Pause()

    worker = Worker(ScriptedModel([call("look"), "done"]), tools=[look], hooks=[ask])
    assert isinstance(await worker.run("go"), Paused)
    result = await worker.resume()
    assert (result.usage.total_tokens, result.turns) == (30, 2)


async def test_limits_go_on_over_a_pause() -> None:
    @before_tool_call
    def ask(context: ToolCallContext) -> Pause:
        return Pause()

    model = ScriptedModel([call("look"), call("look"), "done"])
    worker = Worker(model, tools=[look], hooks=[ask], limits=Limits(max_tool_calls=1))
    await worker.run("go")
    with pytest.raises(LimitExceededError, match="max_tool_calls=1"):
        await worker.resume()


async def test_results_of_the_last_calls_may_be_the_input() -> None:
    asked = Message.assistant(ToolCall("c1", "look", {}))
    worker = Worker(ScriptedModel([say("Done.")]), conversation=Conversation((Message.user("hi"), asked)))
    result = ToolResult("c1", "nothing", name="look")
    await worker.run(Message("user", (result,)))
    assert worker.session.conversation.messages[2].tool_results == (result,)
    assert len(worker.session.conversation.messages) == 4
