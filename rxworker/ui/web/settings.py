"""How the web server behaves: what it is called, who may speak to it, and how much it takes on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from rxworker.errors import ConfigurationError
from rxworker.messages import Prices
from rxworker.ui.web.origin import Hosts

SHORTEST_TOKEN = 8
MOST_WRITES = 1000.0
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
    """How the web server behaves. The defaults are for one person at this machine.

    Attributes:
        title: What the page is called.
        token: What every request but those for static files must bring; ``None``: nothing, for this machine alone.
        allowed_hosts: By which names the server may be called, besides ``localhost``, ``127.0.0.1`` and ``[::1]``: names, networks of
            addresses such as ``192.168.0.0/16``, or ``*`` for any name.
        allowed_origins: The pages that may send requests, besides the server's own; for example ``https://desk.example.com``.
        max_body: The most bytes of a request's body.
        max_runs: How many runs may be on at once, of all users together.
        max_runs_per_user: How many runs of one user may be on at once, where the server has users.
        max_kept: How many runs that have ended are kept, of all users together; the oldest run of the user with the most runs is
            forgotten first.
        max_connections: How many connections there may be at once, of `serve` and `WebServer`; one too many is closed. For an application
            that is mounted, how many requests and streams may be open at once; one too many is answered with 503. Fewer than the files
            that the program may open.
        max_watchers: How many clients may watch, over all runs.
        max_watchers_per_run: How many may watch one run.
        body_seconds: How long a request's body may take to arrive.
        heartbeat: Seconds of silence after which a client is told that the connection lives.
        stall_seconds: Seconds after which a client that takes nothing is let go; it may come back to where it was.
        grace: Seconds after which a run is cancelled when nobody watches it; ``None``: never.
        writes_per_second: How often a client is sent deltas at the most; whatever begins or ends is sent at once. ``None``: as they come.
        cancel_on_disconnect: Seconds after which the run of an AG-UI or ``useChat`` client is cancelled when that client has closed
            its connection, which is how these clients stop a run; ``None``: never, and such a run goes on without its client.
        prices: What tokens cost, by the model's name, for the cost of the runs.

    Raises:
        ConfigurationError: One of them makes no sense.

    >>> Settings(token="a long secret")
    Settings(title='rxworker', token=...)
    """

    title: str = "rxworker"
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body: int = 1024 * 1024
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
    prices: Mapping[str, Prices] = field(default_factory=dict[str, Prices])

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the token is too short to keep anybody out: give it {SHORTEST_TOKEN} characters or more, for example "
                "those of `python -c 'import secrets; print(secrets.token_urlsafe())'`"
            )
        if isinstance(self.allowed_hosts, str) or isinstance(self.allowed_origins, str):
            raise ConfigurationError("allowed_hosts and allowed_origins are tuples of texts")
        Hosts(self.allowed_hosts)
        for origin in self.allowed_origins:
            if not _ORIGIN.fullmatch(origin):
                message = (
                    f"allowed_origins: {origin!r} is no origin, such as https://desk.example.com"
                )
                raise ConfigurationError(message)
        for name in COUNTS:
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)!r} is no number above 0")
        if self.cancel_on_disconnect is not None and not self.cancel_on_disconnect >= 0:
            message = f"cancel_on_disconnect={self.cancel_on_disconnect!r}: give seconds, or None"
            raise ConfigurationError(message)
        rate = self.writes_per_second
        if rate is not None and not 0 < rate <= MOST_WRITES:
            message = (
                f"writes_per_second={rate!r}: give a number above 0, up to {MOST_WRITES:g}, or None"
            )
            raise ConfigurationError(message)
        for name in ("body_seconds", "heartbeat", "stall_seconds"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name}={getattr(self, name)!r}: give seconds above 0")

    def __repr__(self) -> str:
        # The token belongs into no log, and neither does a hint of it.
        token = "None" if self.token is None else "..."
        return f"Settings(title={self.title!r}, token={token})"


__all__ = ["SHORTEST_TOKEN", "Settings"]
