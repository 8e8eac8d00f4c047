"""Aborted runs that are put back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace
from reactivex import operators as ops

from rxworker import Finished, Paused, Worker, tool
from rxworker.errors import LocalProtocolError, RunCancelledError, RunStatusError, WorkerError
from rxworker.events import PauseState, Record, RunAbort, RunPause, RunRecover, TextDelta
from rxworker.log import EventLog, MemoryLog, Replica, dismiss_run, set_allowed
from rxworker.log.format import Entry, entries_of, records_of
from rxworker.log.recover import end_run
from rxworker.log.values import Command, RunRow, StoredStatus
from rxworker.operators import only
from rxworker.resume.recovery import progress_of
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, call, lint, say
from rxworker.views import RunView
from rxworker.views.changes import ViewFinish
from tests.log.processes import stored
from tests.log.test_recover import Bank, cut, singles, upto, whole
from tests.stores import slow_log


async def test_a_run_that_was_set_aside_is_put_back_under_its_id() -> None:
    """It goes on behind its abort.

    The deaths are counted anew: two more are endured, and the third sets it aside again.
    """
    run, entries, _ = await whole()
    every = singles(entries, run)
    start = upto(every, lambda entry: entry.kind == "tool_start" and b'"pay"' in entry.body)
    progress, seq = start[-1].last - 1, start[-1].last

    def deaths(after: int, progress: int) -> list[Entry]:
        events = [RunRecover(n, "x", "", progress) for n in (1, 2)]
        return entries_of([Record(after + n, run, 1, 1, 0.0, event) for n, event in enumerate(events, 1)], 1)

    log = await cut(run, [*start, *deaths(seq, progress)])
    bank = Bank()
    with pytest.raises(WorkerError, match="3 times after record"):
        await bank.worker(log).recover(run)
    (info,) = await log.list()
    assert (info.status, info.row.cause) == ("aborted", "error")
    with pytest.raises(LocalProtocolError, match="is aborted"):
        await bank.worker(log).recover(run).started()

    await log.requeue(run, reason="the machine has more memory")
    (info,) = await log.list(status="queued")
    assert (info.row.reason, info.row.cause, info.owner) == ("", "", "")
    records = await stored(log, run)
    assert [type(record.event).__name__ for record in records[-2:]] == ["RunAbort", "RunRequeue"]
    assert fold_run(records).status == "running"
    put_back = records[-1].seq

    claim = await log.claim(run)
    await log.append(claim, deaths(put_back, put_back), after=put_back, row=replace(info.row, status="running"))
    await log.release(claim)
    result = await bank.worker(log).recover(run)
    assert isinstance(result, Finished)
    records = await stored(log, run)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert fold_run(records) == fold_run(records_of([e async for e in log.read(run)], run))
    assert lint(records) == []
    # The payment whose effect is not known was not made again; the model has read so.
    assert len(bank.paid) == 1
    first = next(r for m in result.conversation.messages for r in m.tool_results)
    assert (first.is_error, "not known" in first.text) == (True, True)


async def test_a_run_that_was_put_back_is_set_aside_again_at_its_third_death() -> None:
    run, entries, _ = await whole()
    log = await cut(run, entries[:2])
    await log.send(run, Command("cancel"))
    with pytest.raises(RunCancelledError):
        await Bank().worker(log).recover(run)
    await log.requeue(run)
    for _ in range(3):
        claim = await log.claim(run)
        progress = progress_of(await stored(log, run))
        again = Record(claim.last_seq + 1, run, 1, 1, 0.0, RunRecover(claim.epoch, "x", "", progress))
        await log.append(claim, entries_of([again], claim.epoch), after=claim.last_seq, row=RunRow())
        await log.release(claim)
    with pytest.raises(WorkerError, match="3 times after record"):
        await Bank().worker(log).recover(run)


async def test_a_run_that_was_cancelled_in_the_middle_of_an_answer_is_put_back_without_that_part(
    log: MemoryLog,
) -> None:
    """And the cancellation, taken or not, does not cancel it again.

    A watcher in another process sees the whole sequence.
    """
    model = ScriptedModel([say("An old silent pond.")], delay=0.001)
    begun = Worker(model, log=log).run("A haiku!")
    await begun.events.pipe(only(TextDelta), ops.first())
    await log.send(begun.id, Command("cancel", {"reason": "lunch"}))
    with pytest.raises(RunCancelledError):
        await begun
    await log.requeue(begun.id)
    result = await (await Worker(ScriptedModel([say("A frog jumps in.")]), log=log).recover(begun.id).started())
    assert isinstance(result, Finished)
    assert [message.text for message in result.conversation.messages] == ["A haiku!", "A frog jumps in."]
    replica = Replica(log, begun.id)
    await replica.ended()
    assert replica.state.status == "finished"
    view = RunView()
    for record in await stored(log, begun.id):
        view.step(record)
    assert view.state == replica.state
    assert isinstance(view.end, ViewFinish)


async def test_only_an_aborted_run_that_is_not_nested_is_put_back() -> None:
    run, entries, _ = await whole()
    statuses: tuple[StoredStatus, ...] = ("queued", "running", "paused", "finished")
    for status in statuses:
        log = await cut(run, entries)
        claim = await log.claim(run)
        await log.append(claim, [], after=entries[-1].last, row=RunRow(status))
        await log.release(claim)
        with pytest.raises(RunStatusError):
            await log.requeue(run)
        assert (await log.list())[0].status == status
    for row, last, match in (
        (RunRow("aborted"), RunPause(PauseState("me", (), ())), "dismissed"),
        (RunRow("aborted", outer="run-0"), RunAbort("error", "x"), "nested in run-0"),
    ):
        log = await cut(run, entries[:2])
        claim = await log.claim(run)
        end = entries_of([Record(claim.last_seq + 1, run, 1, 0, 0.0, last)], 2)
        await log.append(claim, end, after=claim.last_seq, row=row)
        await log.release(claim)
        with pytest.raises(RunStatusError, match=match):
            await log.requeue(run)
        assert (await log.list())[0].owner == ""


@tool(requires_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


async def finished(log: EventLog) -> str:
    run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
    await run
    return run.id


async def aborted(log: EventLog) -> str:
    run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
    await run.cancel()
    return run.id


async def queued(log: EventLog) -> str:
    run = await aborted(log)
    await log.requeue(run)
    return run


async def paused(log: EventLog) -> str:
    run = Worker(ScriptedModel([call("pay")]), tools=[pay], log=log).run("Pay.")
    assert isinstance(await run, Paused)
    return run.id


async def recover(log: EventLog, run_id: str) -> None:
    recovered = Worker(ScriptedModel(["Hello."]), log=log).recover(run_id)
    try:
        await recovered
    except asyncio.CancelledError:
        await recovered.cancel()
        raise


async def allow(log: EventLog, run_id: str) -> None:
    await set_allowed(log, run_id, [("pay", "requires_approval")])


async def end(log: EventLog, run_id: str) -> None:
    await end_run(log, run_id, "not needed")


async def dismiss(log: EventLog, run_id: str) -> None:
    await dismiss_run(log, run_id, "not needed")


async def requeue(log: EventLog, run_id: str) -> None:
    await log.requeue(run_id)


@pytest.mark.parametrize(
    ("begin", "act"), [(aborted, requeue), (queued, recover), (queued, end), (paused, dismiss), (finished, allow)]
)
async def test_a_caller_that_is_cancelled_at_any_step_leaves_no_claim(
    begin: Callable[[EventLog], Awaitable[str]], act: Callable[[EventLog, str], Coroutine[Any, Any, None]]
) -> None:
    for step in range(200):
        async with slow_log(0.0) as log:
            run = await begin(log)
            task = asyncio.create_task(act(log, run))
            for _ in range(step):
                await asyncio.sleep(0)
            if not task.cancel():
                task.result()
                return
            await asyncio.wait({task})
            async with asyncio.timeout(60):
                while (info := await log.info(run)) is None or info.owner:
                    # A run that recovers gives its claim back after its last record.
                    assert not task.cancelled() or act is recover, step
                    await asyncio.sleep(0)
    pytest.fail("it did not end")
