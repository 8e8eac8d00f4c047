"""The settings of the web server, and the checks of the ``Host`` and ``Origin`` headers.

A page of another origin can make a browser send requests to this server: directly, or by having its own name resolve to
this machine. The ``Origin`` header reveals the first, the ``Host`` header the second. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from math import inf
from pathlib import Path

from msgspec import Struct, field

from rxworker.errors import ConfigurationError
from rxworker.messages import Prices
from rxworker.messages.settings import check_number
from rxworker.operators.gate import InputGate, check_gate
from rxworker.transport.listening import host_name

THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})


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
        if (name := host_name(header)) is None:
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


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of the web server. The defaults suit one user on this machine.

    Attributes:
        title: The title of the page.
        token: The token that every request except those for static files must contain; ``None``: no token, for this
            machine alone.
        deliver_token: A token with which a program, such as a webhook, may deliver the results of calls in the
            background, and nothing else; ``None``: none.
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
        gate: What `rxworker.operators.hold_back` returned: the texts in what clients send, by every interface of the
            server, must pass its checks before anything of it is stored, shown or sent to a model; otherwise the answer
            is 400 ``input_refused``. Texts that have passed are not checked again when a client sends its history.
        xray: Whether those who may see a dashboard may also see the operators of its panels, with the names of their
            functions and their last values.

    Raises:
        ConfigurationError: A value is not valid.

    >>> Settings(token="a long secret")
    Settings(title='rxworker', token=...)
    """

    title: str = "rxworker"
    token: str | None = None
    deliver_token: str | None = None
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
    gate: InputGate | None = None
    xray: bool = True

    def __post_init__(self) -> None:
        if any(token is not None and len(token) < SHORTEST_TOKEN for token in (self.token, self.deliver_token)):
            raise ConfigurationError(
                f"the token is too short to be safe: give it {SHORTEST_TOKEN} characters or more, for example "
                "those of `python -c 'import secrets; print(secrets.token_urlsafe())'`"
            )
        if isinstance(self.allowed_hosts, str) or isinstance(self.allowed_origins, str):
            raise ConfigurationError("allowed_hosts and allowed_origins must be tuples of texts")
        check_gate(self.gate)
        Hosts(self.allowed_hosts)
        for origin in self.allowed_origins:
            if not _ORIGIN.fullmatch(origin):
                message = f"allowed_origins: {origin!r} is not an origin, such as https://desk.example.com"
                raise ConfigurationError(message)
        for name in self.__struct_fields__:
            if name.startswith("max_"):
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
