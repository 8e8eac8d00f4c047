"""Responses over WebSockets: one socket a conversation, on which each request has only what is new.

Theory of operation. An exchange has three ways, and goes on to the next while the service has answered nothing: a kept
socket whose last response the request continues, with the new items; a new socket, with the whole input; HTTP, with the
whole input. What a socket delivers is framed as server-sent events, so that decoders, retries and time-outs do not know
of it. A socket carries one response at a time. After a whole response it is kept, with what the service holds of it
(`rxworker.providers.openai_responses.chain`); a task answers its pings, and closes it after a while. After anything
else it is closed, which also is how a response is cancelled. What surprises: the conversation finds its socket, not the
run; so a request whose beginning was rewritten makes a new one.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from contextvars import Context
from functools import partial

import aiohttp
import msgspec
from aiohttp import ClientWSTimeout, WSMsgType
from msgspec import Struct
from reactivex import Observable, abc

from rxworker.errors import HttpStatusError, RemoteProtocolError, TransportError
from rxworker.framing.decoder import MAX_FRAME, too_large
from rxworker.messages.settings import check_number
from rxworker.providers.base import HttpRequest
from rxworker.providers.openai_responses.chain import Creation, Held, Output, ServerEvent, read_event
from rxworker.providers.openai_responses.decode import LAST
from rxworker.transport.http import Exchange, on_subscribe, shown
from rxworker.transport.session import proxy_for, shared_session, unchanged

logger = logging.getLogger("rxworker.transport")

MAX_KEPT = 32
"""Sockets that are kept at a time; the one that was used the longest time ago is closed for another."""
PAUSE = 60.0
"""Seconds without attempts at an address that did not give a socket."""
GONE = ("previous_response_not_found", "websocket_connection_limit_reached")
"""The errors with which the service requests the whole input, or another socket."""
ONLY_HTTP = ("accept", "accept-encoding", "connection", "content-length", "content-type", "host")
KEEP_ALIVE = b":\n\n"
TOO_BIG = 1009
# Closing waits for nothing.
_LEAVE = ClientWSTimeout(ws_close=0.0)  # pyright: ignore[reportCallIssue] - made by attrs, without types


class WebSocketTransport:
    """Sends over WebSockets what is new in the conversation of a request of `rxworker.providers.OpenAIResponses`.

    The service keeps the last response of a socket in memory, so the next request of a tool loop has its new items
    alone, also with ``store: false``. Where it has lost the response, or where the socket is gone, the whole input is
    sent over another socket, and where there is none, over HTTP. A request with ``extra={"generate": False}`` prepares
    a conversation: the service answers it without output.

    Args:
        connect_timeout: Seconds to make a connection; ``None`` waits for as long as it takes.
        idle_timeout: Seconds after which a socket without a request is closed.
        max_age: Seconds after which a socket is not used for another request. OpenAI ends it after 60 minutes.
        max_frame: Bytes that an event may have; ``None`` for any number.

    Raises:
        ConfigurationError: An argument is not a number from 0 up.

    See https://developers.openai.com/api/docs/guides/websocket-mode

    Example:
        >>> from rxworker.providers import OpenAIResponses
        >>> from rxworker.transport import Client
        >>> Client(OpenAIResponses("gpt-5.4", api_key="k"), transport=WebSocketTransport(idle_timeout=60)).transport
        WebSocketTransport(connect_timeout=10.0, idle_timeout=60, max_age=3300.0)
    """

    def __init__(
        self,
        *,
        connect_timeout: float | None = 10.0,
        idle_timeout: float = 300.0,
        max_age: float = 3300.0,
        max_frame: int | None = MAX_FRAME,
    ) -> None:
        check_number("WebSocketTransport(connect_timeout)", connect_timeout, optional=True)
        check_number("WebSocketTransport(idle_timeout)", idle_timeout)
        check_number("WebSocketTransport(max_age)", max_age)
        check_number("WebSocketTransport(max_frame)", max_frame, least=1, whole=True, optional=True)
        timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout)
        self._sockets = _Sockets(timeout, idle_timeout, max_age, max_frame)

    def __repr__(self) -> str:
        known = self._sockets
        times = f"idle_timeout={known.idle_timeout}, max_age={known.max_age}"
        return f"WebSocketTransport(connect_timeout={known.timeout.connect}, {times})"

    def send(self, request: HttpRequest) -> Observable[bytes]:
        """The events of the response, as they would come over HTTP; see `Transport.send`.

        Disposing it closes the socket.

        It fails with a `LocalProtocolError` where no event loop runs, and for a request of another protocol. Requests
        for responses in the background, which no socket carries, go over HTTP.
        """
        sockets = self._sockets
        if request.is_background:
            return on_subscribe(partial(Exchange, request, timeout=sockets.timeout))
        return on_subscribe(partial(_SocketExchange, request, sockets=sockets))


class _Sockets(Struct, eq=False):
    """The sockets of a transport.

    Args:
        timeout: How long a connection may take.
        idle_timeout: See `WebSocketTransport`.
        max_age: See `WebSocketTransport`.
        max_frame: See `WebSocketTransport`.
    """

    timeout: aiohttp.ClientTimeout
    idle_timeout: float
    max_age: float
    max_frame: int | None
    _kept: list[_Socket] = []
    _refused: dict[str, float] = {}

    def take(self, request: HttpRequest, create: Creation) -> _Socket | None:
        """The kept socket whose last response this request continues; the longest of several."""
        loop = asyncio.get_running_loop()
        found: _Socket | None = None
        for socket in self._kept:
            if (
                socket.fits(request, loop)
                and loop.time() - socket.begun < self.max_age
                and (found is None or len(socket.held.sent.items) > len(found.held.sent.items))
                and create.continues(socket.held)
            ):
                found = socket
        if found is not None:
            self._kept.remove(found)
            found.is_taken = True
        return found

    async def open(self, request: HttpRequest) -> _Socket | None:
        """A new socket; ``None``: there is none at this address now."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._refused.get(request.url, 0.0):
            return None
        headers = {k: v for k, v in request.headers.items() if k not in ONLY_HTTP}
        connector = (await shared_session()).connector
        try:
            async with (
                asyncio.timeout(self.timeout.connect),
                # For the time of the handshake; the socket belongs to the connector.
                aiohttp.ClientSession(
                    connector=connector, connector_owner=False, trace_configs=[_no_redirects()]
                ) as session,
            ):
                socket = await session.ws_connect(
                    unchanged(request.url),
                    headers=headers,
                    proxy=proxy_for(request.url),
                    timeout=_LEAVE,
                    autoping=False,
                    max_msg_size=self.max_frame or 0,
                )
        except (aiohttp.ClientError, OSError) as error:
            self.refuse(request.url, f"{type(error).__name__} {getattr(error, 'status', '')}")
            return None
        return _Socket(socket, request, loop)

    def refuse(self, url: str, why: str) -> None:
        """Use HTTP for a while."""
        logger.warning("no WebSocket at %s (%s): HTTP is used for %g s", shown(url), why.strip(), PAUSE)
        self._refused[url] = asyncio.get_running_loop().time() + PAUSE

    def keep(self, socket: _Socket) -> None:
        """Keep a socket for the next request of its conversation."""
        self._kept.append(socket)
        loop = asyncio.get_running_loop()
        # In a context of its own: it belongs to no run any more.
        socket.idle = loop.create_task(self._wait_idle(socket), context=Context())
        kept = [one for one in self._kept if one.loop is loop]
        if len(kept) > MAX_KEPT and (oldest := kept[0].idle) is not None:
            self._kept.remove(kept[0])
            loop.call_soon(oldest.cancel)  # once it has begun, so that it closes the socket

    async def _wait_idle(self, socket: _Socket) -> None:
        """Answer pings, until the socket is taken, or closed, or not needed for a while."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.idle_timeout):
                    while (await socket.receive()).type in (WSMsgType.PING, WSMsgType.PONG):
                        pass
        finally:
            if not socket.is_taken:
                if socket in self._kept:
                    self._kept.remove(socket)
                await socket.close()


class _Socket:
    """A connected socket.

    Attributes:
        loop: Its event loop.
        begun: The time of the loop at which it was connected.
        held: What the service holds of its last response.
        idle: The task that keeps it.
        is_taken: Whether a request uses it.
    """

    held: Held

    def __init__(
        self, connected: aiohttp.ClientWebSocketResponse, request: HttpRequest, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._connected = connected
        self._url = request.url
        self._headers = dict(request.headers)
        self.loop = loop
        self.begun = loop.time()
        self.is_taken = True
        self.idle: asyncio.Task[None] | None = None

    def fits(self, request: HttpRequest, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the request may be sent over it: it has the same address and keys."""
        same = self._url == request.url and self._headers == dict(request.headers)
        return same and self.loop is loop

    async def leave_idle(self) -> None:
        """Wait until its task does not read from it any more."""
        if self.idle is not None:
            self.idle.cancel()
            await asyncio.wait([self.idle])
            self.idle = None

    async def send(self, event: bytes) -> None:
        """Send an event."""
        await self._connected.send_str(event.decode())

    async def receive(self) -> aiohttp.WSMessage:
        """The next message; a ping is answered."""
        message = await self._connected.receive()
        if message.type is WSMsgType.PING:
            await self._connected.pong(message.data)
        return message

    async def close(self) -> None:
        """Close it without waiting for the service."""
        with suppress(aiohttp.ClientError, OSError):
            await self._connected.close()


