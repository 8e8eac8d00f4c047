"""A response that fails in the middle is taken back and asked for again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
import reactivex
from msgspec import field
from reactivex import Observable, abc, typing
from reactivex import operators as ops

from rxworker import Worker, tool
from rxworker.errors import ProviderError, TruncatedError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Error,
    Event,
    Record,
    ResponseEvent,
    ResponseStatus,
    RunStop,
    Status,
    TextDelta,
    ToolStart,
    TurnStop,
    WatcherDetach,
)
from rxworker.operators import committed, events, text_deltas
from rxworker.providers import Request
from rxworker.testing import ScriptedModel, call, cut, fail, lint, say
from rxworker.transport import Retry
from rxworker.transport.clock import LoopClock
from tests.runs import reached, records_of

QUICK = Retry(first=0.0)
LATER = ProviderError("later", retryable=True)


class Model:
    """Each request is answered by the next of these streams."""

    name = model = "model"

    def __init__(self, *answers: Observable[ResponseEvent]) -> None:
        self.left = list(answers)

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        return self.left.pop(0)


class Waits(Retry, frozen=True):
    """Another attempt after a while of its own; writes down what it is asked with."""

    asked: list[int] = field(default_factory=list[int])

    def delay(self, error: Exception, attempt: int, chance: Callable[[], float] = random.random) -> float | None:
        self.asked.append(attempt)
        return 30.0 * attempt


class Clock(LoopClock):
    """Lets every while go by at once, and writes down how long it was."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self.whiles: list[object] = []

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: typing.ScheduledAction[Any], state: Any = None
    ) -> abc.DisposableBase:
        self.whiles.append(duetime)
        return self.schedule(action, state)


async def test_the_next_attempt_is_made_after_the_pause_that_is_reported() -> None:
    clock = Clock()
    half = reactivex.concat(reactivex.just(TextDelta(0, "ha")), reactivex.throw(LATER))
    whole = reactivex.of(TextDelta(0, "whole"), Status(ResponseStatus.COMPLETED))
    retry = Waits()
    run = Worker(Model(half, half, whole), response_retry=retry, scheduler=clock).run("hi")
    await run
    told = [r.event async for r in run if r.attempt]
    assert [e for e in told if not isinstance(e, TurnStop | RunStop)] == [
        AttemptStart("model", "model", ()),
        TextDelta(0, "ha"),
        AttemptRetract("later", 30.0),
        AttemptStart("model", "model", ()),
        TextDelta(0, "ha"),
        AttemptRetract("later", 60.0),
        AttemptStart("model", "model", ()),
        TextDelta(0, "whole"),
        Status(ResponseStatus.COMPLETED),
    ]
    assert (retry.asked, clock.whiles) == ([1, 2], [30.0, 60.0])


async def test_an_attempt_without_an_event_is_not_made_again() -> None:
    retry = Waits()
    model = Model(reactivex.throw(LATER), reactivex.just(TextDelta(0, "whole")))
    with pytest.raises(ProviderError, match="later"):
        await Worker(model, response_retry=retry).run("hi")
    assert (retry.asked, len(model.left)) == ([], 1)


async def test_messages_of_watchers_do_not_belong_to_the_attempt() -> None:
    retry = Waits()
    run = Worker(Model(reactivex.throw(LATER)), response_retry=retry).run("hi")

    def hear(record: Record) -> None:
        if isinstance(record.event, AttemptStart):
            raise ValueError("a watcher that raises is detached, and the others are told so")

    seen: list[Event] = []
    run.subscribe(hear)
    run.events.subscribe(seen.append, lambda _: None)
    with pytest.raises(ProviderError, match="later"):
        await run
    assert any(isinstance(event, WatcherDetach) for event in seen)
    assert retry.asked == []


async def test_a_worker_retracts_the_response_and_answers_whole() -> None:
    model = ScriptedModel([say("Half a sen") + cut(), say("A whole sentence.")])
    run = Worker(model, response_retry=QUICK).run("hi")
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
    run = Worker(model, tools=[act], response_retry=QUICK).run("go")
    await run
    assert ran == [2]
    started = [r.event async for r in run if isinstance(r.event, ToolStart)]
    assert len(started) == 1


async def test_retries_end() -> None:
    model = ScriptedModel([say("a") + cut(), say("b") + cut(), say("c") + cut()])
    run = Worker(model, response_retry=QUICK).run("hi")
    with pytest.raises(TruncatedError):
        await run
    assert len(model.requests) == 3


async def test_what_will_not_get_better_is_not_tried_again() -> None:
    model = ScriptedModel([say("a") + fail("no money left", "quota")])
    with pytest.raises(ProviderError, match="no money left"):
        await Worker(model, response_retry=QUICK).run("hi")
    assert len(model.requests) == 1


async def test_cancel_while_waiting_for_the_next_attempt() -> None:
    model = ScriptedModel([say("a") + cut(), "never"])
    worker = Worker(model, response_retry=Retry(first=60.0))
    run = worker.run("hi")
    await reached(run, AttemptRetract)
    await run.cancel()
    records = records_of(run)
    assert lint(records) == []
    assert len(model.requests) == 1


STARTED, COMPLETED = Status(ResponseStatus.STARTED), Status(ResponseStatus.COMPLETED)


@pytest.mark.parametrize(
    "events", [[], [TextDelta(0, "half")], [STARTED], [STARTED, TextDelta(0, "half")], [TextDelta(0, "x"), STARTED]]
)
async def test_a_stream_that_ends_without_its_terminal_event_is_not_an_answer(events: list[ResponseEvent]) -> None:
    run = Worker(Model(reactivex.from_iterable(events))).run("hi")
    with pytest.raises(TruncatedError, match=r"completed without .* Status\(COMPLETED\)"):
        await run


async def test_an_operator_that_drops_the_terminal_event_is_named() -> None:
    answer = reactivex.of(STARTED, TextDelta(0, "whole"), COMPLETED)
    worker = Worker(Model(answer), operators=[ops.take(2)])
    with pytest.raises(TruncatedError, match="the worker's operators"):
        await worker.run("hi")


async def test_a_stream_that_fails_and_completes_is_not_an_answer() -> None:
    failed = Error("overloaded_error", "later", kind="overloaded")
    answer = reactivex.of(STARTED, failed, Status(ResponseStatus.FAILED))
    with pytest.raises(ProviderError, match="later"):
        await Worker(Model(answer)).run("hi")
