"""`merge_runs`, `join_runs` and `results`: several runs as one stream, which cannot hurt each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from reactivex import GroupedObservable, Observable, never, of
from reactivex import operators as ops

from rxworker import Run, RunResult, Worker
from rxworker.errors import RunCancelledError
from rxworker.events import Ping, Record, RunAbort, WatcherDetach
from rxworker.hub import Coalesce
from rxworker.operators import join_runs, merge_runs, results
from rxworker.operators.kernel import Source
from rxworker.testing import ScriptedModel, fail, say, stall
from rxworker.testing.marbles import FAILURE, Marbles


def record(run_id: str, seq: int) -> Record:
    return Record(seq=seq, run_id=run_id, turn=1, attempt=1, time=0.0, event=Ping())


RECORDS = {"a": record("A", 1), "b": record("B", 1), "c": record("C", 1)}


def run_of(record: Record) -> str:
    return record.run_id


def test_records_come_as_they_happen(test: Marbles) -> None:
    one, two = test.hot("-a---a-|", RECORDS), test.hot("---b-----b-|", RECORDS)
    seen = test.observe(merge_runs([one, two]))
    assert seen == test.expected("-a-b-a---b-|", RECORDS)
    assert one.subscriptions == test.subscriptions("^------!")
    assert two.subscriptions == test.subscriptions("^----------!")


def test_a_run_that_fails_leaves_the_others_alone(test: Marbles) -> None:
    one, two = test.hot("-a-#", RECORDS), test.hot("---b-----b-|", RECORDS)
    assert test.observe(merge_runs([one, two])) == test.expected("-a-b-----b-|", RECORDS)


def test_failures_are_passed_to_the_callback(test: Marbles) -> None:
    told: list[Exception] = []
    runs = [test.hot("-a-#", RECORDS), test.hot("---#", RECORDS), test.hot("-----|", RECORDS)]
    assert test.observe(merge_runs(runs, told.append)) == test.expected("-a---|", RECORDS)
    assert told == [FAILURE, FAILURE]


def test_what_the_callback_raises_ends_the_stream() -> None:
    def refuse(error: Exception) -> None:
        raise ValueError("no")

    test = Marbles()
    one, two = test.hot("-a-#", RECORDS), test.hot("-----b|", RECORDS)
    seen = test.observe(merge_runs([one, two], refuse))
    assert [str(r.value) for r in seen[1:]] == ["OnError(no)"]
    assert two.subscriptions == test.subscriptions("^--!")


def test_late_runs_join_and_are_shown_from_their_beginning(test: Marbles) -> None:
    runs = {"A": test.cold("-a---a-|", RECORDS), "B": test.cold("-b---b-|", RECORDS)}
    outer = test.hot("-A-B-|", runs)
    assert test.observe(merge_runs(outer)) == test.expected("--a-b-a-b-|", RECORDS)


def test_it_completes_when_all_have_ended_and_none_can_come() -> None:
    test = Marbles()
    runs = {"A": test.cold("a|", RECORDS)}
    assert test.observe(merge_runs(test.hot("-A---|", runs))) == test.expected("-a---|", RECORDS)
    test = Marbles()
    runs = {"A": test.cold("a-----|", RECORDS)}
    assert test.observe(merge_runs(test.hot("-A-|", runs))) == test.expected("-a-----|", RECORDS)


def test_never_stays_never(test: Marbles) -> None:
    assert test.observe(merge_runs([test.hot("---", RECORDS)])) == []
    assert test.observe(merge_runs(never())) == []


def test_no_runs_are_complete_at_once() -> None:
    test = Marbles()
    assert test.observe(merge_runs([])) == test.expected("|")
    test = Marbles()
    none: dict[str, Observable[Record]] = {}
    assert test.observe(merge_runs(test.hot("--|", none))) == test.expected("--|")


def test_an_error_of_what_brings_the_runs_ends_the_stream(test: Marbles) -> None:
    inner = test.cold("a-------a", RECORDS)
    seen = test.observe(merge_runs(test.hot("-A--#", {"A": inner})))
    assert seen == test.expected("-a--#", RECORDS)
    assert inner.subscriptions == test.subscriptions("-^--!")


def test_disposing_early_detaches_from_all(test: Marbles) -> None:
    one, two = test.hot("-a---a-|", RECORDS), test.hot("---b-----b-|", RECORDS)
    outer = test.hot("-A-B----|", {"A": one, "B": two})
    seen = test.observe(merge_runs(outer), until="----!")
    assert seen == []  # both were hot, and joined within the tick of their record
    assert outer.subscriptions == test.subscriptions("^---!")
    assert one.subscriptions == test.subscriptions("-^--!")
    assert two.subscriptions == test.subscriptions("---^!")


def test_disposing_within_a_record_ends_it_there() -> None:
    seen: list[Record] = []
    merged = merge_runs([of(RECORDS["a"], RECORDS["a"]), of(RECORDS["b"])])
    merged.pipe(ops.take(1)).subscribe(seen.append)
    assert seen == [RECORDS["a"]]


def test_two_subscriptions_emit_the_same_events() -> None:
    def runs() -> Iterator[Observable[Record]]:
        yield of(RECORDS["a"])
        yield of(RECORDS["b"])

    merged = merge_runs(runs())  # a generator runs dry; it is read once
    stories: list[list[Record]] = [[], []]
    for story in stories:
        merged.subscribe(story.append)
    assert stories[0] == stories[1] == [RECORDS["a"], RECORDS["b"]]


def test_a_single_observable_is_refused_with_the_correct_call() -> None:
    errors: list[Exception] = []
    single: Observable[Record] = of(RECORDS["a"])
    merge_runs(single).subscribe(on_error=errors.append)  # pyright: ignore[reportArgumentType]
    assert "merge_runs([run])" in str(errors[0])


@pytest.mark.parametrize("given", ["runs", [3], [never(), "run-1"], None])
def test_other_things_than_runs_are_refused_at_once(given: Any) -> None:
    with pytest.raises(TypeError, match="merge_runs takes several runs, not "):
        merge_runs(given)


async def test_runs_of_workers_are_distinguished_and_lose_nothing() -> None:
    runs = [Worker(ScriptedModel([say(word)])).run("Say it.") for word in ("one", "two", "three")]
    seen: list[Record] = []
    merge_runs(runs).subscribe(seen.append)
    await asyncio.gather(*runs)
    for run in runs:
        own = [record for record in seen if record.run_id == run.id]
        assert [record.seq for record in own] == list(range(1, len(own) + 1))
        assert len(own) > 5


async def test_watches_are_merged_as_runs_are() -> None:
    runs = [Worker(ScriptedModel(["a longer word"])).run("?") for _ in range(2)]
    seen: list[Record] = await merge_runs([run.watch(Coalesce()) for run in runs]).pipe(ops.to_list())
    for run in runs:
        own = [record for record in seen if record.run_id == run.id]
        assert [r.first for r in own] == [1, *(r.seq + 1 for r in own[:-1])]
        assert own[-1].seq == run.last_seq


async def test_a_failed_run_ends_with_a_record_of_its_failure() -> None:
    broken = Worker(ScriptedModel([fail("no", retryable=False)])).run("?")
    fine = Worker(ScriptedModel(["yes"])).run("?")
    told: list[Exception] = []
    seen: list[Record] = await merge_runs([broken, fine], told.append).pipe(ops.to_list())
    assert isinstance([r for r in seen if r.run_id == broken.id][-1].event, RunAbort)
    assert len(told) == 1
    assert (await fine).text == "yes"


async def test_a_watcher_that_raises_is_detached_from_all_and_hurts_none() -> None:
    runs = [Worker(ScriptedModel(["one"])).run("?"), Worker(ScriptedModel(["two"])).run("?")]
    seen: list[str] = []

    def broken(record: Record) -> None:
        seen.append(record.run_id)
        raise OSError("the display is gone")

    merge_runs(runs).subscribe(broken)
    results = await asyncio.gather(*runs)
    assert [result.text for result in results] == ["one", "two"]
    assert len(seen) == 1
    told = [r async for r in runs[0] if isinstance(r.event, WatcherDetach)]
    assert len(told) == 1


async def test_leaving_ends_no_run() -> None:
    run = Worker(ScriptedModel([stall()])).run("?")
    merge_runs([run]).subscribe().dispose()
    assert not run.done()
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run


def test_nothing_is_kept_of_runs_that_have_ended() -> None:
    runs: Source[Observable[Record]] = Source()
    merged = merge_runs(runs)
    names: list[str] = []
    merged.pipe(ops.map(run_of)).subscribe(names.append)
    for _ in range(1000):
        runs.on_next(of(RECORDS["c"]))
    assert len(names) == 1000


class Shown:
    """A run that is made of marbles."""

    def __init__(self, tenant: str, records: Observable[Record]) -> None:
        self.tenant = tenant
        self.records = records


def tenant_of(run: Shown) -> str:
    return run.tenant


def test_runs_of_one_key_are_one_stream_which_ends_with_them(test: Marbles) -> None:
    one, two, three = test.cold("-a-#", RECORDS), test.cold("-b-b-|", RECORDS), test.cold("----a--|", RECORDS)
    runs = test.hot("-1---2---3-|", {"1": Shown("acme", one), "2": Shown("tea", two), "3": Shown("acme", three)})

    def named(group: GroupedObservable[str, Record]) -> Observable[str]:
        return group.pipe(ops.materialize(), ops.map(lambda each: f"{group.key} {each.kind}"))

    lookup = {"x": "acme N", "y": "tea N", "T": "tea C", "A": "acme C"}
    expected = test.expected("--x---y-y--T-x--(A,|)", lookup)
    assert test.observe(runs.pipe(join_runs(tenant_of), ops.flat_map(named))) == expected


async def test_each_result_comes_when_its_run_has_ended_and_that_of_a_failure_does_not() -> None:
    runs: Source[Run[None]] = Source()
    texts: list[str] = []
    failures: list[str] = []
    failed, over = asyncio.Event(), asyncio.Event()

    def note(error: Exception) -> None:
        failures.append(type(error).__name__)
        failed.set()

    runs.pipe(results(note), ops.map(text_of)).subscribe(texts.append, on_completed=over.set)
    waiting = Worker(ScriptedModel([stall()])).run("Wait.")
    for run in (waiting, Worker(ScriptedModel([])).run("Fail."), Worker(ScriptedModel(["two"])).run("Go.")):
        runs.on_next(run)
    runs.on_completed()
    await failed.wait()
    assert (failures, over.is_set()) == (["ScriptExhaustedError"], False)
    waiting.cancel()
    await over.wait()
    assert (texts, failures) == (["two"], ["ScriptExhaustedError", "RunCancelledError"])


async def test_who_leaves_the_results_ends_no_run() -> None:
    run = Worker(ScriptedModel(["two"])).run("Go.")
    of(run).pipe(results()).subscribe().dispose()
    assert (await run).text == "two"


def text_of(result: RunResult[None]) -> str:
    return result.text or ""
