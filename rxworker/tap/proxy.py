"""A proxy before a model service: any program, in any language, is tapped by its base URL.

Theory of operation. A request goes on to the service as it came, body and all, and so does the response: compressed
as it is, in the pieces in which it arrives. Only what HTTP gives to one connection is made anew: the host, headers such
as ``Connection``, and trailers, which are dropped. A copy of each piece goes to a `Recorder`, which decodes it later.
Nothing that the recorder does is awaited, and nothing that it raises comes here. After the handshake of a WebSocket
both connections carry bytes alone.

aiohttp gives the body of a response to a task, which waits for each piece: a third of what passing it costs. Here the
connection's protocol is wrapped while a body comes, so that a piece is written to the other connection in the call that
brings it. A WebSocket passes as bytes in both directions: its frames go on as they are, and pings, compression and
closing are between the two sides. A copy is read for the events of OpenAI's Responses, each request of which is an
`Exchange`.

What one side does, the other sees: a response that was cut is cut, and a client that leaves ends the request at once.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Unpack

import aiohttp
from aiohttp import ClientResponse, WSMessage, web
from aiohttp._websocket.models import WSMessageTextBytes  # pyright: ignore[reportPrivateUsage]
from aiohttp._websocket.reader import WebSocketDataQueue, WebSocketReader  # pyright: ignore[reportPrivateUsage]
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict
from reactivex import Observable
from yarl import URL

from rxworker.errors import ConfigurationError
from rxworker.messages.settings import check_number
from rxworker.providers.base import hidden_url
from rxworker.providers.models import model_info
from rxworker.providers.openai_responses.chain import read_event
from rxworker.providers.openai_responses.decode import LAST
from rxworker.run.run import Run
from rxworker.tap.each import TapOptions
from rxworker.tap.recorder import Ending, Exchange, Recorder
from rxworker.tap.requests import protocol_at
from rxworker.transport.http import last_part
from rxworker.transport.listening import host_name, is_loopback, stop_listening
from rxworker.transport.session import proxy_for

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


TOKEN_HEADER = "x-rxworker-token"
"""The header with the token of the proxy; or the token is the first part of the path."""
OF_CONNECTION = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
    ]
)
"""Headers that HTTP gives to one connection; those that ``Connection`` names are others."""
AUTOMATIC = ("user-agent", "accept", "accept-encoding", "content-type")
"""Headers that aiohttp would add."""
LONGEST = 64 * 1024
"""Characters of a line of a head."""
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket"}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class TapProxy:
    """A proxy before a model service, which makes a run of each conversation that passes.

    A program needs no other change than its base URL. The protocols of all providers of this library are decoded
    beside the stream, of Bedrock the one that streams; what has another path passes as well. Keys in headers and
    addresses are neither stored nor shown; what messages and arguments of tools have is. Text is recorded in pieces of
    up to a quarter of a second.

    Args:
        to: The address of the service, such as ``https://api.anthropic.com``.
        host: The address to listen on. An address that other machines can reach requires a token.
        port: The port; 0 for any free port.
        token: What a request needs to pass: as the header ``x-rxworker-token``, or as the first part of its path. It
            does not reach the service.
        idle: Seconds for which a run waits for the results of its calls. Without them it ends as cut off.
        patience: Seconds for which a request that has failed may come again. Without that its run ends as failed.
        options: As for `tap`: ``name``, ``log``, ``labels``, ``tracing``.

    Attributes:
        url: The address of the proxy.
        runs: The observable of the runs, each as it begins.
        open: The runs that go on, by their ids.

    Raises:
        ConfigurationError: Other machines can reach the proxy and it has no token, or an address is wrong.

    Example:
        >>> from rxworker.testing import ReplayServer
        >>> async def main() -> None:
        ...     async with ReplayServer(["Hello."]) as service, TapProxy(service.base_url, port=0) as proxy:
        ...         proxy.runs.subscribe(lambda run: print(run.id[:4]))
        ...         async with aiohttp.ClientSession() as client:
        ...             body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        ...             async with client.post(proxy.url + "v1/messages", json=body) as response:
        ...                 print(response.status, (await response.read())[:20])
        >>> asyncio.run(main())
        200 b'event: message_start'
        run-
    """

    def __init__(
        self,
        to: str,
        *,
        host: str = "127.0.0.1",
        port: int = 8484,
        token: str | None = None,
        idle: float = 600.0,
        patience: float = 60.0,
        **options: Unpack[TapOptions],
    ) -> None:
        if not re.match(r"https?://[^/?#@\s]+(/[^?#\s]*)?$", to):
            raise ConfigurationError(
                f"{hidden_url(to)!r} is not the address of a service: write https://host, without a key or a password, "
                "which the program sends itself"
            )
        if token is None and not is_loopback(host):
            raise ConfigurationError(
                f"{host} can be reached from other machines, and every client that reaches it may use it: give it "
                "a token, or listen on 127.0.0.1"
            )
        check_number("TapProxy(idle)", idle)
        check_number("TapProxy(patience)", patience)
        self._to, self._host, self._port = to.rstrip("/"), host, port
        self._token = token
        self._is_closing = False
        self._service = URL(to).host or ""
        self._recorder = Recorder(self._service, idle, patience, options)
        self.runs: Observable[Run[None]] = self._recorder.runs
        self.open = self._recorder.open
        self.url = ""

    def __repr__(self) -> str:
        return f"TapProxy({hidden_url(self._to)!r}, url={self.url!r})"

    async def __aenter__(self) -> TapProxy:
        model_info("")  # reads the table of models now, and not while something passes
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30.0),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=AUTOMATIC,
            max_line_size=LONGEST,
            max_field_size=LONGEST,
        )
        self._server = web.Server(
            self._handle,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            max_line_size=LONGEST,
            max_field_size=LONGEST,
        )
        try:
            self._listening = await asyncio.get_running_loop().create_server(self._server, self._host, self._port)
        except (OSError, OverflowError) as error:
            await self._session.close()
            raise ConfigurationError(f"cannot listen on {self._host} port {self._port}: {error}") from error
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{shown}:{self._listening.sockets[0].getsockname()[1]}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closing = True
        await stop_listening(self._listening)
        self._server.pre_shutdown()  # closes the connections of clients that have no request
        await self._server.shutdown(1.0)
        await self._session.close()
        await self._recorder.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Pass a request and its response."""
        path, refusal = self._admit(request)
        if refusal is not None:
            return _error(401 if self._token else 403, refusal)
        exchange: Exchange | None = None
        ending: Ending = "left"
        try:
            exchange = self._exchange(request, path) if request.method == "POST" else None
            ending, keep_alive = await self._pass(request, path, exchange)
            return _Passed(keep_alive)
        except asyncio.CancelledError:
            ending = self._cancelled
            raise
        except aiohttp.ClientConnectorError as error:
            ending = "cut"
            response = _error(502, f"no connection to {self._service}: {error.strerror or type(error).__name__}")
            if exchange is not None:
                exchange.take_request(await request.content.read())
                exchange.ask()
                exchange.take(response.body if isinstance(response.body, bytes) else b"")
            return response
        except (aiohttp.ClientError, OSError):  # the service has closed the connection, or the client
            ending = "left" if request.transport is None or request.transport.is_closing() else "cut"
            return _Passed(keep_alive=False)
        finally:
            if exchange is not None:
                exchange.end(ending)

    @property
    def _cancelled(self) -> Ending:
        """How a request has ended whose handler is cancelled."""
        return "stopped" if self._is_closing else "left"

    def _admit(self, request: web.BaseRequest) -> tuple[str, str | None]:
        """The path for the service, and why the request is refused."""
        path = request.raw_path
        if not path.startswith("/"):
            return path, "this is a proxy for one service: make its address the base URL of the program"
        if self._token is None:
            host = host_name(request.headers.get("Host", self._host))
            is_own = host is not None and is_loopback(host)
            return path, None if is_own else f"the Host header names another machine than {self._host}"
        first, slash, rest = path[1:].partition("/")
        if _is_same(request.headers.get(TOKEN_HEADER, ""), self._token):
            return path, None
        if slash and _is_same(first, self._token):
            return f"/{rest}", None
        return path, f"this needs the token of the proxy, in {TOKEN_HEADER} or as the first part of the path"

    def _exchange(self, request: web.BaseRequest, path: str, only: str = "") -> Exchange | None:
        """What records a request, if it is in a known protocol."""
        protocol, model = protocol_at(path.partition("?")[0])
        return Exchange(self._recorder, protocol, model, request) if protocol and only in ("", protocol) else None

    async def _pass(self, request: web.BaseRequest, path: str, exchange: Exchange | None) -> tuple[Ending, bool]:
        """Pass a request; how it has ended, and whether the client's connection can be used again."""
        headers = _passed(request.headers)
        headers.popall("Host", None)
        headers.popall(TOKEN_HEADER, None)
        is_socket = request.headers.get("Upgrade", "").lower() == "websocket"
        if is_socket:
            headers.update(UPGRADE)
        if "Expect" in request.headers:
            headers["Expect"] = request.headers["Expect"]
        response = await self._session.request(
            request.method,
            URL(self._to + path, encoded=True),
            headers=headers,
            data=_body(request, exchange) if request.body_exists else None,
            allow_redirects=False,
            proxy=proxy_for(self._to),
        )
        try:
            if response.status == 101:
                await self._carry(request, response, path)
                return "left", False
            if exchange is not None:
                if not request.body_exists:
                    exchange.ask()
                exchange.response = response
            return await _answer(request, response, exchange)
        finally:
            if response.connection is not None:
                response.close()

    async def _carry(self, request: web.BaseRequest, response: aiohttp.ClientResponse, path: str) -> None:
        """Carry the bytes of a WebSocket until one side closes it."""
        here, there = request.transport, response.connection
        if here is None or there is None or there.transport is None or there.protocol is None:
            return
        headers = _passed(response.headers)
        headers.update(UPGRADE)
        await _begin(request, response, headers)
        reader = SocketReader(partial(self._exchange, request, path, "openai_responses"), response)
        up = Pipe(here, there.transport, Messages(request.protocol, reader.sent).read_copy)
        down = Pipe(there.transport, here, Messages(there.protocol, reader.received).read_copy)
        request.protocol.set_parser(up)  # pyright: ignore[reportArgumentType] - it has the two methods that are called
        there.protocol.set_parser(down, EMPTY_PAYLOAD)
        ending: Ending = "left"
        try:
            await down.ended.wait()
            ending = "cut"
        except asyncio.CancelledError:
            ending = self._cancelled
            raise
        finally:
            if reader.exchange is not None:
                reader.exchange.end(ending)


