r"""Server-sent events with records in them. Pure: bytes come out, nothing is sent.

A record's frame carries its number as ``id:``, so that an ``EventSource`` that connects again says with ``Last-Event-ID`` where it was.
Behind the last record comes an ``end`` event that says how the run ended. Whoever connects again after that gets a 204, at which an
``EventSource`` stays away.

    id: 5\ndata: {"seq":5,...}\n\n          a record
    : ping\n\n                              the connection lives
    event: end\ndata: {"status":...}\n\n    nothing more comes
"""

from __future__ import annotations

from msgspec import Struct

from rxworker.errors import RemoteProtocolError
from rxworker.events import Record
from rxworker.protocols.native import EncodeRecord, encode_json, encode_record

PING = b": ping\n\n"
"""A comment that keeps a connection from being taken for dead."""

SSE_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store, no-transform",
    # Asks nginx not to hold events back.
    "X-Accel-Buffering": "no",
}
"""The headers of a stream of server-sent events."""


class StreamEnd(Struct, frozen=True):
    """What the ``end`` event says.

    Attributes:
        status: How the run ended: ``finished``, ``paused`` or ``aborted``.
        reason: Why, for people.
    """

    status: str
    reason: str = ""


def sse_frame(data: bytes, *, event: str | None = None, id: int | None = None) -> bytes:  # noqa: A002 - the field's name
    r"""One frame.

    Args:
        data: What it carries; of several lines, each gets a field of its own.
        event: Its type; an ``EventSource`` takes one without a type for a ``message``.
        id: What the client says as ``Last-Event-ID`` when it connects again.

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
    r"""The frame behind the last record.

    >>> end_frame("finished")
    b'event: end\ndata: {"status":"finished","reason":""}\n\n'
    """
    return sse_frame(encode_json(StreamEnd(status, reason)), event="end")


def retry_frame(milliseconds: int) -> bytes:
    r"""Tells the client how long to wait before it connects again.

    >>> retry_frame(500)
    b'retry: 500\n\n'
    """
    return b"retry: %d\n\n" % milliseconds


def read_last_event_id(text: str | None) -> int:
    """The number of the last record that a client has, of its ``Last-Event-ID``; 0 where it says nothing.

    Raises:
        RemoteProtocolError: It is no number.

    >>> read_last_event_id("17"), read_last_event_id(None), read_last_event_id("")
    (17, 0, 0)
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise RemoteProtocolError("the last event's id is the number of a record, from 0")
    return int(text)


__all__ = [
    "PING",
    "SSE_HEADERS",
    "StreamEnd",
    "end_frame",
    "read_last_event_id",
    "record_frame",
    "retry_frame",
    "sse_frame",
]
