"""How many tokens a response used, and what they cost. Pure."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages.json import JsonObject
from rxworker.messages.settings import Settings, check_number, check_type


class Usage(
    Struct, frozen=True, tag="usage", omit_defaults=True, repr_omit_defaults=True, gc=False
):
    """Tokens of one response so far: a snapshot, never a difference. The last one holds.

    The five numbers mean the same for every provider: cached input is part of the input, reasoning is part of the
    output. ``None`` means that the provider did not report it. ``raw`` keeps its own object, in its own way of counting.

    Attributes:
        input_tokens: Everything the model read, cached or not.
        output_tokens: Everything the model wrote, thinking included.
        cache_read_tokens: The part of the input that came from a cache.
        cache_creation_tokens: The part of the input that was written to a cache.
        reasoning_tokens: The part of the output that was thinking.
        raw: The provider's own numbers.
        is_partial: Whether a response was cut before its final numbers, so that the true ones are higher.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    reasoning_tokens: int | None = None
    raw: JsonObject | None = None
    is_partial: bool = False

    @property
    def total_tokens(self) -> int:
        """Input and output together.

        >>> Usage(input_tokens=10, output_tokens=5).total_tokens
        15
        """
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def __add__(self, other: Usage) -> Usage:
        """The usage of two responses together; ``raw`` belongs to one response and is left out.

        >>> Usage(input_tokens=10) + Usage(input_tokens=1, output_tokens=2)
        Usage(input_tokens=11, output_tokens=2)
        """
        a, b = self.input_tokens, other.input_tokens
        c, d = self.output_tokens, other.output_tokens
        e, f = self.cache_read_tokens, other.cache_read_tokens
        g, h = self.cache_creation_tokens, other.cache_creation_tokens
        i, j = self.reasoning_tokens, other.reasoning_tokens
        # Written out: every response is added to those before it, by several who count.
        return Usage(
            b if a is None else a if b is None else a + b,
            d if c is None else c if d is None else c + d,
            f if e is None else e if f is None else e + f,
            h if g is None else g if h is None else g + h,
            j if i is None else i if j is None else i + j,
            is_partial=self.is_partial or other.is_partial,
        )


class Counts(Struct, frozen=True):
    """The four numbers as the provider itself counts them; ``None``: not sent."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None


MILLION = 1_000_000


class Prices(Settings, frozen=True):
    """Prices of a model, for a million tokens, in one currency.

    Attributes:
        input: The price of input that is not cached.
        output: The price of output, including thinking.
        cache_read: The price of input that is read from a cache; ``None``: that of ``input``.
        cache_creation: The price of input that is written to a cache; ``None``: that of ``input``.
        currency: The currency of the prices. It is shown beside a cost; nothing is converted.

    Raises:
        ConfigurationError: A price is not a number from 0 up.

    >>> Prices(input=3.0, output=15.0).cost(Usage(input_tokens=1_000_000, output_tokens=100_000))
    4.5
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_creation: float | None = None
    currency: str = "USD"

    def __post_init__(self) -> None:
        """Check the prices."""
        for name in ("input", "output", "cache_read", "cache_creation"):
            optional = name.startswith("cache_")
            check_number(f"Prices({name})", getattr(self, name), optional=optional)
        check_type("Prices(currency)", self.currency, str, "currency='EUR'")

    def cost(self, usage: Usage) -> float:
        """The cost of a number of tokens."""
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
