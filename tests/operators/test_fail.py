"""`fail_on_error` turns an error event into the end of the stream."""

from __future__ import annotations

from typing import Any

from reactivex.testing import Recorded

from rxworker.errors import ProviderError, TruncatedError
from rxworker.events import Error, ResponseEvent, ResponseStatus, Status, TextDelta
from rxworker.events.meta import TRUNCATED
from rxworker.operators import error_to_exception, fail_on_error
from rxworker.testing.marbles import Marbles

OVERLOADED = Error("overloaded_error", "later", retryable=True, kind="overloaded", request_id="r1")
EVENTS: dict[str, ResponseEvent] = {
    "t": TextDelta(0, "hello"),
    "e": OVERLOADED,
    "f": Status(ResponseStatus.FAILED),
    "c": Status(ResponseStatus.COMPLETED),
}
FAILURE = error_to_exception(OVERLOADED)


def observe(drawing: str) -> list[Recorded[Any]]:
    test = Marbles()
    return test.observe(test.hot(drawing, EVENTS).pipe(fail_on_error()))


def test_the_end_comes_behind_the_failed_status() -> None:
    assert observe("-t-e-f----|")[-1].time == 205
    assert observe("-t-e-f----|") == Marbles().expected("-t-e-(f,#)", EVENTS, error=FAILURE)


def test_the_end_comes_with_completion_when_there_is_no_status() -> None:
    assert observe("-t-e---|") == Marbles().expected("-t-e---#", EVENTS, error=FAILURE)


def test_a_failed_status_without_an_error_is_only_an_event() -> None:
    assert observe("-t-f-|") == Marbles().expected("-t-f-|", EVENTS)


def test_the_sources_own_error_becomes_the_cause() -> None:
    seen = observe("-e-#")
    failure = seen[-1].value
    exception = getattr(failure, "exception", None)
    assert isinstance(exception, ProviderError)
    assert str(exception.__cause__) == "error"


def test_the_exception_has_what_the_event_has() -> None:
    assert isinstance(FAILURE, ProviderError)
    assert (FAILURE.kind, FAILURE.code, FAILURE.message) == ("overloaded", "overloaded_error", "later")
    assert (FAILURE.retryable, FAILURE.request_id) == (True, "r1")


def test_a_truncated_stream_has_its_own_exception() -> None:
    failure = error_to_exception(Error(TRUNCATED, "it stopped", retryable=True))
    assert isinstance(failure, TruncatedError)
    assert failure.retryable
