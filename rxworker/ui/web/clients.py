"""The connections of the client that a run belongs to, and the end of a run whose client has stopped it.

Theory of operation. `useChat` and AG-UI stop a run by closing the connection that carries its answer. A reload of the page and a lost
network close it in the same way, so the server decides by what follows. A client that comes back within
the grace goes on with the run. A message in the same conversation means that the client has given up the run, which then is cancelled at
once. Otherwise the run is cancelled after the grace, unless the client has shown that it resumes: a page with ``resume: true`` asks for
the stream of its chat when it is opened, and to such a page a closed connection is no stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from aiohttp import web

from rxworker.worker import Run

NOTICE = 0.5
"""Seconds within which the server notices that a connection was closed."""

STOPPED = "its client has stopped it"


class Clients:
    """The connections on which a client gets the answer of its run.

    Args:
        run: The run.
        grace: Seconds after which the run is cancelled when no connection is left; ``None``: never.
    """

    def __init__(self, run: Run[object], grace: float | None) -> None:
        self._run = run
        self._grace = grace
        self._requests: dict[int, web.Request] = {}  # by identity: a request is not hashable
        self._gone = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def connected(
        self, request: web.Request, *, resumes: bool = False
    ) -> Generator[None, None, None]:
        """The client is connected while this lasts.

        Args:
            request: The request that is answered.
            resumes: Whether the client resumes: its run then goes on without a connection.
        """
        self._requests[id(request)] = request
        self._gone.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            del self._requests[id(request)]
            if not self._requests:
                self._gone.set()
                if self._grace is not None and not resumes and not self._run.done():
                    loop = asyncio.get_running_loop()
                    self._timer = loop.call_later(self._grace, self.stop)

    async def have_left(self) -> bool:
        """Whether the client has given up the run: no connection is left, or none in a moment."""
        if self._grace is None:
            return False
        if self._is_connected():
            try:
                async with asyncio.timeout(NOTICE):
                    await self._gone.wait()
            except TimeoutError:
                return not self._is_connected()
        return True

    def _is_connected(self) -> bool:
        transports = [request.transport for request in self._requests.values()]
        return any(t is not None and not t.is_closing() for t in transports)

    def stop(self) -> asyncio.Future[None]:
        """Cancel the run.

        Returns:
            Done when it has ended.
        """
        return self._run.cancel(reason=STOPPED)


__all__ = ["NOTICE", "STOPPED", "Clients"]
