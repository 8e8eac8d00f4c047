"""Every store passes the same tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from rxworker.log import Codec, EventLog, MemoryLog, SQLiteLog, open_log
from tests.log.postgres_server import PostgresServer, require_postgres

OpenLog = Callable[..., EventLog]
STORES = ["memory", "sqlite", "postgres"]


async def until(is_so: Callable[[], object]) -> None:
    """Wait for what the threads of a log bring about."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    """A server of Postgres."""
    require_postgres()
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenLog:
    """Opens the log of this test; a store that has a file opens the same one each time."""
    memory: list[MemoryLog] = []
    address = ""
    if request.param == "postgres":
        address = request.getfixturevalue("postgres").new_address()

    def open_it(*, codec: Codec | None = None, owner: str = "", lease: float = 15.0) -> EventLog:
        if request.param == "sqlite":
            return SQLiteLog(tmp_path / "runs.db", codec=codec, owner=owner, lease=lease)
        if address:
            return open_log(address, codec=codec, owner=owner, lease=lease)
        memory.append(MemoryLog(codec=codec, owner=owner, lease=lease))
        return memory[-1]

    return open_it
