"""The generateContent protocol of Google, as a provider, and the base of Google's protocols.

At the developer API, or in a project at Vertex AI.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from functools import lru_cache
from typing import Unpack
from urllib.parse import parse_qsl, urlsplit

from rxworker.errors import ConfigurationError
from rxworker.providers.endpoint import base_address, bearer, endpoint, read_key, resource, vertex_place
from rxworker.providers.gemini.decode import GeminiDecoder
from rxworker.providers.gemini.encode import NAME, encode
from rxworker.providers.gemini.wire import numbers
from rxworker.providers.service import ApiKey, Service, Settings

DEVELOPER = "https://generativelanguage.googleapis.com"
METHOD = ":streamGenerateContent"


@lru_cache(maxsize=64)  # used for each request, and always the same
def developer_url(base_url: str, model: str) -> str:
    """The address of a model at the developer API.

    >>> developer_url(DEVELOPER, "gemini-3.8-flash")
    'https://generativelanguage.googleapis.com/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse'
    """
    return _streamed(base_url, f"/{resource(model, 'models/')}{METHOD}", "/v1beta")


def vertex_url(base_url: str | None, project: str | None, location: str | None, model: str) -> str:
    """The address of a model at Vertex AI.

    Raises:
        ConfigurationError: The project or the location cannot be right.

    >>> vertex_url(None, "mine", "us-central1", "gemini-3.8-flash").partition("/projects")[0]
    'https://us-central1-aiplatform.googleapis.com/v1'
    """
    base, place = vertex_place(base_url, project, location)
    return _streamed(base, f"{place}/{resource(model, 'publishers/google/models/')}{METHOD}", "/v1")


def _streamed(base_url: str, path: str, root: str) -> str:
    """The address, with the parameter for server-sent events instead of one JSON array."""
    url = google_url(base_url, path, root)
    if any(name == "alt" for name, _ in parse_qsl(urlsplit(url).query)):
        return url
    return f"{url}{'&' if '?' in url else '?'}alt=sse"


def google_url(base_url: str, path: str, root: str) -> str:
    """The address of one call.

    Raises:
        ConfigurationError: The base address is not one, or holds a key.
    """
    if any(name == "key" for name, _ in parse_qsl(urlsplit(base_url).query)):
        raise ConfigurationError("the base_url holds a key; pass it as api_key=... instead")
    return endpoint(base_url, path, root, root)


OTHER_KEY = "GOOGLE_API_KEY"
BASE = "GOOGLE_GEMINI_BASE_URL"


class GoogleService(Service):
    """The base of Google's protocols: the place, and the key or the token.

    A subclass has the addresses of its protocol.
    """

    _variable = "GEMINI_API_KEY"
    _key_headers = ("authorization", "x-goog-api-key")
    _shown = ("base_url", "address", "project", "location")
    _vendors = ("gemini",)

    def __init__(
        self,
        model: str,
        *,
        project: str | None = None,
        location: str | None = None,
        access_token: ApiKey | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        api_key = settings.get("api_key")
        super().__init__(model, **settings | {"api_key": access_token or api_key})
        self._project = project
        self._location = location
        self._has_key = bool(api_key and not access_token)
        self._at_vertex = bool(project or location or access_token)

    def _check_base(self, base_url: str) -> None:
        self._developer_url(base_url, self.model)

    @staticmethod
    @abstractmethod
    def _developer_url(base_url: str, model: str, /) -> str:
        """The address of the requests at the developer API."""

    @staticmethod
    @abstractmethod
    def _vertex_url(base_url: str | None, project: str | None, location: str | None, model: str, /) -> str:
        """The address of the requests at Vertex AI."""

    @property
    def _variables(self) -> tuple[str, ...]:
        return (*(("access_token=...",) if self._at_vertex else ()), self._variable, OTHER_KEY)

    def _url(self) -> str:
        if not self._at_vertex:
            return self._developer_url(base_address(self._base_url, BASE, DEVELOPER), self.model)
        return self._vertex_url(self._base_url, self._project, self._location, self.model)

    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        if self._at_vertex and not self._has_key:
            return bearer(given, self._base_url)
        variable = self._variable
        if os.environ.get(OTHER_KEY) and not os.environ.get(variable):
            variable = OTHER_KEY
        key = read_key(given, variable, needed=url.startswith(DEVELOPER + "/"))
        return {"x-goog-api-key": key} if key else {}


class Gemini(GoogleService):
    """Gemini, by Google's generateContent protocol.

    A ``project``, a ``location`` or an ``access_token`` means Vertex AI; without any of them it is the developer API.

    Args:
        model: The name of the model, for example ``gemini-3.8-flash``.
        api_key: The key; without one, the environment variable ``GEMINI_API_KEY`` or else ``GOOGLE_API_KEY`` is read
            for each request. A server of your own (``base_url``) needs none.
        base_url: Where the service is, instead of Google's address; for the developer API also in
            ``GOOGLE_GEMINI_BASE_URL``.
        project: The project at Vertex AI; without one, ``GOOGLE_CLOUD_PROJECT``.
        location: Its region; without one, ``GOOGLE_CLOUD_LOCATION``, or else ``global``.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request. With an ``authorization`` or ``x-goog-api-key`` among them no key is looked
            for.
        info: What the model takes and costs, if it is not what the table of `rxworker.providers.model_info` has.
        access_token: The token for Vertex AI, or a function or a coroutine function that returns one and is called for
            each request, since tokens expire within the hour.

    Raises:
        ConfigurationError: The ``base_url`` is not an address.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = Gemini("gemini-3.8-flash", api_key="AIza-secret")
    >>> provider
    Gemini('gemini-3.8-flash')
    >>> provider.request(Conversation(), (), Options()).url.rpartition("/")[2]
    'gemini-3.8-flash:streamGenerateContent?alt=sse'
    """

    name = NAME
    _encode = staticmethod(encode)
    _frame_decoder = GeminiDecoder
    _numbers = staticmethod(numbers)
    _developer_url = staticmethod(developer_url)
    _vertex_url = staticmethod(vertex_url)
