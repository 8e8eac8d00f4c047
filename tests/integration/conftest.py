"""What the tests of the whole share: an environment without keys, and both protocols."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rxworker.providers import Anthropic, OpenAIChat, Provider

VARIABLES = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
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


@pytest.fixture(params=["anthropic", "openai_chat"])
def make_provider(request: pytest.FixtureRequest) -> Callable[[str], Provider]:
    """Makes a provider for an address: each test runs for both protocols."""

    def make(base_url: str) -> Provider:
        if request.param == "anthropic":
            return Anthropic("a-model", api_key="sk-test-123", base_url=base_url)
        return OpenAIChat("a-model", api_key="sk-test-123", base_url=base_url)

    return make


@pytest.fixture
def recordings() -> Path:
    """The folder of the recordings, which lie beside the repository and are no part of it."""
    if not RECORDINGS.exists():
        pytest.skip(f"no recordings: {RECORDINGS} is absent")
    return RECORDINGS
