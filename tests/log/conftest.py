"""Every store passes the same tests."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from types import ModuleType

import pytest

from rxworker.log import Codec, EventLog, MemoryLog, SQLiteLog, open_log
from tests.log.nats_server import MISSING, NatsServer, find_server
from tests.log.postgres_server import PostgresServer, require_postgres

OpenLog = Callable[..., EventLog]
NewAddress = Callable[[str], str]
STORES = ["memory", "page", "sqlite", "postgres", "nats"]
SAMPLED = [
    *["memory", "sqlite"],
    *[pytest.param(store, marks=pytest.mark.product(4)) for store in ("page", "postgres", "nats")],
]
"""What holds over any store that passes `test_conformance.py` the suite tries in part over those that take longer."""
EXAMPLE = Path(__file__).parents[2] / "examples" / "store" / "table_log.py"


async def until(is_so: Callable[[], object], *found: object) -> None:
    """Wait for what the threads of a log bring about; what was found until then is shown where it never comes."""
    try:
        async with asyncio.timeout(60):
            while not is_so():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.001)
    except TimeoutError:
        pytest.fail(f"it never came; found: {[getattr(each, '__dict__', each) for each in found]}")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Generator[PostgresServer]:
    """A server of Postgres."""
    require_postgres()
    # The folder above that of a process of xdist is that of the run.
    is_shared = "PYTEST_XDIST_WORKER" in os.environ
    server = PostgresServer(tmp_path_factory.getbasetemp().parent / "postgres" if is_shared else None)
    yield server
    server.close()


@pytest.fixture(scope="session")
def nats_program() -> str:
    """The nats-server that the tests start."""
    return find_server() or pytest.skip(MISSING)


@pytest.fixture(scope="session")
def nats_server(nats_program: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[NatsServer]:
    """A nats-server for all tests of this process. Each uses a name of its own."""
    server = NatsServer(nats_program, tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def nats_address(nats_server: NatsServer) -> str:
    """The address of a log that does not exist yet."""
    return nats_server.new_address()


@pytest.fixture
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[NatsServer | PostgresServer]:
    """A server of this name that the test may kill."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres")
        return
    server = NatsServer(request.getfixturevalue("nats_program"), tmp_path / "nats")
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def new_address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NewAddress:
    """The address of a log that does not exist yet, by the name of its store."""

    def make(store: str) -> str:
        if store == "postgres":
            return request.getfixturevalue("postgres").new_address()
        if store == "nats":
            return request.getfixturevalue("nats_server").new_address()
        return f"sqlite:{tmp_path_factory.mktemp('log')}/runs.db"

    return make


@pytest.fixture(scope="session")
def page() -> Generator[ModuleType]:
    """What the example of a store defines."""
    module = ModuleType("the_example_of_a_store")
    sys.modules[module.__name__] = module
    exec(compile(EXAMPLE.read_text(encoding="utf-8"), str(EXAMPLE), "exec", dont_inherit=True), module.__dict__)
    yield module
    del sys.modules[module.__name__]


def store_of(request: pytest.FixtureRequest, new_address: NewAddress, tmp_path: Path) -> OpenLog:
    """Opens the log of this test; a store that has a file opens the same one each time."""
    memory: list[MemoryLog] = []
    table: dict[str, object] = {}
    folds: dict[str, object] = {}
    address = new_address(request.param) if request.param in ("postgres", "nats") else ""

    def open_it(*, codec: Codec | None = None, owner: str = "", lease: float = 15.0) -> EventLog:
        if request.param == "sqlite":
            return SQLiteLog(tmp_path / "runs.db", codec=codec, owner=owner, lease=lease)
        if request.param == "page":
            page = request.getfixturevalue("page")
            return page.TableLog(table, folds, codec=codec, owner=owner, lease=lease)
        if address:
            return open_log(address, codec=codec, owner=owner, lease=lease)
        memory.append(MemoryLog(codec=codec, owner=owner, lease=lease))
        return memory[-1]

    return open_it


@pytest.fixture
async def store(open_store: OpenLog) -> AsyncGenerator[EventLog]:
    """The log of this test, open."""
    async with open_store() as log:
        yield log


open_store = pytest.fixture(params=SAMPLED, name="open_store")(store_of)
