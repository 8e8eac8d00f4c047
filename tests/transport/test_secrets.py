"""A key is sent, and never shown: by no error, event, ``repr`` or log line."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable

import pytest
from reactivex import operators as ops

from rxworker.errors import RxWorkerError
from rxworker.providers import Provider
from rxworker.testing import ReplayServer, ServedResponse, cut, say
from rxworker.testing.server import AnswerLike
from rxworker.transport import Client, Retry

KEY = "sk-ant-very-secret-0123456789"  # as in conftest.py
SECRET = "very-secret"
MakeProvider = Callable[[str], Provider]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
RawServer = Callable[[Handler], Awaitable[str]]


def shown(error: BaseException | None) -> str:
    """Everything that an error and its causes show of themselves."""
    parts: list[str] = []
    while error is not None:
        parts += [repr(error), str(error), *traceback.format_exception(error, chain=False)]
        parts.append(repr(vars(error)))
        error = error.__cause__ or error.__context__
    return "\n".join(parts)


@pytest.mark.parametrize(
    "answer",
    [
        ServedResponse.from_status(401, body={"error": {"message": f"no such key: {KEY}"}}),
        ServedResponse.from_status(500, body=f"<p>x-api-key: {KEY}</p>".encode()),
        ServedResponse.dropped(),
        ServedResponse.garbage(),
        say("Hello") + cut(),
        ServedResponse.from_frames([b"data: {"], cut_after=1),
    ],
)
async def test_no_error_shows_the_key(
    make_provider: MakeProvider, answer: AnswerLike, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with ReplayServer([answer]) as server:
        provider = make_provider(server.base_url)
        client = Client(provider, retry=Retry(retries=0))
        with pytest.raises(RxWorkerError) as caught:
            await client.stream("hi").pipe(ops.to_list())
        assert server.requests[0].headers.get("x-api-key", "***") == "***"
    error = caught.value
    # The raw answer is kept for whoever explains it; it is the provider who repeated the key there.
    if hasattr(error.__cause__, "body"):
        error.__cause__ = None
        error.__context__ = None
    assert SECRET not in shown(error)
    assert SECRET not in f"{client!r} {provider!r} {client} {provider}"
    assert SECRET not in caplog.text


@pytest.mark.parametrize("answer", [b"garbage\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nx: "])
async def test_no_error_of_the_connection_shows_the_key(
    raw_server: RawServer, make_provider: MakeProvider, answer: bytes
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    client = Client(make_provider(await raw_server(serve)), retry=Retry(retries=0))
    with pytest.raises(RxWorkerError) as caught:
        await client.stream("hi").pipe(ops.to_list())
    assert SECRET not in shown(caught.value)
