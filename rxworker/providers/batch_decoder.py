"""Bytes to events in two machines, framing and decoder, with adjacent deltas of one read as one value. Pure.

The plain definition is to feed each frame to the decoder; ``tests/providers/test_batch_decoder.py`` holds the two
equal. `BackgroundDecoder` is for a response that goes on at its service without its connection.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from msgspec.structs import replace

from rxworker.events import ResponseEvent
from rxworker.events.deltas import Deltas, flatten, gather
from rxworker.framing import SseDecoder
from rxworker.framing.decoder import Limited
from rxworker.framing.sse import SseFrame
from rxworker.providers.base import HttpRequest
from rxworker.providers.block_factory import BlockFactory

if TYPE_CHECKING:
    from rxworker.providers.malformed import EventDecoder

F = TypeVar("F")
F_contra = TypeVar("F_contra", contravariant=True)
F_co = TypeVar("F_co", covariant=True)

Events: TypeAlias = Sequence[ResponseEvent]
Part: TypeAlias = ResponseEvent | Deltas[ResponseEvent]
"""An event, or adjacent deltas as one value."""


class Framing(Limited, Protocol[F_co]):
    """A machine from bytes to frames."""

    def feed_run(self, data: bytes, /) -> Sequence[F_co]:
        """Take the next bytes; return the frames that they completed, which may be created when they are accessed."""
        ...

    def finish(self) -> Sequence[F_co]:
        """The bytes ended."""
        ...


class FrameDecoder(Protocol[F_contra]):
    """A decoder from frames to events.

    One with a method ``feed_many`` is given the frames of a read together. Of one whose ``blocks`` are its
    `BlockFactory`, a call that the server sends twice is made once.
    """

    def feed(self, frame: F_contra, /) -> Events:
        """Take the next frame."""
        ...

    def finish(self) -> Events:
        """The frames ended."""
        ...


class BatchDecoder(Generic[F]):
    r"""A decoder from bytes to events that returns adjacent deltas of one read as one `Deltas`.

    Args:
        framing: Bytes to frames.
        decoder: Frames to events.

    >>> from rxworker.framing import SseDecoder
    >>> from rxworker.providers.openai_responses.decode import OpenAIResponsesDecoder
    >>> machine = BatchDecoder(SseDecoder(), OpenAIResponsesDecoder())
    >>> frame = b'data: {"type":"response.output_text.delta","output_index":0,"delta":"%s"}\n\n'
    >>> machine.feed_parts(b"".join(frame % word for word in (b"a", b"b", b"c", b"d")))[-1]
    Deltas(TextDelta(index=0, text='a', choice=0), ['a', 'b', 'c', 'd'])
    """

    def __init__(self, framing: Framing[F], decoder: FrameDecoder[F]) -> None:
        self._framing = framing
        self._decoder = decoder
        self._blocks: BlockFactory = getattr(decoder, "blocks", None) or BlockFactory()
        self._feed_many: Callable[[Sequence[F]], Sequence[Part]] = getattr(decoder, "feed_many", self._feed_each)

    @property
    def limit(self) -> int:
        """Bytes that a line or frame may have."""
        return self._framing.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._framing.limit = limit

    def feed(self, data: bytes, /) -> Events:
        """Take the next bytes; return what they completed."""
        return [*flatten(self.feed_parts(data))]

    def feed_parts(self, data: bytes, /) -> Sequence[Part]:
        """The same, with adjacent deltas as one `Deltas`."""
        frames = self._framing.feed_run(data)
        # A provider sends one event a chunk.
        parts = self._decoder.feed(frames[0]) if len(frames) == 1 else self._feed_many(frames)
        calls = self._blocks.calls
        return parts if calls is None else calls.once(parts)

    def _feed_each(self, frames: Sequence[F]) -> Sequence[Part]:
        return gather(chain.from_iterable(map(self._decoder.feed, frames)))

    def finish(self) -> Events:
        """The bytes ended: first for the frames, then for the response."""
        events = [*chain.from_iterable(map(self._decoder.feed, self._framing.finish())), *self._decoder.finish()]
        calls = self._blocks.calls
        return events if calls is None else [*flatten(calls.once(events))]


class BackgroundDecoder(BatchDecoder[SseFrame]):
    """Bytes to events, for one response that goes on at the service without its connection.

    ``extra={"background": True}`` requests such a response.

    Theory of operation. The service gives each event of such a response a name or a number. When the connection is cut,
    the events after a certain one can be requested from another address. They continue the same response, so the
    decoder of its events stays, and only the one of its bytes is replaced: half a frame may have been left in it.
    Events that were seen are dropped, since a server may send them twice.

    Args:
        response: The decoder of its events.
        cursor: The service's name of a response that another process has begun, all of whose events are then requested.
    """

    def __init__(self, response: EventDecoder, cursor: str = "") -> None:
        super().__init__(SseDecoder(stray=True), response)
        self._response = response
        self._cursor = cursor
        self._is_left = False  # its bytes have ended, and it goes on at the service
        self._is_cancelled = False

    @abstractmethod
    def _is_new(self, frame: SseFrame) -> bool:
        """Whether an event was not seen yet; it is from now on."""

    @abstractmethod
    def _query(self, sent: HttpRequest) -> list[tuple[str, str]] | None:
        """What requests the events that have not come; ``None``: too little is known."""

    def feed_parts(self, data: bytes, /) -> Sequence[Part]:
        """See `BatchDecoder`."""
        frames = [frame for frame in self._framing.feed_run(data) if self._is_new(frame)]
        parts, calls = self._feed_many(frames), self._blocks.calls
        return parts if calls is None else calls.once(parts)

    def finish(self) -> Sequence[ResponseEvent]:
        """The bytes ended, and no more will come."""
        self._is_left = self._is_left or self._is_running
        return super().finish()

    def resume(self, sent: HttpRequest) -> HttpRequest | None:
        """The request for the events that have not come; from now on the decoder takes their bytes.

        Args:
            sent: The request that began the response.

        Returns:
            ``None``: the response has ended, or too little of it is known.
        """
        query = self._query(sent) if self._is_running else None
        if query is None:
            return None
        self._framing = SseDecoder(stray=True, limit=self.limit)
        return replace(sent, url=self._url(sent, "", query), method="GET", body=b"")

    def cancel(self, sent: HttpRequest) -> HttpRequest | None:
        """The request that ends the response at the service; ``None``.

        There is nothing to end, or the request was already made.
        """
        if self._is_cancelled or not (self._is_running or self._is_left):
            return None
        self._is_cancelled = True
        return replace(sent, url=self._url(sent, "/cancel"), body=b"", accept=("application/json",))

    @property
    def _is_running(self) -> bool:
        return bool(self._id) and not self._response.is_over

    @property
    def _id(self) -> str:
        return self._response.response_id or self._cursor

    def _url(self, sent: HttpRequest, end: str, query: Sequence[tuple[str, str]] = ()) -> str:
        parts = urlsplit(sent.url)
        path = f"{parts.path}/{quote(self._id, safe='')}{end}"
        full_query = "&".join(part for part in (parts.query, urlencode(query)) if part)
        return urlunsplit(parts._replace(path=path, query=full_query))
