"""Tools that wait for a moment, a signal, a message or another run: nothing stays in memory, and each wakes once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from rxworker import Approve, Deny, Finished, Paused, Worker, hook, tool, worker_tool
from rxworker.desk.run import OpenRun
from rxworker.errors import CommandConflictError, ConfigurationError, HookError, LogError, RunStatusError
from rxworker.events import CustomEvent
from rxworker.events.pause import UNTIL
from rxworker.hooks import HookContext
from rxworker.log import EventLog, MemoryLog, Replica, RunInfo, SQLiteLog, recover
from rxworker.log.recover import RunSource
from rxworker.log.store import Store
from rxworker.log.values import decisions_in, resumed_id, send_command, to_sent
from rxworker.messages import Json, Message
from rxworker.protocols.openai.chat import ChatEncoder
from rxworker.protocols.ui_messages import UiMessageEncoder, ui_messages_of
from rxworker.testing import ScriptedModel, call, say
from rxworker.tools import ToolContext
from rxworker.ui.web.boards.fleet import queues_of
from rxworker.worker import submit
from rxworker.worker.queue import QueuedWorker
from tests.log.conftest import OpenLog
from tests.log.processes import end_of, working
from tests.log.test_clock_steps import set_clock
from tests.pauses import pause_of
from tests.runs import all_records
from tests.whole import IS_WHOLE

HOUR = 3600.0


class Shop:
    """A worker with a tool that waits, and another one; what they have done."""

    def __init__(self, *waits: dict[str, Any], **policy: Any) -> None:
        self.ended: list[Json] = []
        self.keys: set[str] = set()
        self.seen = 0

        @tool(effect="idempotent", **policy)
        async def ship(context: ToolContext) -> str:
            ended = [await context.until(**wait) for wait in waits]
            self.ended.append([*ended])
            self.keys.add(context.idempotency_key)
            return f"shipped: {ended}"

        @tool
        async def look() -> str:
            self.seen += 1
            return "seen"

        self.tools = [ship, look]

    def __call__(self, info: RunInfo | None = None) -> Worker:
        if info is None:
            return Worker(ScriptedModel([call("ship") + call("look"), say("Done.")]), tools=self.tools)
        is_new = info.row.title == "Hi" and not info.row.turns
        return Worker(ScriptedModel([say("Done.")] * 9 if not is_new else ["It is new."]), tools=self.tools)

    async def begin(self, log: EventLog) -> str:
        """Begin a run, which pauses."""
        run = Worker(self().model, tools=self.tools, log=log).run("Ship it.")
        paused = await pause_of(run)
        assert paused.hook == UNTIL
        assert (paused.pause.required, [one.name for one in paused.pending]) == ((), ["ship"])
        return run.id


async def end_of_last(log: EventLog, run: str) -> Replica:
    """Wait for a run to begin, and for its end."""
    async with asyncio.timeout(60):
        while (info := await log.info(run)) is None or not info.last_seq:  # noqa: ASYNC110 - of the process that works
            await asyncio.sleep(0.001)
    (replica,) = await end_of(log, run)
    return replica


async def of_time(log: EventLog, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    del log, run
    set_clock(monkeypatch, HOUR + 1)


async def of_signal(log: EventLog, run: str, _: pytest.MonkeyPatch) -> None:
    for euros in (5, 6):  # the first one counts
        await log.signal(run, "paid", {"euros": euros})


async def of_message(log: EventLog, run: str, _: pytest.MonkeyPatch) -> None:
    await log.send(run, send_command(to_sent("Go now.")))


async def of_run(log: EventLog, _: str, __: pytest.MonkeyPatch) -> None:
    await submit(log, "Hi", run_id="other")


class Shipped(CustomEvent, frozen=True, tag="shop.shipped"):
    """What another run reports."""

    what: str


async def of_event(log: EventLog, run: str, _: pytest.MonkeyPatch) -> None:
    """In the run that resumes the one with the id, before it ends."""
    may_end = asyncio.Event()

    @tool(requires_approval=True)
    async def send(context: ToolContext) -> str:
        context.emit(Shipped("a parcel"))
        await may_end.wait()
        return "sent"

    worker = Worker(ScriptedModel([call("send"), "Done."]), tools=[send], log=log)
    begun = await worker.session._start(to_sent("Send it."), run_id="shipping")  # pyright: ignore[reportPrivateUsage]
    assert isinstance(begun, Paused)
    again = worker.decide("shipping", {begun.pending[0].id: Approve()})
    async with asyncio.timeout(30):
        while (info := await log.info(resumed_id(run))) is None or not info.last_seq:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.005)
    may_end.set()
    await again


async def of_person(log: EventLog, run: str, _: pytest.MonkeyPatch) -> None:
    await log.wake(run)
    with pytest.raises(CommandConflictError):
        await log.wake(run)


async def of_client(log: EventLog, run: str, _: pytest.MonkeyPatch) -> None:
    await QueuedWorker("", log=log).decide_later(run, {})  # the button to continue


async def of_value(log: EventLog, run: str, _: pytest.MonkeyPatch) -> None:
    await QueuedWorker("", log=log).decide_later(run, {"call_1_1": Approve("as agreed")})


SHIPPED: Json = {"run": "shipping~2", "event": "shop.shipped", "data": {"what": "a parcel"}}
Come = Callable[[EventLog, str, pytest.MonkeyPatch], Awaitable[None]]


@pytest.mark.parametrize(
    ("wait", "come", "ended"),
    [
        ({"at": HOUR}, of_time, None),
        ({"at": HOUR}, of_person, None),
        ({"at": HOUR}, of_client, None),
        ({"at": 2 * HOUR, "signal": "paid"}, of_signal, {"euros": 5}),
        ({"at": HOUR, "signal": "paid"}, of_time, None),
        ({"signal": "paid"}, of_value, "as agreed"),
        ({"message": True}, of_message, "Go now."),
        ({"run": "other"}, of_run, {"run": "other", "status": "finished"}),
        ({"run": "other", "event": "shop.shipped"}, of_run, {"run": "other", "status": "finished"}),
        ({"run": "shipping", "event": "shop.shipped"}, of_event, SHIPPED),
    ],
)
async def test_a_tool_that_waits_is_called_again_when_that_has_come(
    wait: dict[str, Any], come: Come, ended: Json, open_store: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(wait)
    async with open_store(lease=0.3) as log:  # within a lease, a clock that is set is looked at again
        run = await shop.begin(log)
        listed = await log.existing(run)
        assert bool(listed.row.due) is ("at" in wait)
        what = {"run": "run", "signal": "command", "message": "command"}
        assert listed.row.awaits == next((what[name] for name in wait if name in what), "")
        assert "ship waits for" in listed.row.reason
        assert OpenRun(listed, log).waits_for == "waiting"
        async with working(log, shop):
            await asyncio.sleep(0)
            assert shop.ended == []
            await come(log, run, monkeypatch)
            replica = await end_of_last(log, resumed_id(run))
        assert (shop.ended, shop.seen, replica.state.status) == ([[ended]], 1, "finished")
        assert len(decisions_in(await log.sent(run))) == 1
        assert (await log.existing(resumed_id(run))).row.due == 0.0


async def test_several_waits_of_one_call_keep_their_results_in_order(
    open_store: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is short, a signal that was there before, and one that is given to the first of the runs."""
    monkeypatch.setattr(recover, "LOOK", 0.02)
    shop = Shop({"at": 0.001}, {"signal": "a"}, {"signal": "b"}, {"signal": "a"}, {"signal": "c"})
    async with open_store() as log:
        run = await shop.begin(log)
        await log.signal(run, "b", "2")
        async with working(log, shop):
            await log.signal(run, "a", "1")
            await end_of_last(log, f"{run}~4")
            await log.signal(run, "c", {})
            await end_of_last(log, f"{run}~5")
        assert shop.ended == [[None, "1", "2", "1", {}]]
        assert len(shop.keys) == 1


