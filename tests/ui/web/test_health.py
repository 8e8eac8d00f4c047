"""Probes of service managers and load balancers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator

import aiohttp
import pytest

from rxworker import Worker
from rxworker.errors import ConfigurationError, LogError
from rxworker.log import MemoryLog, RunInfo
from rxworker.testing import ScriptedModel
from rxworker.ui.web import Settings, WebServer
from rxworker.ui.web.health import serve_health


def make() -> Worker:
    return Worker(ScriptedModel(["Hello!"]))


async def answer(url: str, **headers: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession(trust_env=False) as http,
        http.get(url, headers=headers) as response,
    ):
        return response.status, await response.text()


@pytest.mark.parametrize("path", ["healthz", "readyz"])
async def test_probes_need_no_token_no_user_and_no_known_host(path: str) -> None:
    settings = Settings(token="a-very-secret-token-0123456789")
    async with WebServer(make, port=0, settings=settings, user=lambda _: None) as server:
        assert await answer(server.url + path, Host="10.1.2.3:8080") == (200, "ok\n")
        assert (await answer(server.url, Host="10.1.2.3:8080"))[0] == 403


async def test_a_server_is_not_ready_while_its_log_cannot_be_read(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks, failed, heals = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def changes(**_: object) -> AsyncGenerator[list[RunInfo], None]:
        if breaks.is_set() and not heals.is_set():
            failed.set()
            raise LogError("the disk is gone")
        yield []
        await breaks.wait()
        if not heals.is_set():
            raise LogError("the disk is gone")
        healed.set()
        await asyncio.Event().wait()

    healed = asyncio.Event()
    log = MemoryLog(lease=0.03)
    monkeypatch.setattr(log, "changes", changes)
    async with log, WebServer(make, port=0, log=log) as server:
        assert await answer(f"{server.url}readyz") == (200, "ok\n")
        breaks.set()
        async with asyncio.timeout(10):
            await failed.wait()
        assert await answer(f"{server.url}readyz") == (503, "the log cannot be read\n")
        assert await answer(f"{server.url}healthz") == (200, "ok\n")
        assert "the disk is gone" in caplog.text
        heals.set()
        async with asyncio.timeout(10):
            await healed.wait()
        assert await answer(f"{server.url}readyz") == (200, "ok\n")


async def test_a_server_that_closes_is_not_ready() -> None:
    async with WebServer(make, port=0) as server:
        state = server.state
        assert state.obstacle == ""
    assert state.obstacle == "closing"


async def test_a_process_without_a_server_has_probes() -> None:
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    obstacle = "starting"
    async with serve_health(port, lambda: obstacle):
        assert await answer(f"http://127.0.0.1:{port}/readyz") == (503, "starting\n")
        obstacle = ""
        assert await answer(f"http://127.0.0.1:{port}/readyz") == (200, "ok\n")
        assert await answer(f"http://127.0.0.1:{port}/healthz") == (200, "ok\n")
        with pytest.raises(ConfigurationError, match=f"port {port} cannot be used for probes"):
            async with serve_health(port, lambda: ""):
                pass
