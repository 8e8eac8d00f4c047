"""Tools that answer later: their calls go on in the background, and their results join the conversation, each once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar, cast

import pytest
from reactivex.scheduler import VirtualTimeScheduler

from rxworker import Approve, Limits, Paused, Session, Worker, after_tool_call, before_tool_call, tool, worker_tool
from rxworker.errors import ConfigurationError, LocalProtocolError, RunCancelledError
from rxworker.events import BackgroundProgress, BackgroundStart, BackgroundStop, MessageAdd, Record, ToolStart, ToolStop
from rxworker.hooks import Finish, Skip, ToolCallContext, ToolResultContext
from rxworker.log import EventLog, MemoryLog
from rxworker.protocols.acp import AcpEncoder
from rxworker.protocols.ag_ui import AgUiEncoder
from rxworker.protocols.ui_messages import UiMessageEncoder
from rxworker.run.run import Run
from rxworker.run.virtual import run_in
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, call
from rxworker.tools import ToolContext
from rxworker.tools.base import Effect
from rxworker.tools.function import FunctionTool
from rxworker.worker import load_paused, save_paused
from tests.pauses import pause_of
from tests.runs import joined

T = TypeVar("T")
Tools: TypeAlias = "list[FunctionTool[..., Any]]"


def slow(seconds: float = 60.0, **settings: Any) -> FunctionTool[..., Any]:
    """A tool that takes a while."""

    make: Any = tool

    @make(**{"background": True, **settings})
    async def slow(n: int, context: ToolContext) -> str:
        context.progress({"n": n})
        await asyncio.sleep(seconds * n)
        return f"slow {n}"

    return slow


@tool
async def quick() -> str:
    return "quick"


@tool(requires_approval=True)
async def pay() -> str:
    return "paid"


def played(worker: Worker, main: Callable[[], Awaitable[T]]) -> T:
    """Run it in virtual time."""
    begun = time.monotonic()
    try:
        return run_in(worker.session.worker.scheduler, _await(main))
    finally:
        assert time.monotonic() - begun < 10


async def _await(main: Callable[[], Awaitable[T]]) -> T:
    return await main()


def worker_of(*replies: Any, tools: Any, **settings: Any) -> Worker:
    settings.setdefault("scheduler", VirtualTimeScheduler())
    return Worker(ScriptedModel(list(replies)), tools=list(tools), **settings)


def seconds() -> float:
    return round(asyncio.get_running_loop().time(), 3)


async def watched(run: Run[Any]) -> list[tuple[float, Record]]:
    """The records of a run, each with its time, checked: a late watcher's fold is the live state."""
    records = [(seconds(), record) async for record in run]
    assert fold_run([record for _, record in records]) == run.state
    return records


def watched_to_its_end(worker: Worker) -> tuple[Run[Any], list[tuple[float, Record]], float]:
    """A run in virtual time that has ended, its records with their times, and the time of its end."""

    async def main() -> tuple[Run[Any], list[tuple[float, Record]], float]:
        run = worker.run("go")
        return run, await watched(run), seconds()

    return played(worker, main)


def test_the_turn_goes_on_and_the_result_joins_when_it_comes() -> None:
    worker = worker_of(call("slow", n=1) + call("quick"), "I wait.", "It is slow 1.", tools=[slow(), quick])
    run, records, _ = watched_to_its_end(worker)
    times = {type(record.event): at for at, record in records}
    assert times[ToolStop] == 0
    assert times[BackgroundStop] == 60
    assert run.result().text == "It is slow 1."
    assert joined(run.state) == ["slow 1"]
    assert run.state.tool_calls == 2
    assert run.state.tool_seconds == 60
    assert not run.state.background
    assert [record.event.progress for _, record in records if isinstance(record.event, BackgroundProgress)] == [
        {"n": 1}
    ]


