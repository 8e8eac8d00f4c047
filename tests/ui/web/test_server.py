"""The server as a whole: where it listens, how it is mounted, how it ends."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from reactivex import operators as ops

from rxworker import Run, Worker
from rxworker.errors import ConfigurationError
from rxworker.events import Event, TextDelta
from rxworker.hub import WatcherState
from rxworker.log import MemoryLog
from rxworker.testing import ReplayServer, ScriptedModel, fail, say, stall
from rxworker.ui.web import STATE, Settings, WebServer, make_app, serve
from rxworker.worker import session_of

from .conftest import OpenDesk

TOKEN = "a-very-secret-token-0123456789"
KEY = "sk-ant-very-secret-0123456789"


def stalling() -> Worker:
    return Worker(ScriptedModel([say("...") + stall()]))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.com", ""])
def test_other_machines_are_let_in_only_with_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match="token"):
        WebServer(stalling, host=host)


async def test_with_a_token_it_listens_everywhere_and_goes_by_any_address() -> None:
    async with (
        WebServer(stalling, host="0.0.0.0", port=0, settings=Settings(token=TOKEN)) as server,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
    ):
        port = server.url.rstrip("/").rpartition(":")[2]
        url = f"http://127.0.0.1:{port}/api/runs"
        for host, status in (("10.1.2.3:80", 200), ("[fd00::1]", 200), ("evil.com", 403)):
            async with http.get(url, headers={"Host": host}) as response:
                assert response.status == status, host


def test_settings_that_make_no_sense_are_refused() -> None:
    bad: list[dict[str, Any]] = [
        {"token": "short"},
        {"max_runs": 0},
        {"heartbeat": 0.0},
        {"allowed_hosts": "localhost"},
        {"allowed_hosts": ("10.0.0.1/8",)},
    ]
    for settings in bad:
        with pytest.raises(ConfigurationError):
            Settings(**settings)


def test_values_that_are_not_workers_are_refused() -> None:
    bad: list[Any] = [{}, {"a": None}, None, 3]
    for workers in bad:
        with pytest.raises(ConfigurationError, match="worker"):
            make_app(workers)


async def test_a_port_that_is_taken_is_reported_and_is_free_again_at_once() -> None:
    async with WebServer(stalling, port=0) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        with pytest.raises(ConfigurationError, match=f"port {port} .* is in use"):
            await serve(stalling, port=port)
    async with WebServer(stalling, port=port) as again:
        assert again.url == server.url


async def test_serving_goes_on_until_it_is_cancelled() -> None:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(stalling, port=0, ready=ready.set_result))
    url = await ready
    async with aiohttp.ClientSession() as http, http.get(url + "api/info") as response:
        assert response.status == 200
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_several_workers_go_by_their_names() -> None:
    def named(text: str) -> Worker:
        return Worker(ScriptedModel([text]))

    workers = {"one": lambda: named("1"), "two": lambda: named("2")}
    async with WebServer(workers, port=0) as server, aiohttp.ClientSession() as http:
        async with http.get(server.url + "api/info") as response:
            infos = (await response.json())["workers"]
        assert [info["name"] for info in infos] == ["one", "two"]
        for body, name in (({}, "one"), ({"worker": "two"}, "two")):
            async with http.post(server.url + "api/runs", json={"input": "a", **body}) as response:
                assert (await response.json())["worker"] == name


async def test_it_works_within_another_application() -> None:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    outer = web.Application(client_max_size=10)
    outer.router.add_get("/", hello)
    settings = Settings(token=TOKEN)
    outer.add_subapp("/desk/", make_app(lambda: Worker(ScriptedModel(["Hi!"])), settings=settings))
    runner = web.AppRunner(outer, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    root = f"http://127.0.0.1:{runner.addresses[0][1]}"
    url = f"{root}/desk/"
    jar = aiohttp.CookieJar(unsafe=True)
    try:
        async with aiohttp.ClientSession(cookie_jar=jar) as http:
            async with http.get(f"{root}/") as response:
                assert await response.text() == "hello"
                assert "Content-Security-Policy" not in response.headers
            async with http.get(f"{url}nothing") as response:
                assert response.status == 401
                assert "Content-Security-Policy" in response.headers
            async with http.get(f"{url}?token={TOKEN}") as response:
                assert (response.status, str(response.url)) == (200, url)
                assert response.history[0].cookies.popitem()[1]["path"] == "/desk/"
            async with http.get(f"{url}nothing") as response:
                assert (await response.json())["error"]["code"] == "not_found"
            async with http.get(f"{url}static/main.js") as response:
                assert response.status == 200
            async with http.post(f"{url}api/runs", json={"input": "x" * 100}) as response:
                assert response.status == 201
                run = (await response.json())["id"]
            async with http.get(f"{url}api/runs/{run}/events") as response:
                assert "event: end" in await response.text()
    finally:
        await runner.cleanup()


async def test_a_client_that_left_is_noticed_where_the_application_does_not_report_it() -> None:
    app = make_app(stalling, settings=Settings(heartbeat=0.02))
    runner = web.AppRunner(app, access_log=None, handler_cancellation=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/api/runs"
    try:
        async with aiohttp.ClientSession() as http:
            async with http.post(url, json={"input": "a"}) as response:
                run = (await response.json())["id"]
            events = await http.get(f"{url}/{run}/events")
            await events.content.readline()
            served = app[STATE].runs.get(run)
            assert served is not None
            watchers = served.run.watchers
            assert len(watchers.now) == 1
            events.close()
            await watchers.pipe(ops.filter(is_empty), ops.first())
            assert not served.run.done()
    finally:
        await runner.cleanup()


def is_empty(watchers: tuple[WatcherState, ...]) -> bool:
    return not watchers


async def test_when_it_ends_its_runs_are_cancelled_and_their_watchers_notified() -> None:
    runs: list[Run[object]] = []
    async with aiohttp.ClientSession() as http:
        async with WebServer(stalling, port=0, on_run=runs.append) as server:
            async with http.post(server.url + "api/runs", json={"input": "a"}) as response:
                run = (await response.json())["id"]
            events = await http.get(f"{server.url}api/runs/{run}/events")
            socket = await http.ws_connect(server.url + "api/ws")
            await socket.send_json({"type": "watch", "run": run})
            while (await socket.receive_json())["type"] != "records":
                pass
        text = await events.text()
        assert '"run_abort"' in text
        assert text.count("event: end\n") == 1
        told = [message.json() async for message in socket]
        assert told[-1]["type"] == "end"
        assert "the server was stopped" in told[-1]["reason"]
        assert socket.close_code == aiohttp.WSCloseCode.GOING_AWAY
    assert runs[0].done()
    assert session_of(runs[0]).conversation.messages


async def test_after_its_end_nothing_of_it_is_left() -> None:
    gc.freeze()  # the collection below need not look at what came before
    alive: list[weakref.ref[Run[object]]] = []
    before = asyncio.all_tasks()
    async with aiohttp.ClientSession() as http:
        app = make_app(stalling, on_run=lambda run: alive.append(weakref.ref(run)))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/api/runs"
        async with http.post(url, json={"input": "a"}) as response:
            assert response.status == 201
        await runner.cleanup()
    del response
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    gc.collect()
    assert alive[0]() is None
    assert app is not None


async def test_a_provider_s_key_is_in_no_answer_and_no_log(
    open_desk: OpenDesk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rxworker.providers import Anthropic

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SECRET_OF_THE_MACHINE", "value-of-the-environment")
    caplog.set_level("DEBUG")
    with ReplayServer([say("half") + fail("no", "authentication"), fail("no")]) as service:

        def make() -> Worker:
            return Worker(Anthropic("m", api_key=KEY, base_url=service.base_url))

        async with WebServer(make, port=0) as server, aiohttp.ClientSession() as http:
            told: list[str] = []
            for _ in range(2):
                async with http.post(server.url + "api/runs", json={"input": "a"}) as response:
                    run = (await response.json())["id"]
                for path in (f"api/runs/{run}/events", f"api/runs/{run}", "api/runs", "api/info"):
                    async with http.get(server.url + path) as response:
                        told += [await response.text(), str(response.headers)]
        assert "authentication" in "".join(told)
    for secret in (KEY, "value-of-the-environment"):
        assert secret not in "".join(told)
        assert secret not in caplog.text


async def test_a_stop_that_is_cancelled_still_ends_its_connections() -> None:
    server = WebServer(lambda: Worker(ScriptedModel(["Hi!"])), port=0)
    await server.__aenter__()
    port = int(server.url.rstrip("/").rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    stopping = asyncio.create_task(server.__aexit__(None, None, None))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_one_worker_serves_conversations_at_once() -> None:
    """Each has its own messages, and the tools of its own client."""
    model = ScriptedModel([say("...") + stall()] * 2)
    worker = Worker(model)
    async with WebServer(worker, port=0) as server, aiohttp.ClientSession(server.url, trust_env=False) as http:
        for name in ("one", "two"):
            tools = [{"type": "function", "name": name, "parameters": {"type": "object"}}]
            body = {"model": "worker", "input": f"call {name}", "tools": tools, "background": True}
            async with http.post("v1/responses", json=body) as response:
                assert response.status == 200
        for entry in server.state.runs:
            await entry.run.events.pipe(ops.filter(is_text), ops.first())
        assert [entry.status for entry in server.state.runs] == ["running", "running"]
    sent = [([m.text for m in r.conversation.messages], r.tools[0].name) for r in model.requests]
    assert sorted(sent) == [(["call one"], "one"), (["call two"], "two")]
    assert worker.tools.names == ()


async def test_one_worker_is_served_under_two_names_and_stays_as_it_is() -> None:
    worker = Worker(ScriptedModel([say("Hello!")] * 2), name="own")
    async with (
        MemoryLog() as log,
        WebServer({"desk": worker, "shop": worker}, log=log, port=0) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        for name in ("desk", "shop"):
            body = {"input": "Hi", "worker": name}
            async with http.post("api/runs", json=body) as response:
                assert response.status == 201, await response.text()
        for entry in server.state.runs:
            await entry.run.events.pipe(ops.last())
        assert sorted(info.row.worker for info in await log.list()) == ["desk", "shop"]
    assert (worker.name, worker.log) == ("own", None)


def is_text(event: Event) -> bool:
    return isinstance(event, TextDelta)


@pytest.mark.parametrize("name", ["user", "on_run"])
def test_a_callback_that_is_not_callable_is_refused(name: str) -> None:
    options: dict[str, Any] = {name: "ada"}
    with pytest.raises(ConfigurationError, match=f"{name} is 'ada'; give a function"):
        make_app(stalling, **options)


async def test_a_port_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="choose a number from 0 to 65535"):
        async with WebServer(stalling, port=99999):
            pass


@pytest.mark.parametrize("run", [None, "run-1"])
async def test_only_a_run_can_be_added(run: Any) -> None:
    async with WebServer(stalling, port=0) as server:
        with pytest.raises(ConfigurationError, match=r"add\(worker.run\(...\)\)"):
            server.add(run)
