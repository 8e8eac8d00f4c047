"""The traffic of a replay server: requests and connections, and waiting for them without sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from rxworker.messages import Json
from rxworker.providers.base import HIDDEN, is_secret


class Received(Struct, frozen=True):
    """One request that came in.

    Attributes:
        method: The HTTP method.
        path: The path, including the query.
        headers: Names in lower case; keys are masked.
        body: The parsed JSON, or the text where it is none.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json


def to_received(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Received:
    """The request as tests read it.

    >>> to_received("POST", "/x", {"X-Api-Key": "secret"}, b'{"a":1}').headers
    {'x-api-key': '***'}
    """
    lower = {name.lower(): value for name, value in headers.items()}
    shown = {name: HIDDEN if is_secret(name) else value for name, value in lower.items()}
    try:
        parsed: Json = msgspec.json.decode(body)
    except msgspec.DecodeError:
        parsed = body.decode(errors="replace")
    return Received(method, path, shown, parsed)


class Traffic:
    """Counts, and wakes the tasks that wait for a count. Belongs to one event loop."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.open_connections = 0
        self.disconnects = 0
        self.answering = 0
        self.closing = False
        self._changed = asyncio.Event()

    def received(self, request: Received) -> None:
        """A request came in."""
        self.requests.append(request)
        self._wake()

    def connected(self) -> None:
        """A connection was opened."""
        self.open_connections += 1
        self._wake()

    def disconnected(self) -> None:
        """A connection was closed, by whichever side."""
        self.open_connections -= 1
        self._wake()

    @contextmanager
    def answer(self) -> Generator[None, None, None]:
        """An answer is being written; a client that goes away before it is complete is counted."""
        self.answering += 1
        try:
            yield
        except (asyncio.CancelledError, ConnectionError) as gone:
            self.disconnects += not self.closing
            raise asyncio.CancelledError from gone  # the rest of the server is not affected
        finally:
            self.answering -= 1
            self._wake()

    @property
    def closed(self) -> bool:
        """Whether no connection is open, and no task still writes to a closed one."""
        return not self.open_connections and not self.answering

    async def until(self, reached: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait for a condition on the counts.

        Raises:
            TimeoutError: It was not reached in time; the message lists what was reached.
        """
        try:
            async with asyncio.timeout(seconds):
                while not reached():
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(
                f"waited {seconds:g} s for {what}: {len(self.requests)} requests, "
                f"{self.open_connections} open connections, {self.disconnects} disconnects"
            ) from None

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
