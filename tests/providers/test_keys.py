"""Keys, addresses and headers are given to every provider in the same ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import reactivex
from reactivex import Observable

from rxworker.errors import ConfigurationError, HttpStatusError, ProviderError
from rxworker.messages import Conversation, Message
from rxworker.providers import (
    PROVIDERS,
    Anthropic,
    AnthropicBedrock,
    AnthropicVertex,
    Gemini,
    HttpRequest,
    OpenAIChat,
    Options,
)
from rxworker.providers.endpoint import ANTHROPIC_HOSTS, OPENAI_HOSTS, Host
from rxworker.transport import Client, Retry

MADE: dict[str, Any] = {**PROVIDERS, "anthropic_bedrock": AnthropicBedrock}
each_provider = pytest.mark.parametrize("make", MADE.values(), ids=MADE)
KEY = "tok-0123456789"


class Refuses:
    """A transport that keeps the requests, and refuses them with an answer that quotes their key."""

    def __init__(self) -> None:
        self.sent: list[HttpRequest] = []

    def send(self, request: HttpRequest) -> Observable[bytes]:
        self.sent.append(request)
        body = b'{"error": {"message": "bad key %s"}, "message": "bad key %s"}' % (KEY.encode(), KEY.encode())
        return reactivex.throw(HttpStatusError("no", status=401, headers={}, body=body, url=""))


async def sent_by(provider: Any) -> tuple[HttpRequest, ProviderError]:
    transport = Refuses()
    client = Client(provider, transport=transport, retry=Retry(retries=0))
    with pytest.raises(ProviderError) as caught:
        await client.stream("Hi")
    return transport.sent[0], caught.value


def text() -> object:
    return KEY


def function() -> object:
    return lambda: KEY


def coroutine_function() -> object:
    async def get() -> str:
        await asyncio.sleep(0)
        return KEY

    return get


@each_provider
@pytest.mark.parametrize("given", [text, function, coroutine_function])
async def test_a_key_may_be_a_text_or_a_function_and_is_not_shown(make: Any, given: Callable[[], object]) -> None:
    plain = make("m", api_key=KEY).request(Conversation((Message.user("Hi"),)), (), Options())
    request, error = await sent_by(make("m", api_key=given()))
    assert (request.url, request.headers, request.body) == (plain.url, plain.headers, plain.body)
    assert KEY in "".join(request.headers.values())
    assert KEY not in f"{error} {request!r}"
    assert "***" in str(error)


@each_provider
@pytest.mark.parametrize("value", ["", None, 3, b"key"])
async def test_a_function_that_returns_no_key_is_refused(make: Any, value: object) -> None:
    client = Client(make("m", api_key=lambda: value), transport=Refuses())
    with pytest.raises(ConfigurationError, match="the function for the key returned"):
        await client.stream("Hi")


@each_provider
def test_a_key_of_another_type_is_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError, match="api_key is neither a text nor a function"):
        make("m", api_key=3)


@each_provider
def test_an_address_is_used_unchanged(make: Any) -> None:
    address = "https://gateway.example/models/m?tenant=a"
    provider = make("m", api_key=KEY, address=address)
    assert provider.request(Conversation(), (), Options()).url == address
    assert address in repr(provider)
    with pytest.raises(ConfigurationError, match=r"address=..., which is used unchanged"):
        make("m", address=address, base_url=address)
    with pytest.raises(ConfigurationError, match="is not an address"):
        make("m", address="gateway")


@each_provider
def test_headers_are_sent_with_every_request_and_those_of_a_request_replace_them(make: Any) -> None:
    provider = make("m", headers={"X-Tenant": "a", "Authorization": f"Bearer {KEY}"})
    request = provider.request(Conversation(), (), Options(headers={"x-tenant": "b"}))
    assert request.headers["x-tenant"] == "b"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.authorize is None
    given = Options(headers={"Authorization": f"Bearer {KEY}"})
    for one in (request, make("m", base_url="https://gateway.example").request(Conversation(), (), given)):
        assert one.headers["authorization"] == f"Bearer {KEY}"
        assert one.headers.keys().isdisjoint({"x-api-key", "x-goog-api-key", "api-key"})


VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai_chat": "OPENAI_API_KEY",
    "openai_responses": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "gemini_interactions": "GEMINI_API_KEY",
}


@pytest.mark.parametrize("name", VARIABLES)
def test_a_key_is_read_from_the_environment_for_each_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = MADE[name]("m")
    with pytest.raises(ConfigurationError, match=f"{VARIABLES[name]}, or pass api_key="):
        provider.request(Conversation(), (), Options())
    monkeypatch.setenv(VARIABLES[name], KEY)
    assert KEY in "".join(provider.request(Conversation(), (), Options()).headers.values())


def at_vertex(model: str, api_key: str) -> Gemini:
    return Gemini(model, project="p", access_token=api_key)


UNSENT = ["sk-hidden\n", "sk-hiddén", "\x00", "sk hidden"]


@pytest.mark.parametrize(("make", "key"), list(product([*MADE.values(), at_vertex], UNSENT)))
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(make: Any, key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make("m", api_key=key).request(Conversation(), (), Options())
    assert "hidd" not in str(caught.value)


STREAM = "streamGenerateContent?alt=sse"
ADDRESSES = [
    # base_url, the address of the official client (anthropic 2.14, google-genai 3.6)
    ("anthropic", "https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic/v1/messages"),
    ("anthropic", "https://api.deepseek.com/anthropic/", "https://api.deepseek.com/anthropic/v1/messages"),
    ("anthropic", "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
    ("anthropic", "https://gateway.example/a/v1", "https://gateway.example/a/v1/messages"),
    ("anthropic", "https://gateway.example/a/v1/messages", "https://gateway.example/a/v1/messages"),
    ("openai_chat", "https://api.openai.com/v1/", "https://api.openai.com/v1/chat/completions"),
    ("openai_chat", "http://[::1]:8080", "http://[::1]:8080/v1/chat/completions"),
    ("openai_chat", "https://h/v1/chat/completions", "https://h/v1/chat/completions"),
    ("openai_responses", "http://127.0.0.1:1", "http://127.0.0.1:1/v1/responses"),
    ("gemini", "https://gateway.example/gemini", f"https://gateway.example/gemini/v1beta/models/m:{STREAM}"),
    ("gemini", "https://gateway.example/v1", f"https://gateway.example/v1/models/m:{STREAM}"),
    ("gemini", "http://h/?x=1", "http://h/v1beta/models/m:streamGenerateContent?x=1&alt=sse"),
    ("gemini_interactions", "http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1/interactions"),
    ("gemini_interactions", "http://h/gemini", "http://h/gemini/v1beta/interactions"),
]
PLACES = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}


@pytest.mark.parametrize(("name", "base_url", "url"), ADDRESSES)
@pytest.mark.parametrize("from_environment", [False, True])
def test_an_address_with_a_path_gets_the_version_that_the_official_client_adds(
    name: str, base_url: str, url: str, from_environment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {} if from_environment else {"base_url": base_url}
    if from_environment:
        monkeypatch.setenv(PLACES[name.partition("_")[0]], base_url)
    assert MADE[name]("m", api_key=KEY, **place).request(Conversation(), (), Options()).url == url


@pytest.mark.parametrize(
    ("model", "path"), [("models/m", "models/m"), ("tunedModels/m", "tunedModels/m"), ("a b?", "models/a%20b%3F")]
)
def test_a_model_of_gemini_stands_in_its_address(model: str, path: str) -> None:
    request = Gemini(model, base_url="http://127.0.0.1:1").request(Conversation(), (), Options())
    assert request.url == f"http://127.0.0.1:1/v1beta/{path}:{STREAM}"


@each_provider
def test_a_server_of_ones_own_needs_no_key(make: Any) -> None:
    request = make("m", base_url="http://127.0.0.1:1").request(Conversation(), (), Options())
    assert request.headers.keys().isdisjoint({"authorization", "x-api-key", "x-goog-api-key", "api-key"})


def test_the_token_of_anthropic_is_sent_as_a_bearers_and_a_key_that_was_given_replaces_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "other-key")
    headers = MADE["anthropic"]("m").request(Conversation(), (), Options()).headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in headers
    headers = MADE["anthropic"]("m", api_key="mine").request(Conversation(), (), Options()).headers
    assert headers["x-api-key"] == "mine"
    assert "authorization" not in headers


HOST_KEYS = [
    *((OpenAIChat, end, row) for end, row in OPENAI_HOSTS.items()),
    *((Anthropic, end, row) for end, row in ANTHROPIC_HOSTS.items()),
]


@pytest.mark.parametrize(("make", "end", "row"), HOST_KEYS)
def test_the_key_of_a_known_host_is_its_variable_or_else_that_of_the_protocol(
    make: Any, end: str, row: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = make("m", base_url=f"https://{end}")
    with pytest.raises(ConfigurationError, match=f"environment variable {row.variable}, or pass"):
        provider.request(Conversation(), (), Options())
    protocol = "OPENAI_API_KEY" if make is OpenAIChat else "ANTHROPIC_API_KEY"
    for variable in dict.fromkeys((protocol, row.variable)):
        monkeypatch.setenv(variable, f"of-{variable}")
        headers = provider.request(Conversation(), (), Options()).headers
        assert headers.items() >= row.authorization(f"of-{variable}").items()
        body = f'{{"error": {{"message": "of-{variable}"}}}}'.encode()
        error = provider.error(401, {}, body)
        assert variable not in error.message.partition(" - ")[0]
        assert f"check the key: {row.variable}" in error.message


def test_the_token_of_anthropic_is_not_sent_where_the_host_has_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "other-token")
    provider = Anthropic("m", base_url="https://api.deepseek.com")
    headers = provider.request(Conversation(), (), Options()).headers
    assert headers["authorization"] == "Bearer other-token"
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    headers = provider.request(Conversation(), (), Options()).headers
    assert headers["authorization"] == f"Bearer {KEY}"


def test_claude_at_vertex_needs_a_project_and_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = Conversation((Message.user("Hi"),))
    with pytest.raises(ConfigurationError, match="no project"):
        AnthropicVertex("m").request(conversation, (), Options())
    monkeypatch.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "mine")
    monkeypatch.setenv("CLOUD_ML_REGION", "us-east5")
    with pytest.raises(ConfigurationError, match="no access token"):
        AnthropicVertex("m").request(conversation, (), Options())
    request = AnthropicVertex("m", access_token=KEY).request(conversation, (), Options())
    assert "/mine/locations/us-east5/" in request.url
    with pytest.raises(ConfigurationError, match="the location 'a b' is not one"):
        AnthropicVertex("m", location="a b", access_token=KEY).request(conversation, (), Options())


def test_claude_at_vertex_reads_the_events_of_anthropic() -> None:
    decoder = AnthropicVertex("m", project="mine", access_token=KEY).decoder()
    data = b'{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{}}}'
    assert decoder.feed(b"event: message_start\ndata: " + data + b"\n\n")
