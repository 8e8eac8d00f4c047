"""Finds the recordings, which lie beside the repository and are no part of it.

A test with the argument ``recording`` runs once for each; where the folder is absent, it says so and is skipped.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rxworker.providers import PROVIDERS

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings"
SUFFIXES = (".sse", ".ndjson")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recording" in metafunc.fixturenames:
        files = [p for name in PROVIDERS for p in sorted((RECORDINGS / name).glob("*"))]
        streams = [path for path in files if path.suffix in SUFFIXES]
        absent = pytest.mark.skip(reason=f"no recordings: {RECORDINGS} is absent")
        rows = streams or [pytest.param(RECORDINGS, marks=absent)]
        metafunc.parametrize("recording", rows, ids=lambda p: f"{p.parent.name}-{p.stem}")


@pytest.fixture
def http_errors() -> list[str]:
    """The recorded error answers, a JSON line each."""
    path = RECORDINGS / "http_errors.jsonl"
    if not path.exists():
        pytest.skip(f"no recordings: {path} is absent")
    return [line for line in path.read_text().splitlines() if line.strip()]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the keys of the machine it runs on."""
    names = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
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
    for name in names:
        monkeypatch.delenv(name, raising=False)