class _UnansweredError(Exception):
    """The service has not answered a request, and may be sent it again another way."""


class _SocketExchange(Exchange):
    """One request and its response over a socket, else over HTTP."""

    __slots__ = ("_sockets",)

    def __init__(self, request: HttpRequest, observer: abc.ObserverBase[bytes], sockets: _Sockets) -> None:
        super().__init__(request, observer, sockets.timeout)
        self._sockets = sockets

    async def _transfer(self, loop: asyncio.AbstractEventLoop) -> Exception | None:
        create = Creation.read(self._request.body)
        socket = self._sockets.take(self._request, create)
        if socket is not None:
            with suppress(_UnansweredError):
                return await self._respond(socket, create, socket.held)
        socket = await self._sockets.open(self._request)
        if socket is not None:
            try:
                return await self._respond(socket, create)
            except _UnansweredError as error:
                self._sockets.refuse(self._request.url, str(error))
        if create.is_warm_up:
            url = shown(self._request.url)
            raise TransportError(f"there is no WebSocket at {url}: a request with generate=False needs one")
        return await super()._transfer(loop)

    async def _respond(self, socket: _Socket, create: Creation, held: Held | None = None) -> Exception | None:
        """One response over a socket; gives what the observer raises.

        Raises:
            _UnansweredError: Nothing came, and the request may be sent another way.
        """
        output, now, is_begun = Output(create), None, False
        try:
            await socket.leave_idle()
            try:
                await socket.send(create.event(held))
            except (aiohttp.ClientError, OSError) as error:
                raise _UnansweredError(type(error).__name__) from error
            while not self._is_over:
                message = await socket.receive()
                if message.type in (WSMsgType.PING, WSMsgType.PONG):
                    raised = await self._push(KEEP_ALIVE)
                    if raised is not None:
                        return raised
                    continue
                if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    raise self._closed(message, is_begun=is_begun)
                data = message.data
                data = data.encode() if isinstance(data, str) else bytes(data)
                event = read_event(data)
                if event.type in ("error", "response.failed"):
                    self._check_refused(event, is_begun=is_begun)
                if held and not is_begun and event.response and event.response.id == held.response_id:
                    continue  # what a service sends twice at the end of the response before
                is_begun = True
                now = output.take(event)
                # A text of JSON has line ends between its members only.
                line = data.replace(b"\n", b" ").replace(b"\r", b" ")
                raised = await self._push(b"data: %b\n\n" % line)
                if raised is not None or event.type in LAST or event.type == "error":
                    return raised
            return None
        finally:
            if now is None:
                await socket.close()
            else:
                socket.held, socket.is_taken = now, False
                self._sockets.keep(socket)

    def _check_refused(self, event: ServerEvent, *, is_begun: bool) -> None:
        """Raise what an error in place of a response is over HTTP, and what ends the socket alone."""
        if event.code in GONE:
            raise self._broken(str(event.code)) if is_begun else _UnansweredError(str(event.code))
        if is_begun:
            return
        status, headers = event.status, event.headers
        if isinstance(status, int):
            named = headers.items() if isinstance(headers, dict) else ()
            raise HttpStatusError(
                f"{shown(self._request.url)} answered {status} over a WebSocket",
                status=status,
                headers={name.lower(): str(value) for name, value in named},
                body=msgspec.json.encode({"error": event.error}),
                url=shown(self._request.url),
            )

    def _closed(self, message: aiohttp.WSMessage, *, is_begun: bool) -> Exception:
        """The error for a socket that was closed in place of an event."""
        if isinstance(message.data, aiohttp.WebSocketError):
            if message.data.code == TOO_BIG and self._sockets.max_frame is not None:
                return too_large(self._sockets.max_frame)
            return RemoteProtocolError(f"the WebSocket has broken its protocol: {message.data}")
        code = message.data if message.type is WSMsgType.CLOSE else "no code"
        if not is_begun:
            return _UnansweredError(f"closed with {code}")
        return self._broken(f"{code} {message.extra or ''}".strip())

    def _broken(self, why: str) -> TransportError:
        url = shown(self._request.url)
        text = f"the WebSocket to {url} was closed ({why}) before the answer was complete"
        return TransportError(text, retryable=True)


def _no_redirects() -> aiohttp.TraceConfig:
    """Refuses redirects, which would carry the key to another host."""

    async def refuse(*_: object) -> None:
        raise aiohttp.ClientError("a redirect")

    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(refuse)
    return config
