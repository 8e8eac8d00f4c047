"""A whole run plays in virtual time: tools, hooks, retries and time limits, and nothing waits."""

from __future__ import annotations

import asyncio
import contextlib
import random
import selectors
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler, VirtualTimeScheduler
from reactivex.scheduler.eventloop import AsyncIOScheduler
from reactivex.testing import TestScheduler

from rxworker import Limits, Worker, before_tool_call, tool, worker_tool
from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.events import (
    Annotation,
    AttemptRetract,
    AttemptStart,
    Record,
    RunAbort,
    RunStop,
    TextDelta,
    ToolProgress,
    ToolStart,
    ToolStop,
    TurnStart,
)
from rxworker.hooks import HookContext, from_operator, from_stateful_operator
from rxworker.log import MemoryLog
from rxworker.testing import ScriptedModel, call, cut, play, say
from rxworker.testing.marbles import parse
from rxworker.tools import ToolContext
from rxworker.transport import Retry


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """How long the loop has slept, in real seconds."""
    times: list[float | None] = []
    select = selectors.DefaultSelector.select

    def noted(self: Any, timeout: float | None = None) -> Any:
        if timeout is None or timeout > 0:
            times.append(timeout)
        return select(self, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", noted)
    return times


NAMES: dict[type[object], str] = {
    TurnStart: "t",
    AttemptStart: "a",
    AttemptRetract: "r",
    TextDelta: "d",
    ToolStart: "s",
    ToolProgress: "p",
    ToolStop: "o",
    RunAbort: "x",
    RunStop: "e",
}


def drawn(worker: Worker, scheduler: VirtualTimeScheduler | None = None) -> str:
    """What a run does, a column a second; what comes at one time is in brackets that take one column."""

    async def main() -> list[Record]:
        run = worker.run("go")
        records: list[Record] = []
        run.records.subscribe(records.append, on_error=ignore)
        with contextlib.suppress(Exception):
            await run
        return records

    columns: dict[int, str] = {}
    for record in play(main(), scheduler):
        name = NAMES.get(type(record.event))
        if name is not None and not record.path:
            assert record.time == int(record.time)
            columns[int(record.time)] = columns.get(int(record.time), "") + name
    last = max(columns)
    return "".join(_column(columns.get(second, "-")) for second in range(last + 1))


def _column(names: str) -> str:
    return names if len(names) == 1 else f"({names})"


def ignore(_: object) -> None: ...


@tool
async def slow() -> str:
    """Take three seconds."""
    await asyncio.sleep(3)
    return "done"


@tool(timeout=2)
async def hangs() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return "never"


@tool
async def reports(context: ToolContext) -> str:
    """Report twice."""
    for number in range(2):
        await asyncio.sleep(1)
        context.progress(number)
    return "done"


@tool(effect="idempotent", retries=1, timeout=2)
async def late_at_first(context: ToolContext) -> str:
    """Come too late at first."""
    is_first = "tried" not in context.variables
    context.variables["tried"] = True
    await asyncio.sleep(3 if is_first else 1)
    return "done"


@tool
def in_a_thread() -> str:
    """Work in a thread."""
    return "done"


@before_tool_call(timeout=2, on_failure="continue")
async def ponders(context: HookContext) -> None:
    """Take too long."""
    await asyncio.sleep(60)


class Later(Retry, frozen=True):
    """Try again after four seconds."""

    def delay(self, error: Exception, attempt: int, chance: Callable[[], float] = random.random) -> float | None:
        """Four seconds, whatever it was."""
        return 4.0


@tool
def observed() -> Observable[str]:
    """Return an observable that waits."""
    return reactivex.of("done").pipe(ops.delay(2))


def held(source: Observable[HookContext]) -> Observable[HookContext]:
    """Answer after two seconds."""
    return source.pipe(ops.delay(2))


TOOLS = [slow, hangs, reports, late_at_first, in_a_thread, observed]
Given: TypeAlias = dict[str, Any]
OK = say("ok")
RUNS: dict[str, tuple[list[Any], Given, str]] = {
    "a slow tool": ([call("slow"), OK], {}, "(tas)--(otade)"),
    "two slow tools at once": ([call("slow") + call("reports"), OK], {}, "(tass)p(po)(otade)"),
    "two slow tools, one by one": ([call("slow") + call("reports"), OK], {"parallel": 1}, "(tas)--(os)p(potade)"),
    "a tool with a time limit": ([call("hangs"), OK], {}, "(tas)-(otade)"),
    "a tool that is tried again": ([call("late_at_first"), OK], {}, "(tas)--(otade)"),
    "a tool in a thread": ([call("in_a_thread"), OK], {}, "(tasotade)"),
    "a tool that is an observable": ([call("observed"), OK], {}, "(tas)-(otade)"),
    "a hook that is an operator": (
        [call("in_a_thread"), OK],
        {"hooks": [before_tool_call(from_operator(held))]},
        "(ta)-(sotade)",
    ),
    "a hook that is an operator with a memory": (
        [call("in_a_thread"), OK],
        {"hooks": [before_tool_call(from_stateful_operator(held, waits=True))]},
        "(ta)-(sotade)",
    ),
    "a hook with a time limit": ([call("in_a_thread"), OK], {"hooks": [ponders]}, "(ta)-(sotade)"),
    "a retry": ([say("o") + cut(), OK], {"response_retry": Later()}, "(tadr)---(ade)"),
    "a limit of seconds": ([call("slow")], {"limits": Limits(max_seconds=2)}, "(tas)-(ox)"),
    "a time-out around the tools": ([call("slow")], {"around": {"call_tools": ops.timeout(2)}}, "(tas)-(ox)"),
    "a delay of the response": ([OK], {"operators": [ops.delay(2)]}, "(ta)-(de)"),
}


def worker_of(name: str, **more: Any) -> Worker:
    replies, settings, _ = RUNS[name]
    return Worker(ScriptedModel(replies), tools=TOOLS, **settings, **more)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("of_the_worker", [False, True])
def test_a_run_is_drawn(name: str, of_the_worker: bool, slept: list[float | None]) -> None:
    scheduler = TestScheduler() if of_the_worker else None
    worker = worker_of(name, scheduler=scheduler)
    assert drawn(worker, scheduler) == RUNS[name][2]
    assert not slept or "hook" in name or "thread" in name or name == "a tool that is an observable"


def test_a_model_that_takes_its_time_is_drawn() -> None:
    assert drawn(Worker(ScriptedModel([OK], delay=1.0))) == "(ta)--d---e"


def test_a_script_plays_in_the_time_of_the_scheduler() -> None:
    scheduler = TestScheduler()
    worker = Worker(
        ScriptedModel([call("slow"), say("ok"), call("slow"), say("ok")]), tools=[slow], scheduler=scheduler
    )
    assert worker.run_sync("go").text == "ok"
    assert scheduler.clock == 3.0
    assert [type(event) for event in worker.stream_sync("again")][-1] is RunStop
    assert scheduler.clock == 6.0


def test_marbles_play_with_the_run() -> None:
    scheduler = TestScheduler()
    questions = scheduler.create_hot_observable(parse("--a-----b", None, 0))
    worker = Worker(ScriptedModel([call("slow"), say("one"), say("two")]), tools=[slow], scheduler=scheduler)
    told: list[tuple[float, str]] = []

    async def main() -> None:
        over = asyncio.get_running_loop().create_future()

        async def ask(text: str) -> None:
            result = await worker.run(text)
            told.append((scheduler.clock, result.text))
            if len(told) == 2:
                over.set_result(None)

        asked: list[asyncio.Future[None]] = []

        def begin(text: str) -> None:
            asked.append(asyncio.ensure_future(ask(text)))

        questions.subscribe(begin)
        await over

    play(main(), scheduler)
    assert told == [(5.0, "one"), (8.0, "two")]


def test_a_historical_scheduler_has_dates() -> None:
    scheduler = HistoricalScheduler(datetime(2001, 1, 1, tzinfo=UTC))
    worker = Worker(ScriptedModel([call("slow"), say("ok")]), tools=[slow], scheduler=scheduler)

    assert worker.run_sync("go").text == "ok"
    assert scheduler.clock == datetime(2001, 1, 1, 0, 0, 3, tzinfo=UTC)


def test_a_log_has_the_virtual_time_of_its_runs() -> None:
    async def main() -> list[float]:
        async with MemoryLog(clock=asyncio.get_running_loop().time) as log:
            run = Worker(ScriptedModel([call("slow"), say("ok")]), tools=[slow], log=log).run("go")
            await run
            await asyncio.sleep(60)
            await log.annotate(run.id, Annotation("rating", "good"))
            return [record.time for each in (run.records, log.records(run.id)) for record in await _all_of(each)]

    times = play(main(), VirtualTimeScheduler(1e9))
    assert (times[0], times[-1], {*times}) == (1e9, 1e9 + 63, {1e9, 1e9 + 3, 1e9 + 63})


async def _all_of(records: Observable[Record]) -> list[Record]:
    return await records.pipe(ops.to_list())


def test_what_never_comes_is_an_error_and_no_endless_wait() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(LocalProtocolError, match="nothing is left to happen"):
        play(main())


def test_a_nested_run_plays_in_the_same_time() -> None:
    inner = Worker(ScriptedModel([call("slow"), say("inner")]), tools=[slow])
    outer = Worker(
        ScriptedModel([call("inner", task="go"), say("ok")]),
        tools=[worker_tool(inner, name="inner", description="Ask.")],
    )
    assert drawn(outer) == "(tas)--(otade)"


def test_work_in_a_thread_takes_no_time_and_time_limits_do_not_pass_meanwhile() -> None:
    gone = threading.Event()

    @tool(timeout=100)
    def works() -> str:
        gone.wait(0.01)
        return "done"

    assert drawn(Worker(ScriptedModel([call("works"), say("ok")]), tools=[works])) == "(tasotade)"


async def test_a_loop_in_real_time_is_refused() -> None:
    worker = Worker(ScriptedModel([say("ok")]), scheduler=VirtualTimeScheduler())
    with pytest.raises(LocalProtocolError, match=r"rxworker\.testing\.play"):
        worker.run("go")


async def test_another_scheduler_is_the_clock_of_the_run() -> None:
    """It need not be ours: the turns are then subscribed to."""
    scheduler = AsyncIOScheduler(asyncio.get_running_loop())
    worker = Worker(ScriptedModel([call("in_a_thread"), say("ok")]), tools=TOOLS, scheduler=scheduler)
    assert (await worker.run("go")).text == "ok"


def test_what_is_not_a_scheduler_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"scheduler=TestScheduler\(\)"):
        Worker(ScriptedModel([]), scheduler=1.0)  # pyright: ignore[reportArgumentType]
