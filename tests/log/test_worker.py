"""A worker with a log: what is stored, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rxworker import Approve, Paused, Worker, before_tool_call, on_abort, tool
from rxworker.errors import FencedError, LocalProtocolError, LogError, RunCancelledError
from rxworker.events import (
    CommandTaken,
    Event,
    MessageAdd,
    Record,
    RunAbort,
    RunPause,
    RunRecover,
    RunStop,
    ToolStart,
    ToolStop,
)
from rxworker.log import EventLog, MemoryLog, Replica, open_log
from rxworker.log.values import Command
from rxworker.messages import Message
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, call, say
from rxworker.turn.commands import send_command
from tests.log.conftest import OpenLog, until
from tests.log.nats_server import NatsServer
from tests.log.postgres_server import PostgresServer
from tests.log.processes import Waiting, stored
from tests.pauses import pause_of


@tool
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool(requires_approval=True)
async def order(what: str) -> str:
    """Order."""
    return f"ordered {what}"


def events(records: list[Record], *kinds: type[Any]) -> list[Event]:
    return [record.event for record in records if isinstance(record.event, kinds)]


async def test_the_log_has_what_watchers_have_seen(store: EventLog) -> None:
    model = ScriptedModel([say("Let me see.") + call("pay", euros=3), "Paid."])
    run = Worker(model, tools=[pay], log=store, name="clerk").run("Pay 3, please")
    seen = [record async for record in run]
    assert await stored(store, run.id) == seen
    (info,) = await store.list()
    assert (info.run_id, info.status, info.row.title, info.row.worker) == (run.id, "finished", "Pay 3, please", "clerk")
    assert (info.row.turns, info.row.tool_calls, info.owner) == (2, 1, "")
    assert fold_run(await stored(store, run.id)) == run.state


async def test_a_tool_with_effects_runs_after_its_start_is_stored(store: EventLog) -> None:
    seen: list[int] = []

    @tool
    async def look_at_the_log(n: int) -> str:
        """Look."""
        (info,) = await store.list()
        seen.append(len(events(await stored(store, info.run_id), ToolStart)))
        return str(n)

    calls = call("look_at_the_log", n=1) + call("look_at_the_log", n=2)
    await Worker(ScriptedModel([calls, "Done."]), tools=[look_at_the_log], log=store).run("Hi")
    assert seen == [2, 2]  # in one append


async def test_an_end_is_stored_before_any_watcher_receives_it(store: EventLog) -> None:
    worker = Worker(ScriptedModel(["Hello.", say("One") + call("pay", euros=1)]), tools=[pay], log=store)
    run = worker.run("Hi")
    await run
    assert isinstance((await stored(store, run.id))[-1].event, RunStop)
    run = worker.run("Hi")
    run.pause()
    await run
    assert isinstance((await stored(store, run.id))[-1].event, RunPause)


async def test_a_cancelled_run_is_stored_as_aborted(store: EventLog) -> None:
    waiting = Waiting()
    run = Worker(ScriptedModel([call("wait")]), tools=[waiting.tool], log=store).run("Hi")
    await waiting.begun.wait()
    await run.cancel()
    records = await stored(store, run.id)
    assert [type(record.event) for record in records[-2:]] == [ToolStop, RunAbort]
    assert (await store.list())[0].status == "aborted"


async def test_a_message_is_sent_through_the_log_and_taken_once(store: EventLog) -> None:
    waiting = Waiting()
    run = Worker(ScriptedModel([call("wait"), "Done."]), tools=[waiting.tool], log=store).run("Hi")
    await waiting.begun.wait()
    delivered = run.send("From here.")
    await store.send(run.id, send_command([Message.user("From there.")]))
    mailbox = run._context.mailbox  # pyright: ignore[reportPrivateUsage]
    await until(lambda: len(mailbox.waiting) == 2)
    waiting.go_on.set()
    await run
    assert delivered.done()
    records = await stored(store, run.id)
    at = [n for n, record in enumerate(records) if isinstance(record.event, CommandTaken)]
    assert [records[n].event for n in at] == [CommandTaken(1, "send"), CommandTaken(2, "send")]
    texts = [records[n + 1].event for n in at]
    assert {event.messages[0].text for event in texts if isinstance(event, MessageAdd)} == {"From here.", "From there."}


async def test_another_process_cancels_and_pauses(store: EventLog) -> None:
    for command, last in (("cancel", RunAbort), ("pause", RunPause)):
        waiting = Waiting()
        run = Worker(ScriptedModel([call("wait"), "Done."]), tools=[waiting.tool], log=store).run("Hi")
        await waiting.begun.wait()
        await store.send(run.id, Command(command, {"reason": "lunch"}))  # pyright: ignore[reportArgumentType]
        if command == "cancel":
            with pytest.raises(RunCancelledError, match="lunch"):
                await run
        else:
            request = run._context.pause_request  # pyright: ignore[reportPrivateUsage]
            await until(lambda: request.reason)  # noqa: B023
            waiting.go_on.set()
            assert isinstance(await run, Paused)
        records = await stored(store, run.id)
        assert isinstance(records[-1].event, last)
        assert events(records, CommandTaken) == [CommandTaken(1, command)]


async def test_a_run_that_was_taken_over_stops_without_another_record(open_store: OpenLog) -> None:
    async with open_store(owner="one") as log:
        waiting, hooks = Waiting(), list[str]()

        @on_abort()
        def note(ctx: Any) -> None:
            hooks.append(ctx.reason)

        worker = Worker(ScriptedModel([call("wait")]), tools=[waiting.tool], hooks=[note], log=log)
        run = worker.run("Hi")
        await waiting.begun.wait()
        before = await stored(log, run.id)
        log.heartbeat.remove(run.id)  # as if its process had stood still
        await log.release(run._journal.writer.claim)  # pyright: ignore
        await log.claim(run.id)
        run._journal.emit(RunRecover(9, "x"))  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(FencedError, match="taken over"):
            await run
        assert hooks == []
        assert await stored(log, run.id) == before
        assert not isinstance(run._journal.hub.history.newest(run.last_seq - 1), RunAbort)  # pyright: ignore[reportPrivateUsage]


async def test_a_paused_run_is_loaded_and_resumed_once(store: EventLog) -> None:

    def make(*script: Any) -> Worker:
        return Worker(ScriptedModel(list(script)), tools=[order], log=store)

    run = make(call("order", what="tea")).run("Tea!")
    paused = await pause_of(run)
    loaded = await make().load(run.id)
    assert loaded == paused
    assert isinstance(loaded, Paused)
    one, two = make("Ordered."), make("Ordered.")
    (pending,) = loaded.pending
    first = one.resume(loaded, decisions={pending.id: Approve()})
    second = two.resume(loaded, decisions={pending.id: Approve()})
    done = await asyncio.gather(first, second, return_exceptions=True)
    assert sum(isinstance(each, LogError) for each in done) == 1
    assert first.id == second.id == f"{run.id}~2"
    assert (await store.list())[0].row.resumes == run.id


async def test_variables_are_stored_and_not_shown(store: EventLog) -> None:

    @before_tool_call()
    def note(ctx: Any) -> None:
        ctx.variables["seen"] = ["tea"]
        ctx.variables["object"] = object()

    model = ScriptedModel([call("order", what="tea")])
    worker = Worker(model, tools=[order], hooks=[note], log=store)
    run = worker.run("Tea!")
    await run
    loaded = await pause_of(worker.load(run.id))
    assert loaded.variables == {"seen": ["tea"]}
    assert all("seen" not in repr(record) for record in await stored(store, run.id))


async def test_a_worker_without_a_log_recovers_nothing() -> None:
    with pytest.raises(LocalProtocolError, match="needs a log"):
        await Worker(ScriptedModel([])).recover("run-1").started()


async def test_a_log_that_is_closed_ends_the_run_with_an_error() -> None:
    log = MemoryLog()
    run = Worker(ScriptedModel([say("Hi")]), log=log).run("Hi")
    await log.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        await run


async def test_a_resumed_run_has_the_title_of_the_run_that_paused() -> None:
    log = MemoryLog()
    model = ScriptedModel(["Hi.", say("May I?") + call("order", what="tea"), "Ordered."])
    worker = Worker(model, tools=[order], log=log)
    await worker.run("Hello")
    await worker.run("Order tea")
    await worker.resume(decisions=[Approve()])
    assert {(info.row.title, bool(info.row.resumes)) for info in await log.list()} == {
        ("Hello", False),
        ("Order tea", False),
        ("Order tea", True),
    }


@pytest.mark.parametrize("own_server", ["postgres", "nats"], indirect=True)
async def test_a_run_and_its_watcher_go_on_when_the_server_is_killed_and_restarted(
    own_server: NatsServer | PostgresServer,
) -> None:
    address = own_server.new_address()
    async with open_log(address) as log, open_log(address) as other:
        run = Worker(ScriptedModel([say("four" * 60)], delay=0.01), log=log).run("Hi")
        await until(lambda: run.last_seq >= 10)
        replica, seen = Replica(other, run.id), list[Record]()
        replica.records.subscribe(seen.append)
        await replica.ready()
        for place in (20, 30):
            await until(lambda place=place: run.last_seq >= place)
            own_server.kill()
            await asyncio.to_thread(own_server.start)
        assert (await run).text == "four" * 60
        async with asyncio.timeout(60):
            await replica.ended()
        assert [n for each in seen for n in range(each.first, each.seq + 1)] == [*range(1, run.last_seq + 1)]
        assert await stored(other, run.id) == [record async for record in run]


@pytest.mark.parametrize("kind", ["send", "cancel"])
async def test_a_command_to_a_run_that_was_resumed_reaches_the_run_that_goes_on(kind: str, store: EventLog) -> None:
    """Over two pauses, and also where it comes while the run is resumed: each once."""
    waiting = Waiting()
    replies = [call("wait"), call("wait"), *["Done."] * 3]
    worker = Worker(ScriptedModel(replies), tools=[waiting.tool], log=store)
    first = worker.run("Hi")
    first.pause()
    assert isinstance(await first, Paused)
    second = worker.resume()
    second.pause()
    waiting.go_on.set()
    assert isinstance(await second, Paused)
    waiting.go_on.clear()
    third = worker.resume()
    text = "From there."
    command = send_command([Message.user(text)]) if kind == "send" else Command("cancel")
    await store.send(first.id, command)  # while it claims, or a little later
    if kind == "send":
        await third.barrier()
        await store.send(first.id, command)
        mailbox = third._context.mailbox  # pyright: ignore[reportPrivateUsage]
        await until(lambda: len(mailbox.waiting) == 2)
        waiting.go_on.set()
        texts = [message.text for message in (await third).conversation.messages]
        assert texts.count(text) == 2
    else:
        with pytest.raises(RunCancelledError):
            await third
        with pytest.raises(LogError, match="has ended"):
            await store.send(first.id, command)
