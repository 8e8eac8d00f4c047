"""Streaming to clients: watches of runs, limits on watchers, and streamed responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from math import inf

from msgspec import Struct
from reactivex import abc

from rxworker.errors import LogError
from rxworker.events import Record
from rxworker.hub import Coalesce, Delivery, DropOldest, Hub, Latest, Reliable, Watch
from rxworker.hub.hub import Reader
from rxworker.log import Replica
from rxworker.protocols import PING_COMMENT, SSE_HEADERS, retry_frame
from rxworker.protocols.socket import DeliveryName
from rxworker.run.run import Run
from rxworker.ui.web.http.request import Outlet, ResponseStream, WebRequest
from rxworker.ui.web.http.responses import ApiError, log_error
from rxworker.ui.web.http.settings import Settings
from rxworker.ui.web.runs.entry import Clients, RunEntry
from rxworker.ui.web.runs.store import RunStore

DELIVERIES: dict[DeliveryName, Delivery] = {
    # A client that is too far behind is detached and may reconnect: no client delays a run.
    "reliable": Reliable(when_full="detach"),
    "latest": Latest(),
    "drop_oldest": DropOldest(),
}


class Followed(Struct, frozen=True):
    """What a client follows, and how it is delivered and encoded for the client.

    Attributes:
        source: A run; or the items of a published stream, or of a board.
        encode: Encodes records.
        delivery: The delivery.
        name: The name of the watcher.
    """

    source: Run[object] | Replica | Hub
    encode: Callable[[Sequence[Record]], bytes]
    delivery: Delivery
    name: str

    def watch(self, after: int) -> Watch:
        """Watch it after a number.

        Raises:
            ApiError: It has no such record yet.
        """
        if after > self.source.last_seq:
            message = f"the last record is {self.source.last_seq}, so no client can have received {after}"
            raise ApiError(400, "bad_cursor", message)
        return self.source.watch(self.delivery, after=after, name=self.name)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and its last record is here."""
        source = self.source
        if isinstance(source, Hub):
            return source.ended
        # What follows a log ends also when that fails or is closed.
        return source.done() and (isinstance(source, Run) or source.state.status not in ("new", "running"))


def delivery_of(name: DeliveryName, rate: float | None) -> Delivery:
    """A delivery by its name. By default deltas are merged and arrive at most so many times a second."""
    return DELIVERIES.get(name) or Coalesce(every=None if rate is None else 1 / rate)


def watch_run(entry: RunEntry, name: str, delivery: DeliveryName = "coalesce") -> Watch:
    """Watch a run as it is shown now, from its first record."""
    return entry.run.watch(delivery_of(delivery, entry.settings.writes_per_second), name=name)


def follow_run(
    entry: RunEntry, encode: Callable[[Sequence[Record]], bytes], name: str, delivery: DeliveryName = "coalesce"
) -> Followed:
    """A run for a client: its records are those that the client began with, also when the run is dropped."""
    return Followed(entry.run, encode, delivery_of(delivery, entry.settings.writes_per_second), name)


async def send_records(outlet: Outlet, followed: Followed, after: int) -> None:
    """Send what follows a number, until its end.

    A client that keeps up is pushed to: what is new is written to all of them one after the other, without a task for
    each. One that is behind reads at its own pace until it has caught up.

    Args:
        outlet: The connection to the client.
        followed: A run or a published stream.
        after: The number of the last record that the client has.

    Raises:
        ConnectionError: The client has disconnected, or reads nothing.
        RxWorkerError: The watcher was detached, or the log has failed, while the run continues.
    """
    reader = followed.watch(after).reader()
    try:
        while True:
            if outlet.writes_now and reader.seen >= followed.source.last_seq:
                viewer = Viewer(outlet, followed, reader.seen)
                with viewer.pushed_to():
                    reader.dispose()
                    reader = await viewer.reader
            try:
                batch = await reader.next()
            except Exception:
                # The last record contains the error that ended the run.
                if not followed.is_over:
                    raise
                return
            if batch is None:
                if not followed.is_over:
                    raise LogError("the records stopped before the run had ended: connect again")
                return
            for at in range(0, len(batch), AT_ONCE):
                if at:
                    await asyncio.sleep(0)  # a long run, opened: the other clients have their turn
                data = followed.encode(batch[at : at + AT_ONCE])
                if not outlet.write_now(data):
                    await outlet.write(data)
    finally:
        reader.dispose()


