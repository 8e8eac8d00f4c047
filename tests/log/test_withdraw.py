"""A message that was sent to a run and is not delivered yet can be withdrawn, with and without a log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import ANY

import pytest

from rxworker import Paused, Run, Worker, tool
from rxworker.errors import LogError, RunHandedOverError
from rxworker.events import CommandTaken, MessageAdd, Record
from rxworker.log import EventLog, MemoryLog, Replica
from rxworker.log.values import send_command
from rxworker.messages import Message
from rxworker.testing import ScriptedModel, call
from rxworker.turn.journal import NOT_WAITING, WITHDRAWN
from tests.log.processes import Waiting, stored


@tool
async def look() -> str:
    """Look."""
    await asyncio.sleep(0)
    return "nothing"


class Desk:
    """A run whose tool waits."""

    def __init__(self, log: EventLog | None = None) -> None:
        waiting = Waiting()
        self.begun, self.go_on = waiting.begun, waiting.go_on
        self.model = ScriptedModel([call("wait"), "Done.", "Once more."])
        self.worker = Worker(self.model, tools=[waiting.tool], log=log)
        self.run: Run[object] = self.worker.run("Hi")

    async def read(self) -> None:
        """Read what is stored for the run by now."""
        commands = self.run._context.commands  # pyright: ignore[reportPrivateUsage]
        if commands is not None:
            await asyncio.gather(*commands.others)  # pyright: ignore[reportPrivateUsage]
            await commands.read_now()

    async def end(self) -> tuple[list[str], list[CommandTaken]]:
        """The texts that were delivered, and the commands that were taken."""
        self.go_on.set()
        await self.run
        assert len(self.model.requests) == 2 + (self.run.state.turns > 2)
        commands = self.run._context.commands  # pyright: ignore[reportPrivateUsage]
        assert commands is None or not any(not sent.cancelled() for sent in commands.queued.values())  # pyright: ignore[reportPrivateUsage]
        return delivered([record async for record in self.run])


def delivered(records: Iterable[Record]) -> tuple[list[str], list[CommandTaken]]:
    """The texts that were delivered, and the commands that were taken."""
    events = [record.event for record in records]
    added = [e for e in events if isinstance(e, MessageAdd) and e.source == "send"]
    taken = [e for e in events if isinstance(e, CommandTaken)]
    return [message.text for e in added for message in e.messages], taken


@asynccontextmanager
async def desk(has_log: bool) -> AsyncGenerator[Desk]:
    async with MemoryLog() as log:
        one = Desk(log if has_log else None)
        await one.begun.wait()
        yield one
        assert one.run.done()


@pytest.mark.parametrize("has_log", [False, True])
@pytest.mark.parametrize("reads", [False, True])
async def test_a_message_whose_future_is_cancelled_is_not_delivered(has_log: bool, reads: bool) -> None:
    async with desk(has_log) as one:
        first, second = one.run.send("first"), one.run.send("second")
        if reads:
            await one.read()
        assert first.cancel()
        if reads:
            await one.read()
        added, taken = await one.end()
        assert added == ["second"]
        assert second.done()
        assert not second.cancel()  # it is in the conversation
        if has_log and reads:
            assert taken == [CommandTaken(1, "send", WITHDRAWN), CommandTaken(2, "send"), CommandTaken(3, "send")]


@pytest.mark.parametrize("has_log", [False, True])
async def test_no_request_is_made_for_messages_that_were_withdrawn(has_log: bool, log: MemoryLog) -> None:
    """Where the run would finish."""
    run: Run[object] | None = None

    def answer(_: Any) -> str:
        assert run is not None
        run.send("first").cancel()
        return "Done."

    model = ScriptedModel(answer)
    run = Worker(model, log=log if has_log else None).run("Hi")
    await run
    assert len(model.requests) == 1
    assert run.state.conversation.messages[-1].text == "Done."


async def test_another_process_withdraws_what_it_has_sent(store: EventLog) -> None:
    one = Desk(store)
    await one.begun.wait()
    replica = Replica(store, one.run.id)
    first, second = await replica.send("first"), await replica.send("second", id="mine")
    assert (first, second) == (ANY, "mine")
    await replica.withdraw(first)
    await replica.withdraw("mine")
    await replica.withdraw("mine")
    await replica.withdraw("another")
    await one.read()
    added, taken = await one.end()
    assert added == []
    assert taken == [
        CommandTaken(1, "send", WITHDRAWN),
        CommandTaken(2, "send", WITHDRAWN),
        CommandTaken(3, "send"),
        CommandTaken(4, "send"),
        CommandTaken(5, "send", NOT_WAITING),
        CommandTaken(6, "send", NOT_WAITING),
    ]
    await replica.ended()
    assert delivered(await stored(store, one.run.id)) == (added, taken)
    with pytest.raises(LogError, match="ended"):
        await replica.withdraw(first)
    replica.close()


async def test_what_is_in_the_conversation_is_not_withdrawn(log: MemoryLog) -> None:
    commands = iter([send_command([Message.user("first")], "mine"), send_command((), withdraws="mine")])

    @tool
    async def act() -> str:
        """Act."""
        await log.send(run.id, next(commands))
        await run._context.commands.read_now()  # pyright: ignore
        return "done"

    model = ScriptedModel([call("act"), call("act"), "Done."])
    run: Run[object] = Worker(model, tools=[act], log=log).run("Hi")
    await run
    added, taken = delivered(await stored(log, run.id))
    assert added == ["first"]
    assert taken == [CommandTaken(1, "send"), CommandTaken(2, "send", NOT_WAITING)]


async def withdraw_the_first(log: EventLog, one: Desk, by: str) -> None:
    """Send two messages, and withdraw the first."""
    if by == "future":
        withdrawn, _ = one.run.send("first"), one.run.send("second")
        await one.read()
        withdrawn.cancel()
        await asyncio.sleep(0)
        await one.read()
    else:
        await log.send(one.run.id, send_command([Message.user("first")], "a"))
        await log.send(one.run.id, send_command([Message.user("second")], "b"))
        await log.send(one.run.id, send_command((), withdraws="a"))
        if by != "log, while it is paused":
            await one.read()


@pytest.mark.parametrize(
    ("by", "is_handed_over"),
    [("future", False), ("log", False), ("log, while it is paused", False), ("future", True), ("log", True)],
)
async def test_what_is_withdrawn_is_not_delivered_after_a_pause_or_by_another_process(
    by: str, is_handed_over: bool, store: EventLog
) -> None:
    one = Desk(store)
    await one.begun.wait()
    if not is_handed_over:
        one.run.pause(reason="lunch")
    if not by.endswith("paused"):
        await withdraw_the_first(store, one, by)
    if is_handed_over:
        handed = one.run.hand_over(seconds=0.01)
        with pytest.raises(RunHandedOverError):
            await one.run
        await handed
        one.go_on.set()
        after = one.worker.new_session().recover(one.run.id)
    else:
        one.go_on.set()
        assert isinstance(await one.run, Paused)
        if by.endswith("paused"):
            await withdraw_the_first(store, one, by)
        after = one.worker.session.resume()
    await after
    added, _ = delivered(await stored(store, after.id))
    assert added == ["second"]


@pytest.mark.parametrize("has_log", [False, True])
async def test_a_message_is_delivered_once_or_withdrawn_wherever_its_future_is_cancelled(has_log: bool) -> None:
    """It is cancelled after each number of steps of the event loop."""
    outcomes = set[bool]()
    for steps in range(60):
        async with MemoryLog() as log:
            model = ScriptedModel([call("look"), "Done.", "Once more."])
            run = Worker(model, tools=[look], log=log if has_log else None).run("Hi")
            sent = run.send("first")
            for _ in range(steps):
                await asyncio.sleep(0)
            is_withdrawn = sent.cancel()
            await run
            added, taken = delivered([record async for record in run])
            assert added == ([] if is_withdrawn else ["first"]), steps
            assert len(model.requests) == 2
            assert [each.kind for each in taken if not each.ignored].count("send") <= 2
            outcomes.add(is_withdrawn)
    assert outcomes == {True, False}


@pytest.mark.parametrize("at", range(12))
async def test_a_withdrawal_that_is_stored_outlives_the_process(at: int, log: MemoryLog) -> None:
    """The process loses its run after each number of steps of the event loop after the withdrawal."""
    one = Desk(log)
    await one.begun.wait()
    sent = one.run.send("first")
    await one.read()
    assert sent.cancel()
    for _ in range(at):
        await asyncio.sleep(0)
    is_stored = len(await log.sent(one.run.id)) == 2
    log.heartbeat.remove(one.run.id)  # as if the process had been killed
    await log.release(one.run._journal.writer.claim)  # pyright: ignore
    is_stored = is_stored or len(await log.sent(one.run.id)) == 2
    one.go_on.set()
    other = Worker(one.model, tools=list(one.worker.tools), log=log).new_session()
    await other.recover(one.run.id)
    with pytest.raises(LogError):
        await one.run
    added, _ = delivered(await stored(log, one.run.id))
    assert not (is_stored and added)
    assert added in ([], ["first"])
