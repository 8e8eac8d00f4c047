"""How a UI Message Stream is told of everything outside of blocks and calls: as data parts."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import (
    Error,
    Event,
    HookMessage,
    HookVerdict,
    LimitReached,
    MessageAdd,
    Usage,
)
from rxworker.protocols.common.lines import type_name
from rxworker.protocols.ui_messages.wire import Data, UiMessagePart
from rxworker.views import Note


def note(change: Note) -> Iterator[UiMessagePart]:
    """Something to know. What matters later is kept in the message; the rest is for the moment."""
    record = change.record
    event = record.event
    match event:
        case Usage():
            name = "/".join(record.path) or "run"
            yield Data("data-usage", event, f"{name}.{record.turn}.{record.attempt}")
        case MessageAdd():
            texts = [message.text for message in event.messages if message.text]
            if texts:
                yield Data("data-message", {"source": event.source, "texts": texts})
        case HookMessage() | HookVerdict() | LimitReached() | Error():
            yield Data(data_type(event), event)
        case _:
            yield Data(data_type(event), event, transient=True)


def data_type(event: Event) -> str:
    """The type of an event's part.

    >>> data_type(LimitReached("turns", 3))
    'data-limit-reached'
    """
    return f"data-{type_name(event).replace('_', '-')}"


__all__ = ["data_type", "note"]
