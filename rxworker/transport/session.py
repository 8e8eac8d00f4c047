"""One HTTP session for each event loop, shared by everything that runs on it.

A session keeps connections open for the next request, and wants to be closed before its loop is. Nothing in asyncio
calls back when a loop ends, but for one thing: ``asyncio.run`` closes the asynchronous generators that are still
suspended. So the session lives in one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import aiohttp

from rxworker.transport.reading import AHEAD
from rxworker.transport.sockets import make_socket

_Keeper = AsyncGenerator[aiohttp.ClientSession, None]
# A session holds its loop, so that weak keys would let go of none.
_kept: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, _Keeper]] = {}


def open_session(loop: asyncio.AbstractEventLoop) -> aiohttp.ClientSession | None:
    """The session of the running loop, if there is one that is open."""
    held = _kept.get(loop)
    return None if held is None or held[0].closed else held[0]


async def shared_session() -> aiohttp.ClientSession:
    """The session of the running loop; made when it is first asked for, closed when the loop ends."""
    loop = asyncio.get_running_loop()
    session = open_session(loop)
    if session is None:
        keeper = _keep(loop)
        session = await anext(keeper)
        _kept[loop] = session, keeper
    return session


async def close_session() -> None:
    """Close the running loop's session now; a later request opens another."""
    held = _kept.pop(asyncio.get_running_loop(), None)
    if held is not None:
        await held[1].aclose()


async def _keep(loop: asyncio.AbstractEventLoop) -> _Keeper:
    # No total time-out: a long answer is no failure. Many streams may go to one host at once.
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, socket_factory=make_socket),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=True,
        read_bufsize=AHEAD,
    )
    try:
        yield session
    finally:
        _kept.pop(loop, None)
        await session.close()


__all__ = ["close_session", "open_session", "shared_session"]
