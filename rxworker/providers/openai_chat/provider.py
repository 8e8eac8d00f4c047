"""The Chat Completions protocol, of OpenAI and of the many servers that are compatible with it, as a provider."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rxworker.framing import SseDecoder
from rxworker.messages import Conversation, Counts, ToolMeta
from rxworker.messages.usage import Usage
from rxworker.providers.base import HttpRequest, Options, ResponseDecoder
from rxworker.providers.batch_decoder import BatchDecoder
from rxworker.providers.encode_cache import Remembered
from rxworker.providers.endpoint import (
    host_of,
)
from rxworker.providers.openai_chat.decode import OpenAIChatDecoder
from rxworker.providers.openai_chat.dialects import dialect_of
from rxworker.providers.openai_chat.encode import NAME, MessagesEncoder, encode, encode_tool
from rxworker.providers.openai_chat.finish import count
from rxworker.providers.service import OpenAIService

PATH = "/chat/completions"


class OpenAIChat(OpenAIService):
    """A model that speaks the Chat Completions protocol.

    Args:
        model: The name of the model, for example ``gpt-4.1-mini``.
        api_key: The key; without one, the environment variable ``OPENAI_API_KEY`` is read for each request. A server of
            your own (``base_url``) needs none.
        base_url: Where the service is, for example ``http://127.0.0.1:11434``; without one, ``OPENAI_BASE_URL``, or
            else OpenAI. A query, such as Azure's ``?api-version=...``, is kept.
        headers: Headers for every request. With an ``authorization`` or ``api-key`` among them no key is looked for.

    Raises:
        ConfigurationError: The ``base_url`` is not an address, or a header cannot be sent.

    >>> OpenAIChat("llama3.2", base_url="http://127.0.0.1:11434").request(Conversation(), (), Options()).url
    'http://127.0.0.1:11434/v1/chat/completions'
    """

    _protocol, _path, _encode_tool = NAME, PATH, staticmethod(encode_tool)
    _remembered: Remembered[MessagesEncoder]

    def request(
        self, conversation: Conversation, tools: Sequence[ToolMeta], options: Options
    ) -> HttpRequest:
        """The request for the next message.

        Raises:
            ConfigurationError: No key was found, or an address, key or header cannot be sent.
        """
        url = self._endpoint()
        headers = self._headers_for(url, options)
        dialect = dialect_of(host_of(url))
        remembered = self._remembered
        encoder = remembered.take(conversation.messages)
        if encoder is None or encoder.dialect is not dialect:
            encoder = MessagesEncoder(dialect)
        payload = encode(self._model, conversation, tools, options, encoder, remembered.tools)
        body = msgspec.json.encode(payload)
        remembered.keep(conversation.messages, encoder, len(body))
        return HttpRequest(url, headers, body)

    def decoder(self) -> ResponseDecoder:
        """A fresh machine from the answer's bytes to events."""
        return BatchDecoder(SseDecoder(stray=True), OpenAIChatDecoder())

    def counts(self, usage: Usage) -> Counts:
        """The usage as it was sent."""
        return count(usage)
