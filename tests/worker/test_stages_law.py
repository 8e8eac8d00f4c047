"""A fault of a stage is that of a model.

What is recorded is one response, and nothing that a watcher sees differs from what the tools received and the model
read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, cast, get_args

import pytest
import reactivex
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler

from rxworker import Limits, Worker, tool
from rxworker.errors import ConfigurationError, RxWorkerError, TruncatedError
from rxworker.events import (
    AttemptRetract,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    Event,
    MessageAdd,
    Ping,
    Record,
    ResponseStatus,
    RunAbort,
    Status,
    TextDelta,
    ToolOutput,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
)
from rxworker.events.kinds import Deltas
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.hub.history import expand
from rxworker.log import MemoryLog
from rxworker.messages import Message, ToolResult, validate
from rxworker.operators import committed
from rxworker.operators.kernel import Operator
from rxworker.state import fold_run
from rxworker.state.grammar import RecordGrammar
from rxworker.testing import ScriptedModel, call, lint, say, stall
from rxworker.transport import Retry
from rxworker.worker import StageName, Turn, TurnStage, call_tools, decide, prepare, respond
from tests.log.processes import stored
from tests.runs import records_of
from tests.seen import through

STAGES: tuple[StageName, ...] = get_args(StageName)
USUAL: dict[StageName, TurnStage] = {"prepare": prepare, "respond": respond, "call_tools": call_tools, "decide": decide}
STARTED, COMPLETED = Status(ResponseStatus.STARTED), Status(ResponseStatus.COMPLETED)
FAILED = Status(ResponseStatus.FAILED)


def completes(event: Event) -> bool:
    return isinstance(event, Status) and event.status is ResponseStatus.COMPLETED


def edited(event: Any) -> Any:
    match event:
        case TextDelta():
            return replace(event, text=event.text.upper())
        case ToolStart():
            return replace(event, call=replace(event.call, input={"where": "there"}))
        case ToolStop(result=ToolResult()):
            return replace(event, result=replace(cast("ToolResult", event.result), content="edited"))
        case MessageAdd(messages=(Message(role="user"), *_)):
            results = [replace(each, content="edited") for each in event.messages[0].tool_results]
            return replace(event, messages=(Message("user", tuple(results)),))
        case _:
            return event


def fails_at(source: Observable[Event], kinds: tuple[type[Event], ...]) -> Observable[Event]:
    def check(event: Event) -> None:
        if isinstance(event, kinds):
            raise ValueError("down")

    return source.pipe(ops.do_action(check))


def from_thread(source: Observable[Event]) -> Observable[Event]:
    return source.pipe(ops.observe_on(NewThreadScheduler()))


LAST = (BlockStop, ToolStop)
NOT_KNOWN = "Whether it had an effect is not known."
FAULTS: dict[str, Operator[Any, Any]] = {
    "cut": ops.take_while(lambda event: not completes(event) and not isinstance(event, LAST)),
    "cut at once": ops.take(1),
    "fail": lambda source: reactivex.concat(
        source.pipe(ops.take(2)), reactivex.of(Error("down", "down", retryable=False), FAILED)
    ),
    "empty": lambda source: reactivex.empty(),
    "drop all": ops.ignore_elements(),
    "drop starts": ops.filter(lambda event: not isinstance(event, (BlockStart, ToolStart))),
    "drop ends": ops.filter(lambda event: not isinstance(event, (BlockStop, ToolStop))),
    "edit": ops.map(edited),
    "buffer": lambda source: source.pipe(ops.to_list(), ops.flat_map(reactivex.from_iterable)),
    "throw": partial(fails_at, kinds=LAST),
    "throw and catch": lambda source: fails_at(source, LAST).pipe(ops.catch(lambda error, _: reactivex.empty())),
    "throw and retry": lambda source: fails_at(source, LAST).pipe(ops.retry(2)),
    "twice": ops.repeat(2),
    "from a thread": from_thread,
    "time out": lambda source: source.pipe(ops.timeout(0.0), ops.catch(lambda error, _: reactivex.empty())),
}


def as_around(name: StageName, fault: Operator[Any, Any]) -> dict[str, Any]:
    return {"around": {name: fault}}


def as_stage(name: StageName, fault: Operator[Any, Any]) -> dict[str, Any]:
    def stage(turn: Turn) -> Observable[Event]:
        return USUAL[name](turn).pipe(fault)

    return {"stages": {name: stage}}


def as_operator(name: StageName, fault: Operator[Any, Any]) -> dict[str, Any]:
    return {"operators": [fault]}


WAYS: dict[str, Callable[[StageName, Operator[Any, Any]], dict[str, Any]]] = {"around": as_around, "stage": as_stage}


async def told_by(model: ScriptedModel, **given: Any) -> tuple[list[Record], dict[str, Any], Any]:
    """The records of a run, with which arguments its tool ran, and how it ended."""
    ran: list[str] = []
    records: list[Record] = []

    @tool
    async def look(where: str = "here") -> str:
        """Look."""
        ran.append(where)
        await asyncio.sleep(0)
        return f"nothing {where}"

    @tool(effect="pure")
    async def peek() -> str:
        """Look, without any effect."""
        await asyncio.sleep(0.001)
        return "nothing"

    limits = Limits(max_turns=5)
    worker = Worker(model, tools=[look, peek], limits=limits, response_retry=Retry(retries=0), **given)
    run = worker.run("go")
    run.subscribe(records.append, lambda error: None)
    try:
        outcome: Any = await run
    except Exception as error:
        outcome = error
    await asyncio.sleep(0)
    assert validate(worker.session.conversation) == []
    return records, {"ran": ran, "worker": worker, "run": run.id}, outcome


def check(records: list[Record], seen: dict[str, Any], outcome: Any, model: ScriptedModel) -> None:
    """The law."""
    state, worker = fold_run(records), seen["worker"]
    events = [record.event for record in records]
    last = next(each for each in reversed(events))
    assert state.status in ("finished", "aborted")
    assert (state.status == "aborted") is isinstance(outcome, Exception)
    assert isinstance(last, RunAbort) is (state.status == "aborted")
    assert state.conversation == worker.session.conversation
    if state.status == "aborted":
        return
    grammar = RecordGrammar(responses=False)
    assert [fault for each in records for fault in grammar.feed(each)] == []
    # What is committed is what the model will read.
    text = "".join(
        delta.text() if isinstance(delta, Deltas) else delta.text
        for delta in committed_by(records)
        if isinstance(delta, TextDelta | Deltas)
    )
    assert text == "".join(m.text for m in state.conversation.messages if m.role == "assistant")
    starts: list[Any] = [each.call for each in events if isinstance(each, ToolStart)]
    # With a log the start is stored before the call is made: what is cut in between may have run.
    unknown = {
        e.result.tool_use_id
        for e in events
        if isinstance(e, ToolStop) and e.result and e.result.text.endswith(NOT_KNOWN)
    }
    shown = Counter(each.input["where"] for each in starts if each.input and each.id not in unknown)
    assert not shown - Counter(seen["ran"])
    results = [r for m in state.conversation.messages for r in m.tool_results]
    made = {
        block.metadata.id
        for block in events
        if isinstance(block, BlockStop) and isinstance(block.metadata, ToolUseMetadata)
    }
    for stop in (each.result for each in events if isinstance(each, ToolStop | ToolOutput)):
        # A call whose block no watcher has seen to the end is none, and was thrown away.
        assert stop is None or stop in results or stop.tool_use_id not in made or stop.text == DISCARDED_EARLY
    # The model has read the result of each call.
    read = [r for m in model.requests[-1].conversation.messages for r in m.tool_results]
    assert results == read


def committed_by(records: list[Record]) -> list[Any]:
    return through([r.event for r in records], committed())


PLACES = [(way, name) for way in WAYS.values() for name in STAGES] + [(as_operator, "respond")]


@pytest.mark.product(4)
@pytest.mark.parametrize("has_log", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("way", "name"), PLACES)
async def test_a_stage_with_a_fault_leaves_one_response_and_nothing_that_differs(
    way: Callable[[StageName, Operator[Any, Any]], dict[str, Any]], name: StageName, fault: str, has_log: bool
) -> None:
    answers = [say("I look. ") + call("look", where="here") + call("peek"), "Done."]
    model = ScriptedModel([*answers, *answers, *answers])
    async with asyncio.timeout(30), MemoryLog() as log:
        given = way(name, FAULTS[fault]) | ({"log": log} if has_log else {})
        records, seen, outcome = await told_by(model, **given)
        check(records, seen, outcome, model)
        if has_log:
            assert await stored(log, seen["run"]) == [*chain.from_iterable(map(expand, records))]


def response(*events: Event) -> Observable[Event]:
    return reactivex.of(*events)


WHOLE = (BlockStart(0, BlockType.TEXT), TextDelta(0, "whole"), BlockStop(0, BlockType.TEXT), COMPLETED)
HALF = (STARTED, BlockStart(0, BlockType.TEXT), TextDelta(0, "half "))
NOT_WHOLE: dict[str, Callable[[Turn], Observable[Event]]] = {
    "empty": lambda turn: reactivex.empty(),
    "half": lambda turn: response(TextDelta(0, "half")),
    "half, started": lambda turn: response(*HALF),
    "failed": lambda turn: response(*HALF, Error("down", "it is down", retryable=False), FAILED),
    "failed after it was whole": lambda turn: response(STARTED, *WHOLE, *HALF, FAILED),
    "cancelled": lambda turn: response(*HALF, Status(ResponseStatus.CANCELLED)),
    "an error alone": lambda turn: response(STARTED, Error("down", "it is down", retryable=False)),
}


@pytest.mark.parametrize("given", NOT_WHOLE)
async def test_a_stage_in_place_of_respond_is_acted_on_only_if_its_response_is_whole(given: str) -> None:
    records, seen, outcome = await told_by(ScriptedModel([]), stages={"respond": NOT_WHOLE[given]})
    assert isinstance(outcome, RxWorkerError)
    assert isinstance(records[-1].event, RunAbort)
    assert seen["ran"] == []


async def test_a_response_that_is_cut_by_an_operator_is_truncated() -> None:
    cut = FAULTS["cut"]
    _, _, outcome = await told_by(ScriptedModel(["Hello."]), around={"respond": cut})
    assert isinstance(outcome, TruncatedError)
    assert "the stage respond, or an operator around it" in str(outcome)


def first_fails(turn: Turn, failed: list[int]) -> Observable[Event]:
    if not failed:
        failed.append(1)
        return reactivex.concat(response(*HALF), reactivex.throw(ValueError("down")))
    return response(STARTED, *WHOLE)


def fails_once() -> TurnStage:
    failed: list[int] = []
    return lambda turn: reactivex.defer(lambda _: first_fails(turn, failed))


def fails_first(turn: Turn) -> Observable[Event]:
    return first_fails(turn, [])


def catches(turn: Turn) -> Observable[Event]:
    return respond(turn).pipe(ops.catch(response(*WHOLE)))


def fails_outside(source: Observable[Event]) -> Observable[Event]:
    return fails_at(source, (Ping,)).pipe(ops.catch(response(*WHOLE)))


def pings(turn: Turn) -> Observable[Event]:
    return response(*HALF, Ping())


AGAIN: dict[str, Callable[[], dict[str, Any]]] = {
    "retry": lambda: {"stages": {"respond": fails_once()}, "around": {"respond": ops.retry(2)}},
    "catch": lambda: {"stages": {"respond": fails_first}, "around": {"respond": ops.catch(response(*WHOLE))}},
    "fails outside of the stage": lambda: {"stages": {"respond": pings}, "around": {"respond": fails_outside}},
    "of a model": lambda: {"around": {"respond": ops.catch(response(*WHOLE))}},
    "of a model, within the stage": lambda: {"stages": {"respond": catches}},
    "of a model, tried again": lambda: {"around": {"respond": ops.retry(2)}},
}


@pytest.mark.parametrize("given", AGAIN)
async def test_a_second_try_by_an_operator_retracts_the_attempt_before_it(given: str) -> None:
    model = ScriptedModel([replace(say("half "), error=Error("down", "down", retryable=False)), "whole"])
    records, _, outcome = await told_by(model, **AGAIN[given]())
    assert outcome.text == "whole"
    text = [
        e.text() if isinstance(e, Deltas) else e.text
        for e in committed_by(records)
        if isinstance(e, TextDelta | Deltas)
    ]
    assert "".join(text) == "whole"
    assert lint(records) == []
    events = [record.event for record in records]
    assert sum(isinstance(event, AttemptRetract) for event in events) == 1


@pytest.mark.parametrize("kind", [ToolStart, ToolStop, MessageAdd])
@pytest.mark.parametrize("way", WAYS)
async def test_what_an_operator_changes_in_the_events_of_tools_is_refused(kind: type[Event], way: str) -> None:
    def change(event: Event) -> Event:
        return edited(event) if isinstance(event, kind) else event

    model = ScriptedModel([call("look", where="here"), "Done."])
    records, _, outcome = await told_by(model, **WAYS[way]("call_tools", ops.map(change)))
    assert isinstance(outcome, ConfigurationError)
    assert f"changed a {kind.__name__}" in str(outcome)
    assert not any(record.event == edited(record.event) != record.event for record in records)


async def test_a_tool_that_began_early_ends_before_the_run_does_where_the_stage_fails() -> None:
    @tool(effect="pure")
    async def ponder() -> str:
        """Look for ever."""
        await asyncio.Event().wait()
        return "nothing"

    model = ScriptedModel([call("ponder") + call("look") + stall()])
    around: dict[StageName, Operator[Event, Event]] = {"respond": ops.timeout(0.02)}
    run = Worker(model, tools=[ponder], around=around).run("go")
    with pytest.raises(Exception, match=r"[Tt]imeout"):
        await run
    await asyncio.sleep(0)
    records = records_of(run)
    kinds = [type(record.event) for record in records]
    assert kinds.index(ToolStart) < kinds.index(ToolStop) < kinds.index(RunAbort) == len(kinds) - 1
