"""Keys, tokens, addresses and errors of Gemini."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rxworker.errors import ConfigurationError
from rxworker.events import Error
from rxworker.messages import Conversation, Message
from rxworker.providers import Gemini, HttpRequest, Options, Provider
from tests.decoded import decoded

ASK = Conversation((Message.user("hello"),))
KEY = "AIzaSecret0123456789abcdef"
PLACE = "/v1/projects/mine/locations"
MODEL = "publishers/google/models/gemini-x:streamGenerateContent?alt=sse"


def ask(provider: Provider, **headers: str) -> HttpRequest:
    return provider.request(ASK, (), Options(headers=headers))


def test_an_address_with_a_key_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="holds a key"):
        Gemini("m", base_url=f"https://h/v1beta?key={KEY}")


def test_both_names_of_the_key_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    gemini = Gemini("m")
    with pytest.raises(ConfigurationError, match="GEMINI_API_KEY, or pass api_key="):
        ask(gemini)
    monkeypatch.setenv("GOOGLE_API_KEY", "other")
    assert ask(gemini).headers["x-goog-api-key"] == "other"
    monkeypatch.setenv("GEMINI_API_KEY", "own")
    assert ask(gemini).headers["x-goog-api-key"] == "own"


def sent(request: HttpRequest) -> HttpRequest:
    """The request with what it gets when it is sent."""
    assert request.authorize is not None
    authorized = request.authorize(request)
    assert isinstance(authorized, HttpRequest)
    return authorized


def test_vertex_is_filled_in_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: Iterator[str] = iter(["one", "two"])
    gemini = Gemini("gemini-x", access_token=lambda: next(tokens))
    with pytest.raises(ConfigurationError, match="GOOGLE_CLOUD_PROJECT"):
        ask(gemini)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "mine")
    request = ask(gemini)
    assert request.url == f"https://aiplatform.googleapis.com{PLACE}/global/{MODEL}"
    assert sent(request).headers["authorization"] == "Bearer one"
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
    request = ask(gemini)
    assert f"https://europe-west4-aiplatform.googleapis.com{PLACE}/europe-west4/" in request.url
    assert sent(request).headers["authorization"] == "Bearer two"


def test_vertex_takes_a_key_or_another_address_too() -> None:
    request = ask(Gemini("m", project="mine", api_key=KEY))
    assert request.headers["x-goog-api-key"] == KEY
    request = ask(Gemini("gemini-x", project="mine", base_url="http://127.0.0.1:1"))
    assert request.url == f"http://127.0.0.1:1{PLACE}/global/{MODEL}"
    assert "authorization" not in request.headers


@pytest.mark.parametrize(("project", "location"), [("a/b", None), ("a", "evil.com/x"), ("a", "x y"), ("a?", None)])
def test_a_place_that_cannot_be_right_is_refused(project: str, location: str | None) -> None:
    with pytest.raises(ConfigurationError):
        ask(Gemini("m", project=project, location=location, access_token="t"))


def test_without_a_token_the_error_names_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match="access_token="):
        ask(Gemini("m", project="mine"))


def test_what_is_printed_names_the_place() -> None:
    gemini = Gemini("m", project="mine", location="x", access_token="hidden-token")
    assert repr(gemini) == "Gemini('m', project='mine', location='x')"
    assert "hidden-token" not in repr(ask(gemini))


# --- errors


def body(code: int, status: str, message: str, *details: Any) -> bytes:
    error = {"code": code, "message": message, "status": status, "details": list(details)}
    return json.dumps({"error": error}).encode()


WAIT = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}


@pytest.mark.parametrize(
    ("answer", "kind", "retryable", "wait"),
    [
        (body(429, "RESOURCE_EXHAUSTED", "Quota", {"@type": "x"}, WAIT), "rate_limit", True, 34.4),
        (b"[" + body(429, "RESOURCE_EXHAUSTED", "Q", WAIT) + b"]", "rate_limit", True, 34.4),
        (body(400, "FAILED_PRECONDITION", "Place"), "invalid_request", False, None),
        (body(401, "UNAUTHENTICATED", "No"), "authentication", False, None),
        (body(404, "NOT_FOUND", "No such model"), "not_found", False, None),
        (b"<html>no</html>", "not_found", False, None),
    ],
)
def test_an_answer_that_is_not_a_stream_is_explained(
    answer: bytes, kind: str, retryable: bool, wait: float | None
) -> None:
    status = re.search(rb'"code": (\d+)', answer)
    word = re.search(rb'"status": "(\w+)"', answer)
    code = int(status[1]) if status else 404
    error = Gemini("m", api_key=KEY).error(code, {}, answer)
    assert (error.kind, error.retryable, error.retry_after) == (kind, retryable, wait)
    assert (error.status, error.code) == (code, word[1].decode() if word else None)


def test_a_header_comes_over_the_delay_in_the_body() -> None:
    answer = body(429, "RESOURCE_EXHAUSTED", "Q", WAIT)
    assert Gemini("m").error(429, {"Retry-After": "7"}, answer).retry_after == 7.0


@pytest.mark.parametrize("delay", ["soon", 5, None, "1m"])
def test_a_delay_that_cannot_be_read_is_ignored(delay: Any) -> None:
    answer = body(429, "RESOURCE_EXHAUSTED", "Q", {"retryDelay": delay}, "odd")
    assert Gemini("m").error(429, {}, answer).retry_after is None


def test_no_secret_is_repeated() -> None:
    gemini = Gemini("m", project="p", access_token="ya29-very-secret")
    ask(gemini)
    text = f"bad ya29-very-secret and {KEY}"
    assert "bad *** and ***" in gemini.error(401, {}, text.encode()).message


def test_a_delay_reported_within_the_stream_reaches_the_error() -> None:
    body = (
        b'data: {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down", '
        b'"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"}]}}\r\n\r\n'
    )
    (error,) = [e for e in decoded("gemini", body) if isinstance(e, Error)]
    assert (error.retry_after, error.retryable, error.kind) == (2.5, True, "rate_limit")
