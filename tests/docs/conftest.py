"""What the pages are read and run with."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from rxworker.testing import ReplayServer, Reply, call, say
from rxworker.testing.server import Received

ROOT = Path(__file__).parents[2]


def answer(request: Received) -> Reply:
    """What the service on the pages says: it looks the weather up if it can, and then says that it is fine."""
    asked = str(request.body)
    if "close_roof" in asked:  # the program of the pages below coming-from
        if "is closed" in asked:
            return say("It rains in Kyoto, so the roof is closed.")
        if "Kyoto: rain" in asked:
            return say("It rains.") + call("close_roof", city="Kyoto")
        return call("get_weather", city="Kyoto")
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


@pytest.fixture(autouse=True)
def process() -> Iterator[None]:
    """What a page sets up in its process, the logging and the environment, is undone."""
    root = logging.getLogger()
    names = [name for name in root.manager.loggerDict if name.startswith("rxworker")]
    loggers = [root, *map(logging.getLogger, {*names, "rxworker", "rxworker.hub"})]
    kept = [(each, each.level, each.handlers[:], each.propagate) for each in loggers]
    with patch.dict(os.environ):
        yield
    for logger in map(logging.getLogger, root.manager.loggerDict):
        if logger not in loggers and logger.name.startswith("rxworker"):
            logger.setLevel(logging.NOTSET)
    for logger, level, handlers, propagate in kept:
        logger.setLevel(level)
        logger.handlers, logger.propagate = handlers, propagate
