from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
import reactivex
from reactivex import operators as ops

from rxworker import Run, Worker, on_abort, on_message_send, tool
from rxworker.errors import LocalProtocolError, RunCancelledError, RxWorkerError
from rxworker.events import BlockStart, MessageAdd, Record, RunStart, RunStop, ToolStop, Usage
from rxworker.hooks import AbortContext, MessageSendContext
from rxworker.messages import Conversation, Message
from rxworker.operators import events, text_deltas
from rxworker.run.driver import Phase
from rxworker.testing import Reply, ScriptedModel, call, fail, lint, say, think
from rxworker.timeline import TextBlockEvent
from tests.runs import finish_of


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city.

    Args:
        city: Name of the city, for example Kyoto.
    """
    return f"{city}: 17 °C, clear"


def weather_model() -> ScriptedModel:
    return ScriptedModel(
        [
            think("Two cities.") + call("get_weather", city="Kyoto") + call("get_weather", city="Oslo"),
            say("Both are at 17 °C."),
        ]
    )


async def test_a_run_calls_tools_and_answers() -> None:
    model = weather_model()
    worker = Worker(model, tools=[get_weather], system="Be brief.")
    result = await finish_of(worker.run("What is the weather in Kyoto and in Oslo?"))
    assert result.text == "Both are at 17 °C."
    assert (result.turns, result.usage.total_tokens) == (2, 30)
    roles = [message.role for message in result.conversation.messages]
    assert roles == ["user", "assistant", "user", "assistant"]
    answers = result.conversation.messages[2].tool_results
    assert [answer.text for answer in answers] == ["Kyoto: 17 °C, clear", "Oslo: 17 °C, clear"]
    calls = result.conversation.messages[1].tool_calls
    assert [a.tool_use_id for a in answers] == [c.id for c in calls]
    assert [request.conversation.system for request in model.requests] == ["Be brief."] * 2
    assert [meta.name for meta in model.requests[0].tools] == ["get_weather"]
    assert len(model.requests[1].conversation.messages) == 3


async def test_watchers_see_the_same_run_in_their_own_ways_also_a_late_one() -> None:
    run = Worker(weather_model(), tools=[get_weather]).run("Weather?")
    texts: list[str] = []
    run.events.pipe(text_deltas()).subscribe(texts.append)
    records = [record async for record in run]
    result = await run
    assert "".join(texts) == result.text
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert {record.run_id for record in records} == {run.id}
    assert lint(records) == []
    late: list[Record] = []
    run.subscribe(late.append)
    assert late == records
    # They are numbered by turn and attempt,
    places = [(r.turn, r.attempt) for r in records if isinstance(r.event, RunStart | BlockStart | RunStop)]
    assert (places[0], places[1], places[-1]) == ((0, 0), (1, 1), (2, 1))
    # the results of a turn are added by one event,
    added = [record.event for record in records if isinstance(record.event, MessageAdd)]
    assert [(each.source, len(each.messages[0].tool_results)) for each in added] == [("tools", 2)]
    # and what they fold to is the state.
    assert (run.state.status, run.state.conversation) == ("finished", result.conversation)
    assert run.state.seq == len(records)


async def test_the_next_run_continues_the_conversation() -> None:
    model = ScriptedModel(["Hello.", "You said hi."])
    worker = Worker(model)
    await worker.run("hi")
    result = await worker.run("What did I say?")
    assert [m.text for m in result.conversation.messages] == ["hi", "Hello.", "What did I say?", "You said hi."]
    assert worker.session.conversation == result.conversation
    assert result.turns == 1


def test_run_sync_serves_scripts_again_and_again() -> None:
    worker = Worker(ScriptedModel(["one", "two"]))
    assert worker.run_sync("first").text == "one"
    assert worker.run_sync("second").text == "two"
    assert len(worker.session.conversation.messages) == 4


async def test_run_sync_within_a_loop_names_the_remedy() -> None:
    with pytest.raises(LocalProtocolError, match=r"worker\.run_sync\(\.\.\.\) cannot wait .*await worker\.run"):
        Worker(ScriptedModel([])).run_sync("hi")


def test_a_worker_whose_loop_closed_in_the_middle_of_a_run_can_run_again() -> None:
    worker = Worker(ScriptedModel(["never"], delay=60))
    loop = asyncio.new_event_loop()

    async def begin() -> Run:
        return worker.run("first")

    run = loop.run_until_complete(begin())
    task = run._driver.task
    task.cancel()  # its loop will never hear of it
    loop.close()
    with pytest.raises(LocalProtocolError, match="event loop has closed"):
        run.__await__()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    worker.model = ScriptedModel(["again"])
    assert worker.run_sync("second").text == "again"


async def test_disposing_a_watcher_does_not_stop_the_run() -> None:
    run = Worker(ScriptedModel(["Hello."])).run("hi")
    run.pipe(ops.take(1)).subscribe()
    run.subscribe(print).dispose()
    assert (await run).text == "Hello."


async def test_a_hundred_turns_keep_the_stack_flat() -> None:
    calls = [call("get_weather", city=str(n)) for n in range(45)]
    worker = Worker(ScriptedModel([*calls, say("done")]), tools=[get_weather])
    assert (await worker.run("go")).turns == 46


async def test_handlers_and_operators_of_the_worker_see_each_response() -> None:
    worker = Worker(weather_model(), tools=[get_weather], operators=[ops.filter(lambda e: type(e) is not Usage)])
    seen: list[TextBlockEvent] = []
    worker.timeline.on_text_block(seen.append)
    result = await worker.run("go")
    assert seen
    assert result.usage == Usage()
    assert worker.session.text_collector.collected() == ["Both are at 17 °C."]
    assert [c.name for c in worker.session.tool_call_collector.collected()] == ["get_weather", "get_weather"]


async def test_input_may_be_messages_or_content() -> None:
    model = ScriptedModel(["a", "b", "c"])
    worker = Worker(model, conversation=Conversation((Message.user("before"),)))
    await worker.run(Message.user("one"))
    await worker.run([Message.user("two"), Message.user("three")])
    await worker.run(["four", "five"])
    last = model.requests[-1].conversation.messages
    assert [m.text for m in last if m.role == "user"] == ["before", "one", "two", "three", "fourfive"]


async def test_a_run_without_watchers_and_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(ScriptedModel([fail("too much \ud83d", "invalid_request")]))
    run = worker.run("hi")
    await asyncio.wait([run._driver.task])
    assert "without a watcher: too much \ufffd" in caplog.text


async def test_each_turn_begins_after_the_last_one_was_seen_by_every_watcher() -> None:
    run = Worker(weather_model(), tools=[get_weather]).run("go")
    seen: list[tuple[str, Record]] = []
    run.subscribe(lambda r: seen.append(("a", r)))
    run.subscribe(lambda r: seen.append(("b", r)))
    result = await run
    turns = [[record.turn for who, record in seen if who == one] for one in "ab"]
    assert turns[0] == turns[1] == sorted(turns[0])
    assert [record.turn for _, record in seen] == sorted(record.turn for _, record in seen)
    assert max(turns[0]) == result.turns > 1
    # One by one, except for the ends of the calls and the message with their results.
    alone = [(r.seq, who) for who, r in seen if not isinstance(r.event, ToolStop | MessageAdd)]
    assert alone == sorted(alone)


async def test_a_run_whose_driver_is_cancelled_from_outside_ends_as_cancelled() -> None:
    run = Worker(ScriptedModel(["Hello."], delay=60)).run("hi")
    await asyncio.sleep(0)
    run._driver.task.cancel()
    with pytest.raises(RunCancelledError):
        await run


async def test_a_task_that_waits_for_a_run_and_is_cancelled_cancels_no_other() -> None:
    may_go_on = asyncio.Event()

    @on_message_send
    async def wait_a_little(_: MessageSendContext) -> None:
        await may_go_on.wait()

    run = Worker(ScriptedModel(["Hello."]), hooks=[wait_a_little]).run("hi")

    async def wait() -> str:
        return (await run).text

    first, second = asyncio.ensure_future(wait()), asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    first.cancel()
    may_go_on.set()
    assert await second == (await run).text == "Hello."
    assert first.cancelled()


async def test_a_follower_is_shown_the_last_record_before_who_waits_continues() -> None:
    run = Worker(ScriptedModel(["Hello."])).run("hi")
    seen: list[Record] = []
    run.watch().subscribe(seen.append)
    await run
    assert isinstance(seen[-1].event, RunStop)


@tool
async def write(text: str) -> str:
    """Write a text."""
    return text


@tool(effect="pure")
async def read() -> str:
    """Read it."""
    return "a text"


@pytest.mark.unlogged
@pytest.mark.parametrize("first", [(), (call("write", text="b") + call("read"),)])
async def test_a_run_without_references_after_its_end_needs_no_garbage_collector(first: tuple[Reply, ...]) -> None:
    async def begin() -> list[weakref.ref[object]]:
        worker = Worker(ScriptedModel([*first, say("Hello!")]), tools=[write, read])
        run = worker.run("Hi")
        run.events.subscribe(lambda event: None)
        await run
        parts = run, run._journal, run._journal.hub
        return [weakref.ref(part) for part in parts]

    gc.disable()
    try:
        parts = await begin()
        await asyncio.sleep(0)
        assert [part() for part in parts] == [None] * 3
    finally:
        gc.enable()


def test_these_are_the_public_names_of_a_run() -> None:
    names = {name for name in [*dir(Run), *Run.__annotations__] if not name.startswith("_")}
    assert names == {
        "allowed",
        "barrier",
        "cancel",
        "cancel_call",
        "cancel_when_unobserved",
        "decide",
        "deliver",
        "done",
        "edit",
        "entries",
        "events",
        "exception",
        "first_seq",
        "hand_over",
        "id",
        "inner",
        "last_seq",
        "loop",
        "parents",
        "partial_output",
        "pause",
        "pipe",
        "records",
        "result",
        "scheduler",
        "send",
        "session",
        "snapshot",
        "started",
        "state",
        "subscribe",
        "watch",
        "watchers",
    }


async def test_a_run_has_the_outcome_of_a_future() -> None:
    run = Worker(ScriptedModel(["Hello."])).run("hi")
    assert not run.done()
    for outcome in (run.result, run.exception):
        with pytest.raises(LocalProtocolError, match="has not ended: await it"):
            outcome()
    result = await run
    assert (run.done(), run.result(), run.exception()) == (True, result, None)
    assert (await run) is result


async def test_a_run_that_failed_raises_the_same_error_from_await_and_result() -> None:
    run = Worker(ScriptedModel([fail("too much", "invalid_request")])).run("hi")
    with pytest.raises(RxWorkerError) as awaited:
        await run
    with pytest.raises(RxWorkerError) as asked:
        run.result()
    assert run.exception() is awaited.value is asked.value


async def test_the_records_of_a_run_are_an_observable_for_each_operator() -> None:
    one, two = (Worker(ScriptedModel([word])).run("hi") for word in ("one", "two"))
    count = await reactivex.merge(one.records, two.records).pipe(ops.count())
    assert count == one.last_seq + two.last_seq
    assert await one.records.pipe(events(), ops.count()) == await one.pipe(events(), ops.count())


async def test_a_run_goes_through_its_phases_and_ends_before_its_watchers_complete() -> None:
    phases: list[tuple[str, Phase]] = []
    worker = Worker(ScriptedModel(["Hello."], delay=60))

    @on_abort
    def note(context: AbortContext) -> None:
        phases.append((context.cause, run._driver.phase))

    worker.hooks.add(note)
    run = worker.run("hi")
    run.subscribe(on_error=lambda error: phases.append(("error", run._driver.phase)))
    phases.append(("begun", run._driver.phase))
    await asyncio.sleep(0)
    phases.append(("later", run._driver.phase))
    await run.cancel()
    assert phases == [
        ("begun", Phase.STARTING),
        ("later", Phase.RUNNING),
        ("cancel", Phase.ENDING),
        ("error", Phase.ENDED),
    ]
