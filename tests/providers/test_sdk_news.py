"""What the official clients know and the providers do not was looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.late import Late
from tests.providers.sdk_news import SOURCES, acknowledged, news

for package in ("anthropic", "openai", "google.genai", "ollama"):
    Late(package)


@pytest.mark.slow
def test_what_is_new_in_the_official_clients_is_acknowledged() -> None:
    new = sorted(set(news()) - set(acknowledged()))
    assert not new, "build it or leave it to extra, then: python tests/providers/sdk_news.py --accept"


@pytest.mark.slow
def test_each_source_has_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: Path) -> set[str]:
        return set()

    monkeypatch.setattr("tests.providers.sdk_news._words", nothing)
    found = news()
    for provider, kind, _ in SOURCES:
        assert any(line.startswith(f"{provider} {kind} ") for line in found)
