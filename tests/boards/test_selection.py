"""A selection narrows the records before the operators: live, folded again, over a log, and on a server."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler

from rxworker import Worker, tool
from rxworker.boards import Dashboard, Selection, fold_log, log_records, panel, read_selection
from rxworker.boards.selection import Selecting
from rxworker.errors import ConfigurationError, RxWorkerError
from rxworker.events import (
    Annotation,
    AttemptStart,
    Ping,
    Record,
    RunAbort,
    RunPause,
    RunRequeue,
    RunResume,
    RunStart,
    RunStop,
    TextDelta,
    ToolStart,
    ToolStop,
    TurnStart,
)
from rxworker.events.pause import NO_PAUSE
from rxworker.log import EventLog, MemoryLog, export_run, import_run
from rxworker.log.values import END_WORDS
from rxworker.messages import Conversation, Message, ToolCall
from rxworker.operators.kernel import Source
from rxworker.panels import RUNS, USAGE, by_time, count, label_of, run_of, tokens
from rxworker.testing import ScriptedModel, call, fail, say
from tests.boards.test_boards import play


def start(text: str = "Hello", worker: str = "", **labels: str) -> RunStart:
    return RunStart(Conversation((Message.user(text),)), 1, labels=labels, worker=worker)


def of(run: str, *events: Any) -> list[Record]:
    return [Record(seq, run, 1, 1, float(seq), event) for seq, event in enumerate(events, 1)]


def let_in(selection: Selection, records: Sequence[Record]) -> list[tuple[str, int]]:
    selecting = Selecting(selection)
    return [(each.run_id, each.seq) for record in records for each in selecting.feed(record)]


def look(name: str, identifier: str) -> tuple[ToolStart, ToolStop]:
    return ToolStart(ToolCall(identifier, name, {})), ToolStop(call_id=identifier, result=None, tool=name)


RATED = Annotation("rating", 2).custom
ASKED, OTHER = AttemptStart("p", "m"), AttemptStart("p", "other")
PING, TEXT = Ping(), TextDelta(0, "a")

CASES: dict[str, tuple[Selection, list[Any], list[int]]] = {
    "a label": (Selection(labels={"tenant": "acme"}), [start(tenant="acme"), PING, RunStop()], [1, 2, 3]),
    "another label": (Selection(labels={"tenant": "acme"}), [start(tenant="other"), PING, RunStop()], []),
    "of two labels one": (Selection(labels={"a": "1", "b": "2"}), [start(a="1"), PING], []),
    "no first record": (Selection(labels={"tenant": "acme"}), [PING, RunStop()], []),
    "a worker": (Selection(worker="desk"), [start(worker="desk"), PING], [1, 2]),
    "another worker": (Selection(worker="desk"), [start(worker="other"), PING], []),
    "a run that resumes": (Selection(worker="desk"), [RunResume(Conversation(), worker="desk"), PING], [1, 2]),
    "words": (Selection(text="KYOTO rain"), [start("Rain in Kyoto?"), PING], [1, 2]),
    "not all words": (Selection(text="kyoto snow"), [start("Rain in Kyoto?"), PING], []),
    "a model": (Selection(model="m"), [start(), TurnStart(), ASKED, TEXT, RunStop()], [1, 2, 3, 4, 5]),
    "another model": (Selection(model="m"), [start(), OTHER, TEXT, RunStop()], []),
    "two models": (
        Selection(model="m"),
        [start(), OTHER, TEXT, TurnStart(), ASKED, TEXT, OTHER, TEXT, RunStop()],
        [1, 4, 5, 6, 9],
    ),
    "a tool": (Selection(tool="look"), [start(), TEXT, *look("look", "1"), RunStop()], [1, 2, 3, 4, 5]),
    "two tools": (Selection(tool="look"), [start(), *look("hear", "1"), *look("look", "2"), TEXT], [1, 4, 5, 6]),
    "another tool": (Selection(tool="look"), [start(), *look("hear", "1"), RunStop()], []),
    "finished": (Selection(status="finished"), [start(), TEXT, RunStop()], [1, 2, 3]),
    "running": (Selection(status="finished"), [start(), TEXT], []),
    "failed, and not finished": (Selection(status="finished"), [start(), RunAbort("error", "x")], []),
    "failed": (Selection(status="failed"), [start(), RunAbort("error", "x")], [1, 2]),
    "cancelled": (Selection(status="cancelled"), [start(), RunAbort("cancel", "x")], [1, 2]),
    "paused": (Selection(status="paused"), [start(), RunPause(NO_PAUSE)], [1, 2]),
    "put back": (
        Selection(status="finished"),
        [start(), RunAbort("error", "x"), RunRequeue(), TEXT, RunStop()],
        [3, 4, 5],
    ),
    "annotations": (Selection(status="failed"), [start(), RunAbort("error", "x"), RATED, RATED], [1, 2, 3, 4]),
    "annotations, put back": (
        Selection(status="failed"),
        [start(), RunAbort("error", "x"), RATED, RunRequeue(), RATED, RunStop(), RATED],
        [1, 2, 3],
    ),
    "annotations of others": (Selection(status="failed"), [start(), RunStop(), RATED], []),
    "a model and a status": (Selection(model="m", status="finished"), [start(), ASKED, TEXT, RunStop()], [1, 2, 3, 4]),
    "another model and a status": (Selection(model="m", status="finished"), [start(), OTHER, RunStop()], []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_let_in(name: str) -> None:
    selection, events, expected = CASES[name]
    assert [seq for _, seq in let_in(selection, of("run", *events))] == expected


def test_every_status_of_an_end_can_be_selected() -> None:
    for cause, word in END_WORDS.items():
        records = of("run", start(), RunAbort(cast("Any", cause), ""))
        assert let_in(read_selection([("status", word)]), records) == [("run", 1), ("run", 2)]


def test_of_records_that_are_held_too_many_are_of_the_oldest_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.boards.selection.MAX_HELD", 4)
    old, new = of("old", start(), TEXT, TEXT, RunStop()), of("new", start(), TEXT, RunStop())
    records = [*old[:3], *new[:2], old[3], new[2]]
    assert let_in(Selection(status="finished"), records) == [("new", 1), ("new", 2), ("new", 3)]


@pytest.mark.parametrize(
    ("filters", "error"),
    [
        ([("tenants", "acme")], "there is no filter 'tenants'.*did you mean 'tenant'"),
        ([("tenant", "")], "has no value: give tenant=NAME"),
        ([("label", "customer")], "give label=NAME=VALUE"),
        ([("tenant", "a"), ("label", "tenant=b")], "tenant is given twice"),
        ([("model", "a"), ("model", "b")], "model is given twice"),
        ([("status", "fail")], "status='fail': give one of finished.*did you mean 'failed'"),
    ],
)
def test_filters_that_are_refused(filters: list[tuple[str, str]], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        read_selection(filters)


def test_selections_that_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"since": 5.0, "until": 5.0}, "until=5.0 is not after since=5.0"),
        ({"since": float("nan")}, "since"),
        ({"since": float("inf")}, "since=inf: leave it out"),
        ({"until": float("inf")}, "until=inf: leave it out"),
        ({"labels": "acme"}, "labels"),
        ({"model": None}, "model"),
        ({"labels": {}, "tenant": "a"}, "no setting 'tenant'"),
    ]
    for given, error in wrong:
        with pytest.raises(ConfigurationError, match=error):
            Selection(**given)


# Against a count by hand, at any moment: live, folded again, and over a log.


@tool
def search(what: str) -> str:
    """Search."""
    return what


@tool
def listen() -> str:
    """Listen."""
    return "rain"


async def record_some(log: EventLog | None = None) -> list[Record]:
    """The records of runs of two tenants, two models and two workers; one fails, one is paused."""
    scripts: list[Any] = [
        ("acme", "small", "desk", [call("search", what="x"), say("Found.")]),
        ("acme", "large", "phone", [call("listen"), say("Rain.")]),
        ("beta", "small", "desk", [fail("the service is down", retryable=False)]),
        ("beta", "large", "desk", [call("search", what="y") + call("listen"), say("Both.")]),
        ("", "small", "", [say("Nothing.")]),
    ]
    records: list[Record] = []
    for tenant, model, name, script in scripts:
        labels = {"tenant": tenant} if tenant else {}
        worker = Worker(ScriptedModel(script, model=model), tools=[search, listen], name=name, labels=labels, log=log)
        run = worker.run(f"Where is {tenant or 'it'}?")
        try:
            async for record in run:
                records.append(record)
        except RxWorkerError:
            pass
        while time.time() <= records[-1].time:
            pass  # no run begins in the millisecond in which another one ends: their order is known
    return records


BOARD = Dashboard(
    [
        *USAGE.panels[:2],
        *USAGE.panels[10:],
        *[replace(each, name=f"runs-{each.name}") for each in RUNS.panels],
        panel("By tenant", count(ToolStart), view="bar", group=label_of("tenant", "none")),
        panel("By run", tokens, view="bar", group=run_of),
    ]
)

By = Callable[[list[Record]], bool]


def started(records: list[Record]) -> RunStart:
    assert isinstance(records[0].event, RunStart)
    return records[0].event


def models(records: list[Record]) -> set[str]:
    return {each.event.model for each in records if isinstance(each.event, AttemptStart)}


def ends(records: list[Record], kind: type[object]) -> bool:
    return isinstance(records[-1].event, kind)


# Each of these runs has one model.
BY_HAND: list[tuple[Selection, By]] = [
    (Selection(), lambda run: True),
    (Selection(labels={"tenant": "acme"}), lambda run: started(run).labels.get("tenant") == "acme"),
    (Selection(worker="desk"), lambda run: started(run).worker == "desk"),
    (Selection(model="large"), lambda run: "large" in models(run)),
    (Selection(status="failed"), lambda run: ends(run, RunAbort)),
    (Selection(status="finished"), lambda run: ends(run, RunStop)),
    (Selection(text="BETA"), lambda run: "beta" in started(run).conversation.messages[-1].text),
    (Selection(model="small", status="finished"), lambda run: "small" in models(run) and ends(run, RunStop)),
]


def by_hand(records: list[Record], selection: Selection, is_in: By) -> list[Record]:
    runs: dict[str, list[Record]] = {}
    for record in records:
        runs.setdefault(record.run_id, []).append(record)
    since, until = selection.since or 0.0, selection.until or float("inf")
    return [each for run in runs.values() if is_in(run) for each in run if since <= each.time < until]


async def test_a_board_shows_what_a_count_by_hand_shows() -> None:
    records = [replace(each, time=1000.0 + at) for at, each in enumerate(await record_some())]
    for selection, is_in in BY_HAND:
        shown = replace(BOARD, selection=selection)
        assert values(shown.at(records)) == values(BOARD.at(by_hand(records, selection, is_in))), selection


async def test_a_range_leaves_out_what_is_before_and_after_it_and_knows_the_labels() -> None:
    records = [replace(each, time=1000.0 + at) for at, each in enumerate(await record_some())]
    chance = random.Random(1)
    for _ in range(20):
        since, until = sorted(chance.sample(range(1000, 1000 + len(records) + 2), 2))
        selection = Selection(since=float(since), until=float(until))
        kept = by_hand(records, selection, lambda run: True)
        found = replace(BOARD, selection=selection).at(records)
        calls = [each for each in kept if isinstance(each.event, ToolStart)]
        expected: dict[str, int] = {}
        labels = {each.run_id: each.event.labels for each in records if isinstance(each.event, RunStart)}
        for each in calls:
            tenant = labels[each.run_id].get("tenant", "none")
            expected[tenant] = expected.get(tenant, 0) + 1
        by_name = {state.panel: state.value for state in found}
        assert (by_name["by-tenant"] or {}) == expected
        assert by_name["tokens"] == {each.panel: each.value for each in BOARD.at(kept)}["tokens"]


async def test_a_board_shows_live_what_it_shows_when_the_records_are_folded_again() -> None:
    records = [replace(each, time=1000.0 + at / 4) for at, each in enumerate(await record_some())]
    chance = random.Random(2)
    for selection, _ in BY_HAND:
        shown = replace(BOARD, selection=replace(selection, since=1002.0, until=1011.0))
        clock = HistoricalScheduler(HistoricalScheduler().to_datetime(999.0))
        board = shown.show(play(records, clock), scheduler=clock)
        for moment in sorted(chance.uniform(1000.0, 1020.0) for _ in range(12)):
            clock.advance_to(clock.to_datetime(moment))
            assert board.states == shown.at(records, clock.to_seconds(clock.now))


async def test_a_log_is_read_only_where_it_may_have_what_is_selected(log: MemoryLog) -> None:
    records = await record_some(log)
    read: list[str] = []
    original = log.read

    def noted(run_id: str, **more: Any) -> Any:
        read.append(run_id)
        return original(run_id, **more)

    log.read = noted  # pyright: ignore[reportAttributeAccessIssue]
    for selection, is_in in BY_HAND:
        read.clear()
        found = await fold_log(replace(BOARD, selection=selection), log)
        expected = by_hand(records, selection, is_in)
        assert values(found) == values(BOARD.at(expected)), selection
        if selection.labels or selection.worker or selection.status:
            assert len(set(read)) < 5
    read.clear()
    assert await fold_log(replace(BOARD, selection=Selection(since=records[-1].time + 60)), log)
    assert read == []


async def test_a_run_of_before_the_range_is_shown_with_what_it_does_in_it(log: MemoryLog) -> None:
    worker = Worker(ScriptedModel([call("search", what="x"), say("Found.")]), tools=[search], log=log)
    run = worker.run("?")
    first = await anext(aiter(run))
    shown = Dashboard([panel("Calls", count(ToolStart))], selection=Selection(since=first.time + 1e-9))
    board = shown.show(log_records(log))
    await run
    board.dispose()
    [state] = await fold_log(shown, log)
    assert state.value == 1


def test_a_day_has_all_of_its_hours() -> None:
    day = 20_000 * 86_400.0
    records = [Record(1, f"run-{n}", 1, 1, day + 3600.0 * n, start()) for n in range(48)]

    def by_hour(records: Observable[Record]) -> Observable[dict[str, float]]:
        return records.pipe(ops.map(lambda _: 1.0), by_time(3600, 24))

    selected = Selection(since=day, until=day + 86_400)
    [state] = Dashboard([panel("By hour", by_hour, view="bar")], selection=selected).at(records, day + 86_400)
    assert isinstance(state.value, dict)
    assert list(state.value.values()) == [1.0] * 24


async def test_a_run_that_is_stored_later_than_it_began_is_in_the_time_in_which_it_began(log: MemoryLog) -> None:
    run = Worker(ScriptedModel(["Hello."]), log=log).run("?")
    await run
    info, began = await log.existing(run.id), (await anext(aiter(run))).time
    for delay, is_in in [(0.5, True), (100.0, False)]:
        assert Selection(until=began + 0.1).may_have(replace(info, created=began + delay)) is is_in


async def test_an_imported_run_is_in_the_time_of_its_records() -> None:
    async with MemoryLog() as log, MemoryLog() as other:
        run = Worker(ScriptedModel(["Hello."]), log=log).run("?")
        await run
        await import_run(other, _an_hour_ago([line async for line in export_run(log, run.id)]))
        info = await other.existing(run.id)
        assert 3599 < info.created - info.ended <= info.created - info.began < 3700
        board = Dashboard([panel("Runs", count(RunStop))])
        for selection, runs in [
            (Selection(until=info.created - 1800), 1),
            (Selection(since=info.created - 1800), None),
        ]:
            assert (await fold_log(replace(board, selection=selection), other))[0].value == runs


async def test_an_imported_run_of_before_a_time_is_not_taken_for_one_that_begins_now() -> None:
    async with MemoryLog() as log, MemoryLog() as other:
        worker = Worker(ScriptedModel(["Hello."] * 3), log=log)
        run = worker.run("?")
        await run
        old = _an_hour_ago([line async for line in export_run(log, run.id)])
        await import_run(other, old)
        since = (await other.existing(run.id)).created - 1800
        stops = log_records(other, since=since).pipe(ops.filter(lambda record: isinstance(record.event, RunStop)))
        seen: list[str] = []
        more = asyncio.Event()
        later: list[str] = []

        def note(record: Record) -> None:
            seen.append(record.run_id)
            more.set()

        with stops.subscribe(note):
            for text in ("??", "???"):
                run = worker.run(text)
                await run
                later.append(run.id)
                await import_run(other, [line async for line in export_run(log, run.id)])
                async with asyncio.timeout(30):
                    while run.id not in seen:
                        more.clear()
                        await more.wait()
        assert seen == later


def _an_hour_ago(lines: list[bytes]) -> list[bytes]:
    head, *entries = [json.loads(line) for line in lines]
    return [json.dumps(each).encode() for each in (head, *[{**each, "time": each["time"] - 3600} for each in entries])]


def values(states: Sequence[Any]) -> dict[str, Any]:
    return {each.panel: (each.value, each.error) for each in states}


def test_a_source_that_is_pushed_by_hand_is_narrowed_too() -> None:
    source = Source[Record]()
    shown = Dashboard([panel("Runs", count(RunStop))], selection=Selection(labels={"tenant": "acme"}))
    board = shown.show(source, scheduler=HistoricalScheduler())
    for each in [*of("a", start(tenant="acme"), RunStop()), *of("b", start(), RunStop())]:
        source.on_next(each)
    assert board.states[0].value == 1
