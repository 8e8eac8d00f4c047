"""What tokens cost."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages.usage import Usage

MILLION = 1_000_000


class Prices(Struct, frozen=True):
    """Prices of a model, for a million tokens, in one currency.

    Attributes:
        input: What the model reads for the first time.
        output: What it writes, thinking included.
        cache_read: What it reads from a cache; ``None``: as dear as input.
        cache_creation: What it writes to a cache; ``None``: as dear as input.
        currency: What the prices are in. It is shown beside a cost; nothing is converted.

    >>> Prices(input=3.0, output=15.0).cost(Usage(input_tokens=1_000_000, output_tokens=100_000))
    4.5
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_creation: float | None = None
    currency: str = "USD"

    def cost(self, usage: Usage) -> float:
        """What so many tokens cost."""
        read, written = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
        fresh = max((usage.input_tokens or 0) - read - written, 0)
        of_read = self.input if self.cache_read is None else self.cache_read
        of_written = self.input if self.cache_creation is None else self.cache_creation
        whole = (
            fresh * self.input
            + read * of_read
            + written * of_written
            + (usage.output_tokens or 0) * self.output
        )
        return whole / MILLION


__all__ = ["Prices"]
