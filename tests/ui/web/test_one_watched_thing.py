"""What befalls one watched thing ends that thing, with a reason, and nothing else.

No request hangs, no socket is cut, and no other client receives an error.

The tests walk the routes of the server, the messages of the socket and the published streams, so that a new one is
tried as well.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast, get_args

import aiohttp
import msgspec
import pytest
from reactivex import operators as ops
from reactivex.subject import Subject

from rxworker import Worker, tool
from rxworker.boards import Dashboard, log_records, panel, publish
from rxworker.errors import LocalProtocolError, LogError
from rxworker.events import Record
from rxworker.log import MemoryLog
from rxworker.protocols.socket import ClientMessage
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.ui.web import Settings, WebRequest, WebServer
from rxworker.ui.web.api import routes_of
from rxworker.ui.web.boards import boards as web_boards
from rxworker.ui.web.http import responses
from rxworker.ui.web.http.request import Route
from rxworker.ui.web.http.responses import ERROR_HEADER
from rxworker.ui.web.streams.streams import follow_run
from tests.whole import IS_WHOLE

from .conftest import BODIES

ADA, BOB = {"X-User": "ada"}, {"X-User": "bob"}
SECONDS = 10.0
"""Far more than anything takes that does not hang."""


def answer(request: Request) -> Reply:
    last = request.conversation.messages[-1]
    if last.tool_results:
        return say(f"So it is: {last.tool_results[-1].text}.")
    return say("I wait. ") + call("wait") if "wait" in last.text else say("Hello.")


def failing(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("a function of the program")


class Scene:
    """A server with two runs that go on, two that have ended, and two streams.

    What befalls ``victim`` must not befall ``other``.
    """

    def __init__(self, server: WebServer, log: MemoryLog | None, http: aiohttp.ClientSession):
        self.server, self.log, self.http = server, log, http
        self.release = asyncio.Event()
        self.is_broken = False
        self.numbers = {"victim": Subject[int](), "other": Subject[int]()}
        self.running: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, dict[str, Any]] = {}

    async def begin(self, text: str, headers: dict[str, str]) -> dict[str, Any]:
        async with self.http.post("api/runs", json={"input": text}, headers=headers) as response:
            return await response.json()

    async def read(self, path: str, headers: dict[str, str]) -> bytes:
        async with self.http.get(path, headers=headers) as response:
            return await response.read()

    async def set_up(self) -> None:
        for name in ("victim", "other"):
            self.running[name] = await self.begin(f"wait {name}", ADA)
            self.ended[name] = await self.begin(f"end {name}", ADA)
            await self.read(f"api/runs/{self.ended[name]['id']}/events", ADA)
            self.server.state.publish(publish(name, self.numbers[name], keep="all", user=self.may_see(name)))

    def may_see(self, name: str) -> Callable[[str], bool]:
        def allows(user: str) -> bool:
            return failing() if self.is_broken and name == "victim" else user == "ada"

        return allows

    def break_log(self, *runs: str) -> None:
        assert self.log is not None
        for name in ("_info", "_read", "_read_commands", "_send"):
            known = getattr(self.log, name)

            async def fail(run: str, *rest: Any, known: Any = known) -> Any:
                if run in runs:
                    raise LogError("this part of the disk is gone")
                return await known(run, *rest)

            setattr(self.log, name, fail)
        for run in runs:
            self.log.followers.wake(run)


async def befall_nothing(scene: Scene) -> None:
    pass


async def break_log(scene: Scene) -> None:
    scene.break_log(scene.running["victim"]["id"], scene.ended["victim"]["id"])


async def break_function(scene: Scene) -> None:
    scene.is_broken = True


async def delete(scene: Scene) -> None:
    id_ = scene.ended["victim"]["conversation"]
    async with scene.http.post(f"api/conversations/{id_}/delete", json={}, headers=ADA) as response:
        assert response.status == 200
    scene.numbers["victim"].on_completed()


async def prune(scene: Scene) -> None:
    store, id_ = scene.server.state.store, scene.ended["victim"]["id"]
    assert store.get(id_, "ada") is not None
    store.drop(id_)
    if scene.log is not None:
        await scene.log.delete(id_)


async def replace(scene: Scene) -> None:
    """The stream ends with an error, and another one of its name takes its place."""
    state = scene.server.state
    scene.numbers["victim"].on_error(KeyError("replaced"))
    await asyncio.sleep(0)
    state.published._entries[:] = [each for each in state.published._entries if each.published.name != "victim"]
    state.publish(publish("victim", scene.numbers["other"], user="ada"))
    await prune(scene)


FAULTS: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "nothing": befall_nothing,
    "log error": break_log,
    "error of a function": break_function,
    "deleted": delete,
    "pruned": prune,
    "replaced": replace,
    "foreign": befall_nothing,
}


def broken(_: Record) -> int:
    return failing()


@asynccontextmanager
async def scene_of(*, is_logged: bool = True) -> AsyncGenerator[Scene, None]:
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(MemoryLog()) if is_logged else None

        @tool(effect="idempotent")
        async def wait() -> str:
            """Wait for the test."""
            await scene.release.wait()
            return "waited"

        def user(request: WebRequest) -> str | None:
            return request.headers.get("X-User")

        def make() -> Worker:
            return Worker(ScriptedModel(answer), tools=[wait])

        boards = [Dashboard([panel("Broken", ops.map(broken)), panel("Events", ops.scan(count, 0))])]
        settings = Settings(max_runs_per_user=100, max_runs=100)
        server = WebServer(make, port=0, user=user, log=log, settings=settings, dashboards=boards)
        await stack.enter_async_context(server)
        http = aiohttp.ClientSession(server.url, trust_env=False)
        await stack.enter_async_context(http)
        scene = Scene(server, log, http)
        async with asyncio.timeout(SECONDS):
            await scene.set_up()
        yield scene
        scene.release.set()


def count(before: int, _: Record) -> int:
    return before + 1


def requests_of(route: Route, scene: Scene, name: str) -> list[tuple[str, Any]]:
    """The requests of a route about a thing: its path, with the query, and its body."""
    found: list[tuple[str, Any]] = []
    for run in (scene.running[name], scene.ended[name]):
        id_ = run["conversation"] if "conversations" in route.path or "chat/" in route.path else run["id"]
        path = route.path.lstrip("/").replace("{id}", id_).replace("{seq}", "1")
        is_board = "boards" in path
        path = path.replace("{name}", "dashboard" if is_board else name).replace("{path:.+}", "main.js")
        if is_board:
            path += f"?run={run['id']}&panel=events"
        body = json.dumps(BODIES.get(route.path, {}))
        body = body.replace("CONVERSATION", run["conversation"]).replace("RUN", run["id"])
        found.append((path, None if route.method == "GET" else json.loads(body)))
    return found


async def respond(scene: Scene, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, bytes]:
    """The status of a response, and the first of its body."""
    async with asyncio.timeout(SECONDS), scene.http.request(method, path, json=body, headers=headers) as response:
        is_stream = response.content_type == "text/event-stream"
        try:
            data = await (response.content.readany() if is_stream else response.read())
        except aiohttp.ClientError:
            return response.status, b"cut"
        code = response.headers.get(ERROR_HEADER, "").encode()
        return response.status, data + code


async def frame_of(response: aiohttp.ClientResponse) -> bytes:
    """The next frame of a stream that is not a keep-alive comment."""
    while (frame := await response.content.readuntil(b"\n\n")).startswith(b":"):
        pass
    return frame


class Others:
    """The clients of the thing that nothing befalls, which watch it from the beginning to its end."""

    def __init__(self, scene: Scene, stack: AsyncExitStack) -> None:
        self.scene, self._stack = scene, stack

    async def open(self) -> None:
        run, http = self.scene.running["other"]["id"], self.scene.http
        self.socket = await self._stack.enter_async_context(http.ws_connect("api/ws", headers=ADA))
        for message in ({"type": "list"}, {"type": "watch", "run": run}, {"type": "watch_stream", "stream": "other"}):
            await self.socket.send_json(message)
        paths = [f"api/runs/{run}/events", "api/streams/other/events"]
        paths.append(f"api/boards/dashboard/events?run={run}")
        self.streams = [await self._stack.enter_async_context(http.get(path, headers=ADA)) for path in paths]
        for each in self.streams:
            assert each.status == 200
            await each.content.readuntil(b"\n\n")

    async def watch_the_victim(self) -> None:
        """On the same socket: what befalls it must not cut the others."""
        for kind in get_args(ClientMessage):
            fields = {each.encode_name for each in msgspec.structs.fields(kind)}
            tag = cast("Any", msgspec.inspect.type_info(kind)).tag
            for name in ("running", "ended") if "run" in fields else ("",):
                message: dict[str, Any] = {"type": tag}
                if name:
                    message["run"] = getattr(self.scene, name)["victim"]["id"]
                if "stream" in fields:
                    message["stream"] = "victim"
                await self.socket.send_json(message)

    async def check(self) -> None:
        """They receive what follows, and the end."""
        run = self.scene.running["other"]["id"]
        self.scene.numbers["other"].on_next(7)
        self.scene.release.set()
        missing = {("end", run), ("items", "other")}
        while missing:
            message = await self.socket.receive_json(timeout=SECONDS)
            assert message.get("run" if message["type"] == "error" else "", "") != run
            missing.discard((message["type"], message.get("run") or message.get("stream")))
        events, items, board = self.streams
        assert b'event: end\ndata: {"status":"finished"' in await events.content.read()
        assert b"7" in await frame_of(items)
        assert b"events" in await frame_of(board)


CASES = [
    *((fault, True) for fault in FAULTS),
    # Without a log fewer things can befall a run.
    *((fault, False) for fault in FAULTS if IS_WHOLE and fault != "log error"),
]


@pytest.mark.product(4)
@pytest.mark.parametrize(("fault", "is_logged"), CASES)
async def test_no_route_lets_what_befalls_one_thing_befall_another(
    fault: str, is_logged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "PATIENCE", 1.0)
    async with scene_of(is_logged=is_logged) as scene, AsyncExitStack() as stack, asyncio.timeout(60):
        others = Others(scene, stack)
        await others.open()
        routes = routes_of(scene.server.state)
        reads = [route for route in routes if route.method == "GET" and route.name != "socket"]
        before = {
            path: (await respond(scene, "GET", path, body, ADA))[0]
            for route in reads
            for path, body in requests_of(route, scene, "other")
        }
        await others.watch_the_victim()
        await FAULTS[fault](scene)
        headers = BOB if fault == "foreign" else ADA
        for route in routes:
            for path, body in requests_of(route, scene, "victim"):
                if route.name == "socket":
                    continue
                status, data = await respond(scene, route.method, path, body, headers)
                assert status != 500, (path, data)
                assert status < 400 or data, path  # the reason
        for path, status in before.items():
            found, data = await respond(scene, "GET", path, None, ADA)
            assert found == status, (path, data)
        await others.watch_the_victim()
        await others.check()


async def test_a_log_that_fails_ends_no_run_that_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """The client must connect again: an ``end`` would close it for good."""
    async with scene_of() as scene, asyncio.timeout(SECONDS):
        run = scene.running["victim"]["id"]
        async with (
            scene.http.get(f"api/runs/{run}/events", headers=ADA) as response,
            scene.http.ws_connect("api/ws", headers=ADA) as socket,
        ):
            await socket.send_json({"type": "watch", "run": run})
            while (await socket.receive_json())["type"] != "records":
                pass
            received = await response.content.readuntil(b"\n\n")
            scene.break_log(run)
            with pytest.raises(aiohttp.ClientError):
                received += await response.content.read()
            assert b"event: end" not in received
            while (message := await socket.receive_json())["type"] == "records":
                pass
            assert (message["type"], message["code"], message["run"]) == ("error", "detached", run)
        assert "this part of the disk is gone" in caplog.text


@pytest.mark.parametrize("when", ["between", "within"])
async def test_a_client_that_is_behind_when_its_run_is_dropped_ends(when: str) -> None:
    """It goes on with the records that it began with, and neither hangs nor follows the run anew."""
    async with scene_of() as scene, asyncio.timeout(SECONDS):
        run = scene.running["victim"]["id"]
        entry = await scene.server.state.runs.of(cast("Any", _Ada())).find(run)
        await entry.open()
        outlet = _Behind()
        followed = follow_run(entry, entry.frames, "slow")
        streams = scene.server.state.streams
        request = cast("Any", _Request(outlet))
        following = asyncio.create_task(streams.follow(request, followed, 0, entry.end_frame))
        await outlet.has_written.wait()
        outlet.is_behind = True
        if when == "between":
            entry.close()  # type: ignore[attr-defined] # pyright: ignore
        else:  # while a record is pushed
            following_records = entry.run.hub.entries(entry.run.last_seq)  # type: ignore # pyright: ignore
            following_records.subscribe(lambda _: entry.close())  # type: ignore # pyright: ignore
            scene.release.set()
        await following
        assert outlet.is_aborted
        assert b"event: end" not in b"".join(outlet.pieces)


class _Ada:
    owner = "ada"


class _Behind:
    """A response whose client is behind from some moment on."""

    writes_now = True

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.is_behind = self.is_aborted = False
        self.has_written = asyncio.Event()

    def write_now(self, data: bytes) -> bool:
        if self.is_behind:
            return False
        self.pieces.append(data)
        self.has_written.set()
        return True

    async def write(self, data: bytes) -> None:
        await asyncio.sleep(0)
        self.pieces.append(data)

    async def end(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


class _Request:
    method, raw_path = "GET", "/"

    def __init__(self, response: _Behind) -> None:
        self._response = response

    async def stream(self, _headers: object) -> _Behind:
        return self._response


@pytest.mark.parametrize("name", [7, True, b"ada", ["ada"], {"ada": 1}, 0.5])
async def test_a_user_is_a_text(name: object, caplog: pytest.LogCaptureFixture) -> None:
    def user(_: WebRequest) -> Any:
        return name

    async with (
        WebServer(Worker(ScriptedModel([])), port=0, user=user) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
        http.get("api/runs") as response,
    ):
        assert response.status == 401
        assert "user= returned" in caplog.text


async def test_a_stream_whose_function_fails_is_shown_to_no_user_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with scene_of() as scene, asyncio.timeout(SECONDS):
        scene.is_broken = True
        found = json.loads(await scene.read("api/streams", ADA))
        assert [each["name"] for each in found["streams"]] == ["other"]
        assert "user= of the stream victim failed" in caplog.text


async def test_a_socket_whose_own_work_fails_is_closed_as_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """An HTTP response must not be written into it."""
    async with scene_of() as scene, asyncio.timeout(SECONDS):
        monkeypatch.setattr("rxworker.ui.web.sockets.wire.read_client_message", failing)
        async with scene.http.ws_connect("api/ws", headers=ADA) as socket:
            await socket.receive_json()
            await socket.send_json({"type": "list"})
            message = await socket.receive()
            assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1011)


async def test_a_stream_that_cannot_be_described_hides_no_other() -> None:
    class _UnspeakableError(Exception):
        def __str__(self) -> str:
            raise ValueError

    async with scene_of() as scene, asyncio.timeout(SECONDS):
        scene.numbers["victim"].on_error(_UnspeakableError())
        await asyncio.sleep(0)
        found = json.loads(await scene.read("api/streams", ADA))
        assert {each["name"] for each in found["streams"]} == {"victim", "other"}


async def test_a_moment_of_a_board_is_folded_once_for_all_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is folded for the holders of read-only links, too: a run of 100,000 records takes seconds."""
    async with scene_of() as scene, asyncio.timeout(SECONDS):
        run = scene.ended["victim"]
        folds: list[float] = []
        monkeypatch.setattr(web_boards, "SETTLED", 0.0)
        fold_of = web_boards.Fold

        def fold(dashboard: Dashboard) -> Any:
            folds.append(0.0)
            return fold_of(dashboard)

        monkeypatch.setattr(web_boards, "Fold", fold)
        async with scene.http.post("api/links", json={"run": run["id"]}, headers=ADA) as response:
            link = {"Authorization": f"Bearer {(await response.json())['token']}"}
        moment = run["started"] + 0.001
        path = f"api/boards/dashboard?run={run['id']}&time={moment}"
        for headers in (ADA, link):
            del folds[:]
            found = await asyncio.gather(*(scene.read(path, headers) for _ in range(10)))
            found.append(await scene.read(path, headers))
            assert len(set(found)) == 1
            assert len(folds) == 1
        many = [f"{path}{n}" for n in range(1, 40)]

        async def status_of(path: str) -> int:
            async with scene.http.get(path, headers=link) as response:
                return response.status

        statuses = await asyncio.gather(*map(status_of, many))
        assert set(statuses) <= {200, 429}
        # A run that is deleted is not shown from what is kept.
        await delete(scene)
        assert b"no_run" in await scene.read(path, ADA)


async def test_an_error_after_the_stored_records_ends_a_board_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene_of() as scene, asyncio.timeout(SECONDS):
        assert scene.log is not None

        def runs(**_: object) -> Any:
            raise OSError("the disk is gone")

        monkeypatch.setattr(scene.log, "runs", runs)
        errors: list[Exception] = []
        failed = asyncio.Event()

        def on_error(error: Exception) -> None:
            errors.append(error)
            failed.set()

        log_records(scene.log).subscribe(lambda _: None, on_error)
        await failed.wait()
        assert [str(each) for each in errors] == ["the disk is gone"]


async def test_a_message_from_another_thread_is_refused_in_a_sentence() -> None:
    run = Worker(ScriptedModel(["Hello."])).run("Hi")
    with pytest.raises(LocalProtocolError, match=r"send\(\) must be called in the run's event loop"):
        await asyncio.to_thread(run.send, "more")
    await run
