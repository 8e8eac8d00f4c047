"""The addresses for probes: without a token, a user or a known host, and what they report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from rxworker import Worker
from rxworker.errors import ConfigurationError, LogError
from rxworker.log import MemoryLog, RunInfo
from rxworker.testing import ScriptedModel
from rxworker.ui.web import STATE, Settings, WebServer, make_app
from rxworker.ui.web.server import serve_health

TOKEN = "a-very-secret-token-0123456789"
READY = (200, "ok\n")
FAILED = (503, "the log cannot be read\n")


def make() -> Worker:
    return Worker(ScriptedModel(["Hello!"]))


def no_user(_: web.Request) -> str | None:
    return None


@asynccontextmanager
async def client() -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with asyncio.timeout(30), aiohttp.ClientSession(trust_env=False) as http:
        yield http


async def get(http: aiohttp.ClientSession, url: str, **options: Any) -> tuple[int, str]:
    async with http.get(url, **options) as response:
        assert response.content_type == "text/plain"
        return response.status, await response.text()


@pytest.mark.parametrize("path", ["healthz", "readyz"])
@pytest.mark.parametrize("options", [{"settings": Settings(token=TOKEN)}, {"user": no_user}])
@pytest.mark.parametrize("has_log", [False, True])
async def test_a_probe_needs_no_token_no_user_and_no_known_host(
    path: str, options: dict[str, Any], has_log: bool
) -> None:
    log = MemoryLog() if has_log else None
    async with WebServer(make, port=0, log=log, **options) as server, client() as http:
        for headers in ({}, {"Host": "10.1.2.3:8080"}, {"Host": "evil.example"}):
            assert await get(http, server.url + path, headers=headers) == READY
        async with http.get(f"{server.url}api/runs", headers={"Host": "evil.example"}) as refused:
            assert refused.status == 403
        async with http.post(server.url + path) as wrong:
            assert wrong.status in (401, 405)


async def test_a_server_is_ready_when_it_has_started_and_until_it_stops() -> None:
    app = make_app(make)
    assert app[STATE].problem == "starting"
    runner = web.AppRunner(app)
    await runner.setup()
    assert app[STATE].problem == ""
    await runner.cleanup()
    assert app[STATE].problem == "closing"


async def test_with_a_delay_a_server_that_stops_serves_and_is_not_ready() -> None:
    server = WebServer(make, port=0, settings=Settings(close_delay=60))
    async with client() as http:
        await server.__aenter__()
        closing = asyncio.create_task(server.__aexit__(None, None, None))
        try:
            while (found := await get(http, f"{server.url}readyz")) == READY:
                pass
            assert found == (503, "closing\n")
            assert await get(http, f"{server.url}healthz") == READY
            async with http.post(f"{server.url}api/runs", json={"input": "Hi"}) as response:
                assert response.status == 201
        finally:
            closing.cancel()
            await asyncio.wait([closing])
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(http, f"{server.url}readyz")


async def test_a_server_that_cannot_follow_its_log_is_not_ready_and_tries_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog(lease=0.1)
    is_broken, changes_of = False, log.changes

    async def changes(*, limit: int | None) -> AsyncGenerator[list[RunInfo], None]:
        async for infos in changes_of(limit=limit):
            if is_broken:
                raise LogError("the disk is gone")
            yield infos

    monkeypatch.setattr(log, "changes", changes)
    async with log, WebServer(make, port=0, log=log) as server, client() as http:
        assert await get(http, f"{server.url}readyz") == READY
        is_broken = True
        await log.claim("run-1", create=True)
        while (found := await get(http, f"{server.url}readyz")) == READY:
            pass
        assert found == FAILED
        assert await get(http, f"{server.url}healthz") == READY
        assert "the log cannot be followed" in caplog.text
        assert "the disk is gone" in caplog.text
        await log.claim("run-2", create=True)
        is_broken = False
        while (found := await get(http, f"{server.url}readyz")) == FAILED:
            pass
        assert found == READY
        # What has changed meanwhile is not missing.
        assert {entry.id for entry in server.state.runs} == {"run-1", "run-2"}


async def test_a_server_whose_log_was_closed_is_not_ready() -> None:
    log = MemoryLog()
    async with WebServer(make, port=0, log=log) as server, client() as http:
        await log.close()
        while (found := await get(http, f"{server.url}readyz")) == READY:
            pass
        assert found == FAILED


@pytest.mark.parametrize("delay", [-1.0, float("nan"), float("inf")])
def test_the_delay_is_a_number_of_seconds(delay: float) -> None:
    with pytest.raises(ConfigurationError, match="close_delay"):
        Settings(close_delay=delay)


async def test_the_health_of_a_process_that_serves_nothing_else() -> None:
    problem = ""
    async with client() as http, serve_health(0, lambda: problem) as port:
        url = f"http://127.0.0.1:{port}/"
        assert await get(http, f"{url}readyz") == READY
        problem = "closing"
        assert await get(http, f"{url}readyz") == (503, "closing\n")
        assert await get(http, f"{url}healthz") == READY
        assert (await get(http, url))[0] == 404
        with pytest.raises(ConfigurationError, match="is in use"):
            async with serve_health(port, lambda: problem):
                pass
