"""`combine_gauges`: several views of one subscription, in one row."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec import Struct
from reactivex import Observable, abc, of
from reactivex import operators as ops

from rxworker import Worker
from rxworker.errors import ConfigurationError
from rxworker.events import Record
from rxworker.operators import Window, combine_gauges, merge_runs
from rxworker.operators.kernel import Operator, Sink, Source, Stage, connect
from rxworker.testing import ScriptedModel
from rxworker.testing.marbles import Marbles


class Row(Struct, frozen=True):
    count: int = 0
    last: str = ""


def one_more(count: int, _: str) -> int:
    return count + 1


def count(source: Observable[str]) -> Observable[int]:
    return source.pipe(ops.scan(one_more, 0))


def same(source: Observable[str]) -> Observable[str]:
    return source


ROWS = {"0": Row(), "1": Row(1, ""), "2": Row(1, "a"), "3": Row(2, "a"), "4": Row(2, "b")}


def test_a_row_comes_whenever_a_gauge_moves(test: Marbles) -> None:
    source = test.hot("--a---b--|")
    seen = test.observe(source.pipe(combine_gauges(Row(), count=count, last=same)))
    assert seen == test.expected("0-(1,2)", ROWS) + test.expected("------(3,4)", ROWS) + (test.expected("---------|"))
    assert source.subscriptions == test.subscriptions("^--------!")


@pytest.mark.parametrize(("source", "expected"), [("---", "0"), ("---|", "0--|"), ("---#", "0--#")])
def test_the_start_is_shown_first(source: str, expected: str, test: Marbles) -> None:
    assert test.observe(test.hot(source).pipe(combine_gauges(Row(), last=same))) == test.expected(expected, ROWS)


def refuse(_: str) -> str:
    raise ValueError("no")


def refuse_item(_: str) -> None:
    raise ValueError("no")


def refuse_raw(source: Observable[str]) -> Observable[str]:
    """A gauge whose observer raises into its source."""

    def subscribe(observer: abc.ObserverBase[str], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return connect(source, Sink(refuse_item, observer.on_error, observer.on_completed), scheduler)

    return Stage(subscribe)


def refuse_source(_: Observable[str]) -> Observable[str]:
    raise ValueError("no")


@pytest.mark.parametrize("gauge", [ops.map(refuse), refuse_raw, refuse_source])
def test_a_gauge_that_fails_stops_alone_and_is_reported(
    gauge: Operator[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[str] = []

    def failed(name: str, error: Exception) -> None:
        failures.append(f"{name}: {error}")

    test = Marbles()
    source = test.hot("--a---b--|")
    seen = test.observe(source.pipe(combine_gauges(Row(), failed, last=gauge, count=count)))
    rows = {"0": Row(), "1": Row(1), "2": Row(2)}
    assert seen == test.expected("0-1---2--|", rows)
    assert failures == ["last: no"]
    assert caplog.records == []

    of("a", "b").pipe(combine_gauges(Row(), last=gauge, count=count)).subscribe()
    assert [each.getMessage() for each in caplog.records] == ["the gauge last failed and has stopped"]


def test_the_last_gauge_that_fails_ends_all_and_leaves_the_source(test: Marbles) -> None:
    source = test.hot("--a---b--|")
    seen = test.observe(source.pipe(combine_gauges(Row(), last=ops.map(refuse))))
    assert [str(r.value) for r in seen[1:]] == ["OnError(no)"]
    assert source.subscriptions == test.subscriptions("^-!")


def test_what_an_observer_of_the_rows_raises_is_not_a_failure_of_a_gauge() -> None:
    producer: Source[str] = Source()
    failures: list[str] = []

    def failed(name: str, _: Exception) -> None:
        failures.append(name)

    def observe(row: Row) -> None:
        if row.count:
            raise OSError("the screen is gone")

    producer.pipe(combine_gauges(Row(), failed, count=count, last=same)).subscribe(observe)
    with pytest.raises(OSError, match="the screen is gone"):
        producer.on_next("a")
    producer.on_next("b")
    assert failures == []


class Base(Struct, frozen=True):
    pass


class Derived(Base, frozen=True):
    pass


class Typed(Struct, frozen=True):
    share: float = 0.0
    name: str | None = None
    window: Sequence[int] = ()
    base: Base | None = None
    any: object = None


@pytest.mark.parametrize(
    ("field", "value", "fits"),
    [
        ("share", 1, True),
        ("share", 1.5, True),
        ("share", "1.5", False),
        ("share", None, False),
        ("name", "a", True),
        ("name", None, True),
        ("name", 3, False),
        ("base", Derived(), True),
        ("base", Row(), False),
        ("window", Window([1], 0, 1), True),
        ("any", object(), True),
        ("window", (1, 2), True),
        ("window", ("a",), False),
    ],
)
def test_a_value_is_of_the_type_of_its_field(field: str, value: object, fits: bool) -> None:
    failures: list[Exception] = []

    def failed(_: str, error: Exception) -> None:
        failures.append(error)

    def give(_: str) -> object:
        return value

    seen: list[Typed] = []
    gauges: dict[str, Operator[str, object]] = {field: ops.map(give)}
    of("a").pipe(combine_gauges(Typed(), failed, **gauges)).subscribe(seen.append, print)
    assert len(seen) == 1 + fits
    assert [type(error) for error in failures] == [ConfigurationError] * (not fits)


def test_it_goes_on_until_the_last_gauge_is_complete() -> None:
    test = Marbles()
    source = test.hot("--a---b--|")
    row = combine_gauges(Row(), last=ops.take(1), count=count)
    assert [r.time - 200 for r in test.observe(source.pipe(row))] == [0, 2, 2, 6, 9]
    test = Marbles()
    source = test.hot("--a---b--|")
    test.observe(source.pipe(combine_gauges(Row(), last=ops.take(1))))
    assert source.subscriptions == test.subscriptions("^-!")


def test_disposing_early_leaves_the_source(test: Marbles) -> None:
    source = test.hot("--a---b--|")
    test.observe(source.pipe(combine_gauges(Row(), last=same)), until="----!")
    assert source.subscriptions == test.subscriptions("^---!")


def test_two_subscriptions_emit_the_same_events() -> None:
    rows = of("a", "b").pipe(combine_gauges(Row(), count=count, last=same))
    stories: list[list[Row]] = [[], []]
    for story in stories:
        rows.subscribe(story.append)
    assert stories[0] == stories[1] == list(ROWS.values())


async def test_no_gauge_misses_records_that_are_emitted_at_once() -> None:
    """With ``publish``, ``combine_latest`` and ``start_with`` in a coroutine the first records are lost."""

    class Seen(Struct, frozen=True):
        first: int = 0
        records: int = 0

    def seq(record: Record) -> int:
        return record.seq

    def one_record(count: int, _: Record) -> int:
        return count + 1

    run = Worker(ScriptedModel(["Hello"])).run("?")
    await asyncio.wait_for(run, 60)
    row = combine_gauges(
        Seen(), first=lambda records: records.pipe(ops.first(), ops.map(seq)), records=ops.scan(one_record, 0)
    )
    last = await merge_runs([run]).pipe(row, ops.last())
    assert last == Seen(1, run.state.seq)


def test_gauges_are_named_as_the_fields_are() -> None:
    with pytest.raises(ConfigurationError, match="other: the fields of Row are count, last"):
        combine_gauges(Row(), other=same)
    with pytest.raises(ConfigurationError, match="no gauges"):
        combine_gauges(Row())
