"""What the pages are read and run with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rxworker.testing import ReplayServer, Reply, call, say
from rxworker.testing.traffic import Received

ROOT = Path(__file__).parents[2]


def answer(request: Received) -> Reply:
    """What the service on the pages says: it looks the weather up if it can, and then says that it is fine."""
    asked = str(request.body)
    if "get_weather" in asked and "tool_result" not in asked and "tool_call_id" not in asked:
        return call("get_weather", city="Kyoto") + call("get_weather", city="Oslo")
    return say("Both have 17 °C.")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReplayServer]:
    """A server in place of the providers, for pages that speak to one. No page sees a key of the machine."""
    with ReplayServer(answer) as server:
        for name in ("ANTHROPIC", "OPENAI"):
            monkeypatch.setenv(f"{name}_BASE_URL", server.base_url)
            monkeypatch.setenv(f"{name}_API_KEY", "none")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
