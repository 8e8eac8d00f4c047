"""The time between `recover`, `decide` or `fork` and the end of loading.

Whatever happens then, the run has one owner or none, and nobody waits for ever.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from rxworker import Finished, Paused, Session, Worker, tool
from rxworker.errors import LocalProtocolError, LogError, RunCancelledError, RunHandedOverError
from rxworker.log import MemoryLog
from rxworker.log.values import OPEN
from rxworker.messages import Conversation, Message
from rxworker.run import driver
from rxworker.run.run import Run
from rxworker.testing import ScriptedModel, call
from rxworker.tools import NotDone
from rxworker.worker import queue, submit, work
from rxworker.worker.nested import worker_tool
from tests.stores import slow_log

VERBS = ["recover", "decide", "fork"]


class Gate:
    """Whether a log answers, and an event that is set when a call waits for that."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.renew()

    def renew(self) -> None:
        """Answer from now on, but not the calls that wait: their event loop is closed."""
        self._may_pass = asyncio.Event()
        self._may_pass.set()

    def open(self) -> None:
        """Answer from now on."""
        self._may_pass.set()

    def shut(self) -> None:
        """Answer nothing from now on."""
        self._may_pass.clear()
        self.reached.clear()

    def behind(self, call: Any) -> Any:
        """A call of the log, behind the gate."""

        async def later(*args: Any) -> Any:
            if not self._may_pass.is_set():
                self.reached.set()
                await self._may_pass.wait()
            return await call(*args)

        return later


def gated_log(*calls: str) -> tuple[MemoryLog, Gate]:
    """A log, and the gate in front of its claims, and of what it is asked about a run; or in front of some calls."""
    log: Any = MemoryLog()
    gate = Gate()
    for name in calls or ("_claim", "_info"):
        setattr(log, name, gate.behind(getattr(log, name)))
    return log, gate


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def worker_of(log: MemoryLog, *replies: Any) -> Worker:
    return Worker(ScriptedModel([*replies, "Done."]), tools=[delete], log=log)


async def stored(log: MemoryLog, verb: str) -> str:
    """A stored run for a verb."""
    if verb != "decide":
        return await submit(log, "Hi")
    run = worker_of(log, call("delete", path="a")).run("Clean up")
    assert isinstance(await run, Paused)
    return run.id


async def settle() -> None:
    """Let the tasks go on until each waits."""
    for _ in range(50):
        await asyncio.sleep(0)


def begin(session: Worker | Session, verb: str, run_id: str) -> Run[object]:
    match verb:
        case "recover":
            return session.recover(run_id)
        case "decide":
            return session.decide(run_id)
        case _:
            return session.fork(run_id, 1)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_cancelled_wait_for_the_start_leaves_the_run_to_others(verb: str) -> None:
    log, gate = gated_log()
    async with log:
        run = await stored(log, verb)
        gate.shut()
        begun = begin(worker_of(log), verb, run)
        starting = asyncio.ensure_future(begun.started())
        await gate.reached.wait()
        starting.cancel()
        await asyncio.sleep(0)
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert isinstance(begun.exception(), RunHandedOverError)
        other = await worker_of(log).recover(begun.id)
        assert isinstance(other, Finished)


async def test_started_raises_also_when_loading_has_failed_before(log: MemoryLog) -> None:
    run = worker_of(log).recover("run-9")
    with pytest.raises(LogError):
        await run
    with pytest.raises(LogError, match="no run 'run-9'"):
        await run.started()


@pytest.mark.parametrize("verb", VERBS)
async def test_a_cancelled_run_ends_although_the_log_does_not_answer(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "GRACE", 0.0)
    log, gate = gated_log()
    async with log:
        run = await stored(log, verb)
        gate.shut()
        worker = worker_of(log)
        begun = begin(worker, verb, run)
        await gate.reached.wait()
        await begun.cancel()
        with pytest.raises(RunCancelledError):
            begun.result()
        gate.open()
        free = await log.existing(run)
        assert not free.owner


