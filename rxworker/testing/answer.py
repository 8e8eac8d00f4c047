"""A response of a replay server, as a value.

Its body, the faults with which it is sent, and the pieces that are written to the connection.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict, Unpack

import msgspec
from aiohttp import web
from msgspec import Struct, field

from rxworker.messages import Json
from rxworker.testing.reply import Reply, to_reply

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
        kind = {"content-type": CONTENT_TYPES[".json"]}
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        return cls((data,), status, {**kind, **(headers or {})}, **faults)

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
    kept: list[bytes] = []
    for frame in frames:
        if limit <= 0:
            break
        kept.append(frame[:limit])
        limit -= len(frame)
    return kept


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
