"""When a request is made again, and how much later."""

from __future__ import annotations

import pytest

from rxworker.errors import ConfigurationError, ProviderError, TransportError
from rxworker.transport import Retry

BUSY = TransportError("busy", retryable=True)


def most() -> float:
    return 0.0


def least() -> float:
    return 1.0


def test_pauses_double_up_to_the_longest() -> None:
    retry = Retry(retries=9, first=1.0, maximum=5.0)
    assert [retry.delay(BUSY, n, most) for n in range(1, 6)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_chance_takes_up_to_a_quarter() -> None:
    assert Retry().delay(BUSY, 1, least) == 0.375


def test_many_attempts_do_not_overflow() -> None:
    assert Retry(retries=10_000).delay(BUSY, 9_999, most) == 8.0


@pytest.mark.parametrize(
    ("error", "attempt", "delay"),
    [
        (BUSY, 3, None),
        (TransportError("wrong"), 1, None),
        (ConfigurationError("wrong"), 1, None),
        (ValueError("ours"), 1, None),
        (ProviderError("busy", retryable=True, retry_after=3.0), 1, 3.0),
        (ProviderError("busy", retryable=True, retry_after=0.0), 1, 0.5),
        (ProviderError("busy", retryable=True, retry_after=121.0), 1, None),
        (ProviderError("wrong", retry_after=3.0), 1, None),
    ],
)
def test_which_failures_are_tried_again(error: Exception, attempt: int, delay: float | None) -> None:
    assert Retry().delay(error, attempt, most) == delay
