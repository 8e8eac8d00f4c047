"""By which name a request calls the server, and from which page it comes.

A page of somebody else's can make a browser send requests here: straight, or by having its own name resolve to this machine. The first
are told by ``Origin``, the second by ``Host``. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from rxworker.errors import ConfigurationError

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
    """The name of a ``Host`` header, without its port; ``None`` where it is no such header.

    >>> host_name("LOCALHOST:8080"), host_name("[::1]:8080"), host_name("a b")
    ('localhost', '::1', None)
    """
    match = _HOST.fullmatch(header)
    return None if match is None else match["name"].strip("[]").lower()


class Hosts:
    """The names by which a server may be called.

    Args:
        allowed: Names, networks of addresses, or ``*``; besides those of this machine.

    Raises:
        ConfigurationError: A network is none.

    >>> hosts = Hosts(["desk.example.com", "192.168.0.0/16"])
    >>> hosts.allow("localhost:8080"), hosts.allow("192.168.1.7"), hosts.allow("127.0.0.1.evil.com")
    (True, True, False)
    """

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._any = "*" in allowed
        self._names = THIS_MACHINE | {
            name.strip("[]").lower() for name in allowed if "/" not in name
        }
        try:
            self._networks = tuple(ip_network(network) for network in allowed if "/" in network)
        except ValueError as error:
            raise ConfigurationError(
                f"allowed_hosts: {error}; give names such as desk.example.com, or networks such as 10.0.0.0/8"
            ) from error

    def allow(self, header: str) -> bool:
        """Whether a request with this ``Host`` header is meant for us."""
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
    """Whether a page of this origin may send requests to the server that was called by this host.

    >>> is_own_origin("http://localhost:8080", "localhost:8080")
    True
    >>> is_own_origin("null", "localhost:8080"), is_own_origin("http://localhost:9", "localhost:8080")
    (False, False)
    """
    if origin in allowed:
        return True
    scheme, _, name = origin.partition("://")
    return scheme in ("http", "https") and name.lower() == host.lower()


__all__ = ["Hosts", "host_name", "is_loopback", "is_own_origin"]
