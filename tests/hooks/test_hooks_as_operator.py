"""The hooks of a point as one operator do what the runner does with them, one context after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from rxworker import Answer, before_tool_call
from rxworker.errors import ConfigurationError, RxWorkerError
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
    from_operator,
)
from rxworker.hooks.runner import is_going_on
from rxworker.testing import call_context, end_context, result_context, send_context

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
def test_hooks_as_an_operator_answer_what_the_runner_answers(
    point: HookPoint, answers: list[Verdict | Exception | None], times: int
) -> None:
    hooks = Hooks([hook_of(number, point, answer) for number, answer in enumerate(answers)])

    async def run() -> list[object]:
        told: list[object] = []
        for _ in range(times):
            context = CONTEXTS[point]()
            try:
                verdict, _ = await hooks.run(point, context, told.append)
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
    for tool in ("delete", "read"):
        verdict, _ = await Hooks([one]).run(HookPoint.BEFORE_TOOL_CALL, call_context(tool), told.append)
        assert verdict == (Skip("never") if tool == "delete" else Continue())


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
    subscription.dispose()
    await asyncio.sleep(0)
    assert told == ["begin", "end"]


def test_hooks_of_no_point_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="before_tool"):
        Hooks().operator("before_tool")
