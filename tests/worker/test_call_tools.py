"""The calls of a response.

Reported one by one as they end, told apart by their places, and never shown before the hooks agree.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Answer, Approve, Deny, Finished, Paused, Run, Worker, after_tool_call, before_tool_call, tool
from rxworker.errors import HookError, LocalProtocolError, RunAbortedError, RunCancelledError
from rxworker.events import Event, MessageAdd, Record, ToolOutput, ToolProgress, ToolStart, ToolStop
from rxworker.hooks import Abort, Pause, Skip, ToolCallContext, ToolResultContext
from rxworker.hooks.decorate import HookLike
from rxworker.messages import ToolCall, validate
from rxworker.operators.kernel import Operator
from rxworker.state import fold_run
from rxworker.state.run import HELD_BACK
from rxworker.testing import Call, Reply, ScriptedModel, call, lint
from rxworker.tools import Toolbox, ToolContext, run_tools
from rxworker.ui.terminal.lanes import Lanes as TerminalLanes
from rxworker.views import RunView
from rxworker.views.changes import CallResult
from rxworker.worker import StageName, Turn, call_tools, load_paused, save_paused
from tests.pauses import pause_of
from tests.runs import finish_of, records_of, settle

PAID: list[tuple[int, str]] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


@tool
async def pay(euros: int, context: ToolContext) -> str:
    """Pay."""
    PAID.append((euros, context.idempotency_key))
    context.progress(f"paying {euros}")
    return f"paid {euros}"


class Desk:
    """A tool that ends at once, and one that waits until it may."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    @tool
    async def quick(self) -> str:
        """Look."""
        return "secret one"

    @tool
    async def slow(self) -> str:
        """Look long."""
        await self.go.wait()
        return "secret two"


@after_tool_call
def mask(context: ToolResultContext) -> None:
    context.set_content(context.result.text.replace("secret", "***"))


def calls_in(records: list[Record]) -> list[tuple[str, int]]:
    kept = (ToolStart, ToolStop, ToolOutput)
    return [(type(r.event).__name__, r.event.place) for r in records if isinstance(r.event, kept)]


def complaints_of(run: Run) -> list[str]:
    """What the linter finds besides the ids themselves."""
    return [found for found in lint(records_of(run)) if "earlier call" not in found]


async def until_quick_has_ended(run: Run) -> None:
    async for record in run:
        if isinstance(record.event, ToolStop):
            return


# --- each call is reported as it ends


@pytest.mark.parametrize("order", ["slow first", "quick first"])
async def test_a_call_is_reported_as_ended_while_others_still_run(order: str) -> None:
    desk = Desk()
    calls = call("slow") + call("quick") if order == "slow first" else call("quick") + call("slow")
    worker = Worker(ScriptedModel([calls, "Done."]), tools=[desk.quick, desk.slow])
    run = worker.run("go")
    await until_quick_has_ended(run)
    assert not run.done()
    stop = next(r.event for r in records_of(run) if isinstance(r.event, ToolStop))
    assert stop.result is not None
    assert (stop.result.text, stop.place) == ("secret one", int(order == "slow first"))
    desk.go.set()
    result = await run
    added = [r.event for r in records_of(run) if isinstance(r.event, MessageAdd)]
    texts = [r.text for r in added[0].messages[0].tool_results]
    assert texts == (["secret two", "secret one"] if order == "slow first" else texts)
    assert result.conversation.messages[2] == added[0].messages[0]
    assert lint(records_of(run)) == []
    assert fold_run(records_of(run)).conversation == result.conversation


async def test_a_result_that_hooks_may_change_is_shown_when_they_have_returned() -> None:
    desk = Desk()
    calls = call("slow") + call("quick")
    worker = Worker(ScriptedModel([calls, "Done."]), tools=[desk.quick, desk.slow], hooks=[mask])
    run = worker.run("go")
    await until_quick_has_ended(run)
    stop = next(r.event for r in records_of(run) if isinstance(r.event, ToolStop))
    assert (stop.result, stop.call_id, stop.place, stop.is_error) == (None, "call_1_2", 1, False)
    assert stop.seconds >= 0
    desk.go.set()
    await run
    assert calls_in(records_of(run)) == [
        ("ToolStart", 0),
        ("ToolStart", 1),
        ("ToolStop", 1),
        ("ToolStop", 0),
        ("ToolOutput", 0),
        ("ToolOutput", 1),
    ]
    outputs = [r.event.result.text for r in records_of(run) if isinstance(r.event, ToolOutput)]
    assert outputs == ["*** two", "*** one"]
    assert "secret" not in str(records_of(run))
    assert lint(records_of(run)) == []


