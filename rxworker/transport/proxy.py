"""Which proxy the environment names for an address."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rxworker.errors import ConfigurationError


def proxy_for(url: str) -> str | None:
    """The proxy of ``HTTP_PROXY``, ``HTTPS_PROXY`` or ``ALL_PROXY``, minding ``NO_PROXY``; never one for this machine itself.

    Raises:
        ConfigurationError: It is of a kind that cannot be used.

    >>> proxy_for("http://127.0.0.1:8080/v1") is None
    True
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if _is_here(host) or proxy_bypass(host):
        return None
    known = getproxies()
    proxy = known.get(parts.scheme) or known.get("all")
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ConfigurationError(
            f"the environment names the proxy {without_password(proxy)} for {host}, but only http:// proxies can be "
            f"used; set {parts.scheme.upper()}_PROXY to one, or put {host} into NO_PROXY"
        )
    return proxy


def without_password(proxy: str) -> str:
    """The address of a proxy as messages show it.

    >>> without_password("http://user:secret@proxy.example.com:3128")
    'http://proxy.example.com:3128'
    """
    scheme, _, rest = proxy.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


__all__ = ["proxy_for", "without_password"]
