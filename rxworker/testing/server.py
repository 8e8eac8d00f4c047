"""A server that answers from a script, over real HTTP: replies, recordings and refusals, with faults.

It runs on the event loop that enters it, or, entered without ``async``, on a loop in a thread of its own. A response is
a value (`ServedResponse`): its body, the faults with which it is sent, and the pieces that are written.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Literal, Self, TypeAlias, TypedDict, Unpack

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from msgspec import Struct, field
from msgspec.structs import replace

from rxworker.errors import LocalProtocolError
from rxworker.messages import Json, JsonObject
from rxworker.providers.base import HIDDEN, is_secret
from rxworker.testing.reply import Reply, to_reply
from rxworker.testing.scripted import Answers, Script
from rxworker.testing.wire import WIRES, Wire, wire_for
from rxworker.transport.clock import LoopThread
from rxworker.transport.listening import stop_listening

CONTENT_TYPES = {
    ".sse": "text/event-stream; charset=utf-8",
    ".ndjson": "application/x-ndjson",
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
}
GARBAGE = b"\xff\xfe\x00{]: neither text nor JSON \xc3\x28\r\n\r\n"
"""Bytes that are neither text nor JSON."""
PAGE = "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>"


class Faults(TypedDict, total=False):
    """The faults while an answer is sent; see the attributes of `ServedResponse`."""

    delay: float
    pace: float
    chunk: int
    cut_after: int
    cut_at: int
    stall_after: int
    stall_at: int
    garbage_after: int
    drop: bool


class ServedResponse(Struct, frozen=True):
    """One answer of a `ReplayServer`. A frame is a server-sent event, or a line of NDJSON.

    Attributes:
        body: The frames; or a reply, which is rendered in the format that the request's path speaks.
        status: The HTTP status.
        headers: Headers, over those that belong to the body.
        delay: Seconds before the status line.
        pace: Seconds before each piece that is written.
        chunk: How many bytes a written piece has, whatever the frames are; ``None``: a frame a piece.
        cut_after: After this many frames the connection is closed, in the middle of the HTTP body.
        cut_at: The same, counted in bytes.
        stall_after: After this many frames nothing more comes, and the connection stays open.
        stall_at: The same, counted in bytes.
        garbage_after: After this many frames comes one that is neither text nor JSON; then the rest.
        drop: Whether the connection is closed before any byte, as a reused one may be.
    """

    body: tuple[bytes, ...] | Reply
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay: float = 0.0
    pace: float = 0.0
    chunk: int | None = None
    cut_after: int | None = None
    cut_at: int | None = None
    stall_after: int | None = None
    stall_at: int | None = None
    garbage_after: int | None = None
    drop: bool = False

    @classmethod
    def from_reply(cls, reply: Reply | str, **faults: Unpack[Faults]) -> ServedResponse:
        """A reply, in the format that the request's path speaks."""
        return cls(to_reply(reply), **faults)

    @classmethod
    def from_recording(cls, path: str | Path, *, status: int = 200, **faults: Unpack[Faults]) -> ServedResponse:
        """The bytes of a file, exactly; its ending (``.sse``, ``.ndjson``, ``.json``) names the format."""
        file = Path(path)
        kind = CONTENT_TYPES.get(file.suffix, "application/octet-stream")
        frames = split_frames(file.read_bytes(), lines=file.suffix == ".ndjson")
        return cls(frames, status, {"content-type": kind}, **faults)

    @classmethod
    def from_frames(
        cls, frames: Iterable[bytes], content_type: str = CONTENT_TYPES[".sse"], **faults: Unpack[Faults]
    ) -> ServedResponse:
        """Frames written by hand."""
        return cls(tuple(frames), headers={"content-type": content_type}, **faults)

    @classmethod
    def from_json(cls, body: Json, *, status: int = 200, **faults: Unpack[Faults]) -> ServedResponse:
        """JSON instead of a stream: an error, or what a proxy makes of one with status 200."""
        return cls.from_status(status, body=msgspec.json.encode(body), **faults)

    @classmethod
    def from_html(cls, page: str = PAGE, *, status: int = 502, **faults: Unpack[Faults]) -> ServedResponse:
        """A page of HTML, as gateways send it."""
        return cls((page.encode(),), status, {"content-type": CONTENT_TYPES[".html"]}, **faults)

    @classmethod
    def from_status(
        cls,
        status: int,
        *,
        headers: Mapping[str, str] | None = None,
        body: Json | bytes = None,
        **faults: Unpack[Faults],
    ) -> ServedResponse:
        """A refusal.

        Args:
            status: The HTTP status.
            headers: For example ``{"retry-after": "1"}``.
            body: JSON, or the bytes of something else; ``None``: empty.
            **faults: Faults during the transmission.

        >>> ServedResponse.from_status(429, headers={"retry-after": "1"}, body={"error": "slow down"}).body
        (b'{"error":"slow down"}',)
        """
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        return cls((data,), status, {"content-type": CONTENT_TYPES[".json"], **(headers or {})}, **faults)

    @classmethod
    def garbage(cls, data: bytes = GARBAGE, **faults: Unpack[Faults]) -> ServedResponse:
        """Bytes that are not a stream, with the content type of one."""
        return cls.from_frames([data], **faults)

    @classmethod
    def dropped(cls) -> ServedResponse:
        """No answer: the connection is closed before any byte."""
        return cls((), drop=True)


