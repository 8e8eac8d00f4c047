"""A request as the handlers see it, whichever server has received it: aiohttp, or one that speaks ASGI.

Responses are values of aiohttp (`aiohttp.web.Response`), which need no connection. What needs one is a method of the
request: its body as it arrives, a streamed response, and a WebSocket.

The settings of the web server, and the checks of the ``Host`` and ``Origin`` headers.

A page of another origin can make a browser send requests to this server: directly, or by having its own name resolve to
this machine. The ``Origin`` header reveals the first, the ``Host`` header the second. Pure.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from base64 import urlsafe_b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address, ip_network
from math import inf
from pathlib import Path
from typing import Protocol, TypeAlias

from aiohttp import web
from msgspec import Struct, field, to_builtins
from multidict import CIMultiDict, CIMultiDictProxy, MultiMapping

from rxworker.errors import ConfigurationError
from rxworker.messages import JsonObject, Prices
from rxworker.messages.settings import check_number


class Shown(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a link shows: a run with its dashboards; or one dashboard, of a run, of a conversation, or of all runs.

    Attributes:
        run: The id of the run.
        board: The name of the dashboard; empty for a run with all of them.
        conversation: The id of the conversation.
    """

    run: str = ""
    board: str = ""
    conversation: str = ""

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


INFO = ("id", "run", "board", "conversation", "created", "until")

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
        has_sent: Whether a streamed response has begun.
        max_body: The maximum number of bytes of the body.
        body_seconds: Seconds that the body may take to arrive.
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
    has_sent: bool = False
    max_body: int
    body_seconds: float

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


class ResponseStream(Protocol):
    """A response whose body is written in pieces.

    Attributes:
        writes_now: Whether `write_now` may write.
    """

    writes_now: bool

    def write_now(self, data: bytes) -> bool:
        """Write a piece unless the client is behind.

        ``False`` if nothing was written: then use `write`, which waits, or fails.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Write a piece. A client that reads nothing for ``stall_seconds`` is disconnected.

        Raises:
            ConnectionError: The client has disconnected.
        """
        ...

    async def end(self) -> None:
        """The body is complete."""
        ...

    def abort(self) -> None:
        """Close the connection: a truncated response must not look complete."""
        ...


class Socket(Protocol):
    """An open WebSocket.

    Attributes:
        writes_now: Whether `send_now` may send.
    """

    writes_now: bool

    def send_now(self, data: bytes) -> bool:
        """Send a text message unless the client is behind.

        ``False`` if nothing was sent: then use `send`, which waits, or fails.
        """
        ...

    def messages(self) -> AsyncGenerator[str | bytes, None]:
        """The messages of the client until it disconnects, or sends what is not a message."""
        ...

    async def send(self, data: bytes) -> None:
        """Send a text message. A client that reads nothing for ``stall_seconds`` is disconnected.

        Args:
            data: The text in UTF-8.

        Raises:
            ConnectionError: The client has disconnected.
        """
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


THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?", re.A)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0"), is_loopback("localhost")
    (True, False, True)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str | None:
    """Return the name in a ``Host`` header without its port; ``None`` if the header is malformed.

    >>> host_name("LOCALHOST:8080"), host_name("[::1]:8080"), host_name("a b")
    ('localhost', '::1', None)
    """
    match = _HOST.fullmatch(header)
    return None if match is None else match["name"].strip("[]").lower()


class Hosts:
    """The host names that requests may use.

    Args:
        allowed: Names, networks of addresses, or ``*``; besides those of this machine.

    Raises:
        ConfigurationError: A network is malformed.

    >>> hosts = Hosts(["desk.example.com", "192.168.0.0/16"])
    >>> hosts.allow("localhost:8080"), hosts.allow("192.168.1.7"), hosts.allow("127.0.0.1.evil.com")
    (True, True, False)
    """

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._any = "*" in allowed
        self._names = THIS_MACHINE | {name.strip("[]").lower() for name in allowed if "/" not in name}
        try:
            self._networks = tuple(ip_network(network) for network in allowed if "/" in network)
        except ValueError as error:
            raise ConfigurationError(
                f"allowed_hosts: {error}; give names such as desk.example.com, or networks such as 10.0.0.0/8"
            ) from error

    def allow(self, header: str) -> bool:
        """Whether a request with this ``Host`` header is allowed."""
        name = host_name(header)
        if name is None:
            return False
        if self._any or name in self._names:
            return True
        if not self._networks:
            return False
        try:
            address = ip_address(name)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def is_own_origin(origin: str, host: str, allowed: Sequence[str] = ()) -> bool:
    """Whether a page of this origin may send requests to the server at this host.

    >>> is_own_origin("http://localhost:8080", "localhost:8080")
    True
    >>> is_own_origin("null", "localhost:8080"), is_own_origin("http://localhost:9", "localhost:8080")
    (False, False)
    """
    if origin in allowed:
        return True
    scheme, _, name = origin.partition("://")
    return scheme in ("http", "https") and name.lower() == host.lower()


