"""What the beginning and the end of a run change, of the run itself and of those inside it."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import Record, RunAbort, RunPause, RunResume, RunStart, RunStop
from rxworker.protocols.common.changes import Abort, Change, Finish, Pause, PendingCall
from rxworker.protocols.common.rooms import NOT_RUN, Room
from rxworker.protocols.common.story import Story


def run_start(
    story: Story, room: Room, record: Record, _: RunStart | RunResume
) -> Iterator[Change]:
    """A run begins, or goes on."""
    if record.path and room.has_begun:
        yield from story.rooms.leave(record.path, "it began anew")
        changes: list[Change] = []
        room = story.rooms.enter(record.path, changes)
        yield from changes
    room.has_begun = True


def run_stop(story: Story, room: Room, record: Record, _: RunStop) -> Iterator[Change]:
    """A run has finished."""
    if record.path:
        yield from story.rooms.leave(record.path, None)
        return
    story.is_over = True
    yield from story.rooms.end("", NOT_RUN)
    yield Finish(room.stop_reason)


def run_abort(story: Story, _: Room, record: Record, event: RunAbort) -> Iterator[Change]:
    """A run ended without a result."""
    if record.path:
        yield from story.rooms.leave(record.path, event.reason or event.cause, event.cause)
        return
    story.is_over = True
    yield from story.rooms.end(event.reason, f"{NOT_RUN} The run ended: {event.reason}")
    yield Abort(event.cause, event.reason)


def run_pause(story: Story, room: Room, record: Record, event: RunPause) -> Iterator[Change]:
    """A run waits."""
    if record.path:
        why = f"it paused: {event.reason or event.hook}"
        yield from story.rooms.leave(record.path, why, "pause")
        return
    pending: list[PendingCall] = []
    for place, call in enumerate(event.pending):
        yield from room.blocks.end_call(call.id)
        if room.calls.find(call.id) is None:
            if room.calls.has_answered(call.id):
                room.calls.expect(call)
            else:
                yield from room.calls.announce(call, room.blocks.response)
        waiting = room.calls.take(call.id)
        asks = event.paused_at is not None and place == event.let_through
        pending.append(PendingCall(waiting.shown if waiting else call.id, call, asks))
    story.is_over = True
    yield from story.rooms.end("", NOT_RUN)
    yield Pause(story.run, event.hook, event.reason, tuple(pending))


__all__ = ["run_abort", "run_pause", "run_start", "run_stop"]
