"""Events of the application, with a type: emitted anywhere, stored, read back with and without their class."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import reactivex
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker import Worker, before_tool_call, on_message_send, on_turn_end, tool
from rxworker.boards import Dashboard, fold_log, panel
from rxworker.decisions import Approve
from rxworker.desk.conversation import conversation_id
from rxworker.errors import ConfigurationError, LogError
from rxworker.events import Custom, CustomEvent, Ping, Record, RunStart, RunStop, TextDelta, ToolStart
from rxworker.log import MemoryLog, SQLiteLog
from rxworker.log.format import record_of
from rxworker.log.transfer import fork_run
from rxworker.operators import events, only, records_of, reject
from rxworker.panels import count
from rxworker.testing import ScriptedModel, call, say
from rxworker.tools import ToolContext
from rxworker.worker import Turn, decide
from tests.pauses import pause_of


class Score(CustomEvent, frozen=True, tag="acme.score"):
    value: float
    by: str = ""


class Other(CustomEvent, frozen=True, tag="acme.other"):
    pass


class Ours(CustomEvent, frozen=True, tag="rxworker.tool_result"):
    pass


class Dotless(CustomEvent, frozen=True, tag="message"):
    pass


class Nameless(CustomEvent, frozen=True):
    value: float = 1.0


class Row(CustomEvent, frozen=True, tag="acme.row", array_like=True):
    value: float = 1.0


class Counts(CustomEvent, frozen=True, tag="acme.counts"):
    by_turn: dict[int, int]


def value_of(score: Score) -> float:
    return score.value


@tool
async def look(context: ToolContext) -> str:
    """Look."""
    context.emit(Score(0.1, "tool"))
    await asyncio.to_thread(context.emit, Score(0.2, "thread"))
    return "nothing"


def hook(context: Any) -> None:
    context.emit(Score(0.3, str(type(context).__name__)))


def after(kind: type[object], score: Score) -> Callable[[Observable[Any]], Observable[Any]]:
    """An operator that emits an event after each of a kind."""

    def operator(source: Observable[Any]) -> Observable[Any]:
        def subscribe(observer: abc.ObserverBase[Any], scheduler: Any = None) -> abc.DisposableBase:
            def on_next(event: Any) -> None:
                observer.on_next(event)
                if isinstance(event, kind):
                    observer.on_next(score)

            return source.subscribe(on_next, observer.on_error, observer.on_completed, scheduler=scheduler)

        return Observable(subscribe)

    return operator


def scoring(turn: Turn) -> Observable[Any]:
    """The usual stage, which emits an event before."""
    return reactivex.concat(reactivex.of(Score(0.6, "stage")), decide(turn))


def worker_with(**more: Any) -> Worker:
    return Worker(
        ScriptedModel([call("look"), say("Done.")]),
        tools=[look],
        hooks=[on_message_send(hook), before_tool_call(hook), on_turn_end(hook)],
        operators=[after(TextDelta, Score(0.4, "operator"))],
        around={"call_tools": after(ToolStart, Score(0.5, "around"))},
        stages={"decide": scoring},
        **more,
    )


async def test_every_place_emits_an_event_and_watchers_see_it_with_its_type() -> None:
    run = worker_with().run("Look.")
    scores = await run.pipe(events(), only(Score), ops.to_list())
    by = {score.by for score in scores}
    assert {"tool", "thread", "operator", "around", "stage"} <= by
    assert len([score for score in scores if score.value == 0.3]) == 4  # two requests, one call, and the end
    records = [record async for record in run]
    assert [r.seq for r in records] == sorted({r.seq for r in records})
    assert sum(isinstance(r.event, Custom) for r in records) == len(scores)
    assert (await run).text == "Done."


async def test_a_process_that_does_not_know_the_class_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with SQLiteLog(path) as log:
        run = worker_with(log=log).run("Look.")
        await run
        before = [record async for record in run]
    async with SQLiteLog(path) as log:
        after = [record_of(entry, run.id).event async for entry in log.read(run.id)]
        assert [e for e in after if isinstance(e, Custom)] == [r.event for r in before if isinstance(r.event, Custom)]
        board = Dashboard([panel("Scores", count(Score)), panel("Others", count(Other)), panel("Best", best)])
        scores, others, top = await fold_log(board, log)
        assert scores.value == sum(isinstance(r.event, Custom) for r in before)
        assert others.value is None
        assert top.value == 0.6


def best(records: Observable[Record]) -> Observable[float]:
    return records.pipe(events(), only(Score), ops.map(value_of), ops.scan(max, 0.0))


EVENTS = [Custom("acme.score", {"value": 1}), Custom("acme.other"), RunStop(), Custom("acme.score", {"value": 2})]


def emitted(operator: Any, items: Any = EVENTS) -> list[Any]:
    found: list[Any] = []
    reactivex.from_iterable(items).pipe(operator).subscribe(found.append, found.append)
    return found


def test_events_are_chosen_by_their_class() -> None:
    assert emitted(only(Score)) == [Score(1), Score(2)]
    assert emitted(only(Score, RunStop)) == [Score(1), RunStop(), Score(2)]
    assert emitted(only(Custom)) == [EVENTS[0], EVENTS[1], EVENTS[3]]
    assert emitted(only(Other)) == [Other()]
    assert emitted(only(CustomEvent)) == emitted(only(Custom))
    assert emitted(only(Counts), [Counts({1: 2}).custom]) == [Counts({1: 2})]
    assert emitted(reject(Score)) == [EVENTS[1], RunStop()]
    assert emitted(reject(Score, RunStop)) == [EVENTS[1]]
    records = [Record(seq, "r", 1, 1, 0.0, event) for seq, event in enumerate(EVENTS, 1)]
    assert [each.seq for each in emitted(records_of(Score), records)] == [1, 4]
    assert [each.seq for each in emitted(records_of(Custom, RunStop), records)] == [1, 2, 3, 4]
    assert [each.seq for each in emitted(records_of(CustomEvent), records)] == [1, 2, 4]


def test_data_that_do_not_fit_the_class_are_an_error() -> None:
    [error] = emitted(only(Score), [Custom("acme.score", {"value": "high"})])
    assert isinstance(error, LogError)
    assert "acme.score does not fit Score" in str(error)


WRONG: list[tuple[CustomEvent, str]] = [
    (Nameless(), "write class Nameless"),
    (Ours(), "'rxworker.tool_result': begin it with a name of yours"),
    (Dotless(), "'message': begin it with a name of yours"),
    (Score(cast("Any", object())), "acme.score has no JSON form"),
    (Score(cast("Any", "high")), "acme.score does not fit Score: Expected `float`, got `str`"),
    (Score(float("nan")), "acme.score does not fit Score: Expected `float`, got `null`"),
    (Row(), "acme.row is recorded by the names of its fields"),
]


@pytest.mark.parametrize(("event", "error"), WRONG)
async def test_what_cannot_be_recorded_is_refused_where_it_is_emitted(event: CustomEvent, error: str) -> None:
    @on_message_send
    def emit(context: Any) -> None:
        with pytest.raises(ConfigurationError, match=error):
            context.emit(event)

    assert (await Worker(ScriptedModel(["Hi."]), hooks=[emit]).run("Hi")).text == "Hi."

    def event_of(_: object) -> Any:
        return event

    worker = Worker(ScriptedModel(["Hi."]), operators=[ops.map(event_of)])
    with pytest.raises(ConfigurationError, match=error):
        await worker.run("Hi")


async def test_hooks_and_stages_know_the_labels_of_their_run(log: MemoryLog) -> None:
    seen: list[object] = []

    @on_message_send
    def note(context: Any) -> None:
        seen.append(dict(context.labels))
        context.labels["tenant"] = "changed"

    def noting(turn: Turn) -> Observable[Any]:
        seen.append(dict(turn.labels))
        cast("Any", turn.labels)["tenant"] = "changed"
        return decide(turn)

    def make(tenant: str) -> Worker:
        labels = {"tenant": tenant}
        return Worker(ScriptedModel(["Hi."]), hooks=[note], stages={"decide": noting}, labels=labels, log=log)

    run = make("acme").run("Hi")
    await run
    start = (await anext(aiter(run))).event
    assert isinstance(start, RunStart)
    assert start.labels == {"tenant": "acme"}
    fork = await fork_run(log, run.id, 2, labels={"tenant": "beta"})
    await make("gamma").recover(fork)
    assert seen == [{"tenant": "acme"}] * 2 + [{"tenant": "beta"}] * 2


async def test_hooks_and_stages_know_the_conversation_of_their_run() -> None:
    seen: list[str] = []

    @tool(requires_approval=True)
    def read() -> str:
        return "a"

    def noting(turn: Turn) -> Observable[Any]:
        seen.append(turn.conversation_id)
        return decide(turn)

    @on_message_send
    def note(context: Any) -> None:
        assert context.labels == {}  # in each run of the conversation
        seen.append(context.conversation_id)

    worker = Worker(ScriptedModel([call("read"), *["Hi."] * 4]), tools=[read], hooks=[note], stages={"decide": noting})
    paused = await pause_of(worker.run("Hi"))
    await worker.resume(paused, decisions={paused.pending[0].id: Approve()})
    run = worker.run("Go on")
    await run
    assert (len(seen), set(seen)) == (6, {f"conversation-{paused.run_id.removeprefix('run-')}"})
    if worker.log is not None:
        assert {conversation_id(each) for each in await worker.log.list()} == set(seen)
    await Worker(ScriptedModel(["Hi."]), hooks=[note], labels={"conversation": "c-1"}).run("Hi")
    assert seen[6:] == ["c-1"]


async def test_an_event_after_the_end_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[Any] = []
    run = Worker(ScriptedModel(["Hi."]), hooks=[on_message_send(kept.append)]).run("Hi")
    await run
    last = [record async for record in run][-1]
    kept[0].emit(Score(1.0))
    assert [record async for record in run][-1] == last
    assert "acme.score was emitted after its run had ended" in caplog.text


@pytest.mark.parametrize("event", ["done", Score, Ping(), None])
async def test_what_is_not_an_event_of_the_application_is_refused_where_it_is_emitted(event: Any) -> None:
    said = "context.emit takes an event of the application"

    @on_message_send
    def emit(context: Any) -> None:
        with pytest.raises(ConfigurationError, match=said):
            context.emit(event)

    @tool
    def emit_it(context: ToolContext) -> str:
        """Emit it."""
        with pytest.raises(ConfigurationError, match=said):
            context.emit(event)
        return "refused"

    log = MemoryLog()
    worker = Worker(ScriptedModel([call("emit_it"), "Hi."]), tools=[emit_it], hooks=[emit], log=log)
    result = await worker.run("Hi")
    assert result.conversation.messages[2].tool_results[0].text == "refused"
    assert result.text == "Hi."