async def test_only_results_of_tools_that_a_hook_matches_are_held_back() -> None:
    desk = Desk()
    desk.go.set()
    model = ScriptedModel([call("quick") + call("slow"), "Done."])
    worker = Worker(model, tools=[desk.quick, desk.slow], hooks=[mask.replace(matcher="slow")])
    run = worker.run("go")
    await run
    stops = [r.event for r in records_of(run) if isinstance(r.event, ToolStop)]
    assert [stop.result is None for stop in stops] == [False, True]
    assert calls_in(records_of(run))[-1] == ("ToolOutput", 1)
    assert [kind for kind, _ in calls_in(records_of(run))].count("ToolOutput") == 1


async def test_a_hook_that_comes_while_the_tools_run_changes_what_the_model_reads() -> None:
    desk = Desk()
    model = ScriptedModel([call("quick") + call("slow"), "Done."])
    worker = Worker(model, tools=[desk.quick, desk.slow])
    run = worker.run("go")
    await until_quick_has_ended(run)
    worker.hooks.add(mask)
    desk.go.set()
    result = await run
    assert [r.text for r in result.conversation.messages[2].tool_results] == ["*** one", "*** two"]
    assert [kind for kind, _ in calls_in(records_of(run))].count("ToolOutput") == 2
    assert lint(records_of(run)) == []


async def test_lanes_end_with_the_call_and_get_the_result_later() -> None:
    result = Reply(tool_calls=(Call("quick", {}, "x"),))
    worker = Worker(ScriptedModel([result, "Done."]), tools=[Desk().quick], hooks=[mask])
    run = worker.run("go")
    await run
    view, terminal = RunView(), TerminalLanes()
    shown = list[CallResult]()
    for record in records_of(run):
        step = view.step(record)
        lanes = terminal.feed([record])
        if isinstance(record.event, ToolStop):
            assert [(item.stage, item.ended) for item in step.items] == [("done", record.time)]
            assert [(lane.item.stage, lane.item.ended) for lane in lanes] == [("done", record.time)]
        if isinstance(record.event, ToolOutput):
            assert [call.result for call in view.calls()] == [record.event.result]
            assert [lane.kind for lane in lanes] == ["call"]
        shown += [each for each in step.changes if isinstance(each, CallResult)]
    assert [each.result.text for each in shown] == ["*** one"]
    stop = next(r.event for r in records_of(run) if isinstance(r.event, ToolStop))
    assert shown[0].seconds == stop.seconds


@pytest.mark.parametrize("begins", ["at once", "later"])
async def test_the_end_of_a_tool_that_cancels_itself_is_reported_while_others_run(begins: str) -> None:
    go = asyncio.Event()

    @tool
    async def leave() -> None:
        """Cancel the own task."""
        if begins == "later":
            for _ in range(3):
                await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    @tool
    async def wait() -> None:
        await go.wait()

    model = ScriptedModel([call("leave") + call("wait"), "Done."])
    run = Worker(model, tools=[leave, wait]).run("go")
    await settle()
    assert calls_in(records_of(run))[-1] == ("ToolStop", 0)
    go.set()
    await run
    ends = [place for kind, place in calls_in(records_of(run)) if kind == "ToolStop"]
    assert ends == [0, 1]
    assert lint(records_of(run)) == []


async def test_the_end_of_a_tool_that_is_cancelled_with_its_run_is_reported_once() -> None:
    @tool
    async def wait() -> None:
        await asyncio.Event().wait()

    run = Worker(ScriptedModel([call("wait") + call("wait")]), tools=[wait]).run("go")
    await settle()
    await run.cancel()
    ends = [r.event for r in records_of(run) if isinstance(r.event, ToolStop)]
    assert [end.place for end in ends] == [0, 1]
    assert all("was cancelled" in end.result.text for end in ends if end.result)
    with pytest.raises(RunCancelledError):
        await run


# --- a run that ends while hooks look at the results


@after_tool_call(matcher="pay")
def refuse(context: ToolResultContext) -> Abort | None:
    return Abort("not this") if context.tool_args == {"euros": 2} else None


@after_tool_call
def fail(context: ToolResultContext) -> None:
    raise OSError("gone")


@pytest.mark.parametrize(
    ("hook", "error", "texts"),
    [(refuse, RunAbortedError, ["paid 1", HELD_BACK, HELD_BACK]), (fail, HookError, [HELD_BACK] * 3)],
)
async def test_results_that_no_hook_has_let_through_are_held_back(
    hook: HookLike, error: type[Exception], texts: list[str]
) -> None:
    calls = call("pay", euros=1) + call("pay", euros=2) + call("pay", euros=3)
    worker = Worker(ScriptedModel([calls, "Again."]), tools=[pay], hooks=[hook])
    run = worker.run("go")
    with pytest.raises(error):
        await run
    assert [r.text for r in worker.session.conversation.messages[2].tool_results] == texts
    assert "not known" not in str(worker.session.conversation)
    assert "paid 2" not in str(records_of(run))
    assert validate(worker.session.conversation) == []
    assert lint(records_of(run)) == []
    assert fold_run(records_of(run)).conversation == worker.session.conversation


