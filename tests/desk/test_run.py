"""A run at a door: as a run of this process alone, and as one of a log."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from rxworker import Run, Worker, tool
from rxworker.decisions import Approve, Decided
from rxworker.desk.run import OpenRun, new_info, resume_run
from rxworker.errors import CommandConflictError, LocalProtocolError, RunHandedOverError, RunStatusError, RxWorkerError
from rxworker.log import MemoryLog, dismiss_run
from rxworker.log.values import RunRow
from rxworker.messages import Message
from rxworker.testing import ScriptedModel, call
from rxworker.worker.session import Session

paid: list[str] = []
watched: list[str] = []


@pytest.fixture(params=["memory", "log"])
def is_stored(request: pytest.FixtureRequest) -> bool:
    return request.param == "log"


@asynccontextmanager
async def opened(
    *, is_stored: bool, is_own: bool = False, has_watch: bool = False
) -> AsyncGenerator[tuple[Session, OpenRun]]:
    """A session whose run is paused, and that run at a door, which may not have the log of the session."""
    paid.clear()
    watched.clear()

    @tool(background=True)
    async def watch() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            watched.append("cancelled")

    @tool(requires_approval=True)
    def pay() -> str:
        paid.append("paid")
        return "paid"

    async with MemoryLog() as log:
        its = log if is_stored else None
        replies = [*([call("watch")] if has_watch else []), call("pay"), "Done."]
        worker = Worker(ScriptedModel(replies), tools=[pay, watch])
        session = Session(worker, log=log if is_own else its)
        run = session.run("Hi")
        entry = OpenRun(new_info(run, RunRow(title="Hi"), its), its, run)
        await run
        await entry.refresh()
        await entry.open()
        yield session, entry
        entry.close()


async def test_a_run_shows_what_it_waits_for(*, is_stored: bool) -> None:
    async with opened(is_stored=is_stored) as (_, entry):
        assert (entry.status, entry.is_running, entry.is_running_here) == ("paused", False, False)
        assert [each.name for each in entry.pending.calls] == ["pay"]
        assert entry.pending.required == (0,)


async def test_a_paused_run_that_was_resumed_is_not_cancelled(*, is_stored: bool) -> None:
    async with opened(is_stored=is_stored) as (session, entry):
        resumed = await resume_run(session, entry, Decided([Approve()]))
        assert isinstance(resumed, Run)
        assert entry.resumed_as == resumed.id
        with pytest.raises(CommandConflictError):
            await entry.cancel("too late")
        await resumed
        assert (entry.status, paid) == ("paused", ["paid"])


async def test_a_run_that_was_cancelled_while_it_was_paused_stays_so(*, is_stored: bool) -> None:
    async with opened(is_stored=is_stored) as (_, entry):
        await entry.cancel("no longer")
        if not is_stored:
            await entry.ended()  # its end is noted later than it was cancelled
        assert (entry.status, entry.is_dismissed, entry.info.row.cause) == ("aborted", True, "cancel")
        assert "no longer" in entry.reason
        assert paid == []


async def test_a_run_without_a_log_is_resumed_by_no_other_session() -> None:
    async with opened(is_stored=True) as (_, entry):
        other = Session(Worker(ScriptedModel(["Done."])))
        entry.here = None
        with pytest.raises(LocalProtocolError, match="log"):
            await resume_run(other, entry, Decided([Approve()]))
        assert paid == []


async def test_a_run_that_has_ended_takes_no_message(*, is_stored: bool) -> None:
    async with opened(is_stored=is_stored) as (session, entry):
        resumed = await resume_run(session, entry, Decided([Approve()]))
        assert isinstance(resumed, Run)
        its = OpenRun(new_info(resumed, RunRow(), entry.log), entry.log, resumed)
        await resumed
        await its.refresh()
        with pytest.raises(LocalProtocolError, match="finished"):
            await its.send(Message.user("More."))
        with pytest.raises(LocalProtocolError, match="finished"):
            await its.pause("wait")
        await its.cancel("nothing to cancel")
        assert its.status == "finished"
        its.close()
        await asyncio.sleep(0)


async def test_a_run_that_is_cancelled_while_it_is_paused_cancels_its_calls_in_the_background(
    *, is_stored: bool
) -> None:
    async with opened(is_stored=is_stored, has_watch=True) as (_, entry):
        assert not watched
        await entry.cancel("no longer")
        async with asyncio.timeout(5):
            while not watched:  # noqa: ASYNC110 - of a task that has no event
                await asyncio.sleep(0)
        assert watched == ["cancelled"]


async def test_a_run_that_only_its_program_has_in_a_log_is_cancelled_there_too() -> None:
    async with opened(is_stored=False, is_own=True) as (session, entry):
        await entry.cancel("no longer")
        assert session.log is not None
        info = await session.log.info(entry.id)
        assert info is not None
        assert (entry.status, info.status) == ("aborted", "aborted")
        with pytest.raises(RxWorkerError):
            await session.decide(entry.id, [Approve()])
        assert paid == []


async def test_what_another_process_did_to_a_run_of_a_programs_own_log_is_shown_when_it_refuses_a_verb() -> None:
    async with opened(is_stored=False, is_own=True) as (session, entry):
        assert session.log is not None
        await dismiss_run(session.log, entry.id, "elsewhere")
        with pytest.raises(RunStatusError):
            await entry.cancel("too late")
        assert (entry.status, entry.reason) == ("aborted", "elsewhere")
    async with opened(is_stored=False, is_own=True) as (session, entry):
        other = Session(session.worker, log=session.log)
        resumed = await other.decide(entry.id, [Approve()])
        assert resumed.text == "Done."
        with pytest.raises(CommandConflictError):
            await resume_run(session, entry, Decided([Approve()]))
        assert entry.resumed_as == f"{entry.id}~2"
        assert paid == ["paid"]


class Noted(OpenRun):
    """Notes that its replica was closed."""

    def close(self) -> None:
        super().close()
        self.closed.set()

    closed: asyncio.Event


async def test_a_replica_that_a_verb_has_needed_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.desk.run.LINGER", 0.05)
    async with MemoryLog() as log:
        run = Worker(ScriptedModel(["Hello."], delay=60.0), log=log).run("Hi")
        await run.started()
        await run.barrier()
        entry = Noted(new_info(run, RunRow(title="Hi"), log), log, run)
        entry.closed = asyncio.Event()
        await entry.pause("wait")
        assert entry.shown is not None
        async with asyncio.timeout(10.0):
            await entry.closed.wait()
        assert entry.shown is None
        await asyncio.wait({run.cancel()})


async def test_a_run_that_has_left_its_process_is_over_there() -> None:
    async with MemoryLog() as log:
        gate = asyncio.Event()

        @tool
        async def wait() -> str:
            await gate.wait()
            return "waited"

        run = Worker(ScriptedModel([call("wait"), "Done."]), tools=[wait], log=log).run("Hi")
        entry = OpenRun(new_info(run, RunRow(title="Hi"), None), here=run)
        await run.started()
        assert not entry.is_over
        with suppress(RunHandedOverError):
            run.hand_over(reason="elsewhere")
            await run
        await entry.ended()
        assert (entry.is_over, entry.status) == (True, "running")


@pytest.mark.parametrize("steps", range(12))
@pytest.mark.parametrize(("is_stored", "is_own"), [(False, False), (True, False), (False, True)])
async def test_a_run_is_either_resumed_or_cancelled(*, is_stored: bool, is_own: bool, steps: int) -> None:
    async with opened(is_stored=is_stored, is_own=is_own) as (session, entry):
        resuming = asyncio.ensure_future(resume_run(session, entry, Decided([Approve()])))
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled = asyncio.ensure_future(entry.cancel("no longer"))
        [resumed, ended] = await asyncio.gather(resuming, cancelled, return_exceptions=True)
        if isinstance(resumed, Run):
            await resumed
        assert (len(paid), isinstance(resumed, Run)) in [(0, False), (1, True)]
        assert isinstance(resumed, Run) is isinstance(ended, CommandConflictError)
