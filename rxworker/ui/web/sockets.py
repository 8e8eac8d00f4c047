"""A WebSocket that carries several runs, published streams, and the list of runs.

Theory of operation. A connection has one send lock, and a task for each run and stream that it carries. A task takes
the records that are available, waits for the lock, and sends; while the client does not read, all tasks wait, and the
only buffer is the history of each run: records that a task takes later are merged. Of the list of runs, only the newest
state waits. The client's messages are handled one at a time, so a client that requests more than it reads only delays
itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from aiohttp import WSCloseCode

from rxworker.errors import InputRefusedError, RemoteProtocolError, RxWorkerError
from rxworker.operators.gate import expect_allowed
from rxworker.protocols import socket as wire
from rxworker.ui.web.http.request import Socket
from rxworker.ui.web.http.responses import ApiError, log_error
from rxworker.ui.web.runs.of_user import Runs
from rxworker.ui.web.state import ServerState
from rxworker.ui.web.streams.streams import CLOSE_SECONDS, follow_run, send_records

MAX_MESSAGE = 16 * 1024
"""The maximum number of bytes of a client's message."""

MAX_BAD = 8
"""The number of malformed messages after which the client is disconnected."""

MAX_RATE = 200
"""The maximum number of messages of a client in ten seconds."""

RATE_SECONDS = 10.0

_Watched: TypeAlias = tuple[Literal["run", "stream", "list"], str]
"""What a client watches: of which kind, and its name."""

LIST: _Watched = "list", "the list of runs"


@dataclass(eq=False)
class Connection:
    """A client on a WebSocket.

    Args:
        socket: The open WebSocket.
        state: The state of the server: its published streams, and what limits the number of watchers.
        runs: The runs that it may watch, and the user of the published streams that it may watch.
        who: The default name of its watchers.

    Attributes:
        writes_now: Whether `write_now` may write.
    """

    socket: Socket
    state: ServerState
    runs: Runs
    who: str

    def __post_init__(self) -> None:
        self.writes_now = self.socket.writes_now
        self._turn = asyncio.Lock()
        self._tasks: dict[_Watched, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._bad = self._count = 0
        self._window = self._loop.time()

    async def serve(self) -> None:
        """Handle messages until the client disconnects."""
        try:
            await self._send_message(wire.Hello(self.state.instance))
            async with aclosing(self.socket.messages()) as messages:
                async for message in messages:
                    if not await self._handle(message):
                        break
        except ConnectionError:
            pass  # the client has disconnected
        except Exception as error:  # the response has begun: it cannot become another one
            log_error("a WebSocket failed", error)
            await self.socket.close(WSCloseCode.INTERNAL_ERROR, "the server failed")
        finally:
            tasks = [*self._tasks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Send the last records of the runs, and close the connection."""
        # Published streams do not end when the server stops.
        if runs := [task for (kind, _), task in self._tasks.items() if kind == "run"]:
            await asyncio.wait(runs, timeout=CLOSE_SECONDS)
        await self.socket.close(WSCloseCode.GOING_AWAY, "the server was stopped")

    async def _handle(self, message: str | bytes) -> bool:
        """Handle a message; return whether to read another one."""
        if not self._accepts_message():
            return await self._disconnect("too_many_messages", "too many messages: slow down")
        try:
            if isinstance(message, bytes):
                raise RemoteProtocolError("messages are JSON in text messages")
            request = wire.read_client_message(message)
            await expect_allowed(self.state.settings.gate, getattr(request, "name", ""))  # which others see
        except InputRefusedError as error:
            await self._send_message(wire.RequestRefused("input_refused", error.message))
            return True
        except RemoteProtocolError as error:
            self._bad += 1
            if self._bad >= MAX_BAD:
                return await self._disconnect("bad_messages", f"too many bad messages: {error}")
            await self._send_message(wire.RequestRefused("bad_message", str(error)))
            return True
        match request:
            case wire.ListRuns():
                if LIST not in self._tasks:
                    self._begin(LIST, self._list)
            case wire.UnwatchRun(run_id=run_id):
                await self._stop(("run", run_id))
            case wire.WatchRun(run_id=run_id):
                await self._stop(("run", run_id))
                self._begin(("run", run_id), partial(self._send_run, request))
            case wire.UnwatchStream(stream=name):
                await self._stop(("stream", name))
            case wire.WatchStream(stream=name):
                await self._stop(("stream", name))
                self._begin(("stream", name), partial(self._send_items, request))
        return True

    def _accepts_message(self) -> bool:
        now = self._loop.time()
        if now - self._window > RATE_SECONDS:
            self._window, self._count = now, 0
        self._count += 1
        return self._count <= MAX_RATE

    async def _disconnect(self, code: str, text: str) -> bool:
        await self._send_message(wire.RequestRefused(code, text))
        await self.socket.close(WSCloseCode.POLICY_VIOLATION, code)
        return False

    def _begin(self, watched: _Watched, send: Callable[[], Awaitable[None]]) -> None:
        self._tasks[watched] = self._loop.create_task(self._follow(watched, send))

    async def _follow(self, watched: _Watched, send: Callable[[], Awaitable[None]]) -> None:
        """Send a run, a stream or the list until it ends, in a task of its own.

        Whatever it raises ends this alone.
        """
        kind, name = watched
        run, stream = (name if kind == each else None for each in ("run", "stream"))
        try:
            await send()
        except ConnectionError:
            return  # the client has disconnected, which the reading task notices
        except Exception as error:
            code, message = "error", "the server failed; its log has the details"
            if isinstance(error, ApiError):
                code, message = error.code, error.message
            elif isinstance(error, RxWorkerError):
                code, message = "detached", str(error)
            else:
                log_error(f"sending {name} failed", error, run=run, stream=stream)
            with suppress(ConnectionError):
                await self._send_message(wire.RequestRefused(code, message, run, stream))
        finally:
            if self._tasks.get(watched) is asyncio.current_task():
                del self._tasks[watched]

    async def _stop(self, watched: _Watched) -> None:
        if (task := self._tasks.pop(watched, None)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _send_run(self, request: wire.WatchRun) -> None:
        try:
            entry = await self.runs.find(request.run_id)
        except ApiError:
            await self._send_message(wire.RunGone(request.run_id))
            return
        with self.state.streams.take(entry):
            await entry.open()
            name = request.name or self.who
            await send_records(self, follow_run(entry, entry.message, name, request.delivery), request.after)
        await self._send(entry.redact(wire.socket_message(wire.RunEnd(request.run_id, entry.status, entry.reason))))

    async def _send_items(self, request: wire.WatchStream) -> None:
        try:
            entry = self.state.published.find(request.stream, self.runs.owner)
        except ApiError:
            await self._send_message(wire.StreamGone(request.stream))
            return
        with self.state.streams.take():
            followed = entry.followed(entry.message, request.name or self.who, request.delivery)
            await send_records(self, followed, entry.after(request.after))
        await self._send(entry.end_message())

    async def _list(self) -> None:
        """Send the list of runs, and again after each change."""
        async with aclosing(self.runs.store.feed(self.runs.owner).lists()) as lists:
            async for data in lists:
                await self._send(data)

    async def _send_message(self, message: wire.ServerMessage) -> None:
        await self._send(wire.socket_message(message))

    async def _send(self, data: bytes) -> None:
        async with self._turn:
            await self.socket.write(data)

    # As an outlet for records.

    write = _send

    def write_now(self, piece: bytes, /) -> bool:
        """Send a message, unless the client is behind or another message is being sent.

        ``False`` if nothing was sent.
        """
        return not self._turn.locked() and self.socket.write_now(piece)