async def test_a_cancellation_while_a_hook_runs_reports_that_the_tool_has_ended() -> None:
    looking = asyncio.Event()

    @after_tool_call
    async def wait(context: ToolResultContext) -> None:
        looking.set()
        await asyncio.Event().wait()

    worker = Worker(ScriptedModel([call("pay", euros=1)]), tools=[pay], hooks=[wait])
    run = worker.run("go")
    await looking.wait()
    await run.cancel()
    with pytest.raises(RunCancelledError):
        await run
    assert worker.session.conversation.messages[2].tool_results[0].text == HELD_BACK


# --- two calls of one id


def twins(**arguments: int) -> Reply:
    return Reply(tool_calls=tuple(Call("pay", {"euros": n}, "x") for n in arguments.values()))


@before_tool_call
def ask(context: ToolCallContext) -> Pause:
    return Pause("may I?")


async def test_two_calls_with_one_id_have_keys_and_places_of_their_own() -> None:
    model = ScriptedModel([twins(a=1, b=2, c=1), "Done."])
    run = Worker(model, tools=[pay]).run("go")
    result = await run
    keys = [key for _, key in PAID]
    assert len(set(keys)) == 3
    assert [key.rpartition("/")[0] for key in keys] == [f"{run.id}/1/{n}" for n in range(3)]
    assert keys[0].rpartition("/")[2] == keys[2].rpartition("/")[2]
    events = [record.event for record in records_of(run)]
    places = [(type(e), e.place) for e in events if isinstance(e, ToolProgress | ToolStop)]
    assert places == [(kind, place) for place in range(3) for kind in (ToolProgress, ToolStop)]
    assert complaints_of(run) == []
    # The next request has an id for each: no provider accepts two calls with one.
    sent = model.requests[1].conversation
    assert validate(sent) == []
    for conversation in (sent, result.conversation):
        assert [r.text for r in conversation.messages[2].tool_results] == ["paid 1", "paid 2", "paid 1"]
    assert fold_run(records_of(run)).conversation == result.conversation


@pytest.mark.parametrize("is_saved", [False, True])
async def test_a_key_is_the_same_over_a_pause_and_another_one_for_other_arguments(is_saved: bool) -> None:
    worker = Worker(ScriptedModel([twins(a=1, b=2), "Done."]), tools=[pay], hooks=[ask])
    paused = await pause_of(worker.run("go"))
    plain = Worker(ScriptedModel([twins(a=1, b=2), "Done."]), tools=[pay])
    await plain.run("go")
    digests = [key.split("/", 1)[1] for _, key in PAID]
    PAID.clear()
    if is_saved:
        paused = load_paused(save_paused(paused))
        worker = Worker(ScriptedModel(["Done."]), tools=[pay], hooks=[ask])
    edit = Approve(input={"euros": 3})
    assert isinstance(await worker.resume(paused, decisions=[Approve(), edit]), Finished)
    assert [euros for euros, _ in PAID] == [1, 3]
    assert PAID[0][1] == f"{paused.run_id}/{digests[0]}"
    assert PAID[1][1].startswith(f"{paused.run_id}/1/1/")
    assert PAID[1][1] != f"{paused.run_id}/{digests[1]}"


@pytest.mark.parametrize(
    ("decisions", "complaint"),
    [
        ({"x": Approve()}, r"2 pending calls have the id 'x'.*give a list"),
        ([Approve()], "1 decisions about 2 pending calls"),
        ([None, Approve()], "no decision was given for it"),
        (["yes", None], "is 'yes': give"),
    ],
)
async def test_a_list_of_decisions_fits_the_pending_calls(decisions: Any, complaint: str) -> None:
    worker = Worker(ScriptedModel([twins(a=1, b=2), "Done."]), tools=[pay], hooks=[ask])
    await worker.run("go")
    with pytest.raises(LocalProtocolError, match=complaint):
        worker.resume(decisions=decisions)
    assert PAID == []
    result = await finish_of(worker.resume(decisions=[Approve(), Deny("not that")]))
    assert [euros for euros, _ in PAID] == [1]
    assert [r.text for r in result.conversation.messages[2].tool_results] == ["paid 1", "not that"]