def test_results_join_in_the_order_in_which_they_come_and_between_two_turns() -> None:
    @tool
    async def look() -> str:
        await asyncio.sleep(90)
        return "seen"

    replies = (call("slow", n=2) + call("slow", n=1), call("look"), "All is done.", "Now it is.")
    worker = worker_of(*replies, tools=[slow(), look])
    run, records, _ = watched_to_its_end(worker)
    times = [at for at, record in records if isinstance(record.event, BackgroundStop)]
    assert joined(run.state) == ["slow 1", "slow 2"]
    assert times == [90, 120]


@pytest.mark.parametrize(("after", "is_late"), [(50.0, True), (70.0, False)])
def test_a_call_goes_into_the_background_after_a_time(after: float, is_late: bool) -> None:
    worker = worker_of(call("slow", n=1), "Fine.", "Fine again.", tools=[slow(background=after)])
    run, records, end = watched_to_its_end(worker)
    starts = [at for at, record in records if isinstance(record.event, BackgroundStart)]
    assert starts == ([50] if is_late else [])
    assert end == 60
    assert joined(run.state) == (["slow 1"] if is_late else [])


@pytest.mark.parametrize("kind", ["coroutine", "thread", "pure"])
def test_a_tool_detaches_itself(kind: str) -> None:
    @tool
    async def coroutine(context: ToolContext) -> str:
        await asyncio.sleep(5)
        context.detach()
        context.detach()
        await asyncio.sleep(5)
        return "done"

    @tool
    def thread(context: ToolContext) -> str:
        context.detach()
        return "done"

    @tool(effect="pure")
    async def pure(context: ToolContext) -> str:
        context.detach()  # before its response is complete
        await asyncio.sleep(5)
        return "done"

    scheduler = None if kind == "thread" else VirtualTimeScheduler()

    async def main() -> None:
        run = worker.run("go")
        records = await watched(run)
        assert joined(run.state) in (["done"], [])
        kinds = [type(record.event) for _, record in records]
        if kind != "thread":  # which may have ended before
            assert kinds.count(BackgroundStart) == kinds.count(BackgroundStop) == 1

    worker = Worker(ScriptedModel([call(kind), "One.", "Two."]), tools=[coroutine, thread, pure], scheduler=scheduler)
    run_in(scheduler, main())


def test_the_hooks_run_for_the_result_before_anything_shows_it() -> None:
    seen: list[str] = []

    @before_tool_call
    def note(context: ToolCallContext) -> None:
        seen.append(context.call.name)

    @after_tool_call
    def mask(context: ToolResultContext) -> None:
        seen.append(context.result.text)
        context.set_content("***")

    worker = worker_of(call("slow", n=1), "I wait.", "Done.", tools=[slow()], hooks=[note, mask])
    run, records, _ = watched_to_its_end(worker)
    assert "slow 1" not in str(records)
    assert joined(run.state) == ["***"]
    assert seen == ["slow", "slow 1"]


def test_a_refused_call_does_not_go_into_the_background() -> None:
    @before_tool_call
    def refuse(context: ToolCallContext) -> Skip:
        return Skip("no")

    worker = worker_of(call("slow", n=1), "Fine.", tools=[slow()], hooks=[refuse])
    _, records, _ = watched_to_its_end(worker)
    assert not [record for _, record in records if isinstance(record.event, BackgroundStart | ToolStart)]


@pytest.mark.parametrize(
    ("settings", "seconds_until", "expected"),
    [
        ({"timeout": 10.0}, 10, "slow gave no result within 10 seconds"),
        ({"max_output": 4}, 60, "[2 of 6 characters"),
        ({"at_end": "cancel"}, 0, None),
    ],
)
def test_what_holds_for_a_call_holds_in_the_background(
    settings: dict[str, Any], seconds_until: float, expected: str | None
) -> None:
    worker = worker_of(call("slow", n=1), "Fine.", "Fine again.", tools=[slow(**settings)])
    run, _, end = watched_to_its_end(worker)
    assert end == seconds_until
    assert not run.state.background
    assert [expected in text for text in joined(run.state)] == [True] if expected else not joined(run.state)