SHORTEST_TOKEN = 8
MAX_WRITES = 1000.0
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]+")
COUNTS = (
    "max_body",
    "max_runs",
    "max_runs_per_user",
    "max_kept",
    "max_connections",
    "max_watchers",
    "max_watchers_per_run",
)


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of the web server. The defaults suit one user on this machine.

    Attributes:
        title: The title of the page.
        token: The token that every request except those for static files must contain; ``None``: no token, for this
            machine alone.
        allowed_hosts: The host names that requests may use, besides ``localhost``, ``127.0.0.1`` and ``[::1]``: names,
            networks of addresses such as ``192.168.0.0/16``, or ``*`` for any name.
        allowed_origins: The origins of other pages that may send requests; for example ``https://desk.example.com``.
            They may also read the answers of OpenAI's APIs, and show runs in their own pages.
        max_body: The maximum number of bytes of a request's body.
        max_runs: The maximum number of runs that are running at once, of all users together.
        max_runs_per_user: The maximum number of runs of one user that are running at once, if the server has users.
        max_kept: The maximum number of ended runs that are kept, and of paused runs that wait for a person, of all
            users together; of each, the oldest run of the user with the most is dropped first.
        max_connections: The maximum number of connections of `serve` and `WebServer`; further ones are closed. For a
            mounted application, the maximum number of open requests and streams; further ones are answered with 503.
            Must be below the number of files that the program may open.
        max_watchers: The maximum number of watching clients, over all runs.
        max_watchers_per_run: The maximum number of watching clients of one run.
        body_seconds: Seconds a request's body may take to arrive.
        heartbeat: Seconds of silence after which a keep-alive is sent.
        stall_seconds: Seconds after which a client that reads nothing is disconnected; it may reconnect and continue.
        grace: Seconds after which a run without watchers is cancelled; ``None``: never.
        writes_per_second: The maximum rate at which deltas are sent to a client; starts and ends are sent at once.
            ``None``: no limit.
        cancel_on_disconnect: Seconds after which the run of an AG-UI or ``useChat`` client is cancelled when that
            client has closed its connection, which is how these clients stop a run; ``None``: never, and such a run
            continues without its client.
        close_delay: Seconds that `serve` and `WebServer` still serve when they are stopped, while ``/readyz`` answers
            503, so that a load balancer sends its clients to another server first.
        prices: The prices of tokens, by the model's name, for the cost of the runs.
        mermaid: The file ``dist/mermaid.min.js`` of the npm package ``mermaid``, with which the page draws diagrams on
            request. ``None``: they stay code.
        xray: Whether those who may see a dashboard may also see the operators of its panels, with the names of their
            functions and their last values.

    Raises:
        ConfigurationError: A value is not valid.

    >>> Settings(token="a long secret")
    Settings(title='rxworker', token=...)
    """

    title: str = "rxworker"
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body: int = 8 * 1024 * 1024
    max_runs: int = 16
    max_runs_per_user: int = 8
    max_kept: int = 100
    max_connections: int = 900
    max_watchers: int = 1024
    max_watchers_per_run: int = 512
    body_seconds: float = 30.0
    heartbeat: float = 15.0
    stall_seconds: float = 60.0
    grace: float | None = None
    writes_per_second: float | None = 30.0
    cancel_on_disconnect: float | None = 1.0
    close_delay: float = 0.0
    prices: Mapping[str, Prices] = field(default_factory=dict[str, Prices])
    mermaid: str | Path | None = None
    xray: bool = True

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the token is too short to be safe: give it {SHORTEST_TOKEN} characters or more, for example "
                "those of `python -c 'import secrets; print(secrets.token_urlsafe())'`"
            )
        if isinstance(self.allowed_hosts, str) or isinstance(self.allowed_origins, str):
            raise ConfigurationError("allowed_hosts and allowed_origins must be tuples of texts")
        Hosts(self.allowed_hosts)
        for origin in self.allowed_origins:
            if not _ORIGIN.fullmatch(origin):
                message = f"allowed_origins: {origin!r} is not an origin, such as https://desk.example.com"
                raise ConfigurationError(message)
        for name in COUNTS:
            check_number(name, getattr(self, name), least=1, whole=True)
        for name in ("body_seconds", "heartbeat", "stall_seconds"):
            check_number(name, getattr(self, name), above=0)
        check_number("cancel_on_disconnect", self.cancel_on_disconnect, optional=True)
        if not 0 <= self.close_delay < inf:
            raise ConfigurationError(f"close_delay={self.close_delay!r}: give seconds, or 0")
        check_number("writes_per_second", self.writes_per_second, above=0, optional=True)
        if self.writes_per_second is not None and self.writes_per_second > MAX_WRITES:
            raise ConfigurationError(f"writes_per_second={self.writes_per_second!r}: give {MAX_WRITES:g} or less")

    def __repr__(self) -> str:
        # The token must not appear in a log, and neither must a part of it.
        token = "None" if self.token is None else "..."
        return f"Settings(title={self.title!r}, token={token})"
