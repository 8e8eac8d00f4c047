"""How long a client may take nothing while something is being sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from aiohttp import web


class Patience:
    """Closes a connection that takes nothing for too long. One that is merely slow, and takes a little, is left alone.

    Args:
        request: Whose connection.
        seconds: How long.
    """

    def __init__(self, request: web.Request, seconds: float) -> None:
        self._request = request
        # Two looks are needed to see whether anything has moved.
        self._pause = seconds / 2
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def while_sending(self) -> Generator[None, None, None]:
        """Look at the connection while this lasts."""
        timer: asyncio.TimerHandle
        before: int | None = None

        def look() -> None:
            nonlocal timer, before
            transport = self._request.transport
            if transport is None:
                return
            waiting = transport.get_write_buffer_size()
            if before is not None and waiting >= before:
                transport.abort()
                return
            before = waiting
            timer = self._loop.call_later(self._pause, look)

        timer = self._loop.call_later(self._pause, look)
        try:
            yield
        finally:
            timer.cancel()

    def hang_up(self) -> None:
        """Close the connection: an answer that is not whole must not look whole."""
        if self._request.transport is not None:
            self._request.transport.abort()


__all__ = ["Patience"]
