"""What a response has said may be taken back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reactivex import Observable

from rxworker import Worker, tool
from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    ResponseStatus,
    Status,
    TextDelta,
    ToolUseMetadata,
)
from rxworker.operators.kernel import Source
from rxworker.testing import ScriptedModel, call, cut, say, stall
from rxworker.timeline import (
    TextBlockAbort,
    TextBlockCollector,
    TextBlockEvent,
    TextBlockStart,
    Timeline,
    ToolCallCollector,
)
from rxworker.transport import Retry
from tests.timeline.scopes import Scopes

STARTED, COMPLETED = Status(ResponseStatus.STARTED), Status(ResponseStatus.COMPLETED)
QUICK = Retry(first=0.0)


def text(value: str) -> list[Event]:
    return [TextDelta(0, value), BlockStop(0, BlockType.TEXT)]


def tool_call(id_: str) -> list[Event]:
    start = BlockStart(1, BlockType.TOOL_USE, ToolUseMetadata(id_, "look"))
    return [start, InputJsonDelta(1, "{}"), BlockStop(1, BlockType.TOOL_USE)]


@tool
async def look() -> str:
    return "nothing"


def fails_once() -> ScriptedModel:
    """The first answer breaks in the middle, behind a whole text and a whole call."""
    half = say("half") + call("look") + call("look", where="here") + cut()
    return ScriptedModel([half, say("whole") + call("look"), "done"])


@pytest.mark.parametrize("asks_early", [True, False])
@pytest.mark.parametrize("has_handler", [True, False])
async def test_the_collectors_of_a_worker_drop_what_was_retracted(has_handler: bool, asks_early: bool) -> None:
    worker = Worker(fails_once(), tools=[look], response_retry=QUICK)
    if asks_early:
        assert worker.session.text_collector.collected() == []
    if has_handler:
        worker.timeline.on_text_block(lambda event: None)
    await worker.run("hi")
    assert worker.session.text_collector.collected() == ["whole", "done"]
    assert [call.id for call in worker.session.tool_call_collector.collected()] == ["call_2_1"]


async def test_a_reader_meanwhile_sees_the_text_until_then() -> None:
    worker = Worker(fails_once(), tools=[look], response_retry=QUICK)
    seen: list[list[str]] = []
    run = worker.run("hi")
    run.subscribe(lambda record: seen.append(worker.session.text_collector.collected()))
    await run
    assert ["half"] in seen
    assert seen[-1] == ["whole", "done"]
    assert all(texts != ["half", "whole"] for texts in seen)


async def test_texts_that_were_taken_stay_taken() -> None:
    worker = Worker(fails_once(), tools=[look], response_retry=QUICK)
    taken: list[str] = []
    run = worker.run("hi")
    run.subscribe(lambda record: taken.extend(worker.session.text_collector.take_collected()))
    await run
    assert taken == ["half", "whole", "done"]


async def test_handlers_are_called_when_a_response_is_retracted() -> None:
    worker = Worker(fails_once(), tools=[look], response_retry=QUICK)
    notes, reasons = Scopes(), list[str]()
    worker.timeline.on_text_block(notes)
    worker.timeline.on_retract(reasons.append)
    await worker.run("hi")
    [reason] = reasons
    place = notes.seen.index(reason)
    texts = [e.text for e in notes.seen[place:] if isinstance(e, TextDelta)]
    assert "".join(texts) == "wholedone"
    assert isinstance(notes.seen[place + 1], TextBlockStart)


@pytest.mark.parametrize("piped", [True, False])
def test_a_second_start_retracts_the_text_of_the_response(piped: bool) -> None:
    timeline, texts, calls, notes = Timeline(), TextBlockCollector(), ToolCallCollector(), Scopes()
    timeline.on_text_block(texts)
    timeline.on_tool_use_block(calls)
    source: Source[Event] = Source()
    push: Callable[[Event], None] = timeline.dispatch
    if piped:
        observable: Observable[Event] = source
        observable.pipe(timeline).subscribe()
        push = source.on_next
    events = [STARTED, *text("first"), *tool_call("a"), STARTED, *text("second"), COMPLETED]
    for event in events:
        push(event)
    assert texts.collected() == ["second"]
    assert calls.collected() == []
    timeline.on_text_block(notes)
    for event in [STARTED, *text("third"), COMPLETED]:
        push(event)
    assert texts.collected() == ["second", "third"]
    assert len(notes.seen) == 2


def test_a_handler_that_is_removed_is_not_called() -> None:
    timeline, reasons = Timeline(), list[str]()
    timeline.on_retract(reasons.append).dispose()
    timeline.on_text_block(Scopes()).dispose()
    timeline.retract("lost")
    assert reasons == []


def test_all_handlers_are_called_though_one_raises() -> None:
    timeline, reasons = Timeline(), list[str]()

    def fail(_: str) -> None:
        raise ValueError("no")

    timeline.on_retract(fail)
    timeline.on_retract(reasons.append)
    with pytest.raises(ValueError, match="no"):
        timeline.retract("lost")
    assert reasons == ["lost"]


def test_a_handler_may_take_a_response_back_itself() -> None:
    timeline, notes = Timeline(), Scopes()

    def retract(event: TextBlockEvent) -> None:
        if event == TextDelta(0, "bad"):
            timeline.retract("bad")

    timeline.on_text_block(retract)
    timeline.on_text_block(notes)
    timeline.dispatch(TextDelta(0, "bad"))
    assert notes.seen == [TextDelta(0, "bad"), TextBlockAbort(0, "bad"), "bad"]


async def test_what_a_cancelled_run_has_collected_stays() -> None:
    worker = Worker(ScriptedModel([say("one") + call("look") + stall()]))
    run = worker.run("hi")
    async for record in run:
        if isinstance(record.event, BlockStop):
            await run.cancel()
            break
    assert worker.session.text_collector.collected() == ["one"]
