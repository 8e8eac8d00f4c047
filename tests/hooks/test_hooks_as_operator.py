"""The hooks of a point as one operator: a run awaits it, and a pipe that subscribes to it receives the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from rxworker import Answer, Worker, before_tool_call, on_abort, on_turn_end, tool
from rxworker.errors import RunAbortedError, RxWorkerError
from rxworker.events import HookVerdict
from rxworker.hooks import (
    Abort,
    Cancel,
    Continue,
    ContinueWithMessages,
    Finish,
    Hook,
    HookContext,
    HookPoint,
    Hooks,
    Pause,
    Skip,
    Verdict,
    chain,
    from_operator,
)
from rxworker.hooks.points import EndRun
from rxworker.hooks.registry import is_going_on
from rxworker.testing import ScriptedModel, abort_context, call, call_context, end_context, result_context, send_context
from rxworker.tools.coroutines import pass_through
from tests.hooks.asking import verdict_of

CONTEXTS: dict[HookPoint, Callable[[], HookContext]] = {
    HookPoint.ON_MESSAGE_SEND: lambda: send_context("hi"),
    HookPoint.BEFORE_TOOL_CALL: lambda: call_context("read"),
    HookPoint.AFTER_TOOL_CALL: lambda: result_context("read", "text"),
    HookPoint.ON_TURN_END: lambda: end_context("bye"),
}
ANSWERS: list[Verdict | Exception | None] = [
    None,
    Continue(),
    Skip("no"),
    Answer("42"),
    Abort("enough"),
    Pause("may it?"),
    Cancel("no"),
    Finish(),
    Finish(final=True),
    ContinueWithMessages.user("Again."),
    ValueError("down"),
]


def hook_of(number: int, point: HookPoint, answer: Verdict | Exception | None) -> Hook[HookContext]:
    async def decide(context: HookContext) -> Verdict | None:
        if number % 2:
            await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    on_failure = "abort" if number else "continue"
    return Hook(decide, point, name=f"h{number}", on_failure=on_failure)


@given(
    point=st.sampled_from(list(CONTEXTS)),
    answers=st.lists(st.sampled_from(ANSWERS), max_size=3),
    times=st.integers(0, 3),
)
def test_hooks_that_are_subscribed_to_answer_what_they_answer_in_a_run(
    point: HookPoint, answers: list[Verdict | Exception | None], times: int
) -> None:
    hooks = Hooks([hook_of(number, point, answer) for number, answer in enumerate(answers)])

    async def run() -> list[object]:
        told: list[object] = []
        for _ in range(times):
            context = CONTEXTS[point]()
            try:
                verdict, _ = await verdict_of(hooks, point, context, told.append)
            except RxWorkerError as error:
                return [*told, repr(error)]
            told.append("passed" if is_going_on(verdict) else verdict)
        return told

    async def operate() -> list[object]:
        told: list[object] = []
        over = asyncio.get_running_loop().create_future()

        def take(item: HookContext | Verdict) -> None:
            told.append("passed" if isinstance(item, HookContext) else item)

        def fail(error: Exception) -> None:
            told.append(repr(error))
            over.set_result(None)

        contexts = reactivex.from_iterable([CONTEXTS[point]() for _ in range(times)])
        contexts.pipe(hooks.operator(point, told.append)).subscribe(take, fail, lambda: over.set_result(None))
        await over
        return told

    assert asyncio.run(run()) == asyncio.run(operate())


async def test_the_operator_of_hooks_is_a_hook() -> None:
    @before_tool_call(matcher="delete")
    def never(context: HookContext) -> Skip:
        return Skip("never")

    one = before_tool_call(from_operator(Hooks([never]).operator("before_tool_call")))
    told: list[HookVerdict] = []
    for name in ("delete", "read"):
        verdict, _ = await verdict_of(Hooks([one]), HookPoint.BEFORE_TOOL_CALL, call_context(name), told.append)
        assert verdict == (Skip("never") if name == "delete" else Continue())


async def test_a_hook_that_nothing_waits_for_any_more_is_cancelled() -> None:
    told: list[str] = []

    @before_tool_call
    async def wait(context: HookContext) -> None:
        told.append("begin")
        try:
            await asyncio.Event().wait()
        finally:
            told.append("end")

    source = reactivex.just(call_context("read")).pipe(ops.concat(reactivex.never()))
    subscription = source.pipe(Hooks([wait]).operator("before_tool_call")).subscribe()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    subscription.dispose()
    await asyncio.sleep(0)
    assert told == ["begin", "end"]


async def test_the_context_has_the_name_of_the_hook_that_gave_the_verdict() -> None:
    def agree(context: HookContext) -> None: ...

    def refuse(context: HookContext) -> Skip:
        return Skip("no")

    def never(context: HookContext) -> None:
        raise AssertionError

    inner = chain(before_tool_call(agree), before_tool_call(refuse), name="inner")
    hooks = Hooks([before_tool_call(agree), chain(inner, name="outer"), before_tool_call(never)])
    context = call_context("read")
    assert await reactivex.just(context).pipe(hooks.operator("before_tool_call")) == Skip("no")
    assert context.hook == "outer/inner/refuse"


async def test_a_hook_that_skips_when_it_fails_has_its_own_name_and_not_that_of_its_chain() -> None:
    def fail(context: HookContext) -> None:
        raise ValueError("down")

    failing = chain(before_tool_call(fail), name="failing", on_failure="skip")
    context = call_context("read")
    answer = await reactivex.just(context).pipe(Hooks([failing]).operator("before_tool_call"))
    assert (type(answer), context.hook) == (Skip, "failing")


async def test_a_hook_that_ends_the_run_fails_the_stream_with_its_name() -> None:
    def enough(context: HookContext) -> None:
        raise EndRun("enough")

    with pytest.raises(RunAbortedError, match="enough") as raised:
        await reactivex.just(end_context("bye")).pipe(Hooks([on_turn_end(enough)]).operator("on_turn_end"))
    assert raised.value.hook == "enough"


@pytest.mark.parametrize("error", [ValueError("down"), KeyboardInterrupt(), asyncio.CancelledError(), EndRun("no")])
async def test_every_hook_of_an_abort_runs_whatever_another_one_raises(error: BaseException) -> None:
    told: list[str] = []

    def fail(context: HookContext) -> None:
        told.append("fail")
        raise error

    def note(context: HookContext) -> None:
        told.append("note")

    context, events = abort_context(), list[HookVerdict]()
    operator = Hooks([on_abort(fail), on_abort(note)]).operator("on_abort", events.append)
    if not isinstance(error, KeyboardInterrupt):
        assert await pass_through(operator, context) is context
        assert [(event.hook, event.verdict) for event in events] == [("fail", "Failed")]
    else:
        with pytest.raises(KeyboardInterrupt):
            await pass_through(operator, context)
    assert told == ["fail", "note"]


async def test_no_hook_of_a_run_has_a_task() -> None:
    tasks: dict[str, object] = {}

    async def note(context: HookContext) -> None:
        await asyncio.sleep(0)
        assert context.point is not None
        assert tasks.setdefault(context.point.value, asyncio.current_task()) is asyncio.current_task()

    @tool
    async def read() -> str:
        return "text"

    points = ("on_message_send", "before_tool_call", "after_tool_call", "on_turn_end", "on_abort")
    # One at `on_abort` has a time-out, for which it needs one.
    hooks = [Hook(note, point, name=point) for point in points[:-1]]
    worker = Worker(ScriptedModel([call("read") + call("read"), "Done."]), tools=[read], hooks=hooks)
    await worker.run("go")
    assert list(tasks) == list(points[:-1])
    assert len(set(tasks.values())) == 1
