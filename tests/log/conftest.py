"""Every store passes the same tests."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from rxworker.log import Codec, EventLog, MemoryLog, SQLiteLog, open_log
from tests.log.nats_server import MISSING, NatsServer, find_server

OpenLog = Callable[..., EventLog]
STORES = ["memory", "sqlite", "nats"]


async def until(is_so: Callable[[], object]) -> None:
    """Wait for what the threads of a log bring about."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


@pytest.fixture(scope="session")
def nats_program() -> str:
    """The nats-server that the tests start."""
    return find_server() or pytest.skip(MISSING)


@pytest.fixture(scope="session")
def nats_server(
    nats_program: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[NatsServer]:
    """A nats-server for all tests of this process. Each uses a name of its own."""
    server = NatsServer(nats_program, tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def nats_address(nats_server: NatsServer) -> str:
    """The address of a log that does not exist yet."""
    return f"{nats_server.address}/{uuid.uuid4().hex}"


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenLog:
    """Opens the log of this test; a store that has a file opens the same one each time."""
    memory: list[MemoryLog] = []
    address = request.getfixturevalue("nats_address") if request.param == "nats" else ""

    def open_it(*, codec: Codec | None = None, owner: str = "", lease: float = 15.0) -> EventLog:
        if request.param == "sqlite":
            return SQLiteLog(tmp_path / "runs.db", codec=codec, owner=owner, lease=lease)
        if request.param == "nats":
            return open_log(address, codec=codec, owner=owner, lease=lease)
        memory.append(MemoryLog(codec=codec, owner=owner, lease=lease))
        return memory[-1]

    return open_it
