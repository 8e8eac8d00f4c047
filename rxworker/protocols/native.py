r"""The library's own wire format: a record as one line of JSON, and as a server-sent event.

Pure: it returns bytes and sends nothing.

Every record can be encoded. Half of a surrogate pair becomes U+FFFD, and a value that has no JSON form becomes the name
of its type in parentheses. An event that is nested too deeply for JSON becomes an `Opaque` with a note.

The frame of a record has its number as ``id:``, so an ``EventSource`` that reconnects sends its position in
``Last-Event-ID``. After the last record comes an ``end`` event with the status of the run. A client that connects again
after that gets a 204, and an ``EventSource`` then does not reconnect.

    id: 5\ndata: {"seq":5,...}\n\n          a record
    : ping\n\n                              a keep-alive comment
    event: end\ndata: {"status":...}\n\n    the end of the stream
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from rxworker.errors import RemoteProtocolError
from rxworker.events import Event, Opaque, Record
from rxworker.messages import Json
from rxworker.messages.custom_types import to_json_value
from rxworker.messages.lenient_json import UNREADABLE, encode_lenient, read_json
from rxworker.messages.settings import check_plain
from rxworker.protocols.common import type_name

_decoder = msgspec.json.Decoder(Record)
_TAGS = frozenset(kind.__struct_config__.tag for kind in get_args(Event))


EncodeRecord: TypeAlias = Callable[[Record], bytes]
"""Encodes a record as JSON: `encode_record`, or an `EncodedRecords` with its cache."""


def encode_record(record: Record) -> bytes:
    r"""The record as JSON, in one line.

    >>> from rxworker.events import TextDelta
    >>> encode_record(Record(5, "run-1", 1, 1, 2.5, TextDelta(0, "hi")))
    b'{"seq":5,"run":"run-1","turn":1,"attempt":1,"time":2.5,"event":{"type":"text_delta","index":0,"text":"hi"}}'
    >>> decode_record(encode_record(Record(5, "run-1", 1, 1, 2.5, TextDelta(0, "\ud83d")))).event
    TextDelta(index=0, text='�', choice=0)
    """
    try:
        return encode_json(record)
    except (TypeError, ValueError, RecursionError):
        event = Opaque(type_name(record.event), "this event has no JSON form")
        return msgspec.json.encode(replace(record, event=event))


def decode_record(data: bytes | str) -> Record:
    """Decode the output of `encode_record`.

    An event of an unknown type, for example one of a later version, becomes an `Opaque` whose ``kind`` is that type and
    whose ``raw`` is the whole event.

    Raises:
        RemoteProtocolError: It is not a record, or an event of a known type lacks a field.

    >>> line = b'{"seq":1,"run":"r","turn":0,"attempt":0,"time":0,"event":{"type":"owl","wings":2}}'
    >>> decode_record(line).event
    Opaque(kind='owl', raw={'type': 'owl', 'wings': 2})
    """
    try:
        return _decoder.decode(data)
    except UNREADABLE as error:
        record = _with_unknown_event(read_json(data))
        if record is None:
            raise RemoteProtocolError(f"this is not a record: {error}") from error
        return record


def _with_unknown_event(read: Json) -> Record | None:
    """The record with its event as an `Opaque`.

    ``None`` if the type of the event is known, or if anything else is wrong.
    """
    match read:
        case {"event": {"type": str(kind)} as event, **members} if kind not in _TAGS:
            with suppress(msgspec.ValidationError):
                return msgspec.convert({**members, "event": {"type": "opaque", "kind": kind, "raw": event}}, Record)
        case _:
            pass
    return None


class EncodedRecords:
    """Encodes each record once for all watchers that receive it.

    Watchers that keep up receive equal records. Only the last ones are in the cache; the records of a watcher that is
    further behind are encoded again.

    Args:
        limit: The number of records in the cache.
        encode: Encodes a record.

    Attributes:
        count: The number of records that were encoded.

    >>> from rxworker.events import TurnStop
    >>> encode = EncodedRecords()
    >>> one, same = Record(5, "r", 1, 1, 2.5, TurnStop()), Record(5, "r", 1, 1, 2.5, TurnStop())
    >>> encode(one) is encode(same), encode.count
    (True, 1)
    """

    def __init__(self, limit: int = 256, *, encode: EncodeRecord = encode_record) -> None:
        check_plain("EncodedRecords(encode)", encode)
        self._encode = encode
        self._known: dict[tuple[int, int], tuple[Record, bytes]] = {}
        self._limit = limit
        self.count = 0

    def __call__(self, record: Record, /) -> bytes:
        """The record as JSON."""
        place = record.seq, record.covers
        known = self._known.get(place)
        # Two deliveries may make different records of the same numbers, so the numbers do not identify a record.
        if known is not None and (known[0] is record or known[0] == record):
            return known[1]
        data = self._encode(record)
        self.count += 1
        if known is None and len(self._known) >= self._limit:
            del self._known[next(iter(self._known))]
        self._known[place] = record, data
        return data

    def clear(self) -> None:
        """Empty the cache."""
        self._known.clear()


def encode_json(value: object) -> bytes:
    r"""Any value as JSON. A value that has no JSON form becomes the name of its type in parentheses.

    >>> encode_json({"half": "\ud83d", "what": 1j}).decode()
    '{"half":"�","what":"(complex)"}'
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return encode_lenient(msgspec.to_builtins(value, enc_hook=_placeholder, str_keys=True))


