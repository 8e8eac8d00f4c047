"""A run that leaves its process in good order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rxworker import Finished, Worker, tool
from rxworker.errors import LocalProtocolError, RunHandedOverError
from rxworker.events import AttemptRetract, HandOver, MessageAdd, RunRecover, ToolStart, TurnStop
from rxworker.log import EventLog, MemoryLog
from rxworker.testing import ScriptedModel, call, lint, say
from rxworker.worker import recover_all
from tests.log.processes import stored
from tests.log.victim import ByTurn

REPLIES = [say("One moment.") + call("work", n=1), say("Done.")]


class Shop:
    """A tool that takes as long as the test wants."""

    def __init__(self) -> None:
        self.started, self.go_on = asyncio.Event(), asyncio.Event()
        self.done: list[int] = []

        @tool(effect="idempotent")
        async def work(n: int) -> str:
            """Work."""
            self.started.set()
            await self.go_on.wait()
            self.done.append(n)
            return "worked"

        self.tool = work

    def worker(self, log: EventLog, **options: Any) -> Worker:
        """A worker of this shop."""
        return Worker(ByTurn(REPLIES), tools=[self.tool], log=log, name="shop", **options)


async def finish(log: EventLog, shop: Shop) -> list[Finished[object]]:
    """Recover what is cut off, and wait for it."""
    shop.go_on.set()
    runs = [run async for run in recover_all(log, lambda _: shop.worker(log), once=True)]
    return [await run for run in runs]  # pyright: ignore[reportReturnType]


async def test_a_tool_may_finish_and_no_turn_is_begun(store: EventLog) -> None:
    shop = Shop()
    run = shop.worker(store).run("Begin.")
    await shop.started.wait()
    leaving = run.hand_over(reason="a deployment")
    assert not leaving.done()
    shop.go_on.set()
    with pytest.raises(RunHandedOverError, match="a deployment"):
        await run
    kinds = [type(record.event) for record in await stored(store, run.id)]
    assert kinds[-3:] == [MessageAdd, TurnStop, HandOver]
    info = await store.existing(run.id)
    assert (info.status, info.owner, info.is_cut_off()) == ("running", "", True)
    (result,) = await finish(store, Shop())  # at once: nobody waits for the lease
    assert result.text == "Done."
    assert shop.done == [1]


async def test_a_tool_that_takes_too_long_is_given_up_and_made_again(store: EventLog) -> None:
    shop = Shop()
    run = shop.worker(store).run("Begin.")
    await shop.started.wait()
    await run.hand_over(seconds=0.01)
    with pytest.raises(RunHandedOverError):
        run.result()
    records = await stored(store, run.id)
    assert [type(record.event) for record in records[-2:]] == [ToolStart, HandOver]
    other = Shop()
    (result,) = await finish(store, other)
    assert (result.text, other.done, shop.done) == ("Done.", [1], [])


async def test_a_response_that_is_being_received_is_retracted(store: EventLog) -> None:
    model = ScriptedModel([say("One moment, please.") + call("work", n=1)], delay=0.01)
    shop = Shop()
    run = Worker(model, tools=[shop.tool], log=store).run("Begin.")
    async for record in run:
        if type(record.event).__name__ == "TextDelta":
            break
    await run.hand_over()
    records = await stored(store, run.id)
    assert [type(record.event) for record in records[-2:]] == [AttemptRetract, HandOver]
    assert lint(records, complete=False) == []
    (result,) = await finish(store, shop)
    assert result.text == "Done."


async def test_a_run_between_two_turns_stops_there(store: EventLog) -> None:
    run = Shop().worker(store).run("Begin.")
    await run.hand_over()
    assert isinstance((await stored(store, run.id))[-1].event, HandOver)


async def test_only_a_run_with_a_log_is_handed_over() -> None:
    run = Worker(ScriptedModel(["Hello."])).run("Hi")
    with pytest.raises(LocalProtocolError, match=r"has no log.*cancel"):
        run.hand_over()
    await run


async def test_each_run_is_recovered_by_one_process_and_inner_runs_by_their_outer_one(log: MemoryLog) -> None:
    for n in range(5):
        run = Shop().worker(log).run(f"Begin {n}.")
        await run.hand_over()
    shops = [Shop() for _ in range(3)]
    done = [one for some in await asyncio.gather(*(finish(log, shop) for shop in shops)) for one in some]
    assert len(done) == 5
    for info in await log.list():
        records = await stored(log, info.run_id)
        assert sum(isinstance(record.event, RunRecover) for record in records) == 1


async def test_a_run_without_a_worker_is_left_alone(log: MemoryLog) -> None:
    await Shop().worker(log).run("Begin.").hand_over()
    names: list[str] = []

    def make(info: Any) -> None:
        names.append(info.row.worker)

    assert [run async for run in recover_all(log, make, once=True)] == []  # pyright: ignore
    assert names == ["shop"]
    assert (await log.list())[0].is_cut_off()
