"""Amazon's event stream (``application/vnd.amazon.eventstream``): messages with headers, a payload and two checksums.

Pure.

A message is: the length of the whole and of its headers, a CRC-32 of these two, the headers, the payload, and a CRC-32
of all before it; numbers are big-endian (https://smithy.io/2.0/aws/amazon-eventstream.html).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Packed
from struct import error as PackError  # noqa: N812 - it is a class
from sys import maxsize
from zlib import crc32

from msgspec import Struct

from rxworker.errors import RemoteProtocolError
from rxworker.framing.decoder import MAX_FRAME, too_large

_PRELUDE = Packed(">III")
_CRC = Packed(">I")
_LENGTH = Packed(">H")
AROUND = _PRELUDE.size + _CRC.size
"""Bytes of a message beside its headers and its payload."""

_TEXT = 7
_WITH_LENGTH = (6, _TEXT)  # bytes, text
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""The size of a value by its type, for those whose value has no length before it."""


class EventStreamMessage(Struct, frozen=True, gc=False):
    """One message.

    Attributes:
        headers: Its headers with texts, such as ``:event-type``. Others do not occur in responses of models, and are
            left out.
        payload: What it carries, as a rule JSON.
    """

    headers: dict[str, str]
    payload: bytes


class EventStreamDecoder:
    r"""Bytes to messages.

    Args:
        limit: Bytes that a message may have; ``None`` for any number.

    Attributes:
        limit: The same as a number; it may be changed.

    >>> from zlib import crc32
    >>> head = (18).to_bytes(4, "big") + bytes(4)
    >>> head += crc32(head).to_bytes(4, "big")
    >>> message = head + b"{}" + crc32(head + b"{}").to_bytes(4, "big")
    >>> decoder = EventStreamDecoder()
    >>> decoder.feed(message[:9]), decoder.feed(message[9:])
    ([], [EventStreamMessage(headers={}, payload=b'{}')])
    """

    def __init__(self, limit: int | None = MAX_FRAME) -> None:
        self.limit = maxsize if limit is None else limit
        self._pieces: list[bytes] = []  # of the unfinished message, joined when it is whole
        self._size = 0  # of these pieces
        self._wanted = _PRELUDE.size  # bytes until there is something to do
        self._ready: list[EventStreamMessage] | None = None  # those before one that is refused

    def feed(self, data: bytes, /) -> list[EventStreamMessage]:
        """Take the next bytes; return the messages that they completed.

        Raises:
            RemoteProtocolError: A message is damaged, or larger than the limit. `finish` returns the messages before
                it.
        """
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return []
        messages: list[EventStreamMessage] = []
        try:
            for message in self._whole():
                messages.append(message)
        except RemoteProtocolError:
            self._ready, self._wanted = messages, 0
            self._pieces.clear()
            raise
        return messages

    def finish(self) -> list[EventStreamMessage]:
        """The stream ended. Half a message is left out: the response then has no end, which its decoder reports."""
        return self._ready or []

    def _whole(self) -> Iterator[EventStreamMessage]:
        """The whole messages; what follows them is kept."""
        if self._ready is not None:
            raise _damaged("it follows a damaged message")
        data = b"".join(self._pieces)
        at = 0
        while len(data) - at >= _PRELUDE.size:
            size, of_headers, checksum = _PRELUDE.unpack_from(data, at)
            if crc32(data[at : at + 8]) != checksum:
                raise _damaged("its lengths have another checksum")
            if size > self.limit:
                raise too_large(self.limit)
            if size < AROUND + of_headers:
                raise _damaged("its headers are longer than the whole")
            if len(data) - at < size:
                self._wanted = size
                break
            yield _message(data[at : at + size], of_headers)
            at += size
            self._wanted = _PRELUDE.size
        self._pieces, self._size = [data[at:]], len(data) - at


def _message(data: bytes, of_headers: int) -> EventStreamMessage:
    end = len(data) - _CRC.size
    if crc32(data[:end]) != _CRC.unpack_from(data, end)[0]:
        raise _damaged("it has another checksum")
    start = _PRELUDE.size
    return EventStreamMessage(dict(_headers(data[start : start + of_headers])), data[start + of_headers : end])


def _headers(data: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    try:
        while at < len(data):
            end = at + 1 + data[at]
            name, kind = data[at + 1 : end].decode(), data[end]
            at = end + 1
            if kind in _WITH_LENGTH:
                size = _LENGTH.unpack_from(data, at)[0]
                at += _LENGTH.size
            else:
                size = _SIZES[kind]
            if at + size > len(data):
                raise _damaged("a header is longer than all of them")
            if kind == _TEXT:
                yield name, data[at : at + size].decode()
            at += size
    except (IndexError, KeyError, PackError, UnicodeDecodeError) as error:
        raise _damaged("its headers cannot be read") from error


def _damaged(why: str) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"a message of the event stream is damaged: {why}; something between here and the service changes bytes"
    )
