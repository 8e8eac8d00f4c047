"""How AG-UI is told that a run begins, takes its turns, and ends or waits."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.messages import Conversation, JsonObject
from rxworker.protocols.ag_ui.snapshot import messages_of
from rxworker.protocols.ag_ui.tally import Tally
from rxworker.protocols.ag_ui.wire import (
    AgUiEvent,
    Interrupt,
    MessagesSnapshot,
    Outcome,
    RunError,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    ours,
)
from rxworker.protocols.common.interrupts import interrupt_id
from rxworker.views import (
    StepClose,
    StepOpen,
    ViewAbort,
    ViewBegin,
    ViewCut,
    ViewFinish,
    ViewPause,
    WaitingCall,
)

ANSWER_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {
            "type": "object",
            "description": "Other arguments for the call, all of them.",
        },
        "reason": {"type": "string", "description": "Why not, for the model."},
    },
    "required": ["approved"],
}
MESSAGE_SCHEMA: JsonObject = {"type": "string", "description": "What to say to the model."}


class RunEvents:
    """The events of a run as a whole.

    Args:
        thread_id: The client's name for the conversation.
        run_id: The client's name for the run.
        is_new: Whether the client declared version 1.0 or a later one.
        snapshot: Whether to tell first what was said before.
        parent_run_id: The run that the client branched off.
        tally: Its tokens.

    Attributes:
        snapshot: Whether to tell first what was said before.

    >>> from rxworker.views import ViewFinish
    >>> events = RunEvents("thread-1", "run-1", is_new=True, snapshot=False, parent_run_id=None, tally=Tally())
    >>> [event.outcome.type for event in events.finish(ViewFinish())]
    ['success']
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        *,
        is_new: bool,
        snapshot: bool,
        parent_run_id: str | None,
        tally: Tally,
    ) -> None:
        self._thread_id = thread_id
        self._run_id = run_id
        self._is_new = is_new
        self._parent_run_id = parent_run_id
        self._tally = tally
        self.snapshot = snapshot

    def begin(self, change: ViewBegin) -> Iterator[AgUiEvent]:
        """It begins."""
        # A client that did not declare a version may not know the field.
        protocol = "1.0" if self._is_new else None
        yield RunStarted(self._thread_id, self._run_id, protocol, self._parent_run_id)
        if self.snapshot:
            said = change.conversation or Conversation()
            yield MessagesSnapshot(messages_of(said, change.run))

    def finish(self, _: ViewFinish) -> Iterator[AgUiEvent]:
        """It has finished."""
        yield self._finished(Outcome("success"))

    def pause(self, change: ViewPause) -> Iterator[AgUiEvent]:
        """It waits, and asks."""
        asked = [call for call in change.pending if call.needs_decision]
        interrupts = tuple(_interrupt(change, call) for call in asked)
        if not interrupts:
            name = interrupt_id(change.run, "")
            why = change.reason or f"{change.hook} has paused the run"
            metadata = ours({"hook": change.hook})
            at_end = Interrupt(name, "input_required", why, None, MESSAGE_SCHEMA, metadata)
            interrupts = (at_end,)
        yield self._finished(Outcome("interrupt", interrupts))

    def abort(self, change: ViewAbort) -> Iterator[AgUiEvent]:
        """It ended without a result."""
        if change.cause == "cancel" and self._is_new:
            yield self._finished(Outcome("cancelled"))
        else:
            yield RunError(change.reason or change.cause, change.cause, self._tally.usage)

    def cut(self, change: ViewCut) -> Iterator[AgUiEvent]:
        """The watcher hears no more of it."""
        yield RunError(change.reason, "detached", self._tally.usage)

    def open_step(self, change: StepOpen) -> Iterator[AgUiEvent]:
        """A turn begins."""
        yield StepStarted(f"turn {change.turn}", change.scope.id or None)

    def close_step(self, change: StepClose) -> Iterator[AgUiEvent]:
        """A turn is over."""
        yield StepFinished(f"turn {change.turn}", change.scope.id or None)

    def _finished(self, outcome: Outcome) -> RunFinished:
        return RunFinished(self._thread_id, self._run_id, outcome, self._tally.usage)


def _interrupt(change: ViewPause, pending: WaitingCall) -> Interrupt:
    call = pending.call
    return Interrupt(
        interrupt_id(change.run, call.id),
        "tool_call",
        change.reason or f"May {call.name} be called?",
        pending.id,
        ANSWER_SCHEMA,
        ours({"hook": change.hook, "name": call.name, "input": call.input}),
    )


__all__ = ["ANSWER_SCHEMA", "MESSAGE_SCHEMA", "RunEvents"]
