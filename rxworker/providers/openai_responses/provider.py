"""The Responses protocol, of OpenAI and of the servers that are compatible with it, as a provider."""

from __future__ import annotations

from functools import partial

from rxworker.messages.lenient_json import as_array, as_object, read_json
from rxworker.providers.background import BackgroundDecoder
from rxworker.providers.base import HttpRequest, ResumableDecoder
from rxworker.providers.encode_cache import LIFETIMES, cache_settings, takes_breakpoints
from rxworker.providers.endpoint import host_of
from rxworker.providers.openai_responses.decode import OpenAIResponsesDecoder, numbers
from rxworker.providers.openai_responses.encode import NAME, InputEncoder, encode, encode_tool
from rxworker.providers.service import Draft, OpenAIService


class OpenAIResponses(OpenAIService):
    """A model that speaks the Responses protocol.

    The requests let the service store nothing, and include its encrypted reasoning in the response, so that the next
    request can send it back. Reasoning in readable text is sent for ``extra={"reasoning": {"summary": "auto"}}``.

    With ``extra={"background": True}`` the response goes on at the service, and is stored there, when the connection is
    cut: a client then goes on with the events that have not come. Disposing the stream cancels the response.

    Args:
        model: The name of the model, for example ``gpt-5.4``.
        api_key: The key; without one, the environment variable ``OPENAI_API_KEY`` is read for each request. A server of
            your own (``base_url``) needs none. A function or a coroutine function that returns it is called for each
            request.
        base_url: Where the service is, for example ``http://127.0.0.1:8080``; without one, ``OPENAI_BASE_URL``, or else
            OpenAI. A query, such as Azure's ``?api-version=...``, is kept.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request. With an ``authorization`` or ``api-key`` among them no key is looked for.

    Raises:
        ConfigurationError: The ``base_url`` is not an address, or a header cannot be sent.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> OpenAIResponses("gpt-5.4", api_key="sk-secret").request(Conversation(), (), Options()).url
    'https://api.openai.com/v1/responses'
    """

    name = NAME
    _path = "/responses"
    _has_background = True
    _compacting_hosts = ("openai.com", "azure.com")
    _encode_tool = staticmethod(encode_tool)
    _frame_decoder = OpenAIResponsesDecoder
    _numbers = staticmethod(numbers)

    def _body(self, request: Draft) -> bytes:
        thinks, host, info = request.info.efforts != (), host_of(request.url), self._cached
        caching = cache_settings(host, request, LIFETIMES, info)
        new = InputEncoder(breakpoints=takes_breakpoints(host, info))
        body = partial(encode, self.model, request, known=self._remembered.tools, caching=caching, thinks=thinks)
        return self._remembered.encode(request.conversation.messages, new, body)

    def background_decoder(self, cursor: str = "") -> ResumableDecoder:
        """The same, for a response that goes on without its connection (``extra={"background": True}``).

        See `BackgroundProvider`.
        """
        return ResponsesBackgroundDecoder(cursor)


class ResponsesBackgroundDecoder(BackgroundDecoder):
    r"""See `BackgroundDecoder`. The events have numbers.

    See https://developers.openai.com/api/docs/guides/background

    A response that another process has begun is requested after its event 0, which has nothing but the name of the
    response.

    Args:
        cursor: See `BackgroundDecoder`.

    >>> decoder = ResponsesBackgroundDecoder()
    >>> data = b'data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1"}}\n\n'
    >>> len(decoder.feed(data)), decoder.feed(data)
    (1, [])
    >>> decoder.resume(HttpRequest("https://api.openai.com/v1/responses", {}, b"{}")).url
    'https://api.openai.com/v1/responses/resp_1?stream=true&starting_after=0'
    """

    def __init__(self, cursor: str = "") -> None:
        super().__init__(OpenAIResponsesDecoder(), cursor)

    def _query(self, sent: HttpRequest) -> list[tuple[str, str]] | None:
        if self._last is None and not self._cursor:
            return None
        include = as_array(as_object(read_json(sent.body)).get("include"))
        included = [("include[]", str(one)) for one in include]
        return [("stream", "true"), ("starting_after", str(self._last or 0)), *included]
