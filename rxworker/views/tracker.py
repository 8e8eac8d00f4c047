"""From the records of a run to the changes that a person is shown; see `rxworker.views.changes`.

The table of handlers is `HANDLERS`: the changes that each kind of event makes, except for the events that only make a
note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import astuple, replace

from rxworker import events
from rxworker.events.kinds import BLOCK_EVENTS, HIDDEN
from rxworker.events.pause import CLIENT_TOOL, TreeCall
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.state import BlockState, ResponseState, RunState
from rxworker.state.block import joined
from rxworker.views import changes
from rxworker.views.call_tracker import CallTracker
from rxworker.views.scopes import NOT_RUN, ScopeTracker

Path = tuple[str, ...]

CUT = "the turn ended before it was whole"


class Tracker:
    """Takes the records of one run as a watcher receives them, and returns changes.

    The records may begin in the middle, be merged, have gaps, and stop anywhere. The changes begin with `ViewBegin` and
    end with one of `ViewPause`, `ViewFinish`, `ViewAbort` and `ViewCut`. Every block is opened before it grows and is
    closed at the end, and every call that was shown gets exactly one result.

    Args:
        is_detailed: Whether to return also what the protocols have no place for: the blocks of further choices, and
            arguments that come by their paths while the call is open (`ArgumentValue`).
        goes_on: Whether changes may follow a `ViewAbort`, of a run that was put back. Protocols have no such message:
            for them the run is over.

    Attributes:
        seq: The number of the last record.
        is_over: Whether the last change has been returned.

    Example:
        >>> from rxworker.events import Record, TextDelta
        >>> tracker = Tracker()
        >>> record = Record(seq=7, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> [type(change).__name__ for change in tracker.feed(record)]
        ['ViewBegin', 'StepOpen', 'BlockOpen', 'BlockGrow']
        >>> [type(change).__name__ for change in tracker.close("disconnected")]
        ['BlockClose', 'StepClose', 'ViewCut']
    """

    def __init__(self, *, is_detailed: bool = False, goes_on: bool = False) -> None:
        self.seq = 0
        self.is_over = False
        self._is_detailed = is_detailed
        self._goes_on = goes_on
        self._run = ""
        self._has_begun = False
        self._sees_all = False
        self._scopes: dict[Path, ScopeTracker] = {}
        self._times: Counter[Path] = Counter()
        self._refused: set[str] = set()  # calls that a person refused, whose results follow

    def feed(self, record: events.Record) -> list[changes.Change]:
        """Return the changes that a record makes. A record that was seen already makes none."""
        kind = type(record.event)
        if record.seq <= self.seq or (
            self.is_over and not (self._goes_on and kind is events.RunRequeue and not record.path)
        ):
            return []
        self.seq = record.seq
        made: list[changes.Change] = []
        if not self._has_begun:
            made.extend(self._begin(record))
        if kind in HIDDEN:
            return made
        if (handler := HANDLERS.get(kind)) is None:
            # It opens nothing, not even a scope, or its type is unknown here: a custom one, or one of a later version.
            if isinstance(record.event, events.Gap):
                for each in self._scopes.values():
                    each.response.is_all_seen = False
            tracker = self._scopes.get(record.path)
            made.append(changes.Note(changes.Scope(path=record.path) if tracker is None else tracker.scope, record))
            return made
        tracker = self._enter(record.path, made)
        made.extend(handler(self, tracker, record, record.event))
        return made

    def catch_up(self, state: RunState, run_id: str) -> list[changes.Change]:
        """Return the changes that bring a late watcher to this state.

        `ViewBegin` with the conversation, the shared state, and the blocks of the current response.

        Args:
            state: The state before the first record that the watcher receives.
            run_id: The run's id.
        """
        if self._has_begun:
            return []
        self.seq = state.seq
        begin = events.RunResume(
            state.conversation,
            events.PauseState(
                "" if state.pause is None else state.pause.hook,
                tuple([events.PausedCall(c.place, c.call) for c in state.calls if c.result is None]),
                (),
                refused={c.place: c.result for c in state.calls if c.result is not None},
            ),
            own_tools=state.own_tools,
        )
        made = list(self._begin(events.Record(state.seq, run_id, 0, 0, 0.0, begin)))
        self._refused.clear()
        if state.shared_state is not None:
            whole = events.SharedStateChange("replace", "", state.shared_state)
            made.append(changes.Note(changes.Scope(), events.Record(state.seq, run_id, 0, 0, 0.0, whole)))
        tracker = self._scopes[()]
        response = None if state.is_closed else state.response
        if response is not None:
            tracker.catch_up(state.seq, has_started=response.status is not None)
            for event in replay_events(response):
                made.extend(tracker.feed(event))
        for result in state.results:
            made.extend(tracker.end_call(result.tool_use_id))
            made.extend(tracker.calls.answer(result, again=True))
        return made

    def close(self, reason: str) -> list[changes.Change]:
        """Return the last changes for a watcher that receives no more records; none if the run has ended.

        Args:
            reason: Why there are no more records. Shown to users; not interpreted.
        """
        if self.is_over:
            return []
        made: list[changes.Change] = [] if self._has_begun else [changes.ViewBegin("")]
        self._has_begun = True
        made.extend(self._end(reason, None))
        made.append(changes.ViewCut(reason))
        return made

    def _begin(self, record: events.Record) -> changes.Changes:
        self._has_begun, self._run = True, record.run_id
        # No response is missed by a watcher from the first record on, also where no `AttemptStart` begins it.
        self._sees_all = record.first <= 1
        event = None if record.path else record.event
        before = event.conversation if isinstance(event, events.RunStart | events.RunResume) else None
        messages = () if before is None else before.messages
        used = Counter(call.id for message in messages for call in message.tool_calls)
        last = next((message.tool_calls for message in reversed(messages) if message.role == "assistant"), ())
        calls = CallTracker(changes.Scope(), used, {call.id: call for call in last})
        self._scopes[()] = ScopeTracker(calls, self._run, is_detailed=self._is_detailed, sees_all=self._sees_all)
        pending: tuple[changes.WaitingCall, ...] = ()
        inside: tuple[changes.WaitingCall, ...] = ()
        if isinstance(event, events.RunResume):
            is_offered = event.pause.hook == CLIENT_TOOL
            self._refused = {result.tool_use_id for result in event.pause.refused.values()}
            calls.answered |= self._refused
            calls.own_tools = event.own_tools
            pending = tuple(
                changes.WaitingCall(
                    each.call,
                    id=calls.expect(each.call).id,
                    is_held=not is_offered and calls.is_held(each.call.name),
                    is_offered=is_offered and calls.is_held(each.call.name),
                    place=each.place,
                )
                for each in event.pause.calls
            )
            inside = tuple(map(_waiting, event.pause.decided_inside))
        yield changes.ViewBegin(record.run_id, before, pending, inside)

    def _enter(self, path: Path, made: list[changes.Change]) -> ScopeTracker:
        """The scope of this path; it and its parents are opened if they are not open."""
        if (tracker := self._scopes.get(path)) is not None:
            return tracker
        around = self._enter(path[:-1], made)
        self._times[path] += 1
        again = self._times[path]
        call = around.calls.find(path[-1])
        scope = changes.Scope(
            id="/".join(path) + (f"~{again}" if again > 1 else ""),
            path=path,
            name=call.tool if call else "",
            call_id=call.id if call else "",
            parent=around.scope.id,
        )
        calls = CallTracker(scope, Counter())
        tracker = ScopeTracker(calls, self._run, is_detailed=False, sees_all=self._sees_all)
        self._scopes[path] = tracker
        made.append(changes.ScopeOpen(scope))
        return tracker

    def _leave(self, path: Path, error: str | None, cause: str = "", answer: str | None = NOT_RUN) -> changes.Changes:
        """Close the scope of a run inside, and those inside it."""
        below = [other for other in self._scopes if other[: len(path)] == path and other != path]
        for other in (*sorted(below, key=len, reverse=True), path):
            if (tracker := self._scopes.pop(other, None)) is not None:
                why, what = (error, cause) if other == path else ("the run around it ended", "")
                yield from tracker.end(why or "", answer)
                yield changes.ScopeClose(tracker.scope, why, what)

    def _end(self, reason: str, answer: str | None) -> changes.Changes:
        """The run is over: close all scopes inside, and end what is open in the run itself."""
        self.is_over = True
        for path in [path for path in self._scopes if len(path) == 1]:
            yield from self._leave(path, reason or "the run around it ended", answer=answer)
        if () in self._scopes:
            yield from self._scopes[()].end(reason, answer)

    def _tool_stop(self, tracker: ScopeTracker, record: events.Record, event: events.ToolStop) -> changes.Changes:
        """A tool has ended. Its result follows later if hooks may change it."""
        result = event.result
        native = event.call_id
        yield from self._leave((*record.path, native), "its call has ended")
        yield from tracker.end_call(native)
        if result is None:
            tracker.calls.seconds[native] = event.seconds
            yield changes.Note(tracker.scope, record)
            return
        if result.content == DISCARDED_EARLY and tracker.calls.find(native) is not None:
            yield changes.Note(tracker.scope, record)  # the call may be run again
            return
        again = not record.path and native in self._refused
        self._refused.discard(native)
        yield from tracker.calls.answer(result, event.seconds, is_denied=again and result.is_error, again=again)

    def _run_start(
        self, tracker: ScopeTracker, record: events.Record, _: events.RunStart | events.RunResume
    ) -> changes.Changes:
        """A run starts or resumes."""
        if record.path and tracker.has_begun:
            yield from self._leave(record.path, "it began anew")
            made: list[changes.Change] = []
            tracker = self._enter(record.path, made)
            yield from made
        tracker.has_begun = True

    def _run_stop(self, tracker: ScopeTracker, record: events.Record, _: events.RunStop) -> changes.Changes:
        """A run has finished."""
        if record.path:
            yield from self._leave(record.path, None)
            return
        yield from self._end("", NOT_RUN)
        yield changes.ViewFinish(tracker.stop_reason)

    def _run_abort(self, _: ScopeTracker, record: events.Record, event: events.RunAbort) -> changes.Changes:
        """A run ended without a result."""
        if record.path:
            yield from self._leave(record.path, event.reason or event.cause, event.cause)
            return
        yield from self._end(event.reason, f"{NOT_RUN} The run ended: {event.reason}")
        yield changes.ViewAbort(event.cause, event.reason)

    def _run_requeue(self, tracker: ScopeTracker, record: events.Record, _: events.RunRequeue) -> changes.Changes:
        """A run that was aborted goes on."""
        if not record.path:
            self.is_over = False
        yield changes.Note(tracker.scope, record)

    def _run_pause(self, tracker: ScopeTracker, record: events.Record, event: events.RunPause) -> changes.Changes:
        """A run pauses: its pending calls wait, and all other calls get a placeholder."""
        pause = event.pause
        if record.path:
            for each in pause.calls:  # they have no result yet
                yield from tracker.end_call(each.call.id)
                tracker.calls.take(each.call.id)
            yield from self._leave(record.path, f"it paused: {pause.reason or pause.hook}", "pause")
            return
        pending: list[changes.WaitingCall] = []
        is_offered = pause.hook == CLIENT_TOOL
        for node in pause.tree:
            call = node.call
            if node.path:
                pending.append(_waiting(node))
                continue
            shown = yield from tracker.find_call(call)
            tracker.calls.take(call.id)
            is_held = not is_offered and tracker.calls.is_held(call.name)
            pending.append(replace(_waiting(node), id=shown.id, is_held=is_held))
            if is_offered:
                yield changes.CallOffer(tracker.scope, shown.id, call)
        yield from self._end("", NOT_RUN)
        yield changes.ViewPause(self._run, pause.hook, pause.reason, tuple(pending))


def _waiting(node: TreeCall) -> changes.WaitingCall:
    return changes.WaitingCall(*astuple(node), id=node.name)


def _block(_: Tracker, tracker: ScopeTracker, record: events.Record, event: events.BlockEvent) -> changes.Changes:
    """An event of a block."""
    yield from tracker.enter(record.turn, record.attempt)
    if tracker.turn is None and record.turn:
        yield from tracker.open_step(record.turn)
    yield from tracker.feed(event)


def _turn_start(_: Tracker, tracker: ScopeTracker, record: events.Record, __: events.TurnStart) -> changes.Changes:
    """A turn starts: everything that the turn before left open ends."""
    yield from tracker.end(CUT)
    yield from tracker.open_step(record.turn)


def _turn_stop(_: Tracker, tracker: ScopeTracker, __: events.Record, ___: events.TurnStop) -> changes.Changes:
    """A turn has ended."""
    yield from tracker.end(CUT)


def _attempt(_: Tracker, tracker: ScopeTracker, record: events.Record, event: events.AttemptStart) -> changes.Changes:
    """A request starts."""
    tracker.calls.own_tools = event.own_tools
    yield from tracker.enter(record.turn, record.attempt, is_start=True)
    yield changes.Note(tracker.scope, record)


def _retract(_: Tracker, tracker: ScopeTracker, record: events.Record, event: events.AttemptRetract) -> changes.Changes:
    """An attempt is retracted."""
    yield from tracker.retract(event.reason)
    yield changes.Note(tracker.scope, record)


def _status(_: Tracker, tracker: ScopeTracker, record: events.Record, event: events.Status) -> changes.Changes:
    """A response starts or has ended; a second start retracts the first."""
    yield from tracker.enter(record.turn, record.attempt)
    if event.status is events.ResponseStatus.STARTED:
        yield from tracker.start()
    tracker.stop_reason = event.stop_reason or tracker.stop_reason
    yield changes.Note(tracker.scope, record)


def _tool_start(_: Tracker, tracker: ScopeTracker, __: events.Record, event: events.ToolStart) -> changes.Changes:
    """A tool starts. A call that was not shown yet is shown with its arguments."""
    shown = yield from tracker.find_call(event.call, starts=True)
    is_held = tracker.calls.is_held(event.call.name, starts=True)
    yield changes.CallStart(tracker.scope, shown.id, event.call, is_held=is_held)


def _tool_progress(_: Tracker, tracker: ScopeTracker, __: events.Record, event: events.ToolProgress) -> changes.Changes:
    """A tool reports progress."""
    waiting = tracker.calls.find(event.call_id)
    shown = waiting.id if waiting else tracker.calls.shown_id(event.call_id)
    yield changes.CallProgress(tracker.scope, shown, event.progress)


def _tool_output(_: Tracker, tracker: ScopeTracker, __: events.Record, event: events.ToolOutput) -> changes.Changes:
    """A result as the hooks left it."""
    yield from tracker.calls.answer(event.result)


def _message_add(_: Tracker, tracker: ScopeTracker, record: events.Record, event: events.MessageAdd) -> changes.Changes:
    """Messages are added to the conversation, with the results that they hold."""
    for message in event.messages:
        for result in message.tool_results:
            yield from tracker.end_call(result.tool_use_id)
            yield from tracker.calls.answer(result)
    yield changes.Note(tracker.scope, record)


HANDLERS: dict[type[object], Callable[[Tracker, ScopeTracker, events.Record, Any], changes.Changes]] = {
    events.RunStart: Tracker._run_start,
    events.RunResume: Tracker._run_start,
    events.ToolStop: Tracker._tool_stop,
    events.RunStop: Tracker._run_stop,
    events.RunAbort: Tracker._run_abort,
    events.RunRequeue: Tracker._run_requeue,
    events.RunPause: Tracker._run_pause,
    events.TurnStart: _turn_start,
    events.TurnStop: _turn_stop,
    events.AttemptStart: _attempt,
    events.AttemptRetract: _retract,
    events.Status: _status,
    events.ToolStart: _tool_start,
    events.ToolProgress: _tool_progress,
    events.ToolOutput: _tool_output,
    events.MessageAdd: _message_add,
    **dict.fromkeys(BLOCK_EVENTS, _block),
}
"""What becomes of an event: of the run and the scopes inside it; by a function, of its scope alone."""


def replay_events(response: ResponseState) -> Iterator[events.BlockEvent]:
    """Return the events that make the blocks of a response, each text in one delta; open blocks stay open.

    >>> from rxworker.state import step_response
    >>> state = step_response(step_response(ResponseState(), events.TextDelta(0, "hel")), events.TextDelta(0, "lo"))
    >>> [type(event).__name__ for event in replay_events(state)]
    ['BlockStart', 'TextDelta']
    """
    for block in response.blocks:
        yield from _replay_block(block)


def _replay_block(block: BlockState) -> Iterator[events.BlockEvent]:
    index, kind = block.index, block.block_type
    yield events.BlockStart(index, kind, block.metadata, block.echo, block.choice)
    if (delta := _DELTAS.get(kind)) is not None and block.text:
        yield delta(index, joined(block.text))
    yield from block.values
    if block.signature is not None:
        yield events.SignatureDelta(index, block.signature)
    for citation in block.citations:
        yield events.CitationDelta(index, citation)
    if block.phase == "stopped":
        yield events.BlockStop(index, kind, block.stop_reason, metadata=block.metadata)
    elif block.phase == "aborted":
        yield events.BlockAbort(index, kind, block.reason)


_DELTAS = {
    events.BlockType.TEXT: events.TextDelta,
    events.BlockType.TOOL_RESULT: events.TextDelta,
    events.BlockType.THINKING: events.ThinkingDelta,
    events.BlockType.REFUSAL: events.RefusalDelta,
    events.BlockType.TOOL_USE: events.InputJsonDelta,
    events.BlockType.SERVER_TOOL_USE: events.InputJsonDelta,
}
