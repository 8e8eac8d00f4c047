"""Ollama's addresses and keys, its errors, and its answers over HTTP."""

from __future__ import annotations

import pytest
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, ProviderError
from rxworker.events import ResponseEvent
from rxworker.messages import Conversation, Message
from rxworker.providers import HttpRequest, Ollama, Options
from rxworker.testing import ReplayServer, ServedResponse
from rxworker.transport import Client, HttpTransport, Retry
from rxworker.views import summarise

ASK = Conversation((Message.user("hello"),))
LINES = [
    b'{"model":"m","message":{"role":"assistant","content":"Hi"},"done":false}\n',
    b'{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n',
]


def ask(provider: Ollama, options: Options | None = None) -> HttpRequest:
    return provider.request(ASK, (), options or Options())


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("1.2.3.4", "http://1.2.3.4:11434"),
        (":56789", "http://127.0.0.1:56789"),
        ("1.2.3.4:56789", "http://1.2.3.4:56789"),
        ("http://1.2.3.4", "http://1.2.3.4"),
        ("https://1.2.3.4:56789", "https://1.2.3.4:56789"),
        ("example.com", "http://example.com:11434"),
        ("example.com/", "http://example.com:11434"),
        ("example.com/path", "http://example.com:11434/path"),
        ("https://example.com:56789/path/", "https://example.com:56789/path"),
        ("[0001:002:003:0004::1]", "http://[0001:002:003:0004::1]:11434"),
        ("[::1]:56789/path", "http://[::1]:56789/path"),
        ("::1", "http://[::1]:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        ("http://[::]:8000", "http://[::1]:8000"),
        ("https://ollama.com/api", "https://ollama.com"),
        ("http://h/api/chat", "http://h"),
        ("http://0.0.0.0.example.com", "http://0.0.0.0.example.com"),
    ],
)
def test_a_host_is_completed_as_ollamas_own_clients_do(host: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(Ollama("m", base_url=host, api_key="k")).url == url + "/api/chat"
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert ask(Ollama("m", api_key="k")).url == url + "/api/chat"


def test_without_a_host_it_is_this_machine_which_is_to_answer_with_lines() -> None:
    request = ask(Ollama("m"))
    assert (request.url, request.headers["accept"]) == ("http://localhost:11434/api/chat", "application/x-ndjson")


@pytest.mark.parametrize("host", ["ftp://h", "http://", "h:99999", "a b", "http://me:pw@h", "日本"])
def test_a_bad_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        Ollama("m", base_url=host)


def test_the_key_is_read_for_each_request_and_only_the_cloud_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    here, cloud = Ollama("m"), Ollama("m", base_url="https://ollama.com")
    assert "authorization" not in ask(here).headers
    with pytest.raises(ConfigurationError, match="OLLAMA_API_KEY, or pass api_key="):
        ask(cloud)
    assert ask(cloud, Options(headers={"Authorization": "Bearer x"})).headers["authorization"]
    monkeypatch.setenv("OLLAMA_API_KEY", "a-secret-key")
    assert ask(cloud).headers["authorization"] == "Bearer a-secret-key"
    assert "a-secret-key" not in repr(ask(cloud))
    assert "a-secret-key" not in cloud.error(401, {}, b'{"error": "bad a-secret-key"}').message


def test_an_error_has_the_words_and_the_wait_of_the_server() -> None:
    error = Ollama("m").error(429, {"retry-after": "3"}, b'{"error":"no such luck"}')
    assert (error.kind, error.retryable, error.status) == ("rate_limit", True, 429)
    assert "no such luck" in error.message
    assert error.retry_after == 3.0
    assert error.code is None


# --- over HTTP


async def answered(answer: ServedResponse) -> list[ResponseEvent]:
    async with ReplayServer([answer]) as server:
        provider = Ollama("m", base_url=server.base_url)
        client = Client(provider, transport=HttpTransport(), retry=Retry(0))
        return await client.stream(ASK).pipe(ops.to_list())


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-ndjson",
        "application/x-ndjson; charset=utf-8",
        "application/json",
        "application/json; charset=utf-8",
        "text/plain",
    ],
)
async def test_lines_are_a_stream_under_each_of_their_names(content_type: str) -> None:
    assert summarise(await answered(ServedResponse.from_frames(LINES, content_type))).text == "Hi"


async def test_an_error_with_status_200_is_reported_by_its_line() -> None:
    with pytest.raises(ProviderError) as caught:
        await answered(ServedResponse.from_json({"error": "model 'm' not found"}))
    assert caught.value.kind == "not_found"


async def test_a_web_page_is_not_a_stream() -> None:
    with pytest.raises(ProviderError) as caught:
        await answered(ServedResponse.from_html(status=200))
    assert caught.value.status == 200
