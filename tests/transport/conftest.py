"""What the tests of the transport share: an environment of their own, and servers that speak raw bytes."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

import pytest

from rxworker.providers import Anthropic, OpenAIChat, Provider
from rxworker.transport import close_session
from rxworker.transport.listening import stop_listening
from tests.ports import free_port

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
KEY = "sk-ant-very-secret-0123456789"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the keys and proxies of the machine it runs on."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(params=["anthropic", "openai_chat"])
def make_provider(request: pytest.FixtureRequest) -> Callable[[str], Provider]:
    """Makes a provider for an address: each test runs for every protocol."""

    def make(base_url: str) -> Provider:
        if request.param == "anthropic":
            return Anthropic("a-model", api_key=KEY, base_url=base_url)
        return OpenAIChat("a-model", api_key=KEY, base_url=base_url)

    return make


@pytest.fixture
async def raw_server() -> AsyncGenerator[Callable[[Handler], Awaitable[str]], None]:
    """Starts servers that do with a connection what the handler says; gives their addresses."""
    servers: list[asyncio.Server] = []
    serving: set[asyncio.Task[None]] = set()

    async def start(handler: Handler) -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await handler(reader, writer)
            finally:
                writer.close()
                await writer.wait_closed()

        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving.add(asyncio.ensure_future(answer(reader, writer)))

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield start
    await close_session()
    for server in servers:
        await stop_listening(server)
        await server.wait_closed()
    async with asyncio.timeout(60):
        await asyncio.gather(*serving, return_exceptions=True)


@pytest.fixture
def closed_port() -> int:
    """A port of this machine where nobody listens."""
    return free_port()


@pytest.fixture
def full_port() -> Generator[int, None, None]:
    """A port whose queue is full: connections are neither made nor refused."""
    if sys.platform != "linux":
        pytest.skip("how long a queue is, and what happens when it is full, is Linux's own affair")
    waiting: list[socket.socket] = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = int(listening.getsockname()[1])
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            waiting.append(client)
        yield port
        for client in waiting:
            client.close()
