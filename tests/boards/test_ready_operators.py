"""The ready operators over records and over numbers: drawn on virtual time, and equal to a plain count."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler

from rxworker.boards import Dashboard, above, panel
from rxworker.boards.panel import Partial
from rxworker.boards.selection import Selection
from rxworker.errors import ConfigurationError
from rxworker.events import Annotation, Event, Record, RunAbort, RunStart, RunStop, TextDelta, ToolStart, ToolStop
from rxworker.messages import Json, ToolCall, ToolResult
from rxworker.operators import decode, fold_sliding, percentile, records_of
from rxworker.operators.kernel import Operator, Source
from rxworker.panels import (
    a_minute,
    annotated,
    cost,
    count,
    error_rate,
    high,
    histogram,
    ratio,
    run_line,
    run_of,
    share,
    top,
    total,
    written,
)
from rxworker.testing.marbles import Marbles
from tests.boards.test_ready_panels import PRICES, RECORDS

BY_NAME = {"T": True, "F": False, **{str(n): float(n) for n in range(101)}, "66.7": 200 / 3, "33.3": 100 / 3}


def seen(source: str, operator: Operator[Any, Any], lookup: Mapping[str, Any] = BY_NAME) -> list[tuple[float, Any]]:
    """The items of a drawing after an operator, with their columns; a minute has six."""
    records, clock = Source[Any](), HistoricalScheduler()
    found: list[tuple[float, Any]] = []
    column = 0

    def note(value: Any) -> None:
        found.append((clock.to_seconds(clock.now) / 10, value))

    records.pipe(operator).subscribe(note, scheduler=clock)
    for column, letter in enumerate(source.replace("|", "-")):
        clock.advance_to(clock.to_datetime(10.0 * column))
        if letter != "-":
            records.on_next(lookup[letter])
    return found


def record(seq: int, event: Event, time: float = 0.0, run: str = "a", *path: str) -> Record:
    return Record(seq, run, 1, 1, time, event, path)


def test_a_share_is_that_of_all_so_far_or_of_the_last_seconds() -> None:
    assert seen("--T--F-----T--|", share(), BY_NAME) == [(2, 100), (5, 50), (11, pytest.approx(200 / 3))]
    found = seen("--T--F-----T-------|", share(60.0))
    assert found == [(2, 100), (5, 50), (8, 0), (11, 0), (11, 100), (17, 0)]


def test_values_are_counted_up_to_bounds() -> None:
    found = seen("--2--3--9-0--|", histogram(2, 5))
    assert [counts for _, counts in found][-1] == {"≤ 2": 2, "≤ 5": 1, "> 5": 1}
    close = seen("--2--3--|", histogram(2_000_001, 2_000_002))
    assert close[-1][1] == {"≤ 2000001": 2, "≤ 2000002": 0, "> 2000002": 0}
    for bounds in ((), (2, 2), (3, 1), (2, float("nan")), (2, float("inf"))):
        with pytest.raises(ConfigurationError, match="the least first"):
            histogram(*bounds)


def test_annotations_are_counted_by_their_values_as_text() -> None:
    values: list[Json] = ["", None, 5, False, ["a"]]
    given = [*[Annotation("rating", value) for value in values], Annotation("other", 1)]
    records = [Record(n, "run-1", 1, 1, float(n), each.custom) for n, each in enumerate(given, 1)]
    [state] = Dashboard([panel("Ratings", annotated("rating"), view="bar")]).at(records)
    assert state.value == {'""': 1, "null": 1, "5": 1, "false": 1, '["a"]': 1}


def test_a_run_that_was_annotated_in_the_time_alone_has_no_line() -> None:
    rated = Annotation("rating", 5).custom
    given = [(1.0, TextDelta(0, "a")), (2.0, RunStop()), (9.0, rated)]
    records = [Record(seq, "run-1", 1, 1, time, event) for seq, (time, event) in enumerate(given, 1)]
    for since, lines in ((None, [1.0]), (5.0, None)):
        board = Dashboard([panel("Runs", run_line(), view="table", group=run_of)], selection=Selection(since=since))
        rows: Any = board.at(records)[0].value
        assert (rows and [each["seconds"] for each in rows]) == lines


def test_the_sum_of_the_last_minute_is_the_rate_a_minute() -> None:
    assert seen("--2--3-----1--|", a_minute) == [(2, 2), (5, 5), (8, 3), (11, 0), (11, 1)]


def test_the_percentile_of_a_window_leaves_out_what_is_older() -> None:
    assert seen("--5--3-----1------|", high(50, 60)) == [(2, 5), (5, 4), (8, 3), (11, 0), (11, 1), (17, 0)]


@pytest.mark.parametrize("seed", range(5))
def test_the_percentile_of_a_window_is_that_of_its_values(seed: int) -> None:
    chance, clock, values = random.Random(seed), HistoricalScheduler(), Source[float]()
    found: list[float] = []
    values.pipe(high(90, 10)).subscribe(found.append, scheduler=clock)
    kept, now = list[tuple[float, float]](), 0.0
    for _ in range(300):
        now += chance.choice([0.0, 0.1, 1.0, 7.0])
        value = chance.choice([1.0, 2.0, chance.random()])
        clock.advance_to(clock.to_datetime(now))
        values.on_next(value)
        kept = [each for each in [*kept, (now, value)] if each[0] + 10 > now]
        assert found[-1] == pytest.approx(percentile([each for _, each in kept], 90))


ENDS: dict[str, Record] = {
    "s": record(1, RunStop()),
    "a": record(1, RunAbort("error", "?")),
    "l": record(1, RunAbort("limit", "?")),
    "c": record(1, RunAbort("cancel", "?")),
    "i": record(1, RunAbort("error", "?"), 0.0, "a", "call"),
    "g": record(1, ToolStart(ToolCall("1", "look", {}))),
    "f": record(1, ToolStop(ToolResult("1", "", is_error=True))),
    "o": record(1, ToolStop(ToolResult("1", ""))),
}


@pytest.mark.parametrize(
    ("source", "operator", "expected"),
    [
        ("--s--a-----s--|", error_rate(), [(2, 0), (5, 50), (11, pytest.approx(100 / 3))]),
        (
            "-l-c-i-|",
            error_rate(),
            [(1, 100), (3, 50)],
        ),  # one that is cancelled has not failed; nested ones do not count
        ("-a----s-----|", error_rate(seconds=60), [(1, 100), (6, 50), (7, 0), (12, 0)]),
        ("-gf-go-f-|", error_rate("tools"), [(2, 100), (5, 50)]),  # a call that did not run has no end
    ],
)
def test_the_rate_of_errors_is_that_of_what_has_ended(source: str, operator: Any, expected: Any) -> None:
    assert seen(source, operator, ENDS) == expected


def test_the_rate_of_errors_is_of_runs_or_of_tools() -> None:
    with pytest.raises(ConfigurationError, match="give 'runs' or 'tools'"):
        error_rate("turns")  # pyright: ignore[reportArgumentType]


def counted(letter: str) -> Operator[str, int]:
    def number(_: int, item: str) -> int:
        return _ + (item == letter)

    return ops.scan(number, 0)


def test_a_ratio_is_emitted_once_for_an_item(test: Marbles) -> None:
    drawn = test.observe(test.hot("--a--b-----b--|").pipe(ratio(counted("a"), counted("b"))))
    assert drawn == test.expected("-----x-----y--|", {"x": 1.0, "y": 0.5})


def test_a_ratio_of_nothing_is_nothing_and_no_ratio_is_by_nothing() -> None:
    windows = ratio(fold_sliding(float.__add__, 0.0, 30), fold_sliding(float.__add__, 0.0, 60))
    assert seen("-2---1-----|", windows) == [(1, 1), (4, 0), (5, pytest.approx(1 / 3)), (7, 1), (8, 0), (11, 0)]
    assert seen("-2-", ratio(total, ops.map(lambda _: 0))) == []


def test_a_ratio_is_not_known_where_a_part_of_it_is_not() -> None:
    parts = iter([Partial(None, ("mine",)), Partial(4.0, ("mine",))])
    assert [value for _, value in seen("-2-2-", ratio(ops.map(lambda _: next(parts)), ops.map(lambda n: n)))] == [
        Partial(None, ("mine",)),
        Partial(2.0, ("mine",)),
    ]


def test_what_is_not_a_number_has_no_ratio(test: Marbles) -> None:
    text = test.observe(test.hot("-a-|").pipe(ratio(ops.map(str), ops.map(len))))  # pyright: ignore
    assert "takes numbers and was given a str" in str(text[0].value)
    for given in [(ops.map, total), (total, 3)]:
        with pytest.raises(ConfigurationError):
            ratio(*given)  # pyright: ignore


def test_a_limit_of_a_ratio_is_not_passed_between_two_counts_of_one_record() -> None:
    failed = ratio(count_of(RunAbort), count_of(RunStop, RunAbort))
    board = Dashboard([panel("Failed", failed, alert=above(1.0))])
    records = [record(n, RunAbort("error", "?"), float(n)) for n in range(1, 4)]
    assert board.alerts_in(records) == ()
    assert board.at(records)[0].value == 1.0


def count_of(*kinds: type[Event]) -> Operator[Record, int]:
    def pipeline(records: Observable[Record]) -> Observable[int]:
        return records.pipe(records_of(*kinds), ops.scan(lambda n, _: n + 1, 0))

    return pipeline


def test_a_ratio_of_operators_that_subscribe_later_counts_what_they_read() -> None:
    def texts_after_a_tool(records: Observable[Record]) -> Observable[float]:
        return records.pipe(records_of(ToolStart), ops.flat_map(lambda _: records.pipe(written, total)))

    board = Dashboard([panel("P", ratio(texts_after_a_tool, count(ToolStart)))])
    events = [TextDelta(0, "a" * 8), ToolStart(ToolCall("1", "look", {})), TextDelta(0, "abcd"), TextDelta(0, "abcd")]
    assert board.at([record(n, event, float(n)) for n, event in enumerate(events, 1)])[0].value == 2.0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"x": 1, "y": 5, "z": 2}, {"y": 5, "others": 3}),
        ({"x": 1}, {"x": 1}),
        ({}, {}),
        ({"others": 9, "x": 1, "y": 2}, {"y": 2, "others": 10}),
        (Partial({"x": None, "y": 5}, ("x",)), Partial({"x": None, "others": 5}, ("x",))),  # pyright: ignore
        (Partial({"x": None, "z": None}, ("x",)), Partial({"x": None, "others": None}, ("x",))),  # pyright: ignore
        (Partial(None, ("x",)), Partial(None, ("x",))),
    ],
)
def test_the_greatest_are_kept_and_the_rest_are_summed(given: Any, expected: Any) -> None:
    assert [value for _, value in seen("-x", top(1), {"x": given})] == [expected]


@pytest.mark.parametrize("make", [lambda: top(0), lambda: high(101), lambda: share(0), lambda: error_rate(seconds=-1)])
def test_what_cannot_be_right_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        make()


class All:
    """Reads everything."""

    def feed(self, data: Record) -> list[float]:
        return [1.0]

    def finish(self) -> list[float]:
        return []


READS = {
    "runs": (error_rate(), {RunStop, RunAbort}),
    "tools": (error_rate("tools", 60.0), {ToolStart, ToolStop}),
    "a ratio": (ratio(count(ToolStart), count(RunStart)), {ToolStart, RunStart}),
    "a ratio of all": (ratio(count(ToolStart), decode(All)), None),
}


@pytest.mark.parametrize("name", READS)
def test_a_ready_operator_is_given_what_it_reads(name: str) -> None:
    pipeline, expected = READS[name]
    records, given = Source[Record](), list[Any]()
    records.served = given.append
    records.pipe(pipeline).subscribe(lambda _: None, scheduler=HistoricalScheduler())
    [[sink]] = given
    assert sink.reads == expected


def test_the_cost_of_a_run_is_the_ratio_of_the_figures_of_usage() -> None:
    a_run = ratio(cost(PRICES), count(RunStart))
    board = Dashboard([panel("Cost", cost(PRICES)), panel("Runs", count(RunStart)), panel("A run", a_run)])
    money, runs, each = board.at(RECORDS)
    assert isinstance(money.value, float)
    assert isinstance(runs.value, int)
    assert each.value == pytest.approx(money.value / runs.value)
    assert each.missing == money.missing
