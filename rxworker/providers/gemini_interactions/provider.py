"""The Interactions protocol of Google, as a provider: at the developer API, or in a project at Vertex AI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rxworker.providers.background import BackgroundDecoder
from rxworker.providers.base import HttpRequest, ResumableDecoder
from rxworker.providers.gemini.provider import GoogleService
from rxworker.providers.gemini_interactions.decode import GeminiInteractionsDecoder
from rxworker.providers.gemini_interactions.encode import NAME, encode
from rxworker.providers.gemini_interactions.wire import numbers

REVISION = "2026-05-20"
"""The form of requests and events: the first that has steps.

See https://ai.google.dev/gemini-api/docs/interactions-breaking-changes-may-2026
"""


class GeminiInteractions(GoogleService):
    """Gemini, by Google's Interactions protocol.

    The requests let the service store nothing, and hold the whole conversation with the signatures of the model's
    thoughts; ``extra={"store": True}`` changes the first. An agent is ``extra={"agent": "...", "model": None}``.

    With ``extra={"background": True}`` the response goes on at the service, and is stored there, when the connection is
    cut: a client then goes on with the events that have not come. Disposing the stream cancels the response.

    A ``project``, a ``location`` or an ``access_token`` means Vertex AI; without any of them it is the developer API.

    Args:
        model: The name of the model, for example ``gemini-3.8-flash``.
        api_key: As for `Gemini`.
        base_url: As for `Gemini`.
        project: As for `Gemini`.
        location: As for `Gemini`.
        address: As for `Gemini`.
        headers: As for `Gemini`. ``api-revision`` is the form of requests and events.
        info: As for `Gemini`.
        access_token: As for `Gemini`.

    Raises:
        ConfigurationError: The ``base_url`` is not an address.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = GeminiInteractions("gemini-3.8-flash", api_key="AIza-secret")
    >>> provider.request(Conversation(), (), Options()).url
    'https://generativelanguage.googleapis.com/v1beta/interactions'
    """

    name = NAME
    _encode = staticmethod(encode)
    _has_background = True
    _own_headers: ClassVar[Mapping[str, str]] = {"api-revision": REVISION}
    _roots = ("/v1beta", "/v1beta1")
    _frame_decoder = GeminiInteractionsDecoder
    _numbers = staticmethod(numbers)

    def _path(self, place: str) -> str:
        return f"{place}/interactions"

    def background_decoder(self, cursor: str = "") -> ResumableDecoder:
        """The same, for a response that goes on without its connection (``extra={"background": True}``).

        Args:
            cursor: The id of a response that another process has begun: ``resume`` then gives the request for all of
                its events.
        """
        return InteractionsBackgroundDecoder(cursor)


class InteractionsBackgroundDecoder(BackgroundDecoder):
    r"""See `BackgroundDecoder`.

    The events have names (``event_id``), and all events are requested of an interaction that has no step yet.

    Args:
        cursor: See `BackgroundDecoder`.

    See https://ai.google.dev/gemini-api/docs/background-execution

    >>> decoder = InteractionsBackgroundDecoder()
    >>> data = b'data: {"event_type":"interaction.created","event_id":"e1","interaction":{"id":"v1_a"}}\n\n'
    >>> len(decoder.feed(data)), decoder.feed(data)
    (1, [])
    >>> decoder.resume(HttpRequest("https://h/v1beta/interactions", {}, b"{}")).url
    'https://h/v1beta/interactions/v1_a?stream=true&last_event_id=e1'
    """

    def __init__(self, cursor: str = "") -> None:
        self._interaction = GeminiInteractionsDecoder(outlives_errors=True)
        super().__init__(self._interaction, cursor)

    def _query(self, sent: HttpRequest) -> list[tuple[str, str]] | None:
        del sent
        if self._last is not None:
            return [("stream", "true"), ("last_event_id", str(self._last))]
        return None if self._interaction.steps else [("stream", "true")]
