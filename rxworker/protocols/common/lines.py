r"""A Struct as one event of a stream of server-sent events: ``data: {...}`` and an empty line."""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec import Struct

from rxworker.messages import Json
from rxworker.messages.lenient_json import whole

LARGEST = 2**63 - 1


def type_name(event: object) -> str:
    """The name of an event's type: its tag, or for an event without one the name of its class.

    >>> from rxworker.events import TurnStop
    >>> type_name(TurnStop())
    'turn_stop'
    """
    tag = event.__struct_config__.tag if isinstance(event, Struct) else None
    return tag if isinstance(tag, str) else type(event).__name__


def to_json(value: Struct | Json) -> bytes:
    r"""The value as JSON. What JSON or UTF-8 cannot say is mended and never raises.

    >>> to_json({"half": "\ud83d"}).decode()
    '{"half":"\ufffd"}'
    """
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return msgspec.json.encode(_mended(cast("Json", msgspec.to_builtins(value))))


def data_line(value: Struct | Json) -> bytes:
    r"""The value as a frame.

    >>> data_line({"type": "x"})
    b'data: {"type":"x"}\n\n'
    """
    return b"data: " + to_json(value) + b"\n\n"


def _mended(value: Json) -> Json:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole(name): _mended(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(member) for member in value]
    if isinstance(value, int) and abs(value) > LARGEST:
        return str(value)
    return value


__all__ = ["data_line", "to_json", "type_name"]
