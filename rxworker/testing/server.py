"""A server that answers from a script, over real HTTP: replies, recordings and refusals, with faults.

It runs on the event loop that enters it, or, entered without ``async``, on a loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from msgspec.structs import replace

from rxworker.errors import LocalProtocolError
from rxworker.messages import JsonObject
from rxworker.testing.answer import ServedResponse, play
from rxworker.testing.reply import Reply, to_reply
from rxworker.testing.scripted import Answers, Script
from rxworker.testing.traffic import Received, Traffic, to_received
from rxworker.testing.wire import WIRES, Wire, wire_for
from rxworker.transport.listening import stop_listening

AnswerLike: TypeAlias = ServedResponse | Reply | str | Path

HOST = "127.0.0.1"
# A client that obeys this header shows the server's error at once, and does not try again.
FINAL = {"x-should-retry": "false"}
# Where a response in the background is taken up again.
RESUMED = re.compile(r"/responses/[^/]+$")


class Connections(web.Server):
    """aiohttp's connections, counted; a handler whose client goes away is cancelled."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener.handle, handler_cancellation=True, access_log=None)
        self._traffic = listener.traffic

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """A client came."""
        super().connection_made(handler, transport)
        self._traffic.connected()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """A client is gone."""
        super().connection_lost(handler, exc)
        self._traffic.disconnected()


class Listener:
    """Listens on a free port of this machine. Belongs to the event loop that made it.

    Attributes:
        traffic: The received requests.
        loop: Its event loop.
        port: The port, once it listens.
    """

    def __init__(self, script: Script[Received, AnswerLike]) -> None:
        self._script = script
        self.traffic = Traffic()
        self.loop = asyncio.get_running_loop()
        self.port = 0

    async def start(self) -> None:
        """Begin to listen."""
        self._connections = Connections(self)
        self._server = await self.loop.create_server(self._connections, HOST, 0)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def stop(self, seconds: float) -> None:
        """Close everything, whatever is still being answered."""
        self.traffic.closing = True
        try:
            await stop_listening(self._server)
        finally:
            for connection in self._connections.connections:
                if connection.transport is not None:
                    connection.transport.abort()
        await self.traffic.until(lambda: self.traffic.closed, "the server to stop", seconds)
        await self._server.wait_closed()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        received = to_received(
            request.method, request.path_qs, request.headers, await request.content.read()
        )
        self.traffic.received(received)
        answer, frames = self._answer(received, wire_for(request.path))
        with self.traffic.answer():
            response = await play(answer, frames, request)
        if response is None:
            # How aiohttp closes a connection without another byte, after what is written has gone out.
            raise asyncio.CancelledError
        return response

    def _answer(self, received: Received, wire: Wire | None) -> tuple[ServedResponse, list[bytes]]:
        """The next answer and its frames, or an error in the shape of the provider's errors."""
        is_resumed = received.method == "GET" and RESUMED.search(received.path)
        if received.method != "POST" and not is_resumed:
            return _complaint(wire, 405, f"{received.method}: only POST takes an answer")
        try:
            number, answer_like = self._script.answer(received)
            answer = to_answer(answer_like)
            if not isinstance(answer.body, Reply):
                return answer, list(answer.body)
            if wire is not None:
                frames = wire.frames(answer.body, number, received.body)
                headers = {"content-type": wire.content_type, **answer.headers}
                return replace(answer, headers=headers), frames
        except Exception as error:  # a function of the user's may raise anything
            return _complaint(wire, 500, f"ReplayServer: {type(error).__name__}: {error}")
        return _complaint(
            wire,
            404,
            f"ReplayServer: no format is known at {received.path}; a Reply can be sent at "
            f"{', '.join(f'...{end}' for end in WIRES)}, a recording anywhere",
        )


def to_answer(answer: AnswerLike) -> ServedResponse:
    """The answer for its short form.

    >>> to_answer("Hello").body.text
    'Hello'
    """
    if isinstance(answer, ServedResponse):
        return answer
    if isinstance(answer, Path):
        return ServedResponse.from_recording(answer)
    return ServedResponse(to_reply(answer))


