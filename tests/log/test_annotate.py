"""Annotations on runs that have ended: records like others, in each store, each once."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest
from reactivex import operators as ops

from rxworker import Approve, Paused, Worker, tool
from rxworker.boards import Dashboard, panel
from rxworker.boards.stored import fold_log, log_records
from rxworker.errors import ConfigurationError, LogError, ProviderError, RunStatusError
from rxworker.events import Annotation, Custom, CustomEvent, Record, RunStop
from rxworker.log import EventLog, MemoryLog, dismiss_run, export_run, fork_run, import_run
from rxworker.log.format import record_of, round_time
from rxworker.log.values import RunRow
from rxworker.panels import count
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, call, fail, lint, say
from tests.log.conftest import OpenLog, until
from tests.log.test_fold import Follower
from tests.log.test_runs import Reader, store


class Score(CustomEvent, frozen=True, tag="acme.score"):
    """An event of an application."""

    value: float


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


async def ran(log: EventLog, model: ScriptedModel) -> str:
    run = Worker(model, log=log, tools=[delete], labels={"tenant": "acme"}).run("Hi")
    with suppress(ProviderError):
        await run
    return run.id


async def records_in(log: EventLog, run: str) -> list[Record]:
    return [record_of(entry, run) async for entry in log.read(run)]


async def test_annotations_follow_the_end_of_a_run_each_once_from_any_process(open_store: OpenLog) -> None:
    """Those that read all runs, and folds that are kept, get each once, also after a restart."""
    async with open_store() as log:
        run = await ran(log, ScriptedModel(["Hello."]))
        end = (await log.existing(run)).last_seq
        reader, fold = Reader(log), Follower(log)
        await until(lambda: reader.has({run: end}) and fold.state.last == {run: end})
        before = await log.existing(run)
        await asyncio.gather(*[log.annotate(run, Annotation("rating", n, by="anna")) for n in range(4)])
        await log.annotate(run, Annotation("correct", False, "Kyoto has no sea.", seq=3), Score(0.5))
        await until(lambda: reader.has({run: end + 6}) and fold.state.last == {run: end + 6})
        after = await log.existing(run)
        assert (reader.faults, fold.state.faults, fold.state.count) == ([], (), end + 6)
        assert (after.status, after.last_seq, after.row.end, after.owner) == ("finished", end + 6, end, "")
        records = await records_in(log, run)
        assert (after.ended, after.updated > before.updated) == (
            next(each.time for each in records if each.seq == end),
            True,
        )
        assert lint(records) == []
        assert fold_run(records).status == "finished"
        given = [found for record in records if (found := Annotation.of(record.event))]
        assert {str(each.value) for each in given if each.name == "rating"} == {*"0123"}
        assert given[-1] == Annotation("correct", False, "Kyoto has no sea.", seq=3)
        found = [each.info.run_id async for each in log.search("kyoto")]
        assert found == ([run] if log.searches_texts else [])
    async with open_store() as log:
        again, reader = Follower(log), Reader(log)
        if await log.info(run) is None:  # a log in memory
            return
        await log.annotate(run, Annotation("late", 1))
        await until(lambda: again.state.last == {run: end + 7} and reader.has({run: end + 7}))
        assert (again.state.faults, again.state.count) == ((), end + 7)


async def test_a_run_that_was_annotated_is_put_back_resumed_and_dismissed_as_before(log: MemoryLog) -> None:
    failed = await ran(log, ScriptedModel([fail("out of order", kind="authentication")]))
    await log.annotate(failed, Annotation("expected", True))
    await log.requeue(failed)
    info = await log.existing(failed)
    assert (info.status, info.row.end, info.row.ended) == ("queued", 0, 0.0)
    assert (await Worker(ScriptedModel(["Hello."]), tools=[delete], log=log).recover(failed)).text == "Hello."
    await log.annotate(failed, Annotation("rating", 5))
    records = await records_in(log, failed)
    assert lint(records) == []
    assert (await log.existing(failed)).row.end == records[-1].seq - 1

    worker = Worker(ScriptedModel([call("delete", path="a"), say("Done.")]), tools=[delete], log=log)
    paused = await worker.run("Delete a").started()
    assert isinstance(await paused, Paused)
    await log.annotate(paused.id, Annotation("rating", 1))
    done = await worker.decide(paused.id, {"call_1_1": Approve()})
    assert done.text == "Done."
    info = await log.existing(f"{paused.id}~2")
    assert (info.row.end, info.row.ended) == (0, 0.0)

    worker = Worker(ScriptedModel([call("delete", path="a")]), tools=[delete], log=log)
    paused = await worker.run("Delete a").started()
    await paused
    await log.annotate(paused.id, Annotation("rating", 1))
    before = await log.existing(paused.id)
    while round_time(time.time()) <= before.ended:  # for less than a millisecond, to which times are rounded
        pass
    await dismiss_run(log, paused.id, "not wanted")
    dismissed = await log.existing(paused.id)
    await log.annotate(paused.id, Annotation("rating", 2))
    after = await log.existing(paused.id)
    assert after.ended == dismissed.ended > before.ended == before.row.ended
    with pytest.raises(RunStatusError, match="dismissed"):
        await log.requeue(paused.id)


async def test_a_copy_of_a_run_that_was_annotated_ends_by_its_own_records(log: MemoryLog) -> None:
    run = await ran(log, ScriptedModel(["Hello."]))
    await log.annotate(run)  # with nothing
    end = (await log.existing(run)).last_seq
    assert (await log.existing(run)).row.end == 0
    await log.annotate(run, Annotation("rating", 5))
    ended = (await log.existing(run)).ended
    head, *lines = [line async for line in export_run(log, run)]
    for exported, last in (([head, *lines], end), ([head, *lines[:-1]], 0)):
        async with MemoryLog() as other:
            await import_run(other, exported)
            assert (await other.existing(run)).row.end == last
            await other.annotate(run, Annotation("rating", 4))
            info = await other.existing(run)
            assert (info.row.end, info.ended) == (end, ended)
    for seq in (end, end + 1):
        fork = await log.existing(await fork_run(log, run, seq))
        assert (fork.status, fork.row.end, fork.ended) == ("running", 0, fork.updated)


async def test_a_run_that_goes_on_is_nested_or_unknown_is_not_annotated(log: MemoryLog) -> None:
    run = await ran(log, ScriptedModel(["Hello."]))
    await store(log, "nested", RunStop(), outer=run)
    await log.claim("running", create=True, row=RunRow())
    for name, match in (("nested", "nested in"), ("running", "running"), ("none", "no run")):
        with pytest.raises(LogError, match=match):
            await log.annotate(name, Annotation("rating", 1))
    last = (await log.existing(run)).last_seq
    for seq in (-1, last + 1):
        with pytest.raises(ConfigurationError, match=f"records 1 to {last}, not"):
            await log.annotate(run, Annotation("rating", 1, seq=seq))
    for given in (Annotation("", 1), Annotation("x" * 101, 1), Annotation("x", 1, "x" * 10_001)):
        with pytest.raises(ConfigurationError, match="length"):
            await log.annotate(run, given)
    with pytest.raises(ConfigurationError, match="JSON"):
        await log.annotate(run, Annotation("rating", object()))  # pyright: ignore[reportArgumentType]
    assert (await log.existing(run)).last_seq == last


async def test_a_board_counts_them_live_and_again_and_whatever_is_annotated_while_it_reads(log: MemoryLog) -> None:
    board = Dashboard([panel("Annotations", count(Annotation))])
    runs = [await ran(log, ScriptedModel(["Hello."])) for _ in range(3)]
    for run in runs[:2]:
        await log.annotate(run, Annotation("rating", 5))
    seen: list[Record] = []
    log_records(log).pipe(ops.filter(lambda each: isinstance(each.event, Custom))).subscribe(seen.append)
    await log.annotate(runs[2], Annotation("rating", 1))
    await until(lambda: len(seen) == 3)
    await log.annotate(runs[0], Annotation("rating", 2), Annotation("correct", True))
    await until(lambda: len(seen) == 5)
    assert [state.value for state in await fold_log(board, log)] == [5]
