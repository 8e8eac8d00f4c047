"""What an error means is decided by one table, whichever way it comes.

Each word, number and sentence is read in each way: as the body of an answer, within the stream of each protocol, and in
an event stream. ``tests/transport/test_websocket.py`` has the way over a WebSocket.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rxworker.events import Error
from rxworker.providers import (
    Anthropic,
    AnthropicBedrock,
    Bedrock,
    Gemini,
    GeminiInteractions,
    Ollama,
    OpenAIChat,
    OpenAIResponses,
    Provider,
)
from rxworker.providers.error_table import MINIMAX, RETRYABLE_KINDS, ROWS, STATUSES, WORDS, key
from rxworker.testing.wire.bedrock import raw_message

CASES = Path(__file__).parents[3] / "shared" / "cases" / "errors.jsonl"


def inside(provider: Provider, data: bytes) -> Error:
    """The error that a stream of these bytes reports."""
    decoder = provider.decoder()
    events = [*decoder.feed(data), *decoder.finish()]
    (error,) = (event for event in events if isinstance(event, Error))
    return error


def data_of(body: Any, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(body)}\n\n".encode()


def failed_response(error: Any) -> bytes:
    response: Any = {"id": "r", "status": "failed", "error": error, "output": []}
    return data_of({"type": "response.failed", "response": response}, "response.failed")


def exception(error: Any) -> bytes:
    return raw_message(error["code"], json.dumps({"message": error["message"]}).encode(), is_exception=True)


def answered(error: Any) -> Any:
    return OpenAIChat("m").error(400, {}, json.dumps({"error": error}).encode())


AWS: Any = {"region": "us-east-1", "api_key": "k"}
# How an error, with `code` and `message`, comes.
WAYS: dict[str, Callable[[Any], Any]] = {
    "chat": lambda e: inside(OpenAIChat("m"), data_of({"error": e})),
    "chat, flat": lambda e: inside(OpenAIChat("m"), data_of({"object": "error", **e})),
    "responses": lambda e: inside(OpenAIResponses("m"), failed_response(e)),
    "responses, flat": lambda e: inside(OpenAIResponses("m"), data_of({"type": "error", **e}, "error")),
    "anthropic": lambda e: inside(
        Anthropic("m"), data_of({"type": "error", "error": {"type": e["code"], "message": e["message"]}}, "error")
    ),
    "gemini": lambda e: inside(
        Gemini("m"), data_of({"error": {"code": 400, "status": e["code"], "message": e["message"]}})
    ),
    "interactions": lambda e: inside(GeminiInteractions("m"), data_of({"event_type": "error", "error": e}, "error")),
    "ollama": lambda e: inside(Ollama("m"), json.dumps({"error": e}).encode() + b"\n"),
    "bedrock": lambda e: inside(Bedrock("m", **AWS), exception(e)),
    "invoke": lambda e: inside(AnthropicBedrock("m", **AWS), exception(e)),
    "body": answered,
}
VAGUE = ("server", "invalid_request")
"""The kinds that a status makes more exact."""
# Gemini's bodies have a status, too, and the sentences of Ollama are the server's where nothing else is known.
WITH_A_STATUS = ("gemini", "body")

SENTENCES = [
    ("Your credit balance is too low to access the service.", "quota"),
    ("You have reached your specified API usage limits. You will regain access on 2026-12-01.", "quota"),
    ("Usage limit reached for 5 hour. Your limit will reset at 2026-12-01 10:00:00", "quota"),
    ("Insufficient balance or no resource package. Please recharge.", "quota"),
    ("Your account balance is insufficient", "quota"),
    ("Your team has used all available credits", "quota"),
    ("You have hit the monthly spending limit of the key", "quota"),
    ("insufficient credits for this request", "quota"),
    ("usage limit exceeded (2056)", "quota"),
    ("insufficient balance (1008)", "quota"),
    ("system error (1033)", "server"),
    ("too many connections (1041)", "rate_limit"),
    ("login fail (1004)", "authentication"),
    ("Too many tokens per minute for this key.", "rate_limit"),
    ("Tokens per minute limit exceeded - too many tokens processed.", "rate_limit"),
    ("You have sent too many requests", "rate_limit"),
    ("Rate limit reached for the model", "rate_limit"),
    ("Too many tokens, please wait before trying again.", "rate_limit"),
    ("Allocated quota exceeded, please increase your quota limit.", "rate_limit"),
    ("prompt is too long: 210000 tokens > 200000 maximum", "context_length"),
    ("Input is too long for requested model.", "context_length"),
    ("input length and `max_tokens` exceed context limit: 199000 + 21333 > 200000", "context_length"),
    ("Your input exceeds the context window of this model.", "context_length"),
    ("This model's maximum context length is 8192 tokens. Your messages have 9000.", "context_length"),
    ("Input tokens exceed the configured limit of 922000 tokens.", "context_length"),
    ("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", "context_length"),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", "context_length"),
    ("Please reduce the length of the messages or completion.", "context_length"),
    ("prompt token count of 150000 exceeds the limit of 128000", "context_length"),
    ("the request exceeds the available context size (4096 tokens), try increasing it", "context_length"),
    ("The number of tokens to keep is greater than the context length", "context_length"),
    ("Trying to keep the first 5000 tokens when context the overflows.", "context_length"),
    ("invalid params, context window exceeds limit", "context_length"),
    ("Your request exceeded model token limit: 8192", "context_length"),
    ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", "context_length"),
    ("prompt too long; exceeded max context length by 12 tokens", "context_length"),
    ("Range of input length should be [1, 258048]", "context_length"),
    ("too many tokens: size limit exceeded by 3000 tokens.", "context_length"),
    ("`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000", "context_length"),
    ("`inputs` must have less than 4096 tokens. Given: 5000", "context_length"),
    ("The input (5000 tokens) is longer than the model's context length", "context_length"),
    ("Prompt exceeds max length", "context_length"),
    ("the input token count is 1200000 but the model only supports up to 1048576", "context_length"),
    ("ran out of room in the model's context window", "context_length"),
    ("number of input tokens exceeds maximum length", "context_length"),
    ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", "context_length"),
    ("Input length (5000) exceeds the maximum allowed length (4096).", "context_length"),
    ("Cannot truncate prompt with n_keep (5000) >= n_ctx (4096)", "context_length"),
    ("Context size has been exceeded.", "context_length"),
    ("Credit limit exceeded, please add credit", "quota"),
    ("API key expired. Please renew the API key.", "authentication"),
    ("API key not valid. Please pass a valid API key.", "authentication"),
    ("Incorrect API key provided: xa***.", "authentication"),
    ("The api_key is invalid", "authentication"),
    ("Your API key has been revoked", "authentication"),
    ("The model `x` does not exist.", "not_found"),
    ("Unknown Model, please check the model code.", "not_found"),
    ("x is not a valid model ID", "not_found"),
    ("thinking.budget_tokens must be at least 1024", None),
    ("timeout must be a positive number", None),
    ("max_tokens: 100000 > 64000, the most output tokens that this model writes", None),
    ("max_tokens (9000) exceeds the limit of 8192", None),
    ("Image exceeds the maximum of 5 MB", None),
    ("Invalid schema for function 'look'", None),
    ("Invalid model parameter: temperature", None),
    ("this model does not support images", None),
    ("messages: tool call not found, the model cannot go on", None),
]
# These have neither a word nor a status, so that the sentence is all that is known.
BARE = [
    ("The engine is currently overloaded, please try again later", "overloaded"),
    ("The model is at capacity and cannot serve this request.", "overloaded"),
    ("server busy, please try again.  maximum pending requests exceeded", "overloaded"),
    ("The model is currently experiencing high traffic", "overloaded"),
    ("Model x is currently loading", "overloaded"),
    ("The service is currently unavailable", "overloaded"),
    ("x is temporarily rate-limited upstream", "rate_limit"),
    ("context deadline exceeded", "timeout"),
    ("The request timed out", "timeout"),
    ("An internal error occurred", "server"),
    ("You can retry your request", "server"),
    ("You exceeded your current quota", "quota"),
    ("you (x) have reached your session usage limit, upgrade for more", "quota"),
    ("The token quota has been reached", "quota"),
    ("Service unavailable.", "overloaded"),
    ("The request queue is full", "overloaded"),
    ("The model has crashed without additional information.", "server"),
    ("The security token included in the request is expired", "authentication"),
    ("Unauthorized", "authentication"),
    ("You do not have permission for this", "permission"),
    ("model 'x' not found, try pulling it first", "not_found"),
    ("x does not support tools", "invalid_request"),
]


def kind_and_again(error: Any) -> tuple[str, bool]:
    return error.kind, error.retryable


ALL = [(word, kind) for service, kind, words in ROWS if service not in ("minimax", "own") for word in words.split()]


@pytest.mark.parametrize("way", WAYS)
def test_a_word_of_the_table_means_the_same_in_each_way(way: str) -> None:
    read = {word: kind_and_again(WAYS[way]({"code": word, "message": "x"})) for word, _ in ALL}
    exact = {word: (kind, kind in RETRYABLE_KINDS) for word, kind in ALL}
    if way in WITH_A_STATUS:  # 400 is more exact than nothing
        exact = {word: told for word, told in exact.items() if told[0] not in VAGUE}
        read = {word: told for word, told in read.items() if word in exact}
    assert read == exact
    assert len(exact) > 80


@pytest.mark.parametrize("way", WAYS)
def test_a_sentence_makes_a_word_that_stands_for_everything_more_exact(way: str) -> None:
    told = {text: WAYS[way]({"code": "invalid_request_error", "message": text}) for text, _ in SENTENCES}
    expected = {text: kind or "invalid_request" for text, kind in SENTENCES}
    assert {text: error.kind for text, error in told.items()} == expected
    assert {text: error.retryable for text, error in told.items()} == {
        text: kind in RETRYABLE_KINDS for text, kind in expected.items()
    }


@pytest.mark.parametrize("way", [way for way in WAYS if way not in WITH_A_STATUS])
def test_a_sentence_is_read_where_nothing_else_is_known(way: str) -> None:
    told = {text: WAYS[way]({"code": "x-1", "message": text}).kind for text, _ in BARE}
    assert told == dict(BARE)


def test_a_word_that_is_not_known_is_read_as_a_sentence() -> None:
    words = {
        "model_rate_limit": "rate_limit",
        "ModelOverCapacity": "overloaded",
        "Throttling.BurstRate": "rate_limit",
        "UpstreamTimeout": "timeout",
        "context_window_exceeded": "context_length",
        "image_parse_error": "invalid_request",
        "invalid_base64_image": "invalid_request",
        "invalid_image_url": "invalid_request",
        "invalid_prompt": "invalid_request",
        "image_too_large": "invalid_request",
        "unsupported_image_media_type": "invalid_request",
        "StorageNotFound": "not_found",
        "brand_new": "unknown",
    }
    read = {word: WAYS["responses"]({"code": word, "message": "x"}).kind for word in words}
    assert read == words


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_means_the_same_in_a_head_and_in_a_body(status: int) -> None:
    kind = STATUSES[status]
    head = OpenAIChat("m").error(status, {}, b"")
    again = kind in RETRYABLE_KINDS
    assert kind_and_again(head) == (kind, again)
    for way in ("chat", "responses", "anthropic", "interactions"):
        assert kind_and_again(WAYS[way]({"code": str(status), "message": "x"})) == (kind, again), way


def test_the_numbers_of_minimax_are_known_in_its_own_form_and_behind_a_sentence() -> None:
    for number, kind in MINIMAX.items():
        own = OpenAIChat("m").error(
            200, {}, json.dumps({"base_resp": {"status_code": int(number), "status_msg": "x"}}).encode()
        )
        behind = WAYS["anthropic"]({"code": "api_error", "message": f"x ({number})"})
        assert kind_and_again(own) == kind_and_again(behind) == (kind, kind in RETRYABLE_KINDS), number


def test_no_word_means_two_things() -> None:
    rows = [(key(word), kind) for service, kind, words in ROWS if service != "minimax" for word in words.split()]
    assert dict(rows) == WORDS
    assert {*rows} == {*WORDS.items()}


def google(message: str, status: str, *details: Any, code: int = 400) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def test_the_reason_of_google_is_more_exact_than_its_status() -> None:
    def read(code: int, *details: Any) -> Any:
        body = google("no", "RESOURCE_EXHAUSTED" if code == 429 else "INVALID_ARGUMENT", *details, code=code)
        return Gemini("m").error(code, {}, json.dumps(body).encode())

    def limit(name: str) -> Any:
        return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": name}]}

    assert kind_and_again(read(400, {"reason": "API_KEY_INVALID"})) == ("authentication", False)
    assert kind_and_again(read(429, {"reason": "MODEL_CAPACITY_EXHAUSTED"})) == ("overloaded", True)
    assert kind_and_again(read(429, {"reason": "QUOTA_EXHAUSTED"})) == ("quota", False)
    assert kind_and_again(read(429, limit("RequestsPerMinutePerProject"))) == ("rate_limit", True)
    assert kind_and_again(read(429, limit("RequestsPerDayPerProject"))) == ("quota", False)


@pytest.mark.parametrize(
    ("status", "body", "headers", "wait"),
    [
        (503, {"error": "Model x is currently loading", "estimated_time": 20.0}, {}, 20.0),
        (429, {"error": {"message": "no"}}, {"x-ms-retry-after-ms": "1500"}, 1.5),
    ],
)
def test_how_long_to_wait_is_read(status: int, body: Any, headers: dict[str, str], wait: float) -> None:
    error = OpenAIChat("m").error(status, headers, json.dumps(body).encode())
    assert (error.retryable, error.retry_after) == (True, wait)


def test_the_first_of_a_list_of_errors_is_read() -> None:
    body = {"errors": [{"code": "model_not_found", "message": "there is no x"}], "trace": "t"}
    error = OpenAIChat("m").error(400, {}, json.dumps(body).encode())
    assert (error.kind, error.code) == ("not_found", "model_not_found")
    assert "there is no x" in error.message


def test_what_exceeds_the_limit_of_a_minute_as_a_whole_is_not_sent_again() -> None:
    body = {"error": {"message": "Request too large on tokens per minute (TPM)", "code": "rate_limit_exceeded"}}
    assert kind_and_again(OpenAIChat("m").error(413, {}, json.dumps(body).encode())) == ("rate_limit", False)


OF: dict[str, Callable[[], Provider]] = {
    "anthropic": lambda: Anthropic("m"),
    "gemini": lambda: Gemini("m"),
    "bedrock": lambda: Bedrock("m", **AWS),
    "ollama": lambda: Ollama("m"),
    "openai-stream": lambda: OpenAIResponses("m"),
    "gemini-stream": lambda: GeminiInteractions("m"),
    "minimax-stream": lambda: Anthropic("m"),
}


@pytest.mark.skipif(not CASES.exists(), reason=f"no cases: {CASES} is absent")
def test_the_cases_of_the_services_are_read_as_they_are_meant() -> None:
    wrong: list[Any] = []
    for line in CASES.read_text().splitlines():
        case = json.loads(line)
        provider = OF.get(case["service"], lambda: OpenAIChat("m"))()
        data = json.dumps(case["body"]).encode()
        if case["status"] is None:
            error: Any = inside(provider, data_of(case["body"], "error"))
        else:
            error = provider.error(case["status"], {}, data)
        if error.kind not in case["kind"] or case["retryable"] not in (None, error.retryable):
            wrong.append((error.kind, error.retryable, case))
    assert wrong == []
