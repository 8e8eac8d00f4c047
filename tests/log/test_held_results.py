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


@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_result_that_hooks_had_not_seen_survives_its_process_and_is_not_exported(
    kind: str, is_answered: bool, tmp_path: Any
) -> None:
    """That of a tool, and the answer of a person. Masked, it is nowhere when the run has ended."""
    till, gate = Till(requires_approval=is_answered), Gate()
    async with opened(kind, tmp_path) as log:
        if is_answered:
            paused = await pause_of(till.worker(log).run("Read."))
            decisions = {paused.pending[0].id: Answer(f"a: {SECRET}")}
            run = till.worker(log, gate.hook).resume(paused, decisions=decisions)
        else:
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
        assert (after.seen, till.count) == ([f"a: {SECRET}"], int(not is_answered))
        assert "a: ****" in await all_of(log, run.id)
        assert SECRET not in await all_of(log, run.id)


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_fork_has_the_masked_result_or_answer(is_answered: bool, log: MemoryLog) -> None:
    till = Till(requires_approval=is_answered)
    run = till.worker(log).run("Read.")
    if is_answered:
        paused = await pause_of(run)
        run = till.worker(log).resume(paused, decisions={paused.pending[0].id: Answer(f"a: {SECRET}")})
    await run
    records = await stored(log, run.id)
    assert isinstance(records[0].event, RunResume) is is_answered
    stop = next(r.seq for r in records if isinstance(r.event, ToolStop))
    output = next(r.seq for r in records if isinstance(r.event, ToolOutput))
    for seq in {1} if is_answered else range(stop, output + 1):
        fork = await fork_run(log, run.id, seq)
        result = await till.worker(log).recover(fork)
        texts = [r.text for m in result.conversation.messages for r in m.tool_results]
        assert (texts, till.count) == (["a: ****"], int(not is_answered)), seq
