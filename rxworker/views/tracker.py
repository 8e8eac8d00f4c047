"""From the records of a run to the changes that a person is shown; see `rxworker.views.changes`.

The table of handlers is `HANDLERS`: the changes that each kind of event makes, except for the events that only make a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Gap,
    InputJsonDelta,
    MessageAdd,
    PausedCall,
    PauseState,
    Record,
    RefusalDelta,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunRequeue,
    RunResume,
    RunStart,
    RunStop,
    SharedStateChange,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    ToolProgress,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)
from rxworker.events.kinds import BLOCK_EVENTS, HIDDEN
from rxworker.events.pause import CLIENT_TOOL
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.messages import Conversation, ToolCall
from rxworker.state import BlockState, ResponseState, RunState
from rxworker.state.pieces import joined
from rxworker.views.call_tracker import CallTracker
from rxworker.views.changes import (
    CallOffer,
    CallProgress,
    CallStart,
    Change,
    Note,
    Scope,
    ViewAbort,
    ViewBegin,
    ViewCut,
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
    _state: TrackerState, tracker: ScopeTracker, record: Record, event: AttemptStart
) -> Iterator[Change]:
    """A request starts."""
    tracker.calls.own_tools = event.own_tools
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
        yield from tracker.calls.announce(call, tracker.blocks.response, starts=True)
        waiting = tracker.calls.find(call.id)
    if waiting is not None:
        is_held = tracker.calls.is_held(call.name, starts=True)
        yield CallStart(tracker.scope, waiting.shown, call, is_held=is_held)


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


def run_requeue(
    state: TrackerState, tracker: ScopeTracker, record: Record, _: RunRequeue
) -> Iterator[Change]:
    """A run that was aborted goes on."""
    if not record.path:
        state.is_over = False
    yield Note(tracker.scope, record)


def run_pause(
    state: TrackerState, tracker: ScopeTracker, record: Record, event: RunPause
) -> Iterator[Change]:
    """A run pauses: its pending calls wait, and all other calls get a placeholder."""
    pause = event.pause
    if record.path:
        why = f"it paused: {pause.reason or pause.hook}"
        yield from state.scopes.leave(record.path, why, "pause")
        return
    pending: list[WaitingCall] = []
    is_offered = pause.hook == CLIENT_TOOL
    for index, call in enumerate(pause.pending):
        yield from tracker.blocks.end_call(call.id)
        if tracker.calls.find(call.id) is None:
            if tracker.calls.has_answered(call.id):
                tracker.calls.expect(call)
            else:
                yield from tracker.calls.announce(call, tracker.blocks.response)
        waiting = tracker.calls.take(call.id)
        shown = waiting.shown if waiting else call.id
        is_held = not is_offered and tracker.calls.is_held(call.name)
        pending.append(WaitingCall(shown, call, index in pause.required, is_held=is_held))
        if is_offered:
            yield CallOffer(tracker.scope, shown, call)
    state.is_over = True
    yield from state.scopes.end("", NOT_RUN)
    yield ViewPause(state.run, pause.hook, pause.reason, tuple(pending))


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
    RunRequeue: run_requeue,
    RunPause: run_pause,
    **dict.fromkeys(BLOCK_EVENTS, block),
}


class Tracker:
    """Takes the records of one run as a watcher receives them, and returns changes.

    The records may begin in the middle, be merged, have gaps, and stop anywhere. The changes begin with `ViewBegin` and end with
    one of `ViewPause`, `ViewFinish`, `ViewAbort` and `ViewCut`. Every block is opened before it grows and is closed at the end, and every call that was
    shown gets exactly one result.

    Args:
        is_detailed: Whether to return also what the protocols have no place for: the blocks of further choices, and arguments that come
            by their paths while the call is open (`ArgumentValue`).
        goes_on: Whether changes may follow a `ViewAbort`, of a run that was put back. Protocols have no such message: for them the run is over.

    Example:
        >>> from rxworker.events import TextDelta
        >>> tracker = Tracker()
        >>> record = Record(seq=7, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> [type(change).__name__ for change in tracker.feed(record)]
        ['ViewBegin', 'StepOpen', 'BlockOpen', 'BlockGrow']
        >>> [type(change).__name__ for change in tracker.close("disconnected")]
        ['BlockClose', 'StepClose', 'ViewCut']
    """

    def __init__(self, *, is_detailed: bool = False, goes_on: bool = False) -> None:
        self._state = TrackerState(is_detailed=is_detailed)
        self._goes_on = goes_on

    @property
    def seq(self) -> int:
        """The number of the last record."""
        return self._state.seq

    @property
    def is_over(self) -> bool:
        """Whether the last change has been returned."""
        return self._state.is_over

    def feed(self, record: Record) -> list[Change]:
        """Return the changes that a record makes. A record that was seen already makes none."""
        state, kind = self._state, type(record.event)
        if record.seq <= state.seq or (
            state.is_over and not (self._goes_on and kind is RunRequeue and not record.path)
        ):
            return []
        state.seq = record.seq
        changes: list[Change] = []
        if not state.has_begun:
            changes.extend(self._begin(record))
        if kind in HIDDEN:
            return changes
        handler = HANDLERS.get(kind)
        if handler is None:
            # It opens nothing, or its type is unknown here: a custom one, or one of a later version.
            changes.extend(self._note(record))
            return changes
        tracker = state.scopes.enter(record.path, changes)
        changes.extend(handler(state, tracker, record, record.event))
        return changes

    def catch_up(self, state: RunState, run_id: str) -> list[Change]:
        """Return the changes that bring a late watcher to this state: `ViewBegin` with the conversation, the shared state, and the blocks of the current response.

        Args:
            state: The state before the first record that the watcher receives.
            run_id: The run's id.
        """
        tracked = self._state
        if tracked.has_begun:
            return []
        tracked.seq = state.seq
        begin = RunResume(
            state.conversation,
            PauseState(
                "" if state.pause is None else state.pause.hook,
                tuple([PausedCall(c.place, c.call) for c in state.calls if c.result is None]),
                (),
                refused={c.place: c.result for c in state.calls if c.result is not None},
            ),
            own_tools=state.own_tools,
        )
        changes = list(self._begin(Record(state.seq, run_id, 0, 0, 0.0, begin)))
        tracked.refused.clear()
        if state.shared_state is not None:
            whole = SharedStateChange("replace", "", state.shared_state)
            changes.append(Note(Scope(), Record(state.seq, run_id, 0, 0, 0.0, whole)))
        tracker = tracked.scopes.enter((), changes)
        response = None if state.is_closed else state.response
        if response is not None:
            tracker.blocks.catch_up(state.seq, has_started=response.status is not None)
            for event in replay_events(response):
                changes.extend(tracker.blocks.feed(event))
        for result in state.results:
            changes.extend(tracker.blocks.end_call(result.tool_use_id))
            changes.extend(tracker.calls.answer(result, again=True))
        return changes

    def close(self, reason: str) -> list[Change]:
        """Return the last changes for a watcher that receives no more records; none if the run has ended.

        Args:
            reason: Why there are no more records, for people.
        """
        state = self._state
        if state.is_over:
            return []
        changes: list[Change] = [] if state.has_begun else [ViewBegin("")]
        state.has_begun = state.is_over = True
        changes.extend(state.scopes.end(reason, None))
        changes.append(ViewCut(reason))
        return changes

    def _begin(self, record: Record) -> Iterator[Change]:
        state = self._state
        state.has_begun, state.run = True, record.run_id
        event = None if record.path else record.event
        before = event.conversation if isinstance(event, RunStart | RunResume) else None
        messages = () if before is None else before.messages
        used = Counter(call.id for message in messages for call in message.tool_calls)
        calls = CallTracker(Scope(), used, _last_calls(before))
        state.scopes.begin(record.run_id, calls)
        pending: tuple[WaitingCall, ...] = ()
        places: tuple[int, ...] = ()
        if isinstance(event, RunResume):
            is_offered = event.pause.hook == CLIENT_TOOL
            for result in event.pause.refused.values():
                state.refused.add(result.tool_use_id)
                calls.note_answered(result.tool_use_id)
            calls.own_tools = event.own_tools
            pending = tuple(
                WaitingCall(
                    calls.expect(call).shown,
                    call,
                    is_held=not is_offered and calls.is_held(call.name),
                    is_offered=is_offered and calls.is_held(call.name),
                )
                for call in event.pause.pending
            )
            places = tuple([each.place for each in event.pause.calls])
        yield ViewBegin(record.run_id, before, pending, places)

    def _note(self, record: Record) -> Iterator[Change]:
        """A note opens nothing, not even a scope."""
        state = self._state
        if isinstance(record.event, Gap):
            for each in state.scopes:
                each.blocks.note_gap()
        tracker = state.scopes.find(record.path)
        yield Note(Scope(path=record.path) if tracker is None else tracker.scope, record)


def replay_events(response: ResponseState) -> Iterator[BlockEvent]:
    """Return the events that make the blocks of a response, each text in one delta; open blocks stay open.

    >>> from rxworker.state import step_response
    >>> state = step_response(step_response(ResponseState(), TextDelta(0, "hel")), TextDelta(0, "lo"))
    >>> [type(event).__name__ for event in replay_events(state)]
    ['BlockStart', 'TextDelta']
    """
    for block in response.blocks:
        yield from _replay_block(block)


def _replay_block(block: BlockState) -> Iterator[BlockEvent]:
    index, kind = block.index, block.block_type
    yield BlockStart(index, kind, block.metadata, block.echo, block.choice)
    delta = _DELTAS.get(kind)
    if delta is not None and block.text:
        yield delta(index, joined(block.text))
    yield from block.values
    if block.signature is not None:
        yield SignatureDelta(index, block.signature)
    for citation in block.citations:
        yield CitationDelta(index, citation)
    if block.phase == "stopped":
        yield BlockStop(index, kind, block.stop_reason, metadata=block.metadata)
    elif block.phase == "aborted":
        yield BlockAbort(index, kind, block.reason)


_DELTAS = {
    BlockType.TEXT: TextDelta,
    BlockType.TOOL_RESULT: TextDelta,
    BlockType.THINKING: ThinkingDelta,
    BlockType.REFUSAL: RefusalDelta,
    BlockType.TOOL_USE: InputJsonDelta,
    BlockType.SERVER_TOOL_USE: InputJsonDelta,
}


def _last_calls(conversation: Conversation | None) -> dict[str, ToolCall]:
    """The calls of the last assistant message, by their ids."""
    messages = () if conversation is None else conversation.messages
    calls = next((m.tool_calls for m in reversed(messages) if m.role == "assistant"), ())
    return {call.id: call for call in calls}
