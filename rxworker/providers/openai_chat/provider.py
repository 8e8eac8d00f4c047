"""The Chat Completions protocol, of OpenAI and of the many servers that are compatible with it, as a provider."""

from __future__ import annotations

from functools import partial
from typing import Unpack

from msgspec.structs import replace

from rxworker.providers.base import Options
from rxworker.providers.encode_cache import cache_settings, takes_breakpoints
from rxworker.providers.endpoint import host_of
from rxworker.providers.fit import refused
from rxworker.providers.models import model_info
from rxworker.providers.openai_chat.decode import OpenAIChatDecoder
from rxworker.providers.openai_chat.dialects import OPENAI, Dialect, dialect_of, for_maker
from rxworker.providers.openai_chat.encode import NAME, MessagesEncoder, encode, encode_tool
from rxworker.providers.openai_chat.wire import numbers
from rxworker.providers.origin import maker_of
from rxworker.providers.service import Draft, OpenAIService, Settings


class OpenAIChat(OpenAIService):
    """A model that speaks the Chat Completions protocol.

    Args:
        model: The name of the model, for example ``gpt-5.4-mini``.
        api_key: The key; without one, the environment variable ``OPENAI_API_KEY`` is read for each request. A server of
            your own (``base_url``) needs none. A function or a coroutine function that returns it is called for each
            request.
        base_url: Where the service is, for example ``http://127.0.0.1:11434``; without one, ``OPENAI_BASE_URL``, or
            else OpenAI. A query, such as Azure's ``?api-version=...``, is kept.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request. With an ``authorization`` or ``api-key`` among them no key is looked for.
        info: What the model takes and costs, if it is not what the table of `rxworker.providers.model_info` has.
        dialect: The requirements of the server; without one, those of its host, as far as it is known.

    Raises:
        ConfigurationError: The ``base_url`` is not an address, or a header cannot be sent.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> OpenAIChat("llama3.2", base_url="http://127.0.0.1:11434").request(Conversation(), (), Options()).url
    'http://127.0.0.1:11434/v1/chat/completions'
    """

    name = NAME
    _path = "/chat/completions"
    _encode_tool = staticmethod(encode_tool)
    _frame_decoder = OpenAIChatDecoder
    _numbers = staticmethod(numbers)

    def __init__(self, model: str, *, dialect: Dialect | None = None, **settings: Unpack[Settings]) -> None:
        super().__init__(model, **settings)
        self._dialect = dialect

    @property
    def dialect(self) -> Dialect:
        """The requirements of the server, as far as they are known."""
        return self._dialect_at(self._address or self._url())

    def _dialect_at(self, url: str) -> Dialect:
        return self._dialect or for_maker(dialect_of(url), maker_of(self.model))

    @property
    def structures_beside_tools(self) -> bool:
        """See `Service`."""
        return super().structures_beside_tools and self.dialect.schemas_beside_tools

    def _settled(self, request: Draft) -> Options:
        info, options = request.info, request.options
        if self._info is None and model_info(self.model).vendor != info.vendor:
            return options  # the host alone shows too little
        if options.stop_sequences and not info.stops:
            raise refused(self.model, "takes no stop_sequences: leave them out")
        # What other hosts make of such a request is their own matter.
        is_own = dialect_of(request.url) is OPENAI
        if not (is_own and request.tools) or info.chat_tools == "always":
            return options
        if info.off is None:
            raise refused(self.model, "takes no tools by Chat Completions: use OpenAIResponses")
        if options.thinking not in (None, 0):
            raise refused(
                self.model, "takes no tools with thinking by Chat Completions: use OpenAIResponses, or thinking=0"
            )
        needs_off = info.chat_tools == "without thinking" and "reasoning_effort" not in options.extra
        return replace(options, thinking=0) if needs_off else options

    def _body(self, request: Draft) -> bytes:
        dialect = self._dialect_at(request.url)
        info, host = self._cached, host_of(request.url)
        marks = info.caching == "marks" and info.vendor in dialect.cache_marks
        new = MessagesEncoder(dialect, has_tools=bool(request.tools), breakpoints=takes_breakpoints(host, info))
        caching = cache_settings(host, request, ("30m",), info)
        body = partial(encode, self.model, request, known=self._remembered.tools, caching=caching, marks=marks)
        return self._remembered.encode(request.conversation.messages, new, body)
