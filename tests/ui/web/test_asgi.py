"""What ASGI adds: mounting, its lifespan, clients that leave, and what other servers ask for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import django
import pytest
from django import conf
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from rxworker import Worker
from rxworker.adapters.asgi import AsgiApp, Message, Scope
from rxworker.errors import ConfigurationError, LogError
from rxworker.log import MemoryLog
from rxworker.testing import ScriptedModel, say, stall
from rxworker.ui.web import Settings
from rxworker.ui.web.state import ServerState

from .conftest import ServeAsgi

TOKEN = "a-very-secret-token-0123456789"


def make_worker() -> Worker:
    return Worker(ScriptedModel([say("Hello!")]))


def make_stalled() -> Worker:
    return Worker(ScriptedModel([say("Hello") + stall()]))


@asynccontextmanager
async def client(url: str) -> AsyncGenerator[aiohttp.ClientSession, None]:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(url, trust_env=False, cookie_jar=jar) as http:
        yield http


def hello(_: HttpRequest) -> HttpResponse:
    """A view of Django."""
    return HttpResponse(b"hello")


urlpatterns = [path("hello/", hello)]


def django_site(desk: AsgiApp) -> Any:
    """A Django project, with the desk below ``/desk``, as the how-to page has it."""
    if not conf.settings.configured:  # Django takes one configuration in a process
        cast("Any", conf.settings).configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"])
        django.setup()
    site: Any = get_asgi_application()

    async def application(scope: Scope, receive: Any, send: Any) -> None:
        if scope.get("path", "").startswith("/desk/"):
            await desk({**scope, "root_path": "/desk"}, receive, send)
        elif scope["type"] == "http":
            await site(scope, receive, send)

    return application


@pytest.mark.parametrize("framework", ["fastapi", "starlette", "django"])
async def test_it_is_mounted(framework: str, in_uvicorn: ServeAsgi) -> None:
    desk = AsgiApp(make_worker, settings=Settings(token=TOKEN))
    if framework == "fastapi":
        site: Any = FastAPI(lifespan=desk.lifespan)
        site.mount("/desk", desk)
    elif framework == "starlette":
        site = Starlette(routes=[Mount("/desk", desk)], lifespan=desk.lifespan)
    else:
        site = django_site(desk)
    async with in_uvicorn(site) as url, client(url) as http:
        async with http.get("/desk/", params={"token": TOKEN}) as answer:
            assert (answer.status, str(answer.url)) == (200, f"{url}desk/")
            assert "<title>" in await answer.text()
        assert [cookie["path"] for cookie in http.cookie_jar] == ["/desk/"]
        async with http.post("/desk/api/runs", json={"input": "hi"}) as answer:
            run = (await answer.json())["id"]
        async with http.get(f"/desk/api/runs/{run}/events") as answer:
            assert "event: end" in await answer.text()
        async with http.ws_connect("/desk/api/ws") as socket:
            await socket.send_json({"type": "watch", "run": run, "after": 0})
            assert (await socket.receive_json())["type"] == "hello"
            assert (await socket.receive_json())["run"] == run
        async with http.get("/desk/api/runs/no") as answer:
            assert (await answer.json())["error"]["code"] == "no_run"
        if framework == "django":
            async with http.get("/hello/") as answer:
                assert await answer.text() == "hello"


async def test_a_client_that_leaves_frees_its_place(in_uvicorn: ServeAsgi) -> None:
    desk = AsgiApp(make_stalled)
    async with in_uvicorn(desk) as url, client(url) as http:
        async with http.post("/api/runs", json={"input": "hi"}) as answer:
            run = (await answer.json())["id"]
        taken: list[int] = []
        async with http.get(f"/api/runs/{run}/events") as answer:
            assert await answer.content.readline()
            taken.append(desk.state.streams.taken)
        async with http.ws_connect("/api/ws") as socket:
            await socket.receive_json()
            await socket.send_json({"type": "list"})
            while True:
                runs = (await socket.receive_json())["runs"]
                if not runs[0]["watchers"]:
                    break
        assert taken == [1]


async def test_a_refused_socket_gets_the_reason(in_uvicorn: ServeAsgi) -> None:
    desk = AsgiApp(make_worker, settings=Settings(token=TOKEN))
    async with in_uvicorn(desk) as url, client(url) as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect("/api/ws")
        assert refused.value.status == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect("/api/runs", headers=headers)
        assert refused.value.status == 400
        async with http.get("/api/ws", headers=headers) as answer:
            assert (await answer.json())["error"]["code"] == "no_websocket"


async def test_a_message_that_is_too_large_ends_the_socket(in_uvicorn: ServeAsgi) -> None:
    desk = AsgiApp(make_worker)
    async with in_uvicorn(desk) as url, client(url) as http, http.ws_connect("/api/ws") as socket:
        await socket.receive_json()
        await socket.send_str("x" * 20_000)
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1009


async def test_a_lifespan_that_fails_is_reported() -> None:
    log = MemoryLog()
    await log.close()
    sent = await talk(AsgiApp(make_worker, log=log), {"type": "lifespan"}, "lifespan.startup")
    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]
    assert "closed" in sent[0]["message"]


async def test_it_starts_with_its_first_request_unless_it_was_started() -> None:
    desk = AsgiApp(make_worker)
    assert desk.state.obstacle == "starting"
    sent = await talk(desk, scope_of("/readyz"), "http.request")
    assert sent[0]["status"] == 200
    await desk.close()
    sent = await talk(desk, scope_of("/readyz"), "http.request")
    assert (sent[0]["status"], sent[1]["body"]) == (503, b"closing\n")


async def test_a_start_that_failed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: ServerState) -> None:
        raise LogError("the database is away")

    desk = AsgiApp(make_worker)
    with monkeypatch.context() as patched:
        patched.setattr(ServerState, "start", fails)
        with pytest.raises(LogError):
            await talk(desk, scope_of("/readyz"), "http.request")
    assert (await talk(desk, scope_of("/readyz"), "http.request"))[0]["status"] == 200
    await desk.close()


async def test_a_large_answer_is_sent_in_pieces_and_not_to_a_client_that_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server waits in ``send`` until its client has read. A slow one needs time for each piece, not for all."""
    monkeypatch.setattr("rxworker.adapters.asgi.PIECE", 1000)
    desk = AsgiApp(make_worker, settings=Settings(stall_seconds=0.01))
    sent = await talk(desk, scope_of("/static/main.js"), "http.request")
    sizes = [len(message["body"]) for message in sent[1:]]
    assert sum(sizes) == int(dict(sent[0]["headers"])[b"content-length"])
    assert len(sizes) > 1
    assert max(sizes) == 1000
    assert [message["more_body"] for message in sent[1:]] == [True] * (len(sizes) - 1) + [False]

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    await desk(scope_of("/"), receive, send)
    await desk.close()


