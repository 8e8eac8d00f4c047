"""The endpoint of a request: the user's base address with the path of the protocol, and the headers with the key.

The key is read late and never shown. A row of the hosts is used by the end of a host, so one row serves the regions and
resources of a service. Sources are the pages of the services for these protocols, and the official clients for Azure
(``AnthropicFoundry``) and Amazon Bedrock's mantle (``AnthropicBedrockMantle``, ``openai.providers.bedrock``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec import Struct

from rxworker.errors import ConfigurationError
from rxworker.providers.base import HIDDEN, SHORTEST, hidden_url

A = TypeVar("A")
BEARER = ("authorization",)
X_API_KEY = ("x-api-key",)


class Host(Struct, frozen=True):
    """One protocol at one host.

    Attributes:
        variable: The environment variable of the key.
        root: The path of the protocol, for an address without a path.
        headers: The headers that carry the key; ``authorization`` carries it as a bearer's, and stands alone.
    """

    variable: str
    root: str = ""
    headers: tuple[str, ...] = BEARER

    def authorization(self, key: str) -> dict[str, str]:
        """The headers with the key.

        >>> Host("K").authorization("sk-1"), Host("K", headers=("x-api-key",)).authorization("sk-1")
        ({'authorization': 'Bearer sk-1'}, {'x-api-key': 'sk-1'})
        """
        # A key of Azure has no dots; a token of Entra, which is a JWT, has.
        if self.headers == BEARER or ("api-key" in self.headers and "." in key):
            return {"authorization": f"Bearer {key}"}
        return dict.fromkeys(self.headers, key)


# The variable of the key, the hosts, the root of OpenAI's protocols there, and that of Anthropic's, ``None`` where a
# service does not speak it. Without a version, the root of OpenAI's is that of an address without a row, /v1; that of
# Anthropic's is followed by /v1.
_SERVICES: tuple[tuple[str, str, str, str | None], ...] = (
    ("AWS_BEARER_TOKEN_BEDROCK", "api.aws", "/openai/v1", "/anthropic"),
    ("CEREBRAS_API_KEY", "api.cerebras.ai", "", None),
    (
        "DASHSCOPE_API_KEY",
        "dashscope.aliyuncs.com dashscope-intl.aliyuncs.com",
        "/compatible-mode/v1",
        "/apps/anthropic",
    ),
    ("DASHSCOPE_API_KEY", "dashscope-us.aliyuncs.com", "/compatible-mode/v1", None),
    ("DEEPSEEK_API_KEY", "api.deepseek.com", "", "/anthropic"),
    ("GEMINI_API_KEY", "generativelanguage.googleapis.com", "/v1beta/openai", None),
    ("GROQ_API_KEY", "api.groq.com", "/openai/v1", None),
    ("KIMI_API_KEY", "api.kimi.com", "/coding/v1", "/coding"),
    ("MINIMAX_API_KEY", "api.minimax.io api.minimaxi.com", "", "/anthropic"),
    ("MISTRAL_API_KEY", "api.mistral.ai", "", None),
    ("MOONSHOT_API_KEY", "api.moonshot.ai api.moonshot.cn", "", "/anthropic"),
    ("OPENAI_API_KEY", "openai.com", "", None),
    ("OPENROUTER_API_KEY", "openrouter.ai", "/api/v1", "/api"),
    ("SILICONFLOW_API_KEY", "api.siliconflow.cn api.siliconflow.com", "", None),
    ("TOGETHER_API_KEY", "api.together.ai api.together.xyz", "", None),
    ("XAI_API_KEY", "api.x.ai", "", ""),
    ("ZAI_API_KEY", "api.z.ai open.bigmodel.cn", "/api/paas/v4", "/api/anthropic"),
)
AZURE = ("openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com")

# Chat Completions and Responses.
OPENAI_HOSTS = {
    **{host: Host(key, root) for key, hosts, root, _ in _SERVICES for host in hosts.split()},
    **dict.fromkeys(AZURE, Host("AZURE_OPENAI_API_KEY", "/openai/v1", ("api-key",))),
}
# The compatible services take a bearer's, which is what the official client sends (anthropic 2.14).
ANTHROPIC_HOSTS = {
    **{host: Host(key, root) for key, hosts, _, root in _SERVICES if root is not None for host in hosts.split()},
    "anthropic.com": Host("ANTHROPIC_API_KEY", headers=X_API_KEY),
    # The official client sends the key in both.
    "services.ai.azure.com": Host("ANTHROPIC_FOUNDRY_API_KEY", "/anthropic", ("x-api-key", "api-key")),
}


def row_of(rows: Mapping[str, A], url: str, otherwise: A) -> A:
    """The row of the host of an address, by the host or its end.

    >>> row_of(OPENAI_HOSTS, "https://me.openai.azure.com", Host("K")).root
    '/openai/v1'
    >>> row_of(OPENAI_HOSTS, "http://127.0.0.1:8000/v1", Host("K")).variable
    'K'
    """
    labels = host_of(url).rstrip(".").split(".")
    for place in range(len(labels)):  # the longest end first
        if (end := ".".join(labels[place:])) in rows:
            return rows[end]
    return otherwise


@lru_cache(maxsize=64)  # used for each request, of the same few addresses
def openai_host(url: str) -> Host | None:
    """The row of an address that speaks a protocol of OpenAI's, if there is one."""
    return row_of(OPENAI_HOSTS, url, None)


