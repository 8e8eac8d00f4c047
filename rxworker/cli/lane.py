"""A lane of the timeline: a block, and for a tool call also its run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Activity: TypeAlias = Literal["thinking", "text", "arguments", "tool", "other"]
Outcome: TypeAlias = Literal["open", "done", "failed", "retracted"]

MOST = 200
"""Characters of a lane's detail."""


@dataclass(slots=True)
class Stretch:
    """A time in which something was done.

    Attributes:
        activity: What.
        start: From when, in seconds since the run began.
        end: Until when; ``None``: it goes on.
    """

    activity: Activity
    start: float
    end: float | None = None


@dataclass(slots=True)
class Lane:
    """A block of a response. A tool call's lane goes on while the tool runs.

    Attributes:
        turn: The turn it belongs to.
        name: What it is called.
        stretches: What was done in it, in order.
        detail: What there is to say of it: arguments as they arrive, progress, the result.
        outcome: How it ended.
    """

    turn: int
    name: str
    stretches: list[Stretch] = field(default_factory=list[Stretch])
    detail: str = ""
    outcome: Outcome = "open"

    def begin(self, activity: Activity, now: float) -> None:
        """Something begins in it; what went on before ends."""
        self.end(now)
        self.stretches.append(Stretch(activity, now))
        self.outcome = "open"

    def end(self, now: float, outcome: Outcome = "done") -> None:
        """What goes on in it ends."""
        if self.stretches and self.stretches[-1].end is None:
            self.stretches[-1].end = max(now, self.stretches[-1].start)
        self.outcome = outcome

    def tell(self, more: str) -> None:
        """More of the detail; of much, the beginning."""
        if len(self.detail) < MOST:
            self.detail = (self.detail + more)[:MOST]

    def seconds(self, now: float) -> float:
        """How long something was done in it, without the pauses."""
        return sum((now if s.end is None else s.end) - s.start for s in self.stretches)


__all__ = ["Activity", "Lane", "Outcome", "Stretch"]
