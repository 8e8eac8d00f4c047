"""The logs that tests of control run over: none, in memory, one that takes its time, and a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rxworker.log import EventLog, MemoryLog, SQLiteLog

LOGS = ["none", "memory", "slow", "sqlite"]


def slow_log(seconds: float = 0.01) -> MemoryLog:
    """A log in memory whose claims, appends and releases take so many seconds; for 0, a few steps of the loop."""
    log: Any = MemoryLog()

    def delayed(call: Callable[..., Any]) -> Callable[..., Any]:
        async def later(*args: Any) -> Any:
            await asyncio.sleep(seconds)
            found = await call(*args)
            for _ in range(3):
                await asyncio.sleep(0)
            return found

        return later

    for name in ("_claim", "_append", "_release"):
        setattr(log, name, delayed(getattr(log, name)))
    return log


def make_log(kind: str, folder: Path, seconds: float = 0.01) -> EventLog | None:
    """A new log of a kind of `LOGS`.

    Args:
        kind: The kind.
        folder: Where a file may be made.
        seconds: How long calls of the slow one take.
    """
    match kind:
        case "memory":
            return MemoryLog()
        case "slow":
            return slow_log(seconds)
        case "sqlite":
            return SQLiteLog(folder / "runs.db")
        case _:
            return None
