"""The HTTP side of a replay server: connections, and from a request to its answer."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TypeAlias

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from msgspec.structs import replace

from rxworker.messages import JsonObject
from rxworker.testing.answer import Answer
from rxworker.testing.play import play
from rxworker.testing.reply import Reply, to_reply
from rxworker.testing.script import Script
from rxworker.testing.traffic import Received, Traffic, to_received
from rxworker.testing.wire import WIRES, Wire, wire_for
from rxworker.transport.listening import stop_listening

AnswerLike: TypeAlias = Answer | Reply | str | Path

HOST = "127.0.0.1"
# A client that obeys this header shows a complaint of ours at once, and does not try again.
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
        traffic: What came in.
        loop: Its event loop.
        port: Where it listens, once it does.
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

    def _answer(self, received: Received, wire: Wire | None) -> tuple[Answer, list[bytes]]:
        """The next answer and its frames, or a complaint in the shape of the provider's errors."""
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


def to_answer(answer: AnswerLike) -> Answer:
    """What the short forms of an answer stand for.

    >>> to_answer("Hello").body.text
    'Hello'
    """
    if isinstance(answer, Answer):
        return answer
    if isinstance(answer, Path):
        return Answer.from_recording(answer)
    return Answer(to_reply(answer))


def _complaint(wire: Wire | None, status: int, message: str) -> tuple[Answer, list[bytes]]:
    body: JsonObject = wire.error_body(message) if wire else {"error": {"message": message}}
    answer = Answer.from_status(status, headers=FINAL, body=body)
    assert not isinstance(answer.body, Reply)
    return answer, list(answer.body)


__all__ = ["HOST", "AnswerLike", "Listener", "to_answer"]
