"""Boards: a dashboard over records as they come shows what folding the records again shows."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler

from rxworker.boards import AlertChange, Board, Dashboard, PanelState, above, below, board_text, panel
from rxworker.boards.dashboard import EVERY
from rxworker.errors import LocalProtocolError
from rxworker.events import Event, Record, TextDelta, Usage
from rxworker.operators import fold_sliding, rate
from rxworker.operators.kernel import Source
from rxworker.panels import day_of, hour_of
from tests.whole import IS_WHOLE

BEGAN = 1000.0


def seq_of(record: Record) -> float:
    return float(record.seq)


def run_of(record: Record) -> str:
    return record.run_id


def kind_of(record: Record) -> str:
    return type(record.event).__name__


def speed(records: Observable[Record]) -> Observable[float]:
    return records.pipe(ops.map(seq_of), rate(3.0))


def peak(records: Observable[Record]) -> Observable[float]:
    return records.pipe(ops.map(seq_of), fold_sliding(max, 0.0, 2.0))


def delayed(records: Observable[Record]) -> Observable[str]:
    return records.pipe(ops.map(kind_of), ops.delay(0.7), ops.debounce(1.0))


def inverse(record: Record) -> float:
    return 1 / (record.seq % 5)


DASHBOARD = Dashboard(
    [
        panel("Last", ops.map(seq_of)),
        panel("Speed", speed, view="line", alert=above(4, lasting=1.5)),
        panel("Peak", peak, view="bar", group=run_of),
        panel("Kind", delayed, view="state"),
        panel("Inverse", ops.map(inverse), view="area", group=kind_of),
    ]
)


def play(records: list[Record], clock: abc.SchedulerBase) -> Observable[Record]:
    """Each record at its time."""

    def due(record: Record) -> Observable[Record]:
        when = clock.to_datetime(record.time)
        return reactivex.timer(when, scheduler=clock).pipe(ops.map(lambda _: record))

    return reactivex.from_iterable(records).pipe(ops.flat_map(due))


def random_records(seed: int, count: int = 60) -> list[Record]:
    chance = random.Random(seed)
    time, records = BEGAN, list[Record]()
    for seq in range(1, count):
        time = round(time + chance.choice([0.001, 0.01, 0.3, 1.1, 2.5]), 3)
        event: Event = chance.choice([TextDelta(0, "hi"), Usage(1, 2)])
        records.append(Record(seq, chance.choice("abc"), 1, 1, time, event))
    return records


def test_a_live_board_shows_at_many_moments_what_its_records_show_when_they_are_folded_again() -> None:
    for seed in range(4 if IS_WHOLE else 1):
        records = random_records(seed)
        clock = HistoricalScheduler(HistoricalScheduler().to_datetime(BEGAN - 1))
        board = DASHBOARD.show(play(records, clock), scheduler=clock)
        end = records[-1].time + 5
        moments = sorted(random.Random(seed).uniform(BEGAN - 0.5, end) for _ in range(50))
        for moment in moments:
            clock.advance_to(clock.to_datetime(moment))
            now = clock.to_seconds(clock.now)
            assert board.states == DASHBOARD.at(records, now)


@given(st.lists(st.floats(0, 20), max_size=30), st.floats(1.001, 25))
def test_what_is_shown_depends_on_the_records_and_the_moment_alone(times: list[float], moment: float) -> None:
    records = [Record(n, "a", 1, 1, BEGAN + t, TextDelta(0, "x")) for n, t in enumerate(sorted(times), 1)]
    clock = HistoricalScheduler(HistoricalScheduler().to_datetime(BEGAN + 20))
    # It is attached late: the history comes at once.
    board = DASHBOARD.show(reactivex.from_iterable(records), scheduler=clock)
    clock.advance_to(clock.to_datetime(BEGAN + 20 + moment))
    assert board.states == DASHBOARD.at(records, clock.to_seconds(clock.now))


ALERTS = Dashboard(
    [
        panel("Speed", speed, alert=above(4, lasting=1.5)),
        panel("Peak", peak, alert=above(30), group=run_of),
        panel("Low", ops.map(seq_of), alert=below(20, lasting=3), group=run_of),
    ],
    title="Watch",
)


def alerts_of(board: Board) -> list[AlertChange]:
    seen: list[AlertChange] = []
    board.alerts.subscribe(seen.append)
    return seen


def in_order_of_time(changes: Iterable[AlertChange]) -> list[AlertChange]:
    """Timers of several panels that are due in one round of a board run panel by panel."""
    return sorted(changes, key=attrgetter("time"))


def test_a_live_board_reports_the_alerts_that_folding_its_records_again_reports() -> None:
    for seed in range(6):
        records = random_records(seed)
        clock = HistoricalScheduler(HistoricalScheduler().to_datetime(BEGAN - 1))
        seen = alerts_of(ALERTS.show(play(records, clock), scheduler=clock))
        end = records[-1].time + 5
        moments = sorted(random.Random(seed).uniform(BEGAN - 0.5, end) for _ in range(30))
        for moment in (*moments, end):
            clock.advance_to(clock.to_datetime(moment))
            now = clock.to_seconds(clock.now)
            folded = ALERTS.alerts_in(records, now)
            # A timer runs in the next round of the board, with the time at which it was due.
            assert [each for each in folded if each.time < now - EVERY] == [
                each for each in in_order_of_time(seen) if each.time < now - EVERY
            ]
        assert {each.panel for each in seen} == {"speed", "peak", "low"}
        assert {each.is_firing for each in seen} == {True, False}
        assert {each.board for each in seen} == {"watch"}


def test_of_a_history_the_last_change_of_each_value_is_reported_once(caplog: Any) -> None:
    for seed in range(6):
        records = random_records(seed)
        began = records[30].time + 0.1
        clock = HistoricalScheduler(HistoricalScheduler().to_datetime(began))
        source: Source[Any] = Source()
        seen = alerts_of(ALERTS.show(source, scheduler=clock))
        before = [each for each in records if each.time < began]
        for at in range(0, len(before), 7):
            for record in before[at : at + 7]:
                source.on_next(record)
            clock.advance_by(timedelta(seconds=0.6))
        assert not seen
        clock.advance_by(timedelta(seconds=1.5))
        now = clock.to_seconds(clock.now)
        changes = in_order_of_time(ALERTS.alerts_in(before, now))
        last = {(each.panel, each.group): each for each in changes if each.time < began}
        later = [each for each in changes if each.time >= began]
        assert [each for each in in_order_of_time(seen) if each.time >= began] == later
        reported = {(each.panel, each.group): each for each in seen if each.time < began}
        assert reported.items() <= last.items()
        assert last.keys() - reported.keys() <= {(each.panel, each.group) for each in later}
        assert len([each for each in seen if each.time < began]) == len(reported)


def test_an_alert_is_logged_as_its_panel_shows_the_value(caplog: Any) -> None:
    source, clock = Source[Any](), HistoricalScheduler()
    board = Dashboard([panel("Failed", ops.map(lambda _: 100 / 3), unit="%", alert=above(20))])
    shown = board.show(source, scheduler=clock)
    source.on_next(Record(1, "a", 1, 1, clock.to_seconds(clock.now), TextDelta(0, "x")))
    clock.advance_by(timedelta(seconds=1))
    shown.dispose()
    assert "failed is beyond its limit: 33.33 %" in caplog.text


class Timed:
    """A source that is pushed by hand, and a board over it."""

    def __init__(self, *, every: float = 1.0) -> None:
        self.clock = HistoricalScheduler(HistoricalScheduler().to_datetime(BEGAN))
        self.source: Source[Any] = Source()
        self.board = DASHBOARD.show(self.source, scheduler=self.clock, every=every)
        self.seen: list[PanelState] = []
        self.board.changes.subscribe(self.seen.append)

    def push(self, seq: int, run: str = "a") -> None:
        time = self.clock.to_seconds(self.clock.now)
        self.source.on_next(Record(seq, run, 1, 1, time, TextDelta(0, "x")))

    def wait(self, seconds: float) -> None:
        self.clock.advance_by(timedelta(seconds=seconds))


def test_a_panel_is_shown_again_after_a_change_and_at_most_once_in_its_time() -> None:
    timed = Timed()
    for seq in range(1, 101):
        timed.push(seq)
        timed.wait(0.03)
    last = [state.value for state in timed.seen if state.panel == "last"]
    assert len(last) == 3 + 1
    timed.wait(1.0)
    assert [state.value for state in timed.seen if state.panel == "last"][-1] == 100


def test_a_board_sets_no_timer_where_nothing_is_due() -> None:
    timed = Timed()
    assert not timed.clock._queue  # pyright: ignore[reportPrivateUsage]
    timed.push(1)
    timed.wait(20.0)
    assert not timed.clock._queue  # pyright: ignore[reportPrivateUsage]
    assert timed.board.state("speed").value == 0.0


def test_an_observer_that_raises_stops_nothing(caplog: Any) -> None:
    timed = Timed()

    def fail(_: object) -> None:
        raise OSError("no")

    later: list[PanelState] = []
    timed.board.changes.subscribe(fail)
    timed.board.changes.subscribe(later.append)
    timed.push(1)
    timed.wait(1.0)
    assert later
    assert [state.panel for state in later[:2]] == ["last", "speed"]
    assert "an observer of the board dashboard failed" in caplog.text


def test_the_error_of_the_records_is_kept_and_so_is_what_is_shown() -> None:
    timed = Timed()
    timed.push(7)
    timed.source.on_error(OSError("the log is gone"))
    assert isinstance(timed.board.error, OSError)
    assert timed.board.state("last").value == 7


def test_runs_records_and_an_observable_of_runs_are_taken() -> None:
    class Run:
        def __init__(self, name: str) -> None:
            self.records = reactivex.of(Record(1, name, 1, 1, BEGAN, TextDelta(0, "x")))

    def records_of(run: Run) -> Observable[Record]:
        return run.records

    runs = [Run("a"), Run("b")]
    sources: list[Any] = [runs, reactivex.from_iterable(runs)]
    sources.append(reactivex.from_iterable(runs).pipe(ops.flat_map(records_of)))
    for given_ in sources:
        clock = HistoricalScheduler()
        board: Board = DASHBOARD.show(given_, scheduler=clock)
        clock.advance_by(timedelta(seconds=1))
        assert board.state("peak").value == {"a": 1.0, "b": 1.0}
    clock = HistoricalScheduler()
    board = DASHBOARD.show(runs[0], scheduler=clock)
    clock.advance_by(timedelta(seconds=1))
    assert board.state("peak").value == {"a": 1.0}


def record_at(time: float, seq: int = 1) -> Record:
    return Record(seq, "a", 1, 1, time, TextDelta(0, "x"))


@pytest.mark.parametrize("time", [float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 1e12])
def test_a_moment_and_a_record_may_have_a_time_that_no_date_has(time: float) -> None:
    dashboard = Dashboard([panel("Last", ops.map(seq_of)), panel("Speed", speed, view="line")])
    [last, _] = dashboard.at([record_at(BEGAN)], time)
    assert (last.value, last.error) == (1 if not time < 0 else None, "")
    [last, _] = dashboard.at([record_at(time)])
    assert (last.value, last.error) == (1, "")
    by_time = Dashboard([panel("By time", ops.map(seq_of), view="bar", group=(hour_of, day_of))])
    [last] = by_time.at([record_at(BEGAN), record_at(time, 2)])
    assert (bool(last.value), last.error) == (True, "")


def test_a_timer_that_is_due_at_once_again_stops_its_panel_and_not_the_board() -> None:
    def spinning(_: Observable[Record]) -> Observable[int]:
        return reactivex.interval(0)

    dashboard = Dashboard([panel("Spinning", spinning), panel("Last", ops.map(seq_of))])
    spun, last = dashboard.at([record_at(BEGAN), record_at(BEGAN + 1, 2)])
    assert "period above 0" in spun.error
    assert (last.value, last.error) == (2, "")


class AsArray(Struct, array_like=True):
    place: str = "a pond"


@pytest.mark.parametrize("row", [MappingProxyType({"place": "a pond"}), AsArray()])
def test_rows_are_mappings_and_structs_of_any_kind(row: object) -> None:
    def row_of(_: Record) -> object:
        return row

    dashboard = Dashboard([panel("Rows", ops.map(row_of), view="table")])
    states = dashboard.at([record_at(BEGAN)])
    assert states[0].value == [{"place": "a pond"}]
    assert "a pond" in board_text(dashboard, states)


def test_a_board_that_is_disposed_takes_nothing_more_and_completes() -> None:
    timed = Timed()
    ended: list[str] = []
    timed.board.changes.subscribe(on_completed=lambda: ended.append("changes"))
    timed.board.alerts.subscribe(on_completed=lambda: ended.append("alerts"))
    timed.push(1)
    timed.board.dispose()
    timed.push(2)
    timed.wait(5.0)
    assert timed.board.state("last").value == 1
    assert ended == ["changes", "alerts"]
    assert not timed.seen


def test_a_history_that_is_read_in_pieces_shows_what_it_shows_when_it_is_folded_again() -> None:
    records = random_records(7)
    clock = HistoricalScheduler(HistoricalScheduler().to_datetime(records[-1].time + 100))
    source: Source[Any] = Source()
    board = DASHBOARD.show(source, scheduler=clock)
    for at in range(0, len(records), 9):
        for record in records[at : at + 9]:
            source.on_next(record)
        clock.advance_by(timedelta(seconds=0.6))
        assert board.states == DASHBOARD.at(records[: at + 9])
    clock.advance_by(timedelta(seconds=2))
    assert board.states == DASHBOARD.at(records, clock.to_seconds(clock.now))


def test_a_board_without_an_event_loop_names_the_remedy() -> None:
    with pytest.raises(LocalProtocolError, match=r"use dashboard\.at\(records\)"):
        DASHBOARD.show([])
