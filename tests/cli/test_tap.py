"""``rxworker tap`` and ``rxworker serve --tap``, as processes and on the command line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rxworker import Worker
from rxworker.cli import main
from rxworker.cli.process import CommandError
from rxworker.cli.tap import begin, read_line
from rxworker.errors import ConfigurationError
from rxworker.log import EventLog, MemoryLog, SQLiteLog
from rxworker.testing import ScriptedModel
from rxworker.ui.web import WebServer
from tests.tap.sessions import CLAUDE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")


@asynccontextmanager
async def command(folder: Path, *options: str) -> AsyncGenerator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rxworker", *options),
        cwd=folder,
        env={**os.environ, "PYTHONUTF8": "1", "RX_TOKEN": "secret-token"},
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def line_of(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def until_listed(log: EventLog, number: int, status: str) -> list[Any]:
    async for _ in log.changes(limit=0):
        infos = [info for info in await log.list() if info.status == status]
        if len(infos) >= number:
            return infos
    raise AssertionError


def write(file: Path, lines: list[dict[str, Any]]) -> None:
    with file.open("a") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)


@pytest.mark.slow
async def test_a_session_is_recorded_as_it_grows_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    file = tmp_path / "sessions" / "s.jsonl"
    options = ("tap", "claude-code", "sessions", "--log", "sqlite:runs.db", "--name", "desk", "--label", "team=a")
    async with asyncio.timeout(60), SQLiteLog(tmp_path / "runs.db") as log:
        write(file, CLAUDE[:6])
        async with command(tmp_path, *options) as process:
            assert await line_of(process) == "records the sessions in sessions"
            await until_listed(log, 1, "running")
        assert process.returncode == 0
        [info] = await log.list()
        assert (info.status, info.row.worker, info.row.labels["team"]) == ("running", "tap:desk", "a")
        async with command(tmp_path, *options):
            write(file, CLAUDE[6:])
            await until_listed(log, 2, "finished")
        assert (await log.existing(info.run_id)).row.recoveries == 1


async def test_a_server_shows_what_it_taps_and_has_no_worker(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    write(tmp_path / "sessions" / "s.jsonl", CLAUDE)
    options = ("--port", "0", "--log", "sqlite:runs.db", "--dashboard", "rxworker.panels:SOURCES")
    async with (
        asyncio.timeout(60),
        command(tmp_path, "serve", "--tap", "claude-code sessions", *options) as process,
        SQLiteLog(tmp_path / "runs.db") as log,
        aiohttp.ClientSession(trust_env=False) as http,
    ):
        url = (await line_of(process)).removeprefix("rxworker serves ")
        await until_listed(log, 2, "finished")
        async with http.get(url + "api/runs") as response:
            shown = (await response.json())["runs"]
        assert {each["worker"] for each in shown} == {"tap:claude-code"}
        async with http.post(url + "api/runs", json={"input": "Hi"}) as response:
            assert "only shows runs" in await response.text()


@pytest.mark.slow
async def test_a_run_of_another_server_is_recorded(tmp_path: Path) -> None:
    async with asyncio.timeout(60), WebServer(Worker(ScriptedModel(["Hello."])), port=0) as server:
        run = server.state.runs.start("Hi")
        address = f"{server.url}api/runs/{run.id}/events"
        async with command(tmp_path, "tap", "rxworker", address, "--log", "sqlite:runs.db") as process:
            _, errors = await process.communicate()
        assert (process.returncode, errors.decode()) == (0, "")
    async with SQLiteLog(tmp_path / "runs.db") as log:
        [info] = await log.list()
        assert (info.run_id, info.status, info.row.title) == (f"rxworker-{run.id}", "finished", "Hi")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("tap claude-code nowhere --log memory:", "there is no folder"),
        ("tap rxworker http://127.0.0.1:9/x --log memory:", "127.0.0.1:9"),
        ("tap agui http://127.0.0.1:9/x --log memory: --token-env NOT_SET", "'NOT_SET' is not set"),
        ("tap codex", "--log"),
        ("serve --tap codex --demo", "--tap needs --log"),
        ("serve --log memory: --tap nothing", "invalid choice: 'nothing'"),
        ("serve --log memory: --tap proxy", "required: --to (see rxworker tap proxy --help)"),
        ("serve --log memory: --tap 'codex", "No closing quotation"),
    ],
)
def test_what_cannot_be_tapped_is_refused(options: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(re.findall(r"--tap|'[^']*$|\S+", options)) != 0
    assert expected in capsys.readouterr().err


async def test_a_server_does_not_begin_with_a_folder_that_is_named_and_not_there() -> None:
    async with MemoryLog() as log, AsyncExitStack() as opened:
        with pytest.raises(CommandError, match="there is no folder 'nowhere'"):
            await begin(read_line("claude-code nowhere"), log, opened)


@pytest.mark.parametrize("source", ["otlp", "proxy --to http://127.0.0.1:9"])
async def test_a_port_that_is_in_use_is_refused(source: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        line = read_line(f"{source} --listen {taken.getsockname()[1]}")
        async with asyncio.timeout(10), MemoryLog() as log:
            with pytest.raises(ConfigurationError, match=r"cannot listen on 127\.0\.0\.1 port"):
                async with AsyncExitStack() as opened:
                    await begin(line, log, opened)
