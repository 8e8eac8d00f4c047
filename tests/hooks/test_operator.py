"""What each thing that an operator may emit means at each point. Nothing but the context lets anything through."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops

from rxworker import Worker, before_tool_call, hook, on_abort, tool
from rxworker.errors import HookError
from rxworker.events import HookVerdict
from rxworker.hooks import (
    Abort,
    Cancel,
    Continue,
    ContinueWithMessages,
    Finish,
    Hook,
    HookContext,
    Hooks,
    Pause,
    Skip,
    ToolCallContext,
    Verdict,
    chain,
    from_operator,
    from_stateful_operator,
)
from rxworker.testing import ScriptedModel, abort_context, call, call_context, end_context, result_context, send_context
from tests.hooks.asking import verdict_of

Operator = Callable[[Observable[Any]], Observable[Any]]


def ignore(_: object) -> None:
    """Do nothing."""


CONTEXTS: dict[str, Callable[[], HookContext]] = {
    "on_message_send": lambda: send_context("hi"),
    "before_tool_call": lambda: call_context("read"),
    "after_tool_call": lambda: result_context("read", "text"),
    "on_turn_end": lambda: end_context("bye"),
}
AGAIN = ContinueWithMessages.user("Once more.")
ACCEPTED: dict[str, list[Verdict]] = {
    "on_message_send": [Continue(), Cancel("no")],
    "before_tool_call": [Continue(), Skip("no"), Abort("no"), Pause("ask")],
    "after_tool_call": [Continue(), Abort("no")],
    "on_turn_end": [Finish(), Finish(final=True), AGAIN, Pause("ask")],
}
ALL: list[Verdict] = [Continue(), Cancel("no"), Skip("no"), Abort("no"), Pause(), Finish(), AGAIN]
MADE: list[Callable[[Operator], Any]] = [from_operator, from_stateful_operator]


async def ask(point: str, function: Any, **settings: Any) -> Verdict:
    asked = Hook[Any](function, point, **settings)
    return (await verdict_of(Hooks([asked]), asked.point, CONTEXTS[point](), print))[0]


def emitting(*items: object) -> Operator:
    """An operator that emits these for each context; ``...`` stands for the context itself."""

    def each(context: object) -> Observable[Any]:
        return reactivex.from_iterable([context if item is ... else item for item in items])

    return ops.flat_map(each)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize(("point", "verdict"), [(point, v) for point, known in ACCEPTED.items() for v in known])
async def test_a_verdict_of_the_point_means_that_verdict(
    made: Callable[[Operator], Any], point: str, verdict: Verdict
) -> None:
    neutral = Finish() if point == "on_turn_end" else Continue()
    expected = neutral if verdict in (Continue(), Finish()) else verdict
    assert await ask(point, made(emitting(verdict))) == expected


@pytest.mark.parametrize("on_failure", ["abort", "continue"])
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize(
    ("point", "verdict"),
    [(point, v) for point, known in ACCEPTED.items() for v in ALL if type(v) not in {type(k) for k in known}],
)
async def test_a_verdict_of_another_point_is_an_error_whatever_a_failure_means(
    made: Callable[[Operator], Any], point: str, verdict: Verdict, on_failure: str
) -> None:
    with pytest.raises(HookError, match="where it may answer") as caught:
        await ask(point, made(emitting(verdict)), on_failure=on_failure)
    assert (caught.value.kind, caught.value.point) == ("verdict", point)


ODD: list[tuple[object, ...]] = [
    (None,),
    (True,),
    (False,),
    ("Skip",),
    (Skip,),
    (Skip("no"), ...),
    (..., Skip("no")),
    (Skip("no"), Skip("no")),
    (Continue(), ...),
    (..., True),
    (..., None),
    ([Skip("no")],),
    (OSError("a value, and no error"),),
]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("items", ODD, ids=repr)
async def test_anything_else_is_an_error(made: Callable[[Operator], Any], items: tuple[object, ...]) -> None:
    with pytest.raises(HookError, match=r"hook 'gate' emitted .* at before_tool_call"):
        await ask("before_tool_call", made(emitting(*items)), name="gate", on_failure="continue")


@pytest.mark.parametrize(
    ("point", "reason", "verdict"),
    [
        ("before_tool_call", "Not here.", Skip("Not here.")),
        ("before_tool_call", None, Skip("This call was not allowed.")),
        ("on_message_send", None, Cancel("the request was held back")),
    ],
)
async def test_what_is_dropped_gives_the_reason(point: str, reason: str | None, verdict: Verdict) -> None:
    assert await ask(point, from_operator(emitting(), reason=reason)) == verdict


async def test_another_context_is_an_error() -> None:
    def other(_: object) -> HookContext:
        return call_context("read")

    with pytest.raises(HookError, match="emitted"):
        await ask("before_tool_call", from_operator(ops.map(other)))


async def test_the_context_may_come_more_than_once() -> None:
    assert await ask("before_tool_call", from_operator(emitting(..., ...))) == Continue()


@pytest.mark.parametrize("made", MADE)
async def test_an_error_behind_the_context_is_the_verdict(made: Callable[[Operator], Any]) -> None:
    def failing(context: object) -> Observable[Any]:
        return reactivex.concat(reactivex.just(context), reactivex.throw(OSError("gone")))

    assert await ask("before_tool_call", made(ops.flat_map(failing))) == Abort("gone")


async def test_a_verdict_that_comes_behind_the_context_later_is_seen() -> None:
    def slow(context: object) -> Observable[Any]:
        late = reactivex.timer(0.001).pipe(ops.map(lambda _: Skip("late")))
        return reactivex.concat(reactivex.just(context), late)

    with pytest.raises(HookError, match="several items"):
        await ask("before_tool_call", from_operator(ops.flat_map(slow)))


async def test_an_operator_that_does_not_complete_has_the_time_of_its_hook() -> None:
    def endless(context: object) -> Observable[Any]:
        return reactivex.concat(reactivex.just(context), reactivex.never())

    with pytest.raises(HookError, match="took longer"):
        await ask("before_tool_call", from_operator(ops.flat_map(endless)), timeout=0.01)


async def test_what_is_emitted_in_another_thread_arrives() -> None:
    def elsewhere(source: Observable[Any]) -> Observable[Any]:
        def subscribe(observer: Any, scheduler: Any = None) -> Any:
            def work() -> None:
                observer.on_next(Skip("from a thread"))
                observer.on_completed()

            threading.Thread(target=work).start()

        return Observable(subscribe)

    assert await ask("before_tool_call", from_operator(elsewhere)) == Skip("from a thread")


@pytest.mark.parametrize("made", MADE)
async def test_a_stop_iteration_is_an_error_like_any_other(made: Callable[[Operator], Any]) -> None:
    def exhausted(_: object) -> object:
        return next(iter(()))

    function = made(ops.map(exhausted))
    assert await asyncio.wait_for(ask("before_tool_call", function), 60) == Abort("StopIteration")


@pytest.mark.parametrize("given", [None, True, Skip("no")])
async def test_a_function_that_is_not_an_operator_is_an_error(given: object) -> None:
    def permit(_: Any) -> Any:
        return given

    with pytest.raises(HookError, match="instead of an observable"):
        await ask("before_tool_call", from_operator(permit), on_failure="continue")


async def test_at_the_end_of_a_run_the_context_is_all_that_is_expected() -> None:
    heard: list[HookVerdict] = []
    fine = on_abort(ops.do_action(ignore), name="fine")
    odd = Hook[Any](emitting(Skip("no")), "on_abort", name="odd")
    await verdict_of(Hooks([fine, odd]), fine.point, abort_context(), heard.append)
    assert [(event.hook, event.verdict) for event in heard] == [("odd", "Failed")]


# several contexts in one subscription


async def test_a_verdict_that_may_be_meant_for_several_contexts_is_an_error_for_each() -> None:
    ring: reactivex.Subject[Any] = reactivex.Subject()

    def on_ring(contexts: Observable[Any]) -> Observable[Any]:
        return contexts.pipe(ops.ignore_elements(), ops.merge(ring))

    waiting = from_stateful_operator(on_ring, waits=True)
    asked = [asyncio.ensure_future(ask("before_tool_call", waiting)) for _ in range(2)]
    await asyncio.sleep(0)
    ring.on_next(Continue())
    for each in asked:
        with pytest.raises(HookError, match="several items"):
            await each


async def test_a_verdict_that_comes_later_is_that_of_the_only_one_that_waits() -> None:
    def later(_: object) -> Observable[Any]:
        return reactivex.timer(0.001).pipe(ops.map(lambda _: Skip("late")))

    waiting = from_stateful_operator(ops.flat_map(later), waits=True)
    assert await ask("before_tool_call", waiting) == Skip("late")


async def test_a_verdict_while_no_context_waits_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    ring: reactivex.Subject[Any] = reactivex.Subject()
    lasting = from_stateful_operator(lambda contexts: contexts.pipe(ops.merge(ring)), name="bell")
    assert await ask("before_tool_call", lasting) == Continue()
    ring.on_next(Skip("no"))
    assert "hook bell emitted Skip(reason='no') while no context was pending" in caplog.text


# bare operators


def is_inside(context: ToolCallContext) -> bool:
    return not str(context.input.get("path", "")).startswith("/")


def inside(calls: Observable[ToolCallContext]) -> Observable[ToolCallContext]:
    return calls.pipe(ops.filter(is_inside))


class Gate:
    def __init__(self) -> None:
        self.before_tool_call = ops.filter(is_inside)


class BoundGate:
    before_tool_call = ops.filter(is_inside)


class OwnGate:
    def before_tool_call(self, calls: Observable[ToolCallContext]) -> Observable[ToolCallContext | Skip]:
        return calls.pipe(ops.map(self.judge))

    def judge(self, context: ToolCallContext) -> ToolCallContext | Skip:
        return context if is_inside(context) else Skip("This call was not allowed.")


BARE: list[Callable[[], object]] = [
    lambda: before_tool_call(ops.filter(is_inside)),
    lambda: before_tool_call(name="inside")(ops.filter(is_inside)),
    lambda: before_tool_call(inside),
    lambda: before_tool_call(reactivex.compose(ops.filter(is_inside), ops.take(1))),
    lambda: before_tool_call(from_operator(inside, name="named")),
    lambda: Hook(ops.filter(is_inside), "before_tool_call"),
    lambda: hook("PreToolUse")(ops.filter(is_inside)),
    lambda: chain(before_tool_call(ops.filter(is_inside))),
    lambda: before_tool_call(inside).replace(name="other"),
    Gate,
    BoundGate,
    OwnGate,
]


@pytest.mark.parametrize("make", BARE)
async def test_a_bare_operator_is_a_hook(make: Callable[[], Any]) -> None:
    opened: list[str] = []

    @tool
    async def read(path: str) -> str:
        """Read a file."""
        opened.append(path)
        return "text"

    model = ScriptedModel([call("read", path="/etc") + call("read", path="a"), "Done."])
    worker = Worker(model, tools=[read], hooks=[make()])
    await worker.run("Read.")
    assert opened == ["a"]
    results = worker.session.conversation.messages[2].tool_results
    assert [result.text for result in results] == ["This call was not allowed.", "text"]


def test_a_bare_operator_of_reactivex_is_called_operator() -> None:
    assert before_tool_call(ops.filter(is_inside)).name == "operator"
    assert before_tool_call(inside).name == "inside"


async def test_an_operator_that_cannot_be_known_as_one_fails_and_names_the_remedy() -> None:
    with pytest.raises(HookError, match=r"from_operator\(...\)"):
        await ask("before_tool_call", lambda calls: calls.pipe(ops.take(1)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType] - as somebody writes it who has no types


# functions that return observables


async def test_an_observable_that_a_function_returns_is_read_like_an_operators() -> None:
    def judged(*items: object) -> Callable[[Any], Any]:
        return lambda context: emitting(*items)(reactivex.just(context))

    async def later(context: Any) -> Any:
        return reactivex.just(Skip("no"))

    assert await ask("before_tool_call", judged(Skip("no"))) == Skip("no")
    assert await ask("before_tool_call", judged(...)) == Continue()
    assert await ask("before_tool_call", later) == Skip("no")
    legacy = hook("PreToolUse")(judged(Skip("no"), None))
    for fails in (judged(Skip("no"), None), judged(None), legacy):
        with pytest.raises(HookError, match="emitted"):
            await verdict_of(
                Hooks([Hook(cast("Any", fails), "before_tool_call")]), legacy.point, call_context("read"), print
            )