def split_frames(data: bytes, *, lines: bool = False) -> tuple[bytes, ...]:
    r"""The frames of a recorded body, which joined are the body again.

    >>> split_frames(b"data: 1\n\ndata: 2\r\n\r\nrest")
    (b'data: 1\n\n', b'data: 2\r\n\r\n', b'rest')
    """
    ends = re.compile(rb"\n" if lines else rb"\r\n\r\n|\n\n|\r\r")
    cuts = [0, *(end.end() for end in ends.finditer(data)), len(data)]
    return tuple(data[a:b] for a, b in pairwise(cuts) if a < b)


Ending: TypeAlias = Literal["end", "cut", "stall"]


def pieces(answer: ServedResponse, frames: Iterable[bytes]) -> list[bytes]:
    """The pieces of these frames that are written.

    >>> pieces(ServedResponse((), chunk=2, cut_at=5), [b"abcd", b"efgh"])
    [b'ab', b'cd', b'e']
    """
    sent = list(frames)
    if answer.garbage_after is not None:
        sent.insert(answer.garbage_after, GARBAGE)
    for limit in (answer.cut_after, answer.stall_after):
        sent = sent[:limit]
    for limit in (answer.cut_at, answer.stall_at):
        sent = sent if limit is None else _first_bytes(sent, limit)
    if answer.chunk is None:
        return sent
    whole = b"".join(sent)
    return [whole[at : at + answer.chunk] for at in range(0, len(whole), answer.chunk)]


def ending(answer: ServedResponse) -> Ending:
    """The ending after the last piece: the end of the body, a closed connection, or silence.

    >>> ending(ServedResponse((), stall_after=1))
    'stall'
    """
    if answer.cut_after is not None or answer.cut_at is not None:
        return "cut"
    silent = isinstance(answer.body, Reply) and answer.body.stalls
    if silent or answer.stall_after is not None or answer.stall_at is not None:
        return "stall"
    return "end"


def _first_bytes(frames: list[bytes], limit: int) -> list[bytes]:
    """As many bytes of the frames, still in frames."""
    starts = accumulate(map(len, frames), initial=0)
    return [frame[: limit - start] for frame, start in zip(frames, starts, strict=False) if start < limit]


