"""What the tests of the whole share.

An environment without keys, the five protocols, and the official clients of others.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from rxworker.providers import Anthropic, Gemini, GeminiInteractions, Ollama, OpenAIChat, OpenAIResponses, Provider
from tests.integration.npm import node_with
from tests.log.conftest import nats_program as nats_program  # fixtures, for the stores of a log
from tests.log.conftest import nats_server as nats_server
from tests.log.conftest import new_address as new_address
from tests.log.conftest import postgres as postgres

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


def gemini_interactions(base_url: str) -> Provider:
    return GeminiInteractions("a-model", api_key="sk-test-123", base_url=base_url)


def ollama(base_url: str) -> Provider:
    return Ollama("a-model", api_key="sk-test-123", base_url=base_url)


EVENT_STREAMS = [anthropic, openai_chat, openai_responses, gemini, gemini_interactions]
"""The protocols of server-sent events."""


@pytest.fixture(params=[*EVENT_STREAMS, ollama])
def make_provider(request: pytest.FixtureRequest) -> Callable[[str], Provider]:
    """Makes a provider for an address: each test runs for all protocols."""
    return request.param


@pytest.fixture(params=EVENT_STREAMS)
def make_event_stream_provider(request: pytest.FixtureRequest) -> Callable[[str], Provider]:
    """The same for those that send events: how an event is broken does not depend on lines."""
    return request.param


@pytest.fixture
def recordings() -> Path:
    """The folder of the recordings, which lie beside the repository and are not part of it."""
    if not RECORDINGS.exists():
        pytest.skip(f"no recordings: {RECORDINGS} is absent")
    return RECORDINGS


CLIENTS = Path(__file__).parent / "ui_clients"
PATIENCE = 60.0


class Clients:
    """The official clients, in one process of node for all tests: see ``ui_clients/clients.mjs``."""

    def __init__(self, node: str) -> None:
        command = [node, "clients.mjs"]
        self._process = subprocess.Popen(command, cwd=CLIENTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    async def ask(self, job: str, **given: Any) -> dict[str, Any]:
        """What comes of a job."""
        number = next(self._numbers)
        answer = self._waiting[number] = Future[dict[str, Any]]()
        assert self._process.stdin is not None
        line = json.dumps({**given, "number": number, "do": job})
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        async with asyncio.timeout(PATIENCE):
            told = await asyncio.wrap_future(answer)
        assert "failed" not in told, told["failed"]
        return told

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self._waiting.pop(told["number"]).set_result(told)
        for answer in self._waiting.values():
            answer.set_exception(EOFError("the clients have ended"))


@pytest.fixture(scope="session")
def clients() -> Generator[Clients, None, None]:
    """The official clients of AG-UI and of the UI Message Stream."""
    started = Clients(node_with(CLIENTS, "@ai-sdk/open-responses")[0])
    yield started
    started.close()
