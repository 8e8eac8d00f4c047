"""`Run.pause`: at the next moment at which nothing is cut off, and from there the run goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rxworker import Approve, Deny, Finished, Paused, Run, RunResult, Worker, before_tool_call, tool
from rxworker.errors import ConfigurationError, LocalProtocolError, RunCancelledError
from rxworker.events import BlockStart, Event, RunPause, RunStop, TextDelta, ToolStart, ToolStop, TurnStart, TurnStop
from rxworker.hooks import Pause, ToolCallContext
from rxworker.hooks.decorate import HookLike
from rxworker.messages import Message, repair, validate
from rxworker.testing import ScriptedModel, call, lint, say, stall
from rxworker.worker import load_paused, save_paused
from tests.pauses import pause_of
from tests.runs import finish_of, reached

RAN: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    RAN.clear()


@tool
async def note(text: str) -> str:
    """Write a note."""
    RAN.append(text)
    return f"noted {text}"


def worker_that_notes(*hooks: HookLike) -> tuple[Worker, ScriptedModel]:
    model = ScriptedModel([say("I note.") + call("note", text="a"), "Noted."])
    return Worker(model, tools=[note], hooks=hooks), model


def pause_at(run: Run[object], kind: type[Event], reason: str = "lunch") -> None:
    """Ask for a pause within the first event of a kind."""
    asked: list[object] = []

    def look(event: Event) -> None:
        if isinstance(event, kind) and not asked:
            asked.append(event)
            run.pause(reason=reason)

    run.events.subscribe(look)


async def paused_at(worker: Worker, kind: type[Event]) -> Paused[object]:
    run = worker.run("Go.")
    pause_at(run, kind)
    return await pause_of(run)


def results_of(result: RunResult[object]) -> list[str]:
    return [r.text for m in result.conversation.messages for r in m.tool_results]


async def test_requested_within_a_response_it_pauses_before_the_tools() -> None:
    worker, model = worker_that_notes()
    result = await paused_at(worker, TextDelta)
    assert (result.reason, result.hook, result.paused_at) == ("lunch", "pause", None)
    assert [waiting.input for waiting in result.pending] == [{"text": "a"}]
    assert result.text == "I note."
    assert RAN == []
    assert len(model.requests) == 1


@pytest.mark.parametrize("kind", [BlockStart, ToolStop])
async def test_paused_before_or_behind_the_tools_the_model_receives_their_results_and_they_run_once(
    kind: type[Event],
) -> None:
    worker, model = worker_that_notes()
    await paused_at(worker, kind)
    result = await finish_of(worker.resume())
    assert RAN == ["a"]
    assert (result.text, results_of(result)) == ("Noted.", ["noted a"])
    assert [r.text for r in model.requests[1].conversation.messages[-1].tool_results] == ["noted a"]


async def test_requested_while_a_tool_runs_it_pauses_when_all_have_run() -> None:
    worker, model = worker_that_notes()
    result = await paused_at(worker, ToolStart)
    assert result.pending == ()
    assert RAN == ["a"]
    assert results_of(result) == ["noted a"]
    assert len(model.requests) == 1


@pytest.mark.parametrize("kind", [TurnStart, TextDelta, TurnStop])
async def test_requested_within_the_last_answer_it_pauses_where_the_run_would_finish(kind: type[Event]) -> None:
    worker = Worker(ScriptedModel(["Hello."]))
    result = await paused_at(worker, kind)
    assert (result.text, result.pending) == ("Hello.", ())
    resumed = worker.resume()
    events: list[Event] = []
    resumed.events.subscribe(events.append)
    assert isinstance(await resumed, Finished)
    assert (await resumed).text == "Hello."
    assert isinstance(events[-1], RunStop)


async def test_paused_at_the_end_it_continues_with_what_is_added() -> None:
    model = ScriptedModel(["Hello.", "Goodbye."])
    worker = Worker(model)
    await paused_at(worker, TextDelta)
    result = await finish_of(worker.resume(add=[Message.user("And now?")]))
    assert result.text == "Goodbye."
    assert len(model.requests) == 2


async def test_a_message_that_was_sent_goes_before_the_pause() -> None:
    model = ScriptedModel(["Hello.", "Yes."])
    run = Worker(model).run("Go.")

    def ask(event: Event) -> None:
        if isinstance(event, TextDelta) and not sent:
            sent.append(run.send("Still there?"))
            run.pause()

    sent: list[asyncio.Future[None]] = []
    run.events.subscribe(ask)
    result = await pause_of(run)
    assert result.text == "Yes."
    assert sent[0].done()


async def test_what_pauses_is_written_down_once_and_the_run_stays_readable() -> None:
    worker, _ = worker_that_notes()
    run = worker.run("Go.")
    pause_at(run, TextDelta)
    await run
    records = [record async for record in run]
    pauses = [r.event for r in records if isinstance(r.event, RunPause)]
    assert [(pause.pause.hook, pause.pause.reason) for pause in pauses] == [("pause", "lunch")]
    assert lint(records) == []
    assert run.state.status == "paused"
    assert repair(worker.session.conversation) != worker.session.conversation  # the call waits for its result


async def test_requested_twice_it_pauses_once_with_the_last_reason() -> None:
    worker, _ = worker_that_notes()
    run = worker.run("Go.")
    run.pause(reason="first")
    run.pause(reason="second")
    result = await pause_of(run)
    assert result.reason == "second"
    await finish_of(worker.resume())


async def test_paused_again_and_again_each_tool_runs_once() -> None:
    worker, _ = worker_that_notes()
    run: Run[object] = worker.run("Go.")
    for _ in range(3):
        run.pause()
        result = await pause_of(run)
        assert (len(result.pending), RAN) == (1, [])
        run = worker.resume()
    assert isinstance(await run, Finished)
    assert RAN == ["a"]


async def test_the_hooks_run_when_it_continues_and_not_before() -> None:
    asked: list[str] = []

    @before_tool_call
    def permit(context: ToolCallContext) -> Pause:
        asked.append(str(context.input["text"]))
        return Pause("May it?")

    worker, _ = worker_that_notes(permit)
    await paused_at(worker, TextDelta)
    assert asked == []
    result = await pause_of(worker.resume())
    assert (asked, result.reason, RAN) == (["a"], "May it?", [])
    assert isinstance(await worker.resume(), Finished)
    assert (asked, RAN) == (["a"], ["a"])


async def test_what_waits_may_be_decided_about() -> None:
    calls = call("note", text="a") + call("note", text="b") + call("note", text="c")
    worker = Worker(ScriptedModel([calls, "Done."]), tools=[note])
    result = await paused_at(worker, BlockStart)
    first, second, _ = (waiting.id for waiting in result.pending)
    decisions = {first: Deny("No."), second: Approve({"text": "B"})}
    finished = await worker.resume(decisions=decisions)
    assert RAN == ["B", "c"]
    assert results_of(finished) == ["No.", "noted B", "noted c"]


async def test_paused_between_two_turns_it_can_be_saved_too() -> None:
    worker, _ = worker_that_notes()
    data = save_paused(await paused_at(worker, ToolStart))
    model = ScriptedModel(["Noted there."])
    result = await Worker(model, tools=[note]).resume(load_paused(data))
    assert (result.text, RAN) == ("Noted there.", ["a"])
    assert [r.text for r in model.requests[0].conversation.messages[-1].tool_results] == ["noted a"]


async def test_cancel_goes_before_a_pause_that_was_requested() -> None:
    worker = Worker(ScriptedModel([say("Once") + stall(), "Again."]))
    run = worker.run("Go.")
    pause_at(run, TextDelta)
    await reached(run, TextDelta)
    await run.cancel(reason="enough")
    with pytest.raises(RunCancelledError, match="enough"):
        await run
    assert run.state.status == "aborted"
    assert isinstance(await worker.run("Again?"), Finished)


async def test_after_turn_and_a_pause_in_one_turn_pause() -> None:
    """The pause comes first, and a run that has paused is over; it can be resumed, which a cancelled one cannot."""
    worker, _ = worker_that_notes()
    run = worker.run("Go.")
    run.pause()
    run.cancel("after_turn")
    assert isinstance(await run, Paused)
    assert RAN == []


async def test_what_has_ended_cannot_be_paused() -> None:
    run = Worker(ScriptedModel(["Hello."])).run("Go.")
    await run
    with pytest.raises(LocalProtocolError, match="nothing to pause"):
        run.pause()


async def test_it_is_requested_on_the_event_loop_or_through_it() -> None:
    worker, _ = worker_that_notes()
    run = worker.run("Go.")
    with pytest.raises(LocalProtocolError, match=r"call_soon_threadsafe\(run\.pause\)"):
        await asyncio.to_thread(run.pause)
    await asyncio.to_thread(run.loop.call_soon_threadsafe, run.pause)
    await run
    assert run.done()


async def test_a_reason_is_a_text() -> None:
    reason: Any = 3
    run = Worker(ScriptedModel(["Hello!"])).run("Hi")
    with pytest.raises(ConfigurationError, match="reason"):
        run.pause(reason=reason)
    assert (await run).text == "Hello!"


def test_only_a_paused_run_can_be_saved() -> None:
    finished: Any = "finished"
    with pytest.raises(ConfigurationError, match="only a result of type Paused can be saved"):
        save_paused(finished)


async def test_results_of_refused_calls_come_before_what_is_added_when_it_paused_again() -> None:
    """A run that is paused twice in one turn.

    No call waits any more, and the conversation does not have the results yet.
    """

    @tool(requires_approval=True)
    async def wipe() -> str:
        """Wipe."""
        raise AssertionError("it was refused")

    model = ScriptedModel([call("wipe") + call("wipe"), "Understood."])
    worker = Worker(model, tools=[wipe])
    await worker.run("go")
    run = worker.resume(decisions=[Deny("no"), Deny("no")])
    run.pause()
    paused = await pause_of(run)
    assert (paused.pending, len(paused.pause.refused)) == ((), 2)
    result = await worker.resume(add=[Message.user("Why?")])
    assert result.text == "Understood."
    sent = model.requests[1].conversation
    assert validate(sent) == []
    assert [message.text for message in sent.messages] == ["go", "", "", "Why?"]
