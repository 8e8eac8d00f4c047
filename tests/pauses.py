"""The pause that a run ends with."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from rxworker import Paused, RunResult

T = TypeVar("T")


async def pause_of(run: Awaitable[RunResult[T]]) -> Paused[T]:
    """Wait for a run that pauses."""
    paused = await run
    assert isinstance(paused, Paused)
    return paused