def test_retries_hold_and_a_call_counts_once() -> None:
    tries: list[int] = []

    @tool(effect="idempotent", retries=2, background=True)
    async def flaky() -> str:
        tries.append(1)
        await asyncio.sleep(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return "now"

    worker = worker_of(call("flaky"), "I wait.", "Done.", tools=[flaky], limits=Limits(max_tool_calls=1))
    run, _, _ = watched_to_its_end(worker)
    assert joined(run.state) == ["now"]
    assert run.state.tool_errors == 0


def test_background_calls_leave_the_others_their_places() -> None:
    worker = worker_of(
        call("slow", n=1) + call("slow", n=2) + call("quick"), "A.", "B.", "C.", tools=[slow(), quick], parallel=1
    )
    _, records, _ = watched_to_its_end(worker)
    assert next(at for at, record in records if isinstance(record.event, MessageAdd)) == 0


def test_a_cancelled_run_cancels_its_calls_and_waits_for_them() -> None:
    ends: list[float] = []

    @tool(background=True)
    async def careful() -> str:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(2)
            ends.append(seconds())
        return "never"

    worker = worker_of(call("careful"), "I wait.", tools=[careful])

    async def main() -> None:
        run = worker.run("go")
        await asyncio.sleep(10)
        assert [each.call.name for each in run.state.background] == ["careful"]
        await run.cancel()
        assert ends == [12]
        assert not run.state.background
        with pytest.raises(RunCancelledError):
            await run

    played(worker, main)


def test_a_run_that_waits_is_woken_by_a_message_by_a_pause_and_by_the_end_of_its_turn() -> None:
    worker = worker_of(call("slow", n=1), "I wait.", "Hello!", "Done.", tools=[slow()])

    async def main() -> None:
        run = worker.run("go")
        await asyncio.sleep(10)
        await run.send("Are you there?")
        await asyncio.sleep(0.1)
        assert seconds() < 11
        assert run.state.conversation.messages[-1].text == "Hello!"
        run.pause()
        paused = await run
        assert isinstance(paused, Paused)
        assert seconds() < 11
        assert [each.call.name for each in paused.background] == ["slow"]
        again = worker.resume()
        assert (await again).text == "Done."
        assert seconds() == 60
        assert joined(again.state) == ["slow 1"]

    played(worker, main)

    other = worker_of(call("slow", n=1), "I wait.", tools=[slow()])

    async def stopped() -> None:
        run = other.run("go")
        await asyncio.sleep(10)
        await run.cancel("after_turn")
        assert seconds() < 11

    played(other, stopped)


def test_one_call_is_cancelled_alone_and_the_first_result_counts() -> None:
    worker = worker_of(call("slow", n=1) + call("slow", n=2), "I wait.", "One is gone.", "Done.", tools=[slow()])

    async def main() -> None:
        run = worker.run("go")
        await asyncio.sleep(10)
        first, second = run.state.background
        for wrong in ("call_1_3", 5):
            with pytest.raises(LocalProtocolError, match="no call in the background has the id"):
                run.cancel_call(cast("Any", wrong))
        run.cancel_call(first.id, reason="too slow")
        run.deliver(first.key, "another")
        run.deliver(second.id, {"by": "hand"})
        await run
        assert joined(run.state) == ["This call was cancelled: too slow", '{"by":"hand"}']
        assert seconds() == 10

    played(worker, main)


@pytest.mark.unlogged
def test_a_tool_without_a_body_waits_for_a_delivery() -> None:
    @tool
    async def order(context: ToolContext) -> str:
        context.later()

    worker = worker_of(call("order"), "It is ordered.", "It has come.", tools=[order])

    async def main() -> None:
        run = worker.run("go")
        await asyncio.sleep(1000)
        (each,) = run.state.background
        assert each.is_delivered
        for wrong in (5, None, ""):
            with pytest.raises(ConfigurationError, match="deliver"):
                run.deliver(cast("Any", wrong), "a parcel")
        assert len(asyncio.all_tasks()) == 2  # the run and this
        run.deliver(each.id, "a parcel")
        assert (await run).text == "It has come."
        assert joined(run.state) == ["a parcel"]

    played(worker, main)


def test_a_pause_for_an_approval_loses_no_call() -> None:
    replies = (call("slow", n=1), call("pay"), "Paid.", "Slow is done.")
    worker = worker_of(*replies, tools=[slow(), pay])

    async def main(waits: float) -> None:
        session = Session(worker)
        paused = await session.run("go")
        assert isinstance(paused, Paused)
        await asyncio.sleep(waits)
        run = session.resume(paused, decisions={paused.pending[0].id: Approve()})
        await watched(run)
        assert joined(run.state) == ["slow 1"]
        assert seconds() == max(60, waits)

    run_in(worker.scheduler, main(10))
    worker = worker_of(*replies, tools=[slow(), pay])
    run_in(worker.scheduler, main(100))


@pytest.mark.unlogged
def test_a_run_that_begins_instead_ends_the_calls_of_the_paused_one() -> None:
    worker = worker_of(call("slow", n=1), call("pay"), "Hello!", tools=[slow(), pay])

    async def main() -> None:
        await worker.run("go")
        await worker.run("Something else")
        await asyncio.sleep(0.1)
        assert len(asyncio.all_tasks()) == 1

    played(worker, main)


def test_a_run_falls_asleep_and_goes_on_with_the_result() -> None:
    worker = worker_of(call("slow", n=1), "Later.", "It is slow 1.", tools=[slow(at_end="wake")])

    async def main() -> None:
        paused = await worker.run("go")
        assert isinstance(paused, Paused)
        assert paused.hook == "background"
        assert paused.text == "Later."
        assert seconds() == 0
        run = worker.resume(paused)
        assert (await run).text == "It is slow 1."
        assert seconds() == 60

    played(worker, main)


def test_a_call_that_cancels_itself_or_fails_has_a_result() -> None:
    @tool(background=True)
    async def odd(kind: str) -> str:
        await asyncio.sleep(1)
        if kind == "cancel":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)
        raise SystemExit("gone")

    worker = worker_of(call("odd", kind="cancel") + call("odd", kind="exit"), "A.", "B.", "C.", tools=[odd])
    run, _, _ = watched_to_its_end(worker)
    assert sorted(joined(run.state)) == ["The tool cancelled itself.", "The tool failed: SystemExit: gone"]
    assert run.state.tool_errors == 2


