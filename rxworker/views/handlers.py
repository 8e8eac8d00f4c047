"""The table of handlers: the changes that each kind of event makes, except for the events that only make a note."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockEvent,
    MessageAdd,
    Record,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    Status,
    ToolOutput,
    ToolProgress,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)
from rxworker.events.kinds import BLOCK_EVENTS
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.views.changes import (
    CallProgress,
    CallStart,
    Change,
    Note,
    ViewAbort,
    ViewFinish,
    ViewPause,
    WaitingCall,
)
from rxworker.views.scopes import NOT_RUN, ScopeTracker, TrackerState

CUT = "the turn ended before it was whole"


def block(
    _state: TrackerState, tracker: ScopeTracker, record: Record, event: BlockEvent
) -> Iterator[Change]:
    """An event of a block."""
    yield from tracker.blocks.enter(record.turn, record.attempt, is_start=False)
    if tracker.turn is None and record.turn:
        yield from tracker.open_step(record.turn)
    yield from tracker.blocks.feed(event)


def turn_start(
    _state: TrackerState, tracker: ScopeTracker, record: Record, _: TurnStart
) -> Iterator[Change]:
    """A turn starts: everything that the turn before left open ends."""
    yield from tracker.end(CUT)
    yield from tracker.open_step(record.turn)


def turn_stop(
    _state: TrackerState, tracker: ScopeTracker, _: Record, __: TurnStop
) -> Iterator[Change]:
    """A turn has ended."""
    yield from tracker.end(CUT)


def attempt_start(
    _state: TrackerState, tracker: ScopeTracker, record: Record, _: AttemptStart
) -> Iterator[Change]:
    """A request starts."""
    yield from tracker.blocks.enter(record.turn, record.attempt, is_start=True)
    yield Note(tracker.scope, record)


def attempt_retract(
    _state: TrackerState, tracker: ScopeTracker, record: Record, event: AttemptRetract
) -> Iterator[Change]:
    """An attempt is retracted."""
    yield from tracker.blocks.retract(event.reason)
    yield Note(tracker.scope, record)


def status(
    _state: TrackerState, tracker: ScopeTracker, record: Record, event: Status
) -> Iterator[Change]:
    """A response starts or has ended; a second start retracts the first."""
    yield from tracker.blocks.enter(record.turn, record.attempt, is_start=False)
    if event.status is ResponseStatus.STARTED:
        yield from tracker.blocks.start()
    tracker.stop_reason = event.stop_reason or tracker.stop_reason
    yield Note(tracker.scope, record)


def tool_start(
    _: TrackerState, tracker: ScopeTracker, __: Record, event: ToolStart
) -> Iterator[Change]:
    """A tool starts. A call that was not shown yet is shown with its arguments."""
    call = event.call
    yield from tracker.blocks.end_call(call.id)
    waiting = tracker.calls.find(call.id)
    if waiting is None and tracker.calls.has_answered(call.id):
        waiting = tracker.calls.expect(call)
    if waiting is None:
        yield from tracker.calls.announce(call, tracker.blocks.response)
        waiting = tracker.calls.find(call.id)
    if waiting is not None:
        yield CallStart(tracker.scope, waiting.shown, call)


def tool_progress(
    _: TrackerState, tracker: ScopeTracker, __: Record, event: ToolProgress
) -> Iterator[Change]:
    """A tool reports progress."""
    waiting = tracker.calls.find(event.call_id)
    shown = waiting.shown if waiting else tracker.calls.shown_id(event.call_id)
    yield CallProgress(tracker.scope, shown, event.progress)


def tool_stop(
    state: TrackerState, tracker: ScopeTracker, record: Record, event: ToolStop
) -> Iterator[Change]:
    """A tool has ended. Its result follows later if hooks may change it."""
    result = event.result
    native = event.call_id
    yield from state.scopes.leave((*record.path, native), "its call has ended")
    yield from tracker.blocks.end_call(native)
    if result is None:
        tracker.calls.note_seconds(native, event.seconds)
        yield Note(tracker.scope, record)
        return
    if result.content == DISCARDED_EARLY and tracker.calls.find(native) is not None:
        yield Note(tracker.scope, record)  # the call may be run again
        return
    again = not record.path and native in state.refused
    state.refused.discard(native)
    is_denied = again and result.is_error
    yield from tracker.calls.answer(result, event.seconds, is_denied=is_denied, again=again)


def tool_output(
    _: TrackerState, tracker: ScopeTracker, __: Record, event: ToolOutput
) -> Iterator[Change]:
    """A result as the hooks left it."""
    yield from tracker.calls.answer(event.result)


def message_add(
    _: TrackerState, tracker: ScopeTracker, record: Record, event: MessageAdd
) -> Iterator[Change]:
    """Messages are added to the conversation, with the results that they hold."""
    for message in event.messages:
        for result in message.tool_results:
            yield from tracker.blocks.end_call(result.tool_use_id)
            yield from tracker.calls.answer(result)
    yield Note(tracker.scope, record)


def run_start(
    state: TrackerState, tracker: ScopeTracker, record: Record, _: RunStart | RunResume
) -> Iterator[Change]:
    """A run starts or resumes."""
    if record.path and tracker.has_begun:
        yield from state.scopes.leave(record.path, "it began anew")
        changes: list[Change] = []
        tracker = state.scopes.enter(record.path, changes)
        yield from changes
    tracker.has_begun = True


def run_stop(
    state: TrackerState, tracker: ScopeTracker, record: Record, _: RunStop
) -> Iterator[Change]:
    """A run has finished."""
    if record.path:
        yield from state.scopes.leave(record.path, None)
        return
    state.is_over = True
    yield from state.scopes.end("", NOT_RUN)
    yield ViewFinish(tracker.stop_reason)


def run_abort(
    state: TrackerState, _: ScopeTracker, record: Record, event: RunAbort
) -> Iterator[Change]:
    """A run ended without a result."""
    if record.path:
        yield from state.scopes.leave(record.path, event.reason or event.cause, event.cause)
        return
    state.is_over = True
    yield from state.scopes.end(event.reason, f"{NOT_RUN} The run ended: {event.reason}")
    yield ViewAbort(event.cause, event.reason)


def run_pause(
    state: TrackerState, tracker: ScopeTracker, record: Record, event: RunPause
) -> Iterator[Change]:
    """A run pauses: its pending calls wait, and all other calls get a placeholder."""
    if record.path:
        why = f"it paused: {event.reason or event.hook}"
        yield from state.scopes.leave(record.path, why, "pause")
        return
    pending: list[WaitingCall] = []
    for place, call in enumerate(event.pending):
        yield from tracker.blocks.end_call(call.id)
        if tracker.calls.find(call.id) is None:
            if tracker.calls.has_answered(call.id):
                tracker.calls.expect(call)
            else:
                yield from tracker.calls.announce(call, tracker.blocks.response)
        waiting = tracker.calls.take(call.id)
        is_unknown = place < len(event.places) and event.places[place] in event.unknown
        is_asked = event.paused_at is not None and place == event.approved_count
        pending.append(
            WaitingCall(waiting.shown if waiting else call.id, call, is_asked or is_unknown)
        )
    state.is_over = True
    yield from state.scopes.end("", NOT_RUN)
    yield ViewPause(state.run, event.hook, event.reason, tuple(pending))


HANDLERS: dict[
    type[object], Callable[[TrackerState, ScopeTracker, Record, Any], Iterator[Change]]
] = {
    RunStart: run_start,
    RunResume: run_start,
    TurnStart: turn_start,
    TurnStop: turn_stop,
    AttemptStart: attempt_start,
    AttemptRetract: attempt_retract,
    Status: status,
    ToolStart: tool_start,
    ToolProgress: tool_progress,
    ToolStop: tool_stop,
    ToolOutput: tool_output,
    MessageAdd: message_add,
    RunStop: run_stop,
    RunAbort: run_abort,
    RunPause: run_pause,
    **dict.fromkeys(BLOCK_EVENTS, block),
}