async def test_each_message_ends_one_wait_of_a_call(open_store: OpenLog) -> None:
    """Though none is taken by a run until the turn of the call has ended: also one that is carried over twice."""
    shop = Shop({"message": True}, {"message": True, "signal": "paid"}, {"message": True})
    async with open_store() as log:
        run = await shop.begin(log)
        await log.send(run, send_command(to_sent("First.")))
        async with working(log, shop):
            await end_of_last(log, resumed_id(run))
            await log.signal(run, "paid", "in between")
            await end_of_last(log, f"{run}~3")
            await log.send(run, send_command(to_sent("First."), "named"))
            replica = await end_of_last(log, f"{run}~4")
        assert shop.ended == [["First.", "in between", "First."]]
        texts = [message.text for message in replica.state.conversation.messages if message.role == "user"]
        assert texts == ["Ship it.", "", "First.", "First."]


async def test_two_calls_that_wait_have_the_same_message(log: MemoryLog) -> None:
    heard: list[Json] = []

    @tool(effect="idempotent")
    async def listen(context: ToolContext) -> str:
        heard.append(await context.until(message=True))
        return "heard"

    worker = Worker(ScriptedModel([call("listen") + call("listen"), "Done."]), tools=[listen], log=log)
    run = worker.run("Listen.")
    await pause_of(run)
    await log.send(run.id, send_command(to_sent("One.")))
    async with working(log, lambda _: worker):
        await end_of_last(log, resumed_id(run.id))
    assert heard == ["One.", "One."]


