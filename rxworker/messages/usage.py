"""How many tokens a response used, and what they cost. Pure."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.messages.json import JsonObject
from rxworker.messages.settings import Settings, check_number, check_type


class Usage(Struct, frozen=True, tag="usage", omit_defaults=True, repr_omit_defaults=True, gc=False):
    """Tokens of one response so far: a snapshot, never a difference. The last one holds.

    The five numbers mean the same for every provider: cached input is part of the input, reasoning is part of the
    output. ``None`` means that the provider did not report it. ``raw`` keeps its own object, in its own way of
    counting.

    Attributes:
        input_tokens: Everything the model read, cached or not.
        output_tokens: Everything the model wrote, thinking included.
        cache_read_tokens: The part of the input that came from a cache.
        cache_creation_tokens: The part of the input that was written to a cache.
        reasoning_tokens: The part of the output that was thinking.
        raw: The provider's own numbers.
        is_partial: Whether a response was cut before its final numbers, so that the true ones are higher.
        cache_creation_1h_tokens: The part of what was written to a cache that lives for an hour, which has a price of
            its own.
        by_size: Of a sum: the tokens of its responses, by the largest of `SIZES` that their input exceeds, since long
            prompts have prices of their own. Empty for one response, unless its provider has made it in several passes,
            and for a sum that is not longer than the first size.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    reasoning_tokens: int | None = None
    raw: JsonObject | None = None
    is_partial: bool = False
    cache_creation_1h_tokens: int | None = None
    by_size: tuple[tuple[int, Usage], ...] = ()

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
        whole = _added(self, other)
        if (whole.input_tokens or 0) <= SIZES[0]:
            return whole
        sizes = parts_of(self)
        for size, part in parts_of(other).items():
            sizes[size] = _added(sizes[size], part) if size in sizes else part
        return replace(whole, by_size=tuple(sorted(sizes.items(), key=_size)))


NOTHING = Usage()
SIZES = (100_000, 128_000, 200_000, 256_000, 272_000, 512_000)
"""The lengths of a prompt in tokens above which providers have other prices."""


def _size(part: tuple[int, Usage]) -> int:
    return part[0]


def _added(one: Usage, other: Usage) -> Usage:
    if one == NOTHING:
        return replace(other, raw=None, by_size=())
    a, b = one.input_tokens, other.input_tokens
    c, d = one.output_tokens, other.output_tokens
    e, f = one.cache_read_tokens, other.cache_read_tokens
    g, h = one.cache_creation_tokens, other.cache_creation_tokens
    i, j = one.reasoning_tokens, other.reasoning_tokens
    k, m = one.cache_creation_1h_tokens, other.cache_creation_1h_tokens
    # Written out: every response is added to those before it, by several who count.
    return Usage(
        b if a is None else a if b is None else a + b,
        d if c is None else c if d is None else c + d,
        f if e is None else e if f is None else e + f,
        h if g is None else g if h is None else g + h,
        j if i is None else i if j is None else i + j,
        is_partial=one.is_partial or other.is_partial,
        cache_creation_1h_tokens=m if k is None else k if m is None else k + m,
    )


def parts_of(usage: Usage) -> dict[int, Usage]:
    """The tokens by the size of their prompts; 0 for those up to the first of `SIZES`.

    >>> parts_of(Usage(250_000, 10))
    {200000: Usage(input_tokens=250000, output_tokens=10)}
    """
    if usage.by_size:
        return dict(usage.by_size)
    if usage.total_tokens == 0:
        return {}
    size = max((size for size in SIZES if (usage.input_tokens or 0) > size), default=0)
    return {size: usage if usage.raw is None else replace(usage, raw=None)}


def as_sum(usage: Usage) -> Usage:
    """Tokens of several responses whose sizes are not known: all of them have the prices of short prompts.

    >>> Prices(1.0, 2.0, above=200_000, long=Prices(2.0, 4.0)).cost(as_sum(Usage(1_000_000)))
    1.0
    """
    return usage if usage.by_size else replace(usage, by_size=((0, usage),))


