"""The requests and runs of hooks and stages count within the run: limits and budgets see them, and they end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Limits, Run, Worker, on_abort, on_message_send, on_turn_end, tool
from rxworker.errors import LimitExceededError, RunCancelledError
from rxworker.events import HookMessage, Record, ResponseEvent, RunStart, Usage
from rxworker.hooks import AbortContext, Hook, MessageSendContext, TurnEndContext
from rxworker.log import MemoryLog
from rxworker.messages import Conversation, Prices
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, lint, say
from rxworker.transport import fallback, race
from rxworker.worker import Budget

NOTHING = Request(Conversation())
ASKED = Usage(1_000, 10)
PER_TOKEN = Prices(input=1_000_000.0, output=1_000_000.0)


def judge(answers: int = 9, delay: float = 0.0) -> ScriptedModel:
    return ScriptedModel([say("Yes.", usage=ASKED)] * answers, model="judge", delay=delay)


def asks(work: Callable[[], Awaitable[object]]) -> Hook[MessageSendContext]:
    """A hook that asks before each request."""

    async def ask(_: MessageSendContext) -> None:
        await work()

    return on_message_send(ask)


@tool
async def look() -> str:
    """Look."""
    return "nothing"


def two_turns() -> ScriptedModel:
    return ScriptedModel([call("look"), "Nothing there."])


@pytest.mark.parametrize("what", ["model", "worker", "models as one"])
@pytest.mark.parametrize("limits", [Limits(max_tokens=1_500), Limits(max_cost=1_500, prices=PER_TOKEN)])
async def test_limits_see_the_requests_of_hooks(what: str, limits: Limits) -> None:
    """The second request of the run is the one too many."""
    model = judge()
    works: dict[str, Callable[[], Awaitable[object]]] = {
        "model": lambda: _ended(model.stream(NOTHING)),
        "worker": lambda: Worker(model).run("?"),
        "models as one": lambda: _ended(fallback(model, judge()).stream(NOTHING)),
    }
    if limits.prices:
        model.prices = PER_TOKEN  # type: ignore[attr-defined]
    run = Worker(two_turns(), tools=[look], hooks=[asks(works[what])], limits=limits).run("Go.")
    with pytest.raises(LimitExceededError):
        await run
    assert len(model.requests) == 2
    assert run.state.usage.total_tokens == 15 + 2 * ASKED.total_tokens


async def _ended(events: Observable[ResponseEvent]) -> object:
    return await events


async def test_a_budget_counts_them_once() -> None:
    budget, model = Budget(), judge()
    inner = Worker(model, budget=budget)

    async def both() -> None:
        await inner.new_session().run("?")
        await model.stream(NOTHING)

    worker = Worker(two_turns(), tools=[look], hooks=[asks(both)], budget=budget)
    result = await worker.run("Go.")
    assert result.usage.total_tokens == 2 * 15 + 4 * ASKED.total_tokens
    assert budget.spent.total_tokens == result.usage.total_tokens
    assert budget.runs == 0


async def test_the_records_of_a_run_in_a_hook_are_those_of_a_run_inside(log: MemoryLog) -> None:
    inner = Worker(judge(), tools=[look])
    named = Worker(judge(), log=log)

    async def both() -> None:
        await inner.run("?")
        await named.run("?")

    run = Worker(ScriptedModel(["Fine."]), hooks=[asks(both)], log=log).run("Go.")
    await run
    records = [record async for record in run]
    assert lint(records) == []
    paths = {record.path for record in records if isinstance(record.event, RunStart)}
    assert {len(path) for path in paths} == {0, 1}
    rows = {info.run_id: info.row.outer async for page in log.list_pages() for info in page}
    assert sorted(rows.values()) == ["", run.id]  # the other one is in no log
    row = (await log.existing(run.id)).row
    row_tokens = row.input_tokens, row.output_tokens
    assert sum(row_tokens) == 15 + 2 * ASKED.total_tokens


async def watch(run: Run[None], react: Callable[[Record], None]) -> None:
    async for record in run:
        react(record)


def at_once(react: Callable[[], None]) -> Callable[[Record], None]:
    return lambda record: react() if isinstance(record.event, HookMessage) else None


@pytest.mark.parametrize("how", ["pushed", "in the next turn", "in a task"])
async def test_a_watcher_begins_nothing_inside_the_run_that_it_watches(how: str) -> None:
    """Also while a hook or a stage of the application emits."""
    others, tasks, has_begun = list[Run[None]](), list[asyncio.Task[None]](), asyncio.Event()

    def react() -> None:
        others.append(Worker(judge()).run("?"))
        has_begun.set()

    @on_turn_end
    async def says(context: TurnEndContext) -> None:
        context.send_debug("note", {})
        await has_begun.wait()

    run = Worker(ScriptedModel(["Fine."]), hooks=[says]).run("Go.")
    if how == "pushed":
        run.subscribe(at_once(react))
    elif how == "in the next turn":
        run.watch().subscribe(at_once(react))
    else:
        tasks.append(asyncio.ensure_future(watch(run, at_once(react))))
    result = await run
    await asyncio.gather(others[0], *tasks)
    assert others[0].parents == ()
    assert result.usage.total_tokens == 15


async def test_a_request_of_a_tool_is_its_own() -> None:
    model = judge()

    @tool
    async def ask() -> str:
        """Ask."""
        await model.stream(NOTHING)
        return (await Worker(model).run("?")).text

    result = await Worker(ScriptedModel([call("ask"), "Done."]), tools=[ask]).run("Go.")
    assert (len(model.requests), result.usage.total_tokens) == (2, 30)


async def test_a_run_that_is_cut_short_ends_what_its_hooks_have_begun() -> None:
    inner = Worker(ScriptedModel(["Slow"], delay=5.0))
    begun, has_begun = list[Run[None]](), asyncio.Event()

    async def wait() -> None:
        begun.append(inner.run("?"))
        has_begun.set()
        await begun[0]

    run = Worker(ScriptedModel(["Fine."]), hooks=[asks(wait)]).run("Go.")
    await has_begun.wait()
    await run.cancel()
    assert begun[0].done()
    with pytest.raises(RunCancelledError):
        await begun[0]


async def test_a_request_that_is_cut_short_counts_as_far_as_it_came() -> None:
    asked = asyncio.Event()
    reporting = ScriptedModel([say("Yes.", usage=ASKED)])

    def stalls(request: Request) -> Observable[ResponseEvent]:
        return reporting.stream(request).pipe(
            ops.take_while(lambda event: not isinstance(event, Usage), inclusive=True), ops.concat(reactivex.never())
        )

    async def wait() -> None:
        asked.set()
        await stalls(NOTHING)

    run = Worker(ScriptedModel(["Fine."]), hooks=[asks(wait)]).run("Go.")
    await asked.wait()
    await run.cancel()
    assert run.state.usage.total_tokens == ASKED.total_tokens
    assert run.state.usage.is_partial


@pytest.mark.parametrize("has_begun", [True, False])
async def test_hooks_at_an_abort_count_too(has_begun: bool) -> None:
    model = judge()

    @on_abort
    async def explain(_: AbortContext) -> None:
        await model.stream(NOTHING)

    run = Worker(ScriptedModel(["Fine."]), hooks=[explain], limits=Limits(max_turns=0)).run("Go.")
    with suppress(LimitExceededError):
        await (run if has_begun else run.cancel())
    assert run.state.usage.total_tokens == ASKED.total_tokens


async def test_a_run_in_a_thread_of_a_hook_counts() -> None:
    inner = Worker(judge())

    async def in_thread() -> None:
        await asyncio.to_thread(inner.run_sync, "?")

    result = await Worker(ScriptedModel(["Fine."]), hooks=[asks(in_thread)]).run("Go.")
    assert result.usage.total_tokens == 15 + ASKED.total_tokens


async def test_what_begins_after_the_end_of_the_run_is_not_inside_it() -> None:
    tasks: list[asyncio.Task[Run[None]]] = []
    ended = asyncio.Event()

    async def later() -> Run[None]:
        await ended.wait()
        inner = Worker(judge()).run("?")
        await inner
        return inner

    async def begin() -> None:
        tasks.append(asyncio.get_running_loop().create_task(later()))

    run = Worker(ScriptedModel(["Fine."]), hooks=[asks(begin)]).run("Go.")
    result = await run
    ended.set()
    assert (await tasks[0]).parents == ()
    assert result.usage.total_tokens == run.state.usage.total_tokens == 15


async def test_losers_of_a_race_in_a_hook_count_each_by_its_own_model() -> None:
    one, two = judge(), ScriptedModel([say("No.", usage=ASKED)], model="other")

    async def ask() -> None:
        await race(one, two).stream(NOTHING)

    run = Worker(ScriptedModel(["Fine."]), hooks=[asks(ask)]).run("Go.")
    await run
    assert {*run.state.usage_by_model} >= {"judge"}
    assert run.state.usage.total_tokens == 15 + ASKED.total_tokens


async def test_the_usual_limit_of_the_cost_is_recorded_in_a_log(log: MemoryLog) -> None:
    usage = Usage(20_000_000, 0)  # of more than 50 USD
    replies = [call("look") + Reply(usage=usage), "Nothing there."]
    model = ScriptedModel(replies, model="claude-opus-5-5")
    worker = Worker(model, tools=[look], log=log, limits=Limits(max_tokens=None))
    run = worker.run("Go.")
    with pytest.raises(LimitExceededError, match="max_cost"):
        await run
    assert (await log.existing(run.id)).row.cause == "limit"
