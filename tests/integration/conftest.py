"""What the tests of the whole share: an environment without keys, and the five protocols."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rxworker.providers import (
    Anthropic,
    Gemini,
    Ollama,
    OpenAIChat,
    OpenAIResponses,
    Provider,
)

VARIABLES = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OLLAMA_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "OLLAMA_HOST",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
)
RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the keys and proxies of the machine it runs on."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def anthropic(base_url: str) -> Provider:
    return Anthropic("a-model", api_key="sk-test-123", base_url=base_url)


def openai_chat(base_url: str) -> Provider:
    return OpenAIChat("a-model", api_key="sk-test-123", base_url=base_url)


def openai_responses(base_url: str) -> Provider:
    return OpenAIResponses("a-model", api_key="sk-test-123", base_url=base_url)


def gemini(base_url: str) -> Provider:
    return Gemini("a-model", api_key="sk-test-123", base_url=base_url)


def ollama(base_url: str) -> Provider:
    return Ollama("a-model", api_key="sk-test-123", base_url=base_url)


EVENT_STREAMS = [anthropic, openai_chat, openai_responses, gemini]
"""The protocols of server-sent events."""


@pytest.fixture(params=[*EVENT_STREAMS, ollama])
def make_provider(request: pytest.FixtureRequest) -> Callable[[str], Provider]:
    """Makes a provider for an address: each test runs for all protocols."""
    return request.param


@pytest.fixture(params=EVENT_STREAMS)
def make_event_stream_provider(request: pytest.FixtureRequest) -> Callable[[str], Provider]:
    """The same for those that send events: what is broken about an event is no matter of lines."""
    return request.param


@pytest.fixture
def recordings() -> Path:
    """The folder of the recordings, which lie beside the repository and are no part of it."""
    if not RECORDINGS.exists():
        pytest.skip(f"no recordings: {RECORDINGS} is absent")
    return RECORDINGS
