"""The conformance suite of Durable Streams, and its official clients."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from aiohttp import web

from rxworker import Run, Worker, tool
from rxworker.log import EventLog, MemoryLog, SQLiteLog
from rxworker.protocols import decode_record
from rxworker.state import fold_run
from rxworker.testing import ScriptedModel, call, say
from rxworker.transport.listening import stop_listening
from rxworker.ui.web import WebServer
from rxworker.ui.web.streams import durable
from tests.integration.durable.server import WritableStreams
from tests.integration.npm import node_with
from tests.whole import IS_WHOLE

FOLDER = Path(__file__).parent / "durable"


@pytest.fixture
def node() -> str:
    return node_with(FOLDER, "vitest")[0]


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


@asynccontextmanager
async def live_run(log: EventLog) -> AsyncGenerator[tuple[str, asyncio.Event, Run[object]], None]:
    """The address of the stream of a run that goes on when the event is set."""
    gate = asyncio.Event()

    @tool(effect="idempotent")
    async def wait() -> str:
        """Wait for the test."""
        await gate.wait()
        return "waited"

    def make() -> Worker:
        return Worker(ScriptedModel([say("One moment.") + call("wait"), say("Done.")]), tools=[wait])

    async with WebServer(make, port=0, log=log) as server:
        entry = server.state.runs.start("Go")
        assert entry.here is not None
        yield f"{server.url}runs/{entry.id}/stream", gate, entry.here


def check(items: list[Any], run: Run[object]) -> None:
    """Each record once, live ones too."""
    records = [decode_record(json.dumps(item).encode()) for item in items]
    assert [record.seq for record in records] == list(range(1, run.last_seq + 1))
    assert fold_run(records).conversation == run.state.conversation


@pytest.mark.parametrize("live", ["long-poll", "sse"])
async def test_the_client_for_typescript_reads_a_live_run(node: str, log: EventLog, live: str) -> None:
    async with live_run(log) as (url, gate, run):
        process = await asyncio.create_subprocess_exec(
            node, "read.mjs", url, live, cwd=FOLDER, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        items = [json.loads(await process.stdout.readline())]
        gate.set()
        items += [json.loads(line) async for line in process.stdout]
        assert await process.wait() == 0
        check(items, run)


@pytest.mark.parametrize("live", ["long-poll", "sse"])
async def test_the_client_for_python_reads_a_live_run(log: EventLog, live: Literal["long-poll", "sse"]) -> None:
    client = pytest.importorskip("durable_streams", reason="durable-streams, the client for Python, is not installed")
    async with live_run(log) as (url, gate, run):
        items: list[Any] = []
        async with client.astream(url, offset="-1", live=live) as response:
            async for item in response.iter_json():
                items.append(item)
                gate.set()
                # This client, version 0.1.0, does not know that a stream may be closed.
                if item["event"]["type"] == "run_stop":
                    break
        check(items, run)


async def conformance(node: str, log: EventLog, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "LONG_POLL", 2.0)
        patch.setattr(durable, "EVENTS", 30.0)
        async with served(WritableStreams(log).app()) as url:
            _, output = await run_node(
                node,
                "node_modules/vitest/vitest.mjs",
                "run",
                "conformance.test.mjs",
                "--reporter=json",
                f"--outputFile={report}",
                DURABLE_URL=url,
                LONG_POLL_MS="2000",
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


# It waits for long polls half a minute, for each store.
if IS_WHOLE:

    @pytest.mark.timeout(600)
    async def test_the_conformance_suite_passes(node: str, log: EventLog, tmp_path: Path) -> None:
        await conformance(node, log, tmp_path)
