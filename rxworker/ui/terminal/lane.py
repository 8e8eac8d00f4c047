"""A lane: one thing that happens in a conversation, from its beginning to its end. Everything in it is clean text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rxworker.views import ItemStage
from rxworker.views.run_view import OVER

LaneKind: TypeAlias = Literal["user", "thinking", "text", "call", "note", "pause", "error"]


@dataclass(slots=True, eq=False)
class Lane:
    """What is said, thought or noted. Compared by identity.

    Attributes:
        kind: What it is.
        title: What stands above it, or before it.
        depth: Within how many tool calls it happens.
        stage: How far it is.
        began: When it began, in seconds since the epoch.
        ended: When it ended; ``None``: it goes on.
        pieces: Its text, in the pieces in which it came.
        sources: What the text rests on.
        times: How often the like has happened.
        choice: Which choice of the response it belongs to, from 0. The conversation keeps the first.
    """

    kind: LaneKind
    title: str = ""
    depth: int = 0
    stage: ItemStage = "open"
    began: float = 0.0
    ended: float | None = None
    pieces: list[str] = field(default_factory=list[str])
    sources: list[str] = field(default_factory=list[str])
    times: int = 1
    choice: int = 0

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(self.pieces)

    @property
    def choice_label(self) -> str:
        """Marks what belongs to a further choice; empty for the first.

        >>> Lane("text", choice=1).choice_label
        'Choice 2'
        """
        return f"Choice {self.choice + 1}" if self.choice else ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens in it."""
        return self.stage in OVER

    def end(self, now: float, stage: ItemStage = "done") -> None:
        """It ends, unless it has."""
        if not self.is_over:
            self.stage, self.ended = stage, now

    def seconds(self, now: float) -> float:
        """How long it has gone on."""
        return max(0.0, (now if self.ended is None else self.ended) - self.began)


@dataclass(slots=True, eq=False)
class CallLane(Lane):
    """A tool call: its ``title`` is the tool's name, its text the arguments as they come.

    Attributes:
        call_id: The call's id.
        arguments: The arguments in one line, once they are whole.
        progress: What the tool told last.
        told: How often it has told something.
        result: What the model reads of it; ``None`` before that.
        took: The seconds that it ran.
    """

    call_id: str = ""
    arguments: str = ""
    progress: str = ""
    told: int = 0
    result: str | None = None
    took: float = 0.0
