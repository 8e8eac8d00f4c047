"""`submit` with an id that the caller chooses: the same id twice is the same run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from rxworker import Worker, tool
from rxworker.errors import ConfigurationError, LogError, RunHandedOverError
from rxworker.events import ToolStop
from rxworker.log import EventLog, MemoryLog
from rxworker.log.values import RunRow
from rxworker.messages import Conversation, Message, Text
from rxworker.testing import ScriptedModel, call, say
from rxworker.worker import QueuedWorker, submit, work
from tests.log.conftest import OpenLog
from tests.log.test_conformance import START, entries

RUN = "order-4711"


async def test_the_same_id_twice_is_the_same_run(store: EventLog) -> None:
    first = await submit(store, "Two seats.", run_id=RUN, kind="clerk", tenant="acme", priority=2)
    again = await submit(store, "Two seats.", run_id=RUN, kind="clerk", tenant="acme")
    assert (first, again) == (RUN, RUN)
    (info,) = await store.list()
    assert (info.run_id, info.status, info.row.priority) == (RUN, "queued", 2)


async def test_many_at_once_from_two_processes_are_one_run(open_store: OpenLog) -> None:
    async with open_store() as log, open_store() as opened:
        other = log if isinstance(log, MemoryLog) else opened
        found = await asyncio.gather(*(submit(each, "Go", run_id=RUN) for each in [log, other] * 5))
        assert found == [RUN] * 10
        assert len(await log.list()) == 1
        assert [entry.kind async for entry in log.read(RUN)].count("run_start") == 1


async def test_it_is_the_same_run_when_it_runs_has_ended_or_was_cancelled(store: EventLog) -> None:
    made: list[str] = []

    def make(info: Any) -> Worker:
        made.append(info.run_id)
        return Worker(ScriptedModel([say("Done.")]))

    await submit(store, "Go", run_id=RUN)
    claim = await store.claim(RUN)  # a process has taken it
    assert await submit(store, "Go", run_id=RUN) == RUN
    await store.release(claim)
    task = asyncio.create_task(work(store, make))
    async for _ in store.pages(RUN):
        pass
    assert await submit(store, "Go", run_id=RUN) == RUN
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert made == [RUN]
    assert [info.status for info in await store.list()] == ["finished"]


HISTORY = Conversation((Message.user("Hi"), Message.assistant("Hello.")))

OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("input", {"input": "Three seats."}),
    ("input", {"input": Message.user(Text("Two "), Text("seats."))}),
    ("input", {"conversation": HISTORY}),
    ("input", {"conversation": Conversation((), "Be brief.")}),
    ("kind", {"kind": "cook"}),
    ("tenant", {"tenant": "bell"}),
    ("tenant", {"tenant": ""}),
]


@pytest.mark.parametrize(("what", "options"), OTHERS)
async def test_another_run_under_the_same_id_is_refused(what: str, options: dict[str, Any], log: MemoryLog) -> None:
    given: dict[str, Any] = {"input": "Two seats.", "kind": "clerk", "tenant": "acme", "run_id": RUN}
    await submit(log, **given)
    with pytest.raises(LogError, match=f"{RUN}.* another {what}"):
        await submit(log, **{**given, **options})
    assert len(await log.list()) == 1


async def test_the_id_of_a_deleted_run_is_not_used_again(store: EventLog) -> None:
    await submit(store, "Go", run_id=RUN)
    await store.delete(RUN)
    with pytest.raises(LogError, match="was deleted"):
        await submit(store, "Go", run_id=RUN)


async def test_a_run_that_was_not_submitted_is_not_taken_for_one(store: EventLog) -> None:
    worker = Worker(ScriptedModel(["Hello."]), log=store)
    run = worker.run("Hi")
    await run
    assert await submit(store, "Hi", run_id=run.id) == run.id  # the same question, with its answer
    claim = await store.claim("turns", create=True)
    turns = entries([START])
    await store.append(claim, turns, after=0, row=RunRow("finished"))
    with pytest.raises(LogError, match="another"):
        await submit(store, "Other", run_id="turns")


async def test_what_a_dead_process_left_under_the_id_is_taken_over(open_store: OpenLog) -> None:
    """It had claimed the id, and ended before it stored anything."""
    async with open_store(lease=0.02) as log:
        await log.claim(RUN, create=True)
        assert await submit(log, "Go", run_id=RUN) == RUN
        (info,) = await log.list()
        assert info.status == "queued"


@pytest.mark.parametrize("run", ["run~2", " ", "a\nb", "a\0", "half \ud83d", "x" * 300, 7, b"run"])
async def test_what_cannot_be_an_id_is_refused(run: Any, log: MemoryLog) -> None:
    with pytest.raises(ConfigurationError, match="run_id="):
        await submit(log, "Go", run_id=run)
    assert await log.list() == []


@pytest.mark.parametrize("verb", ["recover", "fork"])
async def test_a_stored_run_is_queued_again_without_its_tools(verb: str, log: MemoryLog) -> None:
    @tool
    def note(text: str) -> str:
        """Note a text."""
        return text

    model = ScriptedModel([call("note", text="a"), "Done."])
    run = Worker(model, tools=[note], log=log, name="clerk").run("Note this.")
    async for record in run:
        if isinstance(record.event, ToolStop):
            break
    await run.hand_over(seconds=0.0)
    desk = QueuedWorker("clerk", log=log).new_session()
    again = desk.recover(run.id) if verb == "recover" else desk.fork(run.id, run.last_seq - 1)
    with pytest.raises(RunHandedOverError):
        await again
    assert (await log.existing(again.id)).owner == ""
    other = Worker(ScriptedModel(["Done."]), tools=[note], log=log)
    assert (await other.recover(again.id)).text == "Done."


async def test_a_queued_run_needs_a_log() -> None:
    session = QueuedWorker("clerk").new_session()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="needs a log"):
            session.run("Hi")
