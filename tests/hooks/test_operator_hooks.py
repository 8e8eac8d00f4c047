"""Hooks and gates made of reactivex operators, on virtual time, as the how-to page shows them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import reactivex
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.testing import TestScheduler

from rxworker import Worker, after_tool_call, before_tool_call, tool
from rxworker.events import BlockStart, BlockStop, BlockType, ResponseEvent, TextDelta
from rxworker.hooks import (
    Abort,
    Continue,
    Hook,
    HookContext,
    Hooks,
    Skip,
    ToolCallContext,
    ToolResultContext,
    Verdict,
    from_operator,
    from_stateful_operator,
)
from rxworker.testing import Marbles, ScriptedModel, call, call_context, result_context
from tests.hooks.asking import verdict_of

Calls = Observable[ToolCallContext]
Events = Observable[ResponseEvent]


async def ask(hook: Hook[Any], context: HookContext | None = None) -> Verdict:
    asked = context or call_context("read")
    return (await verdict_of(Hooks([hook]), hook.point, asked, lambda _: None))[0]


# a rate limit


async def test_a_rate_limit_of_one_call_in_a_while_is_throttle_first() -> None:
    time = TestScheduler()
    seldom = from_stateful_operator(ops.throttle_first(10.0, time), reason="Too fast.")
    limit = before_tool_call(seldom)
    verdicts: list[Verdict] = []
    for at in (1, 5, 12, 13):
        time.advance_to(at)
        verdicts.append(await ask(limit))
    assert verdicts == [Continue(), Skip("Too fast."), Continue(), Skip("Too fast.")]


def at_most(most: int, seconds: float, time: abc.SchedulerBase) -> Callable[[Calls], Calls]:
    """So many calls in so many seconds."""

    def limit(calls: Calls) -> Calls:
        times: deque[float] = deque()

        def is_within(_: ToolCallContext) -> bool:
            now = time.to_seconds(time.now)
            while times and now - times[0] >= seconds:
                times.popleft()
            if len(times) < most:
                times.append(now)
                return True
            return False

        return calls.pipe(ops.filter(is_within))

    return limit


async def test_a_rate_limit_of_several_calls_is_a_filter_over_a_window() -> None:
    time = TestScheduler()
    limit = before_tool_call(from_stateful_operator(at_most(2, 10.0, time)))
    verdicts: list[bool] = []
    for at in (1, 2, 3, 11.5, 11.8, 12.5):
        time.advance_to(at)
        verdicts.append(await ask(limit) == Continue())
    assert verdicts == [True, True, False, True, False, True]


# a debounce


def when_quiet(
    seconds: float, act: Callable[[ToolResultContext], None], time: abc.SchedulerBase
) -> Callable[[Observable[ToolResultContext]], Observable[ToolResultContext]]:
    """Let every result pass, and act once when no more have come for a while."""

    def branch(results: Observable[ToolResultContext]) -> Observable[ToolResultContext]:
        late = results.pipe(ops.debounce(seconds, time), ops.do_action(act), ops.ignore_elements())
        return reactivex.merge(results, late)

    return ops.publish(branch)


async def test_a_debounce_acts_once_after_a_burst_and_holds_nothing_up() -> None:
    time, formatted = TestScheduler(), list[tuple[float, object]]()

    def format_file(context: ToolResultContext) -> None:
        formatted.append((time.to_seconds(time.now), context.tool_args))

    quiet = after_tool_call(from_stateful_operator(when_quiet(5.0, format_file, time)))
    for at, path in [(1, "a"), (3, "b"), (20, "c")]:
        time.advance_to(at)
        assert await ask(quiet, result_context("edit", "ok", path=path)) == Continue()
    time.advance_to(100)
    assert formatted == [(8.0, {"path": "b"}), (25.0, {"path": "c"})]


# an audit log


async def test_an_audit_log_is_do_action_at_both_tool_points() -> None:
    lines: list[str] = []

    def note(context: HookContext) -> None:
        lines.append(f"{context.tool_name} {context.content}")

    @tool
    async def read(path: str) -> str:
        """Read a file."""
        return f"in {path}"

    audit = from_operator(ops.do_action(note), name="audit")
    hooks = [before_tool_call(audit, priority=100), after_tool_call(audit, priority=-100)]
    model = ScriptedModel([call("read", path="a"), "Done."])
    await Worker(model, tools=[read], hooks=hooks).run("Read a.")
    assert lines == ['read {"path":"a"}', "read in a"]


# a gate


END = re.compile(r"(?<=[.!?])\s+")


def by_sentence(events: Events) -> Events:
    """Text cut at the ends of sentences; whatever else comes lets out what is held."""

    def begin(_: object) -> Events:
        held: list[TextDelta] = []

        def let_out() -> Iterable[ResponseEvent]:
            text = "".join(piece.text for piece in held)
            if text:
                yield replace(held[0], text=text)
            held.clear()

        def cut(event: ResponseEvent) -> Iterable[ResponseEvent]:
            if not isinstance(event, TextDelta):
                yield from let_out()
                yield event
                return
            before = held[-1].text[-1:] if held else ""
            start = 0
            for end in END.finditer(before + event.text):
                stop = end.end() - len(before)
                held.append(replace(event, text=event.text[start:stop]))
                start = stop
                yield from let_out()
            held.append(replace(event, text=event.text[start:]))

        def pieces(event: ResponseEvent) -> Events:
            return reactivex.from_iterable(list(cut(event)))

        return events.pipe(ops.concat_map(pieces))

    return reactivex.defer(begin)


def moderated(is_fine: Callable[[str], Observable[bool]]) -> Callable[[Events], Events]:
    """Hold text back until its sentence is found to be fine."""

    def check(event: ResponseEvent) -> Events:
        if not isinstance(event, TextDelta):
            return reactivex.just(event)

        def judged(fine: bool) -> ResponseEvent:
            return event if fine else replace(event, text="[withheld] ")

        return is_fine(event.text).pipe(ops.map(judged))

    def gate(events: Events) -> Events:
        return events.pipe(by_sentence, ops.concat_map(check))

    return gate


def text(written: str) -> TextDelta:
    return TextDelta(0, written)


def test_a_gate_holds_text_until_its_sentence_is_moderated() -> None:
    test = Marbles()

    def is_fine(sentence: str) -> Observable[bool]:
        answer = reactivex.just("secret" not in sentence)
        return answer.pipe(ops.delay(3.0, test.scheduler))

    lookup: dict[str, ResponseEvent] = {
        "s": BlockStart(0, BlockType.TEXT),
        "a": text("Hel"),
        "b": text("lo. The sec"),
        "c": text("ret. Bye"),
        "d": BlockStop(0, BlockType.TEXT),
        "A": text("Hello. "),
        "C": text("[withheld] "),
        "D": text("Bye"),
    }
    source = test.hot("  -s-a-b----c-d-----------|", lookup)
    seen = test.observe(source.pipe(moderated(is_fine)))
    assert seen == test.expected("-s------A----C--(D,d)---|", lookup)


async def test_what_a_worker_keeps_is_what_the_gate_let_through() -> None:
    def is_fine(sentence: str) -> Observable[bool]:
        return reactivex.just("secret" not in sentence)

    worker = Worker(ScriptedModel(["Hello. The secret is 42. Bye."]), operators=[moderated(is_fine)])
    assert (await worker.run("Tell me.")).text == "Hello. [withheld] Bye."


async def test_an_operator_gate_may_refuse_for_good() -> None:
    def explode(context: ToolCallContext) -> ToolCallContext:
        raise PermissionError("no")

    assert await ask(before_tool_call(from_operator(ops.map(explode)))) == Abort("no")


@pytest.mark.parametrize("reason", ["Not here.", None])
async def test_what_is_dropped_gives_the_reason(reason: str | None) -> None:
    def never(context: ToolCallContext) -> bool:
        return False

    refuse = before_tool_call(from_operator(ops.filter(never), reason=reason))
    assert await ask(refuse) == Skip(reason or "This call was not allowed.")
