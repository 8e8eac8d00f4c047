"""What tools that run, and results that come, change."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import MessageAdd, Record, ToolOutput, ToolProgress, ToolStart, ToolStop
from rxworker.protocols.common.changes import CallProgress, CallStart, Change, Note
from rxworker.protocols.common.rooms import Room
from rxworker.protocols.common.story import Story
from rxworker.worker.early import THROWN_AWAY


def tool_start(_: Story, room: Room, __: Record, event: ToolStart) -> Iterator[Change]:
    """A tool begins."""
    call = event.call
    yield from room.blocks.end_call(call.id)
    waiting = room.calls.find(call.id)
    if waiting is None and room.calls.has_answered(call.id):
        waiting = room.calls.expect(call)
    if waiting is None:
        yield from room.calls.announce(call, room.blocks.response)
        waiting = room.calls.find(call.id)
    if waiting is not None:
        yield CallStart(room.scope, waiting.shown, call)


def tool_progress(_: Story, room: Room, __: Record, event: ToolProgress) -> Iterator[Change]:
    """A tool tells how far it is."""
    waiting = room.calls.find(event.call_id)
    shown = waiting.shown if waiting else room.calls.shown_id(event.call_id)
    yield CallProgress(room.scope, shown, event.progress)


def tool_stop(story: Story, room: Room, record: Record, event: ToolStop) -> Iterator[Change]:
    """A tool has ended. Its result comes later where hooks may change it."""
    result = event.result
    native = event.call_id
    yield from story.rooms.leave((*record.path, native), "its call has ended")
    yield from room.blocks.end_call(native)
    if result is None:
        room.calls.note_seconds(native, event.seconds)
        yield Note(room.scope, record)
        return
    if result.content == THROWN_AWAY and room.calls.find(native) is not None:
        yield Note(room.scope, record)  # the call may be run again
        return
    again = not record.path and native in story.refused
    story.refused.discard(native)
    is_denied = again and result.is_error
    yield from room.calls.answer(result, event.seconds, is_denied=is_denied, again=again)


def tool_output(_: Story, room: Room, __: Record, event: ToolOutput) -> Iterator[Change]:
    """A result comes as the hooks left it."""
    yield from room.calls.answer(event.result)


def message_add(_: Story, room: Room, record: Record, event: MessageAdd) -> Iterator[Change]:
    """Messages are added to the conversation, and may hold results."""
    for message in event.messages:
        for result in message.tool_results:
            yield from room.blocks.end_call(result.tool_use_id)
            yield from room.calls.answer(result)
    yield Note(room.scope, record)


__all__ = ["message_add", "tool_output", "tool_progress", "tool_start", "tool_stop"]
