"""The web server as an ASGI application, to run in uvicorn or to mount into FastAPI, Starlette or Django.

It serves the routes of `rxworker.ui.web` with the same guard, and needs no package besides. Source of the protocol:
https://asgi.readthedocs.io/en/latest/specs/www.html

Theory of operation. ASGI reports a disconnect only to a reader of ``receive``. When the body was read, a task reads
there; when the client has disconnected, it cancels the handler. A stream that breaks off returns without its last
message, so that the server closes the connection and no client takes the response for complete.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, Unpack
from urllib.parse import parse_qsl, quote

from aiohttp import WSCloseCode, web
from multidict import CIMultiDict, CIMultiDictProxy, MultiDict, MultiDictProxy

from rxworker.errors import ConfigurationError
from rxworker.ui.web.api import SOCKET, routes_of
from rxworker.ui.web.guard import add_headers
from rxworker.ui.web.http.request import SUBPROTOCOL, ResponseStream, Route, Socket, WebRequest, with_authorization
from rxworker.ui.web.http.responses import ApiError
from rxworker.ui.web.http.settings import Settings
from rxworker.ui.web.runs.workers import Workers
from rxworker.ui.web.state import ServerOptions, ServerState

Scope: TypeAlias = MutableMapping[str, Any]
"""The connection scope of an ASGI server."""

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class AsgiApp:
    """The web server as an ASGI application: the page, the API, and the streams of runs.

    It runs by itself, or within another application: ``site.mount("/desk", desk)``. A mounted application is started
    and closed by the program, with `lifespan`; otherwise it starts with its first request, and its runs end with the
    process.

    Args:
        workers: A worker, or a function that makes one for each conversation, or several by name.
        options: See `ServerOptions`.

    Attributes:
        state: The state, with the methods for the program that contains the server.

    Raises:
        ConfigurationError: There is no worker, or ``user`` or ``on_run`` is not callable.

    >>> from rxworker import Worker
    >>> from rxworker.testing import ScriptedModel
    >>> AsgiApp(lambda: Worker(ScriptedModel(["Hello!"])))
    AsgiApp(Settings(title='rxworker', token=None))
    """

    def __init__(self, workers: Workers, **options: Unpack[ServerOptions]) -> None:
        self.state = ServerState(workers, **options)
        self._settings = self.state.settings
        self._routes = [(_pattern(route.path), route) for route in routes_of(self.state)]
        self._start: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"AsgiApp({self._settings!r})"

    async def start(self) -> None:
        """Load the runs of the log, and follow it. The first request does it otherwise."""
        if self._start is None:
            self._start = asyncio.ensure_future(self.state.start())
        try:
            await asyncio.shield(self._start)
        except Exception:
            self._start = None  # the next request tries again
            raise

    async def close(self) -> None:
        """Cancel the runs of clients, and close all connections. Runs of a log are handed over."""
        await self.state.close()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncGenerator[None, None]:  # noqa: ARG002 - as FastAPI calls it
        """Start and close it.

        ``FastAPI(lifespan=desk.lifespan)``, since a mounted application gets no lifespan of its own.
        """
        await self.start()
        try:
            yield
        finally:
            await self.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection: the entry point for an ASGI server."""
        if scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
        elif scope["type"] in ("http", "websocket"):
            await self.start()
            await self._serve(scope, receive, send)
        else:
            raise ConfigurationError(f"there is no handler for {scope['type']!r:.60} of ASGI")

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        route, params, allowed = self._find(scope)
        request = AsgiRequest(scope, receive, send, route, params, self._settings)

        async def handle(request: WebRequest) -> web.Response | None:
            if route is not None and scope["type"] == "websocket" and route.name != SOCKET:
                raise ApiError(400, "no_http", "this address takes only HTTP requests")
            if route is not None:
                return await route.handle(request)
            raise web.HTTPMethodNotAllowed(request.method, allowed) if allowed else web.HTTPNotFound

        try:
            response = await self.state.guard.serve(request, handle)
        except web.HTTPException as error:
            response = error  # such as a redirect to a login page
        except (ConnectionError, TimeoutError):
            return  # the client has disconnected
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not request.is_closed or task.uncancel():
                raise
            return
        finally:
            request.release()
        if response is not None:
            with suppress(OSError):
                await request.answer(response)

    def _find(self, scope: Scope) -> tuple[Route | None, Mapping[str, str], list[str]]:
        """The route of a request, the parts of its path, and the methods of the path if no route has this one."""
        path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
        if root and path.startswith(f"{root}/"):
            path = path[len(root) :]
        method = scope.get("method", "GET")
        allowed: set[str] = set()
        for pattern, route in self._routes:
            found = pattern.fullmatch(path)
            if found is None:
                continue
            if method == route.method or (method == "HEAD" and route.has_head):
                return route, found.groupdict(), []
            allowed |= {route.method, "HEAD"} if route.has_head else {route.method}
        return None, {}, sorted(allowed)


