"""`Run.cancel_when_unobserved`, `Run.snapshot` and `Run.watchers`: what a run knows of those who watch it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from reactivex import abc
from reactivex.testing import TestScheduler

from rxworker import Worker, tool, worker_tool
from rxworker.errors import ConfigurationError, RunCancelledError
from rxworker.events import Record, TextDelta
from rxworker.hub import Coalesce, Delivery, Hub, Latest, Reliable, WatcherState
from rxworker.hub.hub import when_idle
from rxworker.state import RunState, fold_run
from rxworker.testing import ScriptedModel, call, say, stall, think
from rxworker.tools import ToolContext


class Stand:
    """A hub on virtual time, and when its lonely end came."""

    def __init__(self, grace: float = 10) -> None:
        self.clock = TestScheduler()
        self.hub = Hub(defer=self._soon)
        self.acted: list[float] = []
        self.subscription = when_idle(self.hub, grace, self.clock, self._act)

    def _soon(self, call: Callable[[], None]) -> None:
        def go(_: abc.SchedulerBase, __: object = None) -> None:
            call()

        self.clock.schedule(go)

    def _act(self) -> None:
        self.acted.append(self.clock.clock)

    def wait(self, time: float) -> None:
        self.clock.advance_by(time)


def test_a_run_without_any_watcher() -> None:
    stand = Stand()
    stand.wait(9)
    assert stand.acted == []
    stand.wait(2)
    assert stand.acted == [10]
    stand.wait(50)
    assert stand.acted == [10]
    at_once = Stand(0)
    assert at_once.acted == []
    at_once.wait(1)
    assert len(at_once.acted) == 1


def test_the_grace_begins_when_the_last_one_leaves() -> None:
    stand = Stand()
    first = stand.hub.subscribe()
    second = stand.hub.watch(Coalesce()).subscribe()
    stand.wait(50)
    first.dispose()
    stand.wait(50)
    second.dispose()
    stand.wait(9)
    assert stand.acted == []
    stand.wait(2)
    assert len(stand.acted) == 1
    assert 110 <= stand.acted[0] <= 111


def test_a_watcher_that_comes_back_in_time_keeps_it() -> None:
    stand = Stand()
    for _ in range(5):
        stand.wait(8)
        subscription = stand.hub.watch(Latest()).subscribe()
        stand.wait(20)
        subscription.dispose()
    assert stand.acted == []
    stand.wait(20)
    assert len(stand.acted) == 1


def test_a_watcher_that_comes_back_at_the_last_moment_keeps_it() -> None:
    """In the same turn, before anybody has been told that it has come."""
    stand = Stand()

    def come_back(_: abc.SchedulerBase, __: object = None) -> None:
        stand.hub.subscribe()

    stand.wait(1)
    first = stand.hub.subscribe()
    stand.clock.schedule_absolute(15, come_back)
    stand.wait(4)
    first.dispose()
    stand.wait(40)
    assert stand.acted == []


def test_one_that_raises_is_no_longer_a_watcher() -> None:
    stand = Stand()

    def boom(_: Record) -> None:
        raise ValueError

    stand.hub.watch().subscribe(boom)
    stand.wait(50)
    stand.hub.push(Record(1, "r", 1, 1, 0.0, TextDelta(0, "a")))
    stand.wait(20)
    assert len(stand.acted) == 1


def test_watching_the_watchers_does_not_keep_it() -> None:
    async def watched() -> bool:
        run = Worker(ScriptedModel([stall()])).run("Go.")
        run.watchers.subscribe()
        run.cancel_when_unobserved(0)
        with pytest.raises(RunCancelledError):
            await run
        return True

    assert asyncio.run(watched())


@pytest.mark.parametrize("ends", [False, True])
def test_once_it_is_disposed_or_the_run_has_ended_nothing_is_done(ends: bool) -> None:
    stand = Stand()
    stand.wait(5)
    if ends:
        stand.hub.end()
    else:
        stand.subscription.dispose()
    stand.wait(50)
    assert stand.acted == []


@pytest.mark.parametrize("grace", [float("nan"), "1", None, -1])
async def test_what_is_not_a_number_of_seconds_is_refused_as_grace(grace: Any) -> None:
    run = Worker(ScriptedModel(["Hello!"])).run("Hi")
    with pytest.raises(ConfigurationError, match=f"grace={grace!r}"):
        run.cancel_when_unobserved(grace)
    assert (await run).text == "Hello!"


async def test_a_run_that_is_no_longer_watched_is_cancelled() -> None:
    model = ScriptedModel([say("Once") + stall(), "Again."])
    worker = Worker(model)
    run = worker.run("Go.")
    subscription = run.watch().subscribe()
    run.cancel_when_unobserved(0)
    async for record in run.watch():
        if isinstance(record.event, TextDelta):
            break
    assert not run.done()
    subscription.dispose()
    with pytest.raises(RunCancelledError, match="it had no watcher for 0 seconds"):
        await run
    assert model.left == 1
    assert run.state.cause == "cancel"
    assert (await worker.run("Again?")).text == "Again."


# a snapshot and what follows


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing {where}"


@pytest.mark.parametrize("delivery", [Coalesce(), Reliable()], ids=str)
@pytest.mark.parametrize("place", [1, 4, 7, 12, 19, 25])
async def test_a_snapshot_and_what_follows_are_the_whole(delivery: Delivery, place: int) -> None:
    model = ScriptedModel([think("Where to look?") + say("I look.") + call("look", where="here"), "Nothing is here."])
    run = Worker(model, tools=[look]).run("Go.")
    taken: list[tuple[RunState, list[Record]]] = []

    def take(record: Record) -> None:
        if record.seq == place:
            state, watch = run.snapshot(delivery, name="late")
            taken.append((state, []))
            watch.subscribe(taken[0][1].append)

    run.subscribe(take)
    await run
    await asyncio.sleep(0)
    [(state, rest)] = taken
    assert state.seq == rest[0].first - 1 == place
    assert fold_run(rest, state) == run.state


async def test_a_late_snapshot_has_everything_and_nothing_follows() -> None:
    run = Worker(ScriptedModel(["Hello."])).run("Go.")
    await run
    state, watch = run.snapshot()
    assert state == run.state
    assert [record async for record in watch] == []


# who watches


async def test_the_watchers_of_a_run_are_reported_by_name() -> None:
    run = Worker(ScriptedModel(["Hello."])).run("Go.")
    told: list[tuple[WatcherState, ...]] = []
    over = asyncio.Event()
    run.watchers.subscribe(told.append, on_completed=over.set)
    run.watch(name="page").subscribe()
    run.watch(Latest(), name="gauge").subscribe()
    assert [(w.name, w.delivery) for w in run.watchers.now] == [("page", "coalesce"), ("gauge", "latest")]
    await run
    async with asyncio.timeout(60):
        await over.wait()
    assert told[-1] == run.watchers.now == ()


@pytest.mark.parametrize("delivery", [Coalesce(), Reliable()], ids=str)
async def test_who_watches_a_run_watches_the_runs_inside_it(delivery: Delivery) -> None:
    asked = Worker(ScriptedModel([think("Why indeed?") + say("Because it is so.")]))
    ask = worker_tool(asked, name="ask", description="Ask somebody.")
    run = Worker(ScriptedModel([call("ask", task="Why?"), "So."]), tools=[ask]).run("Go.")
    given: list[Record] = []
    run.watch(delivery).subscribe(given.append)
    assert (await run).text == "So."
    exact = [record async for record in run]
    inside = ("call_1_1",)
    assert fold_run(given) == fold_run(exact) == run.state
    assert fold_run(given, RunState(path=inside)) == fold_run(exact, RunState(path=inside))
    said = [r.event.text for r in given if r.path == inside and isinstance(r.event, TextDelta)]
    assert "".join(said) == "Because it is so."


async def test_a_tool_may_show_merged_records_of_another_run_and_the_numbers_stay_right() -> None:
    @tool
    async def retell(context: ToolContext) -> str:
        """Retell a story."""
        story = Worker(ScriptedModel([say("Once upon a time there was a run.")])).run("Tell.")
        async for record in story.watch(Coalesce()):
            context.relay(record)
        return "told"

    run = Worker(ScriptedModel([call("retell"), "So."]), tools=[retell]).run("Go.")
    given: list[Record] = []
    run.watch().subscribe(given.append)
    await run
    assert [record.seq for record in given] == [record.first + record.covers - 1 for record in given]
    firsts = [record.first for record in given]
    assert firsts == [1, *(record.seq + 1 for record in given[:-1])]
    exact = [record async for record in run]
    assert all(record.covers == 1 for record in exact)
