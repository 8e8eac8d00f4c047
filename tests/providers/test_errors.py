"""Answers that are not a stream: who, what, and what to do."""

from __future__ import annotations

import json

import pytest

from rxworker.providers import PROVIDERS, Anthropic, OpenAIChat

KEY = "sk-a-very-secret-key-0123456789"


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (403, "", "permission", False),
        (404, "<html><body>Not here</body></html>", "not_found", False),
        (429, "slow down", "rate_limit", True),
        (502, "<html><style>b{}</style><h1>Bad Gateway</h1></html>", "server", True),
        (503, "", "overloaded", True),
        (200, '{"error":{"message":"no","type":"overloaded_error"}}', "overloaded", True),
        (200, '{"error":{"message":"no","type":"invalid_request_error"}}', "invalid_request", False),
        (200, "<html>log in</html>", "unknown", False),
        (500, '["not", "an", "object"]', "server", True),
    ],
)
def test_the_kind_is_read_from_status_and_words(status: int, body: str, kind: str, retryable: bool) -> None:
    error = OpenAIChat("a-model").error(status, {}, body.encode())
    assert (error.kind, error.retryable) == (kind, retryable)


@pytest.mark.parametrize(
    ("provider", "status", "error", "code"),
    [
        ("gemini", 400, {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}, "INVALID_ARGUMENT"),
        ("gemini", 404, {"code": 404, "message": "no", "status": "NOT_FOUND"}, "NOT_FOUND"),
        ("openai_chat", 401, {"code": 401, "message": "no"}, None),
        (
            "openai_chat",
            400,
            {"code": 400, "message": "no", "type": "exceed_context_size_error"},
            "exceed_context_size_error",
        ),
        ("openai_chat", 401, {"code": "401", "message": "no"}, None),
        ("openai_chat", 404, {"code": "model_not_found", "message": "no", "type": "x"}, "model_not_found"),
    ],
)
def test_the_code_is_a_word_and_not_the_status_again(
    provider: str, status: int, error: dict[str, object], code: str | None
) -> None:
    body = json.dumps({"error": error}).encode()
    told = PROVIDERS[provider]("m", api_key=KEY).error(status, {}, body)
    assert (told.status, told.code) == (status, code)
    assert "None" not in told.message


@pytest.mark.parametrize(
    ("raw", "says", "kind", "code"),
    [
        ("m is rate-limited upstream", "m is rate-limited upstream (Google)", "rate_limit", None),
        (
            '{"error":{"message":"This model\'s maximum context length is 9","code":"context_length_exceeded"}}',
            "maximum context length is 9 (Google)",
            "context_length",
            "context_length_exceeded",
        ),
        ('["no", "object"]', '["no", "object"] (Google)', "rate_limit", None),
    ],
)
def test_the_message_of_the_service_behind_openrouter_is_kept(raw: str, says: str, kind: str, code: str | None) -> None:
    metadata = {"provider_name": "Google", "raw": raw}
    error = {"message": "Provider returned error", "code": 429, "metadata": metadata}
    told = OpenAIChat("m").error(429, {}, json.dumps({"error": error}).encode())
    assert "Provider returned error: " in told.message
    assert says in told.message
    assert (told.kind, told.code) == (kind, code)


def test_the_headers_decide_about_the_retry() -> None:
    body = b'{"type":"error","error":{"type":"api_error","message":"no"},"request_id":"req_1"}'
    error = Anthropic("m").error(500, {"X-Should-Retry": "false", "Retry-After": "7"}, body)
    assert (error.retryable, error.retry_after, error.request_id) == (False, 7.0, "req_1")
    assert "[request req_1]" in error.message
    assert "wait 7 s" in error.message


def test_no_key_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "an-odd-environment-key")
    provider = OpenAIChat("m", headers={"authorization": "Bearer an-odd-header-key"})
    body = b'{"error":{"message":"bad: an-odd-environment-key an-odd-header-key sk-proj-abcd1234"}}'
    assert "bad: *** *** ***" in provider.error(401, {}, body).message


def test_a_short_key_does_not_garble_the_text() -> None:
    assert "bad request" in OpenAIChat("m", api_key="e").error(400, {}, b"bad request").message