def _complaint(wire: Wire | None, status: int, message: str) -> tuple[ServedResponse, list[bytes]]:
    body: JsonObject = wire.error_body(message) if wire else {"error": {"message": message}}
    answer = ServedResponse.from_status(status, headers=FINAL, body=body)
    assert not isinstance(answer.body, Reply)
    return answer, list(answer.body)


B = TypeVar("B")


class LoopThread:
    """An event loop that runs in a thread until `stop` is called.

    >>> import asyncio
    >>> thread = LoopThread("example")
    >>> thread.call(asyncio.sleep(0, "done"))
    'done'
    >>> thread.stop()
    """

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def call(self, work: Coroutine[Any, Any, B]) -> B:
        """Run a coroutine on the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """Stop the loop, and wait until its tasks have ended."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._wait())

    async def _wait(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._ready.set()
        await self._stop.wait()


PATIENCE = 5.0


class ReplayServer:
    r"""Answers one request after the other, on a free port of this machine.

    The end of a path selects the protocol, and a `Reply` is rendered accordingly: ``/messages``,
    ``/chat/completions``, ``/responses``, ``:streamGenerateContent`` or ``/api/chat``. What is not a reply is sent at any path.
    Only ``POST`` takes an answer, and the ``GET`` that takes up a response in the background (``/responses/<id>``).

    Args:
        answers: One answer for each request, or a function of what was received. A path is a recording, a text is a
            reply with that text.

    >>> import urllib.request
    >>> with ReplayServer(["Hello"]) as server:
    ...     with urllib.request.urlopen(server.base_url + "/v1/messages", data=b"{}") as answer:
    ...         first = answer.readline()
    >>> first
    b'event: message_start\n'
    """

    def __init__(self, answers: Answers[AnswerLike, Received]) -> None:
        self._script = Script[Received, AnswerLike](answers)
        self._started: Listener | None = None
        self._thread: LoopThread | None = None

    async def __aenter__(self) -> Self:
        listener = Listener(self._script)
        await listener.start()
        self._started = listener
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._listener.stop(PATIENCE)

    def __enter__(self) -> Self:
        self._thread = LoopThread("replay-server")
        return self._thread.call(self.__aenter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._thread is not None
        self._thread.call(self._listener.stop(PATIENCE))
        self._thread.stop()

    @property
    def base_url(self) -> str:
        """Where it listens, for example ``http://127.0.0.1:49152``."""
        return f"http://{HOST}:{self._listener.port}"

    @property
    def requests(self) -> Sequence[Received]:
        """The received requests, in order."""
        return self._listener.traffic.requests

    @property
    def open_connections(self) -> int:
        """How many connections are open, in use or kept for the next request."""
        return self._listener.traffic.open_connections

    @property
    def disconnects(self) -> int:
        """How many clients went away before their answer was complete."""
        return self._listener.traffic.disconnects

    async def wait_closed(self, timeout: float = PATIENCE) -> None:  # noqa: ASYNC109
        """Wait until no connection is open; to see that a client closes what it no longer needs.

        Raises:
            TimeoutError: One stayed open.
        """
        traffic = self._listener.traffic
        await self._on_loop(
            traffic.until(lambda: traffic.closed, "all connections to close", timeout)
        )

    async def wait_requests(self, count: int, timeout: float = PATIENCE) -> None:  # noqa: ASYNC109
        """Wait until so many requests have come in.

        Raises:
            TimeoutError: They did not come.
        """
        traffic = self._listener.traffic
        await self._on_loop(
            traffic.until(lambda: len(traffic.requests) >= count, f"{count} requests", timeout)
        )

    async def _on_loop(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait on the server's loop; the caller may run in another loop."""
        loop = self._listener.loop
        if loop is asyncio.get_running_loop():
            await waiting
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(waiting, loop))

    @property
    def _listener(self) -> Listener:
        if self._started is None:
            raise LocalProtocolError(
                "the ReplayServer has not been started: enter it with `async with` or `with`"
            )
        return self._started
