"""A connection to NATS JetStream that survives the loss of a server.

Theory of operation. A `Connection` belongs to one event loop, and connects when it is first used. The package nats-py
connects again by itself. Here each request has one inbox for its answers, and is repeated until it is answered, at most
for ``patience`` seconds. A publish may be repeated, since it carries an id by which the server recognises one that it
has stored already: an acknowledgement that was lost is sent again, and nothing is stored twice.

Direct reads may be answered by any replica, which may be behind. So `read` queries the leader of the stream, after the
last message of a batch, for another one.

An event loop that closes cancels all tasks, those of nats-py among them, while the writer of a run still has its end to
store. So the connection has a task that notes this: it is then made again, for this last work, and closed with the
asynchronous generators of the loop.

No error, log message or ``repr`` contains the part of an address in front of the ``@``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct

from rxworker.errors import LogError
from rxworker.log.nats.format import Address

try:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.errors import Error as NatsError
except ImportError as error:
    raise ImportError(
        f"NatsLog needs the package nats-py ({error}): pip install '/path/to/the/checkout[nats]'", name="nats"
    ) from error

T = TypeVar("T")
Headers: TypeAlias = dict[str, str]

logger = logging.getLogger("rxworker.log")

OLDEST = (2, 12)
"""The oldest server."""
PATIENCE = 30.0
"""Seconds for which a server that is away raises nothing."""
FIRST = 5.0
"""Seconds for the first connection."""
ATTEMPT = 2.0
"""Seconds for the answer to one request."""
BATCH = 500
"""Messages of one read."""
BATCH_BYTES = 4 << 20
CONNECTING: dict[str, object] = {
    "connect_timeout": 2,
    "reconnect_time_wait": 0.1,
    "max_reconnect_attempts": -1,
    # A network that is cut without a word is noticed after nine seconds.
    "ping_interval": 3,
    "max_outstanding_pings": 2,
}

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_OF = "Nats-Expected-Last-Subject-Sequence-Subject"
MSG_ID = "Nats-Msg-Id"

NOT_FOUND = 404
WRONG_SEQUENCE = frozenset((10071, 10164))
IN_PROCESS = 10158
NO_PEERS = 10005
"""A cluster has too few servers for the replicas, for example while it starts."""
STORED_BEFORE = 10201
TAKEN = 10058
"""There is a stream of this name with other settings."""


class Stored(Struct, frozen=True):
    """A message of a stream."""

    subject: str
    seq: int
    time: float
    data: bytes


class _Error(Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Found(Struct, frozen=True):
    subject: str
    seq: int
    time: datetime
    data: bytes = b""


class _Answer(Struct, frozen=True):
    seq: int = 0
    error: _Error | None = None
    message: _Found | None = None


class ApiError(Exception):
    """JetStream has refused a request."""

    def __init__(self, error: _Error) -> None:
        super().__init__(f"{error.description} ({error.err_code})")
        self.code = error.code
        self.err_code = error.err_code


class SequenceError(Exception):
    """A publish was refused, since its subject, or that of its fence, has another last message."""


class AwayError(Exception):
    """Nothing has answered."""


_decode_answer = msgspec.json.Decoder(_Answer).decode
_encode = msgspec.json.Encoder().encode


@dataclass(eq=False, repr=False)
class Connection:
    """A connection of one event loop. Created on it.

    Attributes:
        address: The address of the log.
        options: More arguments of ``nats.connect``, for example ``user_credentials`` or ``tls``.
        label: The name of the connection in the server's monitoring.
        patience: Seconds for which a server that is away raises nothing.
        on_return: Called when it has connected again.
        loop: The event loop.
        generation: Grows when subscriptions have to be made again.
        returns: How often it has connected.
    """

    address: Address
    options: Mapping[str, object]
    _: KW_ONLY
    label: str
    patience: float = PATIENCE
    on_return: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._client: Client | None = None
        self._was_connected = False
        self._error: Exception | None = None
        self._connecting: asyncio.Task[Client] | None = None
        self._up = asyncio.Event()
        self._inbox = ""
        self._number = 0
        self._waiting: dict[str, tuple[asyncio.Future[Msg], list[Stored] | None]] = {}
        self._is_closed = False
        self._lifetime: asyncio.Task[None] | None = None
        self._closing: AsyncGenerator[None] | None = None
        self.generation = self.returns = 0

    @property
    def part_size(self) -> int:
        """How many bytes a message may have, without its headers."""
        return max(1024, (self._client.max_payload if self._client else 1 << 20) - 2048)

    # Connecting

    async def _ready(self) -> Client:
        client = self._client
        if client is not None and client.is_connected:
            return client
        if self._lifetime is None:
            self._lifetime = self.loop.create_task(self._live())
        if self._is_closed:
            raise AwayError("the log is closed")
        if client is None or client.is_closed:
            if self._connecting is None or self._connecting.done():
                self._connecting = self.loop.create_task(self._connect())
            client = await asyncio.shield(self._connecting)
        if not client.is_connected:
            async with asyncio.timeout(min(ATTEMPT, self.patience)):
                await self._up.wait()
        return client

    async def _live(self) -> None:
        """Wait until the event loop closes, or the log. Then nothing of this client is answered any more."""
        try:
            await self.loop.create_future()
        finally:
            if not self._is_closed:
                self._client, self.patience = None, min(self.patience, ATTEMPT)
                self._closing = self._close_with_loop()
                await anext(self._closing)
                self._lose("the event loop closes")

    async def _close_with_loop(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.close()

    def _lose(self, why: str) -> None:
        """Fail the requests that wait for an answer."""
        self._up.clear()
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(AwayError(why))

    async def _connect(self) -> Client:
        client = Client()
        refused: asyncio.Future[Exception] = self.loop.create_future()

        async def failed(error: Exception) -> None:
            self._error, kind = error, type(error).__name__
            logger.debug("NATS at %r: %s", self.address, kind, extra={"error": kind})
            if _is_about_credentials(error) and not refused.done():
                refused.set_result(error)

        async def lost() -> None:
            if self._client in (None, client):
                self._lose("the connection was lost")

        async def returned() -> None:
            self.returns += 1
            self._up.set()
            if self.on_return is not None:
                self.on_return()

        # It is typed in part.
        connect = cast("Callable[..., Coroutine[object, object, None]]", client.connect)
        connecting = self.loop.create_task(
            connect(
                self.address.servers,
                error_cb=failed,
                disconnected_cb=lost,
                closed_cb=lost,
                reconnected_cb=returned,
                name=self.label,
                **{**CONNECTING, **self.options},
            )
        )
        try:
            waiting: list[asyncio.Future[Any]] = [connecting, refused]
            await asyncio.wait(waiting, timeout=min(FIRST, self.patience), return_when=asyncio.FIRST_COMPLETED)
            if refused.done():
                raise self._unreachable(refused.result())
            if not connecting.done() or connecting.exception() is not None:
                raise self._unreachable(connecting.exception() if connecting.done() else None)
            self._check_version(client)
            self._inbox = client.new_inbox()
            await _subscribe(client, f"{self._inbox}.*", self._answered)
        except BaseException:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
            with contextlib.suppress(Exception):
                await client.close()
            raise
        self._client = client
        self.generation += 1
        self.returns += 1
        self._up.set()
        if self._was_connected and self.on_return is not None:
            self.on_return()
        self._was_connected = True
        return client

    def _check_version(self, client: Client) -> None:
        version = client.connected_server_version
        if (version.major, version.minor) < OLDEST:
            raise LogError(
                f"NATS at {self.address!r} is version {version.major}.{version.minor}.{version.patch}, and a log "
                f"needs nats-server {OLDEST[0]}.{OLDEST[1]} or later: earlier ones cannot refuse the appends of an "
                "owner that was taken over"
            )

    def _unreachable(self, error: BaseException | None) -> Exception:
        error = error or self._error
        if error is not None and _is_about_credentials(error):
            return LogError(
                f"NATS at {self.address!r} refuses these credentials: check the user and the password, or the token, "
                "of the address"
            )
        if self._was_connected:
            return AwayError("it cannot be reached")
        why = "" if error is None else f" ({type(error).__name__})"
        return LogError(
            f"NATS at {self.address!r} cannot be reached{why}: start nats-server with -js, or check the address and "
            "the credentials"
        )

    async def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        if self._lifetime is not None:
            self._lifetime.cancel()
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(NatsError, OSError, asyncio.TimeoutError):
                await client.close()

    # Requests

    async def _answered(self, message: Msg) -> None:
        waiting = self._waiting.get(message.subject[len(self._inbox) + 1 :])
        if waiting is None:
            return
        future, batch = waiting
        headers: dict[str, str] | None = message.headers
        if batch is not None and headers is not None and "Status" not in headers:
            batch.append(
                Stored(
                    headers["Nats-Subject"],
                    int(headers["Nats-Sequence"]),
                    datetime.fromisoformat(headers["Nats-Time-Stamp"]).timestamp(),
                    message.data,
                )
            )
        elif not future.done():
            future.set_result(message)

    async def _request(
        self, subject: str, data: bytes, headers: Headers | None = None, batch: list[Stored] | None = None
    ) -> Msg:
        client = await self._ready()
        self._number += 1
        token = str(self._number)
        future: asyncio.Future[Msg] = self.loop.create_future()
        self._waiting[token] = future, batch
        try:
            await client.publish(subject, data, f"{self._inbox}.{token}", headers)
            async with asyncio.timeout(ATTEMPT):
                answer = await future
        except TimeoutError:
            raise AwayError("there was no answer") from None
        finally:
            del self._waiting[token]
        if answer.headers is not None and answer.headers.get("Status") == "503":
            raise AwayError("no stream answers, or JetStream is off")
        return answer

    async def persist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what gives the same result when it is done twice, until it is answered.

        Raises:
            LogError: Nothing has answered for ``patience`` seconds.
        """
        until = self.loop.time() + self.patience
        pause = 0.01
        while True:
            try:
                return await work()
            except (AwayError, NatsError, OSError, TimeoutError) as error:
                if self._is_closed or self.loop.time() + pause > until:
                    why = str(error) if isinstance(error, AwayError) else type(error).__name__
                    raise LogError(
                        f"NATS at {self.address!r} has not answered for {self.patience:g} s ({why}): start its "
                        "servers, a majority of them in a cluster, with JetStream, and recover the runs that ended",
                        retryable=True,
                    ) from None
            except ApiError as error:
                raise LogError(f"NATS at {self.address!r} refuses: {error}") from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.5)

    async def call(self, subject: str, body: object = None) -> bytes:
        """The answer of the API of JetStream.

        Raises:
            ApiError: It has refused.
            AwayError: It cannot answer now.
        """
        answer = await self._request(f"$JS.API.{subject}", b"" if body is None else _encode(body))
        error = _decode_answer(answer.data).error
        if error is not None:
            raise _raised(error)
        return answer.data

    async def request(self, subject: str, body: object = None, *, unless: int | None = None) -> bytes | None:
        """The answer of the API of JetStream, requested until it comes.

        ``None`` if it refuses with the code ``unless``.

        Raises:
            LogError: It has refused with another code, or nothing has answered.
        """

        async def work() -> bytes | None:
            try:
                return await self.call(subject, body)
            except ApiError as error:
                if unless not in (error.code, error.err_code):
                    raise
                return None

        return await self.persist(work)

    async def arrival(self, waiting: Awaitable[object], what: str) -> None:
        """Wait for what the servers send by themselves.

        Raises:
            LogError: It has not come for ``patience`` seconds.
        """
        try:
            async with asyncio.timeout(self.patience):
                await waiting
        except TimeoutError:
            raise LogError(
                f"{what} has not arrived for {self.patience:g} s: start the servers of NATS, a majority of them in a "
                "cluster",
                retryable=True,
            ) from None

    # Streams

    async def publish(
        self,
        subject: str,
        data: bytes | Sequence[bytes],
        headers: Headers,
        message_id: str,
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> int:
        """Store a message, or one in several parts, all or none of which are stored.

        Args:
            subject: Its subject.
            data: The message, or its parts.
            headers: The headers with its expectations.
            message_id: By which the server recognises it.
            check: Awaited before each attempt.

        Returns:
            Its sequence number, that of the last part; 0 if it has several parts and its acknowledgement was lost.

        Raises:
            SequenceError: It was refused, by what the headers expect.
            LogError: It was refused for another reason, or nothing has answered.
        """
        headers = {**headers, MSG_ID: message_id}

        async def work() -> int:
            if check is not None:
                await self._ready()  # otherwise it would check the connection before this one
                await check()
            if isinstance(data, bytes):
                return await self._publish(subject, data, headers)
            return await self._publish_parts(subject, data, headers)

        return await self.persist(work)

    async def _publish(self, subject: str, data: bytes, headers: Headers) -> int:
        ack = _decode_answer((await self._request(subject, data, headers)).data)
        if ack.error is None:
            return ack.seq
        if ack.error.err_code in WRONG_SEQUENCE:
            raise SequenceError
        raise _raised(ack.error)

    async def _publish_parts(self, subject: str, parts: Sequence[bytes], headers: Headers) -> int:
        client = await self._ready()
        batch = uuid.uuid4().hex
        for number, part in enumerate(parts, 1):
            in_batch = {
                **(headers if number == 1 else {}),  # what they expect holds for all
                MSG_ID: f"{headers[MSG_ID]}.{number}",
                "Nats-Batch-Id": batch,
                "Nats-Batch-Sequence": str(number),
            }
            if number < len(parts):
                await client.publish(subject, part, headers=in_batch)
                continue
            try:
                return await self._publish(subject, part, {**in_batch, "Nats-Batch-Commit": "1"})
            except ApiError as error:
                if error.err_code != STORED_BEFORE:
                    raise
        return 0

    async def last(self, stream: str, subject: str) -> Stored | None:
        """The last message of a subject, which may have wildcards, as the leader of the stream knows it."""
        return await self.persist(lambda: self._get(stream, {"last_by_subj": subject}))

    async def next(self, stream: str, subject: str, seq: int) -> Stored | None:
        """The first message of a subject from a sequence number on, as the leader of the stream knows it."""
        return await self.persist(lambda: self._get(stream, {"seq": seq, "next_by_subj": subject}))

    async def _get(self, stream: str, query: Mapping[str, object]) -> Stored | None:
        try:
            answer = _decode_answer(await self.call(f"STREAM.MSG.GET.{stream}", query))
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise
        found = answer.message
        if found is None:
            raise AwayError("an answer is empty")
        return Stored(found.subject, found.seq, found.time.timestamp(), found.data)

    async def read(self, stream: str, subject: str, seq: int) -> list[Stored]:
        """The next messages of a subject from a sequence number on; none if there is none."""
        query = {"seq": seq, "next_by_subj": subject, "batch": BATCH, "max_bytes": BATCH_BYTES}
        found, pending = await self.direct(stream, query)
        if not pending:
            one = await self.next(stream, subject, found[-1].seq + 1 if found else seq)
            if one is not None:
                found.append(one)
        return found

    async def direct(self, stream: str, query: Mapping[str, object]) -> tuple[list[Stored], int]:
        """Messages as any replica knows them, and how many more match."""

        async def work() -> tuple[list[Stored], int]:
            batch: list[Stored] = []
            end = await self._request(f"$JS.API.DIRECT.GET.{stream}", _encode(query), batch=batch)
            return batch, int((end.headers or {}).get("Nats-Num-Pending", 0))

        return await self.persist(work)

    # Messages that are not stored

    def inbox(self) -> str:
        """A subject that no other process uses."""
        prefix = self._inbox.rpartition(".")[0] or "_INBOX"
        return f"{prefix}.{uuid.uuid4().hex}"

    async def subscribe(self, subject: str, receive: Callable[[Msg], Awaitable[None]], queue: str = "") -> Subscription:
        """Receive the messages of a subject; of those that name a queue, one receives each."""
        return await _subscribe(await self._ready(), subject, receive, queue)

    async def emit(self, subject: str, data: bytes = b"") -> None:
        """Send a message that may be lost."""
        client = self._client
        if client is not None and client.is_connected:
            with contextlib.suppress(NatsError, OSError):
                await client.publish(subject, data)


def _is_about_credentials(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, NatsError) and ("authorization" in text or "authentication" in text)


async def _subscribe(
    client: Client, subject: str, receive: Callable[[Msg], Awaitable[None]], queue: str = ""
) -> Subscription:
    subscribe = cast("Callable[..., Awaitable[Subscription]]", client.subscribe)  # pyright: ignore[reportUnknownMemberType] - untyped in nats-py
    return await subscribe(subject, queue, cb=receive)


def _raised(error: _Error) -> Exception:
    """The exception for an error: `AwayError` if the error is temporary."""
    if error.code == 503 or error.err_code in (IN_PROCESS, NO_PEERS):
        return AwayError(error.description)
    return ApiError(error)
