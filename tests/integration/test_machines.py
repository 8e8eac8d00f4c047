"""Each command of the page about several machines, as the page has it, in processes of their own."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from rxworker.log import Replica, SQLiteLog
from rxworker.worker import submit

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "several-machines.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.+?)```", TEXT, re.DOTALL)
    for line in block.strip().splitlines()
]
WORKERS = re.findall(r"```python\n(.+?)```", TEXT, re.DOTALL)[0]


def command(part: str) -> list[str]:
    """The only command of the page with this part, for this Python."""
    (found,) = [line for line in COMMANDS if part in line]
    COMMANDS_USED.add(found)
    words = shlex.split(found)
    assert words[0] == "rxworker"
    return [*COMMAND, *words[1:]]


COMMANDS_USED: set[str] = set()
COMMAND = [sys.executable, "-m", "rxworker.cli"]


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
    async with running(folder, words) as one:
        assert one.stdout is not None
        async with asyncio.timeout(30):
            yield (await one.stdout.readline()).decode()
        one.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await one.wait() == 0


@asynccontextmanager
async def running(folder: Path, words: list[str]) -> AsyncGenerator[Process, None]:
    """A process, which is killed unless it has ended."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    one = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield one
    finally:
        if one.returncode is None:
            one.kill()
            await one.wait()


async def end_of(log: SQLiteLog, run: str) -> str:
    replica = Replica(log, run)
    async with asyncio.timeout(30):
        await replica.ended()
    assert replica.state.status == "finished"
    return replica.state.conversation.messages[-1].text


WAITING = """
import asyncio
from pathlib import Path
from rxworker import Worker, tool
from rxworker.testing import ScriptedModel, call, say

@tool
async def wait() -> str:
    \"\"\"Wait for the test.\"\"\"
    Path("waiting").touch()
    await asyncio.to_thread(Path("gate").read_bytes)
    return "done"

def make_worker():
    return Worker(ScriptedModel([call("wait"), say("Done.")]), tools=[wait])
"""


async def test_a_process_that_takes_runs_is_alive_and_not_ready_while_it_drains(
    tmp_path: Path,
) -> None:
    (tmp_path / "my_workers.py").write_text(WAITING)
    os.mkfifo(tmp_path / "gate")
    words = [*COMMAND, "work", "--log", "sqlite:runs.db", "my_workers:make_worker", "--health", "0"]
    async with (
        asyncio.timeout(60),
        SQLiteLog(tmp_path / "runs.db") as log,
        aiohttp.ClientSession(trust_env=False) as http,
        running(tmp_path, words) as one,
    ):
        assert one.stdout is not None
        await one.stdout.readline()
        url = f"http://127.0.0.1:{re.findall(rb'port ([0-9]+)', await one.stdout.readline())[0].decode()}/"

        async def get(path: str) -> tuple[int, str]:
            async with http.get(url + path) as response:
                return response.status, await response.text()

        assert (await get("healthz"), await get("readyz")) == ((200, "ok\n"), (200, "ok\n"))
        run = await submit(log, "Wait.")
        assert await one.stdout.readline() == f"{run} taken\n".encode()
        while not (tmp_path / "waiting").exists():
            assert await get("readyz") == (200, "ok\n")
        one.send_signal(signal.SIGTERM)
        while (found := await get("readyz")) == (200, "ok\n"):
            pass
        assert found == (503, "closing\n")
        assert await get("healthz") == (200, "ok\n")
        await asyncio.to_thread((tmp_path / "gate").write_bytes, b"")
        assert await one.wait() == 0


async def test_each_command_does_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "my_workers.py").write_text(WORKERS)
    async with SQLiteLog(tmp_path / "runs.db") as log:
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
