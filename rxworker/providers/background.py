"""A decoder from bytes to events for responses that go on at the service without their connection. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import ResponseEvent
from rxworker.framing import SseDecoder
from rxworker.framing.sse import SseFrame
from rxworker.messages import Json
from rxworker.messages.lenient_json import UNREADABLE
from rxworker.providers.base import HttpRequest
from rxworker.providers.batch_decoder import BatchDecoder, Part
from rxworker.providers.malformed import EventDecoder


class _Named(Struct, gc=False):
    sequence_number: Json = None
    event_id: Json = None


_read_name = msgspec.json.Decoder(_Named).decode


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
        self._seen: set[int | str] = set()
        self._last: int | str | None = None  # the number or the name of the last event

    def _is_new(self, frame: SseFrame) -> bool:
        """Whether an event was not seen yet, by its number or its name; it is from now on."""
        try:
            named = _read_name(frame.data)
        except UNREADABLE:
            return True
        name = named.event_id or named.sequence_number
        if not isinstance(name, int | str):
            return True
        if name in self._seen:
            return False
        self._seen.add(name)
        self._last = name
        return True

    @abstractmethod
    def _query(self, sent: HttpRequest) -> list[tuple[str, str]] | None:
        """What requests the events that have not come; ``None``: too little is known."""

    def feed_parts(self, data: bytes, /) -> Sequence[Part]:
        """See `BatchDecoder`."""
        frames = [frame for frame in self._framing.feed(data) if self._is_new(frame)]
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
