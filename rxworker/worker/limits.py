"""How far a run may go. On by default, so that a loop that never ends does end."""

from __future__ import annotations

from msgspec import Struct

from rxworker.errors import ConfigurationError
from rxworker.messages import Prices


class Limits(Struct, frozen=True):
    """The most that one run may take; ``None`` takes a limit off.

    Attributes:
        max_turns: Requests to the model.
        max_continuations: Times that hooks may send an answer back with ``ContinueWithMessages``.
        max_tool_calls: Tool calls.
        max_tokens: Tokens read and written, all requests together; looked at before each request.
        max_cost: What these may cost; needs ``prices``, and is looked at before each request.
        prices: What the model's tokens cost.
        max_repeats: Turns in a row in which the same calls came to the same results: the run makes no progress.
        max_depth: How deep inside other runs a run may be.
        max_seconds: Wall clock.

    >>> Limits(max_turns=3).max_turns
    3
    """

    max_turns: int | None = 50
    max_continuations: int | None = 10
    max_tool_calls: int | None = 500
    max_tokens: int | None = 5_000_000
    max_cost: float | None = 50.0
    prices: Prices | None = None
    max_repeats: int | None = 5
    max_depth: int | None = 8
    max_seconds: float | None = 3600.0

    def __post_init__(self) -> None:
        """Refuse what is no limit.

        Raises:
            ConfigurationError: One is no number, or below 0.
        """
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            kind = value.__class__
            if (kind is int or kind is float) and value >= 0:  # pyright: ignore[reportOperatorIssue] - as most are
                continue
            if value is None or isinstance(value, Prices):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                message = f"{name}={value!r} is no limit: give a number from 0 up, or None for none"
                raise ConfigurationError(message)


__all__ = ["Limits"]
