"""Bytes that are carried from one connection to another, as soon as they are there.

Theory of operation. aiohttp gives the body of a response to a task, which waits for each piece: a third of what passing
it costs. Here the connection's protocol is wrapped while a body comes, so that a piece is written to the other
connection in the call that brings it. A WebSocket passes as bytes in both directions: its frames go on as they are, and
pings, compression and closing are between the two sides. A copy is read for the events of OpenAI's Responses, each
request of which is an `Exchange`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from aiohttp import ClientResponse, WSMessage
from aiohttp._websocket.models import WSMessageTextBytes  # pyright: ignore[reportPrivateUsage]
from aiohttp._websocket.reader import WebSocketDataQueue, WebSocketReader  # pyright: ignore[reportPrivateUsage]
from aiohttp.base_protocol import BaseProtocol

from rxworker.providers.openai_responses.chain import read_event
from rxworker.providers.openai_responses.decode import LAST
from rxworker.tap.recorder import Exchange
from rxworker.transport.http import last_part

BEHIND = 64 * 1024
"""Bytes that wait for one side, after which the other is not read."""
PAUSE = 0.01
"""Seconds after which a side that is behind is looked at again."""


class Pipe:
    """Carries the bytes of one connection to another. A parser for the protocols of aiohttp.

    Args:
        source: Where the bytes come from.
        target: Where they go.
        copy: Takes a copy.

    Attributes:
        ended: Set when the source is closed, or has no more.
    """

    def __init__(
        self, source: asyncio.Transport | None, target: asyncio.Transport, copy: Callable[[bytes], object]
    ) -> None:
        self._source, self._target, self._copy = source, target, copy
        self.ended = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Carry bytes."""
        self._write(data)
        self._copy(data)
        return False, b""

    def feed_eof(self) -> None:
        """The source is closed: so is the target, after what was written."""
        self._target.close()
        self.ended.set()

    def _write(self, data: bytes) -> None:
        self._target.write(data)
        if self._source is not None and self._target.get_write_buffer_size() > BEHIND:
            self._source.pause_reading()
            self._look()

    def _look(self) -> None:
        if self._target.get_write_buffer_size() > BEHIND and not self._target.is_closing():
            asyncio.get_running_loop().call_later(PAUSE, self._look)
        elif self._source is not None:
            with suppress(RuntimeError):  # it is closed
                self._source.resume_reading()


class Body(Pipe):
    """Carries the body of a response; wraps the protocol of its connection until it is whole, or was cut.

    What it does not do itself, that protocol does.

    Args:
        response: The response.
        target: Where it goes.
        copy: Takes a copy.
        is_chunked: Whether each piece is a chunk of HTTP.

    Attributes:
        error: Why it was cut.
    """

    def __init__(
        self, response: ClientResponse, target: asyncio.Transport, copy: Callable[[bytes], object], is_chunked: bool
    ) -> None:
        connection = response.connection
        super().__init__(None if connection is None else connection.transport, target, copy)
        self._protocol = None if connection is None else connection.protocol
        self._content, self._is_chunked = response.content, is_chunked
        self.error: BaseException | None = None
        if self._source is not None:
            self._source.set_protocol(self)  # pyright: ignore[reportArgumentType] - it has the methods of one
        self._carry()

    def __getattr__(self, name: str) -> object:
        return getattr(self._protocol, name)

    def data_received(self, data: bytes) -> None:
        """Bytes have come: they are parsed, and what they bring of the body is carried."""
        assert self._protocol is not None
        self._protocol.data_received(data)
        self._carry()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        assert self._protocol is not None
        self._protocol.connection_lost(exc)
        self._carry()

    def stop(self) -> None:
        """Give the connection its protocol back."""
        if self._source is not None and self._protocol is not None:
            self._source.set_protocol(self._protocol)
        self._source = None
        self.ended.set()

    def _carry(self) -> None:
        content = self._content
        data = last_part(content)
        is_over = content.is_eof() or content.exception() is not None
        if not is_over:
            data = content.read_nowait()
        if data and not self._target.is_closing():
            self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)
            self._copy(data)
        if is_over:
            self.error = content.exception()
            self.stop()


class Messages(WebSocketDataQueue):
    """Reads the messages of one direction of a WebSocket.

    Args:
        protocol: That of the connection.
        take: Takes each message.
    """

    def __init__(self, protocol: BaseProtocol, take: Callable[[bytes], object]) -> None:
        super().__init__(protocol, 0, loop=asyncio.get_running_loop())
        self._take = take
        self._reader = WebSocketReader(self, 0, compress=True, decode_text=False)

    def read_copy(self, data: bytes) -> None:
        """Read bytes."""
        self._reader.feed_data(data)

    def feed_data(self, data: WSMessage | WSMessageTextBytes, size: int) -> None:
        """Take a message, at once, so that none waits here."""
        del size
        if isinstance(data.data, bytes):
            self._take(data.data)


class SocketReader:
    """Makes exchanges of what passes over a WebSocket of Responses.

    Args:
        make: Makes an exchange, if it is recorded.
        response: That of the handshake.

    Attributes:
        exchange: The one that goes on.
    """

    def __init__(self, make: Callable[[], Exchange | None], response: ClientResponse) -> None:
        self._make, self._response = make, response
        self.exchange: Exchange | None = None

    def sent(self, message: bytes) -> None:
        """Take a message of the client."""
        if read_event(message).type == "response.create" and (made := self._make()) is not None:
            self.exchange = made
            made.response = self._response
            made.take_request(message)
            made.ask()

    def received(self, message: bytes) -> None:
        """Take a message of the service."""
        if self.exchange is not None:
            self.exchange.take(b"data: %b\n\n" % message.replace(b"\n", b" "))
            if read_event(message).type in (*LAST, "error"):
                self.exchange.end("whole")
                self.exchange = None
