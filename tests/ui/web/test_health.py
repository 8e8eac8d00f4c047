"""Probes of service managers and load balancers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from rxworker import Run, Worker
from rxworker.errors import ConfigurationError, LogError
from rxworker.log import EventLog, MemoryLog, RunInfo
from rxworker.testing import ScriptedModel
from rxworker.ui.web import STATE, Settings, WebRequest, WebServer, make_app, state
from rxworker.ui.web.boards import fleet
from rxworker.ui.web.http import responses
from rxworker.ui.web.server import serve_health

READY = (200, "ok\n")
CLOSING = (503, "closing\n")
FAILED = (503, "the log cannot be read\n")


def make() -> Worker:
    return Worker(ScriptedModel(["Hello!"]))


def no_user(_: WebRequest) -> str | None:
    return None


@asynccontextmanager
async def client() -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with asyncio.timeout(60), aiohttp.ClientSession(trust_env=False) as http:
        yield http


async def get(http: aiohttp.ClientSession, url: str, **headers: str) -> tuple[int, str]:
    async with http.get(url, headers=headers) as response:
        assert (response.content_type, response.headers["Server"]) == ("text/plain", "rxworker")
        return response.status, await response.text()


@pytest.mark.parametrize("path", ["healthz", "readyz"])
@pytest.mark.parametrize("options", [{"settings": Settings(token="a-very-secret-token-0123456789")}, {"user": no_user}])
@pytest.mark.parametrize("has_log", [False, True])
async def test_a_probe_needs_no_token_no_user_and_no_known_host(
    path: str, options: dict[str, Any], has_log: bool
) -> None:
    log = MemoryLog() if has_log else None
    async with WebServer(make, port=0, log=log, **options) as server, client() as http:
        for host in ("10.1.2.3:8080", "evil.example"):
            assert await get(http, server.url + path, Host=host) == READY
        async with http.get(f"{server.url}api/runs", headers={"Host": "evil.example"}) as refused:
            assert refused.status == 403
        async with http.post(server.url + path) as wrong:
            assert wrong.status in (401, 405)


async def test_a_mounted_server_has_probes_of_its_own() -> None:
    desk, app = make_app(make, user=no_user), web.Application()
    app.add_subapp("/desk/", desk)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    async with client() as http:
        url = f"http://{host}:{port}/desk/readyz"
        assert await get(http, url) == READY
        desk[STATE].begin_close()
        assert await get(http, url) == CLOSING
    await runner.cleanup()


async def test_a_server_is_ready_when_it_has_started_and_until_it_stops() -> None:
    app = make_app(make)
    assert app[STATE].obstacle == "starting"
    runner = web.AppRunner(app)
    await runner.setup()
    assert app[STATE].obstacle == ""
    await runner.cleanup()
    assert app[STATE].obstacle == "closing"


async def test_with_a_delay_a_server_that_stops_serves_and_is_not_ready() -> None:
    server = WebServer(make, port=0, settings=Settings(close_delay=60))
    async with client() as http:
        await server.__aenter__()
        closing = asyncio.create_task(server.__aexit__(None, None, None))
        try:
            while (found := await get(http, f"{server.url}readyz")) == READY:
                pass
            assert found == CLOSING
            assert await get(http, f"{server.url}healthz") == READY
            async with http.post(f"{server.url}api/runs", json={"input": "Hi"}) as response:
                assert response.status == 201
        finally:
            closing.cancel()
            await asyncio.wait([closing])
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(http, f"{server.url}readyz")


@pytest.mark.parametrize("delay", [-1.0, float("nan"), float("inf")])
def test_the_delay_is_a_number_of_seconds(delay: float) -> None:
    with pytest.raises(ConfigurationError, match="close_delay"):
        Settings(close_delay=delay)


@pytest.mark.parametrize("error", [LogError("the disk is gone"), KeyError("the disk is gone")])
async def test_a_server_that_cannot_follow_its_log_is_not_ready_and_tries_again(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog(lease=0.1)
    is_broken, changes_of = False, log.changes
    begun: list[float] = []

    async def changes(*, limit: int | None) -> AsyncGenerator[list[RunInfo], None]:
        begun.append(asyncio.get_running_loop().time())
        async with aclosing(changes_of(limit=limit)) as found:
            async for infos in found:
                if is_broken:
                    raise error
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
        assert "the disk is gone" in caplog.text
        del begun[:]
        while len(begun) < 3:
            assert await get(http, f"{server.url}readyz") == FAILED
        assert begun[2] - begun[0] > 2 * log.lease / 3 - 0.02
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


async def test_runs_are_recovered_again_after_a_defect(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Queue[None]()

    async def fail(*_: object) -> AsyncGenerator[Run[object], None]:
        begun.put_nowait(None)
        raise KeyError("a defect")
        yield

    monkeypatch.setattr(state, "recover_all", fail)
    log: EventLog = MemoryLog(lease=0.03)
    async with log, WebServer(make, port=0, log=log), asyncio.timeout(60):
        await begun.get()
        await begun.get()
    assert "a defect" in caplog.text


async def test_the_probes_of_a_process_without_a_web_server() -> None:
    obstacle = ""
    async with client() as http, serve_health("127.0.0.1", 0, lambda: obstacle) as port:
        url = f"http://127.0.0.1:{port}/"
        assert await get(http, f"{url}readyz") == READY
        obstacle = "closing"
        assert await get(http, f"{url}readyz") == CLOSING
        assert await get(http, f"{url}healthz") == READY
        assert (await get(http, url))[0] == 404
        with pytest.raises(ConfigurationError, match="is in use"):
            async with serve_health("127.0.0.1", port, lambda: obstacle):
                pass


async def test_probes_without_a_host_are_served_at_all_addresses() -> None:
    async with client() as http, serve_health(None, 0, lambda: "") as port:
        # Each family has a port of its own if any free one may be taken.
        hosts = ("127.0.0.1", "[::1]")
        found = await asyncio.gather(
            *(get(http, f"http://{host}:{port}/readyz") for host in hosts), return_exceptions=True
        )
        assert READY in found


class _Silent:
    """In place of a method of a log: it does not answer any more."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, *_: object, **__: object) -> Any:
        self.calls += 1
        await asyncio.Event().wait()


