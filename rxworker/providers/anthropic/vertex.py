"""Claude at Google's Vertex AI, by Anthropic's own Messages protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping

from rxworker.providers.anthropic.decode import AnthropicDecoder
from rxworker.providers.anthropic.encode import NAME
from rxworker.providers.anthropic.finish import numbers
from rxworker.providers.anthropic.hosted import DEFAULT_MAX_TOKENS, HostedMessages
from rxworker.providers.anthropic.options import BETAS, with_binding
from rxworker.providers.base import Options
from rxworker.providers.endpoint import endpoint
from rxworker.providers.models import ModelInfo
from rxworker.providers.service import ApiKey, Draft, Service
from rxworker.providers.vertex import (
    GLOBAL,
    LOCATION,
    PROJECT,
    bearer,
    resource,
    vertex_place,
)

VERSION = "vertex-2023-10-16"
METHOD = ":streamRawPredict"


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
        base_url: str | None = None,
        address: str | None = None,
        headers: Mapping[str, str] | None = None,
        info: ModelInfo | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
    ) -> None:
        super().__init__(
            model,
            api_key=access_token,
            base_url=base_url,
            address=address,
            headers=headers,
            info=info,
        )
        self._room = max_tokens
        self._project = project
        self._location = location
        self._messages = HostedMessages(model, VERSION, max_tokens)

    def _base(self) -> str | None:
        return self._base_url or os.environ.get("ANTHROPIC_VERTEX_BASE_URL")

    def _url(self) -> str:
        project = self._project or os.environ.get("ANTHROPIC_VERTEX_PROJECT_ID")
        location = self._location or os.environ.get("CLOUD_ML_REGION")
        location = location or os.environ.get(LOCATION) or GLOBAL
        base, place = vertex_place(self._base(), project or os.environ.get(PROJECT), location)
        path = f"{place}/{resource(self.model, 'publishers/anthropic/models/')}{METHOD}"
        return endpoint(base, path, "/v1", "/v1")

    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        del url
        return bearer(given, self._base() or self._address)

    def _settled(self, request: Draft) -> Options:
        if not request.info.bound:
            return request.options
        return with_binding(request, self._headers.get(BETAS))

    def _body(self, request: Draft) -> bytes:
        return self._messages.encode(request)

    @property
    def _variables(self) -> tuple[str, ...]:
        return ()

    @property
    def _credential(self) -> str:
        return "access_token=..."
