"""The conformance suite of Durable Streams, and its official clients."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rxworker.log import EventLog, MemoryLog, SQLiteLog
from rxworker.transport.listening import stop_listening
from rxworker.ui.web.durable import StreamTiming
from tests.integration.durable.server import WritableStreams

FOLDER = Path(__file__).parent / "durable"
TIMING = StreamTiming(long_poll=2.0, events=30.0)


@pytest.fixture
def node() -> str:
    """The command of node, with the packages."""
    found = shutil.which("node")
    missing = ""
    if found is None:
        missing = "the clients of Durable Streams need node, which is not installed"
    elif not (FOLDER / "node_modules" / "vitest").exists():
        missing = "the packages are not installed: npm install --no-package-lock --prefix tests/integration/durable"
    if missing and os.environ.get("RXWORKER_REQUIRE_ALL") == "1":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    return str(found)


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[EventLog, None]:
    opened = SQLiteLog(tmp_path / "runs.db") if request.param == "sqlite" else MemoryLog()
    async with opened:
        yield opened


@asynccontextmanager
async def served(app: web.Application) -> AsyncGenerator[str, None]:
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(runner.server, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        await stop_listening(server)
        await runner.cleanup()


async def run_node(node: str, *command: str, **environment: str) -> tuple[int | None, str]:
    """The exit code and the output of a program of node."""
    process = await asyncio.create_subprocess_exec(
        node,
        *command,
        cwd=FOLDER,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, output.decode()


@pytest.mark.timeout(600)
async def test_the_conformance_suite_passes(node: str, log: EventLog, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    async with served(WritableStreams(log, TIMING).app()) as url:
        _, output = await run_node(
            node,
            "node_modules/vitest/vitest.mjs",
            "run",
            "conformance.test.mjs",
            "--reporter=json",
            f"--outputFile={report}",
            DURABLE_URL=url,
            LONG_POLL_MS=str(round(TIMING.long_poll * 1000)),
        )
    assert report.exists(), output
    found: dict[str, Any] = json.loads(report.read_text())
    failed = [
        (test["fullName"], test["failureMessages"][0][:500])
        for file in found["testResults"]
        for test in file["assertionResults"]
        if test["status"] == "failed"
    ]
    assert failed == []
    assert found["numPassedTests"] >= 332
    assert found["numTotalTests"] - found["numPassedTests"] <= 6  # subscriptions, off by default