async def _refuse(*_: object, **__: object) -> Any:
    raise LogError("connection refused")


async def test_a_server_whose_log_does_not_answer_is_not_ready_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows the log does not notice that for as long as the system tries the connection."""
    monkeypatch.setattr(responses, "PATIENCE", 0.05)
    async with MemoryLog() as log, WebServer(make, port=0, log=log) as server, client() as http:
        url = f"{server.url}readyz"
        assert await get(http, url) == READY
        silent = _Silent()
        monkeypatch.setattr(log, "_info", silent)
        async with asyncio.timeout(5):
            assert await asyncio.gather(*(get(http, url) for _ in range(5))) == [FAILED] * 5
        assert silent.calls == 1  # all probes share one request
        assert await get(http, f"{server.url}healthz") == READY


async def test_a_server_whose_log_refuses_is_not_ready_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MemoryLog() as log, WebServer(make, port=0, log=log) as server, client() as http:
        url = f"{server.url}readyz"
        answers = log._info
        monkeypatch.setattr(log, "_info", _refuse)
        assert await get(http, url) == FAILED
        monkeypatch.setattr(log, "_info", answers)
        assert await get(http, url) == READY


async def test_a_process_without_a_web_server_queries_its_log_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MemoryLog() as log, client() as http, serve_health("127.0.0.1", 0, lambda: "", lambda: log) as port:
        assert await get(http, f"http://127.0.0.1:{port}/readyz") == READY
        monkeypatch.setattr(log, "_info", _refuse)
        assert await get(http, f"http://127.0.0.1:{port}/readyz") == FAILED


@pytest.mark.parametrize("path", ["api/fleet", "metrics"])
async def test_all_runs_of_a_log_that_does_not_answer_are_an_error_in_bounded_time(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(fleet, "PATIENCE", 0.05)
    async with MemoryLog() as log, WebServer(make, port=0, log=log) as server, client() as http:
        answers = log._list
        monkeypatch.setattr(log, "_list", _Silent())
        async with asyncio.timeout(5), http.get(f"{server.url}{path}") as response:
            assert response.status == 503
        monkeypatch.setattr(log, "_list", answers)