@pytest.mark.parametrize("point", ["before_tool_call", "on_turn_end"])
async def test_each_message_ends_one_wait_of_a_hook(point: Any, log: MemoryLog) -> None:
    heard: list[Json] = []

    @hook(point, name="waits")
    async def waits(context: HookContext) -> None:
        if not heard:
            heard.append([await context.until(message=True), await context.until(message=True)])

    @tool
    async def look() -> str:
        return "seen"

    parts: dict[str, Any] = {"tools": [look], "hooks": [waits], "log": log}
    run = Worker(ScriptedModel([call("look"), "Done."]), **parts).run("Look.")
    assert (await pause_of(run)).hook == UNTIL
    await log.send(run.id, send_command(to_sent("One.")))
    async with working(log, lambda _: Worker(ScriptedModel(["Done."] * 9), **parts)):
        await end_of_last(log, resumed_id(run.id))
        await log.send(run.id, send_command(to_sent("Two.")))
        await end_of_last(log, f"{run.id}~3")
    assert heard == [["One.", "Two."]]


async def test_neither_a_clock_that_is_set_nor_a_second_process_wakes_early_or_twice(
    monkeypatch: pytest.MonkeyPatch, store: EventLog
) -> None:
    shop = Shop({"at": datetime.fromtimestamp(time.time() + HOUR, UTC)})
    run = await shop.begin(store)
    async with RunSource(store) as source, RunSource(store) as second:
        for step in (0.0, -2 * HOUR, 0.9 * HOUR):
            set_clock(monkeypatch, step)
            assert await source.take(wait=False) is None
            assert await second.take(wait=False) is None
            monkeypatch.undo()
        assert await store.sent(run) == []
        set_clock(monkeypatch, HOUR + 1)
        taken = await asyncio.gather(source.take(wait=False), second.take(wait=False))
        assert [one and one.run_id for one in taken] == [run] * 2
        assert len(await store.sent(run)) == 1
        monkeypatch.undo()  # a process whose clock is behind goes on with what was decided
    async with working(store, shop), working(store, shop):
        await end_of_last(store, resumed_id(run))
    assert shop.ended == [[None]]


async def test_a_message_alone_wakes_nothing_and_no_limit_of_runs_deletes_what_waits(log: MemoryLog) -> None:
    shop = Shop({"at": HOUR, "signal": "paid"})
    run = await shop.begin(log)
    due = (await log.existing(run)).row.due
    worker = Worker(ScriptedModel(["Done."]), tools=shop.tools, log=log)
    again = worker.decide(run, {}, add=[Message.user("How is it?")])
    assert (await pause_of(again)).hook == UNTIL
    assert (await log.existing(again.id)).row.due == due
    assert await log.prune(max_runs=0) == [run]
    await log.wake(again.id)
    async with working(log, shop):
        replica = await end_of_last(log, f"{run}~3")
    assert shop.ended == [[None]]
    assert [m.text for m in replica.state.conversation.messages if m.text] == ["Ship it.", "How is it?", "Done."]


@pytest.mark.parametrize("is_signalled", [False, True])
async def test_a_copy_of_a_run_that_waits_is_woken_for_itself(is_signalled: bool, log: MemoryLog) -> None:
    shop = Shop({"at": HOUR, "signal": "paid"})
    run = await shop.begin(log)
    copy = Worker(ScriptedModel(["Done."]), tools=shop.tools, log=log).fork(run, (await log.existing(run)).last_seq)
    assert (await pause_of(copy)).hook == UNTIL
    async with working(log, shop):
        await (log.signal(copy.id, "paid", "yes") if is_signalled else log.wake(copy.id))
        await end_of_last(log, resumed_id(copy.id))
    assert shop.ended == [["yes" if is_signalled else None]]
    assert await log.info(resumed_id(run)) is None


