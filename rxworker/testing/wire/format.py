"""Common parts of the formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from rxworker.messages import Json, JsonObject, StopKind
from rxworker.testing.reply import Reply


class Wire(Struct, frozen=True):
    """One provider's format.

    Attributes:
        name: The provider's name.
        frames: From a reply, the number of the request and its parsed body to the frames of the answer.
        error_body: From a message to the body of an answer that is an error.
        content_type: The media type of the frames.
    """

    name: str
    frames: Callable[[Reply, int, Json], list[bytes]]
    error_body: Callable[[str], JsonObject]
    content_type: str = "text/event-stream; charset=utf-8"


def data_frame(payload: JsonObject, event: str | None = None) -> bytes:
    r"""One frame of a server-sent event stream.

    >>> data_frame({"a": 1}, "ping")
    b'event: ping\ndata: {"a":1}\n\n'
    """
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + msgspec.json.encode(payload) + b"\n\n"


def json_line(payload: JsonObject) -> bytes:
    r"""One line of a stream of JSON.

    >>> json_line({"a": 1})
    b'{"a":1}\n'
    """
    return msgspec.json.encode(payload) + b"\n"


def given_arguments(value: JsonObject | str) -> Json:
    """Arguments for a protocol that sends them as an object; a text that is none is sent as it is.

    >>> given_arguments('{"a": 1}'), given_arguments('{"a": ')
    ({'a': 1}, '{"a": ')
    """
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return value


def stop_word(reply: Reply, words: dict[StopKind, str]) -> str:
    """The provider's word for why a reply ends; a reason that it does not have is sent as one it does not know."""
    reason = reply.stop_reason
    return reason.raw or words.get(reason.kind) or reason.kind.value


def field_of(body: Json, name: str) -> Json:
    """A field of a request's body, if there is one."""
    return body.get(name) if isinstance(body, dict) else None
