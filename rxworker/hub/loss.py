"""What happens when a watcher raises: it is logged and reported, and an interrupt goes on to the program."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

OnRaise: TypeAlias = Callable[[str, BaseException], None]

reporters: list[OnRaise] = []
"""Called for each watcher that has raised, of every hub of the process; for `rxworker.testing`."""

logger = logging.getLogger("rxworker.hub")


class Losses:
    """Reports the watchers that have raised, by then detached.

    Args:
        on_detach: Called with the name of the watcher, and what it raised.
        loop: The event loop of the hub, if any.

    Attributes:
        on_interrupt: Called with a ``KeyboardInterrupt`` that a watcher has raised; by default it leaves the event loop at once.
    """

    def __init__(self, on_detach: OnRaise | None, loop: asyncio.AbstractEventLoop | None) -> None:
        self.on_interrupt: Callable[[KeyboardInterrupt], None] | None = None
        self._on_detach = on_detach
        self._loop = loop

    def report(self, name: str, error: BaseException) -> None:
        """Report that a watcher has raised. Raises nothing: whoever pushed the record has nothing to do with it.

        Args:
            name: The watcher's name.
            error: What it raised.
        """
        try:
            logger.warning("watcher %s has raised and is detached", name, exc_info=error)
            for reporter in tuple(reporters):
                reporter(name, error)
            if self._on_detach is not None:
                self._on_detach(name, error)
        except BaseException as failure:
            with suppress(BaseException):
                text = "on_detach has raised, called for watcher %s"
                logger.warning(text, name, exc_info=failure)
            if not isinstance(error, KeyboardInterrupt):
                error = failure
        if isinstance(error, KeyboardInterrupt):
            self._hand_on(error)

    def _hand_on(self, interrupt: KeyboardInterrupt) -> None:
        if self.on_interrupt is not None:
            self.on_interrupt(interrupt)
        elif self._loop is not None:
            leave(self._loop, interrupt)


def leave(loop: asyncio.AbstractEventLoop, interrupt: KeyboardInterrupt) -> None:
    """Raise an interrupt out of the event loop, to whoever runs it, when what is called back now has returned."""

    def raise_it() -> None:
        raise interrupt

    with suppress(RuntimeError):  # the loop has closed: the program is past it
        loop.call_soon_threadsafe(raise_it)


__all__ = ["Losses", "OnRaise", "leave", "reporters"]
