"""A pause that the application asks for, by `Run.pause`: at the next moment at which nothing is cut off."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import Event, RunPause

BY_CALLER = "pause"
"""What stands in a `RunPause` in the place of a hook's name."""


class Pausing(Struct, eq=False):
    """Whether somebody asked for a pause.

    Attributes:
        reason: Why, for people, if somebody did: the next safe moment will be a pause.

    >>> pausing = Pausing()
    >>> pausing.ask("lunch")
    >>> taken: list[Event] = []
    >>> pausing.take(taken.append, RunPause(BY_CALLER))
    >>> taken == [RunPause(BY_CALLER, reason="lunch")]
    True
    """

    reason: str | None = None

    def ask(self, reason: str) -> None:
        """Pause at the next safe moment."""
        self.reason = reason

    def take(self, emit: Callable[[Event], None], pause: RunPause) -> None:
        """This is a safe moment: pause, if somebody asked for it."""
        reason, self.reason = self.reason, None
        if reason is not None:
            emit(replace(pause, reason=reason))


__all__ = ["BY_CALLER", "Pausing"]
