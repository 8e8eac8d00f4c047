"""From the records of a run to the changes that a person is shown; see `rxworker.views.changes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rxworker.events import (
    BlockAbort,
    BlockEvent,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Gap,
    InputJsonDelta,
    Record,
    RefusalDelta,
    RunResume,
    RunStart,
    SharedStateChange,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from rxworker.events.kinds import HIDDEN
from rxworker.messages import Conversation, ToolCall
from rxworker.state import BlockState, ResponseState, RunState
from rxworker.state.pieces import joined
from rxworker.views.call_tracker import CallTracker
from rxworker.views.changes import Change, Note, Scope, ViewBegin, ViewCut, WaitingCall
from rxworker.views.handlers import HANDLERS
from rxworker.views.scopes import TrackerState


class Tracker:
    """Takes the records of one run as a watcher receives them, and returns changes.

    The records may begin in the middle, be merged, have gaps, and stop anywhere. The changes begin with `ViewBegin` and end with
    one of `ViewPause`, `ViewFinish`, `ViewAbort` and `ViewCut`. Every block is opened before it grows and is closed at the end, and every call that was
    shown gets exactly one result.

    Args:
        is_detailed: Whether to return also what the protocols have no place for: the blocks of further choices, and arguments that come
            by their paths while the call is open (`ArgumentValue`).

    Example:
        >>> from rxworker.events import TextDelta
        >>> tracker = Tracker()
        >>> record = Record(seq=7, run="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> [type(change).__name__ for change in tracker.feed(record)]
        ['ViewBegin', 'StepOpen', 'BlockOpen', 'BlockGrow']
        >>> [type(change).__name__ for change in tracker.close("disconnected")]
        ['BlockClose', 'StepClose', 'ViewCut']
    """

    def __init__(self, *, is_detailed: bool = False) -> None:
        self._state = TrackerState(is_detailed=is_detailed)

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
        state = self._state
        if state.is_over or record.seq <= state.seq:
            return []
        state.seq = record.seq
        changes: list[Change] = []
        if not state.has_begun:
            changes.extend(self._begin(record))
        kind = type(record.event)
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

    def catch_up(self, state: RunState, run: str) -> list[Change]:
        """Return the changes that bring a late watcher to this state: `ViewBegin` with the conversation, the shared state, and the blocks of the current response.

        Args:
            state: The state before the first record that the watcher receives.
            run: The run's id.
        """
        tracked = self._state
        if tracked.has_begun:
            return []
        tracked.seq = state.seq
        begin = RunResume(state.conversation, state.pending, state.results)
        changes = list(self._begin(Record(state.seq, run, 0, 0, 0.0, begin)))
        tracked.refused.clear()
        if state.shared_state is not None:
            whole = SharedStateChange("replace", "", state.shared_state)
            changes.append(Note(Scope(), Record(state.seq, run, 0, 0, 0.0, whole)))
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
        state.has_begun, state.run = True, record.run
        event = None if record.path else record.event
        before = event.conversation if isinstance(event, RunStart | RunResume) else None
        messages = () if before is None else before.messages
        used = Counter(call.id for message in messages for call in message.tool_calls)
        calls = CallTracker(Scope(), used, _last_calls(before))
        state.scopes.begin(record.run, calls)
        pending: tuple[WaitingCall, ...] = ()
        if isinstance(event, RunResume):
            for result in event.refused:
                state.refused.add(result.tool_use_id)
                calls.note_answered(result.tool_use_id)
            pending = tuple(WaitingCall(calls.expect(call).shown, call) for call in event.pending)
        yield ViewBegin(record.run, before, pending)

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
