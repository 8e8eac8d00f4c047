"""Every store passes the same tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rxworker.log import Codec, EventLog, MemoryLog, SQLiteLog

OpenLog = Callable[..., EventLog]
STORES = ["memory", "sqlite"]


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenLog:
    """Opens the log of this test; a store that has a file opens the same one each time."""
    memory: list[MemoryLog] = []

    def open_it(*, codec: Codec | None = None, owner: str = "", lease: float = 15.0) -> EventLog:
        if request.param == "sqlite":
            return SQLiteLog(tmp_path / "runs.db", codec=codec, owner=owner, lease=lease)
        memory.append(MemoryLog(codec=codec, owner=owner, lease=lease))
        return memory[-1]

    return open_it
