"""The Messages protocol of Anthropic, as a provider."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from rxworker.providers.anthropic.decode import AnthropicDecoder
from rxworker.providers.anthropic.encode import NAME, MessagesEncoder, encode
from rxworker.providers.anthropic.finish import numbers
from rxworker.providers.anthropic.options import encode_tool
from rxworker.providers.base import Request
from rxworker.providers.encode_cache import Remembered
from rxworker.providers.endpoint import base_address, endpoint, read_key
from rxworker.providers.service import Service

PATH = "/messages"
BASE_URL = "https://api.anthropic.com"
HOME = endpoint(BASE_URL, PATH)
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

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = Anthropic("claude-sonnet-4-5", api_key="sk-ant-secret")
    >>> provider
    Anthropic('claude-sonnet-4-5')
    >>> provider.request(Conversation(), (), Options()).url
    'https://api.anthropic.com/v1/messages'
    """

    name = NAME
    _variable = "ANTHROPIC_API_KEY"
    _key_headers = ("authorization", "x-api-key")
    _frame_decoder = AnthropicDecoder
    _numbers = staticmethod(numbers)

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        now: Callable[[], float] = time.time,
    ) -> None:
        if base_url:
            endpoint(base_url, PATH)
        version = {"anthropic-version": "2023-06-01"}
        super().__init__(model, api_key=api_key, base_url=base_url, headers=version)
        self._max_tokens = max_tokens
        self._now = now
        self._remembered = Remembered[MessagesEncoder](encode_tool)

    def _url(self) -> str:
        return endpoint(base_address(self._base_url, "ANTHROPIC_BASE_URL", BASE_URL), PATH)

    def _authorization(self, url: str) -> dict[str, str]:
        key = read_key(self._api_key, self._variable, needed=url == HOME)
        return {"x-api-key": key} if key else {}

    def _body(self, request: Request) -> bytes:
        body = partial(
            encode,
            self.model,
            request,
            known=self._remembered.tools,
            max_tokens=self._max_tokens,
            now=self._now(),
        )
        return self._remembered.encode(request.conversation.messages, MessagesEncoder(), body)