@pytest.mark.parametrize("skipped", [1, 2])
@pytest.mark.parametrize("pauses", [False, True])
async def test_a_skipped_call_and_its_twin_get_each_its_own_result(skipped: int, pauses: bool) -> None:
    @before_tool_call
    def skip(context: ToolCallContext) -> Skip | Pause | None:
        if context.input["euros"] == skipped:
            return Skip("not that")
        return Pause("?") if pauses else None

    worker = Worker(ScriptedModel([twins(a=1, b=2), "Done."]), tools=[pay], hooks=[skip])
    run = worker.run("go")
    result = await run
    if pauses:
        assert isinstance(result, Paused)
        run = worker.resume(load_paused(save_paused(result)))
        result = await run
    texts = [r.text for r in result.conversation.messages[2].tool_results]
    assert texts == [f"paid {n}" if n != skipped else "not that" for n in (1, 2)]
    assert complaints_of(run) == []


async def test_an_aborted_run_reports_the_result_of_each_twin() -> None:
    desk = Desk()
    reply = Reply(tool_calls=(Call("slow", {}, "x"), Call("quick", {}, "x")))
    worker = Worker(ScriptedModel([reply]), tools=[desk.quick, desk.slow])
    run = worker.run("go")
    await until_quick_has_ended(run)
    await run.cancel()
    first, second = worker.session.conversation.messages[2].tool_results
    assert "not known" in first.text
    assert second.text == "secret one"
    assert validate(worker.session.conversation) == []


async def test_a_call_without_a_name_is_a_failure_that_the_model_reads() -> None:
    reply = Reply(tool_calls=(Call("", {}, "x"),))
    result = await Worker(ScriptedModel([reply, "Done."]), tools=[pay], hooks=[mask]).run("go")
    assert "There is no tool called ''" in result.conversation.messages[2].tool_results[0].text


# --- which decisions go with which call


async def test_decisions_leave_out_the_paused_call_only_if_there_are_none() -> None:
    calls = call("pay", euros=1) + call("pay", euros=2)
    worker = Worker(ScriptedModel([calls, "Done."]), tools=[pay], hooks=[ask])
    await worker.run("go")
    with pytest.raises(LocalProtocolError, match=r"'call_1_1' of pay.*no decision was given for it"):
        worker.resume(decisions={"call_1_2": Deny()})
    assert PAID == []
    await finish_of(worker.resume(decisions={"call_1_1": Answer("paid"), "call_1_2": Deny()}))


def a_little_later(source: Observable[Event]) -> Observable[Event]:
    """The calls are made in a task of their own, which begins later."""
    return source.pipe(ops.map(lambda event: event))


@pytest.mark.parametrize("around", [{}, {"call_tools": a_little_later}])
@pytest.mark.parametrize("effect", ["write", "pure"])
async def test_the_result_of_a_tool_that_is_removed_while_it_runs_is_masked(
    effect: Literal["write", "pure"], around: dict[StageName, Operator[Event, Event]]
) -> None:
    @tool(effect=effect)
    async def leak() -> str:
        worker.tools.remove("leak")
        return "secret"

    model = ScriptedModel([call("leak"), "Done."])
    worker = Worker(model, tools=[leak], hooks=[mask], around=around)
    run = worker.run("?")
    result = await run
    assert "secret" not in str(records_of(run))
    assert [each.text for each in result.conversation.messages[2].tool_results] == ["***"]


async def test_the_key_of_a_call_by_run_tools_is_that_of_its_run_and_of_its_place() -> None:
    """The ids of calls come again.

    Those of one run are not those of another, also where the application runs the tools.
    """

    def outside(turn: Turn) -> Observable[Event]:
        return call_tools(turn, executor=run_tools(turn.tools))

    async def keys_of(**given: Any) -> list[str]:
        PAID.clear()
        both = (Call("pay", {"euros": 5}, id="call_1"), Call("pay", {"euros": 5}, id="call_2"))
        await Worker(ScriptedModel([Reply(tool_calls=both), "Done."]), tools=[pay], **given).run("go")
        return [key for _, key in PAID]

    ada = await keys_of(stages={"call_tools": outside})
    bob = await keys_of(stages={"call_tools": outside})
    usual = await keys_of()
    assert len({*ada, *bob, *usual}) == 6
    # Apart from the run, it is the key of the usual stage.
    assert [key.split("/")[1:] for key in ada] == [key.split("/")[1:] for key in usual]
    assert all(key.startswith("run-") for key in ada)


async def test_the_keys_of_two_streams_of_calls_outside_of_a_run_differ() -> None:
    async def key() -> str:
        PAID.clear()
        calls = reactivex.just(ToolCall("call_1", "pay", {"euros": 5}))
        await calls.pipe(run_tools(Toolbox([pay])))
        return PAID[0][1]

    assert await key() != await key()
