"""The heart of `call_tools`: calls, the hooks that permit them, and the tools, as three operators."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
import reactivex
from hypothesis import example, given
from hypothesis import strategies as st
from reactivex import Observable
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler

from rxworker import Answer, Paused, Worker, after_tool_call, before_tool_call, tool
from rxworker.errors import ConfigurationError, HookError, RxWorkerError
from rxworker.events import Event, PausedCall, ToolProgress, ToolStart, ToolStop
from rxworker.hooks import (
    Abort,
    Continue,
    ContinueWithMessages,
    Finish,
    Hook,
    Hooks,
    Pause,
    Skip,
    ToolCallContext,
    ToolResultContext,
    Verdict,
)
from rxworker.messages import ToolCall, ToolResult
from rxworker.operators import only, tool_calls
from rxworker.testing import ScriptedModel, call
from rxworker.testing.reply import reply_events
from rxworker.tools import Toolbox, ToolContext, run_tools
from rxworker.tools.calls import FinishedCall, PendingCall
from rxworker.worker import call_scope, call_tools, permit, revise
from tests.runs import reached


@tool
async def double(number: int) -> int:
    """Double a number."""
    await asyncio.sleep(0)
    return 2 * number


@tool(effect="pure")
async def fall() -> str:
    """Fail."""
    raise ValueError("down")


@tool(requires_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


TOOLS = [double, fall, pay]
CALLS = [call("double", number=21), call("double", number="one"), call("fall"), call("fly"), call("pay")]
VERDICTS: list[Any] = [
    None,
    Continue(),
    Skip("no"),
    Answer("42"),
    Abort("enough"),
    Pause("may it?"),
    Finish(final=True),
]


def hooks_of(verdicts: list[Verdict | None]) -> Hooks:
    """A hook that answers the calls in order, and one that changes their results."""
    left = iter(verdicts)

    def decide(context: ToolCallContext) -> Verdict | None:
        if context.call.name == "double":
            context.call.input["number"] += 1  # pyright: ignore
        return next(left)

    def mark(context: ToolResultContext) -> None:
        context.set_content(context.content + ", as hooks have left it")

    return Hooks([Hook(decide, "before_tool_call", name="decide"), Hook(mark, "after_tool_call", name="mark")])


async def by_a_worker(reply: Any, hooks: Hooks, **given: Any) -> object:
    worker = Worker(ScriptedModel([reply, "Done."]), tools=TOOLS, hooks=list(hooks), **given)
    try:
        result = await worker.run("go")
    except RxWorkerError as error:
        return type(error).__name__
    if isinstance(result, Paused):
        return "waits"
    messages = worker.session.conversation.messages
    return next(message.tool_results for message in messages if message.tool_results)


async def by_operators(reply: Any, hooks: Hooks) -> object:
    """As a program composes them, each subscribed to."""
    box = Toolbox(TOOLS)
    response: Observable[Event] = reactivex.from_iterable(reply_events(reply))
    pipe = response.pipe(tool_calls(), permit(hooks, box), run_tools(box), revise(hooks, box))
    try:
        items = await pipe.pipe(ops.to_list())
    except RxWorkerError as error:
        return type(error).__name__
    if any(isinstance(item, PendingCall) for item in items):
        return "waits"
    done = {item.place: item.result for item in items if isinstance(item, FinishedCall)}
    return tuple(done[place] for place in sorted(done))


@example([CALLS[0]] * 3, [None, Finish(final=True), None, None])
@example([CALLS[0]] * 3, [Skip("no"), Answer("42"), Finish(final=True), None])
@example([CALLS[0]] * 3, [None, None, Abort("enough"), None])
@example([CALLS[0], CALLS[4]], [None, None, None, None])
@given(
    calls=st.lists(st.sampled_from(CALLS), min_size=1, max_size=4),
    verdicts=st.lists(st.sampled_from(VERDICTS), min_size=4, max_size=4),
)
def test_operators_mean_the_same_without_a_worker(calls: list[Any], verdicts: list[Verdict | None]) -> None:
    """Awaited in the task of a run or subscribed to, with `run_tools` in its place or as the executor."""
    reply = calls[0]
    for each in calls[1:]:
        reply = reply + each

    async def all_ways() -> tuple[object, object, object]:
        box = Toolbox(TOOLS)
        own = {"call_tools": partial(call_tools, executor=run_tools(box))}
        return (
            await by_a_worker(reply, hooks_of(verdicts)),
            await by_operators(reply, hooks_of(verdicts)),
            await by_a_worker(reply, hooks_of(verdicts), stages=own),
        )

    a_worker, operators, an_executor = asyncio.run(all_ways())
    assert a_worker == operators == an_executor


async def test_hooks_without_a_scope_share_no_state() -> None:
    seen: list[object] = []

    def note(context: ToolCallContext) -> None:
        seen.append(context.shared_state)
        context.set_shared_state("noted")

    hooks = Hooks([Hook(note, "before_tool_call", name="note")])
    calls = reactivex.just(ToolCall("a", "double", {"number": 1}))
    for _ in range(2):
        await calls.pipe(permit(hooks, Toolbox(TOOLS)))
    assert seen == [None, None]


async def test_no_call_runs_before_the_hooks_of_all_have_agreed() -> None:
    ran: list[str] = []

    @tool
    async def act(name: str) -> str:
        """Act."""
        ran.append(name)
        return name

    def decide(context: ToolCallContext) -> None:
        assert ran == []

    box = Toolbox([act])
    hooks = Hooks([Hook(decide, "before_tool_call", name="decide")])
    calls = reactivex.of(*[ToolCall(name, "act", {"name": name}) for name in "ab"])
    await calls.pipe(permit(hooks, box), run_tools(box))
    assert ran == ["a", "b"]


def worker_with(executor: Any, *replies: Any) -> tuple[Worker, ScriptedModel]:
    model = ScriptedModel([*replies, "Done."])
    stages: Any = {"call_tools": partial(call_tools, executor=executor)}
    return Worker(model, tools=TOOLS, stages=stages), model


def rehearsed(made: ToolCall) -> ToolResult:
    return ToolResult(made.id, f"{made.name}!")


async def test_an_executor_runs_the_calls_in_place_of_the_tools() -> None:
    worker, _ = worker_with(ops.map(rehearsed), call("double", number=1) + call("fall"))
    events: list[Event] = []
    run = worker.run("go")
    run.events.subscribe(events.append)
    await run
    assert [e.call.name for e in events if isinstance(e, ToolStart)] == ["double", "fall"]
    ends = [(e.place, e.result.text) for e in events if isinstance(e, ToolStop) and e.result]
    assert ends == [(0, "double!"), (1, "fall!")]
    assert not [e for e in events if isinstance(e, ToolProgress)]


async def test_an_executor_may_answer_in_any_order_from_another_thread() -> None:
    def backwards(calls: Observable[ToolCall]) -> Observable[ToolResult]:
        return calls.pipe(
            ops.map(rehearsed),
            ops.to_list(),
            ops.flat_map(lambda results: reactivex.from_iterable(results[::-1])),
            ops.observe_on(NewThreadScheduler()),
        )

    worker, model = worker_with(backwards, call("double", number=1) + call("fall"))
    await worker.run("go")
    results = model.requests[1].conversation.messages[-1].tool_results
    assert [result.text for result in results] == ["double!", "fall!"]


async def test_hooks_see_the_results_of_an_executor_in_the_order_of_the_calls() -> None:
    seen: list[str] = []

    def note(context: ToolResultContext) -> None:
        seen.append(context.call.name)

    def backwards(calls: Observable[ToolCall]) -> Observable[ToolResult]:
        def turned(results: list[ToolResult]) -> Observable[ToolResult]:
            return reactivex.from_iterable(results[::-1])

        return calls.pipe(ops.map(rehearsed), ops.to_list(), ops.flat_map(turned))

    model = ScriptedModel([call("double", number=1) + call("fall"), "Done."])
    stages: Any = {"call_tools": partial(call_tools, executor=backwards)}
    await Worker(model, tools=TOOLS, hooks=[after_tool_call(note)], stages=stages).run("go")
    assert seen == ["double", "fall"]


async def test_an_executor_may_give_what_a_tool_may_return() -> None:
    def count(calls: Observable[ToolCall]) -> Observable[ToolResult]:
        content: Any = {"celsius": 21}
        return calls.pipe(ops.map(lambda made: ToolResult(made.id, content)))

    worker, model = worker_with(count, call("double", number=1))
    await worker.run("go")
    assert model.requests[1].conversation.messages[-1].tool_results[0].text == '{"celsius":21}'


def given_a_text(made: ToolCall) -> str:
    return "text"


def of_another(made: ToolCall) -> ToolResult:
    return ToolResult("other")


def returns_nothing(calls: Observable[ToolCall]) -> None: ...


def never(calls: Observable[ToolCall]) -> Observable[ToolResult]:
    return reactivex.never()


FAULTS: list[tuple[Any, str]] = [
    (ops.map(given_a_text), "emitted a str"),
    (ops.map(of_another), "'other', which is not a waiting call"),
    (ops.ignore_elements(), "without a result of call_1_1"),
    (returns_nothing, "not an observable"),
]


@pytest.mark.parametrize(("executor", "text"), FAULTS)
async def test_an_executor_that_does_not_answer_fails_the_run(executor: Any, text: str) -> None:
    worker, _ = worker_with(executor, call("double", number=1))
    run = worker.run("go")
    with pytest.raises(ConfigurationError, match=text):
        await run
    assert [r.is_error for r in worker.session.conversation.messages[-1].tool_results] == [True]


async def test_progress_of_an_executor_with_a_scope_of_its_own_belongs_to_its_call() -> None:
    @tool
    async def report(context: ToolContext) -> str:
        """Report."""
        context.progress(context.variables["user"])
        return context.idempotency_key

    def only_reports(calls: Observable[ToolCall]) -> Observable[Any]:
        here = calls.pipe(ops.filter(lambda made: made.name == "report"))
        return here.pipe(run_tools(Toolbox([report]), scope=call_scope({"user": "Ada"}, key="mine")))

    def execute(calls: Observable[ToolCall]) -> Observable[Any]:
        far = calls.pipe(ops.filter(lambda made: made.name != "report"), ops.map(rehearsed))
        return reactivex.merge(far, only_reports(calls))

    worker, model = worker_with(execute, call("double", number=1) + call("report"))
    worker.tools.add(report)
    events: list[Event] = []
    run = worker.run("go")
    run.events.subscribe(events.append)
    await run
    assert [e for e in events if isinstance(e, ToolProgress)] == [ToolProgress("call_1_2", "Ada", 1)]
    assert model.requests[1].conversation.messages[-1].tool_results[1].text.startswith("mine/1/")


async def test_a_pipe_in_a_tool_of_an_executor_is_not_one_of_the_run() -> None:
    @tool
    async def key(context: ToolContext) -> str:
        """The key."""
        return f"{context.can_ask} {context.idempotency_key}"

    @tool
    async def several() -> str:
        """Run a call."""
        inner = reactivex.just(ToolCall("a", "key", {}))
        return (await inner.pipe(run_tools(Toolbox([key])), only(FinishedCall))).result.text

    worker, model = worker_with(run_tools(Toolbox([several])), call("several"))
    worker.tools.add(several)
    await worker.run("go")
    assert model.requests[1].conversation.messages[-1].tool_results[0].text.startswith("False calls-")


async def test_calls_of_an_executor_are_cancelled_with_the_run() -> None:
    worker, _ = worker_with(never, call("double", number=1))
    run = worker.run("go")
    await reached(run, ToolStart)
    await run.cancel()
    assert run.state.status == "aborted"
    assert worker.session.conversation.messages[-1].tool_results[0].is_error


async def test_a_call_that_no_hook_could_check_does_not_leave_as_a_call() -> None:
    """Also where another operator than `run_tools` follows, which would run it."""
    asked: list[str] = []

    def note(context: ToolCallContext) -> None:
        asked.append(context.call.id)

    calls = [ToolCall("a", "double", "[1"), ToolCall("b", "double", {"number": 1})]
    hooks = Hooks([before_tool_call(note)])
    items = await reactivex.of(*calls).pipe(permit(hooks, Toolbox(TOOLS)), ops.to_list())
    assert asked == ["b"]
    assert [item.call for item in items if isinstance(item, PausedCall)] == [calls[1]]
    assert [item.result.is_error for item in items if isinstance(item, FinishedCall)] == [True]


async def test_what_is_not_a_verdict_about_a_call_lets_none_run() -> None:
    def odd(_: object) -> ContinueWithMessages:
        return ContinueWithMessages.user("Again.")

    class Odd(Hooks):
        def operator(self, point: Any, report: Any = None) -> Any:
            return ops.map(odd)

    def note(context: ToolCallContext) -> None: ...

    calls = reactivex.just(ToolCall("a", "double", {"number": 1}))
    with pytest.raises(HookError, match="not a verdict about a call"):
        await calls.pipe(permit(Odd([before_tool_call(note)]), Toolbox(TOOLS)))


async def test_bare_calls_are_numbered_after_the_calls_that_have_places() -> None:
    done = FinishedCall(PausedCall(1, ToolCall("a", "double", {})), ToolResult("a", "2"))
    items = [done, ToolCall("b", "double", {"number": 1}), ToolCall("c", "double", {"number": 2})]
    found = await reactivex.of(*items).pipe(permit(Hooks(), Toolbox(TOOLS)), ops.to_list())
    assert [item.place for item in found if isinstance(item, PausedCall)] == [2, 3]


async def test_the_result_of_an_unknown_tool_is_shown_at_once_where_hooks_check_results_too() -> None:
    def note(context: ToolResultContext) -> None: ...

    worker = Worker(ScriptedModel([call("fly"), "Done."]), tools=TOOLS, hooks=[after_tool_call(note)])
    run = worker.run("go")
    events: list[Event] = []
    run.events.subscribe(events.append)
    await run
    (end,) = [event for event in events if isinstance(event, ToolStop)]
    assert end.result is not None
    assert "There is no tool called 'fly'" in end.result.text
