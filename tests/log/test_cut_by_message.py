"""A response that a message cuts off, in a run with a log: its process is killed, or controlled, at every step."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rxworker import Run, Worker, tool
from rxworker.errors import ConfigurationError, LocalProtocolError, RxWorkerError
from rxworker.events import CommandTaken, MessageAdd, Record, TextDelta
from rxworker.log import EventLog, MemoryLog, Replica, fork_run
from rxworker.log.values import Command, read_command, send_command
from rxworker.messages import Message, validate
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, call, lint, say
from rxworker.testing.reply import reply_events
from rxworker.turn.journal import NOT_WAITING, WITHDRAWN
from tests.log.processes import Waiting, stored
from tests.stores import make_log
from tests.whole import IS_WHOLE
from tests.worker.test_speaking import Played

STEPS = range(0, 40, 1 if IS_WHOLE else 3)
# A command of another process may be stored after the last look at them, so not over a file, which takes its time.
KINDS = [("memory", "run"), ("memory", "log"), ("slow", "run"), ("slow", "log"), ("sqlite", "run")]
OLD: Any = {"role": "user", "content": [{"type": "text", "text": "old"}]}
"""A message as releases before have stored it, without ``when``."""
ANSWER = reply_events(say("Once upon a time", chunk=2) + call("look"))


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "seen"


class Desk:
    """A run to which a message is sent ``now``, before an event of its response, which calls a pure tool at its end."""

    def __init__(self, log: EventLog, door: str = "run", at: int = 5) -> None:
        self.log, self.door, self.at = log, door, at
        self.sent: list[asyncio.Future[Any]] = []
        self.is_sent = asyncio.Event()
        model = Played("scripted", ANSWER, self._before, ["In short."] * 3)
        self.run: Run[Any] = Worker(model, tools=[look], log=log).run("go")

    def _before(self, place: int) -> None:
        if place != self.at:
            return
        if self.door == "run":
            self.sent.append(self.run.send("n", "now"))
        else:
            command = send_command([Message.user("n")], "n", "now")
            self.sent.append(asyncio.ensure_future(self.log.send(self.run.id, command)))
        self.is_sent.set()


def check(records: list[Record]) -> list[str]:
    """The rules, and what the conversation has at the end."""
    assert lint(records) == []
    state = fold_run(records)
    assert validate(state.conversation) == []
    taken = [r.event.number for r in records if isinstance(r.event, CommandTaken)]
    assert len(set(taken)) == len(taken)
    return [message.text for message in state.conversation.messages]


@pytest.mark.slow
@pytest.mark.parametrize("at", [5, len(ANSWER) - 4])
@pytest.mark.parametrize(("kind", "door"), KINDS if IS_WHOLE else KINDS[:4])
async def test_its_process_may_be_killed_at_every_step(kind: str, door: str, at: int, tmp_path: Path) -> None:
    cuts = set[bool]()
    for step in STEPS:
        made = make_log(kind, tmp_path, 0.0)
        assert made is not None
        async with made as log:
            desk = Desk(log, door, at)
            await desk.is_sent.wait()
            for _ in range(step):
                await asyncio.sleep(0)
            is_stored = bool(await log.sent(desk.run.id))
            if not desk.run.done():
                log.heartbeat.remove(desk.run.id)  # as if the process had been killed
                await log.release(desk.run._journal.writer.claim)  # pyright: ignore
                is_stored = is_stored or bool(await log.sent(desk.run.id))
                session = Worker(ScriptedModel(["In short."] * 3), tools=[look], log=log).new_session()
                with suppress(LocalProtocolError):  # its end was being stored
                    await session.recover(desk.run.id)
                with suppress(RxWorkerError):
                    await desk.run
            records = await stored(log, desk.run.id)
            texts = check(records)
            assert fold_run(records).status == "finished"
            added = [r.event for r in records if isinstance(r.event, MessageAdd) and r.event.source == "send"]
            assert texts.count("n") == len(added) <= 1, step
            assert not is_stored or texts.count("n") == 1, step
            cuts.add(any(text and "Once upon a time".startswith(text) for text in texts))
    assert cuts == {True, False} or (kind != "memory" and cuts)


@pytest.mark.parametrize("by", ["cancel", "after_turn", "pause", "hand_over"])
async def test_it_may_be_controlled_at_every_step(by: str) -> None:
    for step in STEPS:
        async with MemoryLog() as log:
            desk = Desk(log)
            await desk.is_sent.wait()
            for _ in range(step):
                await asyncio.sleep(0)
            run = desk.run
            with suppress(RxWorkerError):
                match by:
                    case "cancel":
                        run.cancel()
                    case "after_turn":
                        run.cancel("after_turn")
                    case "pause":
                        run.pause()
                    case _:
                        run.hand_over(seconds=0.0)
            with suppress(RxWorkerError):
                await run
            worker = Worker(ScriptedModel(["In short."] * 3), tools=[look], log=log)
            last = run.id
            if run.state.status == "paused":
                after = worker.new_session().decide(run.id, {})
                await after
                last = after.id
            elif by == "hand_over" and run.state.status == "running":
                await worker.new_session().recover(run.id)
            texts = check(await stored(log, last))
            delivered = desk.sent[0].done() and not desk.sent[0].exception()
            assert texts.count("n") == 1 if by in ("pause", "hand_over") or delivered else "n" not in texts, step


async def test_a_fork_at_every_record_keeps_the_message(log: MemoryLog) -> None:
    desk = Desk(log)
    await desk.run
    records = await stored(log, desk.run.id)
    before = next(r.seq for r in records if isinstance(r.event, MessageAdd))
    for at in range(1, len(records)):
        fork = await fork_run(log, desk.run.id, at)
        await Worker(ScriptedModel(["In short."] * 3), tools=[look], log=log).new_session().recover(fork)
        texts = check(await stored(log, fork))
        assert texts.count("n") == (at >= before), at
        assert texts[-1] == "In short."


async def test_commands_of_other_processes_have_a_time_and_change_what_waits(log: MemoryLog) -> None:

    @tool
    async def wait() -> str:
        """Wait."""
        replica = Replica(log, run.id)
        first = await replica.send("a", when="end")
        second = await replica.send("b")
        await replica.edit(first, "A")
        await replica.edit(second, "B", when="now")
        await replica.edit("none", "C")
        await replica.withdraw(await replica.send("D", when="end"))
        await log.send(run.id, Command("send", {"messages": [OLD]}))
        await run._context.commands.read_now()  # pyright: ignore
        replica.close()
        return "waited"

    model = ScriptedModel([call("wait"), "Yes.", "No."])
    run: Run[Any] = Worker(model, tools=[wait], log=log).run("go")
    await run
    records = await stored(log, run.id)
    assert check(records) == ["go", "", "", "B", "old", "Yes.", "A", "No."]
    taken = [(r.event.number, r.event.ignored) for r in records if isinstance(r.event, CommandTaken)]
    # What is withdrawn is recorded with its withdrawal: no process takes one without the other.
    assert taken == [(4, ""), (2, ""), (5, NOT_WAITING), (6, WITHDRAWN), (7, ""), (8, ""), (3, ""), (1, "")]


async def test_a_change_is_stored_after_the_message_that_it_changes(
    monkeypatch: pytest.MonkeyPatch, log: MemoryLog
) -> None:
    send: Any = log._send  # pyright: ignore[reportPrivateUsage]

    async def send_later(run_id: str, key: str, data: bytes) -> int:
        if b"first" in data:
            await asyncio.sleep(0.01)
        return await send(run_id, key, data)

    monkeypatch.setattr(log, "_send", send_later)
    waiting = Waiting()
    run: Run[Any] = Worker(ScriptedModel([call("wait"), "Yes."]), tools=[waiting.tool], log=log).run("go")
    await waiting.begun.wait()
    changed = run.edit(run.send("first"), "second")
    await changed
    waiting.go_on.set()
    await run
    assert check(await stored(log, run.id)) == ["go", "", "", "second", "Yes."]


@pytest.mark.parametrize("when", ["soon", 1, ["now"]])
async def test_a_time_that_is_not_known_is_refused_before_it_is_stored_and_after(when: Any, log: MemoryLog) -> None:
    run: Run[Any] = Worker(ScriptedModel(["one"]), log=log).run("go")
    await run.started()
    await run.barrier()
    data = {"messages": [OLD], "when": when}
    with pytest.raises(ConfigurationError, match="when is 'now', 'turn' or 'end'"):
        await log.send(run.id, Command("send", data))
    replica = Replica(log, run.id)
    with pytest.raises(ConfigurationError, match="when is 'now', 'turn' or 'end'"):
        await replica.send("a", when=when)
    replica.close()
    await run
    assert read_command(msgspec.json.encode(Command("send", data))).kind == "ignored"


@pytest.mark.parametrize("sends", [True, False])
async def test_a_stored_run_is_given_again_with_its_message(sends: bool, log: MemoryLog) -> None:
    desk = Desk(log)
    await desk.run
    told = check(await stored(log, desk.run.id))
    run: Run[Any] = Worker(await ScriptedModel.from_log(log, desk.run.id), tools=[look]).run("go")

    def send(record: Record) -> None:
        if sends and len(desk.sent) == 1 and isinstance(record.event, TextDelta):
            desk.sent.append(run.send("n", "now"))

    run.subscribe(send, lambda _: None)
    if sends:
        await run
        assert [message.text for message in run.state.conversation.messages][-1] == told[-1]
    else:
        with pytest.raises(LocalProtocolError, match="cut off, by a message"):
            await run