def test_a_loop_that_is_closed_while_a_run_is_loaded_leaves_the_conversation() -> None:
    given = Conversation((Message.user("Hi"), Message.assistant("Hello!")))
    loop = asyncio.new_event_loop()

    log, gate = gated_log()
    gate.shut()

    async def recover(session: Session) -> None:
        session.recover("run-1")
        await gate.reached.wait()

    async def go_on(session: Session) -> Conversation:
        return (await session.run("And now?")).conversation

    worker = Worker(ScriptedModel(["Fine."]))
    session = worker.new_session(given, shared_state={"n": 1}, log=log)
    loop.run_until_complete(recover(session))
    loop.close()
    gate.renew()
    went_on = asyncio.run(go_on(session))
    assert went_on.messages[:2] == given.messages
    assert session.shared_state == {"n": 1}


async def test_an_invalid_shared_state_decides_nothing(log: MemoryLog) -> None:
    run = await stored(log, "decide")
    invalid: Any = {"a": object()}
    with pytest.raises(LocalProtocolError, match="cannot be shared"):
        await worker_of(log).decide(run, shared_state=invalid)
    assert not await log.sent(run)


async def test_a_run_that_is_loaded_when_work_is_cancelled_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "SETTLE", 0.0)
    monkeypatch.setattr(driver, "GRACE", 0.0)
    log, gate = gated_log("_claim")
    async with log:
        run = await submit(log, "Hi")
        gate.shut()
        working = asyncio.ensure_future(work(log, lambda _: worker_of(log)))
        await gate.reached.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        gate.open()
        await settle()
        found = await log.existing(run)
        assert (found.status, found.owner) == ("queued", "")


async def test_a_nested_run_that_is_loaded_ends_with_its_outer_run() -> None:
    log, gate = gated_log("_claim")
    async with log:
        is_asked = asyncio.Event()

        @tool(effect="idempotent")
        async def wait() -> str:
            """Wait for ever."""
            is_asked.set()
            await asyncio.Event().wait()
            return ""

        def make() -> Worker:
            inner = Worker(ScriptedModel([call("wait"), "Done."]), tools=[wait])
            asked = worker_tool(inner, name="ask", description="")
            return Worker(ScriptedModel([call("ask", task="?"), "So."]), tools=[asked], log=log)

        first = make().run("go")
        await is_asked.wait()
        await first.hand_over(seconds=0.0)
        second = await make().recover(first.id).started()
        gate.shut()
        await gate.reached.wait()
        is_asked.clear()
        ended = second.cancel()
        await settle()
        gate.open()
        await ended
        await settle()
        assert not is_asked.is_set()
        assert {info.status for info in await log.list()} == {"aborted"}


async def test_a_claim_is_released_although_a_reconcile_function_ignores_the_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "GRACE", 0.0)
    asked, answered, paying = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def reconcile(_key: str, _args: Any) -> NotDone:
        asked.set()
        while not answered.is_set():
            with suppress(asyncio.CancelledError):
                await answered.wait()
        return NotDone()

    @tool(reconcile=reconcile)
    async def pay() -> str:
        """Pay."""
        paying.set()
        await asyncio.Event().wait()
        return ""

    async with MemoryLog() as log:
        first = Worker(ScriptedModel([call("pay")]), tools=[pay], log=log).run("Pay.")
        await paying.wait()
        first.hand_over(seconds=0.0)
        with pytest.raises(RunHandedOverError):
            await first
        worker = Worker(ScriptedModel(["Done."]), tools=[pay], log=log)
        run = worker.recover(first.id)
        await asked.wait()
        await run.cancel()
        assert isinstance(run.exception(), RunCancelledError)
        answered.set()
        await settle()
        info = await log.existing(first.id)
        assert (info.status, info.owner) == ("running", "")


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_is_over_at_whatever_step_its_event_loop_ends(verb: str) -> None:
    for steps in range(30):
        log, runs = slow_log(0.0), list[Run[object]]()

        async def begin_and_leave(log: MemoryLog, runs: list[Run[object]], steps: int) -> None:
            runs.append(begin(worker_of(log), verb, await stored(log, verb)))
            for _ in range(steps):
                await asyncio.sleep(0)

        asyncio.run(begin_and_leave(log, runs, steps))
        assert runs[0].done(), steps
        info = asyncio.run(log.info(runs[0].id))
        assert info is None or info.status in OPEN or not info.owner, steps
