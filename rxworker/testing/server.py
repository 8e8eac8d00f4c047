"""A server that answers from a script, over real HTTP: replies, recordings and refusals, with faults.

It runs on the event loop that enters it, or, entered without ``async``, on a loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

from rxworker.errors import LocalProtocolError
from rxworker.testing.listener import HOST, AnswerLike, Listener
from rxworker.testing.loop_thread import LoopThread
from rxworker.testing.script import Answers, Script
from rxworker.testing.traffic import Received

PATIENCE = 5.0


class ReplayServer:
    r"""Answers one request after the other, on a free port of this machine.

    The end of a path says what is spoken there, and a `Reply` is rendered accordingly: ``/messages``,
    ``/chat/completions``, ``/responses``, ``:streamGenerateContent`` or ``/api/chat``. What is no reply is sent at any path.
    Only ``POST`` takes an answer, and the ``GET`` that takes up a response in the background (``/responses/<id>``).

    Args:
        answers: One answer for each request, or a function of what was received. A path is a recording, a text is a
            reply that says it.

    >>> import urllib.request
    >>> with ReplayServer(["Hello"]) as server:
    ...     with urllib.request.urlopen(server.base_url + "/v1/messages", data=b"{}") as answer:
    ...         first = answer.readline()
    >>> first
    b'event: message_start\n'
    """

    def __init__(self, answers: Answers[AnswerLike, Received]) -> None:
        self._script = Script[Received, AnswerLike](answers)
        self._started: Listener | None = None
        self._thread: LoopThread | None = None

    async def __aenter__(self) -> Self:
        listener = Listener(self._script)
        await listener.start()
        self._started = listener
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._listener.stop(PATIENCE)

    def __enter__(self) -> Self:
        self._thread = LoopThread("replay-server")
        return self._thread.call(self.__aenter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._thread is not None
        self._thread.call(self._listener.stop(PATIENCE))
        self._thread.stop()

    @property
    def base_url(self) -> str:
        """Where it listens, for example ``http://127.0.0.1:49152``."""
        return f"http://{HOST}:{self._listener.port}"

    @property
    def requests(self) -> Sequence[Received]:
        """What was received, in order."""
        return self._listener.traffic.requests

    @property
    def open_connections(self) -> int:
        """How many connections are open, in use or kept for the next request."""
        return self._listener.traffic.open_connections

    @property
    def disconnects(self) -> int:
        """How many clients went away before their answer was complete."""
        return self._listener.traffic.disconnects

    async def wait_closed(self, timeout: float = PATIENCE) -> None:  # noqa: ASYNC109
        """Wait until no connection is open; to see that a client closes what it no longer needs.

        Raises:
            TimeoutError: One stayed open.
        """
        traffic = self._listener.traffic
        await self._on_loop(
            traffic.until(lambda: traffic.closed, "all connections to close", timeout)
        )

    async def wait_requests(self, count: int, timeout: float = PATIENCE) -> None:  # noqa: ASYNC109
        """Wait until so many requests have come in.

        Raises:
            TimeoutError: They did not come.
        """
        traffic = self._listener.traffic
        await self._on_loop(
            traffic.until(lambda: len(traffic.requests) >= count, f"{count} requests", timeout)
        )

    async def _on_loop(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait on the server's loop, from whichever loop asks."""
        loop = self._listener.loop
        if loop is asyncio.get_running_loop():
            await waiting
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(waiting, loop))

    @property
    def _listener(self) -> Listener:
        if self._started is None:
            raise LocalProtocolError(
                "the ReplayServer has not been started: enter it with `async with` or `with`"
            )
        return self._started


__all__ = ["ReplayServer"]
