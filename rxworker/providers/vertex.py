"""The addresses and the tokens of Vertex AI, whichever protocol a model speaks there."""

from __future__ import annotations

import re
from urllib.parse import quote

from rxworker.errors import ConfigurationError
from rxworker.providers.endpoint import checked_headers

PROJECT = "GOOGLE_CLOUD_PROJECT"
LOCATION = "GOOGLE_CLOUD_LOCATION"
GLOBAL = "global"
MULTI_REGIONS = ("eu", "us")

_LOCATION = re.compile(r"[a-z0-9-]+")
_PROJECT = re.compile(r"[A-Za-z0-9:._-]+")


def vertex_place(base_url: str | None, project: str | None, location: str) -> tuple[str, str]:
    """The base address of a location, and the path of a project in it.

    Raises:
        ConfigurationError: There is no project, or it or the location cannot be right.

    >>> vertex_place(None, "mine", "us-central1")
    ('https://us-central1-aiplatform.googleapis.com', '/projects/mine/locations/us-central1')
    >>> vertex_place(None, "mine", "eu")[0]
    'https://aiplatform.eu.rep.googleapis.com'
    """
    if not project:
        raise ConfigurationError(f"no project: set the environment variable {PROJECT}, or pass project=...")
    if not _PROJECT.fullmatch(project):
        raise ConfigurationError(f"the project {project!r} is not the name of one")
    if not _LOCATION.fullmatch(location):
        raise ConfigurationError(f"the location {location!r} is not one; write it like us-central1, or {GLOBAL}")
    if location in MULTI_REGIONS:
        host = f"aiplatform.{location}.rep.googleapis.com"
    else:
        host = f"{'' if location == GLOBAL else location + '-'}aiplatform.googleapis.com"
    return base_url or f"https://{host}", f"/projects/{project}/locations/{location}"


def resource(model: str, folder: str) -> str:
    """The model's name below its folder; a name with a folder of its own stays."""
    name = quote(model.strip("/"), safe="/:@")
    return name if "/" in name else folder + name


def bearer(token: str | None, base_url: str | None) -> dict[str, str]:
    """The header with the token.

    Raises:
        ConfigurationError: There is none, and the service is Google's.
    """
    if token:
        return checked_headers({"authorization": f"Bearer {token}"})
    if base_url:
        return {}
    raise ConfigurationError(
        "no access token for Vertex AI: pass access_token=..., a token or a function that "
        "gets one, for example from `gcloud auth print-access-token`"
    )
