"""Streaming to clients: watches of runs, limits on watchers, and streamed responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager

from rxworker.events import Record
from rxworker.hub import Delivery, DropOldest, Latest, Reliable, Watch
from rxworker.protocols import PING_COMMENT
from rxworker.protocols.socket import DeliveryName
from rxworker.ui.clean import format_error
from rxworker.ui.web.entry import RunEntry
from rxworker.ui.web.request import ResponseStream, WebRequest
from rxworker.ui.web.responses import ApiError
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.store import RunStore

DELIVERIES: dict[DeliveryName, Delivery] = {
    # A client that is too far behind is detached and may reconnect: no client delays a run.
    "reliable": Reliable(when_full="detach"),
    "latest": Latest(),
    "drop_oldest": DropOldest(),
}


class Places:
    """Limits the number of watching clients.

    Args:
        settings: The limits.
        store: Notified when a watcher of a run attaches or detaches.
    """

    def __init__(self, settings: Settings, store: RunStore) -> None:
        self._store = store
        self._most = settings.max_watchers
        self._most_of_run = settings.max_watchers_per_run
        self._taken = 0

    @property
    def taken(self) -> int:
        """How many clients watch."""
        return self._taken

    @contextmanager
    def take(self, entry: RunEntry | None = None) -> Generator[None, None, None]:
        """Context manager: count a watcher of a run, or a connection that watches none yet.

        Raises:
            ApiError: The limit is reached.
        """
        if self._taken >= self._most:
            message = "too many clients watch: close a page, or raise max_watchers"
            raise ApiError(429, "too_many_watchers", message)
        if entry is not None and entry.watching >= self._most_of_run:
            message = "too many clients watch this run: close a page, or raise max_watchers_per_run"
            raise ApiError(429, "too_many_watchers", message)
        self._taken += 1
        if entry is not None:
            entry.watching += 1
        try:
            yield
        finally:
            self._taken -= 1
            if entry is not None:
                entry.watching -= 1
                entry.settle()
                self._store.changed(entry)


def watch_run(
    entry: RunEntry, after: int, delivery: DeliveryName = "coalesce", name: str = ""
) -> Watch:
    """Watch a run. By default its deltas are merged and arrive at the rate of the server's settings.

    Raises:
        ApiError: The run has no such record yet.
    """
    if after > entry.run.last_seq:
        message = f"the last record of the run is {entry.run.last_seq}, so no client can have received {after}"
        raise ApiError(400, "bad_cursor", message)
    chosen = DELIVERIES.get(delivery, entry.delivery)
    return entry.run.watch(delivery=chosen, after=after, name=name)


async def batches_of(entry: RunEntry, watch: Watch) -> AsyncGenerator[list[Record], None]:
    """Yield the batches of a watch until the run ends, however it ends.

    Raises:
        RxWorkerError: The watcher was detached while the run continues.
    """
    async with aclosing(watch.batches()) as batches:
        try:
            async for batch in batches:
                yield batch
        except Exception:
            # The last record contains the error that ended the run.
            if not entry.run.done():
                raise


CLOSE_SECONDS = 1.0
"""Seconds a client has to read the last records when the server stops."""


logger = logging.getLogger("rxworker.ui.web")


class Streams:
    """The open streams.

    Args:
        settings: The keep-alive interval and the write timeout.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sending: set[asyncio.Task[object]] = set()

    async def send(
        self, request: WebRequest, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str]
    ) -> None:
        """Send the pieces as they arrive, with a keep-alive comment when idle.

        A client that reads nothing for too long is disconnected. The generator is always closed afterwards.

        Args:
            request: The request.
            pieces: Server-sent events, each complete.
            headers: The headers of the response.
        """
        task = asyncio.current_task()
        assert task is not None
        self._sending.add(task)
        response: ResponseStream | None = None
        try:
            async with aclosing(pieces):
                response = await request.stream(headers)
                await _Sending(response, self._settings.heartbeat).send(pieces)
        except asyncio.CancelledError:
            if response is not None:
                response.abort()
            raise
        except Exception as error:
            # The response has begun, so its status cannot change.
            if not isinstance(error, ConnectionError):  # the client has disconnected
                path = request.raw_path
                logger.error(
                    "%s %s broke off\n%s",
                    request.method,
                    path,
                    format_error(error),
                    extra={"method": request.method, "path": path},
                )
            if response is not None:
                response.abort()
        finally:
            self._sending.discard(task)

    async def close(self) -> None:
        """Let the streams send their last records, then cancel those that remain."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=CLOSE_SECONDS)
        for task in tuple(self._sending):
            task.cancel()


class _Sending:
    """One response that is being sent, with keep-alive comments."""

    def __init__(self, response: ResponseStream, heartbeat: float) -> None:
        self._response = response
        self._heartbeat = heartbeat
        self._loop = asyncio.get_running_loop()
        self._is_writing = False
        self._wrote = self._loop.time()

    async def send(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Send all pieces."""
        task = asyncio.current_task()
        assert task is not None
        beat = self._loop.create_task(self._beat(task))
        try:
            async for piece in pieces:
                await self._write(piece)
        finally:
            beat.cancel()
        await self._response.end()

    async def _write(self, piece: bytes) -> None:
        self._is_writing = True
        await self._response.write(piece)
        self._is_writing, self._wrote = False, self._loop.time()

    async def _beat(self, sending: asyncio.Task[object]) -> None:
        """Send a keep-alive comment when idle; cancel the stream when the connection is closed."""
        pause = self._heartbeat / 2
        while True:
            await asyncio.sleep(pause)
            if not self._is_writing and self._loop.time() - self._wrote >= pause:
                try:
                    await self._write(PING_COMMENT)
                except ConnectionError:
                    sending.cancel()
                    return
