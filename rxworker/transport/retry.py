"""When a request that failed before its first event is made again, and how much later."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import Struct

from rxworker.errors import RxWorkerError


class Retry(Struct, frozen=True):
    """How often to try again, and how long to wait before it.

    The wait is what the provider asks for, else ``first · 2ⁿ`` up to ``most``, less up to a quarter by chance so that many
    clients do not come back at once.

    Attributes:
        retries: How many times to try again after the first.
        first: Seconds before the first retry.
        most: The longest wait of our own, in seconds.
        patience: A provider that asks for more than these seconds is not waited for.
    """

    retries: int = 2
    first: float = 0.5
    most: float = 8.0
    patience: float = 120.0

    def delay(
        self, error: Exception, attempt: int, chance: Callable[[], float] = random.random
    ) -> float | None:
        """Seconds to wait after this error; ``None`` to give up.

        Args:
            error: What went wrong.
            attempt: How many tries there have been, from 1.
            chance: A number from 0 to 1.

        >>> from rxworker.errors import TransportError
        >>> Retry().delay(TransportError("broke", retryable=True), 1, lambda: 0.0)
        0.5
        >>> Retry().delay(TransportError("broke"), 1) is None
        True
        """
        if attempt > self.retries or not isinstance(error, RxWorkerError) or not error.retryable:
            return None
        if error.retry_after:
            return error.retry_after if error.retry_after <= self.patience else None
        doublings = min(attempt - 1, 64)  # far beyond any longest wait, and still a number
        return min(self.first * 2.0**doublings, self.most) * (1 - chance() / 4)


__all__ = ["Retry"]
