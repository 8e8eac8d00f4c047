"""Calls in the background that wait for decisions: they wait alone, and go on in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import pytest

from rxworker import Answer, Approve, ApproveAlways, Deny, Paused, Run, Session, Worker, tool, worker_tool
from rxworker.decisions import Decided, Decision, PendingCalls
from rxworker.errors import CommandConflictError, DecisionError, LocalProtocolError, RunStatusError
from rxworker.events import BackgroundStart, CommandTaken, PauseState, Question, RunResume
from rxworker.log import EventLog, MemoryLog
from rxworker.log.recover import RunSource, decide_running, deliveries_of, dismiss_run
from rxworker.log.values import DeliveredResult, deliver_command, resumed_id
from rxworker.messages import JsonObject
from rxworker.resume.paused import load_paused, save_paused
from rxworker.state import fold_run
from rxworker.testing import Call, Reply, call, lint, say
from rxworker.tools import ToolContext
from rxworker.worker.queue import QueuedWorker
from tests.log.test_later import copy_of
from tests.log.victim import ByTurn
from tests.pauses import pause_of
from tests.runs import joined, records_of, settle

pytestmark = pytest.mark.unlogged  # each test gives its log

FORM: JsonObject = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
NESTED, ASKED, DEEP = "call_1_1/call_1_1", "background/call_1_1", "call_1_1/call_1_1/call_1_1"


class Bench:
    """Workers with calls in the background that wait, and a sibling that takes as long as the test wants."""

    def __init__(self, log: EventLog | None, **settings: Any) -> None:
        self.log = log
        self.done: list[str] = []
        self.may_end = asyncio.Event()
        self.settings: dict[str, Any] = {"background": True, **settings}

    def worker(
        self, kind: str = "nested", *more: str, second: Reply | None = None, before: Sequence[Reply] = ()
    ) -> Worker:
        @tool(requires_approval=True, effect="idempotent")
        async def wipe(what: str) -> str:
            self.done.append(what)
            return f"{what} is gone"

        make: Any = tool

        @make(**self.settings, retries=2, effect="idempotent")
        async def asks(context: ToolContext) -> str:
            reply = None if context.begun is None else context.begun.reply
            if reply is None:
                context.ask(Question("tides", "Which day?", FORM))
            self.done.append(reply.action)
            return f"{reply.action} {reply.content.get('day', '')}".strip()

        @make(**self.settings, effect="idempotent")
        async def slow() -> str:
            await self.may_end.wait()
            return "slow"

        @tool(effect="idempotent")
        async def hold() -> str:
            await self.may_end.wait()
            return "held"

        @tool(effect="idempotent")
        async def sleep(context: ToolContext) -> str:
            await context.until(signal="go")
            self.done.append("sleep")
            return "slept"

        def asking(worker: Worker, name: str) -> Any:
            return worker_tool(worker, name=name, description="Ask.", **self.settings)

        script = [say("I wait."), *[say(f"Answer {n}.") for n in range(9)]]
        inner = Worker(ByTurn([*before, call("wipe", what="a"), say("It is gone.")]), tools=[wipe, hold])
        front = worker_tool(inner, name="front", description="Ask.")
        deep = Worker(ByTurn([call("nested", task="?"), *script]), tools=[asking(inner, "nested")])
        first = call(kind) if kind == "asks" else call(kind, task="?")
        for name in more:
            first = first + call(name)
        sleeping = asking(Worker(ByTurn([call("sleep"), *script]), tools=[sleep]), "sleeping")
        tools = [front, sleep, sleeping, asking(inner, "nested"), asking(deep, "deep"), asks, slow, hold, wipe]
        replies = [first] if second is None else [first, second]
        return Worker(ByTurn([*replies, *script]), tools=tools, log=self.log)


APPROVED: dict[str, tuple[str, Decision, str, list[str]]] = {
    "nested": (NESTED, Approve(), "It is gone.", ["a"]),
    "asks": (ASKED, Approve({"day": "today"}), "accept today", ["accept"]),
    "deep": (DEEP, Approve(), "Answer 0.", ["a"]),
    "nested, other arguments": (NESTED, Approve({"what": "b"}), "It is gone.", ["b"]),
    "nested, refused": (NESTED, Deny("no"), "It is gone.", []),
    "nested, its call refused": (ASKED, Deny("no"), "no", []),
    "nested, its call answered": (ASKED, Answer("it was"), "it was", []),
    "asks, declined": (ASKED, Deny(), "decline", ["decline"]),
    "asks, answered": (ASKED, Answer("it was"), "it was", []),
}
Way: TypeAlias = Callable[[Bench, Worker, Run[Any], dict[str, Decision]], Awaitable[Run[Any]]]


async def waiting(run: Run[Any], count: int = 1) -> PauseState:
    """What a run waits for while it goes on."""
    async for _ in run:
        if (pause := run.state.waiting) is not None and len(pause.background) == count:
            await run.barrier()
            return pause
    raise AssertionError(f"{run} has ended")


async def resumed(bench: Bench, worker: Worker, run: Run[Any], given: dict[str, Decision]) -> Run[Any]:
    paused = await pause_of(run)
    assert (paused.hook, paused.text) == ("background", "I wait.")
    return worker.resume(paused, decisions=given)


async def resumed_from_bytes(bench: Bench, worker: Worker, run: Run[Any], given: dict[str, Decision]) -> Run[Any]:
    paused = load_paused(save_paused(await pause_of(run)))
    return worker.new_session().resume(paused, decisions=given)


async def live(bench: Bench, worker: Worker, run: Run[Any], given: dict[str, Decision]) -> Run[Any]:
    await waiting(run)
    run.decide(given)
    await settle()
    with pytest.raises(LocalProtocolError):
        run.decide(given)
    bench.may_end.set()
    return run


async def live_elsewhere(bench: Bench, worker: Worker, run: Run[Any], given: dict[str, Decision]) -> Run[Any]:
    await waiting(run)
    assert bench.log is not None
    with pytest.raises(DecisionError):
        await decide_running(bench.log, run.id, Decided({"no": Approve()}))
    assert await decide_running(bench.log, run.id, Decided(given)) == run.id
    with pytest.raises((CommandConflictError, RunStatusError)):
        await decide_running(bench.log, run.id, Decided(given))
    bench.may_end.set()
    return run


WAYS: dict[str, Way] = {
    "resumed": resumed,
    "resumed from bytes": resumed_from_bytes,
    "live": live,
    "live, elsewhere": live_elsewhere,
}
ROWS = [
    (case, way, log)
    for case in APPROVED
    for way in WAYS
    for log in ("none", "memory")
    if log == "memory" or way != "live, elsewhere"
]


@pytest.mark.parametrize(("case", "way", "log"), ROWS)
async def test_a_call_that_waits_goes_on_in_the_background(case: str, way: str, log: str) -> None:
    bench = Bench(MemoryLog() if log == "memory" else None)
    name, decision, expected, done = APPROVED[case]
    worker = bench.worker(case.partition(",")[0], *(["slow"] if way.startswith("live") else []))
    run = worker.run("go")
    run = await WAYS[way](bench, worker, run, {name: decision})
    records = records_of(run)
    async with asyncio.timeout(5):
        result = await run
    assert not isinstance(result, Paused)
    assert [text for text in joined(run.state) if text != "slow"] == [expected]
    assert bench.done == done
    assert fold_run(records) == run.state
    assert lint([record.event for record in records if not record.path]) == []
    if bench.log is not None:
        for info in await bench.log.list(limit=100):
            again = await bench.log.info(resumed_id(info.run_id))
            assert info.status in ("finished", "aborted") or again is not None, info.run_id


async def test_siblings_and_the_turn_go_on() -> None:
    bench = Bench(None)
    run = bench.worker("nested", "asks", "slow").run("go")
    pause = await waiting(run, 2)
    assert sorted((node.name, node.hook, node.needs_decision) for node in pause.tree) == [
        ("background/call_1_1", "nested", False),
        ("background/call_1_2", "question", True),
        (NESTED, "requires_approval", True),
    ]
    await settle()
    assert run.state.status == "running"
    assert run.state.conversation.messages[-1].text == "I wait."
    bench.may_end.set()
    paused = await pause_of(run)
    assert joined(run.state) == ["slow"]
    assert {"tides has a question: Which day?", "nested: wipe requires approval"} <= {*paused.reason.split("\n")}


@pytest.mark.parametrize("is_first", [True, False])
async def test_what_waits_in_the_background_waits_with_another_pause_and_each_is_decided_alone(is_first: bool) -> None:
    bench = Bench(MemoryLog())
    worker = bench.worker("asks", second=call("slow") + call("wipe", what="c"))
    run = worker.run("go")
    await waiting(run)
    bench.may_end.set()
    paused = await pause_of(run)
    assert paused.hook == "requires_approval"
    assert PendingCalls.of(paused.pause).ids == ("call_2_1", "call_2_2", ASKED)
    given: list[dict[str, Decision]] = [{"call_2_2": ApproveAlways()}, {ASKED: Approve({"day": "today"})}]
    first, second = given if is_first else reversed(given)
    paused = await pause_of(worker.resume(paused, decisions=first))
    assert bench.done == [["c"], ["accept"]][not is_first]
    with pytest.raises(DecisionError):
        worker.resume(paused, decisions={})
    again = worker.resume(paused, decisions=second)
    await again
    assert sorted(joined(again.state)) == ["accept today", "slow"]
    assert sorted(bench.done) == ["accept", "c"]


async def test_a_decision_about_an_earlier_step_is_ignored() -> None:
    log = MemoryLog()
    bench = Bench(log)
    run = bench.worker("asks", "slow").run("go")
    (each,) = (await waiting(run)).background
    assert each.begun is not None
    for step in (1, 3):
        late = DeliveredResult(each.id, "", begun=each.begun, step=step)
        if step == 1:
            with pytest.raises(CommandConflictError):
                await log.send(run.id, deliver_command(late))
        else:
            await log.send(run.id, deliver_command(late))
    await settle()
    bench.may_end.set()
    await pause_of(run)
    taken = [record.event.ignored for record in records_of(run) if isinstance(record.event, CommandTaken)]
    assert taken == ["", "the call does not wait for this decision", ""]
    assert bench.done == []


ENDS: dict[str, Callable[[Run[Any]], object]] = {
    "denied": lambda run: run.decide({ASKED: Deny("no")}),
    "answered": lambda run: run.decide({ASKED: Answer("no")}),
    "cancelled": lambda run: run.cancel_call("call_1_1"),
    "delivered": lambda run: run.deliver("call_1_1", "no"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("log", ["none", "memory"])
async def test_no_approval_counts_after_the_call_has_a_result(end: str, log: str) -> None:
    """The result joins at the next safe point, and an approval comes before that."""
    bench = Bench(MemoryLog() if log == "memory" else None)
    run = bench.worker(second=call("hold")).run("go")
    await waiting(run)
    await settle()
    ENDS[end](run)
    await settle()
    with suppress(CommandConflictError):
        if bench.log is None:
            run.decide({NESTED: Approve()})
        else:
            await decide_running(bench.log, run.id, Decided({NESTED: Approve()}))
    await settle(50)
    bench.may_end.set()
    await run
    assert (len(joined(run.state)), bench.done) == (1, [])


async def test_of_a_denial_and_an_approval_the_log_takes_the_first() -> None:
    log = MemoryLog()
    bench = Bench(log)
    run = bench.worker("nested", "slow").run("go")
    pause = await waiting(run)
    approved, denied = (deliveries_of(pause, one)[0] for one in ([None, Approve()], [Deny("no"), None]))
    await log.send(run.id, deliver_command(approved))
    with pytest.raises(CommandConflictError):
        await log.send(run.id, deliver_command(denied))
    await settle(50)
    bench.may_end.set()
    await run
    assert sorted(joined(run.state)) == ["It is gone.", "slow"]


async def test_a_decision_about_the_paused_run_counts_before_a_later_one_about_the_call() -> None:
    """Another process has read that the run is running, and stores its decision after the pause was decided about."""
    log = MemoryLog()
    run = Bench(log).worker().run("go")
    paused = await pause_of(run)
    await QueuedWorker("", log=log).decide_later(run.id, {NESTED: Deny("no")})
    (approved,) = deliveries_of(paused.pause, [None, Approve()])
    await log.send(run.id, deliver_command(approved))
    bench = Bench(log)
    async with RunSource(log) as source:
        info = await source.take(wait=False)
    assert info is not None
    await Session(bench.worker()).recover(info.run_id)
    assert bench.done == []


async def test_a_decision_about_the_paused_run_is_refused_after_one_about_the_call() -> None:
    log = MemoryLog()
    worker = Bench(log).worker()
    run = worker.run("go")
    paused = await pause_of(run)
    (approved,) = deliveries_of(paused.pause, [None, Approve()])
    await log.send(run.id, deliver_command(approved))
    with pytest.raises(CommandConflictError):
        await QueuedWorker("", log=log).decide_later(run.id, {NESTED: Deny("no")})
    with pytest.raises(CommandConflictError):
        await worker.new_session().decide(run.id, {NESTED: Deny("no")})


async def test_no_call_in_the_background_is_allowed_always() -> None:
    log = MemoryLog()
    bench = Bench(log)
    run = bench.worker("nested", "slow").run("go")
    await waiting(run)
    with pytest.raises(DecisionError, match="always"):
        run.decide({NESTED: ApproveAlways()})
    with pytest.raises(DecisionError, match="always"):
        await decide_running(log, run.id, Decided({NESTED: ApproveAlways()}))
    bench.may_end.set()
    await pause_of(run)
    assert bench.done == []


async def test_a_call_whose_id_is_the_path_of_the_background_is_another_one() -> None:
    bench = Bench(None)
    inside = Reply(tool_calls=(Call("front", {"task": "?"}, "background"),))
    worker = bench.worker("asks", second=inside)
    paused = await pause_of(worker.run("go"))
    assert [(node.name, node.is_background) for node in paused.pause.tree] == [
        ("background", False),
        ("background/call_1_1", False),
        ("background/call_1_1", True),
    ]
    given: list[Decision | None] = [None, Approve(), Approve({"day": "today"})]
    again = worker.resume(paused, decisions=given)
    await again
    assert (joined(again.state), sorted(bench.done)) == (["accept today"], ["a", "accept"])


async def test_to_go_on_after_a_pause_decides_nothing_about_the_background() -> None:
    bench = Bench(None)
    worker = bench.worker("nested", second=call("hold"))
    run = worker.run("go")
    await waiting(run)
    run.pause()
    await settle(50)
    bench.may_end.set()
    paused = await pause_of(run)
    assert (paused.hook, PendingCalls.of(paused.pause).own) == ("pause", ())
    paused = await pause_of(worker.resume(paused))
    assert (paused.hook, bench.done) == ("background", [])
    with pytest.raises(DecisionError, match="no decision was given"):
        worker.resume(paused)
    await worker.resume(paused, decisions={NESTED: Approve()})
    assert bench.done == ["a"]


@pytest.mark.parametrize("is_inside", [True, False])
async def test_what_waits_in_the_background_keeps_no_other_wait_from_being_woken(is_inside: bool) -> None:
    log = MemoryLog()
    bench = Bench(log)
    sleeps = call("sleeping", task="?") if is_inside else call("sleep")
    worker = bench.worker("asks", second=sleeps)
    run = worker.run("go")
    await waiting(run)
    paused = await pause_of(run)
    assert [wait.signal for wait in paused.pause.waits] == ["go"]
    await log.signal(run.id, "go")
    async with asyncio.timeout(5), RunSource(log) as source:
        info = await source.take()
    assert info is not None
    again = Session(bench.worker("asks", second=sleeps)).recover(info.run_id)
    paused = await pause_of(again)
    assert (paused.hook, len(paused.pause.background), bench.done) == ("background", 1, ["sleep"])
    await worker.new_session().resume(paused, decisions={ASKED: Approve({"day": "today"})})
    assert bench.done == ["sleep", "accept"]


async def test_a_run_inside_is_decided_about_by_its_own_id_while_the_outer_one_runs() -> None:
    log = MemoryLog()
    bench = Bench(log)
    run = bench.worker("nested", "slow").run("go")
    (each,) = (await waiting(run)).background
    assert each.begun is not None
    assert await decide_running(log, each.begun.run, Decided({"call_1_1": Approve()})) == run.id
    bench.may_end.set()
    await run
    assert sorted(joined(run.state)) == ["It is gone.", "slow"]


async def test_another_process_shows_and_ends_what_a_killed_one_has_left_waiting() -> None:
    log = MemoryLog()
    bench = Bench(log)
    run = bench.worker("nested", "hold").run("go")
    await waiting(run)
    left = await copy_of(log, *[info.run_id for info in reversed(await log.list())])
    await run.cancel()
    other = Bench(left)
    again = other.worker("nested", "hold").recover(run.id)
    pause = await waiting(again)
    inner = pause.tree[0].inner_run
    again.decide({NESTED: Approve()})
    await settle(50)
    other.may_end.set()
    assert not isinstance(await again, Paused)
    assert joined(again.state) == ["It is gone."]
    shown = [record.event for record in records_of(again) if record.path == ("call_1_1",)]
    assert [each.resumes for each in shown if isinstance(each, RunResume)] == [inner]
    assert (other.done, bench.done) == (["a"], [])


async def test_a_run_inside_that_is_dismissed_is_a_denial() -> None:
    log = MemoryLog()
    bench = Bench(log)
    run = bench.worker("nested", "slow").run("go")
    (each,) = (await waiting(run)).background
    assert each.begun is not None
    await dismiss_run(log, each.begun.run, "too dear")
    bench.may_end.set()
    await run
    assert sorted(joined(run.state)) == ["slow", "too dear"]
    assert (await log.existing(each.begun.run)).status == "aborted"


async def test_a_result_from_outside_ends_what_waits() -> None:
    log = MemoryLog()
    bench = Bench(log)
    run = bench.worker("nested").run("go")
    paused = await pause_of(run)
    await log.deliver(run.id, "call_1_1", "it was")
    async with RunSource(log) as source:
        info = await source.take(wait=False)
    assert info is not None
    again = Session(bench.worker("nested")).recover(info.run_id)
    await again
    assert joined(again.state) == ["it was"]
    assert bench.done == []
    inner = next(node.inner_run for node in paused.pause.tree if node.inner_run)
    assert (await log.existing(inner)).status == "aborted"


async def test_a_decision_that_comes_as_the_run_pauses_wakes_it() -> None:
    log = MemoryLog()
    bench = Bench(log)
    run = bench.worker("asks").run("go")
    paused = await pause_of(run)
    for delivery in deliveries_of(paused.pause, [Approve({"day": "today"})]):
        await log.send(run.id, deliver_command(delivery))
    async with RunSource(log) as source:
        info = await source.take(wait=False)
    assert info is not None
    again = Session(bench.worker("asks")).recover(info.run_id)
    await again
    assert joined(again.state) == ["accept today"]


async def test_a_run_that_does_not_wait_for_a_call_ends_what_waits() -> None:
    log = MemoryLog()
    bench = Bench(log, at_end="cancel")
    run = bench.worker("nested").run("go")
    assert not isinstance(await run, Paused)
    starts = [r.event.background for r in records_of(run) if isinstance(r.event, BackgroundStart)]
    inner = next((each.begun.run for each in starts if each.begun is not None), "")
    assert not inner or (await log.existing(inner)).status == "aborted"
    assert bench.done == []


@pytest.mark.parametrize("pauses", [1, 2])
async def test_a_run_inside_may_wait_while_the_outer_one_is_paused(pauses: int) -> None:
    bench = Bench(None)
    worker = bench.worker("nested", before=[call("hold")])
    run = worker.run("go")
    for at in range(pauses):
        run = worker.resume() if at else run
        await settle(50)
        run.pause()
        await pause_of(run)
    bench.may_end.set()
    await settle(50)
    paused = await pause_of(worker.resume())
    again = worker.resume(paused, decisions={"call_1_1/call_2_1": Approve()})
    await again
    assert joined(again.state) == ["It is gone."]


async def test_a_fork_makes_a_call_again_that_waits_no_more() -> None:
    log = MemoryLog()
    bench = Bench(log)
    run = bench.worker("asks").run("go")
    await pause_of(run)
    worker = bench.worker("asks")
    seq = next(record.seq for record in records_of(run) if getattr(record.event, "pause", None) is not None)
    fork = worker.new_session().fork(run.id, seq - 1)
    paused = await pause_of(fork)
    (each,) = paused.background
    assert (each.begun, each.is_delivered) == (None, True)
    assert "forked" in paused.reason
