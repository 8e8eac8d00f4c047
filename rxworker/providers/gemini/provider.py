"""The generateContent protocol of Google, as a provider: at the developer API, or in a project at Vertex AI."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from rxworker.errors import ConfigurationError
from rxworker.framing import SseDecoder
from rxworker.messages import Conversation, Counts, ToolMeta
from rxworker.messages.usage import Usage
from rxworker.providers.base import HttpRequest, Options, ResponseDecoder, hidden_url
from rxworker.providers.batch_decoder import BatchDecoder
from rxworker.providers.endpoint import (
    base_address,
    checked_headers,
    current_secrets,
    endpoint,
    read_key,
)
from rxworker.providers.gemini.decode import GeminiDecoder
from rxworker.providers.gemini.encode import NAME, encode
from rxworker.providers.gemini.finish import count
from rxworker.providers.service import Service

DEVELOPER = "https://generativelanguage.googleapis.com"
METHOD = ":streamGenerateContent"
GLOBAL = "global"

_LOCATION = re.compile(r"[a-z0-9-]+")
_PROJECT = re.compile(r"[A-Za-z0-9:._-]+")


def developer_url(base_url: str, model: str) -> str:
    """The address of a model at the developer API.

    >>> developer_url(DEVELOPER, "gemini-2.5-flash")
    'https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse'
    """
    return _streamed(base_url, f"/{_resource(model, 'models/')}{METHOD}", "/v1beta")


def vertex_url(base_url: str | None, project: str, location: str, model: str) -> str:
    """The address of a model at Vertex AI.

    Raises:
        ConfigurationError: The project or the location cannot be right.

    >>> vertex_url(None, "mine", "us-central1", "gemini-2.5-flash").partition("/projects")[0]
    'https://us-central1-aiplatform.googleapis.com/v1'
    """
    if not _PROJECT.fullmatch(project):
        raise ConfigurationError(f"the project {project!r} is not the name of one")
    if not _LOCATION.fullmatch(location):
        raise ConfigurationError(
            f"the location {location!r} is not one; write it like us-central1, or {GLOBAL}"
        )
    prefix = "" if location == GLOBAL else f"{location}-"
    base = base_url or f"https://{prefix}aiplatform.googleapis.com"
    place = f"/projects/{project}/locations/{location}"
    return _streamed(
        base, f"{place}/{_resource(model, 'publishers/google/models/')}{METHOD}", "/v1"
    )


def _resource(model: str, folder: str) -> str:
    """The model's name below its folder; a name with a folder of its own stays."""
    name = quote(model.strip("/"), safe="/:@")
    return name if "/" in name else folder + name


def _streamed(base_url: str, path: str, root: str) -> str:
    """The address, with the parameter for server-sent events instead of one JSON array."""
    if any(name == "key" for name, _ in parse_qsl(urlsplit(base_url).query)):
        raise ConfigurationError("the base_url holds a key; pass it as api_key=... instead")
    url = endpoint(base_url, path, root)
    if any(name == "alt" for name, _ in parse_qsl(urlsplit(url).query)):
        return url
    return f"{url}{'&' if '?' in url else '?'}alt=sse"


KEY = "GEMINI_API_KEY"
OTHER_KEY = "GOOGLE_API_KEY"
BASE = "GOOGLE_GEMINI_BASE_URL"
PROJECT = "GOOGLE_CLOUD_PROJECT"
LOCATION = "GOOGLE_CLOUD_LOCATION"


