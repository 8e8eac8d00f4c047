"""Calls in the background that wait for a moment, a signal, a message or another run, while their run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from rxworker import Approve, Run, Session, Worker, tool, worker_tool
from rxworker.decisions import Decided
from rxworker.events import BackgroundStart, CommandTaken, CustomEvent, Event
from rxworker.log import EventLog, MemoryLog
from rxworker.log.format import Entry, record_of
from rxworker.log.recover import decide_running
from rxworker.log.values import resumed_id, send_command, to_sent
from rxworker.messages import Json
from rxworker.testing import Reply, call, say
from rxworker.tools import ToolContext, base
from rxworker.turn.commands import CommandReader
from rxworker.worker import recover_all
from tests.log.conftest import OpenLog
from tests.log.test_later import stored_state
from tests.log.test_recover import cut
from tests.log.victim import ByTurn

pytestmark = pytest.mark.unlogged  # each test gives its log


class Shipped(CustomEvent, frozen=True, tag="shop.shipped"):
    """What another run reports."""

    what: str


class Shop:
    """A worker with a tool in the background that waits, and one that holds its turn; what they have done."""

    def __init__(self, log: EventLog, *waits: dict[str, Any], **policy: Any) -> None:
        self.log, self.waits = log, waits
        self.policy: dict[str, Any] = {"background": True, **policy}
        self.ended: list[Json] = []
        self.may_end = asyncio.Event()

    def worker(self, *, holds: bool = True, before: Sequence[Reply] = (), is_logged: bool = True) -> Worker:
        make: Any = tool

        @make(effect="idempotent", **self.policy)
        async def ship(context: ToolContext) -> str:
            if self.policy["background"] is False:
                context.detach()
            ended = [await context.until(**wait) for wait in self.waits]
            self.ended.append(ended)
            return f"shipped: {ended}"

        @tool(effect="idempotent")
        async def hold() -> str:
            await self.may_end.wait()
            return "held"

        first = call("ship") + call("hold") if holds else call("ship")
        answers = [*before, first, *[say(f"Answer {n}.") for n in range(9)]]
        return Worker(ByTurn(answers), tools=[ship, hold], log=self.log if is_logged else None)

    async def begun(self) -> Run[Any]:
        """A run whose call in the background waits."""
        run = self.worker().run("Ship it.")
        async for record in run:
            if isinstance(record.event, BackgroundStart) and record.event.background.waits:
                break
        await run.barrier()
        return run

    async def shipped(self) -> None:
        async with asyncio.timeout(30):
            while not self.ended:  # noqa: ASYNC110 - of another task, which has no event
                await asyncio.sleep(0)


async def of_signal(log: EventLog, run: str) -> None:
    for euros in (5, 6):  # the first one counts
        await log.signal(run, "paid", {"euros": euros})


async def of_message(log: EventLog, run: str) -> None:
    await log.send(run, send_command(to_sent("Go now.")))


async def of_run(log: EventLog, _: str) -> None:
    await Worker(ByTurn([say("Hello.")]), log=log).session._start(to_sent("Hi"), run_id="other")  # pyright: ignore[reportPrivateUsage]


async def of_event(log: EventLog, _: str) -> None:
    @tool
    async def send(context: ToolContext) -> str:
        context.emit(Shipped("a parcel"))
        await asyncio.Event().wait()
        return "sent"

    worker = Worker(ByTurn([call("send"), say("Done.")]), tools=[send], log=log)
    keep.append(run := worker.session._start(to_sent("Hi"), run_id="other"))  # pyright: ignore[reportPrivateUsage]
    await run.started()


async def of_person(log: EventLog, run: str) -> None:
    await decide_running(log, run, Decided({"background/call_1_1": Approve("as agreed")}))


async def of_time(_: EventLog, __: str) -> None:
    pass


async def finished(shop: Shop, run: Run[Any]) -> Run[Any]:
    """The end of a run, or of the run that resumes it when it has paused for what comes."""
    await run
    async with asyncio.timeout(30):
        if run.state.status == "paused":
            async for woken in recover_all(shop.log, lambda _: shop.worker()):
                await (run := woken)
                if run.state.status == "finished":
                    break
    return run


def event_of(entry: Entry) -> Event:
    return record_of(entry, "").event


def ignore(*_: object) -> None: ...


keep: list[Run[Any]] = []
HOUR = 3600.0
SHIPPED: Json = {"run": "other", "event": "shop.shipped", "data": {"what": "a parcel"}}
CASES: list[tuple[dict[str, Any], Callable[[EventLog, str], Awaitable[None]], Json]] = [
    ({"at": 0.02}, of_time, None),
    ({"at": HOUR, "signal": "paid"}, of_signal, {"euros": 5}),
    ({"message": True}, of_message, "Go now."),
    ({"run": "other"}, of_run, {"run": "other", "status": "finished"}),
    ({"run": "other", "event": "shop.shipped"}, of_event, SHIPPED),
    ({"at": HOUR, "signal": "paid"}, of_person, "as agreed"),
]


@pytest.fixture(autouse=True)
def no_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait of any length leaves the tool."""
    monkeypatch.setattr(base, "SHORT", 0.0)


