"""A pause that the application asks for, by `Run.pause`: at the next moment at which nothing is cut off."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from rxworker.events import Event, RunPause

BY_CALLER = "pause"
"""What stands in a `RunPause` in the place of a hook's name."""


class Pausing:
    """Whether somebody asked for a pause.

    >>> pausing = Pausing()
    >>> pausing.ask("lunch")
    >>> pausing.take(print, RunPause(BY_CALLER))
    RunPause(hook='pause', pending=(), paused_at=None, reason='lunch', refused=(), let_through=0, key='')
    True
    """

    def __init__(self) -> None:
        self._reason: str | None = None

    @property
    def is_asked(self) -> bool:
        """Whether the next safe moment will be a pause."""
        return self._reason is not None

    def ask(self, reason: str) -> None:
        """Pause at the next safe moment."""
        self._reason = reason

    def take(self, emit: Callable[[Event], None], pause: RunPause) -> bool:
        """This is a safe moment: pause, if somebody asked for it. Whether somebody had."""
        if self._reason is None:
            return False
        reason, self._reason = self._reason, None
        emit(replace(pause, reason=reason))
        return True


__all__ = ["BY_CALLER", "Pausing"]
