"""Several models as one."""

from __future__ import annotations

import pytest
from reactivex.testing import TestScheduler

from rxworker import Conversation, Message, Request, Worker
from rxworker.errors import ConfigurationError, ProviderError
from rxworker.events import Error, ResponseEvent, ResponseStatus, Status, TextDelta, Usage
from rxworker.testing import ScriptedModel, cut, fail, lint, say, stall
from rxworker.transport import CombinedModel, fallback, race

REQUEST = Request(Conversation((Message.user("hi"),)))


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
    events, errors = heard(
        fallback(ScriptedModel([fail("down")]), ScriptedModel(["second"], name="other"))
    )
    assert (text_of(events), errors) == ("second", [])
    started = next(e for e in events if isinstance(e, Status))
    assert (started.status, started.provider) == (ResponseStatus.STARTED, "other")
    assert not any(isinstance(event, Error) for event in events)
    assert lint(events) == []


async def test_a_failure_in_the_middle_takes_back_what_was_said_and_counts_its_tokens() -> None:
    first = ScriptedModel([say("half a sen") + cut()], name="one")
    second = ScriptedModel([say("whole")], name="two")
    result = await Worker(fallback(first, second)).run("hi")
    assert result.text == "whole"
    assert result.conversation.messages[-1].provider == "two"
    assert result.usage.total_tokens == 30
    assert result.usage.is_partial


def test_the_last_failure_is_the_failure_of_all() -> None:
    events, errors = heard(fallback(ScriptedModel([fail("one")]), ScriptedModel([fail("two")])))
    assert [str(error) for error in errors] == ["two"]
    assert [e.message for e in events if isinstance(e, Error)] == ["two"]


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


def test_when_all_fail_the_race_fails_with_the_last_failure() -> None:
    events, errors = heard(race(ScriptedModel([fail("one")]), ScriptedModel([fail("two")])))
    assert [type(error) for error in errors] == [ProviderError]
    assert [e.message for e in events if isinstance(e, Error)] == ["two"]


def test_disposing_ends_every_request_of_a_race() -> None:
    scheduler = TestScheduler()
    models = [ScriptedModel([stall()], delay=9.0, scheduler=scheduler) for _ in range(3)]
    race(*models).stream(REQUEST).subscribe().dispose()
    assert [model.left for model in models] == [1, 1, 1]


def test_each_subscription_asks_anew() -> None:
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
