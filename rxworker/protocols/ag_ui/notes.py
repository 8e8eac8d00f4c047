"""How AG-UI is told of everything outside of blocks and calls."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import MessageAdd, Record
from rxworker.protocols.ag_ui.wire import (
    AgUiEvent,
    Custom,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ours,
)
from rxworker.protocols.common.lines import type_name
from rxworker.views import Note, Retract


def take_back(change: Retract) -> Iterator[AgUiEvent]:
    """What a response has said is void."""
    value = {
        "reason": change.reason,
        "messageIds": change.blocks,
        "toolCallIds": change.calls,
    }
    yield Custom("rxworker.retract", value, change.scope.id or None)


def note(change: Note) -> Iterator[AgUiEvent]:
    """Something to know."""
    record = change.record
    inside = change.scope.id or None
    event = record.event
    if isinstance(event, MessageAdd):
        yield from _added(record, event, inside)
        return
    yield Custom(f"rxworker.{type_name(event)}", event, inside)


def _added(record: Record, event: MessageAdd, inside: str | None) -> Iterator[AgUiEvent]:
    for place, message in enumerate(event.messages):
        if message.text:
            name = f"{record.run}.{record.seq}.{place}"
            yield TextMessageStart(name, message.role, inside, ours({"source": event.source}))
            yield TextMessageContent(name, message.text, inside)
            yield TextMessageEnd(name, inside)


__all__ = ["note", "take_back"]
