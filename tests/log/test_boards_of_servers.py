"""Dashboards and stored folds of two servers over one log, one of which is killed while they change.

The other one and its successor show each record once.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rxworker.events import RunStop, ToolStop
from rxworker.log import open_log
from tests.log.board_server import LOOKS, step
from tests.log.conftest import NewAddress
from tests.log.processes import stored
from tests.whole import SLOW_STORES

PROGRAM = Path(__file__).with_name("board_server.py")
RUNS = 2
SECONDS = 100

Shown = dict[str, Any]


class Server:
    """A server in a process of its own, and its clients."""

    def __init__(self, process: Process, url: str, http: aiohttp.ClientSession) -> None:
        self.process = process
        self._url = url
        self._http = http

    async def begin(self) -> str:
        async with self._http.post(f"{self._url}api/runs", json={"input": "Hi"}) as response:
            assert response.status == 201, await response.text()
            return (await response.json())["id"]

    async def shown(self) -> AsyncGenerator[Shown, None]:
        """The panels by their names, as they change."""
        known: Shown = {}
        async with self._http.get(f"{self._url}api/boards/desk/events") as response:
            assert response.status == 200
            async for line in response.content:
                if line.startswith(b"data: "):
                    known |= {each["panel"]: each.get("value") for each in json.loads(line[6:])}
                    yield known

    async def sums(self) -> AsyncGenerator[dict[str, int], None]:
        """What is folded, as it changes."""
        async with self._http.get(f"{self._url}api/streams/sums/events") as response:
            assert response.status == 200
            async for line in response.content:
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])["value"]

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


async def until(values: AsyncGenerator[Any, None], is_so: Callable[[Any], object]) -> Any:
    async with aclosing(values):
        async for value in values:
            if is_so(value):
                return value
    raise ConnectionResetError("the server has ended")


@asynccontextmanager
async def serving(address: str, http: aiohttp.ClientSession) -> AsyncGenerator[Server]:
    process = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), address, stdout=PIPE)
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        yield Server(process, url, http)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("store", SLOW_STORES)
async def test_two_servers_count_each_record_once_also_after_one_was_killed(
    store: str, new_address: NewAddress, tmp_path: Path
) -> None:
    address = f"sqlite:{tmp_path}/runs.db" if store == "sqlite" else new_address(store)
    async with asyncio.timeout(SECONDS), AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession(trust_env=False))
        one = await stack.enter_async_context(serving(address, http))
        two = await stack.enter_async_context(serving(address, http))
        ids = [await server.begin() for _ in range(RUNS) for server in (one, two)]

        async def see_all(server: Server) -> Shown:
            return await until(server.shown(), lambda known: known.get("ended") == len(ids))

        # A viewer of the first one, which goes on at the second one.
        before: list[int] = []

        def note(known: Shown) -> bool:
            before.append(known.get("tools") or 0)
            return False

        async def view() -> Shown:
            try:
                await until(one.shown(), note)
            except (aiohttp.ClientError, ConnectionError):
                return await see_all(two)
            raise AssertionError("the first server was not killed")

        viewing = asyncio.create_task(view())
        folded = await until(one.sums(), bool)
        await until(one.shown(), lambda known: (known.get("tools") or 0) > 10 * RUNS)
        await one.kill()
        three = await stack.enter_async_context(serving(address, http))
        viewed, other = await viewing, await see_all(three)
        assert 10 * RUNS < max(before) < LOOKS * len(ids)  # it was killed in the middle
        assert before == sorted(before)

        sums, tools, ended = dict[str, int](), Counter[str](), 0
        async with open_log(address) as log:
            for run in ids:
                for record in await stored(log, run):
                    sums = step(sums, record)
                    tools[run] += isinstance(record.event, ToolStop)
                    ended += isinstance(record.event, RunStop)
        assert ended == len(ids)
        assert set(tools.values()) == {LOOKS}
        expected = {"tools": tools.total(), "ended": ended, "tools-by-run": tools}
        for known in (viewed, other, await see_all(two)):
            assert known == expected
        for server in (two, three):
            assert await until(server.sums(), lambda value: value == sums) == sums
        assert all(folded[run] <= sums[run] for run in folded)
