"""Ollama's own chat protocol, as a provider. ``OLLAMA_HOST`` is read in the forms that Ollama's own clients accept."""

from __future__ import annotations

import re
from functools import lru_cache

from rxworker.framing import NdjsonDecoder
from rxworker.providers.base import ResponseDecoder
from rxworker.providers.batch_decoder import BatchDecoder
from rxworker.providers.endpoint import base_address, endpoint, host_of, read_key
from rxworker.providers.ollama.decode import OllamaDecoder, numbers
from rxworker.providers.ollama.encode import NAME, encode
from rxworker.providers.service import Service

PATH = "/api/chat"
PORT = "11434"

# What a server listens on is where a client on the same machine finds it, once it names this machine.
HERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


@lru_cache(maxsize=64)  # used for each request, and always the same
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
    scheme, mark, rest = host.rpartition("://")
    at, slash, path = rest.partition("/")
    if not mark and at.count(":") > 1 and not at.startswith("["):
        at = f"[{at}]"  # IPv6
    name, colon, port = at.rpartition(":")
    if not (colon and port.isdecimal()):
        name, port = at, ""
    if not mark:
        scheme, name, port = "http", name or "127.0.0.1", port or PORT
    url = f"{scheme}://{HERE.get(name, name)}{port and ':'}{port}{slash}{path}"
    # The address of the API as a whole, as it is often written.
    return endpoint(re.sub(r"/api/?$", "", url), PATH, root="")


HOST = "OLLAMA_HOST"
# The first is what Ollama sends; proxies rename it. An error that comes as JSON with status 200 is a line too.
STREAMS = ("application/x-ndjson", "application/ndjson", "application/json")


class Ollama(Service):
    """A model that Ollama runs, on this machine or in its cloud.

    Args:
        model: The name of the model, for example ``qwen3``.
        base_url: Where the server is: an address, ``host``, or ``host:port``; without one, ``OLLAMA_HOST``, or else
            this machine.
        api_key: The key, which only the cloud needs; without one, the environment variable ``OLLAMA_API_KEY`` is read
            for each request. A function or a coroutine function that returns it is called for each request.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request. With an ``authorization`` among them no key is looked for.
        info: What the model takes and costs, if it is not what the table of `rxworker.providers.model_info` has.

    Raises:
        ConfigurationError: The ``base_url`` is not an address.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = Ollama("qwen3", base_url="box:8000")
    >>> provider.request(Conversation(), (), Options()).url
    'http://box:8000/api/chat'
    """

    name = NAME
    _encode = staticmethod(encode)
    _variable = "OLLAMA_API_KEY"
    _accept = STREAMS
    _numbers = staticmethod(numbers)

    def _check_base(self, base_url: str) -> None:
        chat_address(base_url)

    def _url(self) -> str:
        return chat_address(base_address(self._base_url, HOST, "http://localhost:11434"))

    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        key = read_key(given, self._variable, needed=host_of(url) == "ollama.com")
        return {"authorization": f"Bearer {key}"} if key else {}

    @property
    def structures_beside_tools(self) -> bool:
        """Never: its grammar of the answer leaves no calls."""
        return False

    def decoder(self) -> ResponseDecoder:
        """A fresh machine from the answer's bytes to events."""
        return BatchDecoder(NdjsonDecoder(), OllamaDecoder())