async def test_a_run_that_is_queued_for_later_is_woken(open_store: OpenLog) -> None:
    async with open_store() as log, working(log, Shop()):
        run = await submit(log, "Hi", at=time.time() + HOUR)
        queued, now = await log.list(status="queued"), time.time()
        assert queues_of(queued, now) == []  # no process is needed for it now
        assert [(queue.depth, queue.since) for queue in queues_of(queued, now + HOUR)] == [(1, queued[0].row.due)]
        await log.wake(run)
        (replica,) = await end_of(log, run)
        assert replica.state.status == "finished"
        with pytest.raises(RunStatusError, match="waits for no moment"):
            await log.wake(run)


async def test_no_door_takes_a_wait_for_a_decision() -> None:
    """A client that approves what is left by itself would wake it."""
    shop = Shop({"signal": "paid"})
    run = Worker(shop().model, tools=shop.tools, log=MemoryLog()).run("Ship it.")
    records = await all_records(run)
    ui, openai = UiMessageEncoder("message"), ChatEncoder()
    parts = [to_builtins(part) for record in records for part in ui.feed(record)]
    assert [part for part in parts if "approval" in str(part)] == []
    assert [part["data"]["hook"] for part in parts if part["type"] == "data-pause"] == [UNTIL]
    texts = [str(part) for record in records for part in openai.feed(record)]
    assert "the run waits: ship waits for the signal paid" in texts[-1]
    pause = run.state.pause
    assert pause is not None
    history = ui_messages_of(run.state.conversation, "chat-1", run_id=run.id, pause=pause)
    assert "approval" not in str(history[-1].parts)


@pytest.mark.parametrize("decision", [Deny("Not any more."), None])
async def test_a_person_ends_what_waits(decision: Deny | None, log: MemoryLog) -> None:
    shop = Shop({"signal": "paid"})
    run = await shop.begin(log)
    worker = Worker(ScriptedModel(["Done."]), tools=shop.tools, log=log)
    if decision is None:
        await log.delete(run)
        with pytest.raises(Exception, match="no run"):
            await log.signal(run, "paid")
        return
    ended = await worker.decide(run, {"call_1_1": decision})
    assert isinstance(ended, Finished)
    assert ended.conversation.messages[2].tool_results[0].text == "Not any more."
    with pytest.raises(RunStatusError, match="waits for no moment"):
        await log.wake(f"{run}~2")


async def test_a_call_that_was_approved_waits_without_another_approval(log: MemoryLog) -> None:
    shop = Shop({"signal": "paid"}, requires_approval=True)
    worker = Worker(ScriptedModel([call("ship"), "Done."]), tools=shop.tools, log=log)
    paused = await pause_of(worker.run("Ship it."))
    assert paused.hook == "requires_approval"
    waits = worker.resume(paused)
    assert (await pause_of(waits)).hook == UNTIL
    await log.signal(waits.id, "paid", "yes")
    async with working(log, shop):
        await end_of_last(log, resumed_id(waits.id))
    assert shop.ended == [["yes"]]


@pytest.mark.parametrize("is_inside", [False, True])
async def test_runs_inside_wait_each_for_its_own(is_inside: bool, log: MemoryLog) -> None:
    """Two calls have runs inside, of which one waits for a signal and the other for a moment.

    The signal may be given to the run inside.
    """
    shops = {"soon": Shop({"signal": "paid"}), "late": Shop({"at": HOUR})}
    inner = [Worker(ScriptedModel([call("ship"), "It is sent."]), tools=shop.tools) for shop in shops.values()]
    tools = [worker_tool(one, name=name, description=name) for one, name in zip(inner, shops, strict=True)]
    asks = call("soon", task="Ship.") + call("late", task="Ship.")
    worker = Worker(ScriptedModel([asks, "All are sent."]), tools=tools, log=log)
    run = worker.run("Ship both.")
    assert (await pause_of(run)).hook == "nested"
    info = await log.existing(run.id)
    assert (bool(info.row.due), info.row.awaits) == (True, "command")
    assert await log.prune(max_age=0.0, max_runs=0) == []  # the runs inside neither
    async with working(log, lambda _: worker):
        inside = next(one.run_id for one in await log.list() if one.row.outer and one.row.awaits)
        await log.signal(inside if is_inside else run.id, "paid", "yes")
        await end_of_last(log, resumed_id(run.id))
        assert (shops["soon"].ended, shops["late"].ended) == ([["yes"]], [])
        await log.wake(resumed_id(run.id))
        replica = await end_of_last(log, f"{run.id}~3")
    assert (shops["soon"].ended, shops["late"].ended) == ([["yes"]], [[None]])
    assert replica.state.conversation.messages[-1].text == "All are sent."


