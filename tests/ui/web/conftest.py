"""What the tests of the web server share: a server with a scripted model, and a client."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from types import ModuleType
from typing import Any, TypeAlias
from zlib import crc32

import aiohttp
import pytest
import uvicorn

from rxworker import Run, Session, Worker, before_tool_call, tool
from rxworker.adapters.asgi import AsgiApp
from rxworker.events import Question
from rxworker.hooks import Pause, ToolCallContext
from rxworker.log import EventLog, MemoryLog
from rxworker.providers import Request
from rxworker.testing import Reply, ScriptedModel
from rxworker.tools import ToolContext
from rxworker.transport import Retry
from rxworker.ui.web import Settings, WebServer, Workers
from rxworker.worker import session_of
from tests.whole import IS_WHOLE

Body: TypeAlias = dict[str, Any]
ServeAsgi: TypeAlias = Callable[[Any], AbstractAsyncContextManager[str]]
TOKEN = "a-very-secret-token-0123456789"
BODIES: dict[str, Any] = {
    "/api/runs": {"input": "x", "conversation": "CONVERSATION"},
    "/api/runs/{id}/send": {"message": "x"},
    "/api/runs/{id}/resume": {"decisions": {"call_1_1": {"type": "approve"}}},
    "/api/runs/{id}/fork": {"seq": 1},
    "/api/conversations/{id}/disallow": {"hook": "pay", "tool": "pay"},
    "/api/conversations/{id}/mark": {"title": "noted"},
    "/api/links": {"run": "RUN"},
    "/api/chat": {"id": "CONVERSATION", "messages": [{"role": "user", "parts": [{"type": "text", "text": "x"}]}]},
    "/ag-ui": {"threadId": "CONVERSATION", "runId": "r", "messages": [{"role": "user", "content": "x"}]},
    "/v1/responses": {"model": "worker", "input": "x", "previous_response_id": "RUN"},
    "/v1/chat/completions": {"model": "worker", "messages": [{"role": "user", "content": "x"}]},
}
"""Bodies that their routes understand; the others take an empty one."""


@before_tool_call(name="permit", matcher="delete")
def permit(context: ToolCallContext) -> Pause:
    return Pause("Deleting cannot be undone.")


class OftenAwake(ModuleType):
    """`asyncio` for uvicorn, which looks for its end ten times a second: a test would wait for that three times."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.005))


uvicorn.server.asyncio = OftenAwake("asyncio")  # pyright: ignore


