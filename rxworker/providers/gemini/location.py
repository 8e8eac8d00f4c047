"""Where a request goes: the developer API, or a project at Vertex AI."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlsplit

from rxworker.errors import ConfigurationError
from rxworker.providers.address import endpoint

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
    """The address, asking for server-sent events instead of one JSON array."""
    if any(name == "key" for name, _ in parse_qsl(urlsplit(base_url).query)):
        raise ConfigurationError("the base_url holds a key; pass it as api_key=... instead")
    url = endpoint(base_url, path, root)
    if any(name == "alt" for name, _ in parse_qsl(urlsplit(url).query)):
        return url
    return f"{url}{'&' if '?' in url else '?'}alt=sse"


__all__ = ["DEVELOPER", "GLOBAL", "developer_url", "vertex_url"]
