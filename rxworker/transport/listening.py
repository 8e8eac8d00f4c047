"""The orderly end of listening: no connection is lost between two turns of the event loop."""

from __future__ import annotations

import asyncio

SOON = 1e-6
"""Seconds that are over in the next turn, but make it look at timers."""


async def stop_listening(server: asyncio.AbstractServer) -> None:
    """Close a server of asyncio's, so that each connection that it has accepted gets its protocol, which can then close it.

    asyncio accepts a connection in one turn of the loop and makes its transport in the next. A server that is closed in between
    leaves a socket that nobody closes. A turn of the loop runs what was waiting, then what sockets tell, then timers: who is woken
    by a timer goes on behind the transports of all that was accepted, and before the next is.

    Args:
        server: What listens. Its connections stay.
    """
    try:
        await asyncio.sleep(SOON)
    finally:
        server.close()
    await asyncio.sleep(0)  # the transports tell their protocols


__all__ = ["stop_listening"]
