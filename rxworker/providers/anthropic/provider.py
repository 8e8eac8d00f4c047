"""The Messages protocol of Anthropic, as a provider."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from rxworker.providers.anthropic.decode import AnthropicDecoder
from rxworker.providers.anthropic.encode import NAME, MessagesEncoder, encode
from rxworker.providers.anthropic.finish import numbers
from rxworker.providers.anthropic.options import encode_tool
from rxworker.providers.base import Request
from rxworker.providers.encode_cache import Remembered
from rxworker.providers.endpoint import (
    base_address,
    checked_headers,
    current_secrets,
    endpoint,
    host_of,
    read_key,
)
from rxworker.providers.models import ModelInfo
from rxworker.providers.service import ApiKey, Service

PATH = "/messages"
BASE_URL = "https://api.anthropic.com"
HOME = endpoint(BASE_URL, PATH)
VERSION = "2023-06-01"
OWN_HOSTS = ("anthropic.com", "azure.com", "googleapis.com", "amazonaws.com", "api.aws")
"""Where Claude itself answers, which demands the signatures of its thinking."""
TOKEN = "ANTHROPIC_AUTH_TOKEN"
DEFAULT_MAX_TOKENS = 8192


class Anthropic(Service):
    """Claude, by Anthropic's Messages protocol.

    Args:
        model: The name of the model, for example ``claude-sonnet-4-5``.
        api_key: The key; without one, the environment is read for each request: the token ``ANTHROPIC_AUTH_TOKEN``, which is sent
            as a bearer's, or else the key ``ANTHROPIC_API_KEY``. A server
            of your own (``base_url``) needs none. A function or a coroutine function that returns it is called for each request.
        base_url: Where the service is; without one, ``ANTHROPIC_BASE_URL``, or else Anthropic. A path without a version is followed by ``/v1``.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request, such as ``anthropic-beta`` or another ``anthropic-version``. With an ``authorization`` or
            ``x-api-key`` among them no key is looked for.
        info: What the model takes and costs, if it is not what the table of `rxworker.providers.model_info` has.
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
    _vendors = ("anthropic",)
    _frame_decoder = AnthropicDecoder
    _numbers = staticmethod(numbers)

    def __init__(
        self,
        model: str,
        *,
        api_key: ApiKey | None = None,
        base_url: str | None = None,
        address: str | None = None,
        headers: Mapping[str, str] | None = None,
        info: ModelInfo | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        now: Callable[[], float] = time.time,
    ) -> None:
        if base_url:
            _messages_at(base_url)
        super().__init__(
            model,
            api_key=api_key,
            base_url=base_url,
            address=address,
            headers={"anthropic-version": VERSION} | checked_headers(headers or {}),
            info=info,
        )
        self._max_tokens = self._room = max_tokens
        self._now = now
        self._remembered = Remembered[MessagesEncoder](encode_tool)

    def _host(self) -> str:
        return host_of(self._request_url())

    def _url(self) -> str:
        return _messages_at(base_address(self._base_url, "ANTHROPIC_BASE_URL", BASE_URL))

    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        if given is None and (token := read_key(None, TOKEN, needed=False)):
            return {"authorization": f"Bearer {token}"}
        key = read_key(given, self._variable, needed=url == HOME)
        return {"x-api-key": key} if key else {}

    def _secrets(self) -> tuple[str | None, ...]:
        return (*super()._secrets(), *current_secrets(None, TOKEN))

    def _body(self, request: Request) -> bytes:
        body = partial(
            encode,
            self.model,
            request,
            known=self._remembered.tools,
            max_tokens=self._max_tokens,
            now=self._now(),
        )
        is_own = self._host().endswith(OWN_HOSTS)
        new = MessagesEncoder(takes_unsealed=not is_own)
        return self._remembered.encode(request.conversation.messages, new, body)


def _messages_at(base_url: str) -> str:
    return endpoint(base_url, PATH, below_path=True)
