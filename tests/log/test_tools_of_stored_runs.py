"""A run is continued by a worker that has its tools: with their names and parameters, whatever their descriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rxworker import Finished, Worker, tool
from rxworker.decisions import Decided
from rxworker.errors import ConfigurationError
from rxworker.events import RunRecover, RunResume
from rxworker.log import EventLog, MemoryLog, Replica
from rxworker.log.recover import RunSource
from rxworker.log.values import Command
from rxworker.messages import ToolMeta
from rxworker.resume.paused import decide_command
from rxworker.resume.stored import digest_of, is_same_tool
from rxworker.testing import call, say
from rxworker.tools import Tool
from rxworker.worker import submit, work
from rxworker.worker.queue import end_cancelled
from tests.log.processes import stored
from tests.log.test_permissions_of_runs import cut
from tests.log.victim import ByTurn
from tests.pauses import pause_of

REPLIES = [call("pay", euros=3), say("Paid.")]


def pay_tool(text: str = "Pay.", **options: Any) -> Tool:
    async def pay(euros: int) -> str:
        return f"paid {euros}"

    pay.__doc__ = text
    return tool(effect="idempotent", **options)(pay)


def renamed() -> Tool:
    @tool(name="pay")
    async def transfer(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    return transfer


def worker(log: EventLog | None, *tools: Tool) -> Worker:
    return Worker(ByTurn(REPLIES), tools=tools, log=log)


def meta(text: str, /, **parameter: Any) -> ToolMeta:
    properties: Any = {"description": {"type": "string", **parameter}}
    return ToolMeta("pay", text, {"type": "object", "properties": properties})


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (meta("Pay."), True),
        (meta("Pay somebody."), True),
        (meta("Pay.", description="Why."), True),
        (meta("Pay.", title="Why", examples=["rent"]), True),
        (meta("Pay.", enum=["rent"]), False),
        (ToolMeta("pay", "Pay.", {"type": "object", "properties": {}}), False),
        (ToolMeta("transfer", "Pay.", meta("").input_schema), False),
    ],
)
def test_a_tool_is_the_same_with_its_name_and_parameters(other: ToolMeta, is_same: bool) -> None:
    assert is_same_tool(digest_of(meta("Pay.")), other) is is_same
    assert (digest_of(meta("Pay.")) == digest_of(other)) is (other == meta("Pay."))


def test_a_digest_that_an_older_version_stored_is_of_the_whole_tool() -> None:
    old = digest_of(meta("Pay.")).partition(".")[2]
    assert is_same_tool(old, meta("Pay."))
    assert not is_same_tool(old, meta("Pay somebody."))


async def test_a_corrected_description_does_not_strand_a_run(log: MemoryLog) -> None:
    run = worker(log, pay_tool()).run("Pay.")
    await run
    name = await cut(log, run.id, "tool_start")
    result = await worker(log, pay_tool("Pay the given sum.")).recover(name)
    assert isinstance(result, Finished)


async def queued(log: MemoryLog) -> str:
    """A run that was submitted, and that a process has begun which has ended since."""
    run = await submit(log, "Pay.")
    begun = await worker(log, pay_tool()).recover(run).started()
    async for record in begun:
        if record.turn == 1:
            break
    await begun.hand_over(seconds=0.0)
    return run


async def resumed(log: MemoryLog) -> str:
    paused = await pause_of(worker(log, pay_tool(requires_approval=True)).run("Pay."))
    run = await worker(log, pay_tool(requires_approval=True)).decide(paused.run_id).started()
    await run
    events = [record.event for record in await stored(log, run.id)]
    assert [set(e.tools) for e in events if isinstance(e, RunResume)] == [{"pay"}]
    return await cut(log, run.id, "tool_start")


async def extended(log: MemoryLog) -> str:
    """A run whose second process has a tool more than the first."""
    run = worker(log).run("Pay.")
    await asyncio.wait([run.hand_over(seconds=0.0)])
    begun = await worker(log, pay_tool()).recover(run.id).started()
    await asyncio.wait([begun.hand_over(seconds=0.0)])
    events = [record.event for record in await stored(log, run.id)]
    assert [set(e.tools) for e in events if isinstance(e, RunRecover)] == [{"pay"}]
    return run.id


@pytest.mark.parametrize("other", [None, renamed])
@pytest.mark.parametrize("begin", [queued, resumed, extended])
async def test_a_worker_without_a_tool_of_the_run_leaves_it_to_others(
    begin: Callable[..., Any], other: Callable[[], Tool] | None, log: MemoryLog
) -> None:
    run = await begin(log)
    lacking = worker(log, *(() if other is None else (other(),)))
    before = await log.existing(run)
    with pytest.raises(ConfigurationError, match="pay"):
        await lacking.recover(run).started()
    async with RunSource(log) as source:
        for _ in range(3):
            info = await source.take(wait=False)
            if info is not None:
                assert await source.recover(info, lambda: lacking.recover(run).started()) is None
            await asyncio.sleep(0.02)
    after = await log.existing(run)
    assert (after.last_seq, after.owner, after.epoch - before.epoch) == (before.last_seq, "", 2)
    result = await worker(log, pay_tool()).recover(run)
    assert isinstance(result, Finished)
    assert [r.text for m in result.conversation.messages for r in m.tool_results] == ["paid 3"]


async def test_a_paused_run_that_was_decided_about_is_left_to_a_worker_with_its_tools(log: MemoryLog) -> None:
    paused = await pause_of(worker(log, pay_tool(requires_approval=True)).run("Pay."))
    with pytest.raises(ConfigurationError, match="lacks pay"):
        await worker(log).decide(paused.run_id).started()
    assert await log.sent(paused.run_id) == []
    await log.send(paused.run_id, decide_command(paused, Decided(None)))
    ended = asyncio.get_running_loop().create_future()

    def finish(each: asyncio.Future[Any]) -> None:
        ended.set_result(each.result())

    def begun(run: Any) -> None:
        asyncio.ensure_future(run).add_done_callback(finish)

    async with asyncio.timeout(60):
        tasks = [
            asyncio.create_task(work(log, lambda _: worker(None), on_run=begun)),
            asyncio.create_task(work(log, lambda _: worker(None, pay_tool()), on_run=begun)),
        ]
        result = await ended
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert [r.text for m in result.conversation.messages for r in m.tool_results] == ["paid 3"]


async def test_a_tool_that_no_worker_had_is_still_reported_to_the_model(log: MemoryLog) -> None:
    """The model has made its name up."""
    replies = [call("pay", euros=3) + call("fly", to="Mars"), say("Done.")]
    first = Worker(ByTurn(replies), tools=[pay_tool(requires_approval=True)], log=log)
    paused = await pause_of(first.run("Pay."))
    other = Worker(ByTurn(replies), tools=[pay_tool(requires_approval=True)], log=log)
    result = await other.decide(paused.run_id)
    texts = [r.text for m in result.conversation.messages for r in m.tool_results]
    assert texts[0] == "paid 3"
    assert "fly" in texts[1]


@pytest.mark.parametrize("kind", ["run_start", "tool_start"])
async def test_a_run_that_was_put_back_is_cancelled_by_a_process_without_its_tools(kind: str, log: MemoryLog) -> None:
    run = worker(log, pay_tool()).run("Pay.")
    await run
    name = await cut(log, run.id, kind)
    recovered = await worker(log, pay_tool()).recover(name).started()
    await recovered.cancel()
    await log.requeue(name)
    await log.send(name, Command("cancel", {"reason": "enough"}))
    await end_cancelled(log, name)
    info = await log.existing(name)
    assert (info.status, info.owner, info.row.cause) == ("aborted", "", "cancel")


async def test_a_fork_by_a_worker_that_lacks_a_tool_stores_nothing(log: MemoryLog) -> None:
    run = worker(log, pay_tool()).run("Pay.")
    await run
    with pytest.raises(ConfigurationError, match="pay"):
        await worker(log).fork(run.id, run.last_seq - 1)
    assert [info.run_id for info in await log.list()] == [run.id]


async def test_a_run_that_was_put_back_shows_which_tools_no_process_has(store: EventLog) -> None:
    run = worker(store, pay_tool()).run("Pay.")
    await run.cancel()
    await store.requeue(run.id)
    assert (await store.existing(run.id)).row.reason == ""
    async with asyncio.timeout(60):
        lacking = asyncio.create_task(work(store, lambda _: worker(None)))
        async for _ in store.changes(every=0.0):
            if (await store.existing(run.id)).row.reason:
                break
        waiting = await store.existing(run.id)
        assert waiting.status == "queued"
        assert waiting.row.reason == (
            f"{run.id} cannot be continued by a worker that lacks pay: "
            "start one with the tools that the run was started with"
        )
        replica = Replica(store, run.id)
        having = asyncio.create_task(work(store, lambda _: worker(None, pay_tool())))
        while (await store.existing(run.id)).status == "queued":  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert (await store.existing(run.id)).row.reason == ""
        await replica.ended()
        for task in (lacking, having):
            task.cancel()
        await asyncio.wait([lacking, having])
        replica.close()
    assert (await store.existing(run.id)).row.reason == ""
