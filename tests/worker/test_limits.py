"""Tokens, cost, no progress, and a budget that several runs share."""

from __future__ import annotations

import asyncio

import pytest
from reactivex.subject import Subject

from rxworker import Limits, Usage, Worker, before_tool_call, tool
from rxworker.errors import ConfigurationError, LimitExceededError
from rxworker.events import LimitReached, Record, TurnStop
from rxworker.hooks import Pause, ToolCallContext
from rxworker.messages import Prices
from rxworker.testing import ScriptedModel, call, lint
from rxworker.worker import Budget

PRICES = Prices(input=1_000_000.0, output=0.0)  # a token of input costs 1


@tool
def look(at: str) -> str:
    """Look."""
    return f"nothing at {at}"


async def limit_of(worker: Worker) -> str:
    run = worker.run("go")
    with pytest.raises(LimitExceededError) as caught:
        await run
    records: list[Record] = []
    run.subscribe(records.append, lambda _: None)
    assert lint(records) == []
    reached = [r.event for r in records if isinstance(r.event, LimitReached)]
    assert [(e.limit, e.value) for e in reached] == [(caught.value.limit, caught.value.value)]
    return caught.value.limit


async def test_tokens_are_limited() -> None:
    model = ScriptedModel(lambda _: call("look", at="x"))
    worker = Worker(model, tools=[look], limits=Limits(max_tokens=30))
    assert await limit_of(worker) == "max_tokens"
    assert len(model.requests) == 2


async def test_cost_is_limited_where_prices_are_given() -> None:
    model = ScriptedModel(lambda _: call("look", at="x"))
    worker = Worker(model, tools=[look], limits=Limits(max_cost=25.0, prices=PRICES))
    assert await limit_of(worker) == "max_cost"
    assert len(model.requests) == 3


async def test_the_same_calls_with_the_same_results_are_no_progress() -> None:
    model = ScriptedModel(lambda _: call("look", at="x") + call("look", at="y"))
    worker = Worker(model, tools=[look], limits=Limits(max_repeats=3))
    assert await limit_of(worker) == "max_repeats"
    assert len(model.requests) == 3


async def test_other_calls_in_between_are_progress() -> None:
    answers = [call("look", at="x" if n % 2 else "y") for n in range(8)]
    worker = Worker(ScriptedModel([*answers, "done"]), tools=[look], limits=Limits(max_repeats=2))
    assert (await worker.run("go")).text == "done"


async def test_the_same_calls_with_other_results_are_progress() -> None:
    count = 0

    @tool
    def tick() -> int:
        """Tick."""
        nonlocal count
        count += 1
        return count

    worker = Worker(
        ScriptedModel([*[call("tick")] * 6, "done"]), tools=[tick], limits=Limits(max_repeats=2)
    )
    assert (await worker.run("go")).text == "done"


async def test_runs_that_share_a_budget_end_when_it_is_used_up() -> None:
    budget = Budget(max_tokens=40)
    first = Worker(ScriptedModel([call("look", at="a"), "one"]), tools=[look], budget=budget)
    second = Worker(ScriptedModel(lambda _: call("look", at="b")), tools=[look], budget=budget)
    await first.run("go")
    assert budget.spent.total_tokens == 30
    assert await limit_of(second) == "budget.max_tokens"
    assert budget.spent.total_tokens == 45


async def test_a_budget_may_be_a_sum_of_money() -> None:
    budget = Budget(max_cost=10.0, prices=PRICES)
    await Worker(ScriptedModel(["one"]), budget=budget).run("go")
    assert budget.cost == 10.0
    assert await limit_of(Worker(ScriptedModel(["two"]), budget=budget)) == "budget.max_cost"
    with pytest.raises(ConfigurationError, match="prices"):
        Budget(max_cost=1.0)


async def test_a_held_budget_makes_runs_wait() -> None:
    budget = Budget()
    budget.hold()
    model = ScriptedModel(["one"])
    run = Worker(model, budget=budget).run("go")
    for _ in range(10):
        await asyncio.sleep(0)
    assert model.requests == []
    budget.release()
    assert (await run).text == "one"


async def test_a_held_run_can_be_cancelled() -> None:
    budget = Budget()
    budget.hold()
    run = Worker(ScriptedModel([]), budget=budget).run("go")
    await asyncio.sleep(0)
    await run.cancel()
    assert run.state.status == "aborted"


async def test_what_the_runs_took_is_an_observable_that_may_move_the_gate() -> None:
    budget = Budget()
    gate = Subject[bool]()
    budget.follow(gate)
    seen: list[int] = []

    def note(usage: Usage) -> None:
        seen.append(usage.total_tokens)
        if usage.total_tokens >= 15:
            gate.on_next(False)

    budget.changes.subscribe(note)
    model = ScriptedModel([call("look", at="a"), "one"])
    run = Worker(model, tools=[look], budget=budget).run("go")
    async for record in run:
        if isinstance(record.event, TurnStop):
            break
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(model.requests) == 1
    gate.on_next(True)
    assert (await run).text == "one"
    assert seen == [0, 15, 30]


async def test_a_budget_counts_the_tokens_before_a_pause_once() -> None:
    @before_tool_call
    def wait(context: ToolCallContext) -> Pause:
        return Pause()

    budget = Budget()
    model = ScriptedModel([call("look", at="a"), "done"])
    worker = Worker(model, tools=[look], hooks=[wait], budget=budget)
    await worker.run("go")
    result = await worker.resume()
    assert budget.spent.total_tokens == result.usage.total_tokens


async def test_a_watcher_of_a_budget_that_raises_harms_neither_run_nor_watchers() -> None:
    def fall(usage: Usage) -> None:
        if usage.total_tokens:
            raise ValueError("a watcher fell")

    budget = Budget()
    seen: list[Usage] = []
    budget.changes.subscribe(fall)
    budget.changes.subscribe(seen.append)
    result = await Worker(ScriptedModel(["done"]), budget=budget).run("go")
    assert result.text == "done"
    assert seen == [Usage(), result.usage]
