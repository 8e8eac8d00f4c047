"""A server over a log is killed and started again: its clients see each record once, and its tools run once."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rxworker.events import Record
from rxworker.hub.history import expand
from rxworker.protocols import decode_record
from tests.ports import free_port
from tests.whole import one_of

PROGRAM = Path(__file__).with_name("served_log.py")
LEASE = 0.5


class Server:
    """A process, always at the same address."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, lease: float = LEASE, *, holds: bool = False) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), str(self.file), str(self.port), str(lease), "holds" * holds,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self._process = process
        assert process.stdout is not None
        assert (await process.stdout.readline()).startswith(b"ready")

    async def stop(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        return await process.wait()

    @property
    def effects(self) -> list[str]:
        return Path(f"{self.file}.effects").read_text().splitlines()


class Client:
    """Reads a run as a browser does: it reconnects behind the last record that it has."""

    def __init__(self, http: aiohttp.ClientSession, server: Server, run_id: str) -> None:
        self.records: list[Record] = []
        self.end: Any = None
        self._http = http
        self._url = f"{server.url}api/runs/{run_id}/events"

    async def read(self) -> None:
        while self.end is None:
            try:
                await self._connect()
            except aiohttp.ClientError:
                await asyncio.sleep(0.02)

    async def _connect(self) -> None:
        after = self.records[-1].seq if self.records else 0
        headers = {"Last-Event-ID": str(after)}
        async with self._http.get(self._url, headers=headers) as response:
            assert response.status == 200, await response.text()
            event = ""
            async for line in response.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    event = value
                elif name == "data" and event == "end":
                    self.end = json.loads(value)
                elif name == "data":
                    self.records.append(decode_record(value.encode()))

    async def until(self, is_so: Callable[[Record], bool]) -> None:
        async with asyncio.timeout(60):
            while not any(map(is_so, self.records)):  # noqa: ASYNC110 - the reader has no event
                await asyncio.sleep(0.005)

    def check(self) -> None:
        """Each number once."""
        before = 0
        for record in self.records:
            assert record.seq - record.covers == before, (before, record)
            before = record.seq

    def kinds(self) -> Counter[str]:
        return Counter(type(one.event).__name__ for record in self.records for one in expand(record))


@pytest.fixture
async def http() -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with aiohttp.ClientSession(trust_env=False) as session:
        yield session


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server, None]:
    async with AsyncExitStack() as stack:
        one = Server(tmp_path / "runs.db")
        stack.push_async_callback(one.stop, signal.SIGKILL)
        yield one


async def begin(http: aiohttp.ClientSession, server: Server, text: str) -> str:
    async with http.post(f"{server.url}api/runs", json={"input": text}) as response:
        assert response.status == 201, await response.text()
        return (await response.json())["id"]


async def post(http: aiohttp.ClientSession, server: Server, path: str, body: object) -> int:
    async with http.post(f"{server.url}api/runs/{path}", json=body) as response:
        return response.status


@pytest.mark.slow
@pytest.mark.parametrize("number", one_of([signal.SIGTERM, signal.SIGKILL]), ids=lambda number: number.name)
@pytest.mark.parametrize("phase", one_of(["tool", "text"]))  # that of a text is also one of test_client.py
async def test_a_client_sees_each_record_once_over_restarts(
    server: Server, http: aiohttp.ClientSession, phase: str, number: signal.Signals
) -> None:
    # With a lease of a minute only a hand-over lets the next server go on.
    lease = 60.0 if number is signal.SIGTERM else LEASE
    await server.start(lease, holds=True)
    run = await begin(http, server, "Use a tool." if phase == "tool" else "Tell me a lot.")
    client = Client(http, server, run)
    reading = asyncio.create_task(client.read())
    kind = {"text": "TextDelta", "tool": "ToolStart"}[phase]
    for death in range(2):
        name = kind if not death else "RunRecover"
        await client.until(lambda record, name=name: any(type(one.event).__name__ == name for one in expand(record)))
        await server.stop(number)
        await server.start(lease, holds=not death)
    async with asyncio.timeout(60):
        await reading
    client.check()
    assert client.end == {"status": "finished", "reason": ""}
    assert client.kinds()["RunRecover"] >= 1
    assert max(Counter(line for line in server.effects if line.startswith("end")).values(), default=1) == 1


async def test_a_pause_outlives_the_server_and_is_decided_about_once(
    server: Server, http: aiohttp.ClientSession
) -> None:
    await server.start()
    run = await begin(http, server, "Please order it.")
    client = Client(http, server, run)
    await client.read()
    assert client.end["status"] == "paused"
    await server.stop(signal.SIGKILL)
    await server.start()
    async with http.get(f"{server.url}api/runs/{run}") as response:
        [pending] = (await response.json())["pause"]["pending"]
    body = {"decisions": {pending["id"]: {"type": "approve"}}}
    answers = await asyncio.gather(*(post(http, server, f"{run}/resume", body) for _ in range(3)))
    assert sorted(answers) == [201, 409, 409]
    resumed = Client(http, server, f"{run}~2")
    await resumed.read()
    assert resumed.end["status"] == "finished"
    assert len(server.effects) == 1
