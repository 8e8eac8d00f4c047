"""Proxies of the environment are used, but never for this machine itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from reactivex import operators as ops

from rxworker.errors import RxWorkerError
from rxworker.providers.base import HttpRequest
from rxworker.testing import ReplayServer, ServedResponse
from rxworker.transport import HttpTransport
from rxworker.transport.session import proxy_for

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
RawServer = Callable[[Handler], Awaitable[str]]
PROXY = "http://proxy.invalid:3128"


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    return monkeypatch


@pytest.mark.usefixtures("proxied")
@pytest.mark.parametrize("url", ["http://example.com/v1", "https://api.example.com:8443/v1"])
def test_a_proxy_of_the_environment_is_used(url: str) -> None:
    assert proxy_for(url) == PROXY


@pytest.mark.usefixtures("proxied")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "localhost", "LOCALHOST", "[::1]", "localhost."])
def test_this_machine_is_reached_without_one(host: str) -> None:
    assert proxy_for(f"http://{host}:8080/v1") is None


def test_no_proxy_names_the_exceptions(proxied: pytest.MonkeyPatch) -> None:
    proxied.setenv("NO_PROXY", "example.com,10.0.0.1")
    assert proxy_for("https://example.com/v1") is None
    assert proxy_for("https://api.example.com/v1") is None
    assert proxy_for("http://10.0.0.1/v1") is None
    assert proxy_for("https://example.org/v1") == PROXY


def test_a_proxy_for_everything_is_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", PROXY)
    assert proxy_for("https://example.com/v1") == PROXY


@pytest.mark.usefixtures("proxied")
async def test_a_local_server_is_reached_although_there_is_a_proxy() -> None:
    async with ReplayServer([ServedResponse.from_frames([b"ok"])]) as server:
        sent = HttpRequest(server.base_url + "/v1/messages", {}, b"{}")
        assert await HttpTransport().send(sent) == b"ok"


async def test_a_request_goes_through_the_proxy(raw_server: RawServer, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"content-length: 2\r\nconnection: close\r\n\r\nok")
        await writer.drain()

    monkeypatch.setenv("HTTP_PROXY", await raw_server(serve))
    sent = HttpRequest("http://model.invalid/v1/messages", {}, b"")
    assert await HttpTransport().send(sent) == b"ok"
    assert lines == [b"POST http://model.invalid/v1/messages HTTP/1.1\r\n"]


def test_a_proxy_without_a_scheme_is_an_http_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.invalid:3128")
    assert proxy_for("https://example.com/v1") == PROXY


async def failure_through(monkeypatch: pytest.MonkeyPatch, proxy: str, url: str) -> str:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(RxWorkerError) as caught:
        await HttpTransport().send(HttpRequest(url, {}, b"")).pipe(ops.to_list())
    assert "hush" not in f"{caught.value} {caught.value.__cause__!r}"
    return str(caught.value)


async def test_a_proxy_that_is_not_there_is_named_as_the_cause(
    monkeypatch: pytest.MonkeyPatch, closed_port: int
) -> None:
    proxy = f"http://user:hush@127.0.0.1:{closed_port}"
    says = await failure_through(monkeypatch, proxy, "http://model.invalid/v1/messages")
    assert "its proxy does not answer" in says
    assert "NO_PROXY" in says


async def test_a_proxy_that_refuses_is_named_as_the_cause(
    raw_server: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    proxy = (await raw_server(serve)).replace("//", "//user:hush@")
    says = await failure_through(monkeypatch, proxy, "https://model.invalid/v1/messages")
    assert "the proxy for https://model.invalid/v1/messages refused: 407" in says


async def test_a_socks_proxy_cannot_be_used_and_the_message_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = "socks5://user:hush@127.0.0.1:1"
    says = await failure_through(monkeypatch, proxy, "https://model.invalid/v1/messages")
    assert "socks5://***@127.0.0.1:1" in says
    assert "put model.invalid into NO_PROXY" in says


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "all_proxy"])
def test_a_variable_in_small_letters_is_as_good(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_for("https://example.com/v1") is None
    monkeypatch.setenv(name, PROXY)
    assert proxy_for("https://example.com/v1") == PROXY
    monkeypatch.delenv(name)
    assert proxy_for("https://example.com/v1") is None
