"""The bodies with which hosts refuse a request, as their pages and public reports show them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rxworker.providers import Anthropic, OpenAIChat
from rxworker.providers.endpoint import ANTHROPIC_HOSTS, OPENAI_HOSTS
from rxworker.providers.failure import until_reset

RECORDED = Path(__file__).parents[1] / "recordings" / "errors_of_hosts.jsonl"


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def claude(kind: str, message: str, **details: Any) -> dict[str, Any]:
    more = {"details": details} if details else {}
    return {"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "req_1"}


# Each with its host, the status, and what the library makes of it.
BODIES: list[dict[str, Any]] = [json.loads(line) for line in RECORDED.read_text().splitlines()]


@pytest.mark.parametrize("row", BODIES, ids=lambda row: f"{row['host']}-{row['kind']}")
def test_the_error_of_a_host_is_read(row: dict[str, Any]) -> None:
    read = OpenAIChat("m").error(row["status"], {}, json.dumps(row["body"]).encode())
    assert (read.kind, read.retryable) == (row["kind"], row["retryable"]), read.message
    assert "None" not in read.message
    assert read.code == row.get("code", read.code)
    assert row.get("says", "") in read.message


# For each name in the rows the hosts of the tables; the last have no row there: one's own servers, and others.
HOSTS: dict[str, set[str]] = {
    "anthropic": {"anthropic.com"},
    "azure": {"openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com"},
    "cerebras": {"api.cerebras.ai"},
    "deepseek": {"api.deepseek.com"},
    "gemini": {"generativelanguage.googleapis.com"},
    "glm": {"api.z.ai", "open.bigmodel.cn"},
    "groq": {"api.groq.com"},
    "kimi": {"api.kimi.com", "api.moonshot.ai", "api.moonshot.cn"},
    "mantle": {"api.aws"},
    "minimax": {"api.minimax.io", "api.minimaxi.com"},
    "mistral": {"api.mistral.ai"},
    "openai": {"openai.com"},
    "openrouter": {"openrouter.ai"},
    "qwen": {"dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com", "dashscope.aliyuncs.com"},
    "siliconflow": {"api.siliconflow.cn", "api.siliconflow.com"},
    "together": {"api.together.ai", "api.together.xyz"},
    "xai": {"api.x.ai"},
    **{
        name: set[str]()
        for name in ("vertex", "vllm", "sglang", "llama.cpp", "lmstudio", "litellm", "ollama", "perplexity")
    },
}


def test_each_host_has_an_error_of_its_own() -> None:
    assert set[str]().union(*HOSTS.values()) == OPENAI_HOSTS.keys() | ANTHROPIC_HOSTS.keys()
    assert HOSTS.keys() == {row["host"] for row in BODIES}


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


def used_up(limit: str, reset: str, remaining: str = "0") -> dict[str, str]:
    return {f"x-ratelimit-remaining{limit}": remaining, f"x-ratelimit-reset{limit}": reset}


def used_up_at_anthropic(reset: str) -> dict[str, str]:
    return {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": reset}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        # OpenAI and Groq
        (used_up("-tokens", "6m0s"), 360.0),
        (used_up("-requests", "120ms"), 0.12),
        (used_up("-requests", "1h2m3.5s"), 3723.5),
        # what is left is not a reason
        (used_up("-tokens", "6m0s", remaining="10"), None),
        ({"x-ratelimit-reset-tokens": "6m0s"}, None),
        # the longest of those that are used up
        (used_up("-requests", "2s") | used_up("-tokens", "7.66s"), 7.66),
        # Cerebras and Azure: seconds
        (used_up("-tokens-minute", "11.5"), 11.5),
        # OpenRouter: milliseconds since the epoch; others: seconds
        (used_up("", f"{LATER * 1000:.0f}"), 90.0),
        (used_up("", f"{LATER:.0f}"), 90.0),
        (used_up_at_anthropic("2026-11-26T12:01:30Z"), 90.0),
        (used_up_at_anthropic("2026-11-26T11:00:00Z"), None),
        (used_up("", "soon"), None),
        (used_up("", ""), None),
        (used_up("", "9" * 400), None),
    ],
)
def test_the_wait_ends_when_a_limit_that_is_used_up_is_reset(headers: dict[str, str], seconds: float | None) -> None:
    assert until_reset(headers, NOW) == seconds


LIMITED = used_up("-requests", "6m0s")


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