@pytest.mark.parametrize("settings", [{"background": 0}, {"background": -1.0}, {"background": "yes"}, {"at_end": "x"}])
def test_a_setting_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        slow(**settings)


def test_where_nothing_can_be_later_a_call_ends_as_usual() -> None:
    @tool
    async def ask(context: ToolContext) -> str:
        context.detach()
        return "at once"

    @tool
    async def later(context: ToolContext) -> str:
        context.later()

    @before_tool_call(matcher="go")
    async def first(context: ToolCallContext) -> Skip:
        assert context.call_tool is not None
        several = [await context.call_tool(name, {}) for name in ("ask", "later")]
        return Skip("; ".join(result.text for result in several))

    @tool
    async def go() -> str:
        return ""

    worker = worker_of(call("go"), "Fine.", tools=[ask, later, go], hooks=[first])

    async def main() -> None:
        run = worker.run("go")
        await run
        texts = [result.text for message in run.state.conversation.messages for result in message.tool_results]
        assert texts == ["at once; The tool failed: nothing here can deliver the result of this call later"]

    played(worker, main)


def test_each_protocol_shows_the_result() -> None:
    worker = worker_of(call("slow", n=1), "I wait.", "Done.", tools=[slow()])

    async def main() -> None:
        run = worker.run("go")
        records = [record async for record in run]
        for encoder in (AgUiEncoder("thread", run.id), UiMessageEncoder(), AcpEncoder("session")):
            shown = [str(each) for record in records for each in encoder.feed(record)]
            assert any("slow 1" in each for each in shown), encoder
            assert any("goes on in the background" in each for each in shown), encoder

    played(worker, main)


