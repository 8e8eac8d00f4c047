"""A dashboard gives a panel only the records that it reads, and shows what it would show of all."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import reactivex
from msgspec.structs import replace
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler

from rxworker.boards import Dashboard, Panel, above, explain, panel
from rxworker.boards.dashboard import Fold, StoredFirst
from rxworker.events import AttemptStart, BlockStop, BlockType, Ping, Record, RunStart, TextDelta, ToolStart, ToolStop
from rxworker.messages import Conversation, ToolCall
from rxworker.operators import decode, events, only, rate, records_of, spans, throttle
from rxworker.operators.kernel import NOTHING, Operator, Source
from rxworker.panels import (
    CACHE,
    CAPACITY,
    COST,
    FLEET,
    LATENCY,
    QUALITY,
    RUNS,
    TOOLS,
    USAGE,
    count,
    day_of,
    hour_of,
    in_flight,
    label_of,
    model_of,
    run_of,
    speed,
    status,
    tokens,
    tool_of,
    waits,
    worker_of,
    written,
)
from tests.boards.test_ready_panels import RECORDS
from tests.whole import IS_WHOLE

BOARDS = (USAGE, RUNS, FLEET, COST, QUALITY, TOOLS, LATENCY, CAPACITY, CACHE)
READY = [each for board in BOARDS for each in board.panels]
GROUPED = [
    panel(f"{name} by {kind}", pipeline, view="line", group=group, alert=above(2.0, lasting=0.5))
    for name, pipeline in [("Starts", count(RunStart)), ("Tokens", tokens), ("Texts", written), ("Waits", waits)]
    for kind, group in [
        *[("label", label_of("tenant", "none")), ("model", model_of), ("run", run_of), ("tool", tool_of)],
        *[("hour", hour_of), ("day", day_of), ("worker", worker_of), ("tool and worker", (tool_of, worker_of))],
        *[("label and hour", (label_of("tenant", "none"), hour_of)), ("model and run", (model_of, run_of))],
    ]
]


def one(_: object) -> float:
    return 1.0


def seq_of(record: Record) -> int:
    return record.seq


def nothing(_: Record) -> None:
    return None


def run_id_of(record: Record) -> str:
    return record.run_id


def ends_a_second(records: Observable[Record]) -> Observable[float]:
    return records.pipe(records_of(BlockStop), ops.map(one), rate(3.0))


def tools_and_texts(records: Observable[Record]) -> Observable[float]:
    return records.pipe(records_of(ToolStart, TextDelta), ops.map(one))


def texts_a_second(records: Observable[Record]) -> Observable[float]:
    return records.pipe(written, throttle(1.0), rate(2.0))


def first_tool(records: Observable[Record]) -> Observable[float]:
    return records.pipe(events(), only(ToolStart), ops.take(1), ops.map(one))


def later(records: Observable[Record]) -> Observable[float]:
    return records.pipe(events(), only(RunStart), ops.delay(0.7), ops.map(one))


def any_event(records: Observable[Record]) -> Observable[float]:
    return records.pipe(events(), ops.filter(bool), ops.map(one))


def first_ping(records: Observable[Record]) -> Observable[float]:
    return records.pipe(records_of(Ping), ops.take(1), ops.map(one))


def tools_later(records: Observable[Record]) -> Observable[float]:
    """It subscribes to the tools when a timer runs."""
    return reactivex.merge(records.pipe(count(RunStart)), records.pipe(count(ToolStart), ops.delay_subscription(2.0)))


def tools_from_zero(records: Observable[Record]) -> Observable[float]:
    return records.pipe(count(ToolStart), ops.start_with(0))


OWN = [
    panel("Tools later", tools_later),
    *[panel(f"Zero {at}", tools_from_zero, view="bar", group=group) for at, group in enumerate([run_of, hour_of])],
    panel("Zero by label", tools_from_zero, view="bar", group=(label_of("tenant", "none"), model_of)),
    panel("Status", status, view="state", group=run_of),
    panel("In flight", in_flight),
    panel("Speed", speed, view="area"),
    panel("Rate of ends", ends_a_second),
    panel("First tool", first_tool),
    panel("Later", later),
]


def of_all(given: Panel) -> Panel:
    """A panel that is given all records, since an operator of reactivex comes first."""
    pipeline = given.pipeline

    def every(records: Observable[Record]) -> Observable[Any]:
        return records.pipe(ops.filter(bool), pipeline)

    return replace(given, pipeline=every)


def timed(seed: int) -> list[Record]:
    """Records of four runs with pings between them, at random times."""
    chance, time, found = random.Random(seed), 1000.0, list[Record]()
    for record in RECORDS:
        for each in [record] if chance.random() < 0.7 else [record, replace(record, event=Ping())]:
            time += chance.choice([0.0, 0.001, 0.02, 0.4, 1.7, 30.0])
            found.append(replace(each, time=time))
    return found


@pytest.mark.parametrize("seed", range(5 if IS_WHOLE else 1))
def test_a_panel_shows_what_it_shows_of_all_records(seed: int) -> None:
    panels = [replace(each, name=f"panel-{at}") for at, each in enumerate([*READY, *GROUPED, *OWN])]
    some, every = Dashboard(panels), Dashboard([of_all(each) for each in panels])
    records, chance = timed(seed), random.Random(seed)
    for moment in [None, *(chance.uniform(1000.0, records[-1].time + 20) for _ in range(6))]:
        found, expected = Fold(some), Fold(every)
        for record in records:
            if moment is None or record.time <= moment:
                found.take(record)
                expected.take(record)
        states = [replace(each, time=0.0) for each in found.at(moment)]
        assert states == [replace(each, time=0.0) for each in expected.at(moment)]
        assert found.alerts == expected.alerts


def given_to(*panels: Panel) -> dict[str, list[str]]:
    """The kinds of the events of the records that each panel was given after the first."""
    fold, seen = Fold(Dashboard(panels)), dict[str, list[str]]()

    def noting(name: str, take: Callable[[Record], None]) -> Callable[[Record], None]:
        def noted(record: Record) -> None:
            seen.setdefault(name, []).append(type(record.event).__name__)
            take(record)

        return noted

    fold.take(record(1, Ping()))
    for name, cell in fold.cells.items():
        cell.take = noting(name, cell.take)  # pyright: ignore[reportAttributeAccessIssue]
    given = [Ping(), TextDelta(0, "a"), ToolStart(ToolCall("c", "look", {})), AttemptStart("p", "m"), Ping()]
    for seq, event in enumerate(given, 2):
        fold.take(record(seq, event))
    return seen


def record(seq: int, event: Any) -> Record:
    return Record(seq, "run", 1, 1, float(seq), event)


class Calls:
    reads = frozenset({ToolStart, ToolStop})

    def feed(self, data: Record) -> list[int]:
        return [data.seq]

    def finish(self) -> list[int]:
        return []


ALL = ["Ping", "TextDelta", "ToolStart", "AttemptStart", "Ping"]


@pytest.mark.parametrize(
    ("pipeline", "group", "given"),
    [
        (count(ToolStart), None, ["ToolStart"]),
        (tools_and_texts, None, ["TextDelta", "ToolStart"]),
        (decode(Calls), None, ["ToolStart"]),
        (texts_a_second, None, ["TextDelta"]),
        (waits, tool_of, ["ToolStart"]),
        (written, model_of, ALL[:-1]),  # until there is a model
        (written, label_of("tenant", "none"), ["TextDelta"]),
        (written, hour_of, ["TextDelta"]),
        (written, (label_of("tenant", "none"), hour_of), ["TextDelta"]),
        (waits, (tool_of, label_of("tenant", "none")), ["ToolStart"]),
        (explain(count(ToolStart)), None, ["ToolStart"]),
        # What may read anything is given all.
        (ops.map(seq_of), None, ALL),
        (spans(nothing, nothing), None, ALL),
        (any_event, None, ALL),
        (count(ToolStart), run_id_of, ALL),
        (count(ToolStart), (tool_of, run_id_of), ALL),
    ],
)
def test_a_panel_is_given_what_it_reads(pipeline: Operator[Record, Any], group: Any, given: list[str]) -> None:
    assert given_to(panel("P", pipeline, view="number", group=group)).get("p", []) == given


def test_a_panel_that_has_ended_is_given_nothing() -> None:
    assert given_to(panel("P", first_ping)) == {}


def test_a_pipeline_that_subscribes_later_is_given_more() -> None:
    def pipeline(records: Observable[Record]) -> Observable[float]:
        def texts_of(_: Record) -> Observable[float]:
            return records.pipe(written)

        return records.pipe(records_of(ToolStart), ops.flat_map(texts_of))

    fold = Fold(Dashboard([panel("P", pipeline)]))
    for seq, event in enumerate(
        [Ping(), TextDelta(0, "a" * 8), ToolStart(ToolCall("c", "look", {})), TextDelta(0, "b")], 1
    ):
        fold.take(record(seq, event))
    assert fold.at(None)[0].value == 0.25


def test_a_history_that_is_read_late_is_shown_as_when_it_is_folded_again() -> None:
    """A run that is put in order again may subscribe to more than the board has read so far."""

    def pipeline(records: Observable[Record]) -> Observable[int]:
        def tools_of(_: Record) -> Observable[int]:
            return records.pipe(count(ToolStart))

        return records.pipe(records_of(RunStart), ops.take(1), ops.flat_map(tools_of))

    shown, tool = Dashboard([panel("P", pipeline)]), ToolStart(ToolCall("c", "look", {}))
    records = [record(1, Ping()), record(2, tool), record(3, RunStart(Conversation())), record(4, tool)]
    source, clock = Source[Record](), HistoricalScheduler(HistoricalScheduler().to_datetime(100.0))
    board = shown.show(source, scheduler=clock)
    for each in records[:2]:
        source.on_next(each)
    assert board.states[0].value is None
    for each in records[2:]:
        source.on_next(each)
    assert board.states[0].value == shown.at(records)[0].value == 1


class Reading(StoredFirst):
    """Stored records that are read by hand."""

    def follow(self, observer: Any, board: Any, scheduler: Any) -> Any:
        self.push, self.progress = board.take_stored, board.note_progress
        board.note_progress(0, 1)
        return NOTHING


def test_clocks_wait_while_stored_records_are_read_that_no_panel_reads() -> None:
    shown = Dashboard([panel("P", ends_a_second, view="line")])
    records = [
        record(1, BlockStop(0, BlockType.TEXT)),
        *[record(seq, TextDelta(0, "a")) for seq in (2, 3)],
        record(4, BlockStop(0, BlockType.TEXT)),
    ]
    reading, clock = Reading(), HistoricalScheduler(HistoricalScheduler().to_datetime(100.0))
    board = shown.show(reading, scheduler=clock)
    for each in records:
        reading.push(each)
        clock.advance_to(clock.to_datetime(clock.to_seconds(clock.now) + 2))
    assert board.states[0].points == shown.at(records)[0].points
    reading.progress(0, 0)
    clock.advance_to(clock.to_datetime(clock.to_seconds(clock.now) + 2))
    assert board.states[0].value == 0.0


def test_operators_in_records_of_other_types_are_refused() -> None:
    with pytest.raises(Exception, match=r"records_of\(int\) takes types of events"):
        records_of(int)  # pyright: ignore[reportArgumentType]