async def test_a_server_without_extensions_closes_a_refused_socket() -> None:
    scope = {**scope_of("/api/ws", "websocket"), "headers": [(b"host", b"evil.com")]}
    (sent,) = await talk(AsgiApp(make_worker), scope, "websocket.connect")
    assert (sent["type"], sent["code"]) == ("websocket.close", 1008)


async def test_an_unknown_kind_of_connection_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'smtp'"):
        await talk(AsgiApp(make_worker), {"type": "smtp"}, "smtp.connect")


async def test_a_body_that_is_cut_off_is_not_an_error_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    scope = scope_of("/api/runs", method="POST")
    sent = await talk(AsgiApp(make_worker), scope, "http.disconnect")
    assert (sent, caplog.record_tuples) == ([], [])


async def test_a_client_that_reads_nothing_is_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    desk = AsgiApp(make_stalled, settings=Settings(stall_seconds=0.01))
    run = desk.state.runs.start("hi")
    begun = asyncio.Event()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            begun.set()
            await asyncio.Event().wait()

    async def receive() -> Message:
        await asyncio.Event().wait()
        return {}

    await desk(scope_of(f"/api/runs/{run.id}/events"), receive, send)
    assert begun.is_set()
    assert desk.state.streams.taken == 0
    await desk.close()


def test_what_it_is_given_is_checked() -> None:
    with pytest.raises(ConfigurationError, match="user is 1"):
        AsgiApp(make_worker, user=1)  # pyright: ignore[reportArgumentType]
    assert TOKEN not in repr(AsgiApp(make_worker, settings=Settings(token=TOKEN)))


def scope_of(path: str, kind: str = "http", method: str = "GET") -> Scope:
    """The scope of a request."""
    scope: Scope = {"type": kind, "path": path, "headers": [(b"host", b"localhost")]}
    return {**scope, "method": method} if kind == "http" else scope


async def talk(app: AsgiApp, scope: Scope, *messages: str) -> list[Message]:
    """What an application sends for these messages."""
    waiting = [{"type": kind} for kind in messages]
    sent: list[Message] = []

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent
