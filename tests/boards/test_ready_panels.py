"""The ready dashboards: what they show of real runs, live and folded again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from itertools import chain
from statistics import median
from typing import Any

import pytest
import reactivex
from msgspec.structs import replace
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler

from rxworker import Worker, tool
from rxworker.boards import Dashboard, PanelState, panel
from rxworker.errors import ConfigurationError, RxWorkerError
from rxworker.events import (
    AttemptStart,
    BlockStart,
    Event,
    Fork,
    HandOver,
    Record,
    RunAbort,
    RunPause,
    RunRecover,
    RunRequeue,
    RunResume,
    RunStart,
    RunStop,
    TextDelta,
    ThinkingDelta,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)
from rxworker.events.pause import NO_PAUSE
from rxworker.messages import Conversation, Prices, ToolCall, ToolResult
from rxworker.messages.usage import Usage
from rxworker.operators import percentile
from rxworker.operators.kernel import Source
from rxworker.panels import (
    CACHE,
    CAPACITY,
    FLEET,
    LATENCY,
    PERIODS,
    QUALITY,
    RUNS,
    TOOLS,
    USAGE,
    by_time,
    costs,
    fleet,
    high,
    in_flight,
    runs,
    tool_seconds,
    usage,
)
from rxworker.testing import ScriptedModel, call, fail, say, think
from tests.boards.test_boards import play
from tests.whole import IS_WHOLE

PRICES = {"small": Prices(input=1.0, output=2.0)}


@tool
def look(where: str) -> str:
    """Look."""
    if where == "there":
        raise OSError("too dark")
    return "nothing"


@tool
def listen() -> str:
    """Listen."""
    return "rain"


async def recorded() -> list[Record]:
    """The records of four runs: one with two tools, one whose tool fails, one that aborts, one of another model."""
    scripts = [
        [think("Let me see.") + call("look", where="here") + call("listen"), say("Nothing.")],
        [call("look", where="there"), say("I cannot see.")],
        [fail("the service is down", retryable=False)],
        [say("An old silent pond. A frog jumps into the pond.", usage=Usage(100, 50))],
    ]
    records: list[Record] = []
    for script, model in zip(scripts, ("small", "small", "small", "other"), strict=True):
        run = Worker(ScriptedModel(script, model=model), tools=[look, listen]).run("?")
        try:
            async for record in run:
                records.append(record)
        except RxWorkerError:
            pass  # its last record has the reason
    return records


RECORDS = asyncio.run(recorded())


FEW = (costs(PRICES), QUALITY, TOOLS, LATENCY, CAPACITY, CACHE)
READY = (USAGE, RUNS, *map(fleet, PERIODS), *FEW)


def letters_of(record: Record) -> int:
    event = record.event
    return len(event.text) if isinstance(event, TextDelta | ThinkingDelta) else 0


def shown(dashboard: Dashboard, records: list[Record]) -> dict[str, PanelState]:
    states = dashboard.at(records)
    assert [state.error for state in states if state.error] == []
    return {state.panel: state for state in states}


def numbers_of(state: PanelState) -> dict[str, float]:
    assert isinstance(state.value, Mapping)
    return {name: float(value or 0) for name, value in state.value.items()}


def test_usage_shows_what_the_runs_have_taken() -> None:
    states = shown(usage(PRICES), RECORDS)
    assert states["calls-by-tool"].value == {"look": 2, "listen": 1}
    assert states["failures-by-tool"].value == {"look": 1}
    slow = states["slow-tools"].value
    assert isinstance(slow, Mapping)
    assert slow.keys() == {"look", "listen"}
    by_model = states["cost-by-model"].value
    assert isinstance(by_model, Mapping)
    assert by_model["other"] is None
    assert states["cost-by-model"].missing == {"": ("other",)}
    assert isinstance(by_model["small"], float)
    assert states["cost"].value == by_model["small"] > 0
    assert states["cost"].missing == {"": ("other",)}
    by_model = states["tokens-by-model"].value
    assert isinstance(by_model, Mapping)
    assert by_model.keys() == {"small", "other"}
    assert by_model["other"] == 150
    seconds = states["seconds-by-tool"].value
    assert isinstance(seconds, Mapping)
    assert seconds.keys() == {"look", "listen"}
    assert seconds["listen"] == slow["listen"] != 0
    for name in ("time-to-first-token", "time-of-tools", "time-of-runs"):
        times = numbers_of(states[name])
        assert times["95 %"] >= times["median"] > 0
    assert states["runs"].value == {"finished": 3, "failed": 1}
    assert states["requests-by-model"].value == {"small": 5, "other": 1}
    kinds = numbers_of(states["tokens-by-kind"])
    assert kinds["read"] + kinds["written"] == states["tokens"].value
    assert states["text"].value == sum(map(letters_of, RECORDS)) / 4 > 0
    assert max(point[1] for point in states["tokens-a-second"].points[""]) > 0


def test_the_tokens_are_those_of_the_records() -> None:
    total = sum(record.event.total_tokens for record in RECORDS if isinstance(record.event, Usage))
    assert shown(USAGE, RECORDS)["tokens"].value == total > 150
    assert shown(RUNS, RECORDS)["tokens"].value == total


def test_the_fleet_shows_what_the_runs_took_in_each_step() -> None:
    states = shown(fleet("day", PRICES), RECORDS)
    sums = {name: sum(numbers_of(state).values()) for name, state in states.items() if isinstance(state.value, Mapping)}
    known = shown(usage(PRICES), RECORDS)
    assert (sums["ended-runs"], sums["failed-runs"]) == (4, 1)
    kinds = numbers_of(known["tokens-by-kind"])
    assert (sums["tokens-read"], sums["tokens-written"]) == (kinds["read"], kinds["written"])
    assert sums["cost"] == pytest.approx(known["cost"].value)
    assert (sums["tools"], sums["failed-tools"]) == (3, 1)
    assert "recoveries" not in sums


def test_sums_are_those_of_their_steps_and_old_steps_are_dropped() -> None:
    values: Source[float] = Source()
    seen: list[dict[str, float]] = []
    clock = HistoricalScheduler()
    by_time(60, 2)(values).subscribe(seen.append, scheduler=clock)
    for time, value in ((0, 1.0), (59, 2.0), (60, 4.0), (119.9, 8.0), (121, 16.0)):
        clock.advance_to(clock.to_datetime(float(time)))
        values.on_next(value)
    names = [f"1970-01-01T00:0{minute}Z/PT1M" for minute in range(3)]
    assert seen[1] == {names[0]: 3.0}
    assert seen[3] == {names[0]: 3.0, names[1]: 12.0}
    assert seen[-2:] == [{names[1]: 12.0}, {names[1]: 12.0, names[2]: 16.0}]
    clock.advance_to(clock.to_datetime(1000.0))
    assert seen[-1] == {}


def test_a_fork_and_a_run_that_was_queued_are_not_recovered() -> None:
    events: list[tuple[str, Event]] = [
        ("a", START), ("a", TAKEN), ("a", TurnStart()), ("a", RunRecover(3, "third")),
        ("b", Fork("a", 3)), ("b", TAKEN), ("b", RunStop()),
    ]  # fmt: skip
    records = [Record(n, run, 1, 1, 2.0 * n, event) for n, (run, event) in enumerate(events, 1)]
    states = shown(FLEET, records)
    assert [*numbers_of(states["recoveries"]).values()] == [1]
    assert states["in-the-queue-95"].value == 2.0


def medians(values: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: median(each) for name, each in values.items() if each}


def median_of(state: PanelState) -> dict[str, float]:
    assert isinstance(state.value, Mapping)
    found = {name.removesuffix("median").removesuffix(": "): each for name, each in numbers_of(state).items()}
    return {name: each for name, each in found.items() if not name.endswith("95 %")}


def test_the_times_of_latency_are_those_between_records() -> None:
    states = shown(LATENCY, RECORDS)
    hours: Any = states["turns-by-hour-and-seconds"].value
    stops = sum(isinstance(record.event, TurnStop) for record in RECORDS)
    assert sum(n for row in hours for name, n in row.items() if name != "hour") == stops > 0
    turns: dict[str, list[float]] = {"": []}
    first: dict[str, list[float]] = {}
    sent: dict[str, tuple[str, float]] = {}
    begun: dict[str, float] = {}
    for record in RECORDS:
        event, run = record.event, record.run_id
        if isinstance(event, TurnStart):
            begun[run] = record.time
        elif isinstance(event, TurnStop):
            turns[""].append(record.time - begun.pop(run))
        elif isinstance(event, AttemptStart):
            sent[run] = event.model, record.time
        elif isinstance(event, BlockStart) and run in sent:
            model, at = sent.pop(run)
            first.setdefault(model, []).append(record.time - at)
    assert median_of(states["time-of-turns"]) == pytest.approx(medians(turns))
    assert median_of(states["first-token-by-model"]) == pytest.approx(medians(first))
    assert median_of(states["time-to-first-token"]) == pytest.approx(medians({"": [*chain(*first.values())]}))
    assert states["turns-95-last-hour"].value == pytest.approx(percentile(turns[""], 95))


def test_the_steps_of_a_day_are_those_of_each_tenant() -> None:
    records = [
        Record(3 * n + part, f"run-{n}", 1, 1, 86400.0 * (n % 3) + n, event)
        for n in range(12)
        for part, event in enumerate(
            [
                RunStart(Conversation(), labels={"tenant": "acme"} if n % 2 else {}),
                AttemptStart("x", "small"),
                Usage(n, 0),
            ]
        )
    ]
    days = [f"1970-01-0{day}T00:00Z/PT24H" for day in (1, 2, 3)]
    expected = {
        f"{tenant}: {days[day]}": sum(n for n in range(12) if n % 2 == odd and n % 3 == day) / 1e6
        for tenant, odd in (("none", 0), ("acme", 1))
        for day in range(3)
    }
    assert numbers_of(shown(costs(PRICES), records)["cost-by-tenant-and-day"]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("events", "counts"),
    [
        ([("a", RunStart(Conversation()))], {"running": 0, "queued": 1}),
        ([("a", RunStart(Conversation())), ("a", TurnStart())], {"running": 1, "queued": 0}),
        (
            [("a", RunStart(Conversation())), ("b", RunStart(Conversation())), ("a", TurnStart())],
            {"running": 1, "queued": 1},
        ),
        ([("a", RunStart(Conversation())), ("a", TurnStart()), ("a", RunStop())], {"running": 0, "queued": 0}),
        ([("a", RunStart(Conversation())), ("a", RunAbort("cancel", "?"))], {"running": 0, "queued": 0}),
        ([("a", RunRecover(2, "other"))], {"running": 1, "queued": 0}),
        (
            [("a", RunRecover(2, "other")), ("a", RunAbort("error", "?")), ("a", RunRequeue())],
            {"running": 0, "queued": 1},
        ),
        # Put into the queue, and handed over by a process that stops.
        ([("a", RunStart(Conversation())), ("a", HandOver("?"))], {"running": 0, "queued": 1}),
        ([("a", RunStart(Conversation())), ("a", TurnStart()), ("a", HandOver("?"))], {"running": 0, "queued": 1}),
        (
            [("a", RunStart(Conversation())), ("a", HandOver("?")), ("a", RunRecover(2, "other"))],
            {"running": 1, "queued": 0},
        ),
    ],
)
def test_a_run_is_queued_until_a_process_takes_it(events: list[tuple[str, Event]], counts: dict[str, int]) -> None:
    records = [Record(n, run, 1, 1, float(n), event) for n, (run, event) in enumerate(events, 1)]
    states = shown(CAPACITY, records)
    assert states["running-and-queued"].value == counts
    assert states["running"].value == counts["running"]


def test_a_run_in_the_queue_is_not_shown_as_running() -> None:
    events: list[Event] = [START, HandOver("?"), TAKEN]
    records = [Record(n, "a", 1, 1, float(n), event) for n, event in enumerate(events, 1)]
    assert [shown(RUNS, records[:n])["running"].value for n in (1, 2, 3)] == [1, 0, 1]


def test_what_is_queued_and_running_is_that_of_each_worker() -> None:
    events: list[tuple[str, Event]] = [
        ("a", RunStart(Conversation(), worker="clerk")), ("b", RunStart(Conversation(), worker="desk")),
        ("a", TAKEN), ("c", RunStart(Conversation())), ("b", TAKEN), ("b", RunStop()),
    ]  # fmt: skip
    states = shown(CAPACITY, [Record(n, run, 1, 1, float(n), event) for n, (run, event) in enumerate(events, 1)])
    counts = {name: each for name, each in numbers_of(states["running-and-queued-by-worker"]).items() if each}
    assert counts == {"clerk: running": 1, "none: queued": 1}
    assert median_of(states["time-in-the-queue"]) == {"": 2.5}


def test_a_period_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="give one of hour, day, week"):
        fleet("year")


START, RESUME = RunStart(Conversation()), RunResume(Conversation(), resumes="a")
FAILURE, TAKEN, PAUSE = RunAbort("error", "?"), RunRecover(2, "other"), RunPause(NO_PAUSE)
ENDS: list[tuple[list[tuple[str, Event]], dict[str, int]]] = [
    ([("a", START), ("b", START), ("b", PAUSE)], {"running": 1, "paused": 1}),
    # The run that resumes another stands for it.
    ([("a", START), ("a", PAUSE), ("a~2", RESUME), ("a~2", RunStop())], {"finished": 1}),
    ([("a", START), ("a", FAILURE)], {"failed": 1}),
    ([("a", START), ("a", RunAbort("cancel", "?"))], {"cancelled": 1}),
    ([("a", START), ("a", RunAbort("limit", "?"))], {"stopped": 1}),
    ([("a", START), ("a", RunAbort("abort", "?"))], {"aborted": 1}),
    # A run that is put back has not failed any more, and is recovered by the process that takes it.
    ([("a", START), ("a", FAILURE), ("a", RunRequeue())], {"queued": 1}),
    ([("a", START), ("a", FAILURE), ("a", RunRequeue()), ("a", TAKEN), ("a", RunStop())], {"finished": 1}),
    ([("a", Fork("b", 3)), ("a", TAKEN)], {"running": 1}),
    ([("a", START), ("a", HandOver("?"))], {"queued": 1}),
    ([("a", START), ("a", HandOver("?")), ("a", TAKEN)], {"running": 1}),
]


@pytest.mark.parametrize(("events", "counts"), ENDS)
def test_each_run_is_counted_once_by_its_last_status(events: list[tuple[str, Event]], counts: dict[str, int]) -> None:
    records = [Record(n, run, 1, 1, float(n), event) for n, (run, event) in enumerate(events, 1)]
    assert shown(USAGE, records)["runs"].value == counts


def test_models_beyond_100_are_counted_together() -> None:
    records = [
        Record(2 * n + part, "a", n, 1, float(n), event)
        for n in range(150)
        for part, event in enumerate([AttemptStart("x", f"m{n}"), Usage(1, 1)])
    ]
    by_model = shown(USAGE, records)["tokens-by-model"].value
    assert isinstance(by_model, Mapping)
    assert (len(by_model), by_model["m99"], by_model["others"]) == (101, 2, 100)


def test_runs_shows_a_line_for_each_run() -> None:
    states = shown(runs(PRICES), RECORDS)
    rows = states["runs"].value
    assert isinstance(rows, list)
    assert [(row["status"], row["turns"], row["tools"]) for row in rows] == [
        ("finished", 2, 2), ("finished", 2, 1), ("failed", 1, 0), ("finished", 1, 0),
    ]  # fmt: skip
    assert [row["run"] for row in rows] == list(dict.fromkeys(r.run_id for r in RECORDS))
    assert rows[3]["tokens"] == 150
    assert [row["title"] for row in rows] == ["?"] * 4
    assert states["running"].value == 0
    assert [value for _, value in states["running"].points[""]][-1] == 0


def test_every_ready_panel_shows_at_many_moments_live_what_it_shows_when_folded_again() -> None:
    for seed in range(4 if IS_WHOLE else 1):
        chance = random.Random(seed)
        time, records = 1000.0, list[Record]()
        for record in RECORDS:
            time += chance.choice([0.001, 0.02, 0.4, 1.7, 30.0])
            records.append(replace(record, time=time))
        clock = HistoricalScheduler(HistoricalScheduler().to_datetime(999.0))
        boards = [d.show(play(records, clock), scheduler=clock) for d in READY]
        for moment in sorted(chance.uniform(999.5, time + 90) for _ in range(50)):
            clock.advance_to(clock.to_datetime(moment))
            now = clock.to_seconds(clock.now)
            for board in boards:
                assert board.states == board.dashboard.at(records, now)


def test_a_board_that_comes_late_shows_runs_that_ran_at_the_same_time_as_they_ran() -> None:
    """The records of a run that is over come at once, and run after run."""

    async def main() -> None:
        most = panel("Most", lambda records: records.pipe(in_flight, ops.scan(max, 0)))
        board = Dashboard([most, panel("Running", in_flight, view="line")])
        started = [Worker(ScriptedModel([say("One two.")])).run("?") for _ in range(3)]
        for run in started:
            await run
        assert board.show(started).states[0].value == 3
        copies = [replace(record, time=record.time - 60) for run in started async for record in run]
        old = [reactivex.from_iterable([each for each in copies if each.run_id == run.id]) for run in started]
        late = board.show(reactivex.from_iterable(old))  # on the loop, after the board began
        assert late.states[0].value is None
        await late.changes.pipe(ops.take(1))
        assert late.states[0].value == 3
        assert late.states[1].points == board.at(copies)[1].points

    asyncio.run(main())


@pytest.mark.parametrize("ids", [("a", "b"), ("same", "same")])
def test_the_time_of_tools_is_that_of_calls_side_by_side(ids: tuple[str, str]) -> None:
    records: Source[Record] = Source()
    times: list[float] = []
    clock = HistoricalScheduler()
    tool_seconds(records).pipe(high(95)).subscribe(times.append, scheduler=clock)

    def emit(time: float, event: Event) -> None:
        records.on_next(Record(1, "r", 1, 1, time, event))

    for call_id in ids:
        emit(0.0, ToolStart(ToolCall(call_id, "look", {})))
    for call_id, seconds in zip(ids, (0.2, 1.0), strict=True):
        emit(1.0, ToolStop(ToolResult(call_id, "", name="look"), seconds))
    emit(1.0, ToolStop(ToolResult("skipped", "", is_error=True, name="look")))
    assert times == pytest.approx([0.2, 0.96])
