"""One fleet: programs of several libraries in one log, on one page and one dashboard, killed and restarted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rxworker.log import EventLog, SQLiteLog
from rxworker.testing import ReplayServer
from tests.tap.peers import ROOT, python_of
from tests.tap.sessions import CLAUDE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")

OURS = """
from rxworker import Worker
from rxworker.testing import ScriptedModel, say

def make_clerk():
    return Worker(ScriptedModel([say("At your service.")]))
"""
CUT = 17
"""The lines of the session that are there when the server is killed, within a sub-agent."""


class Fleet:
    """A server that taps, and what else writes into its log."""

    def __init__(self, folder: Path, service: str, http: aiohttp.ClientSession) -> None:
        self.folder, self.service, self.http = folder, service, http
        self.address = f"sqlite:{folder / 'runs.db'}"
        self.url = self.proxy = ""
        self.process: Process | None = None

    async def start(self) -> None:
        """Start the server: one command."""
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rxworker", "serve", "my_workers:make_clerk", "--port", "0"),
            *("--log", self.address, "--dashboard", "rxworker.panels:SOURCES", "--tap", "claude-code sessions"),
            *("--tap", f"proxy --to {self.service} --listen 0"),
            cwd=self.folder,
            env={**os.environ, "PYTHONUTF8": "1"},
            stdout=PIPE,
        )
        lines = [await self.line() for _ in range(5)]
        self.url = lines[0].removeprefix("rxworker serves ")
        self.proxy = lines[-1].partition("set ")[2].partition(" as")[0]

    async def line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()

    async def stop(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        await self.process.wait()

    def write(self, lines: list[dict[str, Any]]) -> None:
        with (self.folder / "sessions" / "s.jsonl").open("a") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)

    async def program(self, name: str) -> dict[str, Any]:
        """Run the program of a library in its environment: the figures that it has itself."""
        process = await asyncio.create_subprocess_exec(
            *(python_of(name), "-W", "ignore", "-m", "tests.tap.in_log", name, self.address),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=PIPE,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        return json.loads(out.splitlines()[-1])

    async def ask(self, *texts: str) -> None:
        """Send a request of a conversation through the proxy."""
        roles = ("user", "assistant")
        messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
        body = {"model": "m-1", "max_tokens": 9, "messages": messages}
        async with self.http.post(f"{self.proxy}/v1/messages", json=body, headers={"x-api-key": "sk-secret"}) as answer:
            assert answer.status == 200
            await answer.read()

    async def board(self, headers: dict[str, str] | None = None) -> dict[str, Any]:
        async with self.http.get(f"{self.url}api/boards/sources", headers=headers) as answer:
            return {each["panel"]: each for each in await answer.json()}


async def until_over(log: EventLog, worker: str, number: int) -> None:
    async for _ in log.changes(limit=0):
        over = [
            each for each in await log.list() if each.row.worker == worker and each.status not in ("running", "queued")
        ]
        if len(over) >= number:
            return


@pytest.mark.timeout(900)
async def test_programs_of_several_libraries_are_one_fleet(tmp_path: Path) -> None:
    (tmp_path / "my_workers.py").write_text(OURS)
    (tmp_path / "sessions").mkdir()
    async with (
        asyncio.timeout(800),
        aiohttp.ClientSession(trust_env=False) as http,
        SQLiteLog(tmp_path / "runs.db") as log,
    ):
        with ReplayServer(["Hello."] * 3) as service:
            fleet = Fleet(tmp_path, service.base_url.rstrip("/"), http)
            await fleet.start()
            fleet.write(CLAUDE[:CUT])
            await fleet.ask("Hi")
            own = {f"tap:{name}": await fleet.program(name) for name in ("pydantic_ai", "langgraph")}
            await until_over(log, "tap:claude-code", 1)
            await until_over(log, "tap:proxy", 1)
            await fleet.stop(signal.SIGKILL)
            await fleet.start()
            fleet.write(CLAUDE[CUT:])
            await fleet.ask("Hi", "Hello.", "And?")
            async with http.post(fleet.url + "api/runs", json={"input": "Good morning"}) as answer:
                assert answer.status < 300
            await until_over(log, "tap:claude-code", 4)
            await until_over(log, "tap:proxy", 2)
            await until_over(log, "clerk", 1)
            await check(fleet, own, log)
            await fleet.stop(signal.SIGTERM)
        assert b"sk-secret" not in (tmp_path / "runs.db").read_bytes()


async def check(fleet: Fleet, own: dict[str, dict[str, Any]], log: EventLog) -> None:
    """What the dashboard shows is what each program says itself, and what the log has."""
    rows = [each.row for each in await log.list()]
    for name, figures in own.items():
        [row] = [each for each in rows if each.worker == name]
        assert (row.status, row.tool_calls, row.tool_errors) == ("finished", len(figures["calls"]), 1), name
        assert (row.input_tokens, row.output_tokens) == (figures["input"], figures["output"]), name
    responses = {
        each["message"]["id"]: each["message"]["usage"]
        for each in CLAUDE
        if each["type"] == "assistant" and "isApiErrorMessage" not in each
    }
    taken = dict.fromkeys({row.worker for row in rows}, 0)
    for row in rows:
        taken[row.worker] += row.input_tokens + row.output_tokens
    counted = sum(sum(usage.values()) for usage in responses.values())
    assert taken["tap:claude-code"] == counted, [
        (each.title, each.status, each.reason[:40], each.turns, each.input_tokens)
        for each in rows
        if each.worker == "tap:claude-code"
    ]
    board = await fleet.board()
    while board["tokens"]["value"] != taken:  # it follows the log
        board = await fleet.board()
    runs = {"tap:claude-code": 5, "tap:proxy": 2, "tap:pydantic_ai": 1, "tap:langgraph": 1, "clerk": 1}
    assert board["runs"]["value"] == runs
    assert board["failed"]["alerts"].keys() == {"tap:claude-code"}
    async with fleet.http.post(fleet.url + "api/links", json={"board": "sources"}) as answer:
        link = await answer.json()
    shared = await fleet.board({"authorization": f"Bearer {link['token']}"})
    assert shared["tokens"]["value"] == taken
