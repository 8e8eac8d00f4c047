"""How those behind a response make its connection wait, so that TCP in turn makes the server wait.

reactivex has no way back from the observer to the source. Whoever may want to wait puts a `Pressure` here before it
subscribes; what reads a connection asks it between two reads, and the clock asks it whether silence is wanted. It travels in a
context variable, since a connection is read by the subscriber's own task, or by one that begins with its context.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Protocol


class Pressure(Protocol):
    """Somebody who may be unable to take more."""

    @property
    def is_full(self) -> bool:
        """Whether nothing should be read now."""
        ...

    def hold(self) -> Awaitable[object] | None:
        """What to wait for before the next read; ``None`` to read on."""
        ...


PRESSURE: ContextVar[Pressure | None] = ContextVar("rxworker_pressure", default=None)
"""Whom a connection that is opened here waits for."""


__all__ = ["PRESSURE", "Pressure"]
