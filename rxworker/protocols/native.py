"""The library's own wire format: a record as one line of JSON.

Whatever a record holds, it has a line. Half of a surrogate pair becomes U+FFFD, and a value that has no JSON form the name of its type
in parentheses. An event that is nested too deeply for JSON becomes an `Opaque` that says so.
"""

from __future__ import annotations

from typing import Protocol, get_args

import msgspec
from msgspec.structs import replace

from rxworker.errors import RemoteProtocolError
from rxworker.events import Event, Opaque, Record
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import whole
from rxworker.protocols.common.lines import type_name

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_TAGS = frozenset(kind.__struct_config__.tag for kind in get_args(Event))


class EncodeRecord(Protocol):
    """What makes bytes of a record: `encode_record`, or an `EncodedRecords` that remembers."""

    def __call__(self, record: Record, /) -> bytes:
        """The record as JSON."""
        ...


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
        return _encoder.encode(replace(record, event=event))


def decode_record(data: bytes | str) -> Record:
    """The record that `encode_record` has written.

    An event of an unknown type, for example one of a later version, becomes an `Opaque` whose ``kind`` is that type and whose ``raw``
    is the whole event.

    Raises:
        RemoteProtocolError: It is none, or an event of a known type lacks what that type needs.

    >>> line = b'{"seq":1,"run":"r","turn":0,"attempt":0,"time":0,"event":{"type":"owl","wings":2}}'
    >>> decode_record(line).event
    Opaque(kind='owl', raw={'type': 'owl', 'wings': 2})
    """
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError as error:
        record = _with_unknown_event(data)
        if record is None:
            raise RemoteProtocolError(f"this is no record: {error}") from error
        return record
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RemoteProtocolError(f"this is no record: {error}") from error


def _with_unknown_event(data: bytes | str) -> Record | None:
    """The record with its event as an `Opaque`; ``None`` if the type of the event is known, or if anything else is wrong."""
    try:
        members = msgspec.json.decode(data, type=JsonObject)
        event = members.get("event")
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(kind, str) or kind in _TAGS:
            return None
        return msgspec.convert(
            {**members, "event": {"type": "opaque", "kind": kind, "raw": event}}, Record
        )
    except (msgspec.ValidationError, RecursionError):
        return None


class EncodedRecords:
    """Encodes each record once for all who get the same one.

    Watchers that keep up get the same records, if not the same objects. Only the last ones are remembered: whoever is further behind
    gets records of his own.

    Args:
        limit: How many records are remembered.
        encode: What encodes each.

    Attributes:
        count: How many records were encoded.

    >>> from rxworker.events import TurnStop
    >>> encode = EncodedRecords()
    >>> one, same = Record(5, "r", 1, 1, 2.5, TurnStop()), Record(5, "r", 1, 1, 2.5, TurnStop())
    >>> encode(one) is encode(same), encode.count
    (True, 1)
    """

    __slots__ = ("_encode", "_known", "_limit", "count")

    def __init__(self, limit: int = 256, *, encode: EncodeRecord = encode_record) -> None:
        self._encode = encode
        self._known: dict[tuple[int, int], tuple[Record, bytes]] = {}
        self._limit = limit
        self.count = 0

    def __call__(self, record: Record, /) -> bytes:
        """The record as JSON."""
        place = record.seq, record.covers
        known = self._known.get(place)
        # Two deliveries may make different records of the same numbers, so the place alone does not tell.
        if known is not None and (known[0] is record or known[0] == record):
            return known[1]
        data = self._encode(record)
        self.count += 1
        if known is None and len(self._known) >= self._limit:
            del self._known[next(iter(self._known))]
        self._known[place] = record, data
        return data

    def clear(self) -> None:
        """Forget them."""
        self._known.clear()


def encode_json(value: object) -> bytes:
    r"""Any value as JSON, whatever it holds; what has no JSON form is named in parentheses.

    >>> encode_json({"half": "\ud83d", "what": 1j}).decode()
    '{"half":"�","what":"(complex)"}'
    """
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, RecursionError):  # a UnicodeEncodeError is a ValueError
        plain: Json = msgspec.to_builtins(value, enc_hook=_placeholder, str_keys=True)
        return _encoder.encode(_clean(plain))


def _placeholder(value: object) -> str:
    return f"({type(value).__qualname__})"


def _clean(value: Json) -> Json:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    if isinstance(value, dict):
        return {whole(name): _clean(inner) for name, inner in value.items()}
    return value


__all__ = ["EncodeRecord", "EncodedRecords", "decode_record", "encode_json", "encode_record"]