@lru_cache(maxsize=64)  # the same
def anthropic_host(url: str) -> Host | None:
    """The row of an address that speaks Anthropic's protocol, if there is one."""
    return row_of(ANTHROPIC_HOSTS, url, None)


PROJECT = "GOOGLE_CLOUD_PROJECT"
LOCATION = "GOOGLE_CLOUD_LOCATION"
GLOBAL = "global"

_LOCATION = re.compile(r"[a-z0-9-]+")
_PROJECT = re.compile(r"[A-Za-z0-9:._-]+")


def vertex_place(base_url: str | None, project: str | None, location: str | None) -> tuple[str, str]:
    """The base address of a location, and the path of a project in it; those of the environment where none is given.

    Raises:
        ConfigurationError: There is no project, or it or the location cannot be right.

    >>> vertex_place(None, "mine", "us-central1")
    ('https://us-central1-aiplatform.googleapis.com', '/projects/mine/locations/us-central1')
    >>> vertex_place(None, "mine", "eu")[0]
    'https://aiplatform.eu.rep.googleapis.com'
    """
    project = project or os.environ.get(PROJECT)
    location = location or os.environ.get(LOCATION) or GLOBAL
    if not project:
        raise ConfigurationError(f"no project: set the environment variable {PROJECT}, or pass project=...")
    if not _PROJECT.fullmatch(project):
        raise ConfigurationError(f"the project {project!r} is not the name of one")
    if not _LOCATION.fullmatch(location):
        raise ConfigurationError(f"the location {location!r} is not one; write it like us-central1, or {GLOBAL}")
    if location in ("eu", "us"):
        host = f"aiplatform.{location}.rep.googleapis.com"
    else:
        host = f"{'' if location == GLOBAL else location + '-'}aiplatform.googleapis.com"
    return base_url or f"https://{host}", f"/projects/{project}/locations/{location}"


@lru_cache(maxsize=64)  # the same
def resource(model: str, folder: str) -> str:
    """The model's name below its folder; a name with a folder of its own stays."""
    name = quote(model.strip("/"), safe="/:@")
    return name if "/" in name else folder + name


def bearer(token: str | None, base_url: str | None) -> dict[str, str]:
    """The header with the token.

    Raises:
        ConfigurationError: There is none, and the service is Google's; or it cannot be sent.
    """
    if token:
        if not _KEY.fullmatch(token):
            raise _unsendable("access token", "access_token=...")
        return {"authorization": f"Bearer {token}"}
    if base_url:
        return {}
    raise ConfigurationError(
        "no access token for Vertex AI: pass access_token=..., a token or a function that "
        "gets one, for example from `gcloud auth print-access-token`"
    )


_VERSION = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?$")
_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")


