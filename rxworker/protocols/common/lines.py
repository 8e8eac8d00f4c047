r"""A Struct as one event of a stream of server-sent events: ``data: {...}`` and an empty line."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages import Json
from rxworker.messages.lenient_json import encode_lenient


def type_name(event: object) -> str:
    """The name of an event's type: its tag, or for an event without one the name of its class.

    >>> from rxworker.events import TurnStop
    >>> type_name(TurnStop())
    'turn_stop'
    """
    tag = event.__struct_config__.tag if isinstance(event, Struct) else None
    return tag if isinstance(tag, str) else type(event).__name__


def data_line(value: Struct | Json) -> bytes:
    r"""The value as a frame.

    >>> data_line({"type": "x"})
    b'data: {"type":"x"}\n\n'
    """
    return b"data: " + encode_lenient(value) + b"\n\n"
