from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops
from reactivex.subject import Subject

from rxworker import Worker, before_tool_call, tool
from rxworker.errors import HookError
from rxworker.hooks import (
    Abort,
    Cancel,
    Continue,
    Finish,
    HookContext,
    Hooks,
    Skip,
    ToolCallContext,
    Verdict,
    from_stateful_operator,
)
from rxworker.hooks.operator import StatefulOperator
from rxworker.testing import ScriptedModel, call, call_context
from tests.hooks.asking import verdict_of

REASON = "This call was not allowed."


async def ask(lasting: StatefulOperator[Any], point: str = "before_tool_call") -> Verdict | None:
    return await lasting.decide(call_context("read"), point)


async def test_an_operator_remembers_from_one_call_to_the_next() -> None:
    twice = from_stateful_operator(ops.take(2))
    assert [await ask(twice) for _ in range(4)] == [Continue(), Continue(), *[Skip(REASON)] * 2]


@pytest.mark.parametrize(
    ("point", "passed", "dropped"),
    [
        ("on_message_send", Continue(), Cancel("no")),
        ("before_tool_call", Continue(), Skip("no")),
        ("after_tool_call", Continue(), Abort("no")),
        ("on_turn_end", Finish(), None),
    ],
)
async def test_the_verdicts_are_those_of_the_point(point: str, passed: Verdict, dropped: Verdict | None) -> None:
    once = from_stateful_operator(ops.take(1), reason="no")
    assert [await ask(once, point), await ask(once, point)] == [passed, dropped]


async def test_another_context_that_comes_out_is_not_an_answer() -> None:
    def one_behind(contexts: Observable[HookContext]) -> Observable[HookContext]:
        return contexts.pipe(ops.pairwise(), ops.map(first_of))

    def first_of(two: tuple[HookContext, HookContext]) -> HookContext:
        return two[0]

    late = from_stateful_operator(one_behind)
    assert [await ask(late), await ask(late)] == [Skip(REASON)] * 2


async def test_after_an_error_the_next_context_begins_anew() -> None:
    seen: list[int] = []

    def third(context: HookContext, number: int) -> HookContext:
        seen.append(number)
        if number == 2:
            raise PermissionError("enough")
        return context

    lasting = from_stateful_operator(ops.map_indexed(third))
    verdicts = [await ask(lasting) for _ in range(4)]
    assert verdicts == [Continue(), Continue(), Abort("enough"), Continue()]
    assert seen == [0, 1, 2, 0]


async def test_an_operator_that_raises_instead_of_failing_is_caught() -> None:
    def raising(contexts: Observable[HookContext]) -> Observable[HookContext]:
        def subscribe(observer: Any, scheduler: Any = None) -> Any:
            def on_next(context: HookContext) -> None:
                raise PermissionError("raised")

            return contexts.subscribe(on_next, observer.on_error)

        return Observable(subscribe)

    assert await ask(from_stateful_operator(raising)) == Abort("raised")


async def test_a_slow_one_is_waited_for_when_set_so() -> None:
    gate: Subject[int] = Subject()

    def when_open(context: HookContext) -> Observable[HookContext]:
        return gate.pipe(ops.take(1), ops.map(lambda _: context))

    waiting = from_stateful_operator(ops.concat_map(when_open), waits=True)
    asked = asyncio.ensure_future(ask(waiting))
    await asyncio.sleep(0)
    assert not asked.done()
    gate.on_next(1)
    assert await asked == Continue()
    assert await ask(from_stateful_operator(ops.concat_map(when_open))) == Skip(REASON)


async def test_operators_without_a_scheduler_wait_on_the_event_loop() -> None:
    assert await ask(from_stateful_operator(ops.delay(0.01), waits=True)) == Continue()


async def test_one_that_is_waited_for_has_the_time_of_its_hook() -> None:
    waiting = from_stateful_operator(ops.skip(5), waits=True)
    hook = before_tool_call(timeout=0.01)(waiting)
    with pytest.raises(HookError, match="took longer"):
        await verdict_of(Hooks([hook]), hook.point, call_context("read"), print)


async def test_a_failure_while_no_context_waits_is_logged_and_the_next_context_begins_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    acts: Subject[int] = Subject()

    def fails_later(contexts: Observable[HookContext]) -> Observable[HookContext]:
        def fail(_: int) -> None:
            raise OSError("later")

        late = acts.pipe(ops.do_action(fail), ops.ignore_elements())
        return reactivex.merge(contexts, cast("Observable[HookContext]", late))

    lasting = from_stateful_operator(fails_later, name="tidy")
    assert await ask(lasting) == Continue()
    acts.on_next(1)
    assert "hook tidy failed while no context was pending" in caplog.text
    assert await ask(lasting) == Continue()


async def test_to_complete_answers_those_who_wait() -> None:
    over: Subject[int] = Subject()

    def until_over(contexts: Observable[HookContext]) -> Observable[HookContext]:
        return contexts.pipe(ops.skip(5), ops.take_until(over))

    asked = asyncio.ensure_future(ask(from_stateful_operator(until_over, waits=True)))
    await asyncio.sleep(0)
    over.on_next(1)
    assert await asked == Skip(REASON)


async def test_dispose_forgets() -> None:
    once = from_stateful_operator(ops.take(1))
    assert await ask(once) == Continue()
    once.dispose()
    assert await ask(once) == Continue()
    assert await ask(once) == Skip(REASON)


def test_another_event_loop_begins_anew() -> None:
    once = from_stateful_operator(ops.take(1))
    assert [asyncio.run(ask(once)) for _ in range(2)] == [Continue(), Continue()]


async def test_what_it_remembers_lasts_over_runs_and_workers() -> None:
    @tool
    async def read() -> str:
        """Read."""
        return "text"

    def same(calls: Observable[ToolCallContext]) -> Observable[ToolCallContext]:
        return calls.pipe(ops.take(2))

    budget = before_tool_call(from_stateful_operator(same, reason="spent"))
    results: list[str] = []
    for _ in range(3):
        model = ScriptedModel([call("read"), "Done."])
        worker = Worker(model, tools=[read], hooks=[budget])
        await worker.run("Read.")
        results.append(worker.session.conversation.messages[2].tool_results[0].text)
    assert results == ["text", "text", "spent"]
