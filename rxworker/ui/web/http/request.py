"""A request as the handlers see it, whichever server has received it: aiohttp, or one that speaks ASGI.

Responses are values of aiohttp (`aiohttp.web.Response`), which need no connection. What needs one is a method of the
request: its body as it arrives, a streamed response, and a WebSocket.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import urlsafe_b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, TypeAlias

from aiohttp import web
from msgspec import Struct, to_builtins
from multidict import CIMultiDict, CIMultiDictProxy, MultiMapping

from rxworker.messages import JsonObject
from rxworker.ui.web.http.settings import Settings


class Shown(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a link shows: a run with its dashboards; or one dashboard, of a run, of a conversation, or of all runs.

    Attributes:
        run: The id of the run.
        board: The name of the dashboard; empty for a run with all of them.
        conversation: The id of the conversation.
        call: The id of a call of the run. Then the link shows nothing, and delivers the result of the call, once.
    """

    run: str = ""
    board: str = ""
    conversation: str = ""
    call: str = ""

    @property
    def scope(self) -> tuple[str, str]:
        """What its dashboards are shown of."""
        return self.run, self.conversation


class Link(Shown, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A link, as it is kept. A member that is not known may restrict what it shows, so that no link is read then.

    Attributes:
        id: Its id, which is not a secret.
        created: When it was made, in seconds since the epoch.
        until: When it ends; ``None``: not before it is revoked.
        owner: The user who made it, if the server has users.
        digest: The digest of its secret.
    """

    id: str
    created: float
    until: float | None = None
    owner: str | None = None
    digest: str

    def is_over(self, now: float) -> bool:
        """Whether it has ended."""
        return self.until is not None and now >= self.until

    @property
    def info(self) -> JsonObject:
        """The link for its owner and its clients."""
        return {name: to_builtins(getattr(self, name)) for name in INFO}


INFO = ("id", "run", "board", "conversation", "call", "created", "until")

SUBPROTOCOL = "rxworker"
"""The protocol of the WebSocket, which a client must name if it names any."""

_TOKEN = f"{SUBPROTOCOL}.token."


def with_authorization(headers: CIMultiDictProxy[str]) -> CIMultiDictProxy[str]:
    """The headers, with the token that a WebSocket of a browser brings as the name of a protocol.

    It cannot send ``Authorization``.

    >>> sent = CIMultiDict({"Sec-WebSocket-Protocol": "rxworker, rxworker.token.YSBzZWNyZXQ"})
    >>> with_authorization(CIMultiDictProxy(sent))["Authorization"]
    'Bearer a secret'
    """
    if "Authorization" in headers:
        return headers
    for each in headers.get("Sec-WebSocket-Protocol", "").split(","):
        if not (name := each.strip()).startswith(_TOKEN):
            continue
        try:
            token = urlsafe_b64decode(name.removeprefix(_TOKEN) + "==").decode()
        except ValueError:
            return headers
        return CIMultiDictProxy(CIMultiDict(headers, Authorization=f"Bearer {token}"))
    return headers


class WebRequest(ABC):
    """A request to the web server.

    Attributes:
        native: The request as its server knows it: an ``aiohttp.web.Request``, or the ``scope`` of ASGI.
        method: The method, such as ``GET``.
        path: The path of the address, decoded, with the prefix of a mounted application.
        raw_path: The path as it was sent.
        query: The parameters of the address.
        headers: The headers.
        cookies: The cookies.
        remote: The address of the client, if known.
        is_secure: Whether the connection is encrypted.
        params: The parts of the path that the route names.
        route: The name of the route; empty for a route without one, ``None`` if there is no route for the request.
        owner: The name of the user, if the server has users.
        origin: The other origin whose page may read the response.
        link: The read-only link whose token it has.
        only_delivers: Whether it has the token with which results are delivered, which gives no other right.
        has_sent: Whether a streamed response has begun.
        settings: The settings of the server, such as the limits of a body.
    """

    native: object
    method: str
    path: str
    raw_path: str
    query: MultiMapping[str]
    headers: CIMultiDictProxy[str]
    cookies: Mapping[str, str]
    remote: str | None
    is_secure: bool
    params: Mapping[str, str]
    route: str | None
    owner: str | None = None
    origin: str | None = None
    link: Link | None = None
    only_delivers: bool = False
    has_sent: bool = False
    settings: Settings

    @property
    def host(self) -> str:
        """The host that the request names: of its address if it has one, otherwise of its ``Host`` header."""
        return self.headers.get("Host", "")

    @property
    def content_type(self) -> str:
        """The media type of the body without its parameters, in lower case."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def content_length(self) -> int | None:
        """The length that the client has announced, in bytes."""
        length = self.headers.get("Content-Length", "")
        return int(length) if length.isascii() and length.isdecimal() else None

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the client is known to have disconnected."""

    @abstractmethod
    def body(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces, as it arrives.

        Raises:
            ConnectionError: The client has disconnected.
            ValueError: The body is cut off, or not framed as HTTP.
        """

    @abstractmethod
    async def stream(self, headers: Mapping[str, str]) -> ResponseStream:
        """Begin a response whose body is written in pieces.

        Raises:
            ConnectionError: The client has disconnected.
        """

    @abstractmethod
    async def open_socket(self, max_message: int) -> Socket | None:
        """Accept the WebSocket that the request opens; ``None`` if it opens none.

        Args:
            max_message: The maximum number of bytes of a client's message.
        """


class Outlet(Protocol):
    """A connection to a client, as far as pieces are written to it.

    Attributes:
        writes_now: Whether `write_now` may write.
    """

    writes_now: bool = False

    def write_now(self, piece: bytes, /) -> bool:
        """Write a piece unless the client is behind.

        ``False`` if nothing was written: then use `write`, which waits, or fails.
        """
        del piece
        return False

    async def write(self, piece: bytes, /) -> None:
        """Write a piece, as soon as the client has read enough.

        A client that reads nothing for ``stall_seconds`` is disconnected.

        Raises:
            ConnectionError: The client has disconnected, or reads nothing.
        """
        ...


class ResponseStream(Outlet, Protocol):
    """A response whose body is written in pieces."""

    async def end(self) -> None:
        """The body is complete."""
        ...

    def abort(self) -> None:
        """Close the connection: a truncated response must not look complete."""
        ...


class Socket(Outlet, Protocol):
    """An open WebSocket. Each piece is a text message in UTF-8."""

    def messages(self) -> AsyncGenerator[str | bytes, None]:
        """The messages of the client until it disconnects, or sends what is not a message."""
        ...

    async def close(self, code: int, reason: str) -> None:
        """Close the connection."""
        ...


Handler: TypeAlias = Callable[[WebRequest], Awaitable[web.Response | None]]
"""Answers a request; ``None`` if it has streamed its response, or served a WebSocket."""


class Route(Struct, frozen=True):
    """An address of the server.

    Attributes:
        method: The method.
        path: The path: ``{name}`` stands for one segment, ``{name:.+}`` for the rest.
        handle: Answers the request.
        name: The name of the route.
        has_head: Whether ``HEAD`` is answered like ``GET``, without the body.
    """

    method: str
    path: str
    handle: Handler
    name: str = ""
    has_head: bool = True


def get(path: str, handle: Handler, name: str = "", *, has_head: bool = True) -> Route:
    """A route for ``GET``."""
    return Route("GET", path, handle, name, has_head)


live = partial(get, has_head=False)
"""A route for ``GET`` whose answer goes on, so that there is none for ``HEAD``."""


def post(path: str, handle: Handler, name: str = "") -> Route:
    """A route for ``POST``."""
    return Route("POST", path, handle, name)


def delete(path: str, handle: Handler, name: str = "") -> Route:
    """A route for ``DELETE``."""
    return Route("DELETE", path, handle, name)
