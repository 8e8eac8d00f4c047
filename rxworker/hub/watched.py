"""What a way of watching needs of the hub that it watches."""

from __future__ import annotations

import asyncio
from typing import Protocol

from rxworker.hub.deferred import Deferred
from rxworker.hub.history import History
from rxworker.hub.latch import Latch


class Watched(Protocol):
    """A hub, as those see it who come for its records.

    Attributes:
        history: The records so far.
        deferred: Who is served when the event loop comes round.
        over: Opens when it has ended.
    """

    history: History
    deferred: Deferred
    over: Latch

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that it belongs to."""
        ...

    @property
    def last_seq(self) -> int:
        """The number of the last record."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        ...

    @property
    def error(self) -> Exception | None:
        """What it has ended with, if anything."""
        ...

    def named(self, name: str) -> str:
        """The name of a new watcher."""
        ...


__all__ = ["Watched"]