@pytest.mark.parametrize(("wait", "come", "ended"), CASES)
@pytest.mark.parametrize("background", [True, False])
async def test_it_goes_on_when_that_comes_while_the_run_goes_on(
    wait: dict[str, Any], come: Any, ended: Json, open_store: OpenLog, background: bool
) -> None:
    """One that is in the background from its beginning, and one that has gone there."""
    async with open_store() as log:
        shop = Shop(log, wait, background=background)
        run = await shop.begun()
        await come(log, run.id)
        await shop.shipped()
        assert run.state.status == "running"
        shop.may_end.set()
        result = await run
        assert shop.ended == [[ended]]
        assert f"shipped: {[ended]}" in "".join([message.text for message in result.conversation.messages])
        assert (await stored_state(log, run.id))[0] == run.state
        for other in keep:
            await other.cancel()
        keep.clear()


@pytest.mark.parametrize(("wait", "come", "ended"), CASES[:4])
@pytest.mark.parametrize("depth", [1, 2])
async def test_it_goes_on_when_that_comes_inside_nested_runs_that_go_on(
    wait: dict[str, Any], come: Any, ended: Json, depth: int
) -> None:
    async with MemoryLog() as log:
        shop = Shop(log, wait)
        worker = shop.worker(is_logged=False)
        for _ in range(depth):
            ask = worker_tool(worker, name="ask", description="Ask it.")
            worker = Worker(ByTurn([call("ask", task="Ship it."), say("Done.")]), tools=[ask], log=log)
        run = worker.run("Ship it.")
        async for record in run:
            if isinstance(record.event, BackgroundStart) and record.event.background.waits:
                break
        await run.barrier()
        await come(log, run.id)
        await shop.shipped()
        assert run.state.status == "running"
        shop.may_end.set()
        await run
        assert shop.ended == [[ended]]
        assert (await stored_state(log, run.id))[0] == run.state
        for other in keep:
            await other.cancel()
        keep.clear()


@pytest.mark.parametrize(("wait", "come", "ended"), CASES[:4])
async def test_it_goes_on_when_that_comes_while_the_run_is_paused(
    wait: dict[str, Any], come: Any, ended: Json, open_store: OpenLog
) -> None:
    async with open_store() as log:
        shop = Shop(log, wait)
        run = shop.worker(holds=False).run("Ship it.")
        await run
        if run.state.status == "paused":
            assert (await log.existing(run.id)).is_waiting
            await come(log, run.id)
            async for again in recover_all(log, lambda _: shop.worker()):
                if again.id == resumed_id(run.id):
                    await again
                    break
        assert shop.ended == [[ended]]


async def test_several_waits_keep_their_results_in_order(open_store: OpenLog) -> None:
    """Also a signal that was there before, and those that come while the call is made again."""
    async with open_store() as log:
        shop = Shop(log, {"signal": "b"}, {"at": 0.001}, {"signal": "a"}, {"signal": "b"})
        run = await shop.begun()
        await log.signal(run.id, "a", "1")
        await log.signal(run.id, "b", "2")
        await shop.shipped()
        shop.may_end.set()
        await run
        assert shop.ended == [["2", None, "1", "2"]]


