"""What the runs of a conversation have taken."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rxworker.messages import Usage
from rxworker.worker import Run


class Totals(Struct, frozen=True):
    """What runs have taken.

    Attributes:
        usage: Tokens.
        turns: Turns.
        calls: Tool calls.
    """

    usage: Usage = Usage()
    turns: int = 0
    calls: int = 0

    def __add__(self, other: Totals) -> Totals:
        """Both together."""
        usage, turns = self.usage + other.usage, self.turns + other.turns
        return Totals(usage, turns, self.calls + other.calls)


def totals_of(run: Run[Any]) -> Totals:
    """What a run has taken so far."""
    state = run.state
    return Totals(state.usage, state.turns, state.all_tool_calls)


__all__ = ["Totals", "totals_of"]