@lru_cache(maxsize=64)  # used for each request, and always the same
def endpoint(base_url: str, path: str, root: str = "/v1", version: str = "") -> str:
    """The address of one call.

    Args:
        base_url: As the user gives it. Without a path it means the protocol's own root; a query stays at the end.
        path: The path that the protocol appends, for example ``/messages``. An address that ends with it is not
            changed.
        root: The path before it where the address has none.
        version: What follows a path that does not end with a version, as the SDKs of Anthropic and Google have it.

    Raises:
        ConfigurationError: It is not an address of the web.

    >>> endpoint("https://api.anthropic.com", "/messages")
    'https://api.anthropic.com/v1/messages'
    >>> endpoint("http://127.0.0.1:8080/v1/", "/messages")
    'http://127.0.0.1:8080/v1/messages'
    >>> endpoint("https://api.deepseek.com/anthropic", "/messages", version="/v1")
    'https://api.deepseek.com/anthropic/v1/messages'
    """
    if _UNPRINTABLE.search(base_url):
        raise ConfigurationError(
            "the base_url holds white space or characters that are not ASCII; write it like https://example.com/v1"
        )
    try:
        parts = urlsplit(base_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, valid = urlsplit(""), False
    if valid and "@" in parts.netloc:
        raise ConfigurationError("the base_url holds a user name or a password; pass them as headers instead")
    if not valid:
        raise ConfigurationError(
            f"the base_url {hidden_url(base_url)!r} is not an address; write it like https://example.com/v1"
        )
    below = parts.path.rstrip("/") or root
    if version and not (_VERSION.search(below) or below.endswith(path)):
        below += version
    if not below.endswith(path):
        below += path
    return urlunsplit((parts.scheme, parts.netloc, below, parts.query, ""))


@lru_cache(maxsize=64)  # the same
def host_of(url: str) -> str:
    """The host of an address.

    >>> host_of("https://API.openai.com:443/v1")
    'api.openai.com'
    """
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def base_address(argument: str | None, variable: str, default: str) -> str:
    """The base address: the argument, else the environment variable, else the provider's own."""
    return argument or os.environ.get(variable) or default


_KEY = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
# What the keys of the known services look like, where an answer repeats one that is not ours.
_LIKE_A_KEY = re.compile(r"\b(?:(?:sk|gsk|xai|pplx|csk|fw|nvapi)[-_][A-Za-z0-9*_-]{4,}|AIza[A-Za-z0-9_-]{16,})")


def read_model(name: object) -> str:
    """The model's name, if it is one.

    Raises:
        ConfigurationError: It is not the name of a model.
    """
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"{name!r} is not a model: give its name, as the provider writes it")
    return name


def read_key(argument: str | None, *variables: str, needed: bool) -> str | None:
    """The key: the argument, else the first environment variable that is set, read now.

    Args:
        argument: The argument of the provider.
        variables: The environment variables.
        needed: Whether there must be one.

    Raises:
        ConfigurationError: There is none, or it cannot be sent. The message does not show it.
    """
    key = argument or next(filter(None, map(os.environ.get, variables)), None)
    if key is None:
        if needed:
            raise ConfigurationError(f"no API key: set the environment variable {variables[0]}, or pass api_key=...")
        return None
    if not _KEY.fullmatch(key):
        raise _unsendable("API key", f"{variables[0]} or api_key=...")
    return key


def _unsendable(kind: str, place: str) -> ConfigurationError:
    return ConfigurationError(
        f"the {kind} holds a line end, a space or a character that is not ASCII, and cannot be sent; copy it again, "
        f"without the surrounding text ({place})"
    )


def current_secrets(argument: str | None, *variables: str) -> tuple[str | None, ...]:
    """The keys that may be in use, to be masked."""
    return argument, *map(os.environ.get, variables)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with their names in lower case.

    Raises:
        ConfigurationError: A name or a value cannot be sent. The message does not show the value.

    >>> checked_headers({"X-Title": "demo"})
    {'x-title': 'demo'}
    """
    if not headers:
        return {}
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r} cannot be the name of a header")
        if not _VALUE.fullmatch(value):
            raise ConfigurationError(f"the header {name!r} holds a line end or a character that is not ASCII")
    return {name.lower(): value for name, value in headers.items()}


def masked(text: str, secrets: Iterable[str | None]) -> str:
    """The text without the secrets, and without whatever looks like a key.

    >>> masked("Incorrect API key provided: sk-fake-key.", ())
    'Incorrect API key provided: ***.'
    """
    for secret in secrets:
        if secret and len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    return _LIKE_A_KEY.sub(HIDDEN, text)
