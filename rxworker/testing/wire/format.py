"""What the formats have in common."""

from __future__ import annotations

from collections.abc import Callable

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
    """

    name: str
    frames: Callable[[Reply, int, Json], list[bytes]]
    error_body: Callable[[str], JsonObject]


def data_frame(payload: JsonObject, event: str | None = None) -> bytes:
    r"""One frame of a server-sent event stream.

    >>> data_frame({"a": 1}, "ping")
    b'event: ping\ndata: {"a":1}\n\n'
    """
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + msgspec.json.encode(payload) + b"\n\n"


def stop_word(reply: Reply, words: dict[StopKind, str]) -> str:
    """The provider's word for why a reply ends; a reason that it does not have is sent as one it does not know."""
    reason = reply.stop_reason
    return reason.raw or words.get(reason.kind) or reason.kind.value


def asked(body: Json, name: str) -> Json:
    """A field of a request's body, if there is one."""
    return body.get(name) if isinstance(body, dict) else None


__all__ = ["Wire", "asked", "data_frame", "stop_word"]
