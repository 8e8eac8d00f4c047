"""A conversation at the desk: what its last run is, what that waits for, and how it goes on, with a log and without."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from rxworker import Approve, Session, Worker, tool
from rxworker.desk.conversation import OpenConversation, conversations_in, delete_runs, stored_runs
from rxworker.errors import CommandConflictError, SessionBusyError
from rxworker.log import EventLog, MemoryLog, dismiss_run
from rxworker.log.values import CONVERSATION
from rxworker.resume.stored import LoadedRun
from rxworker.run.run import Run
from rxworker.testing import ScriptedModel, call


class Wipes(list[str]):
    """What the tool was called with."""


def opened(wiped: Wipes, *answers: object, log: EventLog | None = None) -> OpenConversation:
    """The conversation as a process has it that has just begun."""

    @tool(requires_approval=True)
    async def wipe(disk: str) -> str:
        wiped.append(disk)
        return f"{disk} is empty"

    worker = Worker(ScriptedModel([*answers]), tools=[wipe], name="worker")  # pyright: ignore[reportArgumentType]
    return OpenConversation(Session(worker, log=log, labels={CONVERSATION: "c-1"}))


@asynccontextmanager
async def maybe(*, is_stored: bool) -> AsyncGenerator[EventLog | None]:
    async with MemoryLog() as log:
        yield log if is_stored else None


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_run_waits_is_decided_about_and_ends(is_stored: bool) -> None:
    wiped = Wipes()
    async with maybe(is_stored=is_stored) as log:
        here = opened(wiped, call("wipe", disk="a"), "Done.", log=log)
        await here.begin("Clean up")
        assert (here.next, wiped) == (0, [])
        here.decided[0] = Approve()
        assert here.next is None
        run = here.decide()
        assert (here.paused, here.decided) == (None, {})
        await run
        assert (here.paused, wiped) == (None, ["a"])


async def test_the_next_message_goes_on_after_a_run_of_another_process_and_after_its_dismissal() -> None:
    wiped = Wipes()
    async with MemoryLog() as log:
        there = opened(wiped, call("wipe", disk="a"), log=log)
        await there.begin("Clean up")
        here = opened(wiped, "Bye.", log=log)
        assert isinstance(await here.catch_up(), LoadedRun)
        assert here.paused is not None
        here.decided[0] = Approve()  # of a question that nobody has answered to the end
        assert await here.catch_up() is None
        await dismiss_run(log, here.paused.run_id, "no longer")
        assert isinstance(await here.catch_up(), LoadedRun)
        assert (here.paused, here.next, here.decided) == (None, None, {})
        await here.begin("Thanks")
        texts = [message.text for message in here.session.conversation.messages]
        assert (texts[0], texts[-2:], wiped) == ("Clean up", ["Thanks", "Bye."], [])


async def test_a_run_of_another_process_is_waited_for_and_one_that_was_cut_off_is_continued() -> None:
    wiped = Wipes()
    async with MemoryLog() as log:
        there, here = opened(wiped, "One.", log=log), opened(wiped, "One.", log=log)
        run = there.begin("Count")
        await run.barrier()
        with pytest.raises(SessionBusyError, match="running elsewhere"):
            await here.catch_up()
        await there.leave("it stops")
        run = await here.catch_up("it is back")
        assert isinstance(run, Run)
        await run
        assert here.session.conversation.messages[-1].text == "One."


async def test_a_decision_that_came_second_leaves_nothing_that_waits_and_the_first_goes_on() -> None:
    wiped = Wipes()
    async with MemoryLog() as log:
        there = opened(wiped, call("wipe", disk="a"), "Done.", log=log)
        await there.begin("Clean up")
        here = opened(wiped, "Bye.", log=log)
        await here.catch_up()
        there.decided[0] = here.decided[0] = Approve()
        await there.decide()
        with pytest.raises(CommandConflictError):
            await here.decide()
        assert here.paused is None
        assert isinstance(await here.catch_up(), LoadedRun)
        assert here.session.conversation.messages[-1].text == "Done."
        assert wiped == ["a"]


async def test_a_run_of_another_process_does_not_get_the_output_of_one_that_waited_here() -> None:
    wiped = Wipes()
    async with MemoryLog() as log:
        here = opened(wiped, call("wipe", disk="a"), "Done.", log=log)
        await here.session.run("Count", output=int)
        there = opened(wiped, call("wipe", disk="b"), log=log)
        await there.catch_up()
        await there.dismiss("no longer")
        await there.begin("Clean up")
        await here.catch_up()
        here.decided[0] = Approve()
        result = await here.decide()
        assert (result.text, wiped) == ("Done.", ["b"])


async def test_the_runs_of_a_conversation_are_listed_and_deleted_once_by_two() -> None:
    async with MemoryLog() as log:
        here = opened(Wipes(), "One.", "Two.", log=log)
        for text in ("Count", "And?"):
            await here.begin(text)
        runs = await stored_runs(log, lambda _: True, nested=True)
        (listed,) = conversations_in(runs[::-1])
        assert (listed.id, [info.row.title for info in listed.runs]) == ("c-1", ["Count", "And?"])
        await log.delete(runs[0].run_id)
        await delete_runs(log, runs)
        assert await log.list() == []
