"""No connection is lost when a server closes, whichever turn of the event loop it is."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings

import pytest

from rxworker.transport.listening import stop_listening

TURNS = 6


class Made(asyncio.Protocol):
    """A connection that is noted."""

    def __init__(self, made: list[asyncio.BaseTransport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(transport)


async def left_behind(turns: int) -> list[str]:
    """The sockets that nobody closes when a server stops so many turns after three clients came."""
    made: list[asyncio.BaseTransport] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Made(made), "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    clients = [socket.create_connection(address) for _ in range(3)]
    for _ in range(turns):
        await asyncio.sleep(0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        await stop_listening(server)
        for transport in made:
            transport.close()
        made.clear()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        gc.collect(1)  # what is new alone: a look at all that the tests have made takes half a second
    for client in clients:
        client.close()
    return [str(warning.message) for warning in told if warning.category is ResourceWarning]


@pytest.mark.parametrize("turns", range(TURNS))
async def test_each_accepted_connection_gets_its_protocol(turns: int) -> None:
    assert await left_behind(turns) == []


async def test_it_closes_even_when_it_is_cancelled() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    stopping = asyncio.create_task(stop_listening(server))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert not server.is_serving()
