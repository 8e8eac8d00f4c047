"""What turns, the attempts of their requests, and the blocks of their responses change."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockEvent,
    Record,
    ResponseStatus,
    Status,
    TurnStart,
    TurnStop,
)
from rxworker.protocols.common.changes import Change, Note
from rxworker.protocols.common.rooms import Room
from rxworker.protocols.common.story import Story

CUT = "the turn ended before it was whole"


def block(_story: Story, room: Room, record: Record, event: BlockEvent) -> Iterator[Change]:
    """An event of a block."""
    yield from room.blocks.enter(record.turn, record.attempt, is_start=False)
    if room.turn is None and record.turn:
        yield from room.open_step(record.turn)
    yield from room.blocks.feed(event)


def turn_start(_story: Story, room: Room, record: Record, _: TurnStart) -> Iterator[Change]:
    """A turn begins."""
    yield from room.end(CUT)
    yield from room.open_step(record.turn)


def turn_stop(_story: Story, room: Room, _: Record, __: TurnStop) -> Iterator[Change]:
    """A turn is over."""
    yield from room.end(CUT)


def attempt_start(_story: Story, room: Room, record: Record, _: AttemptStart) -> Iterator[Change]:
    """A request is made."""
    yield from room.blocks.enter(record.turn, record.attempt, is_start=True)
    yield Note(room.scope, record)


def attempt_retract(
    _story: Story, room: Room, record: Record, event: AttemptRetract
) -> Iterator[Change]:
    """What a response said is void."""
    yield from room.blocks.take_back(event.reason)
    yield Note(room.scope, record)


def status(_story: Story, room: Room, record: Record, event: Status) -> Iterator[Change]:
    """A response begins, or has ended."""
    yield from room.blocks.enter(record.turn, record.attempt, is_start=False)
    if event.status is ResponseStatus.STARTED:
        yield from room.blocks.take_back("the response began anew")
    room.stop_reason = event.stop_reason or room.stop_reason
    yield Note(room.scope, record)


__all__ = ["attempt_retract", "attempt_start", "block", "status", "turn_start", "turn_stop"]
