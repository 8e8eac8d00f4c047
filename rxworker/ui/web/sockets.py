"""A WebSocket that carries several runs, and the list of all.

Theory of operation. A connection has one lock for sending, and a task for each run that it carries. A task takes what there is for it,
waits for the lock, and sends; while the client does not read, all of them wait, and the runs' histories are the only buffer: what
they take next is merged. Of the list only the newest waits. The client's messages are read one by one, each answered before
the next is read, so that a client which asks more than it reads only holds up itself.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress

from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from rxworker.errors import RemoteProtocolError, RxWorkerError
from rxworker.protocols import (
    Hello,
    ListRuns,
    RequestRefused,
    RunEnd,
    RunGone,
    ServerMessage,
    UnwatchRun,
    WatchRun,
    read_client_message,
    records_message,
    socket_message,
)
from rxworker.ui.web.answers import ApiError
from rxworker.ui.web.feed import RunFeed
from rxworker.ui.web.hide import told
from rxworker.ui.web.patience import Patience
from rxworker.ui.web.runs import Runs
from rxworker.ui.web.watching import Places, batches_of, watch_run

MAX_MESSAGE = 16 * 1024
"""The most bytes of a client's message."""

MAX_BAD = 8
"""After so many messages that are none, the client is sent away."""

MAX_RATE = 200
"""The most messages of a client in ten seconds."""

RATE_SECONDS = 10.0

LAST_WORDS = 1.0
"""Seconds in which a client can take the last records when the server goes away."""

logger = logging.getLogger("rxworker.ui.web")


class Connection:
    """One client on a WebSocket.

    Args:
        request: What it began with.
        socket: The connection, open.
        runs: What it may watch.
        places: How many watchers there may be.
        instance: The server's name for this start.
        stall: Seconds after which a client that takes nothing is let go.
        who: What its watchers are called unless it says so.
    """

    def __init__(
        self,
        request: web.Request,
        socket: web.WebSocketResponse,
        runs: Runs,
        places: Places,
        *,
        instance: str,
        stall: float,
        who: str,
    ) -> None:
        self._socket = socket
        self._runs = runs
        self._places = places
        self._instance = instance
        self._patience = Patience(request, stall)
        self._who = who
        self._turn = asyncio.Lock()
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._listing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._bad = 0
        self._window = self._loop.time()
        self._count = 0

    async def serve(self) -> None:
        """Answer the client until it leaves."""
        try:
            await self._tell(Hello(self._instance))
            async for message in self._socket:
                if not await self._heed(message):
                    break
        except ConnectionError:
            pass  # the client is gone
        finally:
            tasks = [*self._watching.values()]
            if self._listing is not None:
                tasks.append(self._listing)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """The server goes away: send what the runs have said last, and close."""
        if self._watching:
            await asyncio.wait(self._watching.values(), timeout=LAST_WORDS)
        await self._socket.close(code=WSCloseCode.GOING_AWAY, message=b"the server was stopped")

    async def _heed(self, message: WSMessage) -> bool:
        """Do what the client says; whether it may say more."""
        if message.type is WSMsgType.ERROR:
            return False
        if not self._may_say_more():
            return await self._send_away("too_many_messages", "too many messages: slow down")
        try:
            if message.type is not WSMsgType.TEXT:
                raise RemoteProtocolError("messages are JSON in text messages")
            asked = read_client_message(message.data)
        except RemoteProtocolError as error:
            self._bad += 1
            if self._bad >= MAX_BAD:
                return await self._send_away("bad_messages", f"too many bad messages: {error}")
            await self._tell(RequestRefused("bad_message", str(error)))
            return True
        match asked:
            case ListRuns():
                if self._listing is None:
                    self._listing = self._loop.create_task(self._list(self._runs.feed))
            case UnwatchRun(run=run):
                await self._stop(run)
            case WatchRun():
                await self._watch(asked)
        return True

    def _may_say_more(self) -> bool:
        now = self._loop.time()
        if now - self._window > RATE_SECONDS:
            self._window, self._count = now, 0
        self._count += 1
        return self._count <= MAX_RATE

    async def _send_away(self, code: str, text: str) -> bool:
        await self._tell(RequestRefused(code, text))
        await self._socket.close(code=WSCloseCode.POLICY_VIOLATION, message=code.encode())
        return False

    async def _stop(self, run: str) -> None:
        task = self._watching.pop(run, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self, asked: WatchRun) -> None:
        await self._stop(asked.run)
        if self._runs.get(asked.run) is None:
            await self._tell(RunGone(asked.run))
            return
        task = self._loop.create_task(self._follow(asked))
        self._watching[asked.run] = task

        def done(_task: asyncio.Task[None]) -> None:
            if self._watching.get(asked.run) is _task:
                del self._watching[asked.run]

        task.add_done_callback(done)

    async def _follow(self, asked: WatchRun) -> None:
        """Send a run to its end."""
        try:
            await self._send_run(asked)
        except ApiError as error:
            await self._try_tell(RequestRefused(error.code, error.message, asked.run))
        except RxWorkerError as error:
            await self._try_tell(RequestRefused("detached", str(error), asked.run))
        except ConnectionError:
            return  # the client is gone, and whoever reads from it knows
        except Exception as error:
            logger.error("sending %r failed\n%s", asked.run, told(error))
            await self._try_tell(
                RequestRefused("error", "the server failed; its log says more", asked.run)
            )

    async def _try_tell(self, message: ServerMessage) -> None:
        with suppress(ConnectionError):
            await self._tell(message)

    async def _send_run(self, asked: WatchRun) -> None:
        entry = self._runs.find(asked.run)
        with self._places.take(entry):
            watch = watch_run(entry, asked.after, asked.delivery, asked.name or self._who)
            async with aclosing(batches_of(entry, watch)) as batches:
                async for batch in batches:
                    await self._send(records_message(asked.run, batch, entry.encode))
        end = RunEnd(asked.run, entry.status, entry.reason)
        await self._send(entry.hide(socket_message(end)))

    async def _list(self, feed: RunFeed) -> None:
        """Send the list, and again whenever it has changed."""
        changed = asyncio.Event()
        newest = feed.now()

        def listener(data: bytes) -> None:
            nonlocal newest
            newest = data
            changed.set()

        feed.listen(self, listener)
        try:
            while True:
                await self._send(newest)
                await changed.wait()
                changed.clear()
        except ConnectionError:
            return
        finally:
            feed.leave(self)

    async def _tell(self, message: ServerMessage) -> None:
        await self._send(socket_message(message))

    async def _send(self, data: bytes) -> None:
        async with self._turn:
            with self._patience.while_sending():
                await self._socket.send_frame(data, WSMsgType.TEXT)


class Sockets:
    """The connections that are open."""

    def __init__(self) -> None:
        self._open: set[Connection] = set()

    async def serve(self, connection: Connection) -> None:
        """Serve a client until it leaves."""
        self._open.add(connection)
        try:
            await connection.serve()
        finally:
            self._open.discard(connection)

    async def close(self) -> None:
        """Close all: the server goes away."""
        closing = [connection.close() for connection in tuple(self._open)]
        await asyncio.gather(*closing, return_exceptions=True)


__all__ = ["Connection", "Sockets"]
