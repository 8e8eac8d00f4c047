"""Common parts of the formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from rxworker.events import Error
from rxworker.events.meta import TRUNCATED
from rxworker.messages import Json, JsonObject, StopKind
from rxworker.messages.lenient_json import read_json
from rxworker.messages.settings import check_plain
from rxworker.testing.reply import Reply

A = TypeVar("A")


def model_of(body: JsonObject) -> JsonObject:
    """The model that the body of a request names, as an argument."""
    model = body.get("model")
    return {"model": model} if isinstance(model, str) else {}


class Wire(Struct, frozen=True):
    """One provider's format.

    Attributes:
        name: The provider's name.
        render: The function that makes the frames of a reply.
        error: From an error to the body of an answer that is an error.
        content_type: The media type of the frames.
        arguments: From a request's body to further arguments of ``render``.
    """

    name: str
    render: Callable[..., list[bytes]]
    error: Callable[[Error], JsonObject]
    content_type: str = "text/event-stream; charset=utf-8"
    arguments: Callable[[JsonObject], JsonObject] = model_of

    def __post_init__(self) -> None:
        """Check the functions."""
        check_plain("render, error or arguments", self.render, self.error, self.arguments)

    def frames(self, reply: Reply, number: int, body: Json) -> list[bytes]:
        """The frames of a reply to a request, given its number and its parsed body."""
        return self.render(reply, number=number, **self.arguments(body if isinstance(body, dict) else {}))

    def error_body(self, message: str) -> JsonObject:
        """The body of an answer that is an error of the server."""
        return self.error(Error(None, message, kind="server"))


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
    """Arguments for a protocol that sends them as an object; a text that is not JSON is sent as it is.

    >>> given_arguments('{"a": 1}'), given_arguments('{"a": ')
    ({'a': 1}, '{"a": ')
    """
    read = read_json(value) if isinstance(value, str) else value
    return read if isinstance(read, dict) else value


class Words(Struct, frozen=True, forbid_unknown_fields=True):
    """The words of a provider.

    Attributes:
        stops: Why a response ends.
        errors: The kinds of errors.
    """

    stops: dict[StopKind, str]
    errors: dict[str, str] = {}


WORDS = msgspec.json.decode(Path(__file__).with_name("words.json").read_bytes(), type=dict[str, Words])
"""The words of each provider, by its name."""


def stop_word(reply: Reply, name: str) -> str:
    """The provider's word for why a reply ends; a reason that it does not have is sent as one it does not know."""
    reason = reply.stop_reason
    return reason.raw or WORDS[name].stops.get(reason.kind) or reason.kind.value


def code_of(error: Error, name: str) -> str | None:
    """The provider's word for an error: its own code where it has one, or that of its kind."""
    return error.code if error.code and error.code != error.kind else WORDS[name].errors.get(error.kind)


def sent(
    reply: Reply, head: list[A], blocks: Sequence[tuple[Sequence[A], Sequence[A]]], end: list[A], errors: list[A]
) -> list[A]:
    """What is sent of a reply. One that breaks off has no end, and its last block stays open.

    Args:
        reply: The reply.
        head: What comes first; an error before any block comes alone.
        blocks: What opens and fills each block, and what closes it.
        end: What comes last.
        errors: What is sent where it fails.
    """
    if reply.error is not None and not blocks:
        return errors
    frames = [*head]
    for left, (content, close) in enumerate(blocks, 1 - len(blocks)):
        frames += content if reply.breaks and not left else [*content, *close]
    return [*frames, *(errors if reply.breaks else end)]


def sent_errors(reply: Reply) -> list[Error]:
    """The error that is sent at the end of a reply, if there is one; none for a stream that is merely cut."""
    return [] if reply.error is None or reply.error.code == TRUNCATED else [reply.error]
