"""What a masking hook hides is stored only until the hooks have seen it, and leaves with no export."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rxworker import Answer, Finished, Worker, after_tool_call, tool
from rxworker.events import RunResume, ToolOutput, ToolStop
from rxworker.hooks import ToolResultContext
from rxworker.log import EventLog, MemoryLog, SQLiteLog, export_run, fork_run
from rxworker.testing import call, say
from tests.log.processes import stored
from tests.log.victim import ByTurn
from tests.pauses import pause_of

SECRET = "4111-1111-1111-1111"
REPLIES = [call("read", card="a"), say("Done.")]


@after_tool_call(name="mask")
def mask(context: ToolResultContext) -> None:
    """Hide the number."""
    context.set_content(context.result.text.replace(SECRET, "****"))


class Gate:
    """A hook that waits, so that the process may end there."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self.seen: list[str] = []

        @after_tool_call(name="gate")
        async def gate(context: ToolResultContext) -> None:
            self.seen.append(context.result.text)
            self.reached.set()
            await self.open.wait()

        self.hook = gate


class Till:
    """A tool with a secret in its result, which counts its calls."""

    def __init__(self, **options: Any) -> None:
        self.count = 0

        @tool(**options)
        async def read(card: str) -> str:
            """Read a card."""
            self.count += 1
            return f"{card}: {SECRET}"

        self.tools = [read]

    def worker(self, log: EventLog, *hooks: Any) -> Worker:
        """A worker with the tool."""
        return Worker(ByTurn(REPLIES), tools=self.tools, hooks=[*hooks, mask], log=log)


async def all_of(log: EventLog, run_id: str) -> str:
    """Everything that a log gives away of a run."""
    entries = [entry.body.decode() async for entry in log.read(run_id)]
    info = await log.info(run_id)
    listed = [repr(each) for each in await log.list()]
    exported = [line.decode() async for line in export_run(log, run_id)]
    return "".join([*entries, repr(info), *listed, *exported])


def opened(kind: str, tmp_path: Any) -> EventLog:
    return MemoryLog() if kind == "memory" else SQLiteLog(tmp_path / "runs.db")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_result_that_a_hook_has_masked_is_nowhere_when_the_run_has_ended(kind: str, tmp_path: Any) -> None:
    till = Till()
    async with opened(kind, tmp_path) as log:
        run = till.worker(log).run("Read.")
        assert isinstance(await run, Finished)
        assert "a: ****" in await all_of(log, run.id)
        assert SECRET not in await all_of(log, run.id)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_result_that_hooks_had_not_seen_survives_its_process_and_is_not_exported(
    kind: str, tmp_path: Any
) -> None:
    till, gate = Till(), Gate()
    async with opened(kind, tmp_path) as log:
        run = till.worker(log, gate.hook).run("Read.")
        async with asyncio.timeout(60):
            await gate.reached.wait()
        await run.barrier()
        info = await log.existing(run.id)
        assert [(at, result.text) for at, result in info.row.held.items()] == [(0, f"a: {SECRET}")]
        assert SECRET not in "".join([line.decode() async for line in export_run(log, run.id)])
        await run.hand_over(seconds=0.0)
        after = Gate()
        after.open.set()
        assert isinstance(await till.worker(log, after.hook).recover(run.id), Finished)
        assert (after.seen, till.count) == ([f"a: {SECRET}"], 1)
        assert SECRET not in await all_of(log, run.id)


async def test_an_answer_of_a_person_is_stored_until_the_hooks_have_seen_it() -> None:
    till, gate = Till(requires_approval=True), Gate()
    async with MemoryLog() as log:
        paused = await pause_of(till.worker(log).run("Read."))
        decisions = {paused.pending[0].id: Answer(f"b: {SECRET}")}
        run = till.worker(log, gate.hook).resume(paused, decisions=decisions)
        async with asyncio.timeout(60):
            await gate.reached.wait()
        await run.barrier()
        assert SECRET not in "".join([line.decode() async for line in export_run(log, run.id)])
        await run.hand_over(seconds=0.0)
        after = Gate()
        after.open.set()
        assert isinstance(await till.worker(log, after.hook).recover(run.id), Finished)
        assert (after.seen, till.count) == ([f"b: {SECRET}"], 0)
        assert SECRET not in await all_of(log, run.id)


async def test_a_fork_behind_the_end_of_a_call_has_the_masked_result() -> None:
    till = Till()
    async with MemoryLog() as log:
        run = till.worker(log).run("Read.")
        await run
        records = await stored(log, run.id)
        stop = next(r.seq for r in records if isinstance(r.event, ToolStop))
        output = next(r.seq for r in records if isinstance(r.event, ToolOutput))
        for seq in range(stop, output + 1):
            fork = await fork_run(log, run.id, seq)
            result = await till.worker(log).recover(fork)
            texts = [r.text for m in result.conversation.messages for r in m.tool_results]
            assert (texts, till.count) == (["a: ****"], 1), seq


async def test_a_fork_of_a_run_with_an_answer_has_the_answer() -> None:
    till = Till(requires_approval=True)
    async with MemoryLog() as log:
        paused = await pause_of(till.worker(log).run("Read."))
        decisions = {paused.pending[0].id: Answer(f"b: {SECRET}")}
        run = till.worker(log).resume(paused, decisions=decisions)
        await run
        records = await stored(log, run.id)
        assert isinstance(records[0].event, RunResume)
        fork = await fork_run(log, run.id, 1)
        result = await till.worker(log).recover(fork)
        texts = [r.text for m in result.conversation.messages for r in m.tool_results]
        assert (texts, till.count) == (["b: ****"], 0)
