"""``rxworker work`` as a process: its probes, and the messages that it writes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rxworker.cli import main
from rxworker.cli.process import open_patiently
from rxworker.errors import ConfigurationError, LogError, RxWorkerError
from rxworker.log import MemoryLog, SQLiteLog
from rxworker.worker import submit

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")

SECRET = "sk-0123456789abcdef"
WORKERS = """
import asyncio, logging, os
from pathlib import Path
from rxworker import Worker, tool
from rxworker.testing import ScriptedModel, call, say

@tool
async def wait() -> str:
    \"\"\"Wait for the test.\"\"\"
    logging.getLogger("my").warning("the key is %s \\x1b[31m", os.environ["MY_API_KEY"])
    try:
        raise OSError(f"no {os.environ['MY_API_KEY']}")
    except OSError:
        logging.getLogger("my").exception("it failed")
    Path("waiting").touch()
    await asyncio.to_thread(Path("gate").read_bytes)
    return "done"

def make_worker():
    return Worker(ScriptedModel([call("wait"), say("Done.")]), tools=[wait])
"""


async def test_a_process_that_drains_is_alive_and_not_ready(tmp_path: Path) -> None:
    (tmp_path / "my_workers.py").write_text(WORKERS)
    os.mkfifo(tmp_path / "gate")
    options = ["--health", "127.0.0.1:0", "--log-format", "json", "--log-level", "warning"]
    async with (
        asyncio.timeout(60),
        SQLiteLog(tmp_path / "runs.db") as log,
        aiohttp.ClientSession(trust_env=False) as http,
    ):
        one = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rxworker", "work", "--log", "sqlite:runs.db"),
            *("my_workers:make_worker", *options),
            cwd=tmp_path,
            env={**os.environ, "MY_API_KEY": SECRET, "PYTHONUTF8": "1"},
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            assert one.stdout is not None
            [port] = re.findall(r"port ([0-9]+)", (await one.stdout.readline()).decode())
            assert b"8 runs at once" in await one.stdout.readline()

            async def get(path: str) -> tuple[int, str]:
                async with http.get(f"http://127.0.0.1:{port}/{path}") as response:
                    return response.status, await response.text()

            while (found := await get("readyz")) == (503, "starting\n"):
                pass
            assert found == await get("healthz") == (200, "ok\n")
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
            out, err = await one.communicate()
        finally:
            if one.returncode is None:
                one.kill()
                await one.wait()
    assert one.returncode == 0, err.decode()
    assert SECRET.encode() not in out + err
    messages = [json.loads(line) for line in err.decode().splitlines()]
    mine = [message for message in messages if message["logger"] == "my"]
    assert [message["message"] for message in mine] == ["the key is *** \x1b[31m", "it failed"]
    assert mine[1]["exception"].endswith("OSError: no ***")
    assert {message["level"] for message in messages} <= {"warning", "error"}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--health", "65536"),
        ("--health", "127.0.0.1:http"),
        ("--health", "127.0.0.1:"),
        ("--drain", "nan"),
        ("--drain", "-1"),
        ("--log-level", "loud"),
        ("--log-format", "xml"),
    ],
)
def test_a_wrong_option_is_named(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["work", "--log", "memory:", "m:make", f"{option}={value}"]) == 2
    error = capsys.readouterr().err
    assert option in error
    assert repr(value.rpartition(":")[2]) in error


def test_a_run_is_submitted_once_under_an_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = f"sqlite:{tmp_path}/runs.db"
    for _ in range(2):
        assert main(["submit", "--log", log, "--run", "order-4711", "Two seats."]) == 0
    assert capsys.readouterr().out.splitlines() == ["order-4711"] * 2
    assert main(["submit", "--log", log, "--run", "order-4711", "Three seats."]) == 1
    assert "another input" in capsys.readouterr().err
    assert main(["submit", "--log", log, "--run", "order~2", "Two seats."]) == 1
    assert "order~2" in capsys.readouterr().err
    assert main(["submit", "--log", log, "--run", "", "Two seats."]) == 1  # of an unset variable
    assert "run_id=''" in capsys.readouterr().err
    assert main(["runs", "--log", log, "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    for at in ("30d", "2999-01-04T09:00+09:00"):
        assert main(["submit", "--log", log, "--at", at, "Two seats."]) == 0
    capsys.readouterr()
    for at in ("tomorrowish", "4 weeks"):
        assert main(["submit", "--log", log, "--at", at, "Two seats."]) == 2
        assert "is not a moment, such as 2026-11-26T12:00:00, an age such as 24h" in capsys.readouterr().err
    assert main(["runs", "--log", log, "list", "--status", "queued"]) == 0
    assert "(it is due at 2999-01-04 00:00:00 UTC)" in capsys.readouterr().out.splitlines()[0]


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> list[LogError | None]:
    """How each opening of a log fails; ``None`` succeeds."""
    failures: list[LogError | None] = []

    def open_it(_: str) -> MemoryLog:
        if (error := failures.pop(0)) is not None:
            raise error
        return MemoryLog()

    monkeypatch.setattr("rxworker.log.open_log", open_it)
    monkeypatch.setattr("rxworker.cli.process.OPENING", (0.001,))
    return failures


STARTING = LogError("the database system is starting up", retryable=True)


async def test_a_log_that_is_still_starting_is_waited_for(
    openings: list[LogError | None], caplog: pytest.LogCaptureFixture
) -> None:
    openings += [STARTING, STARTING, None]
    async with await open_patiently("postgresql://db/runs"):
        assert openings == []
    assert "starting up. It is tried again in 0.001 s" in caplog.text


@pytest.mark.parametrize("error", [LogError("version 9"), ConfigurationError("no address")])
async def test_a_log_that_cannot_be_opened_is_reported_at_once(error: Any, openings: list[Any]) -> None:
    openings += [error, None]
    with pytest.raises(RxWorkerError) as caught:
        await open_patiently("postgresql://db/runs")
    assert caught.value is error
    assert openings == [None]


async def test_a_log_that_never_starts_is_given_up(
    openings: list[LogError | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rxworker.cli.process.PATIENCE", 0.005)
    openings += [STARTING] * 9
    with pytest.raises(LogError, match="starting up"):
        await open_patiently("postgresql://db/runs")
    assert len(openings) == 3
