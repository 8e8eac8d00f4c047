"""The orderly end of listening: no connection is lost between two turns of the event loop."""

from __future__ import annotations

import asyncio

SOON = 1e-6
"""Seconds that are over in the next turn, but make it look at timers."""


async def stop_listening(server: asyncio.AbstractServer) -> None:
    """Close a server of asyncio's, so that each connection that it accepted gets its protocol, which then closes it.

    asyncio accepts a connection in one turn of the loop and makes its transport in the next. A server that is closed in
    between leaves an open socket. A turn of the loop runs what was waiting, then the events of sockets, then timers: a
    task that is woken by a timer continues after the transports of all accepted connections were made, and before the
    next one is accepted.

    Args:
        server: The server. Its connections stay.
    """
    try:
        await asyncio.sleep(SOON)
    finally:
        server.close()
    await asyncio.sleep(0)  # the transports notify their protocols