async def _begin(request: web.BaseRequest, response: aiohttp.ClientResponse, headers: CIMultiDict[str]) -> None:
    """Send the head of a response."""
    await request.writer.write_headers(f"HTTP/1.1 {response.status} {response.reason or ''}", headers)
    request.writer.send_headers()


async def _answer(
    request: web.BaseRequest, response: aiohttp.ClientResponse, exchange: Exchange | None
) -> tuple[Ending, bool]:
    """Send the response to the client, as it arrives."""
    writer, headers, keep_alive = request.writer, _passed(response.headers), request.keep_alive
    is_empty = request.method == "HEAD" or response.status in (204, 304)
    if not is_empty and "Content-Length" not in headers:
        if request.version >= aiohttp.HttpVersion11:
            writer.enable_chunking()
            headers["Transfer-Encoding"] = "chunked"
        else:
            keep_alive = False
    headers["Connection"] = "keep-alive" if keep_alive else "close"
    await _begin(request, response, headers)
    assert request.transport is not None
    body = Body(
        response, request.transport, bool if exchange is None else exchange.take, "Transfer-Encoding" in headers
    )
    try:
        await body.ended.wait()
    finally:
        body.stop()
    if body.error is not None:
        return "cut", False  # what was written goes out before the connection is closed
    if not is_empty:
        await writer.write_eof()
    return "whole", keep_alive


async def _body(request: web.BaseRequest, exchange: Exchange | None) -> AsyncGenerator[bytes, None]:
    """The body of a request, as it arrives."""
    if "Expect" in request.headers and request.transport is not None:
        request.transport.write(CONTINUE)  # the service has sent it
    async for data in request.content.iter_any():
        if exchange is not None:
            exchange.take_request(data)
        yield data
    if exchange is not None:
        exchange.ask()


class _Passed(web.StreamResponse):
    """A response that was sent already."""

    def __init__(self, keep_alive: bool) -> None:
        super().__init__()
        self._is_kept = keep_alive

    @property
    def keep_alive(self) -> bool:
        """Whether the client's connection can be used again."""
        return self._is_kept

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing."""


def _passed(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """The headers that are not of one connection."""
    named = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    return CIMultiDict(
        [(k, v) for k, v in headers.items() if (low := k.lower()) not in named and low not in OF_CONNECTION]
    )


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def _error(status: int, message: str) -> web.Response:
    """An error of the proxy itself, in the form that most clients show."""
    return web.json_response({"error": {"type": "rxworker_proxy", "message": message}}, status=status)
