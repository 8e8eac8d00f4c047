"""Tools that answer later, of stored runs: deliveries, pauses, kills, and other processes."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import msgspec
import pytest

from rxworker import Approve, Paused, Session, Worker, before_tool_call, tool, worker_tool
from rxworker.errors import CommandConflictError, LogError, RunCancelledError
from rxworker.events import BackgroundStart, BackgroundStop, CommandTaken, MessageAdd, Record, TurnStop
from rxworker.hooks import ToolCallContext
from rxworker.log import EventLog, MemoryLog, diff_runs, export_run, fork_run, import_run
from rxworker.log.format import records_of
from rxworker.log.recover import RunSource, dismiss_run, own_events
from rxworker.log.values import resumed_id, send_command
from rxworker.messages import JsonObject, Message
from rxworker.state import RunState, fold_run
from rxworker.testing import Reply, call, say
from rxworker.testing.conformance import lint
from rxworker.testing.reply import Call
from rxworker.tools import Done, NotDone, ToolContext, Unknown
from rxworker.worker.queue import work
from tests.log.conftest import OpenLog, store_of
from tests.log.victim import ByTurn
from tests.pauses import pause_of
from tests.runs import joined, reached, settle

open_two = pytest.fixture(params=["memory", "sqlite"], name="open_two")(store_of)
REPLIES = [call("slow", n=1), say("I wait."), say("It is done."), say("Really.")]


class Bench:
    """A tool that takes as long as the test wants."""

    def __init__(self, **settings: Any) -> None:
        self.may_end = asyncio.Event()
        self.keys: list[str] = []
        make: Any = tool

        @make(**{"background": True, **settings})
        async def slow(n: int, context: ToolContext) -> str:
            self.keys.append(context.idempotency_key)
            await self.may_end.wait()
            return f"slow {n}"

        @tool
        async def order(context: ToolContext) -> str:
            context.later()

        @tool(requires_approval=True)
        async def pay() -> str:
            return "paid"

        self.tools = [slow, order, pay]

    def worker(self, log: EventLog, replies: Any = REPLIES, **options: Any) -> Worker:
        return Worker(ByTurn(list(replies)), tools=self.tools, log=log, **options)


async def stored_state(log: EventLog, run: str) -> tuple[RunState, list[Record]]:
    """The state of a stored run, whose records are legal."""
    records = list(records_of([entry async for entry in log.read(run)], run))
    assert lint([record.event for record in records if not record.path]) == []
    return fold_run(records), records


async def copy_of(log: EventLog, *runs: str) -> MemoryLog:
    """The log as a process leaves it that is killed now."""
    left = MemoryLog(lease=0.0)
    for run in runs:
        info = await log.existing(run)
        claim = await left.claim(run, create=True)
        await left.append(claim, [entry async for entry in log.read(run)], after=0, row=info.row)
        for command in await log.sent(run):
            await left.send(run, command)
        if info.status == "paused":
            await left.release(claim)
    left.lease = 15.0
    return left


async def test_a_delivery_joins_a_run_that_goes_on_once(open_two: OpenLog) -> None:
    bench = Bench()
    async with open_two() as log:
        run = bench.worker(log, [call("order") + call("slow", n=1), *REPLIES[1:]]).run("go")
        start = (await reached(run, BackgroundStart)).event
        assert isinstance(start, BackgroundStart)
        await log.deliver(run.id, start.background.id, {"parcel": 1})
        with pytest.raises(CommandConflictError):
            await log.deliver(run.id, start.background.id, "again")
        bench.may_end.set()
        await run
        assert sorted(joined(run.state)) == ["slow 1", '{"parcel":1}']
        state, records = await stored_state(log, run.id)
        assert state == run.state
        assert [r.event.ignored for r in records if isinstance(r.event, CommandTaken)] == ["", ""]
        with pytest.raises(LogError):
            await log.deliver(run.id, "other", "late")


async def test_a_result_that_comes_before_its_call_waits_for_it(log: MemoryLog) -> None:
    bench = Bench()

    @tool
    async def first() -> str:
        await log.deliver(run.id, "call_2_1", "early")
        await asyncio.sleep(0.01)
        return ""

    bench.tools.append(first)
    run = bench.worker(log, [call("first"), call("order"), *REPLIES[1:]]).run("go")
    await run
    assert joined(run.state) == ["early"]


async def test_the_process_that_runs_a_tool_and_another_one_deliver_at_once(log: MemoryLog) -> None:
    bench = Bench()
    run = bench.worker(log).run("go")
    await reached(run, BackgroundStart)
    await log.deliver(run.id, "call_1_1", "from outside")
    bench.may_end.set()
    await run
    assert joined(run.state) == ["from outside"]


async def test_a_run_that_sleeps_in_a_call_of_another_is_woken_with_it(log: MemoryLog) -> None:
    """Also beside a call that waits for a person, which goes on waiting."""
    bench = Bench(at_end="wake")

    def outer(_: object = None) -> Worker:
        asks = [
            worker_tool(bench.worker(log), name="sleeps", description="Ask."),
            worker_tool(bench.worker(log, [call("pay"), say("Paid.")]), name="pays", description="Ask."),
        ]
        calls = call("sleeps", task="?") + call("pays", task="?")
        return Worker(ByTurn([calls, say("So.")]), tools=asks, log=log)

    paused = await pause_of(outer().run("go"))
    assert [node.name for node in paused.pause.tree] == ["call_1_1", "call_1_2", "call_1_2/call_1_1"]
    await log.deliver(paused.pause.tree[0].inner_run, "call_1_1", "delivered")
    async with RunSource(log) as source:
        info = await source.take(wait=False)
    assert info is not None
    again = await pause_of(outer().recover(info.run_id))
    assert [node.name for node in again.pause.tree] == ["call_1_2", "call_1_2/call_1_1"]
    assert [result.text for result in again.pause.refused.values()] == ["It is done."]
    assert (await outer().decide(again.run_id)).text == "So."


async def asleep(log: EventLog) -> str:
    """The id of a run that waits for a delivery, and has taken a message, its command 1."""

    @before_tool_call
    async def send(context: ToolCallContext) -> None:
        await log.send(context.run_id, send_command([Message.user("One more.")], "sent-1"))

    run = Bench(at_end="wake").worker(log, REPLIES[:2], hooks=[send]).run("go")
    paused = await pause_of(run)
    assert paused.hook == "background"
    assert run.state.commands == 1
    return run.id


async def test_the_commands_of_an_imported_run_are_numbered_anew(log: MemoryLog) -> None:
    run_id = await asleep(log)
    async with MemoryLog() as other:
        await import_run(other, [line async for line in export_run(log, run_id)])
        await other.deliver(run_id, "call_1_1", "a parcel")
        async with RunSource(other) as source:
            taken = await source.take(wait=False)
        assert taken is not None
        worker = Bench(at_end="wake").worker(other)
        paused = await worker.load(run_id)
        assert isinstance(paused, Paused)
        ended = await worker.resume(paused)
        assert "a parcel" in ended.conversation.messages[-2].text
        assert await own_events(other, run_id, "command_taken") == []


async def test_a_message_that_is_void_is_not_carried_over(log: MemoryLog) -> None:
    """It was sent before the run was cancelled and put back."""

    @before_tool_call
    async def send(context: ToolCallContext) -> None:
        await log.send(context.run_id, send_command([Message.user("One more.")], "sent-1"))
        run.cancel()
        await asyncio.Event().wait()

    run = Bench().worker(log, [call("pay")], hooks=[send]).run("go")
    with pytest.raises(RunCancelledError):
        await run
    await log.requeue(run.id)
    worker = Bench().worker(log, [call("pay"), call("pay"), say("Paid.")])
    await pause_of(worker.recover(run.id))
    ended = await worker.decide(run.id)
    assert ended.text == "Paid."
    assert "One more." not in [message.text for message in ended.conversation.messages]


async def test_the_commands_of_a_fork_are_numbered_anew(log: MemoryLog) -> None:
    run_id = await asleep(log)
    assert len(await own_events(log, run_id, "command_taken")) == 1
    fork = await fork_run(log, run_id, (await log.existing(run_id)).last_seq)
    assert await own_events(log, fork, "command_taken") == []


@pytest.mark.parametrize("is_early", [True, False])
async def test_a_run_that_sleeps_is_woken_by_any_process(open_two: OpenLog, is_early: bool) -> None:
    bench = Bench(at_end="wake")
    async with open_two() as log:
        run = bench.worker(log).run("go")
        paused = await pause_of(run)
        assert paused.hook == "background"
        assert (await log.existing(run.id)).row.wakes
        other = Bench(at_end="wake")
        if is_early:
            await log.deliver(run.id, "call_1_1", "delivered")
        working = asyncio.create_task(work(log, lambda info: other.worker(log)))
        try:
            if not is_early:
                bench.may_end.set()
            resumed = resumed_id(run.id)
            async with asyncio.timeout(10):
                async for infos in log.changes(every=0.01):
                    if any(info.run_id == resumed and info.status == "finished" for info in infos):
                        break
        finally:
            working.cancel()
        state, records = await stored_state(log, resumed)
        assert joined(state) == ["delivered" if is_early else "slow 1"]
        assert sum(isinstance(record.event, BackgroundStop) for record in records) == 1
        assert other.keys == []
        bench.may_end.set()


async def test_a_person_and_a_delivery_wake_a_run_once(log: MemoryLog) -> None:
    bench = Bench(at_end="wake")
    run = bench.worker(log).run("go")
    paused = await pause_of(run)
    await log.deliver(run.id, "call_1_1", "delivered")
    again = bench.worker(log).resume(paused)
    await again
    assert joined(again.state) == ["delivered"]
    other = bench.worker(log).recover(run.id)
    with pytest.raises(LogError, match="already"):
        await other


@pytest.mark.parametrize("who", ["session", "other session", "delivered", "delivered after"])
async def test_a_pause_for_an_approval_loses_no_call(who: str, log: MemoryLog) -> None:
    bench = Bench()
    worker = bench.worker(log, [call("slow", n=1), call("pay"), say("Paid."), say("Done.")])
    session = Session(worker)
    run = session.run("go")
    paused = await pause_of(run)
    if who == "delivered":
        await log.deliver(run.id, "call_1_1", "delivered")
    resumes = session if who == "session" else Session(worker)
    again = resumes.decide(run.id, {paused.pending[0].id: Approve()})
    await again.started()
    if who == "delivered after":
        await log.deliver(run.id, "call_1_1", "delivered")
    elif who != "delivered":
        bench.may_end.set()
    await again
    assert joined(again.state) == ["delivered" if "delivered" in who else "slow 1"]
    assert len(bench.keys) == 1
    bench.may_end.set()
    await stored_state(log, again.id)


@pytest.mark.parametrize("has_ended", [False, True])
async def test_the_end_of_a_paused_run_cancels_its_calls_in_whichever_process_they_run(
    open_two: OpenLog, has_ended: bool
) -> None:
    async with open_two() as log, open_two() as there:
        other = log if isinstance(log, MemoryLog) else there
        bench = Bench()
        run = bench.worker(log, [call("slow", n=1), call("pay"), say("Paid.")]).run("go")
        await pause_of(run)
        running = run._context.background.calls["call_1_1"].task
        if has_ended:
            bench.may_end.set()
            await running
        await dismiss_run(other, run.id, "It is too dear.")
        async with asyncio.timeout(5):
            await asyncio.wait([running])
        assert running.cancelled() is not has_ended


async def test_a_paused_run_keeps_what_a_call_has_shared_that_has_ended_since(log: MemoryLog) -> None:
    gc.freeze()  # the collection below need not look at what came before
    goes_on = asyncio.Event()

    @tool(background=True)
    async def look(context: ToolContext) -> str:
        await goes_on.wait()
        context.set_shared_state("seen")
        return "a tree"

    def worker() -> Worker:
        replies = [call("look"), call("pay"), say("Paid."), say("Done.")]
        return Worker(ByTurn(replies), tools=[look, Bench().tools[2]], log=log)

    async def begun() -> str:
        run = worker().run("go")
        await pause_of(run)
        return run.id

    run_id = await begun()
    goes_on.set()
    async with asyncio.timeout(5):
        async for command in log.commands(run_id):
            assert command.kind == "deliver"
            break
    await settle()
    gc.collect()
    again = worker().new_session().decide(run_id, {"call_2_1": Approve()})
    await again
    assert joined(again.state) == ["a tree"]
    assert again.state.shared_state == "seen"


async def test_a_result_that_comes_while_the_run_is_paused_is_kept_for_another_process(log: MemoryLog) -> None:
    bench = Bench(effect="idempotent")
    replies = [call("slow", n=1), call("pay"), say("Paid."), say("Done.")]
    run = bench.worker(log, replies).run("go")
    paused = await pause_of(run)
    bench.may_end.set()
    async with asyncio.timeout(5):
        async for command in log.commands(run.id):
            assert command.kind == "deliver"
            break
    left = await copy_of(log, run.id)
    other = Bench(effect="idempotent")
    again = other.worker(left, replies).decide(run.id, {paused.pending[0].id: Approve()})
    await again
    assert joined(again.state) == ["slow 1"]
    assert other.keys == []


def found(value: Any) -> Any:
    """A function that finds this out about a call."""

    def reconcile(key: str, given: JsonObject) -> Any:
        assert key
        assert given == {"n": 1}
        return value

    return reconcile


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str] | None, int]] = {
    "pure": ({"effect": "pure"}, {}, ["slow 1"], 1),
    "idempotent": ({"effect": "idempotent"}, {}, ["slow 1"], 1),
    "done": ({"reconcile": found(Done("it was done"))}, {}, ["it was done"], 0),
    "not done": ({"reconcile": found(NotDone())}, {}, ["slow 1"], 1),
    "unknown, told": ({"reconcile": found(Unknown("who knows"))}, {"on_unknown": "tell_model"}, ["who"], 0),
    "unknown, asked": ({}, {}, None, 0),
}


@pytest.mark.parametrize("case", CASES)
async def test_after_a_kill_the_effect_of_the_tool_decides(case: str, log: MemoryLog) -> None:
    settings, options, expected, calls = CASES[case]
    bench = Bench(**settings)
    run = bench.worker(log).run("go")
    await reached(run, TurnStop)
    await run.barrier()
    left = await copy_of(log, run.id)
    bench.may_end.set()
    await run
    other = Bench(**settings)
    other.may_end.set()
    again = other.worker(left, **options).recover(run.id)
    if expected is None:
        paused = await pause_of(again)
        assert paused.hook == "background"
        assert "Whether it had an effect is not known" in paused.reason
        await left.deliver(run.id, "call_1_1", "I have looked: it was")
        again = other.worker(left, **options).recover(run.id)
        expected = ["I have looked: it was"]
    await again
    texts = joined(again.state)
    assert len(texts) == 1
    assert expected[0] in texts[0]
    assert other.keys == bench.keys[:calls]
    await stored_state(left, again.id)


async def test_a_call_that_is_delivered_from_outside_outlives_its_process(log: MemoryLog) -> None:
    replies = [call("order"), *REPLIES[1:]]
    run = Bench().worker(log, replies).run("go")
    await reached(run, TurnStop)
    await run.barrier()
    left = await copy_of(log, run.id)
    await run.cancel()
    again = Bench().worker(left, replies).recover(run.id)
    await again.started()
    await left.deliver(run.id, "call_1_1", "a parcel")
    await again
    assert joined(again.state) == ["a parcel"]


async def test_any_prefix_of_a_log_recovers_and_the_result_joins_once(log: MemoryLog) -> None:
    bench = Bench(effect="idempotent")
    bench.may_end.set()
    run = bench.worker(log).run("go")
    await run
    entries = [entry async for entry in log.read(run.id)]
    commands, row = await log.sent(run.id), (await log.existing(run.id)).row
    for length in range(1, len(entries)):
        if entries[length - 1].kind in ("command_taken", "background_stop"):
            continue  # what follows is in the same append
        left = MemoryLog(lease=0.0)
        claim = await left.claim(run.id, create=True)
        await left.append(claim, entries[:length], after=0, row=msgspec.structs.replace(row, status="running"))
        left.lease = 15.0
        taken = {r.event.number for r in records_of(entries[:length], run.id) if isinstance(r.event, CommandTaken)}
        if length % 2 or taken:
            for command in commands:
                await left.send(run.id, command)
        other = Bench(effect="idempotent")
        other.may_end.set()
        again = other.worker(left).recover(run.id)
        await again
        assert joined(again.state) == ["slow 1"], length
        state, records = await stored_state(left, run.id)
        assert state == again.state
        assert sum(isinstance(r.event, MessageAdd) and r.event.source == "background" for r in records) == 1


@pytest.mark.parametrize("is_whole", [False, True])
async def test_a_copy_of_a_run_takes_nothing_that_was_sent_before_it(is_whole: bool, log: MemoryLog) -> None:
    worker = Bench().worker(log, [call("pay"), say("Paid."), say("Paid again.")])
    paused = await worker.run("go")
    await log.send(paused.run_id, send_command((Message.user("And hurry."),)))
    run = worker.new_session().decide(paused.run_id)
    await run
    last = (await log.existing(run.id)).last_seq
    copy = worker.new_session().fork(run.id, last if is_whole else last - 3)
    await copy
    texts = [message.text for message in copy.state.conversation.messages if message.role == "user" and message.text]
    assert texts == ["go", "And hurry."]
    assert await log.sent(copy.id) == []


async def test_a_fork_does_not_make_a_call_again_without_its_hooks(log: MemoryLog) -> None:
    bench = Bench(effect="idempotent")
    run = bench.worker(log).run("go")
    record = await reached(run, TurnStop)
    await run.barrier()
    other = Bench(effect="idempotent")
    fork = other.worker(log, on_unknown="tell_model").fork(run.id, record.seq)
    await fork
    assert other.keys == []
    assert "forked" in joined(fork.state)[0]
    bench.may_end.set()
    await run


async def test_a_tool_that_has_kept_its_state_goes_on_with_that_in_the_background(log: MemoryLog) -> None:
    seen: list[object] = []
    kept = asyncio.Event()

    @tool(background=True)
    async def job(context: ToolContext) -> str:
        seen.append(None if context.begun is None else context.begun.state)
        if context.begun is None:
            await context.keep({"job": 7}, "submitted")
            kept.set()
            await asyncio.Event().wait()
        return "the job is done"

    replies = [call("job"), *REPLIES[1:]]
    run = Worker(ByTurn(replies), tools=[job], log=log).run("go")
    await kept.wait()
    left = await copy_of(log, run.id)
    again = Worker(ByTurn(replies), tools=[job], log=left).recover(run.id)
    await again
    assert joined(again.state) == ["the job is done"]
    assert seen == [None, {"job": 7}]
    assert "job': 7" not in str([record.event for record in again._journal.hub.history.records(0)])
    await run.cancel()


async def test_a_process_with_other_hooks_does_not_make_a_call_again(log: MemoryLog) -> None:
    @before_tool_call
    def look(context: ToolCallContext) -> None:
        pass

    bench = Bench(effect="idempotent")
    run = bench.worker(log).run("go")
    await reached(run, TurnStop)
    await run.barrier()
    left = await copy_of(log, run.id)
    bench.may_end.set()
    await run
    other = Bench(effect="idempotent")
    again = other.worker(left, hooks=[look], on_unknown="tell_model").recover(run.id)
    await again
    assert other.keys == []
    assert "have not agreed" in joined(again.state)[0]


async def test_a_run_that_is_handed_over_goes_on_with_its_calls_elsewhere(log: MemoryLog) -> None:
    bench, other = Bench(effect="idempotent"), Bench(effect="idempotent")
    run = bench.worker(log).run("go")
    await reached(run, TurnStop)
    await run.hand_over(seconds=0.01)
    other.may_end.set()
    again = other.worker(log).recover(run.id)
    await again
    assert joined(again.state) == ["slow 1"]
    assert bench.keys == other.keys


async def test_a_result_that_a_run_has_taken_before_it_sleeps_does_not_wake_it(log: MemoryLog) -> None:
    bench = Bench(at_end="wake")
    replies = [call("slow", n=1) + call("order"), *REPLIES[1:]]
    bench.tools[1].policy = msgspec.structs.replace(bench.tools[1].policy, at_end="wake")
    run = bench.worker(log, replies).run("go")
    await pause_of(run)
    await log.deliver(run.id, "call_1_2", "a parcel")
    async with RunSource(log) as source:
        info = await source.take(wait=False)
        assert info is not None
        again = bench.worker(log, replies).recover(info.run_id)
        await pause_of(again)
        assert joined(again.state) == ["a parcel"]
        assert await source.take(wait=False) is None
        await log.deliver(again.id, "call_1_1", "slow, by hand")
        info = await source.take(wait=False)
        assert info is not None
        assert info.run_id == again.id
    bench.may_end.set()


@pytest.mark.parametrize("is_stored_late", [False, True])
async def test_a_hand_over_waits_for_a_tool_in_the_background_and_its_result(
    is_stored_late: bool, log: MemoryLog
) -> None:
    store: Any = log
    send, may_store = store._send, asyncio.Event()

    async def late(*args: Any) -> int:
        await may_store.wait()
        return await send(*args)

    store._send = late if is_stored_late else send
    bench, other = Bench(), Bench()
    run = bench.worker(log).run("go")
    await reached(run, TurnStop)
    await settle(50)  # until the model has ended its answer
    if is_stored_late:
        bench.may_end.set()
        await settle()
    left = run.hand_over(seconds=5.0)
    await settle()
    assert not left.done()
    bench.may_end.set()
    may_store.set()
    await left
    again = other.worker(log).recover(run.id)
    await again
    assert joined(again.state) == ["slow 1"]
    assert other.keys == []


async def test_two_runs_that_differ_in_the_ids_of_their_calls_alone_are_equal(log: MemoryLog) -> None:
    runs: list[str] = []
    for id in ("toolu_1", "toolu_2"):  # noqa: A001 - what it is
        bench = Bench()
        bench.may_end.set()
        replies = [Reply(tool_calls=(Call("slow", {"n": 1}, id),)), *REPLIES[1:]]
        run = bench.worker(log, replies).run("go")
        await run
        runs.append(run.id)
    diff = await diff_runs(log, *runs)
    assert not diff.messages
    assert diff.is_equal


async def test_an_imported_run_does_not_make_a_call_again() -> None:
    async with MemoryLog() as log, MemoryLog() as elsewhere:
        bench, other = Bench(effect="idempotent"), Bench(effect="idempotent")
        run = bench.worker(log).run("go")
        await reached(run, TurnStop)
        await run.barrier()
        await import_run(elsewhere, [line async for line in export_run(log, run.id)])
        again = other.worker(elsewhere, on_unknown="tell_model").recover(run.id)
        await again
        assert other.keys == []
        assert "have not agreed" in joined(again.state)[0]
        bench.may_end.set()
        await run


async def test_a_result_counts_once_for_all_runs_that_resume_each_other(log: MemoryLog) -> None:
    bench = Bench()
    replies = [call("slow", n=1) + call("order"), call("pay"), say("Paid."), say("Done."), say("Really.")]
    worker = bench.worker(log, replies)
    run = worker.run("go")
    paused = await pause_of(run)
    await log.deliver(run.id, "call_1_2", "a parcel")
    again = worker.decide(run.id, {paused.pending[0].id: Approve()})
    await reached(again, BackgroundStop)
    for run_id in (run.id, again.id):
        with pytest.raises(CommandConflictError):
            await log.deliver(run_id, "call_1_2", "another")
    bench.may_end.set()
    await again
    assert joined(again.state) == ["a parcel", "slow 1"]
