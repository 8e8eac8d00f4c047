"""How far a run may go. On by default, so that a loop that never ends does end."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """The most that one run may take; ``None`` takes a limit off.

    Attributes:
        max_turns: Requests to the model.
        max_continuations: Times that hooks may send an answer back with ``ContinueWithMessages``.
        max_tool_calls: Tool calls.
        max_seconds: Wall clock.

    >>> Limits(max_turns=3).max_turns
    3
    """

    max_turns: int | None = 50
    max_continuations: int | None = 10
    max_tool_calls: int | None = 500
    max_seconds: float | None = 3600.0


__all__ = ["Limits"]
