"""Several models as one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import reactivex
from reactivex import Observable
from reactivex.testing import ReactiveTest, Recorded, TestScheduler

from rxworker import Worker
from rxworker.errors import ConfigurationError, ProviderError, TransportError
from rxworker.events import Error, ResponseEvent, ResponseStatus, Status, TextDelta, Usage
from rxworker.messages import Conversation, Message
from rxworker.providers import Request
from rxworker.testing import ScriptedModel, cut, fail, lint, say, stall
from rxworker.transport import fallback, race
from rxworker.transport.combine import CombinedModel

REQUEST = Request(Conversation((Message.user("hi"),)))


class Told:
    """Answers with just this."""

    name, model = "told", "told-1"

    def __init__(self, answer: Observable[ResponseEvent]) -> None:
        self.answer = answer

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        return self.answer


def at(time: int, event: ResponseEvent) -> Recorded[ResponseEvent]:
    return ReactiveTest.on_next(time, event)


def heard(model: CombinedModel) -> tuple[list[ResponseEvent], list[Exception]]:
    events: list[ResponseEvent] = []
    errors: list[Exception] = []
    model.stream(REQUEST).subscribe(events.append, errors.append)
    return events, errors


def text_of(events: list[ResponseEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def usage_of(events: list[ResponseEvent]) -> Usage:
    return [event for event in events if isinstance(event, Usage)][-1]


def test_the_first_model_answers_when_it_can() -> None:
    second = ScriptedModel(["second"])
    events, errors = heard(fallback(ScriptedModel(["first"]), second))
    assert (text_of(events), errors, len(second.requests)) == ("first", [], 0)


def test_the_next_model_answers_when_one_fails_at_once() -> None:
    events, errors = heard(fallback(ScriptedModel([fail("down")]), ScriptedModel(["second"], name="other")))
    assert (text_of(events), errors) == ("second", [])
    started = next(e for e in events if isinstance(e, Status))
    assert (started.status, started.provider) == (ResponseStatus.STARTED, "other")
    assert not any(isinstance(event, Error) for event in events)
    assert lint(events) == []


async def test_a_failure_in_the_middle_retracts_the_text_and_counts_its_tokens() -> None:
    first = ScriptedModel([say("half a sen") + cut()], name="one")
    second = ScriptedModel([say("whole")], name="two")
    result = await Worker(fallback(first, second)).run("hi")
    assert result.text == "whole"
    assert result.conversation.messages[-1].provider == "two"
    assert result.usage.total_tokens == 30
    assert result.usage.is_partial


@pytest.mark.parametrize("ask", [fallback, race])
def test_the_last_failure_is_the_failure_of_all(ask: Callable[..., CombinedModel]) -> None:
    events, errors = heard(ask(ScriptedModel([fail("one")]), ScriptedModel([fail("two")])))
    assert [(type(error), str(error)) for error in errors] == [(ProviderError, "two")]
    assert [e.message for e in events if isinstance(e, Error)] == ["two"]


def test_the_request_that_follows_a_failure_at_once_is_not_ended_with_it() -> None:
    scheduler = TestScheduler()
    answer = scheduler.create_cold_observable(at(100, TextDelta(0, "second")), ReactiveTest.on_completed(200))
    refused: Observable[ResponseEvent] = reactivex.throw(TransportError("refused"))
    events, errors = heard(fallback(Told(refused), Told(answer)))
    scheduler.advance_to(1000)
    assert (text_of(events), errors) == ("second", [])
    assert [subscription.unsubscribe for subscription in answer.subscriptions] == [200]


@pytest.mark.parametrize("ask", [fallback, race])
def test_usage_is_counted_also_where_the_model_that_answers_reports_none(ask: Callable[..., CombinedModel]) -> None:
    scheduler = TestScheduler()
    broken = scheduler.create_cold_observable(
        at(10, Status(ResponseStatus.STARTED)),
        at(20, Usage(output_tokens=5)),
        ReactiveTest.on_error(30, TransportError("down")),
    )
    silent = scheduler.create_cold_observable(
        at(40, Status(ResponseStatus.STARTED)), at(50, Status(ResponseStatus.COMPLETED)), ReactiveTest.on_completed(60)
    )
    events, errors = heard(ask(Told(broken), Told(silent)))
    scheduler.advance_to(1000)
    assert errors == []
    assert usage_of(events) == Usage(output_tokens=5, is_partial=True)
    assert isinstance(events[-1], Status)


def test_a_mistake_of_ours_is_not_covered_up() -> None:
    def broken(request: Request) -> str:
        raise ConfigurationError("no key")

    second = ScriptedModel(["second"])
    _, errors = heard(fallback(ScriptedModel(broken), second))
    assert [str(error) for error in errors] == ["no key"]
    assert len(second.requests) == 0


def test_the_quickest_to_begin_its_answer_wins_and_the_others_are_ended() -> None:
    scheduler = TestScheduler()
    slow = ScriptedModel(["slow"], delay=5.0, scheduler=scheduler, name="slow")
    quick = ScriptedModel(["quick"], delay=1.0, scheduler=scheduler, name="quick")
    events, errors = heard(race(slow, quick))
    scheduler.advance_to(1000)
    assert (text_of(events), errors) == ("quick", [])
    assert (slow.left, quick.left) == (1, 0)
    assert next(e.provider for e in events if isinstance(e, Status)) == "quick"
    assert lint(events) == []


def test_a_model_that_fails_drops_out_of_the_race() -> None:
    scheduler = TestScheduler()
    broken = ScriptedModel([fail("down")], delay=1.0, scheduler=scheduler)
    steady = ScriptedModel(["steady"], delay=2.0, scheduler=scheduler)
    events, errors = heard(race(broken, steady))
    scheduler.advance_to(1000)
    assert (text_of(events), errors) == ("steady", [])


def test_disposing_ends_every_request_of_a_race() -> None:
    scheduler = TestScheduler()
    models = [ScriptedModel([stall()], delay=9.0, scheduler=scheduler) for _ in range(3)]
    race(*models).stream(REQUEST).subscribe().dispose()
    assert [model.left for model in models] == [1, 1, 1]


def test_each_subscription_sends_a_request() -> None:
    first, second = ScriptedModel([fail("a"), "b"]), ScriptedModel(["c"])
    model = fallback(first, second)
    assert [text_of(heard(model)[0]) for _ in range(2)] == ["c", "b"]


def test_no_models_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one model"):
        fallback()
    with pytest.raises(ConfigurationError, match="at least one model"):
        race()


def test_usage_of_the_losers_is_counted() -> None:
    scheduler = TestScheduler()
    told = ScriptedModel([fail("x")], delay=1.0, scheduler=scheduler)
    events, _ = heard(race(told, ScriptedModel(["quick"], delay=1.5, scheduler=scheduler)))
    scheduler.advance_to(1000)
    assert usage_of(events).total_tokens == 15
