"""A run at a door: as a run of this process alone, and as one of a log."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from rxworker import Run, Worker, tool
from rxworker.decisions import Approve, Decided
from rxworker.desk.run import OpenRun, new_info, resume_run
from rxworker.errors import CommandConflictError, LocalProtocolError
from rxworker.log import MemoryLog
from rxworker.log.values import RunRow
from rxworker.messages import Message
from rxworker.testing import ScriptedModel, call
from rxworker.worker.session import Session

paid: list[str] = []


@pytest.fixture(params=["memory", "log"])
def is_stored(request: pytest.FixtureRequest) -> bool:
    return request.param == "log"


@asynccontextmanager
async def opened(*, is_stored: bool) -> AsyncGenerator[tuple[Session, OpenRun]]:
    """A session whose run is paused, and that run at a door."""
    paid.clear()

    @tool(requires_approval=True)
    def pay() -> str:
        paid.append("paid")
        return "paid"

    async with MemoryLog() as log:
        its = log if is_stored else None
        session = Session(Worker(ScriptedModel([call("pay"), "Done."]), tools=[pay]), log=its)
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
        entry.resumed_as = resumed.id
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