@pytest.mark.unlogged
@pytest.mark.parametrize("effect", ["pure", "write"])
def test_a_saved_run_goes_on_with_its_calls_in_another_process(effect: Effect) -> None:
    scheduler = VirtualTimeScheduler()
    tools = [slow(effect=effect), pay]
    first = worker_of(call("slow", n=1), call("pay"), tools=tools, scheduler=scheduler)
    other = worker_of("Paid.", "Done.", tools=tools, scheduler=scheduler)

    async def main() -> None:
        run = other.resume(load_paused(save_paused(await pause_of(first.run("go")))))
        result = await run
        if effect == "write":
            assert isinstance(result, Paused)
            assert "Whether it had an effect is not known" in result.reason
            run.deliver("call_1_1", "by hand")
            run = other.resume()
            await run
        assert joined(run.state) == ["slow 1" if effect == "pure" else "by hand"]

    played(first, main)


def test_a_hook_finishes_the_run_at_a_result_that_joins() -> None:
    @after_tool_call
    def finish(context: ToolResultContext) -> Finish:
        return Finish(final=True)

    worker = worker_of(call("slow", n=1) + call("slow", n=2), "I wait.", "Done.", tools=[slow()], hooks=[finish])
    run, _, end = watched_to_its_end(worker)
    assert joined(run.state) == ["slow 1"]
    assert not run.state.background
    assert end == 60


def test_a_worker_in_the_background_goes_on_while_the_run_is_paused() -> None:
    inner = Worker(ScriptedModel([call("slow", n=1), "Inner."]), tools=[slow(background=False)])
    sub = worker_tool(inner, name="sub", description="Work.", background=True)
    worker = worker_of(call("sub", task="x"), call("pay"), "Paid.", "Done.", tools=[sub, pay])

    async def main() -> None:
        paused = await pause_of(worker.run("go"))
        await asyncio.sleep(30)
        run = worker.resume(paused)
        await watched(run)
        assert joined(run.state) == ["Inner."]
        assert seconds() == 60

    played(worker, main)


def test_the_end_of_the_loop_gives_a_call_no_result() -> None:
    async def main() -> EventLog:
        log = MemoryLog()
        worker = Worker(ScriptedModel([call("slow", n=1), call("pay")]), tools=[slow(), pay], log=log)
        await worker.run("go")
        return log

    async def sent(log: EventLog) -> int:
        return sum([len(await log.sent(info.run_id)) for info in await log.list()])

    log = asyncio.run(main())
    assert asyncio.run(sent(log)) == 0


def test_what_a_call_shares_while_its_run_is_paused_is_shared_by_the_run_that_resumes_it() -> None:
    @tool(background=True)
    async def steps(context: ToolContext) -> str:
        for step in ("one", "two", "three"):
            await asyncio.sleep(10)
            context.set_shared_state(step, "/steps/-")
        return "shared"

    replies = (call("steps"), call("pay"), "Paid.", "Done.")
    worker = worker_of(*replies, tools=[steps, pay], shared_state={"steps": []})

    async def main() -> None:
        paused = await pause_of(worker.run("go"))
        await asyncio.sleep(25)
        run = worker.resume(paused)
        await watched(run)
        assert joined(run.state) == ["shared"]
        assert run.state.shared_state == {"steps": ["one", "two", "three"]}

    played(worker, main)