async def play(answer: ServedResponse, frames: Sequence[bytes], request: web.BaseRequest) -> web.StreamResponse | None:
    """Send the response to a request.

    Args:
        answer: The response and its faults.
        frames: The body of the response.
        request: The request.

    Returns:
        The complete answer; ``None``: the connection was closed on purpose.
    """
    await asyncio.sleep(answer.delay)
    if answer.drop:
        return None
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    await response.prepare(request)
    for piece in pieces(answer, frames):
        await asyncio.sleep(answer.pace)
        await response.write(piece)
    match ending(answer):
        case "cut":
            return None
        case "stall":
            await asyncio.Event().wait()  # until the client goes away, which cancels it
        case "end":
            await response.write_eof()
    return response


AnswerLike: TypeAlias = ServedResponse | Reply | str | Path

HOST = "127.0.0.1"
# A client that obeys this header shows the server's error at once, and does not try again.
FINAL = {"x-should-retry": "false"}
# Where a response in the background is taken up again.
RESUMED = re.compile(r"/(responses|interactions)/[^/]+$")


class Received(Struct, frozen=True):
    """One request that came in.

    Attributes:
        method: The HTTP method.
        path: The path, including the query.
        headers: Names in lower case; keys are masked.
        body: The parsed JSON, or the text where it is not JSON.
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


class Connections(web.Server):
    """aiohttp's connections, counted; a handler whose client goes away is cancelled."""

    def __init__(self, server: ReplayServer) -> None:
        super().__init__(server.handle, handler_cancellation=True, access_log=None)
        self._count = server.count

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """A client came."""
        super().connection_made(handler, transport)
        self._count(connections=1)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """A client is gone."""
        super().connection_lost(handler, exc)
        self._count(connections=-1)


def to_answer(answer: AnswerLike) -> ServedResponse:
    """The answer for its short form.

    >>> to_answer("Hello").body.text
    'Hello'
    """
    if isinstance(answer, ServedResponse):
        return answer
    if isinstance(answer, Path):
        return ServedResponse.from_recording(answer)
    return ServedResponse(to_reply(answer))


def _complaint(wire: Wire | None, status: int, message: str) -> tuple[ServedResponse, list[bytes]]:
    body: JsonObject = wire.error_body(message) if wire else {"error": {"message": message}}
    answer = ServedResponse.from_status(status, headers=FINAL, body=body)
    assert not isinstance(answer.body, Reply)
    return answer, list(answer.body)


PATIENCE = 5.0


