"""What the providers have in common: a model of a service, its address, its key, and the errors of its responses."""

from __future__ import annotations

from collections.abc import Mapping

from rxworker.errors import ProviderError
from rxworker.providers.base import Options, hidden_url, is_secret
from rxworker.providers.endpoint import (
    base_address,
    checked_headers,
    current_secrets,
    endpoint,
    host_of,
    read_key,
    read_model,
)
from rxworker.providers.http_error import explain


class Service:
    """The base of a provider.

    Args:
        name: The name that messages carry.
        variable: The environment variable of the key.
        model: The model's name.
        api_key: The key, if it is not that of the variable.
        base_url: Where the service is, if it is not where the provider expects it.
    """

    def __init__(
        self, name: str, variable: str, model: str, api_key: str | None, base_url: str | None
    ) -> None:
        self._name = name
        self._variable = variable
        self._model = read_model(model)
        self._api_key = api_key
        self._base_url = base_url

    def __repr__(self) -> str:
        where = f", base_url={hidden_url(self._base_url)!r}" if self._base_url else ""
        return f"{type(self).__name__}({self._model!r}{where})"

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._name

    @property
    def model(self) -> str:
        """The model's name."""
        return self._model

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The error of a response that is no stream, and its remedy."""
        return explain(
            self._name,
            status,
            headers,
            body,
            model=self._model,
            variable=self._credential,
            secrets=self._secrets(),
        )

    @property
    def _credential(self) -> str:
        """What a person sets to authenticate, for errors."""
        return self._variable

    def _secrets(self) -> tuple[str | None, ...]:
        """What a response may repeat, and an error must not show."""
        return current_secrets(self._api_key, self._variable)


OPENAI = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"
AZURE = ".azure.com"


class OpenAIService(Service):
    """The base of OpenAI's two protocols, which share their address and their key.

    Args:
        name: The name that messages carry.
        path: The path of the protocol.
        model: The model's name.
        api_key: The key; by default that of ``OPENAI_API_KEY``.
        base_url: Where the service is; by default ``OPENAI_BASE_URL``, or else OpenAI.
        headers: Headers for every request.
    """

    def __init__(
        self,
        name: str,
        path: str,
        model: str,
        api_key: str | None,
        base_url: str | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        if base_url:
            endpoint(base_url, path)
        super().__init__(name, OPENAI_KEY, model, api_key, base_url)
        self._path = path
        self._headers = checked_headers(headers or {})

    def _endpoint(self) -> str:
        return endpoint(base_address(self._base_url, "OPENAI_BASE_URL", OPENAI), self._path)

    def _headers_for(self, url: str, options: Options) -> dict[str, str]:
        """The headers of a request, with the key unless the application has set its own."""
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        own = self._headers
        if options.headers:
            own = own | checked_headers(options.headers)
        if "authorization" not in own and "api-key" not in own:
            key = read_key(self._api_key, OPENAI_KEY, needed=url == endpoint(OPENAI, self._path))
            if key and host_of(url).endswith(AZURE):
                headers["api-key"] = key
            elif key:
                headers["authorization"] = f"Bearer {key}"
        return headers | own

    def _secrets(self) -> tuple[str | None, ...]:
        secret = [value for name, value in self._headers.items() if is_secret(name)]
        return (*super()._secrets(), *(value.removeprefix("Bearer ") for value in secret))