async def test_each_message_ends_one_wait_of_a_call_while_the_run_goes_on(log: MemoryLog) -> None:
    """Whether the run has taken it or not."""
    shop = Shop(log, {"message": True}, {"message": True})
    run = await shop.begun()
    await of_message(log, run.id)
    async for record in run:
        event = record.event
        if isinstance(event, BackgroundStart) and event.background.step and event.background.waits:
            break
    await log.send(run.id, send_command(to_sent("Again.")))
    await shop.shipped()
    shop.may_end.set()
    await run
    assert shop.ended == [["Go now.", "Again."]]


async def test_each_message_ends_one_wait_of_a_call_while_the_run_is_paused(log: MemoryLog) -> None:
    shop = Shop(log, {"message": True}, {"message": True})
    run = shop.worker(holds=False).run("Ship it.")
    await run
    await of_message(log, run.id)
    async for woken in recover_all(log, lambda _: shop.worker()):
        await woken
        if woken.state.status == "finished":
            break
        await log.send(woken.id, send_command(to_sent("Again.")))
    assert shop.ended == [["Go now.", "Again."]]


@pytest.mark.parametrize("sees_it", [True, False])
async def test_a_message_counts_that_the_run_has_taken_since_the_call_waits_and_none_before(
    sees_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the process has not woken the call when it is killed, or the run pauses."""
    if not sees_it:
        monkeypatch.setattr(CommandReader, "wake", ignore)
    async with MemoryLog() as log:
        shop = Shop(log, {"message": True})
        run = shop.worker(before=[call("hold")]).run("Ship it.")
        early = run.send("Too early.")
        async with aclosing(log.changes()) as changes:
            async for infos in changes:
                if any(info.sent for info in infos):
                    break
        shop.may_end.set()
        await early
        shop.may_end.clear()
        async for record in run:
            if isinstance(record.event, BackgroundStart) and record.event.background.waits:
                break
        assert shop.ended == []
        late = run.send("In time.")
        shop.may_end.set()
        await late
        assert sees_it or shop.ended == []
        await finished(shop, run)
        assert shop.ended == [["In time."]]


@pytest.mark.parametrize(("wait", "come", "ended"), CASES[:4])
async def test_a_run_that_is_killed_at_any_write_goes_on_and_its_call_has_one_result(
    wait: dict[str, Any], come: Any, ended: Json
) -> None:
    """With each number of the commands that may have been stored until then: the steps of a call follow its records."""
    async with MemoryLog() as log:
        shop = Shop(log, wait)
        run = await shop.begun()
        await come(log, run.id)
        await shop.shipped()
        shop.may_end.set()
        await run
        entries = [entry async for entry in log.read(run.id)]
        sent = await log.sent(run.id)
    for length in range(1, len(entries)):
        if entries[length - 1].kind in ("command_taken", "background_stop"):
            continue  # is written with what follows
        events = [*map(event_of, entries[:length])]
        numbers = [event.number for event in events if isinstance(event, CommandTaken)]
        steps = [event.background.step for event in events if isinstance(event, BackgroundStart)]
        later = [
            n
            for n, each in enumerate(sent)
            if each.kind == "deliver" and int(str(each.data.get("step", 3))) > len(steps)
        ]
        for stored in range(max(numbers, default=0), min(later, default=len(sent)) + 1):
            async with await cut(run.id, entries[:length]) as left:
                for command in sent[:stored]:
                    await left.send(run.id, command)
                shop = Shop(left, wait)
                shop.may_end.set()
                again = Session(shop.worker()).recover(run.id)
                await again
                if again.state.status == "paused" and "send" not in [each.kind for each in sent[:stored]]:
                    await come(left, run.id)
                again = await finished(shop, again)
                state = again.state
                joined = [m.text for m in state.conversation.messages if "[The result of ship" in m.text]
                assert [each.partition("\n")[2] for each in joined] == [f"shipped: {[ended]}"], (length, stored)
                assert (state.status, (await stored_state(left, again.id))[0]) == ("finished", state)


async def test_without_a_log_only_a_moment_is_waited_for() -> None:
    worker = Shop(MemoryLog(), {"signal": "paid"}).worker(holds=False)
    worker.log = None
    result = await worker.run("Ship it.")
    assert "give a moment" in str(result.conversation.messages)
