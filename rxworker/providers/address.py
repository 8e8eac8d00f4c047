"""Where a request goes: the base address a user gives, and the path of the protocol below it."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

from rxworker.errors import ConfigurationError

_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")


@lru_cache(maxsize=64)  # asked for with each request, and always the same
def endpoint(base_url: str, path: str, root: str = "/v1") -> str:
    """The address of one call.

    Args:
        base_url: As the user gives it. Without a path it means the protocol's own root; a query stays at the end.
        path: What the protocol adds, for example ``/messages``. An address that ends with it is left alone.
        root: What stands before the path where the address has none.

    Raises:
        ConfigurationError: It is no address of the web.

    >>> endpoint("https://api.anthropic.com", "/messages")
    'https://api.anthropic.com/v1/messages'
    >>> endpoint("http://127.0.0.1:8080/v1/", "/messages")
    'http://127.0.0.1:8080/v1/messages'
    """
    if _UNPRINTABLE.search(base_url):
        raise ConfigurationError(
            "the base_url holds white space or characters that are not ASCII; write it like "
            "https://example.com/v1"
        )
    try:
        parts = urlsplit(base_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, valid = urlsplit(""), False
    if valid and "@" in parts.netloc:
        raise ConfigurationError(
            "the base_url holds a user name or a password; pass them as headers instead"
        )
    if not valid:
        raise ConfigurationError(
            f"the base_url {base_url!r} is not an address; write it like https://example.com/v1"
        )
    below = parts.path.rstrip("/") or root
    if not below.endswith(path):
        below += path
    return urlunsplit((parts.scheme, parts.netloc, below, parts.query, ""))


@lru_cache(maxsize=64)  # the same
def host_of(url: str) -> str:
    """The host of an address.

    >>> host_of("https://API.openai.com:443/v1")
    'api.openai.com'
    """
    return urlsplit(url).hostname or ""


def base_address(argument: str | None, variable: str, default: str) -> str:
    """The base address: the argument, else the environment variable, else the provider's own."""
    return argument or os.environ.get(variable) or default


__all__ = ["base_address", "endpoint", "host_of"]