class Desk:
    """A worker whose hooks wait before a call or at the end of a turn, with what they have seen."""

    def __init__(self, point: str, **wait: Any) -> None:
        self.seen: list[object] = []

        @hook(point, name="first")
        def first(_: HookContext) -> None:
            self.seen.append("first")

        @hook(point, name="waits")
        async def waits(context: HookContext) -> None:
            await context.until(0.001)
            self.seen.append(await context.until(**wait))

        @hook(point, name="last")
        def last(_: HookContext) -> None:
            self.seen.append("last")

        @tool
        async def look() -> str:
            self.seen.append("look")
            return "seen"

        self.parts: dict[str, Any] = {"tools": [look], "hooks": [first, waits, last]}

    def __call__(self, _: RunInfo) -> Worker:
        return Worker(ScriptedModel(["Done."]), **self.parts)


AROUND = {
    "before_tool_call": ["first", {"euros": 5}, "last", "look"],
    "on_turn_end": ["look", "first", {"euros": 5}, "last"],
}


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("point", AROUND)
async def test_a_hook_that_waits_runs_again_and_those_before_it_do_not(
    point: str, is_killed: bool, log: MemoryLog
) -> None:
    desk = Desk(point, at=HOUR, signal="paid")
    worker = Worker(ScriptedModel([call("look"), "Done."]), log=log, **desk.parts)
    run = worker.run("Look.")
    paused = await pause_of(run)
    info = await log.existing(run.id)
    assert (paused.hook, paused.reason[:32]) == (UNTIL, "waits waits for the signal paid,")
    assert (info.row.due > time.time(), info.row.awaits, paused.pause.required) == (True, "command", ())
    await log.signal(run.id, "paid", {"euros": 5})
    if is_killed:  # after the first record of the run that resumes it
        async with RunSource(log) as source:
            assert await source.take(wait=False)
        resumed = await worker.recover(run.id).started()
        await asyncio.wait([resumed.hand_over(seconds=0.0)])
    async with working(log, desk):
        await end_of_last(log, resumed_id(run.id))
    # What the end of a turn has decided is not stored, so that a process that recovers the run runs all hooks.
    again = ["first"] if is_killed and point == "on_turn_end" else []
    at = AROUND[point].index("first")
    assert desk.seen == [*AROUND[point][:at], *again, *AROUND[point][at:]]


async def test_a_hook_waits_for_a_moment_and_at_two_points_alone(
    monkeypatch: pytest.MonkeyPatch, log: MemoryLog
) -> None:
    desk = Desk("on_turn_end", at=HOUR)
    run = Worker(ScriptedModel([call("look"), "Done."]), log=log, **desk.parts).run("Look.")
    await pause_of(run)
    set_clock(monkeypatch, HOUR + 1)
    async with working(log, desk):
        await end_of_last(log, resumed_id(run.id))
    assert desk.seen == ["look", "first", None, "last"]
    for point in ("on_message_send", "after_tool_call"):
        desk = Desk(point, at=HOUR)
        with pytest.raises(HookError, match="a hook can wait at"):
            await Worker(ScriptedModel([call("look"), "Done."]), log=log, **desk.parts).run("Look.")


@pytest.mark.parametrize(
    ("wait", "has_log"),
    [
        *[(each, False) for each in ({}, {"signal": "paid"}, {"at": datetime(2027, 1, 1)}, {"at": -1.0})],
        *[({name: 5}, True) for name in ("signal", "run", "message")],
        *[(each, True) for each in ({"event": "shop.shipped"}, {"run": "other", "event": 5})],
        ({"signal": "half of a pair: \ud83d"}, True),
        ({"at": 5.0, "state": object()}, True),
    ],
)
async def test_what_cannot_be_waited_for_is_an_error_of_the_tool(wait: dict[str, Any], has_log: bool) -> None:
    shop = Shop(wait)
    worker = Worker(ScriptedModel([call("ship"), "Done."]), tools=shop.tools, log=MemoryLog() if has_log else None)
    ended = await worker.run("Ship it.")
    assert "until" in ended.conversation.messages[2].tool_results[0].text
    if has_log:
        return
    with pytest.raises(ConfigurationError):
        await ToolContext().until(**wait)


async def test_without_a_log_a_moment_is_waited_for_in_memory() -> None:
    shop = Shop({"at": 0.002}, {"at": datetime.fromtimestamp(time.time() + 0.003, UTC)})
    ended = await Worker(ScriptedModel([call("ship"), "Done."]), tools=shop.tools).run("Ship it.")
    assert isinstance(ended, Finished)
    assert shop.ended == [[None, None]]


