"""Anthropic's Messages at clouds that have the model in the address, and the version in the body."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rxworker.messages import Json
from rxworker.providers.anthropic.encode import MessagesEncoder, encode
from rxworker.providers.anthropic.options import encode_tool
from rxworker.providers.base import Request
from rxworker.providers.encode_cache import Body, Remembered

DEFAULT_MAX_TOKENS = 8192


class HostedMessages:
    """Encodes the requests of one model at such a cloud.

    Args:
        model: The name of the model.
        version: The version of the protocol that the cloud names.
        max_tokens: The maximum of tokens of an answer, if the request's options have none.
        without: The members that the cloud has elsewhere.
    """

    def __init__(self, model: str, version: str, max_tokens: int, without: Sequence[str] = ("model",)) -> None:
        self._model = model
        self._version = version
        self._max_tokens = max_tokens
        self._without = without
        self._remembered = Remembered[MessagesEncoder](encode_tool)

    def encode(self, request: Request, betas: str | None = None) -> bytes:
        """The JSON of a request.

        Args:
            request: What is sent.
            betas: The names of the header ``anthropic-beta``, where the cloud reads them in the body.
        """

        def encoded(encoder: MessagesEncoder) -> Body:
            known = self._remembered.tools
            body = encode(self._model, request, encoder, known, self._max_tokens, time.time())
            for name in self._without:
                del body[name]
            body.setdefault("anthropic_version", self._version)
            if betas:
                names: list[Json] = [*map(str.strip, betas.split(","))]
                body.setdefault("anthropic_beta", names)
            return body

        return self._remembered.encode(request.conversation.messages, MessagesEncoder(), encoded)
