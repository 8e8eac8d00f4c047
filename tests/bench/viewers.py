"""What a viewer costs.

The server's CPU time for each frame that a viewer of a published stream, of a run, or of a dashboard, receives as a
server-sent event.

    python tests/bench/viewers.py [viewers] [frames]

The floor is aiohttp alone: a handler for each viewer waits for the next frame and writes it, with the same bytes. All
are measured in one process, one after the other, and the viewers are bare connections in a process of their own. A
frame follows 50 ms after the one before it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from aiohttp import web
from clients import be_clients
from reactivex.subject import Subject

from rxworker import Worker, on_message_send
from rxworker.boards import Dashboard, PanelState, panel, publish
from rxworker.hooks import MessageSendContext
from rxworker.hub import Hub
from rxworker.panels import cost
from rxworker.protocols import SSE_HEADERS
from rxworker.testing import ScriptedModel, say
from rxworker.ui.web import Settings, WebServer

PAUSE = 0.05
VALUE: dict[str, str | float] = {"tool": "search", "dollars": 0.25, "calls": 17}

Served: TypeAlias = tuple[int, str, Callable[[], int], Callable[[], None], Callable[[], None]]
"""The port and the path; the number of viewers now; what sends a frame, and what ends the stream."""


@asynccontextmanager
async def bare() -> AsyncGenerator[Served]:
    """Aiohttp alone."""
    waiting: list[asyncio.Future[bytes]] = []
    count, loop = 0, asyncio.get_running_loop()

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal count
        response = web.StreamResponse(headers=SSE_HEADERS)
        await response.prepare(request)
        count += 1
        await response.write(b"retry: 1000\n\n")
        while True:
            future: asyncio.Future[bytes] = loop.create_future()
            waiting.append(future)
            frame = await future
            if not frame:
                return response
            await response.write(frame)

    def push(frame: bytes) -> None:
        nonlocal waiting
        woken, waiting = waiting, []
        for future in woken:
            if not future.done():
                future.set_result(frame)

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
    await site.start()
    data = (
        b"id: 123456789012345-100\ndata:"
        b' {"seq":100,"time":1795667338.7085094,"value":{"tool":"search","dollars":0.25,"calls":17}}\n\n'
    )
    try:
        yield runner.addresses[0][1], "/", lambda: count, lambda: push(data), lambda: push(b"")
    finally:
        await runner.cleanup()


def settings(viewers: int) -> Settings:
    """Settings that allow so many viewers."""
    most = 2 * viewers + 10
    return Settings(
        max_connections=most, max_watchers=most, max_watchers_per_run=most, writes_per_second=None, stall_seconds=600
    )


def watching(hub: Hub) -> Callable[[], int]:
    """The number of the watchers of a hub."""
    return lambda: hub.watching


@asynccontextmanager
async def stream(viewers: int) -> AsyncGenerator[Served]:
    """A published stream."""
    source = Subject[dict[str, str | float]]()
    published = publish("cost", source)
    worker = Worker(ScriptedModel(["Hello!"]))
    async with WebServer(worker, port=0, settings=settings(viewers), streams=[published]) as server:
        port = int(server.url.rsplit(":", 1)[1].rstrip("/"))
        count = watching(published.hub)
        path = "/api/streams/cost/events"
        yield port, path, count, lambda: source.on_next(VALUE), source.on_completed


@asynccontextmanager
async def run(viewers: int) -> AsyncGenerator[Served]:
    """The records of a run."""
    pushed: asyncio.Queue[None] = asyncio.Queue()
    done = asyncio.Event()

    async def emit(context: MessageSendContext) -> None:
        while not done.is_set():
            await pushed.get()
            context.send_system("a message of about the size of a frame")

    worker = Worker(ScriptedModel([say("Hello!")]), hooks=[on_message_send(emit)])
    async with WebServer(worker, port=0, settings=settings(viewers)) as server:
        entry = server.state.runs.start("go")
        assert entry.here is not None
        port = int(server.url.rsplit(":", 1)[1].rstrip("/"))
        path = f"/api/runs/{entry.id}/events"

        def end() -> None:
            done.set()
            pushed.put_nowait(None)

        yield port, path, lambda: entry.watching, lambda: pushed.put_nowait(None), end


@asynccontextmanager
async def board(viewers: int) -> AsyncGenerator[Served]:
    """A panel of a dashboard, over all runs."""
    worker = Worker(ScriptedModel(["Hello!"]))
    shown = Dashboard([panel("Cost", cost(), unit="USD")], title="Desk")
    async with WebServer(worker, port=0, settings=settings(viewers), dashboards=[shown]) as server:
        port = int(server.url.rsplit(":", 1)[1].rstrip("/"))
        feeds = server.state.boards.feeds

        def change() -> None:
            for feed in feeds.values():
                feed.board.changes.on_next(PanelState("cost", time.time(), 0.25))

        def end() -> None:
            server.state.boards.close()

        def count() -> int:
            return sum(feed.hub.watching for feed in feeds.values())

        yield port, "/api/boards/desk/events", count, change, end


async def measure(served: Served, viewers: int, frames: int) -> tuple[float, int]:
    """Microseconds of CPU time for each frame and viewer, and the bytes that each viewer received."""
    port, path, count, push, end = served
    clients = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--be", str(port), path, str(viewers), stdout=-1
    )
    while count() < viewers:  # noqa: ASYNC110 - connections are not an event
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)
    worked = time.process_time()
    for _ in range(frames):
        push()
        await asyncio.sleep(PAUSE)
    work = time.process_time() - worked
    end()
    received, _ = await clients.communicate()
    return 1e6 * work / frames / viewers, int(received) // viewers


async def main(viewers: int, frames: int) -> None:
    """Print a row for each."""
    print(f"{'':>8} {'µs a frame':>10} {'ratio':>6} {'KB a viewer':>11}")
    floor = 0.0
    for name, serve in {
        "aiohttp": bare(),
        "stream": stream(viewers),
        "run": run(viewers),
        "board": board(viewers),
    }.items():
        async with serve as served:
            spent, size = await measure(served, viewers, frames)
        floor = floor or spent
        print(f"{name:>8} {spent:>10.1f} {spent / floor:>6.2f} {size / 1000:>11.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--be"]:
        asyncio.run(be_clients(int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
    else:
        given = [int(number) for number in sys.argv[1:]]
        asyncio.run(main(*given) if len(given) == 2 else main(given[0] if given else 1000, 100))
