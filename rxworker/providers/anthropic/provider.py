"""The Messages protocol of Anthropic, as a provider."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from rxworker.framing import SseDecoder
from rxworker.messages import Conversation, Counts, ToolMeta
from rxworker.messages.usage import Usage
from rxworker.providers.anthropic.decode import AnthropicDecoder
from rxworker.providers.anthropic.encode import NAME, MessagesEncoder, encode
from rxworker.providers.anthropic.finish import count
from rxworker.providers.anthropic.options import encode_tool
from rxworker.providers.base import HttpRequest, Options, Request, ResponseDecoder
from rxworker.providers.batch_decoder import BatchDecoder
from rxworker.providers.encode_cache import Remembered
from rxworker.providers.endpoint import (
    base_address,
    checked_headers,
    endpoint,
    read_key,
)
from rxworker.providers.service import Service

PATH = "/messages"
BASE_URL = "https://api.anthropic.com"
HOME = endpoint(BASE_URL, PATH)
KEY = "ANTHROPIC_API_KEY"
DEFAULT_MAX_TOKENS = 8192


class Anthropic(Service):
    """Claude, by Anthropic's Messages protocol.

    Args:
        model: The name of the model, for example ``claude-sonnet-4-5``.
        api_key: The key; without one, the environment variable ``ANTHROPIC_API_KEY`` is read for each request. A server
            of your own (``base_url``) needs none.
        base_url: Where the service is; without one, ``ANTHROPIC_BASE_URL``, or else Anthropic.
        max_tokens: The maximum of tokens of an answer, if the request's options have none.
        now: Returns the time in seconds since the epoch. A container of the code execution tool is sent until it expires.

    Raises:
        ConfigurationError: The ``base_url`` is not an address.

    >>> provider = Anthropic("claude-sonnet-4-5", api_key="sk-ant-secret")
    >>> provider
    Anthropic('claude-sonnet-4-5')
    >>> provider.request(Conversation(), (), Options()).url
    'https://api.anthropic.com/v1/messages'
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._url = endpoint(base_url, PATH) if base_url else None
        super().__init__(NAME, KEY, model, api_key, base_url)
        self._max_tokens = max_tokens
        self._now = now
        self._remembered = Remembered[MessagesEncoder](encode_tool)

    def request(
        self, conversation: Conversation, tools: Sequence[ToolMeta], options: Options
    ) -> HttpRequest:
        """The request for the next message.

        Raises:
            ConfigurationError: No key was found, an address, key or header cannot be sent, or a tool requires something
                that Anthropic does not have.
        """
        url = self._url or endpoint(base_address(None, "ANTHROPIC_BASE_URL", BASE_URL), PATH)
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": "2023-06-01",
        }
        own = checked_headers(options.headers) if options.headers else None
        if own is None or not ("authorization" in own or "x-api-key" in own):
            key = read_key(self._api_key, KEY, needed=url == HOME)
            if key:
                headers["x-api-key"] = key
        remembered, messages = self._remembered, conversation.messages
        encoder = remembered.take(messages) or MessagesEncoder()
        request = Request(conversation, tuple(tools), options)
        max_tokens, now = self._max_tokens, self._now()
        payload = encode(self._model, request, max_tokens, encoder, remembered.tools, now)
        body = msgspec.json.encode(payload)
        remembered.keep(messages, encoder, len(body))
        return HttpRequest(url, headers | own if own else headers, body)

    def decoder(self) -> ResponseDecoder:
        """A fresh machine from the answer's bytes to events."""
        return BatchDecoder(SseDecoder(stray=True), AnthropicDecoder())

    def counts(self, usage: Usage) -> Counts:
        """The usage as Anthropic counts it: its input is what no cache held."""
        return count(usage)