def less(usage: Usage | None, known: Usage | None) -> Usage:
    """The tokens that are not among those that are known; no number is below 0.

    >>> less(Usage(10, 5), Usage(4, 8))
    Usage(input_tokens=6, output_tokens=0)
    """
    if usage is None or known is None or not known.total_tokens:
        return usage or Usage()
    counts = {
        name: max(count - (getattr(known, name) or 0), 0)
        for name in COUNTS
        if (count := getattr(usage, name)) is not None
    }
    return Usage(**counts)


COUNTS = tuple([name for name in Usage.__struct_fields__ if name.endswith("_tokens")])


class Counts(Struct, frozen=True):
    """The four numbers as the provider itself counts them; ``None``: not sent."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None


class Prices(Settings, frozen=True):
    """Prices of a model, for a million tokens, in one currency.

    Attributes:
        input: The price of input that is not cached.
        output: The price of output, including thinking.
        cache_read: The price of input that is read from a cache; ``None``: that of ``input``.
        cache_creation: The price of input that is written to a cache; ``None``: that of ``input``.
        currency: The currency of the prices. It is shown beside a cost; nothing is converted.
        cache_creation_1h: The price of input that is written to a cache for an hour; ``None``: that of
            ``cache_creation``.
        above: The length of a prompt in tokens, one of `SIZES`, above which all tokens of its request have other
            prices.
        long: These prices.

    Raises:
        ConfigurationError: A price is not a number from 0 up, or only one of ``above`` and ``long`` is given.

    >>> Prices(input=3.0, output=15.0).cost(Usage(input_tokens=1_000_000, output_tokens=100_000))
    4.5
    >>> tiered = Prices(input=2.0, output=12.0, above=200_000, long=Prices(input=4.0, output=18.0))
    >>> short, long = Usage(150_000, 0), Usage(250_000, 0)
    >>> tiered.cost(short), tiered.cost(long), tiered.cost(short + Usage(100_000, 0))
    (0.3, 1.0, 0.5)
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_creation: float | None = None
    currency: str = "USD"
    cache_creation_1h: float | None = None
    above: int | None = None
    long: Prices | None = None

    def __post_init__(self) -> None:
        """Check the prices."""
        for name in ("input", "output", "cache_read", "cache_creation", "cache_creation_1h"):
            check_number(f"Prices({name})", getattr(self, name), optional=name.startswith("cache_"))
        check_type("Prices(currency)", self.currency, str, "currency='EUR'")
        check_type("Prices(long)", self.long, Prices, "long=Prices(4.0, 18.0)", optional=True)
        if (self.above is None) != (self.long is None):
            raise ConfigurationError("Prices: give both above=... and long=..., or none of them")
        if self.above is not None and self.above not in SIZES:
            sizes = ", ".join(map(str, SIZES))
            raise ConfigurationError(f"Prices(above)={self.above!r:.60}: give one of {sizes}")

    def cost(self, usage: Usage) -> float:
        """The cost of the tokens of a response, or of a sum of responses, each by the length of its prompt."""
        if self.long is None or self.above is None:
            return self._cost(usage)
        long, above = self.long, self.above
        return sum(long.cost(part) if size >= above else self._cost(part) for size, part in parts_of(usage).items())

    def _cost(self, usage: Usage) -> float:
        read, written = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
        fresh = max((usage.input_tokens or 0) - read - written, 0)
        of_read = self.input if self.cache_read is None else self.cache_read
        of_written = self.input if self.cache_creation is None else self.cache_creation
        of_hour = of_written if self.cache_creation_1h is None else self.cache_creation_1h
        hour = min(usage.cache_creation_1h_tokens or 0, written)
        whole = (
            fresh * self.input
            + read * of_read
            + (written - hour) * of_written
            + hour * of_hour
            + (usage.output_tokens or 0) * self.output
        )
        return whole / 1_000_000
