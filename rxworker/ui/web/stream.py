"""Sending a long answer to a client that may be slow, or gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from aiohttp import web

from rxworker.protocols import PING
from rxworker.ui.web.hide import told
from rxworker.ui.web.patience import Patience
from rxworker.ui.web.settings import Settings

LAST_WORDS = 1.0
"""Seconds in which a client can take the last records when the server goes away."""


logger = logging.getLogger("rxworker.ui.web")


class Streams:
    """The answers that are being sent.

    Args:
        settings: When a client is told that the connection lives, and when it is taken for dead.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sending: set[asyncio.Task[object]] = set()

    async def send(
        self, request: web.Request, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Send the pieces as they come, with a comment in each long silence.

        A client that takes nothing for too long is let go. Whatever happens, the generator is closed afterwards.

        Args:
            request: Who asks.
            pieces: What is sent: server-sent events, each whole.
            headers: The answer's headers.
        """
        task = asyncio.current_task()
        assert task is not None
        self._sending.add(task)
        sending = _Sending(request, web.StreamResponse(headers=headers), self._settings)
        try:
            async with aclosing(pieces):
                await sending.send(pieces)
        except ConnectionError:
            sending.hang_up()  # it is gone
        except asyncio.CancelledError:
            sending.hang_up()
            raise
        except Exception as error:
            # The answer has begun, so that it cannot become another one.
            path = request.rel_url.raw_path
            logger.error("%s %s broke off\n%s", request.method, path, told(error))
            sending.hang_up()
        finally:
            self._sending.discard(task)
        return sending.response

    async def close(self) -> None:
        """The server goes away: let what has come to its end be sent, and end the rest."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=LAST_WORDS)
        for task in tuple(self._sending):
            task.cancel()


class _Sending:
    """One answer on its way."""

    def __init__(
        self, request: web.Request, response: web.StreamResponse, settings: Settings
    ) -> None:
        self.response = response
        self._request = request
        self._patience = Patience(request, settings.stall_seconds)
        self._heartbeat = settings.heartbeat
        self._loop = asyncio.get_running_loop()
        self._is_writing = False
        self._wrote = self._loop.time()

    async def send(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Send everything."""
        await self.response.prepare(self._request)
        task = asyncio.current_task()
        assert task is not None
        beat = self._loop.create_task(self._beat(task))
        try:
            async for piece in pieces:
                await self._write(piece)
        finally:
            beat.cancel()
        await self.response.write_eof()

    async def _write(self, piece: bytes) -> None:
        self._is_writing = True
        with self._patience.while_sending():
            await self.response.write(piece)
        self._is_writing, self._wrote = False, self._loop.time()

    async def _beat(self, sending: asyncio.Task[object]) -> None:
        """Say that the connection lives when it is silent, and end the sending when it does not."""
        pause = self._heartbeat / 2
        while True:
            await asyncio.sleep(pause)
            if not self._is_writing and self._loop.time() - self._wrote >= pause:
                try:
                    await self._write(PING)
                except ConnectionError:
                    sending.cancel()
                    return

    def hang_up(self) -> None:
        """Close the connection."""
        self._patience.hang_up()


__all__ = ["Streams"]