AT_ONCE = 512
"""How many records are encoded in one piece: some milliseconds."""


RETRY = 1000
"""Milliseconds after which a client reconnects."""

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
    def take(self, entry: RunEntry | None = None, *, is_endless: bool = False) -> Generator[None, None, None]:
        """Context manager: count a watcher of a run, or a connection that watches none yet.

        Args:
            entry: The run.
            is_endless: Whether this task does not end when the runs do: it is cancelled when the server stops.

        Raises:
            ApiError: The limit is reached.
        """
        if self.taken >= self._settings.max_watchers:
            raise ApiError(429, "too_many_watchers", "too many clients watch: close a page, or raise max_watchers")
        if entry is not None and entry.watching >= self._settings.max_watchers_per_run:
            message = "too many clients watch this run: close a page, or raise max_watchers_per_run"
            raise ApiError(429, "too_many_watchers", message)
        task = asyncio.current_task()
        self.taken += 1
        if entry is not None:
            entry.watching += 1
        if is_endless and task is not None:
            self._endless.add(task)
        try:
            yield
        finally:
            self.taken -= 1
            self._endless.discard(task)
            if entry is not None:
                entry.watching -= 1
                entry.settle()
                entry.changed()

    @asynccontextmanager
    async def connected(
        self, request: WebRequest, entry: RunEntry, *, begins: bool = False
    ) -> AsyncGenerator[None, None]:
        """Context manager: a client of another protocol watches a run, which may end with its client.

        Args:
            request: The request of the client.
            entry: The run. Within the context it is open.
            begins: Whether the client has just begun the run, which belongs to it from now on, also before it is
                stored.

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
        redact: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """Send the pieces as they arrive, with a keep-alive comment when idle.

        A client that reads nothing for too long is disconnected. The generator is always closed afterwards.

        Args:
            request: The request.
            pieces: Server-sent events, each complete.
            headers: The headers of the response.
            redact: Removes secrets from a piece.
        """

        async def write(writer: Writer) -> None:
            async for piece in pieces:
                await writer.write(redact(piece))

        async with aclosing(pieces):
            await self._respond(request, headers, write)

    async def follow(
        self,
        request: WebRequest,
        followed: Followed,
        after: int,
        end: Callable[[], bytes],
        first: Callable[[], bytes] = bytes,
    ) -> None:
        """Send what follows a number as server-sent events, until its end.

        Args:
            request: The request.
            followed: A run, a published stream, or a board.
            after: The number of the last record that the client has.
            end: Returns the last event.
            first: Returns the first event.

        Raises:
            ApiError: It has no such record yet.
        """
        followed.watch(after)

        async def write(writer: Writer) -> None:
            await writer.write(retry_frame(RETRY) + first())
            await send_records(writer, followed, after)
            await writer.write(end())

        await self._respond(request, SSE_HEADERS, write)

    async def _respond(
        self, request: WebRequest, headers: Mapping[str, str], write: Callable[[Writer], Awaitable[None]]
    ) -> None:
        """Send the response to a request, complete if nothing is raised by what writes it."""
        task = asyncio.current_task()
        assert task is not None
        self._sending.add(task)
        response: ResponseStream | None = None
        try:
            response = await request.stream(headers)
            async with Writer(response, self._settings.heartbeat / 2, task) as writer:
                await write(writer)
        except (Exception, asyncio.CancelledError) as error:
            if response is not None:
                response.abort()  # it has begun, so its status cannot change
            if isinstance(error, ConnectionError):
                return  # the client has disconnected, perhaps before the response began
            if response is None or isinstance(error, asyncio.CancelledError):
                raise
            method, path = request.method, request.raw_path
            log_error(f"{method} {path} broke off", error, method=method, path=path)
        finally:
            self._sending.discard(task)

    async def close(self) -> None:
        """Let the streams send their last records, then cancel those that remain."""
        for task in tuple(self._endless):
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending, timeout=CLOSE_SECONDS)
        for task in tuple(self._sending):
            task.cancel()


class Writer(Outlet):
    """Writes the pieces of a response, and a keep-alive comment when idle.

    Args:
        response: The response.
        pause: Seconds between two looks whether it is idle.
        sending: Its task, which is cancelled when the connection is closed.
    """

    def __init__(self, response: ResponseStream, pause: float, sending: asyncio.Task[object]) -> None:
        self.writes_now = response.writes_now
        self._response = response
        self._pause = pause
        self._sending = sending
        self._time = asyncio.get_running_loop().time
        self._due = self._time() + pause

    async def __aenter__(self) -> Writer:
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._beating.cancel()
        if kind is None:
            await self._response.end()

    async def write(self, piece: bytes, /) -> None:
        """Write a piece, as soon as the client has read enough.

        Raises:
            ConnectionError: The client has disconnected, or reads nothing.
        """
        self._due = inf  # one write at a time
        await self._response.write(piece)
        self._due = self._time() + self._pause

    def write_now(self, piece: bytes, /) -> bool:
        """Write a piece unless the client is behind. ``False`` if nothing was written."""
        if self._due == inf or not self._response.write_now(piece):
            return False
        self._due = self._time() + self._pause
        return True

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            if self._time() >= self._due:
                try:
                    await self.write(PING_COMMENT)
                except ConnectionError:
                    self._sending.cancel()
                    return


class Viewer(abc.ObserverBase[Record]):
    """A client that keeps up: it is pushed to, until it is behind or the records end.

    Args:
        outlet: The connection to the client.
        followed: What it watches.
        after: The number of the last record that it has.

    Attributes:
        reader: The reader that goes on, when it is pushed to no longer. It is attached at once, so that nothing is
            dropped before it reads.
    """

    __slots__ = ("_after", "_encode", "_followed", "_outlet", "reader")

    def __init__(self, outlet: Outlet, followed: Followed, after: int) -> None:
        self._outlet = outlet
        self._followed = followed
        self._encode = followed.encode
        self._after = after
        self.reader: asyncio.Future[Reader] = asyncio.get_running_loop().create_future()

    @contextmanager
    def pushed_to(self) -> Generator[None, None, None]:
        """Context manager: it is pushed to within the context."""
        pushing = self._followed.watch(self._after).subscribe(self)
        try:
            yield
        except BaseException:
            if self.reader.done() and not self.reader.cancelled() and not self.reader.exception():
                self.reader.result().dispose()
            raise
        finally:
            pushing.dispose()

    def on_next(self, value: Record) -> None:
        """Write a record."""
        self.on_batch((value,))

    def on_batch(self, records: Sequence[Record]) -> None:
        """Write the records of one turn."""
        if self.reader.done():
            return
        if self._outlet.write_now(self._encode(records)):
            self._after = records[-1].seq
        else:
            self.on_completed()

    def on_error(self, error: Exception) -> None:
        """Stop. The reader raises the error, or ends."""
        del error
        self.on_completed()

    def on_completed(self) -> None:
        """Stop."""
        if self.reader.done():
            return
        try:
            reader = self._followed.watch(self._after).reader()
        except Exception as error:  # what waits for the reader must be woken
            self.reader.set_exception(error)
        else:
            reader.seen = self._after  # it is not late: what it has not received is still held
            self.reader.set_result(reader)
