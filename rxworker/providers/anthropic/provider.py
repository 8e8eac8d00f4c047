"""The Messages protocol of Anthropic, as a provider."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import ClassVar, Unpack

from msgspec.structs import replace

from rxworker.messages.settings import check_plain
from rxworker.providers.anthropic.decode import AnthropicDecoder
from rxworker.providers.anthropic.encode import DEFAULT_MAX_TOKENS, NAME, RequestEncoder
from rxworker.providers.anthropic.options import BETAS, COMPACT_BETA, at_version, with_beta, with_binding
from rxworker.providers.anthropic.wire import numbers
from rxworker.providers.base import Options
from rxworker.providers.endpoint import (
    X_API_KEY,
    Host,
    anthropic_host,
    base_address,
    bearer,
    checked_headers,
    current_secrets,
    endpoint,
    host_of,
    read_key,
    resource,
    vertex_place,
)
from rxworker.providers.service import ApiKey, Draft, HostedService, Place, Service, Settings


class AnthropicVertex(Service):
    """Claude at Vertex AI, by Anthropic's own Messages protocol (streamRawPredict).

    Its messages are those of `Anthropic`: a conversation may go on with either. See
    https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude

    Args:
        model: The name of the model there, for example ``claude-haiku-4-5@20251001``.
        project: The project; without one, ``ANTHROPIC_VERTEX_PROJECT_ID`` or else ``GOOGLE_CLOUD_PROJECT``.
        location: The region; without one, ``CLOUD_ML_REGION``, ``GOOGLE_CLOUD_LOCATION``, or else ``global``.
        access_token: The token, or a function or a coroutine function that returns one and is called for each request,
            since tokens expire within the hour.
        base_url: Where the service is, instead of Google's address; without one, ``ANTHROPIC_VERTEX_BASE_URL``.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request, such as ``anthropic-beta``. With an ``authorization`` among them no token is
            looked for.
        info: What the model takes and costs, if it is not what the table of `rxworker.providers.model_info` has.
        max_tokens: The maximum of tokens of an answer, if the request's options have none.

    Raises:
        ConfigurationError: The ``base_url`` is not an address.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = AnthropicVertex("claude-haiku-4-5", project="mine", access_token="ya29.token")
    >>> provider.request(Conversation(), (), Options()).url.rpartition("/")[2]
    'claude-haiku-4-5:streamRawPredict'
    """

    name = NAME
    _variable = "access_token=..."
    _vendors = ("anthropic",)
    _frame_decoder = AnthropicDecoder
    _numbers = staticmethod(numbers)

    def __init__(
        self,
        model: str,
        *,
        project: str | None = None,
        location: str | None = None,
        access_token: ApiKey | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        **settings: Unpack[Place],
    ) -> None:
        super().__init__(model, api_key=access_token, **settings)
        self._room = max_tokens
        self._project = project
        self._location = location
        self._messages = RequestEncoder(model, max_tokens, "vertex-2023-10-16", ("model",))

    def _base(self) -> str | None:
        return self._base_url or os.environ.get("ANTHROPIC_VERTEX_BASE_URL")

    def _url(self) -> str:
        project = self._project or os.environ.get("ANTHROPIC_VERTEX_PROJECT_ID")
        location = self._location or os.environ.get("CLOUD_ML_REGION")
        base, place = vertex_place(self._base(), project, location)
        path = f"{place}/{resource(self.model, 'publishers/anthropic/models/')}:streamRawPredict"
        return endpoint(base, path, "/v1", "/v1")

    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        del url
        return bearer(given, self._base() or self._address)

    def _settled(self, request: Draft) -> Options:
        return with_binding(request, self._headers.get(BETAS))

    def _body(self, request: Draft) -> bytes:
        return self._messages.encode(request)


PATH = "/messages"
VERSION_HEADER, VERSION = "anthropic-version", "2023-06-01"
OWN_HOSTS = ("anthropic.com", "azure.com", "googleapis.com", "amazonaws.com", "api.aws")
"""Where Claude itself answers, which demands the signatures of its thinking."""
TOKEN = "ANTHROPIC_AUTH_TOKEN"


class Anthropic(HostedService):
    """Claude, by Anthropic's Messages protocol.

    Args:
        model: The name of the model, for example ``claude-sonnet-5-5``.
        api_key: The key; without one, the environment is read for each request: the token ``ANTHROPIC_AUTH_TOKEN``,
            which is sent as a bearer's, or else the key ``ANTHROPIC_API_KEY``. A server of your own (``base_url``)
            needs none. A function or a coroutine function that returns it is called for each request.
        base_url: Where the service is; without one, ``ANTHROPIC_BASE_URL``, or else Anthropic. A path without a version
            is followed by ``/v1``.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request, such as ``anthropic-beta`` or another ``anthropic-version``. With an
            ``authorization`` or ``x-api-key`` among them no key is looked for.
        info: What the model takes and costs, if it is not what the table of `rxworker.providers.model_info` has.
        max_tokens: The maximum of tokens of an answer, if the request's options have none.
        now: Returns the time in seconds since the epoch. A container of the code execution tool is sent until it
            expires.

    Raises:
        ConfigurationError: The ``base_url`` is not an address.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = Anthropic("claude-sonnet-5-5", api_key="sk-ant-secret")
    >>> provider
    Anthropic('claude-sonnet-5-5')
    >>> provider.request(Conversation(), (), Options()).url
    'https://api.anthropic.com/v1/messages'
    """

    name = NAME
    _variable = "ANTHROPIC_API_KEY"
    _key_headers = ("authorization", "x-api-key", "api-key")
    _vendors = ("anthropic",)
    _host_at = staticmethod(anthropic_host)
    _own = Host(_variable, headers=X_API_KEY)
    _compacting_hosts = ("anthropic.com", "azure.com", "api.aws")
    _frame_decoder = AnthropicDecoder
    _numbers = staticmethod(numbers)
    _own_headers: ClassVar[Mapping[str, str]] = {VERSION_HEADER: VERSION}

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        now: Callable[[], float] = time.time,
        **settings: Unpack[Settings],
    ) -> None:
        check_plain("Anthropic(now)", now)
        super().__init__(model, **settings)
        self._room = max_tokens
        self._messages = RequestEncoder(model, max_tokens, now=now)

    def _url(self) -> str:
        base = base_address(self._base_url, "ANTHROPIC_BASE_URL", "https://api.anthropic.com")
        return endpoint(base, PATH, f"{(anthropic_host(base) or self._own).root}/v1", "/v1")

    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        if given is None:
            variable = (anthropic_host(url) or self._own).variable
            is_of_host = variable != self._variable and os.environ.get(variable)
            if not is_of_host and (token := read_key(None, TOKEN, needed=False)):
                return {"authorization": f"Bearer {token}"}
        return super()._authorization(url, given)

    def _secrets(self) -> tuple[str | None, ...]:
        return (*super()._secrets(), *current_secrets(None, TOKEN))

    def _settled(self, request: Draft) -> Options:
        options = request.options
        version = self._headers[VERSION_HEADER]
        if options.headers:
            version = checked_headers(options.headers).get(VERSION_HEADER, version)
        if version != VERSION:
            options = at_version(self.model, options, version)
        if options.compact_at is not None:
            options = with_beta(options, self._headers.get(BETAS), COMPACT_BETA)
        if not (request.info.bound and host_of(request.url).endswith(OWN_HOSTS)):
            return options
        if options is not request.options:
            request = replace(request, options=options)
        return with_binding(request, self._headers.get(BETAS))

    def _body(self, request: Draft) -> bytes:
        return self._messages.encode(request, takes_unsealed=not host_of(request.url).endswith(OWN_HOSTS))
