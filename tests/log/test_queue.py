"""A queue of runs: which run is taken, by which process, and how many at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rxworker import Approve, Finished, Run, Worker, before_tool_call, tool
from rxworker.errors import ConfigurationError, RunCancelledError, RunStatusError
from rxworker.hooks import Pause, ToolCallContext
from rxworker.log import EventLog, MemoryLog, Replica, RunInfo, SQLiteLog
from rxworker.log.recover import RunSource
from rxworker.log.values import Command
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.worker import submit, work
from rxworker.worker.queue import begin, end_cancelled
from tests.log.conftest import OpenLog
from tests.log.processes import Waiting, end_of, working
from tests.log.test_clock_steps import set_clock


def text_of(run: Replica | Run[object]) -> str:
    return run.state.conversation.messages[-1].text


def simple(info: RunInfo) -> Worker:
    return Worker(ScriptedModel([say(f"{info.row.title} is done.")]))


async def test_the_priority_comes_first_and_then_the_age(store: EventLog) -> None:
    taken: list[str] = []

    def note(run: Run[object]) -> None:
        taken.append(text_of(run))

    runs = [
        await submit(store, title, priority=priority)
        for title, priority in (("a", 0), ("b", 2), ("c", 2), ("d", 1), ("e", -1))
    ]
    assert [info.status for info in await store.list(status="queued")] == ["queued"] * 5
    async with working(store, simple, concurrency=1, on_run=note):
        replicas = await end_of(store, *runs)
    assert taken == ["b", "c", "d", "a", "e"]
    texts = [text_of(replica) for replica in replicas]
    assert texts == [f"{title} is done." for title in "abcde"]
    assert {(info.status, info.row.recoveries) for info in await store.list()} == {("finished", 0)}


async def test_what_is_submitted_later_is_taken_at_once(open_store: OpenLog) -> None:
    async with open_store() as log, working(log, simple):
        for title in "ab":
            (replica,) = await end_of(log, await submit(log, title))
            assert text_of(replica) == f"{title} is done."


async def test_a_run_for_later_is_taken_once_when_it_is_due_whatever_the_clocks_do(
    monkeypatch: pytest.MonkeyPatch, store: EventLog
) -> None:
    """The processes that look for it know it from before. The last clock of the two that claims is an hour ahead."""
    at = time.time() + 3600.0
    run = await submit(store, "a", at=at)
    other = await submit(store, "b", at=datetime.fromtimestamp(at + 60.0, UTC))
    (listed, _) = reversed(await store.list(status="queued"))
    assert (listed.run_id, listed.row.due, listed.is_cut_off(), listed.owner) == (run, at, True, "")
    assert "due at 2" in listed.row.reason
    await submit(store, "a", run_id=run, at=at + 1)  # it is the same run
    async with RunSource(store) as source, RunSource(store) as second:
        for each in (source, second):
            assert await each.take(wait=False) is None
        for step in (-7200.0, 3000.0):  # it is set back, and not far enough forward
            set_clock(monkeypatch, step)
            assert await source.take(wait=False) is None
            monkeypatch.undo()
        set_clock(monkeypatch, 3601.0)
        async with asyncio.timeout(10):
            taken = [await each.take() for each in (source, second)]
        assert [one and one.run_id for one in taken] == [run] * 2
        claims = await asyncio.gather(*[source.claim(one) for one in taken if one is not None])
        assert [claim is not None for claim in claims].count(True) == 1
        assert await source.take(wait=False) is None
    await store.send(other, Command("cancel", {"reason": "not needed"}))
    await end_cancelled(store, other)
    ended = await store.existing(other)
    assert (ended.status, ended.row.cause, ended.row.due) == ("aborted", "cancel", 0.0)
    await store.delete(await submit(store, "c", at=at + 3600.0))


@pytest.mark.parametrize("at", [-1.0, float("nan"), float("inf"), 1e12, datetime(2027, 1, 1), "tomorrow"])
async def test_what_is_not_a_moment_is_refused(at: Any, log: MemoryLog) -> None:
    with pytest.raises(ConfigurationError, match="at="):
        await submit(log, "a", at=at)
    assert await log.list() == []


async def test_a_process_takes_its_kinds_alone(store: EventLog) -> None:
    clerk = await submit(store, "a", kind="clerk", labels={"customer": "c-17"}, tenant="acme")
    cook = await submit(store, "b", kind="cook")
    async with working(store, simple, kinds=["clerk"]):
        await end_of(store, clerk)
    kept = {info.run_id: info for info in await store.list()}
    assert kept[cook].status == "queued"
    assert kept[clerk].row.worker == "clerk"
    assert kept[clerk].row.labels == {"customer": "c-17", "tenant": "acme"}
    async with working(store, lambda info: simple(info) if info.row.worker == "cook" else None):
        await end_of(store, cook)


class Gauge:
    """How many tools run at once, for each tenant."""

    def __init__(self) -> None:
        self.now, self.most = Counter[str](), Counter[str]()
        self._gate = asyncio.Event()

    def make(self, info: RunInfo) -> Worker:
        tenant = info.row.labels.get("tenant", "")

        @tool(effect="idempotent")
        async def wait() -> str:
            """Wait."""
            self.now[tenant] += 1
            self.most[tenant] = max(self.most[tenant], self.now[tenant])
            if self.now[""] == 3:
                self._gate.set()
            if not tenant:
                await self._gate.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            self.now[tenant] -= 1
            return "waited"

        return Worker(ScriptedModel([call("wait"), call("wait"), say("Done.")]), tools=[wait])


async def test_the_cap_of_a_tenant_holds_for_all_processes(tmp_path: Path) -> None:
    gauge = Gauge()
    file = tmp_path / "runs.db"
    async with SQLiteLog(file) as log, SQLiteLog(file) as other, SQLiteLog(file) as third:
        runs = [await submit(log, "Go", tenant=tenant) for tenant in ("acme", "bell", "") for _ in range(8)]
        caps = {"acme": 2, "bell": 1}
        async with (
            working(log, gauge.make, tenant_cap=caps),
            working(other, gauge.make, tenant_cap=caps),
            working(third, gauge.make, tenant_cap=caps),
        ):
            await end_of(log, *runs)
    assert gauge.most["acme"] <= 2
    assert gauge.most["bell"] == 1
    assert gauge.most[""] >= 3


async def test_what_a_process_has_is_handed_over_when_it_stops(store: EventLog) -> None:
    waiting = Waiting()

    def answer(request: Request) -> Reply:
        return say("Done.") if request.conversation.messages[-1].tool_results else call("wait")

    def make(_: RunInfo) -> Worker:
        return Worker(ScriptedModel(answer), tools=[waiting.tool])

    run = await submit(store, "Go")
    async with working(store, make, drain=0.0):
        await waiting.begun.wait()
    assert (await store.list())[0].status == "running"
    waiting.go_on.set()
    async with working(store, make):
        (replica,) = await end_of(store, run)
    assert text_of(replica) == "Done."


async def test_a_run_that_was_cancelled_in_the_queue_ends_without_a_request(store: EventLog) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Reply:
        asked.append(request)
        return say("Never.")

    run = await submit(store, "Go")
    await store.send(run, Command("cancel", {"reason": "a mistake"}))
    async with working(store, lambda _: Worker(ScriptedModel(answer))):
        (replica,) = await end_of(store, run)
    assert replica.state.status == "aborted"
    assert "a mistake" in replica.state.reason
    assert asked == []


async def test_a_paused_run_is_resumed_when_it_was_decided_about(open_store: OpenLog) -> None:
    @before_tool_call(name="permit")
    def permit(_: ToolCallContext) -> Pause:
        return Pause("May I?")

    @tool
    async def pay() -> str:
        """Pay."""
        return "paid"

    def answer(request: Request) -> Reply:
        results = request.conversation.messages[-1].tool_results
        return say(f"It is {results[0].text}.") if results else call("pay")

    def make(_: RunInfo | None) -> Worker:
        return Worker(ScriptedModel(answer), tools=[pay], hooks=[permit])

    async with open_store() as log, working(log, make):
        run = await submit(log, "Pay", tenant="acme")
        (paused,) = await end_of(log, run)
        assert paused.state.status == "paused"
        desk = make(None)
        desk.log = log
        resumed = await desk.decide(run, [Approve()]).started()
        assert (await resumed).text == "It is paid."


async def test_a_worker_that_cannot_be_made_leaves_the_run_to_others(
    caplog: pytest.LogCaptureFixture, store: EventLog
) -> None:
    def fail(_: RunInfo) -> Worker:
        raise ValueError("no model")

    tried = asyncio.Event()
    run = await submit(store, "Go")

    def note(info: RunInfo) -> Worker:
        tried.set()
        return fail(info)

    async with working(store, note):
        await tried.wait()
    assert "no model" in caplog.text
    async with working(store, simple):
        await end_of(store, run)


async def test_wrong_arguments_are_named(store: EventLog) -> None:
    with pytest.raises(ConfigurationError, match="concurrency=0"):
        await work(store, simple, concurrency=0)
    with pytest.raises(ConfigurationError):
        await submit(store, 7)  # pyright: ignore[reportArgumentType]
    assert await store.list() == []


async def test_no_more_runs_at_once_than_it_may_have(open_store: OpenLog) -> None:
    runs: set[Run[object]] = set()
    most = 0

    def note(run: Run[object]) -> None:
        nonlocal most
        runs.add(run)
        most = max(most, sum(not each.done() for each in runs))

    async with open_store() as log:
        names = [await submit(log, f"{n}") for n in range(12)]
        async with working(log, Gauge().make, concurrency=3, on_run=note):
            await end_of(log, *names)
    assert most == 3


async def test_a_claim_of_which_the_process_did_not_know_counts(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    async with SQLiteLog(file) as log, SQLiteLog(file) as other:
        first, second = [await submit(log, "Go", tenant="acme") for _ in range(2)]
        async with RunSource(log, lambda _: 1) as source:
            info = await source.take()
            assert info is not None
            assert info.run_id == first
            claim = await other.claim(second)
            assert await begin(source, info, simple, 1, None) is None
            await other.release(claim)
            again = await source.take()
            assert again is not None
            run = await begin(source, again, simple, 1, None)
            assert run is not None
            await run


async def test_a_run_of_this_process_whose_lease_has_expired_is_not_tried_again_and_again() -> None:
    began, tried, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    tries: list[str] = []

    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        await may_end.wait()
        return ""

    def make(info: RunInfo) -> Worker | None:
        tries.append(info.run_id)
        tried.set()
        return Worker(ScriptedModel([]), tools=[wait]) if len(tries) < 50 else None

    async with MemoryLog(clock=lambda: time.time() - 3600.0) as log:
        model = ScriptedModel([call("wait"), "Done."])
        run = Worker(model, tools=[wait], log=log, labels={"tenant": "acme"}).run("Hi")
        await began.wait()
        async with working(log, make, tenant_cap=1):
            await tried.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            assert tries == [run.id]
        may_end.set()
        await run


async def test_the_records_of_a_queued_run_are_those_of_the_whole_run(store: EventLog) -> None:
    seen, done = list[int](), asyncio.Event()
    run = await submit(store, "A poem")
    store.records(run).subscribe(lambda record: seen.append(record.seq), on_completed=done.set)
    async with working(store, simple), asyncio.timeout(60):
        await done.wait()
    info = await store.existing(run)
    assert (info.status, seen) == ("finished", list(range(1, info.last_seq + 1)))


async def test_the_process_that_decides_resumes_the_run(open_store: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    @before_tool_call(name="permit")
    def permit(context: ToolCallContext) -> Pause:
        return Pause("Is it allowed?")

    @tool(effect="pure")
    def look() -> str:
        """Look."""
        return "nothing"

    async with open_store() as log, open_store() as opened:
        other = log if isinstance(log, MemoryLog) else opened  # as from another process
        worker = Worker(ScriptedModel([call("look"), say("So.")]), tools=[look], hooks=[permit])
        worker.log = log
        paused = worker.run("Hi")
        await paused
        made, looked = list[str](), asyncio.Event()
        send, sent = log.send, other.sent

        async def send_and_wait(run_id: str, command: Command) -> int:
            number = await send(run_id, command)
            await looked.wait()  # the other process has seen the decision
            return number

        async def sent_and_note(run_id: str) -> list[Command]:
            commands = await sent(run_id)
            if commands:
                asyncio.get_running_loop().call_later(0.05, looked.set)
            return commands

        def make(info: RunInfo) -> Worker:
            made.append(info.run_id)
            return Worker(ScriptedModel([say("So.")]), tools=[look], hooks=[permit], log=other)

        monkeypatch.setattr(log, "send", send_and_wait)
        monkeypatch.setattr(other, "sent", sent_and_note)
        async with working(other, make), asyncio.timeout(60):
            run = await worker.decide(paused.id, [Approve()]).started()
            assert (await run).text == "So."
        assert made == []


@pytest.mark.parametrize("is_over", [False, True])
async def test_a_run_that_another_process_has_resumed_meanwhile_is_ended_there(is_over: bool, log: MemoryLog) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    @tool(requires_approval=True)
    async def pay() -> str:
        begun.set()
        await gate.wait()
        return "paid"

    worker = Worker(ScriptedModel([call("pay"), "Done."]), tools=[pay], log=log)
    paused = await worker.run("Pay.")
    resumed = worker.decide(paused.run_id, [Approve()])
    await begun.wait()
    if is_over:
        gate.set()
        await resumed
    with suppress(RunStatusError):  # it has ended
        await log.send(paused.run_id, Command("cancel"))
    await end_cancelled(log, paused.run_id)
    with nullcontext() if is_over else pytest.raises(RunCancelledError):
        assert isinstance(await resumed, Finished)
