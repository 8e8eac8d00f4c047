"""A worker as a tool of another one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rxworker import Limits, Run, Worker, tool, worker_tool
from rxworker.errors import ConfigurationError, LimitExceededError, RunCancelledError
from rxworker.events import LimitReached, Record, RunAbort, RunStart, RunStop, TextDelta, ToolStart, ToolStop, Usage
from rxworker.hub.history import expand
from rxworker.log import EventLog, MemoryLog
from rxworker.log.format import entries_of
from rxworker.log.format import records_of as stored_records
from rxworker.log.values import RunRow
from rxworker.messages import Message, Prices, ToolResult
from rxworker.state import fold_run
from rxworker.testing import Call, Reply, ScriptedModel, call, fail, lint, say, stall
from rxworker.tools import ToolContext
from rxworker.transport import Retry
from rxworker.worker import Budget
from tests.log.victim import ByTurn
from tests.runs import records_of
from tests.stores import LOGS, make_log

ONCE = Retry(retries=0)


def results_of(run: Run) -> list[ToolResult]:
    return [r for message in run.state.conversation.messages for r in message.tool_results]


def outer(*inner: Reply | str) -> tuple[Worker, ScriptedModel]:
    """A worker that asks another one once, and the model of that one."""
    model = ScriptedModel(list(inner))
    asked = worker_tool(Worker(model, response_retry=ONCE), name="ask", description="Ask somebody.")
    return Worker(ScriptedModel([call("ask", task="Why?"), "So."]), tools=[asked]), model


async def reached(run: Run, matches: Callable[[Record], bool]) -> None:
    async for record in run:
        if matches(record):
            return


async def test_its_answer_is_the_result() -> None:
    worker, model = outer("Because.")
    run = worker.run("go")
    assert (await run).text == "So."
    assert [r.text for r in results_of(run)] == ["Because."]
    assert model.requests[0].conversation.messages == (Message.user("Why?"),)


async def test_its_records_stand_under_the_call_and_the_outer_run_stays_readable() -> None:
    worker, _ = outer("Because.")
    run = worker.run("go")
    await run
    records = records_of(run)
    assert lint(records) == []
    inside = [r for r in records if r.path]
    assert {r.path for r in inside} == {("call_1_1",)}
    assert {r.run_id for r in inside} == {run.id}
    assert isinstance(inside[0].event, RunStart)
    assert isinstance(inside[-1].event, RunStop)
    at = [type(r.event) for r in records if not r.path]
    first = records.index(inside[0])
    assert isinstance(records[first - 1].event, ToolStart)
    assert ToolStop in at
    assert [r.seq for r in records] == list(range(1, len(records) + 1))
    assert fold_run(records).conversation == run.state.conversation


async def test_the_bare_events_of_a_run_are_its_own() -> None:
    worker, _ = outer("Because.")
    run = worker.run("go")
    texts: list[str] = []

    def on_next(event: object) -> None:
        if isinstance(event, TextDelta):
            texts.append(event.text)

    run.events.subscribe(on_next)
    await run
    assert "".join(texts) == "So."


async def test_a_run_inside_a_run_inside_a_run() -> None:
    third = worker_tool(Worker(ScriptedModel(["3"])), name="third", description="")
    second = worker_tool(
        Worker(ScriptedModel([call("third", task="?"), "2"]), tools=[third]), name="second", description=""
    )
    run = Worker(ScriptedModel([call("second", task="?"), "1"]), tools=[second]).run("go")
    result = await run
    records = records_of(run)
    assert lint(records) == []
    assert {r.path for r in records} == {(), ("call_1_1",), ("call_1_1", "call_1_1")}
    assert result.usage.total_tokens == 5 * 15


async def test_its_tokens_count_and_can_be_distinguished() -> None:
    worker, _ = outer("Because.")
    run = worker.run("go")
    result = await run
    assert result.usage == Usage(input_tokens=30, output_tokens=15)
    assert run.state.own_usage == Usage(input_tokens=20, output_tokens=10)
    assert run.state.inner.usage == Usage(input_tokens=10, output_tokens=5)
    assert fold_run(records_of(run)).usage == result.usage


async def test_the_tokens_of_an_inner_run_that_was_cut_off_count_too() -> None:
    worker, _ = outer(say("Beca") + stall())
    run = worker.run("go")
    await reached(run, lambda r: bool(r.path) and isinstance(r.event, Usage))
    await run.cancel()
    assert run.state.inner.usage == Usage(input_tokens=10, output_tokens=5, is_partial=True)


async def test_cancelling_the_outer_run_cancels_it_and_waits() -> None:
    cleaned: list[str] = []
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")
        return "never"

    inner = Worker(ScriptedModel([call("wait"), "again"]), tools=[wait])
    asked = worker_tool(inner, name="ask", description="")
    worker = Worker(ScriptedModel([call("ask", task="?"), call("ask", task="?"), "So."]), tools=[asked])
    run = worker.run("go")
    await started.wait()
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run
    assert cleaned == ["up"]
    records = records_of(run)
    assert lint(records) == []
    aborts = [r.path for r in records if isinstance(r.event, RunAbort)]
    assert aborts == [("call_1_1",), ()]
    assert (await worker.run("again")).text == "So."


async def test_the_outer_runs_time_holds_for_both() -> None:
    worker, model = outer(say("Hm") + stall())
    worker.limits = Limits(max_seconds=0.2)
    run = worker.run("go")
    with pytest.raises(LimitExceededError, match="max_seconds"):
        await run
    assert model.left == 1
    assert lint(records_of(run)) == []


FAILING: dict[str, Callable[[], Worker]] = {
    "the station is closed": lambda: Worker(ScriptedModel([fail("the station is closed")]), response_retry=ONCE),
    "max_turns=2": lambda: Worker(ScriptedModel(lambda _: call("none")), limits=Limits(max_turns=2, max_repeats=None)),
}


@pytest.mark.parametrize("reason", FAILING)
async def test_a_failure_and_a_limit_inside_are_error_results(reason: str) -> None:
    asked = worker_tool(FAILING[reason](), name="ask", description="")
    run = Worker(ScriptedModel([call("ask", task="?"), "So."]), tools=[asked]).run("go")
    assert (await run).text == "So."
    (result,) = results_of(run)
    assert result.is_error
    assert reason in result.text
    assert lint(records_of(run)) == []
    assert run.state.turns == 2


async def test_each_call_of_one_worker_begins_with_the_same_conversation() -> None:
    model = ScriptedModel(["1", "2"])
    asked = worker_tool(Worker(model, system="Count."), name="ask", description="")
    twice = call("ask", task="a") + call("ask", task="b")
    run = Worker(ScriptedModel([twice, "So."]), tools=[asked]).run("go")
    await run
    assert [r.text for r in results_of(run)] == ["1", "2"]
    assert [len(r.conversation.messages) for r in model.requests] == [1, 1]
    assert [r.conversation.system for r in model.requests] == ["Count.", "Count."]


@pytest.mark.parametrize("is_made", [True, False])
async def test_calls_of_one_worker_or_of_made_ones_run_side_by_side(is_made: bool) -> None:
    both = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        """Meet the other one."""
        await both.wait()
        return "met"

    def make() -> Worker:
        return Worker(ScriptedModel([call("meet"), "met"]), tools=[meet])

    one = Worker(ScriptedModel([call("meet"), call("meet"), "met", "met"]), tools=[meet])
    asked = worker_tool(make if is_made else one, name="ask", description="")
    twice = call("ask", task="a") + call("ask", task="b")
    run = Worker(ScriptedModel([twice, "So."]), tools=[asked]).run("go")
    await run
    assert [r.text for r in results_of(run)] == ["met", "met"]
    assert lint(records_of(run)) == []
    assert run.state.inner.usage.total_tokens == 60


async def test_a_worker_that_calls_itself_has_another_session_for_the_call() -> None:
    inner = Worker(ScriptedModel([call("ask", task="?"), "Deep inside.", "I cannot."]))
    asked = worker_tool(inner, name="ask", description="")
    inner.tools.add(asked)
    run = Worker(ScriptedModel([call("ask", task="?"), "So."]), tools=[asked]).run("go")
    await run
    assert [r.text for r in results_of(run)] == ["I cannot."]


@pytest.mark.parametrize(
    ("worker", "argument", "says"),
    [
        (Worker(ScriptedModel([])), "job", "The call was not run, invalid arguments at $."),
        (lambda: None, "task", "is not a worker"),
    ],
)
async def test_wrong_arguments_and_what_is_not_a_worker_are_error_results(
    worker: Any, argument: str, says: str
) -> None:
    asked = worker_tool(worker, name="ask", description="")
    run = Worker(ScriptedModel([call("ask", **{argument: "?"}), "So."]), tools=[asked]).run("go")
    await run
    assert says in results_of(run)[0].text


async def test_without_a_run_around_it_it_is_a_tool_all_the_same() -> None:
    asked = worker_tool(Worker(ScriptedModel(["Because."])), name="ask", description="")
    assert await asked.execute('{"task": "Why?"}', ToolContext()) == "Because."


@pytest.mark.parametrize(
    ("worker", "name", "says"),
    [
        *((Worker(ScriptedModel([])), name, "name") for name in ("", "no spaces", "x" * 65)),
        ("worker", "ask", "neither"),
    ],
)
def test_what_is_not_a_worker_or_has_a_wrong_name_is_refused(worker: Any, name: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        worker_tool(worker, name=name, description="")


@tool
def step() -> str:
    """Take a step."""
    return "stepped"


def deep(model: ScriptedModel, limits: Limits, budget: Budget | None = None) -> Worker:
    """A worker whose tool is a worker that takes steps for ever."""
    walker = Worker(
        ScriptedModel(lambda _: call("step")),
        tools=[step],
        limits=Limits(max_turns=20, max_repeats=None),
        budget=budget,
    )
    walk = worker_tool(walker, name="walk", description="Walk.")
    return Worker(model, tools=[walk], limits=limits, budget=budget)


@pytest.mark.parametrize(
    ("limits", "limit", "steps"),
    [
        (Limits(max_tool_calls=4), "max_tool_calls", 3),
        (Limits(max_tokens=60), "max_tokens", 3),
        (Limits(max_cost=0.00006, prices=Prices(1.0, 1.0)), "max_cost", 3),
    ],
)
async def test_the_outer_runs_limits_hold_for_the_runs_inside(limits: Limits, limit: str, steps: int) -> None:
    worker = deep(ScriptedModel([call("walk", task="far"), "tired"]), limits)
    run = worker.run("go")
    with contextlib.suppress(LimitExceededError):
        await run
    records = records_of(run)
    inside = [r.event for r in records if r.path]
    assert sum(isinstance(e, ToolStart) for e in inside) == steps
    assert [e.limit for e in inside if isinstance(e, LimitReached)] == [limit]


@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_budget_of_the_outer_run_counts_each_token_once(is_shared: bool) -> None:
    budget = Budget()
    poet = Worker(ScriptedModel(["An old pond."]), budget=budget if is_shared else None)
    write = worker_tool(poet, name="write", description="Write.")
    model = ScriptedModel([call("write", task="a verse"), "done"])
    result = await Worker(model, tools=[write], budget=budget).run("go")
    assert budget.spent.total_tokens == result.usage.total_tokens == 45


async def test_runs_inside_runs_go_only_so_deep() -> None:
    def make() -> Worker:
        again = worker_tool(make, name="again", description="Again.")
        model = ScriptedModel(
            lambda request: call("again", task="deeper") if len(request.conversation.messages) < 2 else "back"
        )
        return Worker(model, tools=[again], limits=Limits(max_depth=3))

    run = make().run("go")
    result = await run
    assert result.text == "back"
    records = [record async for record in run]
    assert max(len(record.path) for record in records) == 4
    assert [r.event.limit for r in records if isinstance(r.event, LimitReached)] == ["max_depth"]


def asks(task: str, id: str = "same") -> Reply:  # noqa: A002
    """A call whose id each turn has, as some models number their calls anew in each response."""
    return Reply(tool_calls=(Call("ask", {"task": task}, id=id),))


@pytest.mark.unlogged  # it makes its own
@pytest.mark.parametrize("kind", LOGS)
async def test_nested_runs_of_calls_with_one_id_are_seen_and_counted_each(kind: str, tmp_path: Path) -> None:
    log = make_log(kind, tmp_path, seconds=0)
    asked = worker_tool(lambda: Worker(ScriptedModel(["Because."])), name="ask", description="Ask somebody.")
    model = ScriptedModel([asks("One?"), asks("Two?"), asks("Three?"), "So."])
    run = Worker(model, tools=[asked], log=log).run("go")
    records = records_of(run)
    await run
    assert lint(records) == []
    inner = [type(record.event) for record in records if record.path]
    assert inner == inner[: len(inner) // 3] * 3
    assert inner.count(RunStop) == 3
    assert run.state.usage.total_tokens == 7 * 15
    assert fold_run(records).usage == run.state.usage
    if log is not None:
        await log.close()


@pytest.mark.unlogged
async def test_a_continued_nested_run_is_relayed_from_where_its_records_end() -> None:
    """At each record of the outer run both processes end, and the outer run is recovered.

    Earlier turns have had a call of that id.
    """

    def worker(log: EventLog) -> Worker:
        said = ByTurn([say("Because"), say("never")])
        asked = worker_tool(lambda: Worker(said), name="ask", description="Ask somebody.", effect="idempotent")
        return Worker(ByTurn([asks("One?"), asks("Two?"), say("So.")]), tools=[asked], log=log)

    async with MemoryLog() as log:
        run = worker(log).run("go")
        await run
        whole = {info.run_id: [e async for e in log.read(info.run_id)] for info in await log.list()}
    seen = records_of(run)
    inner_runs = sorted(
        (stored for stored in whole if stored != run.id), key=lambda stored: "Two?" in str(whole[stored][0].body)
    )
    second = [n for n, r in enumerate(seen) if isinstance(r.event, ToolStart) and not r.path][1]
    for end in range(second + 1, len(seen) - 1):
        log = MemoryLog(lease=0.0)
        inner = sum(1 for record in seen[second:end] if record.path)
        for stored, entries in whole.items():
            parts = [
                part
                for record in stored_records(entries, stored)
                for one in expand(record)
                for part in entries_of([one], 1)
            ]
            kept = parts[:end] if stored == run.id else parts[:inner] if stored == inner_runs[1] else parts
            if kept:
                claim = await log.claim(stored, create=True)
                outer_of = "" if stored == run.id else run.id
                is_whole = len(kept) == len(parts)
                row = RunRow("finished" if is_whole else "running", outer=outer_of)
                await log.append(claim, kept, after=0, row=row)
        log.lease = 15.0
        recovered = await worker(log).recover(run.id).started()
        records = records_of(recovered)
        await recovered
        assert lint(records) == [], end
        stored_inside = [
            [one.event for record in await all_of(log, each) for one in expand(record)] for each in inner_runs
        ]
        relayed = [record.event for record in records if record.path]
        assert relayed == [event for events in stored_inside for event in events], end
        await log.close()


async def all_of(log: EventLog, run_id: str) -> list[Record]:
    return list(stored_records([entry async for entry in log.read(run_id)], run_id))
