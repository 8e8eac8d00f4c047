"""The sockets of requests give no more than the allocator keeps at hand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from rxworker.providers.base import HttpRequest
from rxworker.transport.http import HttpTransport
from rxworker.transport.session import MOST_AT_ONCE, SmallReads, make_socket

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def test_a_read_gives_at_most_so_much() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with make_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", address)) as reader:
            reader.connect(address)
            writer, _ = server.accept()
            with writer:
                writer.sendall(bytes(MOST_AT_ONCE + 10))
            assert len(reader.recv(256 * 1024, socket.MSG_WAITALL)) == MOST_AT_ONCE
            assert len(reader.recv(4)) == 4
            assert len(reader.recv(256 * 1024, socket.MSG_WAITALL)) == 6
            assert reader.recv(256 * 1024) == b""


async def test_requests_are_made_with_them(
    raw_server: Callable[[Handler], Awaitable[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 3 * MOST_AT_ONCE
    read: list[int] = []
    recv = SmallReads.recv

    def noted(self: SmallReads, bufsize: int, flags: int = 0, /) -> bytes:
        data = recv(self, bufsize, flags)
        read.append(len(data))
        return data

    monkeypatch.setattr(SmallReads, "recv", noted)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {size}\r\n"
        writer.write(head.encode() + b"connection: close\r\n\r\n" + bytes(size))
        await writer.drain()

    url = await raw_server(handle)
    request = HttpRequest(url, {}, b"")
    got = 0

    def take(data: bytes) -> None:
        nonlocal got
        got += len(data)

    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    HttpTransport().send(request).subscribe(take, over.set_exception, lambda: over.set_result(None))
    await over
    assert got == size
    assert sum(read) > size, "it was not read by them"
