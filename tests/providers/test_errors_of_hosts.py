"""The bodies with which hosts refuse a request, as their pages and public reports show them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from rxworker.providers import Anthropic, OpenAIChat
from rxworker.providers.endpoint import ANTHROPIC_HOSTS, OPENAI_HOSTS
from rxworker.providers.failure import until_reset


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def claude(kind: str, message: str, **details: Any) -> dict[str, Any]:
    more = {"details": details} if details else {}
    return {"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "req_1"}


BODIES: list[tuple[str, int, Any, str, bool]] = [
    # host, status, body, kind, retryable
    (
        "openai",
        429,
        error(
            "You exceeded your current quota, please check your plan and billing details.",
            type="insufficient_quota",
            param=None,
            code="insufficient_quota",
        ),
        "quota",
        False,
    ),
    (
        "openai",
        400,
        error(
            "Function tools with reasoning_effort are not supported for gpt-5.6-sol in /v1/chat/completions. To use "
            "function tools, use /v1/responses or set reasoning_effort to 'none'.",
            type="invalid_request_error",
            param="reasoning_effort",
            code=None,
        ),
        "invalid_request",
        False,
    ),
    (
        "openai",
        400,
        error(
            "Unsupported parameter: 'stop' is not supported with this model.",
            type="invalid_request_error",
            param="stop",
            code="unsupported_parameter",
        ),
        "invalid_request",
        False,
    ),
    ("anthropic", 529, claude("overloaded_error", "Overloaded"), "overloaded", True),
    ("anthropic", 500, claude("api_error", "Overloaded"), "server", True),
    (
        "anthropic",
        400,
        claude(
            "invalid_request_error",
            "messages.5.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
            "conversation.",
        ),
        "invalid_request",
        False,
    ),
    (
        "anthropic",
        400,
        claude("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        "context_length",
        False,
    ),
    ("anthropic", 429, claude("rate_limit_error", "Limit.", error_code="enforced_spend_limit_reached"), "quota", False),
    ("anthropic", 529, claude("overloaded_error", "Later.", error_code="compaction_unavailable"), "overloaded", True),
    (
        "mantle",
        401,
        error("Berm is not enabled for this account", code="access_denied", param=None, type="permission_denied_error"),
        "permission",
        False,
    ),
    ("mantle", 400, error("Failed to deserialize the JSON body", code="validation_error"), "invalid_request", False),
    (
        "gemini",
        503,
        error("The model is overloaded. Please try again later.", code=503, status="UNAVAILABLE"),
        "overloaded",
        True,
    ),
    (
        "gemini",
        400,
        error("API key not valid. Please pass a valid API key.", code=400, status="INVALID_ARGUMENT"),
        "authentication",
        False,
    ),
    (
        "kimi",
        400,
        error("invalid temperature: only 1 is allowed for this model", type="invalid_request_error"),
        "invalid_request",
        False,
    ),
    (
        "xai",
        400,
        {"code": "invalid-argument", "error": "Model grok-4.6 does not support parameter stop."},
        "invalid_request",
        False,
    ),
    (
        "lmstudio",
        400,
        {
            "error": (
                "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: "
                "13055>= n_ctx: 4096)."
            )
        },
        "context_length",
        False,
    ),
    ("lmstudio", 400, {"error": "No models loaded. Please load a model in the developer page."}, "not_found", False),
    (
        "lmstudio",
        404,
        error(
            'Model "default" not found. Please specify a valid model.',
            type="invalid_request_error",
            param="model",
            code="model_not_found",
        ),
        "not_found",
        False,
    ),
    ("ollama", 404, {"error": "model 'x' not found"}, "not_found", False),
    (
        "deepseek",
        402,
        error("Insufficient Balance", type="unknown_error", param=None, code="invalid_request_error"),
        "quota",
        False,
    ),
    (
        "deepseek",
        401,
        error(
            "Authentication Fails, Your api key: ****cdef is invalid",
            type="authentication_error",
            param=None,
            code="invalid_request_error",
        ),
        "authentication",
        False,
    ),
    (
        "deepseek",
        400,
        error(
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens",
            type="invalid_request_error",
            param=None,
            code="invalid_request_error",
        ),
        "context_length",
        False,
    ),
    (
        "kimi",
        429,
        error(
            "Your account is suspended, please check your plan and billing details", type="exceeded_current_quota_error"
        ),
        "quota",
        False,
    ),
    (
        "kimi",
        429,
        error("The engine is currently overloaded, please try again later", type="engine_overloaded_error"),
        "overloaded",
        True,
    ),
    ("kimi", 429, error("request reached max request limit: 3", type="rate_limit_reached_error"), "rate_limit", True),
    ("kimi", 401, error("Invalid Authentication", type="invalid_authentication_error"), "authentication", False),
    (
        "kimi",
        404,
        error("Not found the model kimi-x or Permission denied", type="resource_not_found_error"),
        "not_found",
        False,
    ),
    (
        "kimi",
        400,
        error("Invalid request: Your request exceeded model token limit: 8192", type="invalid_request_error"),
        "context_length",
        False,
    ),
    ("glm", 429, error("Rate limit reached for requests", code="1302"), "rate_limit", True),
    ("glm", 429, error("Insufficient balance or no resource package. Please recharge.", code="1113"), "quota", False),
    ("glm", 401, error("Authentication Token expired", code="1003"), "authentication", False),
    ("glm", 400, error("Unknown Model, please check the model code.", code="1211"), "not_found", False),
    (
        "minimax",
        200,
        {"base_resp": {"status_code": 1004, "status_msg": "login fail: carry the API secret key"}},
        "authentication",
        False,
    ),
    ("minimax", 200, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "quota", False),
    ("minimax", 200, {"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "rate_limit", True),
    (
        "qwen",
        401,
        {
            **error("Incorrect API key provided.", type="invalid_request_error", code="invalid_api_key"),
            "request_id": "r-1",
        },
        "authentication",
        False,
    ),
    (
        "qwen",
        429,
        error("You exceeded your current requests list.", type="limit_requests", code="limit_requests"),
        "rate_limit",
        True,
    ),
    (
        "qwen",
        400,
        error("Access denied, please make sure your account is in good standing.", type="Arrearage", code="Arrearage"),
        "quota",
        False,
    ),
    (
        "qwen",
        400,
        error(
            "Range of input length should be [1, 129024]", type="invalid_request_error", code="invalid_parameter_error"
        ),
        "context_length",
        False,
    ),
    (
        "xai",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: xa***56. You can obtain an API key from the console.",
        },
        "authentication",
        False,
    ),
    (
        "xai",
        429,
        {
            "code": "Some resource has been exhausted",
            "error": "Your team has either used all available credits or reached its monthly spending limit.",
        },
        "quota",
        False,
    ),
    (
        "xai",
        429,
        {
            "code": "Some resource has been exhausted",
            "error": "Too many requests for team t and model grok. Your team's rate limit is 60 a minute.",
        },
        "rate_limit",
        True,
    ),
    (
        "mistral",
        429,
        {
            "object": "error",
            "message": "Service tier capacity exceeded for this model.",
            "type": "service_tier_capacity_exceeded",
            "param": None,
            "code": "3505",
        },
        "rate_limit",
        True,
    ),
    ("mistral", 401, {"detail": "Unauthorized"}, "authentication", False),
    (
        "mistral",
        422,
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "max_completion_tokens"],
                        "msg": "Extra inputs are not permitted",
                        "input": 5,
                    }
                ]
            },
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
        "invalid_request",
        False,
    ),
    (
        "groq",
        413,
        error(
            "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000",
            type="tokens",
            code="rate_limit_exceeded",
        ),
        "rate_limit",
        False,
    ),
    (
        "groq",
        429,
        error(
            "Rate limit reached for model `m` on tokens per minute (TPM). Please try again in 7.66s.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
        "rate_limit",
        True,
    ),
    (
        "cerebras",
        429,
        {
            "message": "Requests per minute limit exceeded - too many requests sent.",
            "type": "too_many_requests_error",
            "param": "quota",
            "code": "request_quota_exceeded",
        },
        "rate_limit",
        True,
    ),
    (
        "cerebras",
        400,
        {
            "message": "messages.1.assistant.reasoning_content: property is unsupported",
            "type": "invalid_request_error",
            "param": "validation_error",
            "code": "wrong_api_format",
        },
        "invalid_request",
        False,
    ),
    (
        "cerebras",
        401,
        {"message": "Wrong API Key", "type": "invalid_request_error", "param": "api_key", "code": "wrong_api_key"},
        "authentication",
        False,
    ),
    (
        "together",
        401,
        error("Invalid API key provided.", type="invalid_request_error", param=None, code="invalid_api_key"),
        "authentication",
        False,
    ),
    ("openrouter", 402, error("Insufficient credits. Add more using the page of credits", code=402), "quota", False),
    ("openrouter", 403, error("The input was flagged", code=403), "permission", False),
    ("openrouter", 404, error("No endpoints found for m.", code=404), "not_found", False),
    ("siliconflow", 401, "Invalid token", "authentication", False),
    (
        "siliconflow",
        403,
        {"code": 30001, "message": "Sorry, your account balance is insufficient", "data": None},
        "quota",
        False,
    ),
    (
        "siliconflow",
        400,
        {"code": 20012, "message": "Model does not exist. Please check it carefully.", "data": None},
        "not_found",
        False,
    ),
    (
        "azure",
        401,
        error("Access denied due to invalid subscription key or wrong API endpoint.", code="401"),
        "authentication",
        False,
    ),
    (
        "azure",
        404,
        error("The API deployment for this resource does not exist.", code="DeploymentNotFound"),
        "not_found",
        False,
    ),
    (
        "azure",
        429,
        error("Requests have exceeded token rate limit. Please retry after 10 seconds.", code="429"),
        "rate_limit",
        True,
    ),
    (
        "azure",
        400,
        error(
            "The response was filtered due to the prompt triggering a policy.",
            type=None,
            param="prompt",
            code="content_filter",
            status=400,
        ),
        "invalid_request",
        False,
    ),
    (
        "vertex",
        429,
        [{"error": {"code": 429, "message": "Resource exhausted.", "status": "RESOURCE_EXHAUSTED"}}],
        "rate_limit",
        True,
    ),
    (
        "vllm",
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        "context_length",
        False,
    ),
    (
        "vllm",
        404,
        error("The model `m` does not exist.", type="NotFoundError", param=None, code=404),
        "not_found",
        False,
    ),
    ("vllm", 401, {"error": "Unauthorized"}, "authentication", False),
    (
        "sglang",
        400,
        {
            "object": "error",
            "message": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        "context_length",
        False,
    ),
    ("llama.cpp", 503, error("Loading model", type="unavailable_error", code=503), "overloaded", True),
    (
        "llama.cpp",
        400,
        error("the request exceeds the available context size", type="exceed_context_size_error", code=400, n_ctx=4096),
        "context_length",
        False,
    ),
    ("lmstudio", 400, {"error": "Model not found. Load it first."}, "not_found", False),
    (
        "litellm",
        400,
        error("Budget has been exceeded! Current cost: 1.2, Max budget: 1.0", type="budget_exceeded", code="400"),
        "quota",
        False,
    ),
    (
        "litellm",
        401,
        error("Authentication Error, Invalid proxy server token passed.", type="auth_error", code="401"),
        "authentication",
        False,
    ),
    (
        "litellm",
        400,
        error("litellm.ContextWindowExceededError: input is too long", type=None, code="400"),
        "context_length",
        False,
    ),
    (
        "litellm",
        429,
        error("litellm.RateLimitError: no deployments available", type="throttling_error", code="429"),
        "rate_limit",
        True,
    ),
]


@pytest.mark.parametrize(("host", "status", "body", "kind", "retryable"), BODIES)
def test_the_error_of_a_host_is_read(host: str, status: int, body: Any, kind: str, retryable: bool) -> None:
    read = OpenAIChat("m").error(status, {}, json.dumps(body).encode())
    assert (read.kind, read.retryable) == (kind, retryable), (host, read.message)
    assert "None" not in read.message


# The name of the rows above, for each host of the tables and for the servers of one's own.
NAMED = {
    "openai.com": "openai",
    "anthropic.com": "anthropic",
    "openai.azure.com": "azure",
    "services.ai.azure.com": "azure",
    "cognitiveservices.azure.com": "azure",
    "api.aws": "mantle",
    "generativelanguage.googleapis.com": "gemini",
    "api.cerebras.ai": "cerebras",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.kimi.com": "kimi",
    "api.moonshot.ai": "kimi",
    "api.moonshot.cn": "kimi",
    "api.minimax.io": "minimax",
    "api.minimaxi.com": "minimax",
    "api.mistral.ai": "mistral",
    "api.siliconflow.cn": "siliconflow",
    "api.siliconflow.com": "siliconflow",
    "api.together.ai": "together",
    "api.together.xyz": "together",
    "api.x.ai": "xai",
    "api.z.ai": "glm",
    "open.bigmodel.cn": "glm",
    "dashscope-intl.aliyuncs.com": "qwen",
    "dashscope-us.aliyuncs.com": "qwen",
    "dashscope.aliyuncs.com": "qwen",
    "openrouter.ai": "openrouter",
}
OWN = {"vertex", "vllm", "sglang", "llama.cpp", "lmstudio", "litellm", "ollama"}


def test_each_host_has_an_error_of_its_own() -> None:
    assert NAMED.keys() == OPENAI_HOSTS.keys() | ANTHROPIC_HOSTS.keys()
    assert {*NAMED.values()} | OWN == {host for host, *_ in BODIES}


def test_the_cause_that_anthropic_names_is_the_code() -> None:
    known: Any = pytest.importorskip("anthropic._error_classes")
    limits = [code for status, code in known.ERROR_CLASSES if status == 429 and code]
    assert limits
    for code in limits:
        body = json.dumps(claude("rate_limit_error", "Limit.", error_code=code)).encode()
        read = Anthropic("m").error(429, {}, body)
        assert read.code == code
        assert read.kind == ("rate_limit" if code == "ramp_limit_exceeded" else "quota"), code


NOW = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)
LATER = NOW.timestamp() + 90


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        # OpenAI and Groq
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h2m3.5s"}, 3723.5),
        # what is left is not a reason
        ({"x-ratelimit-remaining-tokens": "10", "x-ratelimit-reset-tokens": "6m0s"}, None),
        ({"x-ratelimit-reset-tokens": "6m0s"}, None),
        # the longest of those that are used up
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "2s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "7.66s",
            },
            7.66,
        ),
        # Cerebras and Azure: seconds
        ({"x-ratelimit-remaining-tokens-minute": "0", "x-ratelimit-reset-tokens-minute": "11.5"}, 11.5),
        # OpenRouter: milliseconds since the epoch; others: seconds
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{LATER * 1000:.0f}"}, 90.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{LATER:.0f}"}, 90.0),
        # Anthropic
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-11-26T12:01:30Z",
            },
            90.0,
        ),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-11-26T11:00:00Z",
            },
            None,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": ""}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9" * 400}, None),
    ],
)
def test_the_wait_ends_when_a_limit_that_is_used_up_is_reset(headers: dict[str, str], seconds: float | None) -> None:
    assert until_reset(headers, NOW) == seconds


LIMITED = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}


@pytest.mark.parametrize(
    ("status", "headers", "body", "seconds"),
    [
        (429, LIMITED, error("no"), 360.0),
        (429, {**LIMITED, "Retry-After": "7"}, error("no"), 7.0),
        (500, LIMITED, error("no"), None),  # not why it failed
        (429, {}, error("Please try again in 7.66s."), 7.66),
        (429, {}, error("Please try again in 1m2.5s. See the page"), 62.5),
        (429, {}, error("Please retry after 10 seconds."), 10.0),
        (400, {}, error("Retry after 3 attempts"), None),
    ],
)
def test_the_wait_is_read_from_headers_or_else_from_the_body(
    status: int, headers: dict[str, str], body: Any, seconds: float | None
) -> None:
    read = OpenAIChat("m").error(status, headers, json.dumps(body).encode())
    assert read.retry_after == seconds


def test_the_reset_that_openrouter_passes_on_in_the_body_is_read() -> None:
    reset = f"{(datetime.now(UTC).timestamp() + 3600) * 1000:.0f}"
    metadata = {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}}
    body = error("Rate limit exceeded: free-models-per-day", code=429, metadata=metadata)
    read = OpenAIChat("m").error(429, {}, json.dumps(body).encode())
    assert read.retry_after == pytest.approx(3600, abs=60)
