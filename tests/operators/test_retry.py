"""`retry_before_first`: again, until an item has passed."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import Observable, abc, throw

from rxworker.operators import retry_before_first
from rxworker.operators.kernel import Source, Stage
from rxworker.testing.marbles import Marbles


def waits(*delays: float | None) -> Callable[[Exception, int], float | None]:
    def should(_: Exception, failures: int) -> float | None:
        return delays[failures - 1]

    return should


def in_turn(*sources: Observable[str]) -> Observable[str]:
    remaining = list(sources)

    def subscribe(observer: abc.ObserverBase[str], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return remaining.pop(0).subscribe(observer, scheduler=scheduler)

    return Stage(subscribe)


def test_it_subscribes_again_after_the_pause(test: Marbles) -> None:
    failing, working = test.cold("--#"), test.cold("-a-|")
    source = in_turn(failing, working)
    seen = test.observe(source.pipe(retry_before_first(waits(3.0), test.scheduler)))
    assert seen == test.expected("------a-|")
    assert failing.subscriptions == test.subscriptions("^-!")
    assert working.subscriptions == test.subscriptions("-----^--!")


def test_it_gives_up_without_a_delay(test: Marbles) -> None:
    source = test.cold("--#")
    seen = test.observe(source.pipe(retry_before_first(waits(1.0, None), test.scheduler)))
    assert seen == test.expected("-----#")
    assert source.subscriptions == test.subscriptions("^-!", "---^-!")


def test_after_an_item_errors_pass(test: Marbles) -> None:
    source = test.cold("-a-#")
    seen = test.observe(source.pipe(retry_before_first(waits(1.0), test.scheduler)))
    assert seen == test.expected("-a-#")


def test_the_delay_is_computed_from_the_error_and_the_number_of_failures() -> None:
    asked: list[tuple[str, int]] = []

    def should(error: Exception, failures: int) -> float | None:
        asked.append((str(error), failures))
        return 1.0 if failures < 3 else None

    test = Marbles()
    test.observe(test.cold("-#").pipe(retry_before_first(should, test.scheduler)))
    assert asked == [("error", 1), ("error", 2), ("error", 3)]


def test_what_the_question_raises_is_passed_on() -> None:
    def should(_: Exception, __: int) -> float | None:
        raise ValueError("asked")

    test = Marbles()
    seen = test.observe(test.cold("-#").pipe(retry_before_first(should, test.scheduler)))
    assert seen == test.expected("-#", error=ValueError("asked"))


def test_disposing_during_the_pause_ends_it(test: Marbles) -> None:
    source = test.cold("-#")
    operator = retry_before_first(waits(5.0), test.scheduler)
    assert test.observe(source.pipe(operator), until="---!") == []
    assert source.subscriptions == test.subscriptions("^!")


def test_thousands_of_failures_do_not_pile_up() -> None:
    def should(_: Exception, failures: int) -> float | None:
        return 0.0 if failures < 5000 else None

    test = Marbles()
    errors: list[Exception] = []
    source: Observable[int] = throw(ValueError("no"))
    operator = retry_before_first(should, test.scheduler)
    source.pipe(operator).subscribe(lambda _: None, errors.append)
    test.scheduler.start()
    assert [str(error) for error in errors] == ["no"]


def test_a_source_that_cannot_be_subscribed_to_is_tried_again() -> None:
    calls: list[int] = []

    def subscribe(observer: abc.ObserverBase[str], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("busy")
        return Source[str]().subscribe(observer)

    test = Marbles()
    source: Observable[str] = Stage(subscribe)
    operator = retry_before_first(waits(1.0), test.scheduler)
    assert test.observe(source.pipe(operator)) == []
    assert len(calls) == 2
