"""The recorded responses, as a parameter of the tests that ask for one, and an environment without keys."""

from __future__ import annotations

import pytest

from rxworker.providers.endpoint import ANTHROPIC_HOSTS, OPENAI_HOSTS
from tests.over_recordings import pytest_generate_tests

__all__ = ["pytest_generate_tests"]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the keys of the machine it runs on."""
    names = (
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        "AWS_PROFILE",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_VERTEX_BASE_URL",
        "ANTHROPIC_VERTEX_PROJECT_ID",
        "CLOUD_ML_REGION",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_GEMINI_BASE_URL",
        "OLLAMA_API_KEY",
        "OLLAMA_HOST",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    )
    hosts = (*OPENAI_HOSTS.values(), *ANTHROPIC_HOSTS.values())
    for name in (*names, *(host.variable for host in hosts)):
        monkeypatch.delenv(name, raising=False)
