"""Conversations are stored once, and no deletion loses what a later run refers to."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest

from rxworker import Session, Worker, tool
from rxworker.decisions import Approve
from rxworker.errors import LogError
from rxworker.events import RunResume, RunStart
from rxworker.log import EventLog, MemoryLog, base, export_run, fork_run, import_run
from rxworker.log.format import record_of
from rxworker.messages import Conversation
from rxworker.resume.stored import read_run
from rxworker.testing import ScriptedModel, call
from rxworker.turn.result import Paused
from tests.log.conftest import OpenLog
from tests.whole import IS_WHOLE

TEXT = 300
RUNS = 30 if IS_WHOLE else 16


async def session_of(log: EventLog, count: int) -> list[str]:
    """A session of some runs. Returns their ids."""
    session = Session(Worker(ScriptedModel(["y" * TEXT] * count), log=log))
    runs: list[str] = []
    for number in range(count):
        run = session.run(f"{number} " + "x" * TEXT)
        await run
        runs.append(run.id)
    return runs


async def conversation_of(log: EventLog, run: str) -> Conversation:
    """The conversation that a stored run begins with."""
    entry = await anext(log.read(run))
    event = record_of(entry, run).event
    assert isinstance(event, RunStart | RunResume)
    assert b'"base":' not in entry.body
    return event.conversation


async def all_of(log: EventLog, runs: Sequence[str]) -> dict[str, bytes]:
    return {run: msgspec.json.encode(await conversation_of(log, run)) for run in runs}


async def size_of(log: EventLog) -> int:
    return sum([info.size async for infos in log.list_pages() for info in infos])


async def test_the_runs_of_a_session_take_three_times_their_texts(store: EventLog) -> None:
    runs = await session_of(store, RUNS)
    assert len((await conversation_of(store, runs[-1])).messages) == 2 * RUNS - 1
    if store.keeps_bases:
        assert await size_of(store) < 3 * RUNS * (2 * TEXT + 3) + 900 * RUNS


@pytest.mark.parametrize("seed", range(6 if IS_WHOLE else 1))
async def test_deletions_in_any_order_lose_nothing_of_later_runs(seed: int, store: EventLog) -> None:
    chance = random.Random(seed)
    runs = await session_of(store, 8)
    # Two more go on from the middle.
    for _ in range(2):
        found = await read_run(store, chance.choice(runs[:6]))
        session = Session(Worker(ScriptedModel(["z"] * 2), log=store))
        session.go_on_from(found.state)
        for text in ("another", "way"):
            run = session.run(text)
            await run
            runs.append(run.id)
    before = await all_of(store, runs)
    left: list[str] = [*runs]
    gone: Sequence[str]
    while left:
        if chance.random() < 0.4:
            most = max(len(left) - chance.randint(1, 4), 0)
            gone = await store.prune(max_runs=most)
            assert gone
        else:
            gone = [chance.choice(left)]
            await store.delete(gone[0])
        left = [run for run in left if run not in gone]
        assert await all_of(store, left) == {run: before[run] for run in left}


async def test_pruning_to_one_run_leaves_one_whole_conversation(store: EventLog) -> None:
    runs = await session_of(store, 10)
    before = await all_of(store, runs[-1:])
    assert sorted(await store.prune(max_runs=1)) == sorted(runs[:-1])
    assert await all_of(store, runs[-1:]) == before
    with pytest.raises(LogError):
        await anext(store.read(runs[0]))


async def test_deleting_one_run_of_many_does_not_store_the_conversation_again(store: EventLog) -> None:
    runs = await session_of(store, 12)
    size = await size_of(store)
    for run in runs[3:9:2]:
        await store.delete(run)
    if store.keeps_bases:
        assert await size_of(store) < size


async def test_copies_are_whole_wherever_they_go(open_store: OpenLog) -> None:
    async with open_store() as log, MemoryLog() as other:
        runs = await session_of(log, 4)
        before = await conversation_of(log, runs[-1])
        lines = [line async for line in export_run(log, runs[-1])]
        await import_run(other, lines)
        assert await conversation_of(other, runs[-1]) == before
        fork = await fork_run(log, runs[-1], 4)
        for run in runs:
            await log.delete(run)
        assert await conversation_of(log, fork) == before


class Reversed:
    """Applies a key of each run."""

    def __init__(self) -> None:
        self.gone: set[str] = set()

    def encode(self, data: bytes, run_id: str, /) -> bytes:
        return b"r" + data[::-1]

    def decode(self, data: bytes, run_id: str, /) -> bytes:
        if run_id in self.gone:
            raise ValueError("its key was deleted")
        return data if data[:1] == b"{" else data[1:][::-1]


async def test_with_a_codec_the_key_of_a_run_is_enough_to_read_it(open_store: OpenLog) -> None:
    codec = Reversed()
    async with open_store(codec=codec) as log:
        runs = await session_of(log, 3)
        codec.gone.update(runs[:2])
        assert len((await conversation_of(log, runs[2])).messages) == 5


async def test_a_run_that_was_stored_before_there_was_a_codec_is_folded_with_it(open_store: OpenLog) -> None:
    async with open_store() as log:
        runs = await session_of(log, 3)
        before = await conversation_of(log, runs[-1])
        if isinstance(log, MemoryLog):
            return
    async with open_store(codec=Reversed()) as log:
        await log.prune(max_runs=1)
        assert await conversation_of(log, runs[-1]) == before
        assert not (await log._read(runs[-1], 0, 1))[0].body.startswith(b"{") or not log.keeps_bases


async def test_runs_that_resume_each_other_store_their_conversation_once(store: EventLog) -> None:
    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "p" * TEXT

    count = 8
    model = ScriptedModel([call("pay")] * count)
    worker = Worker(model, tools=[pay], log=store)
    result = await worker.run("x" * TEXT)
    for _ in range(count - 1):
        assert isinstance(result, Paused)
        result = await worker.resume(result, decisions=[Approve()])
    last = await conversation_of(store, result.run_id)
    assert sum(len(m.tool_results) for m in last.messages) == count - 2
    if store.keeps_bases:
        assert await size_of(store) < 3 * TEXT * count + 2500 * count
    # The same with the decision in the log, which reads what is paused.
    runs = [info.run_id for info in await store.list()][1:]
    for run in runs:
        await store.delete(run)
    assert await conversation_of(store, result.run_id) == last


async def test_a_run_is_not_deleted_while_one_that_continues_it_begins(
    open_store: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "FEW", 2)  # attempts
    async with open_store() as log:
        if not log.keeps_bases:
            return
        (run,) = await session_of(log, 1)
        claim = await log.claim("next", create=True)
        last = (await log.existing(run)).last_seq
        assert not await log._refer(claim, run, last + 1)
        assert await log._refer(claim, run, last)
        assert await log.prune(max_runs=0) == []
        with pytest.raises(LogError, match="delete it again"):
            await log.delete(run)
        await log.release(claim)
        await log.delete(run)
        assert not await log._refer(claim, run, last)


async def test_a_conversation_that_a_stage_has_shortened_is_stored_as_it_is(store: EventLog) -> None:
    worker = Worker(ScriptedModel(["a", "b"]), log=store)
    first = await worker.run("one")
    cut = first.conversation.with_messages(first.conversation.messages[1:])
    run = Worker(ScriptedModel(["c"]), log=store, conversation=cut).run("two")
    await run
    first_record = await anext(aiter(run))
    assert isinstance(first_record.event, RunStart)
    assert await conversation_of(store, run.id) == first_record.event.conversation


async def test_a_session_goes_on_whole_after_its_last_run_was_deleted(store: EventLog) -> None:
    session = Session(Worker(ScriptedModel(["a", "b"]), log=store))
    first = session.run("one")
    await first
    await store.delete(first.id)
    second = session.run("two")
    await second
    assert len((await conversation_of(store, second.id)).messages) == 3


async def test_a_long_session_is_read_in_a_loop(log: MemoryLog) -> None:
    session = Session(Worker(ScriptedModel(["y"] * 200), log=log))
    for _ in range(200):
        await session.run("x")
    log.bases._known.clear()
    (last,) = await log.list(limit=1)
    assert len((await conversation_of(log, last.run_id)).messages) == 399
