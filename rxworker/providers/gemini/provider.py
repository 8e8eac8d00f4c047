"""The generateContent protocol of Google, at the developer API or in a project at Vertex AI.

`GoogleService` is the base of Google's protocols.
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


@lru_cache(maxsize=64)  # used for each request, and always the same
def google_url(base_url: str, path: str, root: str, parameter: str = "") -> str:
    """The address of one call.

    Raises:
        ConfigurationError: The base address is not one, or holds a key.
    """
    given = dict(parse_qsl(urlsplit(base_url).query))
    if "key" in given:
        raise ConfigurationError("the base_url holds a key; pass it as api_key=... instead")
    url = endpoint(base_url, path, root, root)
    if not parameter or parameter.partition("=")[0] in given:
        return url
    return f"{url}{'&' if '?' in url else '?'}{parameter}"


OTHER_KEY = "GOOGLE_API_KEY"
BASE = "GOOGLE_GEMINI_BASE_URL"


class GoogleService(Service):
    """The base of Google's protocols: the place, and the key or the token."""

    _variable = "GEMINI_API_KEY"
    _key_headers = ("authorization", "x-goog-api-key")
    _shown = ("base_url", "address", "project", "location")
    _vendors = ("gemini",)
    _roots: tuple[str, str]  # of the addresses at the developer API, and at Vertex AI
    _parameter = ""  # of the addresses

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
        google_url(base_url, self._path(""), self._roots[0])

    @abstractmethod
    def _path(self, place: str) -> str:
        """The path of the requests, in the place of a project at Vertex AI, or at the developer API."""

    @property
    def _variables(self) -> tuple[str, ...]:
        return (*(("access_token=...",) if self._at_vertex else ()), self._variable, OTHER_KEY)

    def _url(self) -> str:
        base, place, root = base_address(self._base_url, BASE, DEVELOPER), "", self._roots[0]
        if self._at_vertex:
            (base, place), root = vertex_place(self._base_url, self._project, self._location), self._roots[1]
        return google_url(base, self._path(place), root, self._parameter)

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
    _roots = ("/v1beta", "/v1")
    _parameter = "alt=sse"  # server-sent events instead of one JSON array

    def _path(self, place: str) -> str:
        return (
            f"{place}/{resource(self.model, 'publishers/google/models/' if place else 'models/')}:streamGenerateContent"
        )
