"""Where Ollama is: the forms of ``OLLAMA_HOST``, as its own clients take them."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

from rxworker.providers.address import endpoint

PATH = "/api/chat"
PORT = 11434

# What a server listens on is where a client on the same machine finds it, once it names this machine.
_ANY = re.compile(r"^(https?://)(0\.0\.0\.0|\[::\])(?=[:/]|$)")
_HOST_AND_PORT = re.compile(r"^(?P<host>\[[^]]*\]|[^:/]*)(?P<port>:\d+)?(?P<path>/.*)?$")


def chat_address(host: str) -> str:
    """The address of the chat endpoint.

    Args:
        host: A host, ``host:port``, ``:port`` or an address. Without a scheme and a port it means port 11434.

    Raises:
        ConfigurationError: It is none of these.

    >>> chat_address("box"), chat_address(":8000")
    ('http://box:11434/api/chat', 'http://127.0.0.1:8000/api/chat')
    >>> chat_address("https://ollama.com/api")
    'https://ollama.com/api/chat'
    """
    url = host if "://" in host else _completed(host)
    url = _ANY.sub(_here, url)
    # The address of the API as a whole, as it is often written.
    return endpoint(re.sub(r"/api/?$", "", url), PATH, root="")


def _completed(host: str) -> str:
    if _is_ipv6(host):
        host = f"[{host}]"
    found = _HOST_AND_PORT.match(host)
    if found is None:
        return host  # to be refused with the words that any address is refused with
    name, port, path = found["host"] or "127.0.0.1", found["port"] or f":{PORT}", found["path"]
    return f"http://{name}{port}{path or ''}"


def _here(found: re.Match[str]) -> str:
    return found[1] + ("[::1]" if found[2] == "[::]" else "127.0.0.1")


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


__all__ = ["PATH", "PORT", "chat_address"]
