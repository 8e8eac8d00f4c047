"""A conversation as JSON that can be kept: with a version, so that what is read later is understood or refused."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from rxworker.errors import LocalProtocolError
from rxworker.messages.message import Conversation

VERSION = 1


class _Head(Struct, frozen=True):
    version: int


class _Archive(Struct, frozen=True):
    version: int
    conversation: Conversation


def to_json(conversation: Conversation) -> bytes:
    """The conversation as JSON, with everything that a provider wants to see again.

    Raises:
        LocalProtocolError: It holds something that is no JSON, such as half of a surrogate pair.

    >>> from rxworker.messages import Message
    >>> to_json(Conversation((Message.user("hi"),)))
    b'{"version":1,"conversation":{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}}'
    """
    try:
        return msgspec.json.encode(_Archive(VERSION, conversation))
    except (TypeError, UnicodeError, OverflowError, RecursionError) as error:
        raise LocalProtocolError(f"the conversation is no JSON: {error}") from error


def from_json(data: bytes | str) -> Conversation:
    """The conversation that `to_json` has written.

    Raises:
        LocalProtocolError: A newer rxworker has written it, it holds a kind of content that is not known, or it is
            something else altogether.

    >>> from rxworker.messages import Message
    >>> said = Conversation((Message.user("hi"),))
    >>> from_json(to_json(said)) == said
    True
    """
    try:
        version = msgspec.json.decode(data, type=_Head).version
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise LocalProtocolError(f"this is no conversation that was kept: {error}") from error
    if version > VERSION:
        raise LocalProtocolError(
            f"the conversation has version {version}, and this rxworker reads up to version {VERSION}: "
            "read it with the rxworker that wrote it, or a newer one"
        )
    if version < 1:
        raise LocalProtocolError(f"the conversation has version {version}, which never was")
    try:
        return msgspec.json.decode(data, type=_Archive).conversation
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise LocalProtocolError(f"the conversation cannot be read: {error}") from error
