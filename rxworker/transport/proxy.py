"""Which proxy the environment names for an address."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def proxy_for(url: str) -> str | None:
    """The proxy of ``HTTP_PROXY`` or ``HTTPS_PROXY``, minding ``NO_PROXY``; never one for this machine itself.

    >>> proxy_for("http://127.0.0.1:8080/v1") is None
    True
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in _LOOPBACK or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)


__all__ = ["proxy_for"]
