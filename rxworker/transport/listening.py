"""Where a server listens, and the orderly end of it: no connection is lost between two turns of the event loop."""

from __future__ import annotations

import asyncio
import re
from ipaddress import ip_address

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


SOON = 1e-6
"""Seconds that are over in the next turn, but make it look at timers."""


async def stop_listening(server: asyncio.AbstractServer) -> None:
    """Close a server of asyncio's, so that each connection that it accepted gets its protocol, which then closes it.

    asyncio accepts a connection in one turn of the loop and makes its transport in the next. A server that is closed in
    between leaves an open socket. A turn of the loop runs what was waiting, then the events of sockets, then timers: a
    task that is woken by a timer continues after the transports of all accepted connections were made, and before the
    next one is accepted.

    Args:
        server: The server. Its connections stay.
    """
    try:
        await asyncio.sleep(SOON)
    finally:
        server.close()
    await asyncio.sleep(0)  # the transports notify their protocols
