"""Each command of the page about several machines, as the page has it, in processes of their own."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from rxworker.log import EventLog, Replica, open_log
from tests.log.conftest import NewAddress

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "several-machines.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.+?)```", TEXT, re.DOTALL)
    for line in block.strip().splitlines()
]
WORKERS = re.findall(r"```python\n(.+?)```", TEXT, re.DOTALL)[0]


def command_of(part: str, address: str) -> list[str]:
    """The only command of the page with this part, for this Python and the log at this address."""
    (found,) = [line for line in COMMANDS if part in line]
    COMMANDS_USED.add(found)
    words = shlex.split(found)
    assert words[0] == "rxworker"
    words = [address if word == "sqlite:runs.db" else word for word in words]
    return [sys.executable, "-m", "rxworker.cli", *words[1:]]


COMMANDS_USED: set[str] = set()


async def output_of(folder: Path, words: list[str]) -> str:
    done = await asyncio.create_subprocess_exec(
        *words, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await done.communicate()
    assert done.returncode == 0, err.decode()
    return out.decode().strip()


@asynccontextmanager
async def process(folder: Path, words: list[str]) -> AsyncGenerator[str, None]:
    """A process that runs until it gets SIGTERM; yields its first line."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    one = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert one.stdout is not None
    try:
        async with asyncio.timeout(30):
            yield (await one.stdout.readline()).decode()
        one.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await one.wait() == 0
    finally:
        if one.returncode is None:
            one.kill()
            await one.wait()


async def end_of(log: EventLog, run: str) -> str:
    replica = Replica(log, run)
    async with asyncio.timeout(30):
        await replica.ended()
    assert replica.state.status == "finished"
    return replica.state.conversation.messages[-1].text


@pytest.mark.parametrize("store", ["sqlite", "postgres", "nats"])
async def test_each_command_does_what_the_page_says(
    store: str, new_address: NewAddress, tmp_path: Path
) -> None:
    (tmp_path / "my_workers.py").write_text(WORKERS)
    address = new_address(store)

    def command(part: str) -> list[str]:
        return command_of(part, address)

    async with open_log(address) as log:
        async with process(tmp_path, command("--concurrency")) as line:
            assert "32 runs at once" in line
            run = await output_of(tmp_path, command('submit --log sqlite:runs.db --kind clerk "'))
            assert await end_of(log, run) == "Take an umbrella."
            listed = await output_of(tmp_path, command(" list"))
            assert run in listed
            assert "finished" in listed
            async with process(tmp_path, [*command("serve"), "--port", "0"]) as line:
                url = line.split()[-1]
                async with aiohttp.ClientSession(trust_env=False) as http:
                    body = {"input": "And in Osaka?", "worker": "clerk"}
                    async with http.post(f"{url}api/runs", json=body) as response:
                        assert response.status == 201, await response.text()
                        begun = (await response.json())["id"]
                    async with http.get(f"{url}api/runs/{begun}/events") as response:
                        assert "Take an umbrella." in await response.text()
        urgent = await output_of(tmp_path, command("--priority"))
        info = await log.info(urgent)
        assert info is not None
        assert (info.status, info.row.priority, info.row.labels) == (
            "queued",
            5,
            {"tenant": "acme"},
        )
        async with process(tmp_path, command("--tenant-cap")):
            assert await end_of(log, urgent) == "Take an umbrella."
    assert {*COMMANDS} == COMMANDS_USED
