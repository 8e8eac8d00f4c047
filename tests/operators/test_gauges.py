"""`combine_gauges`: several views of one subscription, in one row."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Struct
from reactivex import Observable, of
from reactivex import operators as ops

from rxworker import Worker
from rxworker.events import Record
from rxworker.operators import combine_gauges, merge_runs
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


ROWS = {
    "0": Row(),
    "1": Row(1, ""),
    "2": Row(1, "a"),
    "3": Row(2, "a"),
    "4": Row(2, "b"),
}


def test_a_row_comes_whenever_a_gauge_moves() -> None:
    test = Marbles()
    source = test.hot("--a---b--|")
    seen = test.observe(source.pipe(combine_gauges(Row(), count=count, last=same)))
    assert seen == test.expected("0-(1,2)", ROWS) + test.expected("------(3,4)", ROWS) + (
        test.expected("---------|")
    )
    assert source.subscriptions == test.subscriptions("^--------!")


def test_never_and_empty_show_the_start() -> None:
    test = Marbles()
    assert test.observe(test.hot("---").pipe(combine_gauges(Row(), last=same))) == (
        test.expected("0", ROWS)
    )
    test = Marbles()
    assert test.observe(test.hot("---|").pipe(combine_gauges(Row(), last=same))) == (
        test.expected("0--|", ROWS)
    )


def test_an_error_of_the_source_comes_once() -> None:
    test = Marbles()
    seen = test.observe(test.hot("---#").pipe(combine_gauges(Row(), count=count, last=same)))
    assert seen == test.expected("0--#", ROWS)


def test_an_error_of_a_gauge_ends_all_and_leaves_the_source() -> None:
    def refuse(_: str) -> str:
        raise ValueError("no")

    test = Marbles()
    source = test.hot("--a---b--|")
    row = combine_gauges(Row(), last=ops.map(refuse), count=count)
    seen = test.observe(source.pipe(row))
    assert [str(r.value) for r in seen[1:]] == ["OnError(no)"]
    assert source.subscriptions == test.subscriptions("^-!")


def test_it_goes_on_until_the_last_gauge_is_complete() -> None:
    test = Marbles()
    source = test.hot("--a---b--|")
    row = combine_gauges(Row(), last=ops.take(1), count=count)
    assert [r.time - 200 for r in test.observe(source.pipe(row))] == [0, 2, 2, 6, 9]
    test = Marbles()
    source = test.hot("--a---b--|")
    test.observe(source.pipe(combine_gauges(Row(), last=ops.take(1))))
    assert source.subscriptions == test.subscriptions("^-!")


def test_disposing_early_leaves_the_source() -> None:
    test = Marbles()
    source = test.hot("--a---b--|")
    test.observe(source.pipe(combine_gauges(Row(), last=same)), until="----!")
    assert source.subscriptions == test.subscriptions("^---!")


def test_two_subscriptions_emit_the_same_events() -> None:
    rows = of("a", "b").pipe(combine_gauges(Row(), count=count, last=same))
    stories: list[list[Row]] = [[], []]
    for story in stories:
        rows.subscribe(story.append)
    assert stories[0] == stories[1] == list(ROWS.values())


async def test_no_gauge_misses_what_a_run_tells_at_once() -> None:
    """With ``publish``, ``combine_latest`` and ``start_with`` in a coroutine the first records are lost."""

    class Seen(Struct, frozen=True):
        first: int = 0
        records: int = 0

    def seq(record: Record) -> int:
        return record.seq

    def one_record(count: int, _: Record) -> int:
        return count + 1

    run = Worker(ScriptedModel(["Hello"])).run("?")
    await asyncio.wait_for(run, 10)
    row = combine_gauges(
        Seen(),
        first=lambda records: records.pipe(ops.first(), ops.map(seq)),
        records=ops.scan(one_record, 0),
    )
    last = await merge_runs([run]).pipe(row, ops.last())
    assert last == Seen(1, run.state.seq)


def test_gauges_are_named_as_the_fields_are() -> None:
    with pytest.raises(ValueError, match="other: the fields of Row are count, last"):
        combine_gauges(Row(), other=same)
    with pytest.raises(ValueError, match="no gauges"):
        combine_gauges(Row())