def _placeholder(value: object) -> object:
    try:
        return to_json_value(value)  # a model of pydantic, or a path
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__qualname__})"


PING_COMMENT = b": ping\n\n"
"""A keep-alive comment, sent when idle."""

SSE_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store, no-transform",
    # Disables the buffer of nginx.
    "X-Accel-Buffering": "no",
}
"""The headers of a stream of server-sent events."""


def sse_frame(data: bytes, *, event: str | None = None, id: int | None = None) -> bytes:  # noqa: A002 - the field's name
    r"""One frame.

    Args:
        data: The data. Each line becomes a field.
        event: The type; without one an ``EventSource`` dispatches a ``message``.
        id: The id, which the client sends as ``Last-Event-ID`` when it reconnects.

    >>> sse_frame(b"one\ntwo", event="note", id=3)
    b'id: 3\nevent: note\ndata: one\ndata: two\n\n'
    """
    head = b"" if id is None else b"id: %d\n" % id
    if event is not None:
        head += b"event: %b\n" % event.encode()
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(data.splitlines())
    return b"%bdata: %b\n\n" % (head, data)


def record_frame(record: Record, encode: EncodeRecord = encode_record) -> bytes:
    r"""The frame of a record.

    >>> from rxworker.events import TurnStop
    >>> record_frame(Record(5, "r", 1, 1, 2.5, TurnStop()))
    b'id: 5\ndata: {"seq":5,"run":"r","turn":1,"attempt":1,"time":2.5,"event":{"type":"turn_stop"}}\n\n'
    """
    return b"id: %d\ndata: %b\n\n" % (record.seq, encode(record))


def end_frame(status: str, reason: str = "") -> bytes:
    r"""The frame after the last record.

    Args:
        status: The final status of the run: ``finished``, ``paused`` or ``aborted``.
        reason: The reason. Shown to users; not interpreted.

    >>> end_frame("finished")
    b'event: end\ndata: {"status":"finished","reason":""}\n\n'
    """
    return sse_frame(encode_json({"status": status, "reason": reason}), event="end")


def retry_frame(milliseconds: int) -> bytes:
    r"""The frame that sets the reconnection time of the client.

    >>> retry_frame(500)
    b'retry: 500\n\n'
    """
    return b"retry: %d\n\n" % milliseconds


def read_last_event_id(text: str | None) -> int:
    """Read the number of the last record that a client has from its ``Last-Event-ID``; 0 without one.

    Raises:
        RemoteProtocolError: It is not a number.

    >>> read_last_event_id("17"), read_last_event_id(None), read_last_event_id("")
    (17, 0, 0)
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise RemoteProtocolError("the last event's id is the number of a record, from 0")
    return int(text)