class Gemini(Service):
    """Gemini, by Google's generateContent protocol.

    A ``project``, a ``location`` or an ``access_token`` means Vertex AI; without any of them it is the developer API.

    Args:
        model: The name of the model, for example ``gemini-2.5-flash``.
        api_key: The key; without one, the environment variable ``GEMINI_API_KEY`` or else ``GOOGLE_API_KEY`` is read for
            each request. A server of your own (``base_url``) needs none.
        base_url: Where the service is, instead of Google's address; for the developer API also in
            ``GOOGLE_GEMINI_BASE_URL``.
        project: The project at Vertex AI; without one, ``GOOGLE_CLOUD_PROJECT``.
        location: Its region; without one, ``GOOGLE_CLOUD_LOCATION``, or else ``global``.
        access_token: The token for Vertex AI, or a function that returns one and is called for each request, since tokens expire
            within the hour.

    Raises:
        ConfigurationError: The ``base_url`` is not an address.

    >>> provider = Gemini("gemini-2.5-flash", api_key="AIza-secret")
    >>> provider
    Gemini('gemini-2.5-flash')
    >>> provider.request(Conversation(), (), Options()).url.rpartition("/")[2]
    'gemini-2.5-flash:streamGenerateContent?alt=sse'
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        project: str | None = None,
        location: str | None = None,
        access_token: str | Callable[[], str] | None = None,
    ) -> None:
        if base_url:
            developer_url(base_url, model)
        super().__init__(NAME, KEY, model, api_key, base_url)
        self._project = project
        self._location = location
        self._access_token = access_token
        self._last_token: str | None = None  # to be masked, should an answer repeat it
        self._at_vertex = bool(project or location or access_token)

    def __repr__(self) -> str:
        named = {
            "base_url": hidden_url(self._base_url or ""),
            "project": self._project,
            "location": self._location,
        }
        shown = [f", {name}={value!r}" for name, value in named.items() if value]
        return f"Gemini({self._model!r}{''.join(shown)})"

    def request(
        self, conversation: Conversation, tools: Sequence[ToolMeta], options: Options
    ) -> HttpRequest:
        """The request for the next message.

        Raises:
            ConfigurationError: No key, token or project was found, or an address, key or header cannot be sent.
        """
        url = self._url()
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        own = checked_headers(options.headers)
        if "authorization" not in own and "x-goog-api-key" not in own:
            headers |= self._authorisation(url)
        body = encode(self._model, conversation, tools, options)
        return HttpRequest(url, headers | own, msgspec.json.encode(body))

    def decoder(self) -> ResponseDecoder:
        """A fresh machine from the answer's bytes to events."""
        return BatchDecoder(SseDecoder(stray=True), GeminiDecoder())

    def counts(self, usage: Usage) -> Counts:
        """The usage as Gemini counts it: its output is without thoughts."""
        return count(usage)

    @property
    def _credential(self) -> str:
        return "access_token=..." if self._at_vertex else KEY

    def _secrets(self) -> tuple[str | None, ...]:
        return (*super()._secrets(), *current_secrets(self._last_token, OTHER_KEY))

    def _url(self) -> str:
        if not self._at_vertex:
            return developer_url(base_address(self._base_url, BASE, DEVELOPER), self._model)
        project = self._project or os.environ.get(PROJECT)
        if not project:
            raise ConfigurationError(
                f"no project: set the environment variable {PROJECT}, or pass project=..."
            )
        location = self._location or os.environ.get(LOCATION) or GLOBAL
        return vertex_url(self._base_url, project, location, self._model)

    def _authorisation(self, url: str) -> dict[str, str]:
        if self._at_vertex and (self._access_token or not self._api_key):
            return self._bearer()
        variable = OTHER_KEY if os.environ.get(OTHER_KEY) and not os.environ.get(KEY) else KEY
        key = read_key(self._api_key, variable, needed=url.startswith(DEVELOPER + "/"))
        return {"x-goog-api-key": key} if key else {}

    def _bearer(self) -> dict[str, str]:
        token = self._access_token() if callable(self._access_token) else self._access_token
        self._last_token = token
        if token:
            return checked_headers({"authorization": f"Bearer {token}"})
        if self._base_url:
            return {}
        raise ConfigurationError(
            "no access token for Vertex AI: pass access_token=..., a token or a function that "
            "gets one, for example from `gcloud auth print-access-token`"
        )