class Killed:
    """Lets a log hang from a call of its store on, as if its process were killed, until ``is_over``."""

    def __init__(self, log: EventLog, calls: int) -> None:
        self.is_frozen, self.is_over = asyncio.Event(), asyncio.Event()
        self._left = calls
        for name in ("_claim", "_claim_any", "_append", "_release", "_send"):
            assert hasattr(Store, name)
            setattr(log, name, self._hanging(getattr(log, name)))
        log.heartbeat.close()

    def _hanging(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call_or_hang(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                self.is_frozen.set()
                await self.is_over.wait()
                raise LogError("its process was killed")
            return await method(*args, **options)

        return call_or_hang


@pytest.mark.slow
async def test_a_process_that_is_killed_between_any_two_writes_wakes_a_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one goes on, whose clock of leases is ahead."""
    monkeypatch.setattr(recover, "LOOK", 0.02)
    for calls in range(0, 30, 1 if IS_WHOLE else 2):
        path, shop = tmp_path / f"{calls}.db", Shop({"signal": "paid"}, {"signal": "sent"})
        async with SQLiteLog(path) as desk:
            run = await shop.begin(desk)
            for name in ("paid", "sent"):
                await desk.signal(run, name, name)
        log, other = SQLiteLog(path), SQLiteLog(path)
        killed = Killed(log, calls)
        other._ahead = (other._ahead or 0.0) + HOUR
        async with working(log, shop):
            ended = asyncio.create_task(end_of_last(other, f"{run}~3"))
            frozen = asyncio.create_task(killed.is_frozen.wait())
            await asyncio.wait([ended, frozen], return_when=asyncio.FIRST_COMPLETED)
            async with working(other, shop):
                await ended
            is_whole = not killed.is_frozen.is_set()
            killed.is_over.set()
        infos = await other.list()
        assert [info.status for info in infos] == ["finished", "paused", "paused"], calls
        assert [len(decisions_in(await other.sent(info.run_id))) for info in infos] == [0, 1, 1]
        assert {str(each) for each in shop.ended} == {"['paid', 'sent']"}
        assert (len(shop.keys), shop.seen) == (1, 1)
        frozen.cancel()
        await log.close()
        await other.close()
        if is_whole:
            return
    pytest.fail("it did not end")


async def test_a_run_for_later_is_not_taken_early_wherever_its_submitter_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is submitted again under its id, by a process whose clock of leases is ahead, and taken once."""
    for calls in range(10):
        path, at = tmp_path / f"{calls}.db", time.time() + HOUR
        log, other = SQLiteLog(path), SQLiteLog(path)
        killed = Killed(log, calls)
        other._ahead = (other._ahead or 0.0) + 60.0
        submitting = asyncio.create_task(submit(log, "Hi", run_id="hi", at=at))
        frozen = asyncio.create_task(killed.is_frozen.wait())
        await asyncio.wait([submitting, frozen], return_when=asyncio.FIRST_COMPLETED)
        async with RunSource(other) as source:
            assert await source.take(wait=False) is None
            assert await submit(other, "Hi", run_id="hi", at=at) == "hi"
            assert await source.take(wait=False) is None
            set_clock(monkeypatch, HOUR + 1)
            assert await source.take(wait=False) is not None
        async with working(other, Shop()):
            await end_of(other, "hi")
        monkeypatch.undo()
        assert [(info.status, info.row.turns) for info in await other.list()] == [("finished", 1)], calls
        is_whole = not killed.is_frozen.is_set()
        killed.is_over.set()
        frozen.cancel()
        await asyncio.gather(submitting, return_exceptions=True)
        await log.close()
        await other.close()
        if is_whole:
            return
    pytest.fail("it did not end")


async def test_a_message_wakes_a_run_that_has_taken_another_one_before() -> None:
    shop = Shop({"message": True})
    async with MemoryLog() as log:
        worker = Worker(ScriptedModel([call("look"), call("ship"), say("Done.")]), tools=shop.tools, log=log)
        run = worker.run("Ship it.")
        early = run.send("Too early.")
        assert (await pause_of(run)).hook == UNTIL
        assert early.done()
        async with working(log, shop):
            await of_message(log, run.id, pytest.MonkeyPatch())
            await end_of_last(log, resumed_id(run.id))
        assert shop.ended == [["Go now."]]
