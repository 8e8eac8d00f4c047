"""Tokens, cost, no progress, and a budget that several runs share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from reactivex.subject import Subject

from rxworker import Limits, Worker, before_tool_call, tool, worker_tool
from rxworker.errors import ConfigurationError, LimitExceededError, ToolError
from rxworker.events import LimitReached, TurnStop, Usage
from rxworker.hooks import Pause, ToolCallContext
from rxworker.messages import Prices, validate
from rxworker.providers import Anthropic, ModelInfo, OpenAIChat, Provider
from rxworker.testing import ScriptedModel, call, lint
from rxworker.transport import Model, fallback
from rxworker.worker import Budget
from tests.runs import reached, records_of, settle

PRICES = Prices(input=1_000_000.0, output=0.0)  # a token of input costs 1


@tool
def look(at: str) -> str:
    """Look."""
    return f"nothing at {at}"


async def limit_of(worker: Worker) -> str:
    run = worker.run("go")
    with pytest.raises(LimitExceededError) as caught:
        await run
    assert validate(worker.session.conversation) == []
    records = records_of(run)
    assert lint(records) == []
    reached = [r.event for r in records if isinstance(r.event, LimitReached)]
    assert [(e.limit, e.value) for e in reached] == [(caught.value.limit, caught.value.value)]
    return caught.value.limit


@pytest.mark.parametrize(
    ("limits", "limit", "requests"),
    [
        (Limits(max_turns=2), "max_turns", 2),
        (Limits(max_tool_calls=2), "max_tool_calls", 2),
        (Limits(max_seconds=0.0), "max_seconds", 1),
        (Limits(max_tokens=30), "max_tokens", 2),
        (Limits(max_cost=25.0, prices=PRICES), "max_cost", 3),
        (Limits(prices=PRICES, max_repeats=None), "max_cost", 5),  # the usual one
        (Limits(max_repeats=3), "max_repeats", 3),  # the same calls with the same results are no progress
    ],
)
async def test_a_run_is_limited(limits: Limits, limit: str, requests: int) -> None:
    model = ScriptedModel(lambda _: call("look", at="x") + call("look", at="y"))
    assert await limit_of(Worker(model, tools=[look], limits=limits)) == limit
    assert len(model.requests) == requests


async def test_another_call_another_place_or_another_result_is_progress() -> None:
    """The same result of other calls is that of ten files that are written, one after the other."""
    count = 0

    @tool
    def tick() -> int:
        """Tick."""
        nonlocal count
        count += 1
        return count

    @tool
    def write(at: str) -> str:
        """Write."""
        return "ok"

    in_between = [call("look", at="x" if n % 2 else str(n)) for n in range(8)]
    elsewhere = [call("write", at=str(n)) for n in range(10)]
    for answers, most in ((in_between, 2), (elsewhere, 5), ([call("tick")] * 6, 2)):
        model = ScriptedModel([*answers, "done"])
        worker = Worker(model, tools=[look, tick, write], limits=Limits(max_repeats=most))
        assert (await worker.run("go")).text == "done"


@pytest.mark.parametrize(
    ("order", "limits", "most"),
    [
        *(("ABCDEFGH"[:length] * 12, Limits(max_turns=100, max_repeats=3), 3 * length) for length in (1, 2, 5, 8)),
        ("ABCACBBACABCCBA" * 4, Limits(), 15),
    ],
)
async def test_calls_that_repeat_in_any_order_make_no_progress(order: str, limits: Limits, most: int) -> None:
    """Each of the calls is new to the one before it, and none to the run."""
    model = ScriptedModel([call("look", at=each) for each in order])
    assert await limit_of(Worker(model, tools=[look], limits=limits)) == "max_repeats"
    assert len(model.requests) == most


async def test_the_same_error_is_not_progress_with_other_arguments() -> None:
    @tool
    def find(at: str) -> str:
        """Find."""
        raise ToolError("the index is closed")

    model = ScriptedModel([call("find", at=str(n)) for n in range(9)])
    assert await limit_of(Worker(model, tools=[find])) == "max_repeats"
    assert len(model.requests) == 5


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
    with pytest.raises(ConfigurationError, match=r"needs prices.*Budget\(max_cost=1"):
        await Worker(ScriptedModel(["three"]), budget=Budget(max_cost=1.0)).run("go")


async def test_a_held_budget_makes_runs_wait_and_they_can_be_cancelled() -> None:
    budget = Budget()
    budget.hold()
    model = ScriptedModel(["one"])
    run, other = (Worker(model, budget=budget).run("go") for _ in range(2))
    await settle()
    assert model.requests == []
    await other.cancel()
    assert other.state.status == "aborted"
    budget.release()
    assert (await run).text == "one"


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
    await reached(run, TurnStop)
    await settle()
    assert len(model.requests) == 1
    gate.on_next(True)
    assert (await run).text == "one"
    assert seen == [0, 15, 30]


async def test_a_budget_counts_what_was_before_a_pause_once_also_of_a_run_inside() -> None:
    @before_tool_call
    def wait(context: ToolCallContext) -> Pause | None:
        return Pause() if context.call.name == "look" else None

    budget = Budget()
    inner = worker_tool(Worker(ScriptedModel(["Because."])), name="ask", description="Ask.")
    model = ScriptedModel([call("ask", task="Why?"), call("look", at="a"), "done"])
    worker = Worker(model, tools=[look, inner], hooks=[wait], budget=budget)
    await worker.run("go")
    assert budget.runs == 1  # it waits
    result = await worker.resume()
    assert budget.spent.total_tokens == result.usage.total_tokens
    assert budget.runs == 0


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


async def test_a_limit_on_the_cost_that_a_program_names_needs_prices() -> None:
    model = ScriptedModel(["one"])
    for cost in (1e-7, 50.0, 50, 0):
        with pytest.raises(ConfigurationError, match=r"max_cost=.* needs prices"):
            Worker(model, limits=Limits(max_cost=cost))
        assert Worker(model, limits=Limits(max_cost=cost, prices=PRICES)).prices == PRICES
    assert Limits(max_cost=None).max_cost is None
    usual = replace(Limits(), max_turns=3)
    assert usual.max_cost == 50.0
    assert replace(usual, prices=PRICES).max_cost == 50.0
    worker = Worker(model)
    assert worker.prices is None
    worker.limits = Limits(max_cost=2.0)
    with pytest.raises(ConfigurationError, match="needs prices"):
        await worker.run("go")


class Priced(ScriptedModel):
    """A model that knows its prices, as a client of a provider does."""

    prices = PRICES


async def test_a_worker_finds_the_prices_of_its_model() -> None:
    model = Priced(lambda _: call("look", at="x"))
    worker = Worker(model, tools=[look], limits=Limits(max_cost=25.0))
    assert worker.prices == PRICES
    assert await limit_of(worker) == "max_cost"
    usual = Worker(model, tools=[look], limits=Limits(max_repeats=None))
    assert await limit_of(usual) == "max_cost"
    own = Worker(Priced([]), limits=Limits(prices=Prices(input=7.0, output=7.0)))
    assert own.prices == Prices(input=7.0, output=7.0)


async def test_a_budget_counts_each_run_by_the_prices_of_its_model() -> None:
    budget = Budget(max_cost=1_000.0)
    await Worker(Priced(["one"]), budget=budget).run("go")
    once = budget.cost
    assert once == PRICES.cost(budget.spent) > 0
    dear = Priced(["two"])
    dear.prices = Prices(input=PRICES.input * 3, output=PRICES.output * 3)
    await Worker(dear, budget=budget).run("go")
    assert budget.cost == pytest.approx(once * 4)


@pytest.mark.parametrize(
    ("model", "prices"),
    [
        (Anthropic("claude-opus-5-5", api_key="k"), Prices(4.0, 20.0, 0.2, 5.0, cache_creation_1h=8.0)),
        (OpenAIChat("gpt-5.4-mini", api_key="k"), Prices(0.75, 4.5, 0.075)),
        (OpenAIChat("my-model", base_url="http://127.0.0.1:1"), None),
        (Anthropic("m", api_key="k", info=ModelInfo(prices=PRICES)), PRICES),
        (
            fallback(Anthropic("claude-opus-4-8"), Anthropic("claude-opus-4-6")),
            Prices(5.0, 25.0, 0.5, 6.25, cache_creation_1h=10.0),
        ),
        (fallback(Anthropic("claude-opus-4-8"), Anthropic("claude-haiku-4-5")), None),
    ],
    ids=["claude", "gpt", "own server", "own row", "same prices", "other prices"],
)
def test_the_prices_of_a_model_are_those_of_the_table(model: Provider | Model, prices: Prices | None) -> None:
    assert Worker(model).prices == prices


def test_a_report_costs_the_same_however_many_runs_have_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    added, add = list[Usage](), Usage.__add__

    def counting(self: Usage, other: Usage) -> Usage:
        added.append(other)
        return add(self, other)

    monkeypatch.setattr(Usage, "__add__", counting)
    budget = Budget()
    for number in range(300):
        budget.report(f"run-{number}", Usage(1, 1))
        budget.report(f"run-{number}", Usage(2, 1))
        budget.end(f"run-{number}")
    assert budget.spent == Usage(600, 300)
    assert len(added) <= 600
    assert budget.runs == 0


TOKENS = st.none() | st.integers(0, 9)
USAGES = st.builds(Usage, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS, is_partial=st.booleans())


@given(st.lists(st.tuples(st.integers(0, 3), USAGES, st.booleans())))
def test_a_budget_has_the_sum_of_the_last_reports(reports: list[tuple[int, Usage, bool]]) -> None:
    budget, last, over = Budget(), dict[str, Usage](), Usage()
    for number, usage, ends in reports:
        run = f"run-{number}"
        budget.report(run, usage)
        last[run] = usage
        if ends:
            budget.end(run)
            over = over + last.pop(run)
        total = sum(last.values(), over)
        assert budget.spent.total_tokens == total.total_tokens
        assert budget.spent.is_partial == total.is_partial
        assert (budget.spent.cache_read_tokens or 0) == (total.cache_read_tokens or 0)
        assert (budget.spent.reasoning_tokens or 0) == (total.reasoning_tokens or 0)
        assert (budget.spent.cache_creation_tokens or 0) == (total.cache_creation_tokens or 0)
