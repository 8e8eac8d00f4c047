"""A tool that only looks starts when its block closes, while the model still streams."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import Observable, abc, from_iterable
from reactivex import operators as ops
from reactivex.testing import TestScheduler

from rxworker import Limits, Worker, after_tool_call, before_tool_call, tool
from rxworker.errors import LimitExceededError, ProviderError, RunCancelledError
from rxworker.events import (
    AttemptRetract,
    BlockStop,
    Event,
    Record,
    ResponseEvent,
    Status,
    ToolOutput,
    ToolStart,
    ToolStop,
)
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.hooks import Pause, Skip, ToolCallContext, ToolResultContext
from rxworker.messages import StopKind, repair
from rxworker.operators import committed
from rxworker.operators.kernel import Stage
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, fail, lint, stall
from rxworker.tools import ToolContext
from rxworker.transport import Retry, fallback
from rxworker.ui.terminal.lanes import Lane as TerminalLane
from rxworker.ui.terminal.lanes import Lanes as TerminalLanes
from rxworker.views import RunView
from rxworker.views.changes import Retract
from tests.pauses import pause_of
from tests.runs import reached, records_of, settle

TICK = 10.0


class Desk:
    """Tools, and what has become of their calls."""

    def __init__(self) -> None:
        self.used: list[str] = []
        self.cancelled: list[str] = []
        self.keys: list[str] = []
        self.go = asyncio.Event()

    @tool(effect="pure")
    async def look(self, at: str, context: ToolContext) -> str:
        """Look at something."""
        self.used.append(at)
        self.keys.append(context.idempotency_key)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(at)
            raise
        return f"saw {at}"

    @tool
    async def write(self, at: str) -> str:
        """Write something."""
        self.used.append(at)
        return f"wrote {at}"


@pytest.fixture
def desk() -> Desk:
    return Desk()


def kinds(records: list[Record]) -> list[type[Event]]:
    kept = (ToolStart, ToolStop, Status, AttemptRetract)
    return [type(r.event) for r in records if isinstance(r.event, kept)]


def is_stop(record: Record) -> bool:
    return isinstance(record.event, ToolStop)


def index_of(records: list[Record], kind: type[Event]) -> int:
    return next(place for place, r in enumerate(records) if isinstance(r.event, kind))


async def test_it_starts_before_the_response_ends() -> None:
    desk, clock = Desk(), TestScheduler()
    reply = call("look", at="a") + call("write", at="b")
    model = ScriptedModel([reply, "Done."], delay=TICK, scheduler=clock)
    run = Worker(model, tools=[desk.look, desk.write]).run("go")
    records = records_of(run)
    await settle()
    while not any(isinstance(r.event, BlockStop) for r in records):
        clock.advance_by(TICK)
    await settle()
    assert desk.used == ["a"]
    assert isinstance(records[-1].event, ToolStart)
    desk.go.set()
    await settle()
    while run.state.response is not None:
        clock.advance_by(TICK)
        await settle()
    assert desk.used == ["a", "b"]
    while not run.done():
        clock.advance_by(TICK)
        await settle()
    result = await run
    texts = [r.text for r in result.conversation.messages[2].tool_results]
    assert texts == ["saw a", "wrote b"]
    assert lint(records) == []
    assert desk.keys[0].startswith(f"{run.id}/1/0/")


async def test_a_hook_for_the_tool_runs_before_any_tool(desk: Desk) -> None:
    desk.go.set()

    @before_tool_call(matcher="look")
    def permit(context: ToolCallContext) -> Skip | None:
        return Skip("not that") if context.input["at"] == "a" else None

    model = ScriptedModel([call("look", at="a") + call("look", at="b"), "Done."])
    await Worker(model, tools=[desk.look], hooks=[permit]).run("go")
    assert desk.used == ["b"]


async def test_a_hook_for_another_tool_does_not_hold_it_back(desk: Desk) -> None:

    @before_tool_call(matcher="write")
    def permit(context: ToolCallContext) -> None: ...

    # The last block of a reply that stalls stays open.
    model = ScriptedModel([call("look", at="a") + call("write", at="b") + stall()])
    run = Worker(model, tools=[desk.look, desk.write], hooks=[permit]).run("go")
    await reached(run, ToolStart)
    await settle()
    assert desk.used == ["a"]
    await run.cancel()


async def test_a_cancelled_run_throws_it_away_and_its_conversation_is_whole(desk: Desk) -> None:
    model = ScriptedModel([call("look", at="a") + call("write", at="b") + stall(), "again"])
    worker = Worker(model, tools=[desk.look, desk.write])
    run = worker.run("go")
    await reached(run, ToolStart)
    await settle()
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run
    assert (desk.used, desk.cancelled) == (["a"], ["a"])
    assert lint(records_of(run)) == []
    results = [r for m in worker.session.conversation.messages for r in m.tool_results]
    assert [(r.tool_use_id, r.text) for r in results] == [("call_1_1", DISCARDED_EARLY)]
    assert repair(worker.session.conversation) == worker.session.conversation
    assert (await worker.run("and now?")).text == "again"


@pytest.mark.parametrize("has_ended", [False, True])
async def test_a_response_that_fails_after_a_call_began_early_is_requested_again(has_ended: bool, desk: Desk) -> None:
    """A pure call has no effects, so what it did is taken back with the response."""
    if has_ended:
        desk.go.set()
    broken = call("look", at="a") + call("write", at="b") + fail("down", retryable=True)
    # With pauses between its events, so that the tool can begin before the end.
    model = ScriptedModel([broken, call("look", at="c"), "Done."], delay=0.001)
    worker = Worker(model, tools=[desk.look, desk.write], response_retry=Retry(first=0.0))
    run = worker.run("go")
    await reached(run, AttemptRetract)
    desk.go.set()
    result = await run
    assert (result.text, desk.used) == ("Done.", ["a", "c"])
    assert desk.cancelled == ([] if has_ended else ["a"])
    records = records_of(run)
    said = kinds(records)[:5]
    assert said[:2] == [Status, ToolStart]
    assert set(said[2:4]) == {ToolStop, Status}
    assert said[4] is AttemptRetract
    (stop,) = [r.event for r in records[: index_of(records, AttemptRetract)] if is_stop(r)]
    assert isinstance(stop, ToolStop)
    assert stop.is_error is not has_ended
    assert lint(records) == []
    texts = [[r.text for r in m.tool_results] for m in result.conversation.messages]
    assert texts == [[], [], ["saw c"], []]
    assert repair(worker.session.conversation) == worker.session.conversation


@pytest.mark.parametrize("has_ended", [False, True])
async def test_watchers_see_that_an_early_call_was_retracted(has_ended: bool, desk: Desk) -> None:
    if has_ended:
        desk.go.set()
    broken = call("look", at="a") + call("write", at="b") + fail("down", retryable=True)
    model = ScriptedModel([broken, "Done."], delay=0.001)
    run = Worker(model, tools=[desk.look, desk.write], response_retry=Retry(first=0.0)).run("go")
    await run
    records = records_of(run)
    terminal, shown = TerminalLanes(), dict[int, TerminalLane]()
    for lane in terminal.feed(records):
        shown[id(lane)] = lane
    assert [lane.item.stage for lane in shown.values() if lane.kind == "call"] == ["retracted"] * 2
    view = RunView()
    changes = [change for record in records for change in view.step(record).changes]
    assert [item.stage for item in view.calls()] == ["retracted", "retracted"]
    taken = [change for change in changes if isinstance(change, Retract)]
    assert [change.calls for change in taken] == [("call_1_1", "call_1_2")]
    assert [r.event for r in records if isinstance(r.event, ToolStop | ToolOutput)][1:] == []
    kept: list[Record] = from_iterable(records).pipe(committed(), ops.to_list()).run()
    assert not any(isinstance(r.event, ToolStart | ToolStop) for r in kept)


@pytest.mark.parametrize("is_masked", [False, True])
async def test_a_call_ends_early_when_it_ends_and_a_result_that_hooks_may_change_is_held_back(
    is_masked: bool, desk: Desk
) -> None:
    desk.go.set()

    @after_tool_call
    def mask(context: ToolResultContext) -> None:
        context.set_content("masked")

    model = ScriptedModel([call("look", at="a") + call("write", at="b"), "Done."], delay=0.001)
    run = Worker(model, tools=[desk.look, desk.write], hooks=[mask] if is_masked else []).run("go")
    result = await run
    records = records_of(run)
    assert kinds(records)[:4] == [Status, ToolStart, ToolStop, Status]
    assert lint(records) == []
    assert ("saw" not in str(records)) is is_masked
    seen = ["masked", "masked"] if is_masked else ["saw a", "wrote b"]
    assert [r.text for r in result.conversation.messages[2].tool_results] == seen


async def test_a_response_that_fails_before_it_began_is_requested_again(desk: Desk) -> None:
    desk.go.set()
    broken = call("look", at="a") + call("write", at="b") + fail("down", retryable=True)
    model = ScriptedModel([broken, "again"])
    run = Worker(model, tools=[desk.look, desk.write], response_retry=Retry(first=0.0)).run("go")
    assert (await run).text == "again"
    assert desk.used == []
    assert lint(records_of(run)) == []


async def test_calls_of_a_response_that_raises_where_it_is_requested_are_discarded(desk: Desk) -> None:
    desk.go.set()

    class Raises(ScriptedModel):
        def stream(self, request: Request) -> Observable[ResponseEvent]:
            answer = super().stream(request)

            def subscribe(
                observer: abc.ObserverBase[ResponseEvent], _: abc.SchedulerBase | None = None
            ) -> abc.DisposableBase:
                if len(self.requests) > 0:
                    return answer.subscribe(observer)
                answer.subscribe(observer.on_next)
                raise ProviderError("later", retryable=True)

            return Stage(subscribe)

    model = Raises([call("look", at="a"), "Done."])
    run = Worker(model, tools=[desk.look], response_retry=Retry(first=0.0)).run("go")
    assert (await run).text == "Done."
    assert desk.used == []
    assert lint(records_of(run)) == []


async def test_calls_of_a_response_that_was_cut_short_are_thrown_away(desk: Desk) -> None:
    cut = Reply(tool_calls=call("look", at="a").tool_calls, stop=StopKind.MAX_TOKENS)
    worker = Worker(ScriptedModel([cut, "again"], delay=0.001), tools=[desk.look])
    run = worker.run("go")
    await run
    records = records_of(run)
    assert kinds(records).count(ToolStart) == kinds(records).count(ToolStop) == 1
    assert lint(records) == []
    assert repair(worker.session.conversation) == worker.session.conversation
    (result,) = worker.session.conversation.messages[2].tool_results
    assert result.is_error


async def test_what_another_model_retracts_is_discarded(desk: Desk) -> None:
    first = call("look", at="a") + call("write", at="b") + fail("down", "overloaded")
    model = fallback(ScriptedModel([first, "Done."], delay=0.001), ScriptedModel([call("look", at="c")]))
    run = Worker(model, tools=[desk.look, desk.write], response_retry=Retry(retries=0)).run("go")
    await reached(run, ToolStop)
    desk.go.set()
    result = await run
    assert result.text == "Done."
    assert desk.cancelled == ["a"]
    assert [r.text for r in result.conversation.messages[2].tool_results] == ["saw c"]
    assert lint(records_of(run)) == []


@pytest.mark.parametrize("is_masked", [False, True])
async def test_a_pause_throws_it_away_and_resuming_runs_it(is_masked: bool, desk: Desk) -> None:
    """Its end shows that it was thrown away also where hooks check the results."""

    @before_tool_call(matcher="write")
    async def wait(context: ToolCallContext) -> Pause:
        await settle()
        return Pause("may it?")

    @after_tool_call
    def mask(context: ToolResultContext) -> None:
        context.set_content("***")

    model = ScriptedModel([call("look", at="a") + call("write", at="b"), "Done."])
    worker = Worker(model, tools=[desk.look, desk.write], hooks=[wait, mask] if is_masked else [wait])
    run = worker.run("go")
    paused = await pause_of(run)
    assert [c.id for c in paused.pending] == ["call_1_1", "call_1_2"]
    assert desk.cancelled == ["a"]
    ends = [r.event.result for r in records_of(run) if isinstance(r.event, ToolStop)]
    assert [end and end.text for end in ends] == [DISCARDED_EARLY]
    assert lint(records_of(run)) == []
    desk.go.set()
    result = await worker.resume()
    seen = ["***", "***"] if is_masked else ["saw a", "wrote b"]
    assert [r.text for r in result.conversation.messages[2].tool_results] == seen


async def test_a_requested_pause_is_reported_after_the_end_of_it(desk: Desk) -> None:
    model = ScriptedModel([call("look", at="a"), "Done."], delay=0.001)
    worker = Worker(model, tools=[desk.look])
    run = worker.run("go")
    await reached(run, ToolStart)
    run.pause()
    paused = await pause_of(run)
    assert [c.id for c in paused.pending] == ["call_1_1"]
    assert lint(records_of(run)) == []
    desk.go.set()
    result = await worker.resume()
    assert [r.text for r in result.conversation.messages[2].tool_results] == ["saw a"]


async def test_a_hook_that_comes_in_between_is_received(desk: Desk) -> None:
    """The arguments that it changes are those that run, and the early result is thrown away."""

    @before_tool_call
    async def elsewhere(context: ToolCallContext) -> None:
        context.input["at"] = "elsewhere"

    model = ScriptedModel([call("look", at="a"), "Done."], delay=0.001)
    worker = Worker(model, tools=[desk.look])
    run = worker.run("go")
    await reached(run, ToolStart)
    worker.hooks.add(elsewhere)
    desk.go.set()
    result = await run
    assert desk.used == ["a", "elsewhere"]
    assert [r.text for r in result.conversation.messages[2].tool_results] == ["saw elsewhere"]
    assert lint(records_of(run)) == []


async def test_no_more_start_than_the_run_may_call(desk: Desk) -> None:
    desk.go.set()
    reply = call("look", at="a") + call("look", at="b") + call("look", at="c")
    worker = Worker(ScriptedModel([reply], delay=0.001), tools=[desk.look], limits=Limits(max_tool_calls=2))
    run = worker.run("go")
    with pytest.raises(LimitExceededError):
        await run
    assert desk.used == ["a", "b"]
    assert lint(records_of(run)) == []
    worker = Worker(ScriptedModel([reply, "Done."]), tools=[desk.look], limits=Limits(max_tool_calls=3))
    assert (await worker.run("go")).text == "Done."


async def test_an_early_result_that_no_hook_has_seen_is_given_up_where_another_call_waits() -> None:
    @tool(effect="pure")
    async def early() -> str:
        """Look."""
        return "seen"

    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    @after_tool_call
    async def mask(context: ToolResultContext) -> None:
        context.set_content(f"masked {context.result.text}")

    model = ScriptedModel([call("early") + call("pay"), "Done."], delay=0.001)
    run = Worker(model, tools=[early, pay], hooks=[mask]).run("go")
    records = records_of(run)
    paused = await pause_of(run)
    assert [type(each.event) for each in records].count(ToolStop) == 1
    assert [each.name for each in paused.pending] == ["early", "pay"]
    assert lint(records) == []
