"""Sending a long answer to a client that may be slow, or gone.

How long a client may take nothing while something is being sent to it.

A client's watch of a run, with a place among those that there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager

from aiohttp import web

from rxworker.events import Record
from rxworker.hub import Delivery, DropOldest, Latest, Reliable, Watch
from rxworker.protocols import PING, DeliveryName
from rxworker.ui.clean import told
from rxworker.ui.web.entry import RunEntry
from rxworker.ui.web.responses import ApiError
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.store import RunStore


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


DELIVERIES: dict[DeliveryName, Delivery] = {
    # A client that is too far behind is sent away, to come back to where it was: no client makes a run wait.
    "reliable": Reliable(when_full="detach"),
    "latest": Latest(),
    "drop_oldest": DropOldest(),
}


class Places:
    """How many clients watch, and how many may.

    Args:
        settings: The limits.
        store: Is informed when a watcher of a run has come or gone.
    """

    def __init__(self, settings: Settings, store: RunStore) -> None:
        self._store = store
        self._most = settings.max_watchers
        self._most_of_run = settings.max_watchers_per_run
        self._taken = 0

    @contextmanager
    def take(self, entry: RunEntry | None = None) -> Generator[None, None, None]:
        """A place for one watcher of a run, or for a connection that watches none yet.

        Raises:
            ApiError: There is none.
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
    """A watch of a run. By default its deltas are merged, and come at the pace of the server's clients.

    Raises:
        ApiError: The run is not that far.
    """
    if after > entry.run.last_seq:
        message = f"the run has come to record {entry.run.last_seq}, so nobody has seen {after}"
        raise ApiError(400, "bad_cursor", message)
    chosen = DELIVERIES.get(delivery, entry.delivery)
    return entry.run.watch(delivery=chosen, after=after, name=name)


async def batches_of(entry: RunEntry, watch: Watch) -> AsyncGenerator[list[Record], None]:
    """What a watch is given, to the run's end, however the run ended.

    Raises:
        RxWorkerError: The watcher was detached while the run goes on.
    """
    async with aclosing(watch.batches()) as batches:
        try:
            async for batch in batches:
                yield batch
        except Exception:
            # What ended the run stands in its last record.
            if not entry.run.done():
                raise


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
