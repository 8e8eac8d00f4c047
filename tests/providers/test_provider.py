"""Keys, addresses and headers of the requests."""

from __future__ import annotations

from typing import Any

import pytest

from rxworker.errors import ConfigurationError
from rxworker.events import Error, Status
from rxworker.messages import Conversation, Message
from rxworker.providers import PROVIDERS, Anthropic, HttpRequest, OpenAIChat, Options, Provider
from rxworker.testing.wire.bedrock import raw_message
from tests.decoded import decoded

ASK = Conversation((Message.user("hello"),))
KEY = "sk-secret-0123456789"


def ask(provider: Provider, options: Options | None = None) -> HttpRequest:
    return provider.request(ASK, (), options or Options())


@pytest.mark.parametrize("name", PROVIDERS)
def test_json_that_is_too_deep_to_read_is_an_error_and_not_an_exception(name: str) -> None:
    line = b'{"type": "x", "error": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    frame = line + b"\n" if name == "ollama" else b"data: " + line + b"\n\n"
    if name == "bedrock":
        frame = raw_message("metadata", line)
    assert [type(event) for event in decoded(name, frame, frame)[-2:]] == [Error, Status]


@pytest.mark.parametrize(
    "base_url",
    [
        "localhost:8080",
        "nonsense",
        "ftp://h",
        "http://",
        "http://[",
        "http:///v1",
        "http://h:99999",
        "http://a b",
        "http://h/\n",
        "https://日本",
    ],
)
def test_a_bad_address_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        Anthropic("m", base_url=base_url)
    with pytest.raises(ConfigurationError, match="base_url"):
        OpenAIChat("m", base_url=base_url)


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIChat("m", base_url="https://me:hunter22@h")
    assert "hunter22" not in str(caught.value)


def test_headers_of_the_options_come_over_ours_in_lower_case() -> None:
    options = Options(headers={"Anthropic-Beta": "a,b", "Anthropic-Version": "x"})
    headers = ask(Anthropic("m", api_key=KEY), options).headers
    assert headers["anthropic-beta"] == "a,b"
    assert headers["anthropic-version"] == "x"
    assert headers["content-type"] == "application/json"


def test_a_header_with_a_line_end_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="x-a"):
        ask(Anthropic("m", api_key=KEY), Options(headers={"x-a": "b\r\nc: d"}))
    with pytest.raises(ConfigurationError, match="name of a header"):
        OpenAIChat("m", headers={"a b": "c"})


@pytest.mark.parametrize("name", sorted(PROVIDERS))
@pytest.mark.parametrize("model", [None, "", "  ", 3])
def test_what_is_not_a_model_is_refused_at_once(name: str, model: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a model"):
        PROVIDERS[name](model)


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_a_redirect_names_where_to_and_what_to_do(name: str) -> None:
    headers = {"location": "https://elsewhere.example/v1/messages?key=secret"}
    error = PROVIDERS[name]("m").error(301, headers, b"")
    assert "points to https://elsewhere.example/v1/messages;" in str(error)
    assert "base_url" in str(error)
    assert "secret" not in str(error)
