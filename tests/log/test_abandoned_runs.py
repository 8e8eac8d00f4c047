"""Runs that are cut off and that no process can continue.

Nested ones whose outer run has ended, those without a record, and those whose paused run is gone.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from rxworker import Approve, Paused, Run, Worker, tool
from rxworker.errors import (
    CommandConflictError,
    DecisionError,
    LeaseHeldError,
    LogError,
    RunCancelledError,
    RunHandedOverError,
    RunStatusError,
)
from rxworker.events import Record, RunAbort, RunStop
from rxworker.log import EventLog, MemoryLog
from rxworker.log.format import entries_of, records_of
from rxworker.log.recover import RunSource, dismiss_run
from rxworker.log.values import Command, RunRow, resumed_id
from rxworker.messages import Message
from rxworker.testing import Reply, ScriptedModel, call, lint, say
from rxworker.tools import ToolContext
from rxworker.worker.nested import worker_tool
from rxworker.worker.queue import QueuedWorker, work
from tests.log.conftest import OpenLog
from tests.log.victim import ByTurn
from tests.pauses import pause_of


def make_worker(log: EventLog, in_tool: asyncio.Event, may_end: asyncio.Event) -> Worker:
    """A run in a run in a run, the innermost with a tool that takes as long as the test wants."""

    @tool
    async def pay(context: ToolContext) -> str:
        """Pay."""
        in_tool.set()
        await may_end.wait()
        return "paid"

    inner = Worker(ByTurn([say("One") + call("pay"), say("Done.")]), tools=[pay])
    middle = Worker(
        ByTurn([call("pay_by", task="Pay."), say("Done.")]),
        tools=[worker_tool(inner, name="pay_by", description="Pay.")],
    )
    asks = worker_tool(middle, name="ask_to", description="Ask.")
    return Worker(ByTurn([call("ask_to", task="Pay."), say("Done.")]), tools=[asks], log=log)


async def killed() -> tuple[MemoryLog, list[str]]:
    """A log as a process left it that was killed while the innermost tool ran.

    The ids of the three runs, the outermost first.
    """
    in_tool, may_end = asyncio.Event(), asyncio.Event()
    async with MemoryLog() as log:
        run = make_worker(log, in_tool, may_end).run("Begin.")
        await in_tool.wait()
        await run.barrier()
        infos = await log.list()
        entries = {info.run_id: [entry async for entry in log.read(info.run_id)] for info in infos}
        may_end.set()
        await run
    left = MemoryLog(lease=0.0)
    runs = sorted(entries, key=len)
    for info in reversed(infos):
        claim = await left.claim(info.run_id, create=True)
        await left.append(claim, entries[info.run_id], after=0, row=info.row)
    left.lease = 15.0
    return left, runs


async def check_ended(log: EventLog, runs: list[str]) -> None:
    """All of these runs are aborted, and their records are legal."""
    assert await log.list(status="running") == []
    for run in runs:
        records = list(records_of([entry async for entry in log.read(run)], run))
        own = [record for record in records if not record.path]
        assert isinstance(own[-1].event, RunAbort), run
        assert lint([record.event for record in own]) == []
        info = await log.existing(run)
        assert (info.status, info.row.cause, info.owner) == ("aborted", "cancel", "")
    assert sorted(await log.prune(max_runs=0)) == sorted(runs)


async def test_a_cancellation_after_a_crash_ends_the_nested_runs_too() -> None:
    log, runs = await killed()
    await log.send(runs[0], Command("cancel"))
    worker = make_worker(log, asyncio.Event(), asyncio.Event())
    with pytest.raises(RunCancelledError):
        await worker.recover(runs[0])
    await check_ended(log, runs)


async def test_runs_nested_in_one_that_has_ended_are_ended_by_whatever_takes_runs() -> None:
    """Each way in which the outer run may end: before the look, after it, and by its deletion."""
    for is_late in (False, True):
        log, runs = await killed()
        async with RunSource(log) as source:
            if is_late:
                claim = await log.claim(runs[0])
                assert await source.take(wait=False) is None
                assert len(await log.list(status="running")) == 3  # its process may make the calls again
                end = Record(claim.last_seq + 1, runs[0], 1, 1, 0.0, RunAbort("cancel", "x"))
                aborted = RunRow("aborted", cause="cancel")
                await log.append(claim, entries_of([end], 2), after=claim.last_seq, row=aborted)
                await log.release(claim)
            else:
                await end_run_alone(log, runs[0])
            await source.catch_up((await log.info(runs[0])).revision)  # pyright: ignore[reportOptionalMemberAccess]
            assert await source.take(wait=False) is None
        assert await log.list(status="running") == []
    log, runs = await killed()
    await log.delete(runs[0])
    async with RunSource(log) as source:
        assert await source.take(wait=False) is None
    assert await log.list(status="running") == []
    assert {info.status for info in await log.list()} == {"aborted"}


async def end_run_alone(log: EventLog, run_id: str) -> None:
    claim = await log.claim(run_id)
    await log.append(claim, [], after=claim.last_seq, row=RunRow("aborted"))
    await log.release(claim)


async def test_a_run_nested_in_one_of_another_log_is_left_to_that() -> None:
    log, runs = await killed()
    for run in runs[1:]:
        claim = await log.claim(run)
        info = await log.existing(run)
        await log.append(claim, [], after=claim.last_seq, row=RunRow(outer="run-of-another-log"))
        await log.release(claim)
    async with RunSource(log) as source:
        info = await source.take(wait=False)
        assert info is not None
        assert info.run_id == runs[0]
        assert await source.take(wait=False) is None
    assert len(await log.list(status="running")) == 3


async def recovered(worker: Worker, run_id: str) -> Run[object]:
    """Recover a run when its lease has ended, by the clock of the store."""
    while True:
        try:
            return await worker.recover(run_id).started()
        except LeaseHeldError as error:
            await asyncio.sleep(max(error.until - time.time(), 0.0) + 0.005)


async def test_a_run_without_a_record_is_not_continued_and_not_held(open_store: OpenLog) -> None:
    """Its process ended between its claim and its first append: nothing was accepted."""
    async with open_store(lease=0.0) as log:
        await log.claim("run-0", create=True, row=RunRow(title="Hi"))
        log.lease = 15.0
        worker = Worker(ScriptedModel(["Hello."]), log=log)
        with pytest.raises(LogError, match="run-0 has no records"):
            await recovered(worker, "run-0")
        info = await log.existing("run-0")
        assert (info.owner, await log.list()) == ("", [])
        async with RunSource(log) as source:
            assert await source.take(wait=False) is None
        held = await log.claim("run-1", create=True)
        await worker.run("Hi")
        assert await log.prune(max_age=3600) == []
        assert await log.prune(max_runs=5) == []
        pruned = await log.prune(max_age=-1)
        assert len(pruned) == 2
        assert "run-0" in pruned
        await log.append(held, entries_of([Record(1, "run-1", 0, 0, 0.0, RunStop())], 1), after=0)
        assert [info.run_id for info in await log.list()] == ["run-1"]


async def test_a_run_that_resumes_a_deleted_one_is_continued() -> None:
    log = MemoryLog(lease=0.0)

    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    async with MemoryLog() as first:
        worker = Worker(ScriptedModel([call("pay"), "Done."]), tools=[pay], log=first)
        paused = await worker.run("Pay.")
        resumed = worker.resume()
        await resumed
        entries = [entry async for entry in first.read(resumed.id)]
        assert paused.run_id in resumed.id
    for name, some in ((paused.run_id, []), (resumed.id, entries[:1])):
        claim = await log.claim(name, create=True)
        if some:
            await log.append(claim, some, after=0, row=RunRow(resumes=paused.run_id))
    await log.delete(paused.run_id)
    log.lease = 15.0
    working = asyncio.create_task(work(log, lambda _: Worker(ScriptedModel(["Done."]), tools=[pay], log=log)))
    async with asyncio.timeout(60):
        async for infos in log.changes(every=0.0):
            if any(info.status == "finished" for info in infos):
                break
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    (info,) = await log.list()
    assert (info.run_id, info.row.recoveries) == (resumed.id, 1)


async def test_a_hand_over_hands_the_nested_runs_over_too(log: MemoryLog) -> None:
    """Its tools do not end in time.

    The nested runs are not cancelled, and the process that continues the outer run continues them. Whether the tool has
    had its effect is not known, so that all of them wait for a decision.
    """
    in_tool, may_end = asyncio.Event(), asyncio.Event()
    run = make_worker(log, in_tool, asyncio.Event()).run("Begin.")
    await in_tool.wait()
    with pytest.raises(RunHandedOverError):
        await asyncio.gather(run, run.hand_over(reason="a new version", seconds=0.0))
    assert {info.status for info in await log.list()} == {"running"}
    assert {info.owner for info in await log.list()} == {""}
    may_end.set()
    worker = make_worker(log, in_tool, may_end)
    paused = await pause_of(worker.recover(run.id))
    assert [each.name for each in paused.pending] == ["ask_to", "pay_by", "pay"]
    assert {info.status for info in await log.list()} == {"paused"}
    with pytest.raises(DecisionError, match="it is not known whether the call"):
        await worker.resume(paused)
    result = await worker.resume(paused, decisions=[None, None, Approve()])
    results = [r for message in result.conversation.messages for r in message.tool_results]
    assert [(one.text, one.is_error) for one in results] == [("Done.", False)]
    assert [info.status for info in await log.list()] == ["finished"] * 3 + ["paused"] * 3


def by_turn(*replies: Reply | str) -> ByTurn:
    return ByTurn([say(reply) if isinstance(reply, str) else reply for reply in replies])


async def test_a_run_that_resumes_another_continues_its_nested_runs() -> None:
    """Otherwise a call of a nested run would be made again, if the outer run was cut off and then paused."""
    in_tool, may_end, paid = asyncio.Event(), asyncio.Event(), list[str]()

    @tool
    async def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "paid"

    @tool(effect="idempotent")
    async def wait() -> str:
        """Wait."""
        in_tool.set()
        await may_end.wait()
        return "waited"

    def make(_: object = None) -> Worker:
        inner = Worker(by_turn(call("pay"), call("wait"), "Paid."), tools=[pay, wait])
        asks = worker_tool(inner, name="ask_to", description="Ask.")
        return Worker(by_turn(call("ask_to", task="Pay."), "Done."), tools=[asks], log=log)

    async with MemoryLog() as log:
        run = make().run("Begin.")
        await in_tool.wait()
        await asyncio.wait([run.hand_over(seconds=0.0)])
        await log.send(run.id, Command("pause"))
        assert isinstance(await make().recover(run.id), Paused)
        in_tool.clear()
        resumed = await make().decide(run.id).started()
        await in_tool.wait()
        await asyncio.wait([resumed.hand_over(seconds=0.0)])
        async with RunSource(log) as source:  # whatever takes runs leaves the nested one to it
            taken = await source.take()
            assert taken is not None
            assert taken.run_id == resumed.id
            assert await source.take(wait=False) is None
        may_end.set()
        assert (await make().recover(resumed.id)).text == "Done."
        assert paid == ["paid"]
        assert sorted(info.status for info in await log.list()) == ["finished", "finished", "paused"]


@pytest.mark.parametrize("way", ["program", "queue", "command", "dismissal", "cancellation"])
async def test_a_decision_about_a_nested_run_is_stored_with_the_outermost_run(way: str, log: MemoryLog) -> None:
    in_tool, may_end = asyncio.Event(), asyncio.Event()
    run = make_worker(log, in_tool, may_end).run("Begin.")
    await in_tool.wait()
    nested = max([info.run_id for info in await log.list()], key=len)
    await log.send(nested, Command("pause"))
    may_end.set()
    await pause_of(run)
    assert {info.status for info in await log.list()} == {"paused"}
    worker, going_on = make_worker(log, in_tool, may_end), resumed_id(run.id)
    if way == "dismissal":
        await dismiss_run(log, run.id, "not wanted")
        assert {(info.status, info.row.reason) for info in await log.list()} == {
            ("aborted", "not wanted"),
            ("aborted", "its outer run has ended"),
        }
        return
    if way == "program":
        with pytest.raises(DecisionError, match="takes no messages"):
            await worker.decide(nested, add=[Message.user("And hurry.")])
        result = await worker.decide(nested)
    else:
        if way == "command":  # stored as it is, by a program of its own
            await log.send(nested, Command("decide", {"decisions": []}, key="decide"))
            async with RunSource(log) as source:
                due: Any = await source.take(wait=False)
            assert due.run_id == run.id
        elif way == "queue":
            assert await QueuedWorker("", log=log).decide_later(nested) == going_on
        else:
            await log.send(nested, Command("cancel", {"reason": "enough"}))
            await QueuedWorker("", log=log).decide_later(run.id)
        result = await worker.recover(run.id)
    assert result.run_id == going_on
    ended = await log.existing(resumed_id(nested))
    assert ended.status == ("aborted" if way == "cancellation" else "finished")
    assert result.text == "Done."
    with pytest.raises((CommandConflictError, RunStatusError)):
        await worker.decide(nested)
    assert [
        info.run_id for info in await log.list(status="paused") if not await log.info(resumed_id(info.run_id))
    ] == []
