"""Which proxy the environment names for an address."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from os import environ
from urllib.parse import urlsplit
from urllib.request import getproxies, getproxies_environment, proxy_bypass

from rxworker.errors import ConfigurationError

# macOS and Windows have settings of their own besides the environment.
_ASKS_SYSTEM = getproxies is not getproxies_environment


def proxy_for(url: str) -> str | None:
    """The proxy of ``HTTP_PROXY``, ``HTTPS_PROXY`` or ``ALL_PROXY``, minding ``NO_PROXY``; never one for this machine itself.

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
            f"the environment names the proxy {without_password(proxy)} for {host}, but only http:// proxies can be "
            f"used; set {scheme.upper()}_PROXY to one, or put {host} into NO_PROXY"
        )
    return proxy


def without_password(proxy: str) -> str:
    """The address of a proxy as messages show it.

    >>> without_password("http://user:secret@proxy.example.com:3128")
    'http://proxy.example.com:3128'
    """
    scheme, _, rest = proxy.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


@lru_cache(maxsize=64)  # asked for with each request, and always the same
def _place(url: str) -> tuple[str, str, bool]:
    """The scheme and the host of an address, and whether that is this machine itself."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    return parts.scheme, host, _is_here(host)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_any_named(scheme: str) -> bool:
    """Whether there may be a proxy at all: to go through the whole environment for it costs more than the rest of a request."""
    names = (f"{scheme}_proxy", "all_proxy")
    return _ASKS_SYSTEM or any(environ.get(name) or environ.get(name.upper()) for name in names)


__all__ = ["proxy_for", "without_password"]