def _pattern(path: str) -> re.Pattern[str]:
    """The regular expression of a route's path.

    >>> _pattern("/api/runs/{id}/send").fullmatch("/api/runs/a.b/send")["id"]
    'a.b'
    >>> _pattern("/static/{path:.+}").fullmatch("/static/a/b.js")["path"]
    'a/b.js'
    """
    names = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path.replace(".", r"\."))
    return re.compile(re.sub(r"\{(\w+):\\\.\+\}", r"(?P<\1>.+)", names))


PIECE = 64 * 1024
"""Bytes that a client has to read within ``stall_seconds``: a slow client that reads a little is not disconnected."""


class AsgiRequest(WebRequest):
    """A request of an ASGI server: one of HTTP, or one that opens a WebSocket."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        route: Route | None,
        params: Mapping[str, str],
        settings: Settings,
    ) -> None:
        self.native = self._scope = scope
        self.method = scope.get("method", "GET")
        self.path = scope["path"]
        raw_path: bytes = scope.get("raw_path") or quote(self.path).encode()
        self.raw_path = raw_path.partition(b"?")[0].decode("ascii", "backslashreplace")
        query: bytes = scope.get("query_string", b"")
        self.query = MultiDictProxy(MultiDict(parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True)))
        headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
        self.headers = with_authorization(
            CIMultiDictProxy(
                CIMultiDict(
                    (name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in headers
                )
            )
        )
        self.cookies = dict(_cookies(self.headers.getall("Cookie", [])))
        client = scope.get("client")
        self.remote = None if client is None else str(client[0])
        self.is_secure = scope.get("scheme") in ("https", "wss")
        self.params = params
        self.route = None if route is None else route.name
        self.settings = settings
        self._is_socket = scope["type"] == "websocket"
        self._receive = receive
        self._send = send
        self._is_closed = False
        self._watch: asyncio.Task[None] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the client has disconnected."""
        return self._is_closed

    async def body(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces."""
        more = not self._is_socket
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._is_closed = True
                raise ConnectionResetError("the client has disconnected")
            yield message.get("body", b"")
            more = message.get("more_body", False)
        self._cancel_with_client()

    async def stream(self, headers: Mapping[str, str]) -> _Stream:
        """Begin a response."""
        self.has_sent = True
        await self._begin("http.response", 200, CIMultiDict(headers))
        self._cancel_with_client()
        return _Stream(self)

    def _cancel_with_client(self) -> None:
        """Cancel the handler when the client disconnects. The body was read, so that nothing else is received."""
        handler = asyncio.current_task()
        if self._watch is None and handler is not None and not self._is_socket:
            self._watch = asyncio.create_task(self._cancel_on_disconnect(handler))

    async def _cancel_on_disconnect(self, handler: asyncio.Task[object]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._is_closed = True
        handler.cancel()

    def release(self) -> None:
        """Stop reading from the client: the request was handled."""
        if self._watch is not None:
            self._watch.cancel()

    async def open_socket(self, max_message: int) -> _Socket | None:
        """Accept a WebSocket."""
        if not self._is_socket:
            return None
        await self._receive()  # websocket.connect
        headers: CIMultiDict[str] = CIMultiDict()
        add_headers(headers, self.origin)
        accept: Message = {"type": "websocket.accept", "headers": _encoded(headers)}
        if SUBPROTOCOL in self._scope.get("subprotocols", ()):
            accept["subprotocol"] = SUBPROTOCOL
        await self._send(accept)
        return _Socket(self, self._receive, max_message)

    async def answer(self, response: web.Response) -> None:
        """Send a whole response."""
        kind = "http.response"
        if self._is_socket:
            await self._receive()  # websocket.connect
            kind = "websocket.http.response"
            if kind not in (self._scope.get("extensions") or {}):
                await self._send({"type": "websocket.close", "code": WSCloseCode.POLICY_VIOLATION})
                return
        body = response.body if isinstance(response.body, bytes | bytearray) else b""
        headers = CIMultiDict(response.headers)
        for cookie in response.cookies.values():
            headers.add("Set-Cookie", cookie.OutputString())
        if response.status not in (204, 304):
            headers["Content-Length"] = str(len(body))
        await self._begin(kind, response.status, headers)
        sent = b"" if self.method == "HEAD" else bytes(body)
        await self.send_body(sent, kind)

    async def send_body(self, data: bytes, kind: str = "http.response", *, more: bool = False) -> None:
        """Send a part of a body in pieces; the last part unless there is ``more``.

        Raises:
            ConnectionError: The client has disconnected, or reads nothing.
        """
        for start in range(0, len(data) or 1, PIECE):
            body, is_last = data[start : start + PIECE], start + PIECE >= len(data)
            await self.send({"type": f"{kind}.body", "body": body, "more_body": more or not is_last})

    async def send(self, message: Message) -> None:
        """Send a message of ASGI.

        Raises:
            ConnectionError: The client has disconnected, or reads nothing.
        """
        try:
            async with asyncio.timeout(self.settings.stall_seconds):
                await self._send(message)
        except TimeoutError:
            raise ConnectionAbortedError("the client reads nothing") from None
        except OSError as error:
            raise ConnectionResetError("the client has disconnected") from error

    async def _begin(self, kind: str, status: int, headers: CIMultiDict[str]) -> None:
        add_headers(headers, self.origin)
        await self._send({"type": f"{kind}.start", "status": status, "headers": _encoded(headers)})


def _encoded(headers: CIMultiDict[str]) -> list[tuple[bytes, bytes]]:
    # The server names itself.
    return [
        (name.lower().encode("latin-1"), value.encode("utf-8", "surrogateescape"))
        for name, value in headers.items()
        if name != "Server"
    ]


def _cookies(headers: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The cookies of the headers.

    >>> dict(_cookies(['a=1; b="2"', "c"]))
    {'a': '1', 'b': '2'}
    """
    for header in headers:
        for part in header.split(";"):
            name, equals, value = part.strip().partition("=")
            if equals:
                yield name, value.strip('"')


class _Stream(ResponseStream):
    """A response that an ASGI server sends, which may make each piece wait."""

    def __init__(self, request: AsgiRequest) -> None:
        self._request = request

    async def write(self, piece: bytes, /) -> None:
        await self._request.send_body(piece, more=True)

    async def end(self) -> None:
        await self._request.send_body(b"")

    def abort(self) -> None:
        """Do nothing: the server closes a connection whose response is not complete."""


class _Socket(Socket):
    """A WebSocket of an ASGI server, which may make each message wait."""

    def __init__(self, request: AsgiRequest, receive: Receive, max_message: int) -> None:
        self._request = request
        self._receive = receive
        self._max_message = max_message
        self._is_closed = False

    async def messages(self) -> AsyncGenerator[str | bytes, None]:
        while not self._is_closed:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self._is_closed = True
                return
            text: str | None = message.get("text")
            data: str | bytes = message.get("bytes") or b"" if text is None else text
            if len(data) > self._max_message:
                await self.close(WSCloseCode.MESSAGE_TOO_BIG, "this message is too large")
                return
            yield data

    async def write(self, piece: bytes, /) -> None:
        if self._is_closed:
            raise ConnectionResetError("the client has disconnected")
        await self._request.send({"type": "websocket.send", "text": piece.decode()})

    async def close(self, code: int, reason: str) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(ConnectionError):
            await self._request.send({"type": "websocket.close", "code": int(code), "reason": reason})
