"""From records to changes that keep the rules of a protocol for user interfaces; see `rxworker.protocols.common.changes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Gap,
    MessageAdd,
    Record,
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
from rxworker.events.kinds import BLOCK_EVENTS, HIDDEN
from rxworker.messages import Conversation, ToolCall
from rxworker.protocols.common.call_book import CallBook
from rxworker.protocols.common.calls import (
    message_add,
    tool_output,
    tool_progress,
    tool_start,
    tool_stop,
)
from rxworker.protocols.common.changes import (
    Begin,
    Change,
    Cut,
    Note,
    PendingCall,
    Scope,
)
from rxworker.protocols.common.rooms import Room
from rxworker.protocols.common.runs import run_abort, run_pause, run_start, run_stop
from rxworker.protocols.common.story import Story
from rxworker.protocols.common.told_again import told_again
from rxworker.protocols.common.turns import (
    attempt_retract,
    attempt_start,
    block,
    status,
    turn_start,
    turn_stop,
)
from rxworker.state import RunState


class Tracker:
    """Takes the records of one run as a watcher gets them, and returns changes.

    The records may begin in the middle, be merged, have gaps, and stop anywhere. The changes begin with `Begin` and end with
    one of `Pause`, `Finish`, `Abort` and `Cut`; what grows has been opened, what was opened is closed, and a call that was
    shown has one result.

    Example:
        >>> from rxworker.events import TextDelta
        >>> tracker = Tracker()
        >>> record = Record(seq=7, run="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> [type(change).__name__ for change in tracker.feed(record)]
        ['Begin', 'StepOpen', 'BlockOpen', 'BlockGrow']
        >>> [type(change).__name__ for change in tracker.close("it was cut")]
        ['BlockClose', 'StepClose', 'Cut']
    """

    def __init__(self) -> None:
        self._story = Story()

    @property
    def seq(self) -> int:
        """The number of the last record."""
        return self._story.seq

    @property
    def is_over(self) -> bool:
        """Whether the last change has been returned."""
        return self._story.is_over

    def feed(self, record: Record) -> list[Change]:
        """The changes that a record makes."""
        story = self._story
        if story.is_over or record.seq <= story.seq:
            return []
        story.seq = record.seq
        changes: list[Change] = []
        if not story.has_begun:
            changes.extend(self._begin(record))
        kind = type(record.event)
        if kind in HIDDEN:
            return changes
        handler = HANDLERS.get(kind)
        if handler is None:
            # It opens nothing, or its type is unknown here: a custom one, or one of a later version.
            changes.extend(self._note(record))
            return changes
        room = story.rooms.enter(record.path, changes)
        changes.extend(handler(story, room, record, record.event))
        return changes

    def catch_up(self, state: RunState, run: str) -> list[Change]:
        """The changes that lead a late watcher to this state: `Begin` has what is certain, blocks what is being said.

        Args:
            state: What the records before the first one to come have come to.
            run: The run's id.
        """
        story = self._story
        if story.has_begun:
            return []
        story.seq = state.seq
        begin = RunResume(state.conversation, state.pending, state.results)
        changes = list(self._begin(Record(state.seq, run, 0, 0, 0.0, begin)))
        story.refused.clear()
        room = story.rooms.enter((), changes)
        response = None if state.is_closed else state.response
        if response is not None:
            room.blocks.catch_up(state.seq)
            for event in told_again(response):
                changes.extend(room.blocks.feed(event))
        for result in state.results:
            changes.extend(room.blocks.end_call(result.tool_use_id))
            changes.extend(room.calls.answer(result, again=True))
        return changes

    def close(self, reason: str) -> list[Change]:
        """There are no more records for this watcher. Nothing happens if the run has told of its end."""
        story = self._story
        if story.is_over:
            return []
        changes: list[Change] = [] if story.has_begun else [Begin("")]
        story.has_begun = story.is_over = True
        changes.extend(story.rooms.end(reason, None))
        changes.append(Cut(reason))
        return changes

    def _begin(self, record: Record) -> Iterator[Change]:
        story = self._story
        story.has_begun, story.run = True, record.run
        event = None if record.path else record.event
        said = event.conversation if isinstance(event, RunStart | RunResume) else None
        messages = () if said is None else said.messages
        used = Counter(call.id for message in messages for call in message.tool_calls)
        calls = CallBook(Scope(), used, _last_calls(said))
        story.rooms.begin(record.run, calls)
        pending: tuple[PendingCall, ...] = ()
        if isinstance(event, RunResume):
            for result in event.refused:
                story.refused.add(result.tool_use_id)
                calls.note_answered(result.tool_use_id)
            pending = tuple(PendingCall(calls.expect(call).shown, call) for call in event.pending)
        yield Begin(record.run, said, pending)

    def _note(self, record: Record) -> Iterator[Change]:
        """What opens nothing, not even a scope."""
        story = self._story
        if isinstance(record.event, Gap):
            for each in story.rooms:
                each.blocks.note_gap()
        room = story.rooms.find(record.path)
        yield Note(Scope(path=record.path) if room is None else room.scope, record)


def _last_calls(conversation: Conversation | None) -> dict[str, ToolCall]:
    """The calls of the last answer, by their ids."""
    messages = () if conversation is None else conversation.messages
    calls = next((m.tool_calls for m in reversed(messages) if m.role == "assistant"), ())
    return {call.id: call for call in calls}


HANDLERS: dict[type[object], Callable[[Story, Room, Record, Any], Iterator[Change]]] = {
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

__all__ = ["HANDLERS", "Tracker"]
