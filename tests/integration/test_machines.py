"""Each command of the page about several machines, as the page has it.

What goes on until it is stopped is a process of its own.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, chdir, redirect_stdout
from pathlib import Path

import aiohttp
import pytest

from rxworker import Worker
from rxworker.cli.main import main
from rxworker.log import EventLog, Replica, SQLiteLog, open_log
from rxworker.testing import ScriptedModel
from tests.log.conftest import NewAddress
from tests.ports import free_port
from tests.whole import SLOW_STORES

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "several-machines.md"
TEXT = PAGE.read_text(encoding="utf-8")
THREE = re.search(r"## From one machine to three\n.+?(?=\n## )", TEXT, re.DOTALL)
assert THREE is not None


def commands_in(text: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.+?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.strip().splitlines()]


COMMANDS = commands_in(TEXT.replace(THREE[0], ""))
COMMANDS_OF_THREE = commands_in(THREE[0])
WORKERS = re.findall(r"```python\n(.+?)```", TEXT, re.DOTALL)[0]


class Commands:
    """The commands of the page, by a part of them, for this Python and with other words in place of some."""

    def __init__(self, commands: list[str], words: dict[str, str]) -> None:
        self.unused = {*commands}
        self._commands = commands
        self._words = words

    def __call__(self, part: str) -> list[str]:
        (found,) = {line for line in self._commands if part in line}
        self.unused.discard(found)
        program, *words = shlex.split(found)
        assert program == "rxworker"
        return [*RXWORKER, *(self._words.get(word, word) for word in words)]


RXWORKER = [sys.executable, "-m", "rxworker"]


async def output_of(folder: Path, words: list[str]) -> str:
    with chdir(folder), redirect_stdout(io.StringIO()) as out:
        assert await asyncio.to_thread(main, words[len(RXWORKER) :]) == 0
    return out.getvalue().strip()


@asynccontextmanager
async def process(folder: Path, words: list[str]) -> AsyncGenerator[str, None]:
    """A process that runs until it gets SIGTERM; yields its first line."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    one = await asyncio.create_subprocess_exec(
        *words, cwd=folder, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert one.stdout is not None
    try:
        async with asyncio.timeout(60):
            yield (await one.stdout.readline()).decode()
        one.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await one.wait() == 0
    finally:
        if one.returncode is None:
            one.kill()
            await one.wait()


async def end_of(log: EventLog, run_id: str) -> str:
    replica = Replica(log, run_id)
    async with asyncio.timeout(60):
        await replica.ended()
    assert replica.state.status == "finished"
    return replica.state.conversation.messages[-1].text


@pytest.mark.parametrize("store", SLOW_STORES)
async def test_each_command_does_what_the_page_describes(store: str, new_address: NewAddress, tmp_path: Path) -> None:
    (tmp_path / "my_workers.py").write_text(WORKERS)
    address = new_address(store)
    command = Commands(COMMANDS, {"sqlite:runs.db": address})
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
        ordered = command("--run order-4711")
        assert await output_of(tmp_path, ordered) == "order-4711"
        assert await output_of(tmp_path, ordered) == "order-4711"
        urgent = await output_of(tmp_path, command("--priority"))
        info = await log.existing(urgent)
        assert (info.status, info.row.priority, info.row.labels) == ("queued", 5, {"tenant": "acme"})
        async with process(tmp_path, command("--tenant-cap")):
            assert await end_of(log, urgent) == "Take an umbrella."
    assert command.unused == set()


@pytest.mark.slow
async def test_three_machines_share_a_log(nats_program: str, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
        (folder / "my_workers.py").write_text(WORKERS)
    one, two, three = folders
    words = {"nats://one:4222/runs": f"nats://127.0.0.1:{(port := free_port())}/runs"}
    (server,) = [line for line in COMMANDS_OF_THREE if line.startswith("nats-server ")]
    options = ["-a", "127.0.0.1", "-p", str(port)]
    engine = await asyncio.create_subprocess_exec(
        nats_program, *shlex.split(server)[1:], *options, cwd=one, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with SQLiteLog(one / "runs.db") as log:
            words["RUN"] = (await Worker(ScriptedModel(["It was dry."]), log=log).run("Hi")).run_id
        command = Commands(COMMANDS_OF_THREE[1:], words)
        work, submit = command("rxworker work"), command("rxworker submit")
        await output_of(one, command(" export "))
        await output_of(one, command(" import "))
        async with open_log(words["nats://one:4222/runs"]) as log, process(three, work):
            async with process(two, work):
                assert await end_of(log, words["RUN"]) == "It was dry."
                assert await end_of(log, await output_of(one, submit)) == "Take an umbrella."
            assert await end_of(log, await output_of(two, submit)) == "Take an umbrella."
            async with (
                process(two, [*command("rxworker serve"), "--port", "0"]) as line,
                aiohttp.ClientSession(trust_env=False) as http,
                http.get(f"{line.split()[-1]}api/runs") as response,
            ):
                assert len((await response.json())["runs"]) == 3
        assert command.unused == set()
    finally:
        engine.kill()
        await engine.wait()
