"""What a provider makes of bytes, and the message of it."""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.events import ResponseEvent
from rxworker.messages import Message
from rxworker.providers import PROVIDERS, Provider
from rxworker.state.response import fold_response, message_of
from rxworker.testing import check_balanced


def events_of(provider: Provider | str, *pieces: bytes) -> list[ResponseEvent]:
    """The events. A provider may be given by its name."""
    made = PROVIDERS[provider]("m", api_key="k") if isinstance(provider, str) else provider
    decoder = made.decoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return [*events, *decoder.finish()]


def decoded(provider: Provider | str, *pieces: bytes) -> list[ResponseEvent]:
    """The events, which keep the rules."""
    events = events_of(provider, *pieces)
    check_balanced(events)
    return events


def cut(data: bytes, size: int = 1) -> list[bytes]:
    """The data in pieces of a size."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def answer_of(events: Sequence[ResponseEvent], provider: str) -> Message:
    """The message that they make."""
    message = message_of(fold_response(events), provider)
    assert message is not None
    return message
