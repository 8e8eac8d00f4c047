"""One HTTP session for each event loop: its sockets and its proxy.

A session keeps connections open for the next request, and has to be closed before its loop is. asyncio has no callback
for the end of a loop, but ``asyncio.run`` closes the asynchronous generators that are still suspended. So the session
is held by such a generator.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from functools import lru_cache
from os import environ
from urllib.parse import urlsplit
from urllib.request import getproxies, getproxies_environment, proxy_bypass

import aiohttp
from yarl import URL

from rxworker.errors import ConfigurationError
from rxworker.providers.base import hidden_url
from rxworker.transport.listening import is_loopback

AHEAD = 32 * 1024
"""Bytes of an answer that may wait to be read; twice as many are what a read of a socket brings."""

_Keeper = AsyncGenerator[aiohttp.ClientSession, None]
# A session references its loop, so weak keys would release none.
_kept: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, _Keeper]] = {}


def open_session(loop: asyncio.AbstractEventLoop) -> aiohttp.ClientSession | None:
    """The session of the running loop, if there is one that is open."""
    held = _kept.get(loop)
    return None if held is None or held[0].closed else held[0]


async def shared_session() -> aiohttp.ClientSession:
    """The session of the running loop; created at its first use, and closed when the loop ends."""
    loop = asyncio.get_running_loop()
    session = open_session(loop)
    if session is None:
        keeper = _keep(loop)
        session = await anext(keeper)
        _kept[loop] = session, keeper
    return session


async def close_session() -> None:
    """Close the running loop's session now; a later request opens another."""
    if (held := _kept.pop(asyncio.get_running_loop(), None)) is not None:
        await held[1].aclose()


async def _keep(loop: asyncio.AbstractEventLoop) -> _Keeper:
    # No total time-out: a long answer is not a failure. Many streams may go to one host at once.
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=True,
        read_bufsize=AHEAD,
    )
    try:
        yield session
    finally:
        _kept.pop(loop, None)
        await session.close()


_SENDABLE = re.compile(r"https?://[a-z0-9.:\[\]-]+/(?:[a-z0-9._~:/?@!$&'()*+,;=-]|%[0-9a-f]{2})*", re.IGNORECASE)


@lru_cache(maxsize=64)  # used for each request, and always the same
def unchanged(url: str) -> URL | str:
    """The address for aiohttp, which would write ``%3A`` as ``:``: signatures are of the address as it is.

    >>> unchanged("https://h/model/a%3A0").raw_path
    '/model/a%3A0'

    An address that cannot be sent as it is stays a text, which aiohttp encodes.
    """
    return URL(url, encoded=True) if _SENDABLE.fullmatch(url) else url


# macOS and Windows have settings of their own besides the environment.
_HAS_SYSTEM_PROXIES = getproxies is not getproxies_environment


def proxy_for(url: str) -> str | None:
    """The proxy of ``HTTP_PROXY``, ``HTTPS_PROXY`` or ``ALL_PROXY``, minding ``NO_PROXY``.

    Never one for this machine itself.

    Raises:
        ConfigurationError: It is of a kind that cannot be used.

    >>> proxy_for("http://127.0.0.1:8080/v1") is None
    True
    """
    scheme, host, is_here = _place(url)
    if is_here or not _is_any_named(scheme) or proxy_bypass(host):
        return None
    known = getproxies()
    proxy = known.get(scheme) or known.get("all")
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ConfigurationError(
            f"the environment names the proxy {hidden_url(proxy)} for {host}, but only http:// proxies can be "
            f"used; set {scheme.upper()}_PROXY to one, or put {host} into NO_PROXY"
        )
    return proxy


@lru_cache(maxsize=64)  # used for each request, and always the same
def _place(url: str) -> tuple[str, str, bool]:
    """The scheme and the host of an address, and whether that is this machine itself."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    return parts.scheme, host, is_loopback(host)


def _is_any_named(scheme: str) -> bool:
    """Whether there may be a proxy at all.

    To go through the whole environment for it costs more than the rest of a request.
    """
    names = (f"{scheme}_proxy", "all_proxy")
    return _HAS_SYSTEM_PROXIES or any(environ.get(name) or environ.get(name.upper()) for name in names)
