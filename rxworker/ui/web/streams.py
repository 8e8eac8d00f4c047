"""Streaming to clients: watches of runs, limits on watchers, and streamed responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from math import inf

from rxworker.events import Record
from rxworker.hub import Delivery, DropOldest, Latest, Reliable, Watch
from rxworker.protocols import PING_COMMENT
from rxworker.protocols.socket import DeliveryName
from rxworker.ui.web.entry import Clients, RunEntry
from rxworker.ui.web.request import ResponseStream, WebRequest
from rxworker.ui.web.responses import ApiError, log_error
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.store import RunStore

DELIVERIES: dict[DeliveryName, Delivery] = {
    # A client that is too far behind is detached and may reconnect: no client delays a run.
    "reliable": Reliable(when_full="detach"),
    "latest": Latest(),
    "drop_oldest": DropOldest(),
}


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


class Streams:
    """The clients that watch runs, and their open streams.

    Args:
        settings: The limits, the keep-alive interval, and when a run ends without its client.
        store: Notified when a watcher of a run attaches or detaches.

    Attributes:
        taken: How many clients watch.
    """

    def __init__(self, settings: Settings, store: RunStore) -> None:
        self._settings = settings
        self._store = store
        self._sending: set[asyncio.Task[object]] = set()
        self._endless: set[asyncio.Task[object]] = set()
        self.taken = 0

    @contextmanager
    def take(self, entry: RunEntry | None = None) -> Generator[None, None, None]:
        """Context manager: count a watcher of a run, or a connection that watches none yet.

        Raises:
            ApiError: The limit is reached.
        """
        if self.taken >= self._settings.max_watchers:
            message = "too many clients watch: close a page, or raise max_watchers"
            raise ApiError(429, "too_many_watchers", message)
        if entry is not None and entry.watching >= self._settings.max_watchers_per_run:
            message = "too many clients watch this run: close a page, or raise max_watchers_per_run"
            raise ApiError(429, "too_many_watchers", message)
        self.taken += 1
        if entry is not None:
            entry.watching += 1
        try:
            yield
        finally:
            self.taken -= 1
            if entry is not None:
                entry.watching -= 1
                entry.settle()
                self._store.changed(entry)

    @asynccontextmanager
    async def connected(
        self, request: WebRequest, entry: RunEntry, *, begins: bool = False
    ) -> AsyncGenerator[None, None]:
        """Context manager: a client of another protocol watches a run, which may end with its client.

        Args:
            request: The request of the client.
            entry: The run. Within the context it is open.
            begins: Whether the client has just begun the run, which belongs to it from now on, also before it is stored.

        Raises:
            ApiError: Too many clients watch.
            LogError: The run could not be stored.
        """
        with ExitStack() as stack:
            if begins and entry.here is not None:
                entry.clients = Clients(entry.here, self._settings.cancel_on_disconnect)
            if entry.clients is not None:
                resumes = self._store.is_resuming(entry.conversation)
                stack.enter_context(entry.clients.connected(request, resumes=resumes))
            if begins:
                await entry.accepted()
            await entry.open()
            stack.enter_context(self.take(entry))
            yield

    async def send(
        self,
        request: WebRequest,
        pieces: AsyncGenerator[bytes, None],
        headers: Mapping[str, str],
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
                await _send_pieces(response, pieces, self._settings.heartbeat / 2, task)
        except (Exception, asyncio.CancelledError) as error:
            if response is not None:
                response.abort()  # it has begun, so its status cannot change
            if isinstance(error, asyncio.CancelledError):
                raise
            if not isinstance(error, ConnectionError):  # the client has disconnected
                method, path = request.method, request.raw_path
                log_error(f"{method} {path} broke off", error, method=method, path=path)
        finally:
            self._sending.discard(task)

    @contextmanager
    def endless(self) -> Generator[None, None, None]:
        """Context manager: this task does not end when the runs do, and is cancelled when the server stops."""
        task = asyncio.current_task()
        assert task is not None
        self._endless.add(task)
        try:
            yield
        finally:
            self._endless.discard(task)

    async def close(self) -> None:
        """Let the streams send their last records, then cancel those that remain."""
        for task in tuple(self._endless):
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending, timeout=CLOSE_SECONDS)
        for task in tuple(self._sending):
            task.cancel()


async def _send_pieces(
    response: ResponseStream,
    pieces: AsyncGenerator[bytes, None],
    pause: float,
    sending: asyncio.Task[object],
) -> None:
    """Send all pieces, and a keep-alive comment when idle; cancel the task that is ``sending`` when the connection is closed."""
    loop = asyncio.get_running_loop()
    due = loop.time() + pause

    async def write(piece: bytes) -> None:
        nonlocal due
        due = inf  # one write at a time
        await response.write(piece)
        due = loop.time() + pause

    async def beat() -> None:
        while True:
            await asyncio.sleep(pause)
            if loop.time() >= due:
                try:
                    await write(PING_COMMENT)
                except ConnectionError:
                    sending.cancel()
                    return

    beating = loop.create_task(beat())
    try:
        async for piece in pieces:
            await write(piece)
    finally:
        beating.cancel()
    await response.end()
