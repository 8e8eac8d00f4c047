"""A response that fails in the middle is taken back and asked for again."""

from __future__ import annotations

import pytest
import reactivex
from reactivex import Observable
from reactivex.testing import TestScheduler

from rxworker import Worker, tool
from rxworker.errors import ProviderError, TruncatedError
from rxworker.events import AttemptRetract, AttemptStart, Event, Record, TextDelta, ToolStart
from rxworker.operators import committed, events, text_deltas
from rxworker.testing import ScriptedModel, call, cut, fail, lint, say
from rxworker.transport import Retry
from rxworker.worker.attempts import retry_attempts

QUICK = Retry(first=0.0)
LATER = ProviderError("later", retryable=True)


def test_the_pause_before_the_next_attempt_is_the_schedulers() -> None:
    scheduler = TestScheduler()
    half = reactivex.concat(reactivex.just(TextDelta(0, "ha")), reactivex.throw(LATER))
    left = [half, reactivex.just(TextDelta(0, "whole"))]
    seen: list[tuple[float, Event]] = []

    def wait(error: Exception, number: int) -> float | None:
        return 30.0 * number

    retry_attempts(lambda: left.pop(0), AttemptStart(), wait, scheduler).subscribe(
        lambda event: seen.append((scheduler.clock, event))
    )
    scheduler.advance_to(100)
    assert seen == [
        (0, AttemptStart()),
        (0, TextDelta(0, "ha")),
        (0, AttemptRetract("later", 30.0)),
        (30, AttemptStart()),
        (30, TextDelta(0, "whole")),
    ]


def test_an_attempt_that_said_nothing_is_not_made_again() -> None:
    asked: list[int] = []

    def wait(error: Exception, number: int) -> float | None:
        asked.append(number)
        return 0.0

    errors: list[Exception] = []
    silent: Observable[Event] = reactivex.throw(LATER)
    attempts = retry_attempts(lambda: silent, AttemptStart(), wait, TestScheduler())
    attempts.subscribe(on_error=errors.append)
    assert (errors, asked) == ([LATER], [])


async def test_a_worker_takes_back_what_was_said_and_answers_whole() -> None:
    model = ScriptedModel([say("Half a sen") + cut(), say("A whole sentence.")])
    run = Worker(model, retry=QUICK).run("hi")
    live: list[str] = []
    final: list[str] = []
    run.events.pipe(text_deltas()).subscribe(live.append)
    run.pipe(committed(), events(), text_deltas()).subscribe(final.append)
    result = await run
    assert result.text == "".join(final) == "A whole sentence."
    assert "".join(live).startswith("Half")
    assert result.usage.total_tokens == 30
    records = [record async for record in run]
    assert lint(records) == []
    assert [r.attempt for r in records if isinstance(r.event, AttemptStart)] == [1, 2]
    assert [m.role for m in result.conversation.messages] == ["user", "assistant"]


async def test_the_calls_of_a_retracted_attempt_never_run() -> None:
    ran: list[int] = []

    @tool
    def act(n: int) -> str:
        """Act."""
        ran.append(n)
        return "acted"

    model = ScriptedModel([call("act", n=1) + cut(), call("act", n=2), "done"])
    run = Worker(model, tools=[act], retry=QUICK).run("go")
    await run
    assert ran == [2]
    started = [r.event async for r in run if isinstance(r.event, ToolStart)]
    assert len(started) == 1


async def test_retries_end() -> None:
    model = ScriptedModel([say("a") + cut(), say("b") + cut(), say("c") + cut()])
    run = Worker(model, retry=QUICK).run("hi")
    with pytest.raises(TruncatedError):
        await run
    assert len(model.requests) == 3


async def test_what_will_not_get_better_is_not_tried_again() -> None:
    model = ScriptedModel([say("a") + fail("no money left", "quota")])
    with pytest.raises(ProviderError, match="no money left"):
        await Worker(model, retry=QUICK).run("hi")
    assert len(model.requests) == 1


async def test_cancel_while_waiting_for_the_next_attempt() -> None:
    model = ScriptedModel([say("a") + cut(), "never"])
    worker = Worker(model, retry=Retry(first=60.0))
    run = worker.run("hi")
    async for record in run:
        if isinstance(record.event, AttemptRetract):
            break
    await run.cancel()
    records: list[Record] = []
    run.subscribe(records.append, lambda _: None)
    assert lint(records) == []
    assert len(model.requests) == 1
