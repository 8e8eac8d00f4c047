"""Streaming to clients: watches of runs, limits on watchers, write timeouts and streamed responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager

from aiohttp import web

from rxworker.events import Record
from rxworker.hub import Delivery, DropOldest, Latest, Reliable, Watch
from rxworker.protocols import PING_COMMENT, DeliveryName
from rxworker.ui.clean import format_error
from rxworker.ui.web.entry import RunEntry
from rxworker.ui.web.responses import ApiError
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.store import RunStore


class WriteTimeout:
    """Closes a connection to which nothing could be written for too long. A slow client that reads a little is not affected.

    Args:
        request: The request of the connection.
        seconds: The timeout.
    """

    def __init__(self, request: web.Request, seconds: float) -> None:
        self._request = request
        # Progress is seen by comparing two samples.
        self._pause = seconds / 2
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def while_sending(self) -> Generator[None, None, None]:
        """Watch the connection within the context."""
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

    def abort(self) -> None:
        """Close the connection: a truncated response must not look complete."""
        if self._request.transport is not None:
            self._request.transport.abort()


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
        self, request: web.Request, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str]
    ) -> web.StreamResponse:
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
        sending = _Sending(request, web.StreamResponse(headers=headers), self._settings)
        try:
            async with aclosing(pieces):
                await sending.send(pieces)
        except ConnectionError:
            sending.abort()  # the client has disconnected
        except asyncio.CancelledError:
            sending.abort()
            raise
        except Exception as error:
            # The response has begun, so its status cannot change.
            path = request.rel_url.raw_path
            logger.error("%s %s broke off\n%s", request.method, path, format_error(error))
            sending.abort()
        finally:
            self._sending.discard(task)
        return sending.response

    async def close(self) -> None:
        """Let the streams send their last records, then cancel those that remain."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=CLOSE_SECONDS)
        for task in tuple(self._sending):
            task.cancel()


class _Sending:
    """One response that is being sent."""

    def __init__(
        self, request: web.Request, response: web.StreamResponse, settings: Settings
    ) -> None:
        self.response = response
        self._request = request
        self._write_timeout = WriteTimeout(request, settings.stall_seconds)
        self._heartbeat = settings.heartbeat
        self._loop = asyncio.get_running_loop()
        self._is_writing = False
        self._wrote = self._loop.time()

    async def send(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Send all pieces."""
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
        with self._write_timeout.while_sending():
            await self.response.write(piece)
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

    def abort(self) -> None:
        """Close the connection."""
        self._write_timeout.abort()