@asynccontextmanager
async def serve_asgi(app: Any) -> AsyncGenerator[str, None]:
    """Serve an ASGI application in uvicorn, on the test's event loop."""
    config = uvicorn.Config(app, log_config=None, lifespan="on", ws="websockets-sansio", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    # The signals belong to the test.
    server.capture_signals = nullcontext  # pyright: ignore[reportAttributeAccessIssue]
    listening = socket.create_server(("127.0.0.1", 0))
    # Otherwise the second half of each response waits 40 ms for the acknowledgement of the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        await serving


class AsgiServer(AsyncExitStack):
    """The ASGI application in uvicorn, with what a `WebServer` has."""

    def __init__(self, workers: Workers, *, port: int = 0, **options: Any) -> None:
        super().__init__()
        del port
        self._app = AsgiApp(workers, **options)
        self.state = self._app.state
        self.runs = self.state.all_runs
        self.add = self.state.add
        self.url = ""

    async def __aenter__(self) -> AsgiServer:
        self.url = await self.enter_async_context(serve_asgi(self._app))
        return self


@pytest.fixture
def in_uvicorn() -> ServeAsgi:
    """Serves an ASGI application."""
    return serve_asgi


class Desk:
    """A server, a client of it, and what the client says and hears.

    Attributes:
        server: The server.
        http: The client.
        release: Lets the tool ``wait`` return.
        deleted: What the tool ``delete`` was called with.
        workers: The workers that were made.
    """

    def __init__(
        self,
        replies: Any,
        settings: Settings,
        delay: float,
        token: str | None,
        log: EventLog | None = None,
        *,
        is_asgi: bool = False,
    ) -> None:
        self.release = asyncio.Event()
        self.waiting = asyncio.Event()
        self.deleted: list[str] = []
        self.workers: list[Worker] = []
        self._replies = replies
        self._delay = delay
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.http = aiohttp.ClientSession(headers=headers, trust_env=False)
        make = AsgiServer if is_asgi else WebServer
        self.server = make(self.make_worker, port=0, settings=settings, log=log)

    def make_worker(self) -> Worker:
        @tool
        async def wait(n: int = 0) -> str:
            """Wait for the test.

            Args:
                n: What tells one call from another.
            """
            self.waiting.set()
            await self.release.wait()
            return f"waited {n}"

        @tool
        async def delete(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            return f"deleted {path}"

        @tool
        async def order(context: ToolContext) -> str:
            """Order something, which another program delivers."""
            context.later()

        @tool(background=True)
        async def sure(context: ToolContext) -> str:
            """Ask the user, in the background."""
            if context.begun is None:
                context.ask(Question("sure", "Sure?"))
            return "They are sure."

        model = ScriptedModel(self._replies, delay=self._delay, model="scripted-1")
        retry = Retry(first=0.0)
        worker = Worker(model, tools=[wait, delete, order, sure], hooks=[permit], response_retry=retry)
        self.workers.append(worker)
        return worker

    @property
    def sessions(self) -> list[Session]:
        """The sessions of its runs in this process."""
        runs: list[Run[object]] = []
        self.server.runs.subscribe(runs.append).dispose()
        return list(dict.fromkeys(map(session_of, runs)))

    def url(self, path: str) -> str:
        return self.server.url + path

    async def get(self, path: str, **options: Any) -> tuple[int, Any]:
        async with self.http.get(self.url(path), **options) as response:
            data = await response.read()
            return response.status, json.loads(data) if data[:1] in (b"{", b"[") else data.decode()

    async def post(self, path: str, body: object = None, **options: Any) -> tuple[int, Any]:
        if body is not None:
            options["json"] = body
        async with self.http.post(self.url(path), **options) as response:
            if response.content_type == "text/plain":
                return response.status, await response.text()
            return response.status, json.loads(await response.read() or b"null")

    async def begin(self, text: str = "hi", **more: str) -> Body:
        """Begin a run."""
        status, run = await self.post("api/runs", {"input": text, **more})
        assert status == 201, run
        return run

    async def ended(self, run_id: str) -> Body:
        """The run, when it has ended."""
        async with self.http.get(self.url(f"api/runs/{run_id}/events")) as response:
            await response.read()
        return (await self.get(f"api/runs/{run_id}"))[1]

    async def frames(self, path: str, **options: Any) -> list[dict[str, str]]:
        """The frames of a stream of server-sent events, to its end."""
        async with self.http.get(self.url(path), **options) as response:
            assert response.status == 200, await response.text()
            return read_frames(await response.text())

    def socket(self) -> Any:
        """A WebSocket."""
        return self.http.ws_connect(self.url("api/ws"))


def read_frames(text: str) -> list[dict[str, str]]:
    """The fields of each frame; a comment's is called ``""``."""
    frames: list[dict[str, str]] = []
    for frame in text.split("\n\n"):
        if frame:
            fields = (line.partition(":") for line in frame.split("\n"))
            frames.append({name: value.removeprefix(" ") for name, _, value in fields})
    return frames


OpenDesk: TypeAlias = Callable[..., Awaitable[Desk]]


SERVERS = ["", "log", "asgi"]
"""The web server of aiohttp without a log and with one, and the ASGI application in uvicorn."""


EACH = ("guard",)
"""Tests that say what a request may do: of each server in the suite, and the others of one of them."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Everything holds for each server, but for what is marked. In the suite, most tests are of one of them."""
    if "server_kind" in metafunc.fixturenames:
        marks = {mark.name for mark in metafunc.definition.iter_markers()}
        left_out = {"log"} & {"log" if "unlogged" in marks else ""}
        left_out |= {"asgi"} & {"asgi" if "aiohttp" in marks else ""}
        kinds = [kind for kind in SERVERS if kind not in left_out]
        is_each = IS_WHOLE or metafunc.definition.path.stem.removeprefix("test_") in EACH
        some = [kind for kind in kinds if kind] or kinds
        one = some[crc32(metafunc.function.__name__.encode()) % len(some)]
        metafunc.parametrize("server_kind", kinds if is_each else [one])


@pytest.fixture
async def open_desk(server_kind: str) -> AsyncGenerator[OpenDesk, None]:
    """Opens a server and a client; both are closed after the test."""
    async with AsyncExitStack() as stack:

        async def open_one(
            *replies: Reply | str,
            settings: Settings | None = None,
            delay: float = 0.0,
            always: Reply | str | None = None,
            script: Callable[[Request], Reply] | None = None,
            token: str | None = None,
            log: EventLog | None = None,
        ) -> Desk:
            def same(_: Request) -> Reply | str:
                assert always is not None
                return always

            answers = script or (list(replies) if always is None else same)
            if log is None and server_kind == "log":
                log = await stack.enter_async_context(MemoryLog())
            is_asgi = server_kind == "asgi"
            desk = Desk(answers, settings or Settings(), delay, token, log, is_asgi=is_asgi)
            await stack.enter_async_context(desk.http)
            await stack.enter_async_context(desk.server)
            return desk

        yield open_one