class ReplayServer:
    r"""Answers one request after the other, on a free port of this machine.

    The end of a path selects the protocol, and a `Reply` is rendered accordingly: ``/messages``, ``/chat/completions``,
    ``/responses``, ``:streamGenerateContent``, ``/interactions``, ``/converse-stream`` or ``/api/chat``. What is not a
    reply is sent at any path. Only ``POST`` takes an answer, and the ``GET`` that takes up a response in the background
    (``/responses/<id>``, ``/interactions/<id>``).

    Args:
        answers: One answer for each request, or a function of what was received. A path is a recording, a text is a
            reply with that text.

    Attributes:
        requests: The received requests, in order.
        open_connections: How many connections are open, in use or kept for the next request.
        disconnects: How many clients went away before their answer was complete.

    >>> import urllib.request
    >>> with ReplayServer(["Hello"]) as server:
    ...     with urllib.request.urlopen(server.base_url + "/v1/messages", data=b"{}") as answer:
    ...         first = answer.readline()
    >>> first
    b'event: message_start\n'
    """

    def __init__(self, answers: Answers[AnswerLike, Received]) -> None:
        self._script = Script[Received, AnswerLike](answers)
        self.requests: list[Received] = []
        self.open_connections = 0
        self.disconnects = 0
        self._answering = 0
        self._closing = False
        self._changed = asyncio.Event()
        self._started: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._thread: LoopThread | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._connections = Connections(self)
        self._server = await loop.create_server(self._connections, HOST, 0)
        self._started = loop, int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing = True
        try:
            await stop_listening(self._server)
        finally:
            for connection in self._connections.connections:
                if connection.transport is not None:
                    connection.transport.abort()
        await self._until(self._is_quiet, "the server to stop", PATIENCE)
        await self._server.wait_closed()

    def __enter__(self) -> Self:
        self._thread = LoopThread("replay-server")
        return self._thread.run(self.__aenter__())

    def __exit__(self, *about: object) -> None:
        assert self._thread is not None
        self._thread.run(self.__aexit__(*about))
        self._thread.stop()

    @property
    def base_url(self) -> str:
        """Where it listens, for example ``http://127.0.0.1:49152``."""
        return f"http://{HOST}:{self._running[1]}"

    async def wait_closed(self, timeout: float = PATIENCE) -> None:  # noqa: ASYNC109
        """Wait until no connection is open; to see that a client closes what it no longer needs.

        Raises:
            TimeoutError: One stayed open.
        """
        await self._until(self._is_quiet, "all connections to close", timeout)

    async def wait_requests(self, count: int, timeout: float = PATIENCE) -> None:  # noqa: ASYNC109
        """Wait until so many requests have come in.

        Raises:
            TimeoutError: They did not come.
        """
        await self._until(lambda: len(self.requests) >= count, f"{count} requests", timeout)

    async def _until(self, reached: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait for a condition on the counts, on the server's loop; the caller may run in another one."""

        async def wait() -> None:
            while not reached():
                await self._changed.wait()

        loop, _ = self._running
        try:
            async with asyncio.timeout(seconds):
                if loop is asyncio.get_running_loop():
                    await wait()
                else:
                    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait(), loop))
        except TimeoutError:
            raise TimeoutError(
                f"waited {seconds:g} s for {what}: {len(self.requests)} requests, "
                f"{self.open_connections} open connections, {self.disconnects} disconnects"
            ) from None

    @property
    def _running(self) -> tuple[asyncio.AbstractEventLoop, int]:
        """The event loop and the port."""
        if self._started is None:
            raise LocalProtocolError("the ReplayServer has not been started: enter it with `async with` or `with`")
        return self._started

    def _is_quiet(self) -> bool:
        """Whether no connection is open, and no task still writes to a closed one."""
        return not self.open_connections and not self._answering

    def count(self, *, connections: int = 0, answering: int = 0) -> None:
        """Add to the counts, and wake the tasks that wait for them; called by the connections."""
        self.open_connections += connections
        self._answering += answering
        self._changed.set()
        self._changed = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; called by the connections."""
        received = to_received(request.method, request.path_qs, request.headers, await request.content.read())
        self.requests.append(received)
        answer, frames = self._answer(received, wire_for(request.path))
        self.count(answering=1)
        try:
            response = await play(answer, frames, request)
        except (asyncio.CancelledError, ConnectionError) as gone:
            self.disconnects += not self._closing
            raise asyncio.CancelledError from gone  # the rest of the server is not affected
        finally:
            self.count(answering=-1)
        if response is None:
            # How aiohttp closes a connection without another byte, after what is written has gone out.
            raise asyncio.CancelledError
        return response

    def _answer(self, received: Received, wire: Wire | None) -> tuple[ServedResponse, list[bytes]]:
        """The next answer and its frames, or an error in the shape of the provider's errors."""
        is_resumed = received.method == "GET" and RESUMED.search(received.path)
        if received.method != "POST" and not is_resumed:
            return _complaint(wire, 405, f"{received.method}: only POST takes an answer")
        try:
            number, answer_like = self._script.answer(received)
            answer = to_answer(answer_like)
            if not isinstance(answer.body, Reply):
                return answer, list(answer.body)
            if wire is not None:
                frames = wire.frames(answer.body, number, received.body)
                return replace(answer, headers={"content-type": wire.content_type, **answer.headers}), frames
        except Exception as error:  # a function of the user's may raise anything
            return _complaint(wire, 500, f"ReplayServer: {type(error).__name__}: {error}")
        return _complaint(
            wire,
            404,
            f"ReplayServer: no format is known at {received.path}; a Reply can be sent at "
            f"{', '.join(f'...{end}' for end in WIRES)}, a recording anywhere",
        )
