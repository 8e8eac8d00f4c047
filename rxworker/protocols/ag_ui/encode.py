"""From the records of a run to the events of AG-UI, and to the bytes of a response.

`AgUiEncoder` has the table from changes to events. The events of the run as a whole and its token usage are here; blocks, calls and notes are
in `content`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from rxworker.events import AttemptStart, Record, ResponseStatus, Status, Usage
from rxworker.events.pause import CLIENT_TOOL
from rxworker.messages import Conversation, JsonObject
from rxworker.messages.pairs import with_calls
from rxworker.protocols.ag_ui.content import (
    BlockEvents,
    call_progress,
    messages_of,
    note,
    retract,
)
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
    TokenUsage,
    ours,
)
from rxworker.protocols.common import RecordEncoder, data_line, interrupt_id, pump
from rxworker.state import RunState
from rxworker.views.changes import (
    BlockClose,
    BlockExtra,
    BlockGrow,
    BlockOpen,
    BlockWhole,
    CallOffer,
    CallProgress,
    CallResult,
    CallStart,
    Change,
    Note,
    Retract,
    ScopeClose,
    ScopeOpen,
    StepClose,
    StepOpen,
    ViewAbort,
    ViewBegin,
    ViewCut,
    ViewFinish,
    ViewPause,
    WaitingCall,
)
from rxworker.worker.decisions import distinct

Encode = Callable[[Any], Iterator[AgUiEvent]]


class AgUiEncoder(RecordEncoder[AgUiEvent]):
    """Encodes the records of one run as events of AG-UI. The events are valid for any records, also incomplete ones.

    Args:
        thread_id: The client's id of the conversation.
        run_id: The client's id of the run.
        protocol: The protocol version in the input of the client; ``None`` for clients before 1.0, which support neither cancelled runs
            nor results with pictures.
        snapshot: Whether to send the conversation so far first, for a client that does not have it.
        parent_run_id: The run that the client branched off, as in its input.
        answered: The ids of the calls whose results the client has sent itself, which are not sent back.

    Example:
        >>> from rxworker.events import TextDelta
        >>> encoder = AgUiEncoder("thread-1", "run-1")
        >>> record = Record(seq=1, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> [type(event).__name__ for event in encoder.feed(record)]
        ['RunStarted', 'StepStarted', 'TextMessageStart', 'TextMessageContent']
        >>> [type(event).__name__ for event in encoder.close("the watcher left")]
        ['TextMessageEnd', 'StepFinished', 'RunError']
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        *,
        protocol: str | None = None,
        snapshot: bool = False,
        parent_run_id: str | None = None,
        answered: Collection[str] = (),
    ) -> None:
        super().__init__()
        is_new = protocol is not None and not protocol.startswith("0.")
        self._totals = UsageTotals()
        blocks = BlockEvents(is_new=is_new)
        self._runs = RunEvents(
            thread_id,
            run_id,
            blocks,
            is_new=is_new,
            snapshot=snapshot,
            parent_run_id=parent_run_id,
            totals=self._totals,
        )
        self._table = _table(self._runs, blocks)
        self._answered = frozenset(answered)

    def feed(self, record: Record) -> list[AgUiEvent]:
        """Encode a record, which may give no events."""
        if not self.is_over and record.seq > self.seq:
            self._totals.feed(record)
        return super().feed(record)

    def catch_up(self, state: RunState, run_id: str) -> list[AgUiEvent]:
        """The events that bring a late watcher to this state, after a snapshot of the messages. The records after it come next."""
        self._runs.snapshot = True
        self._totals.catch_up(state)
        return super().catch_up(state, run_id)

    def _encode(self, change: Change) -> Iterator[AgUiEvent]:
        if isinstance(change, CallResult) and change.id in self._answered:
            return iter(())
        return self._table[type(change)](change)


def _table(runs: RunEvents, blocks: BlockEvents) -> dict[type[object], Encode]:
    """The table from changes to their encoders."""
    return {
        ViewBegin: runs.begin,
        ViewFinish: runs.finish,
        ViewPause: runs.pause,
        ViewAbort: runs.abort,
        ViewCut: runs.cut,
        StepOpen: runs.open_step,
        StepClose: runs.close_step,
        ScopeOpen: blocks.open_scope,
        ScopeClose: blocks.close_scope,
        BlockOpen: blocks.open,
        BlockGrow: blocks.grow,
        BlockExtra: blocks.extra,
        BlockClose: blocks.close,
        BlockWhole: blocks.whole,
        CallStart: blocks.start_call,
        CallOffer: blocks.offer_call,
        CallProgress: call_progress,
        CallResult: blocks.end_call,
        Retract: retract,
        Note: note,
    }


async def ag_ui_stream(
    batches: AsyncIterable[Sequence[Record]],
    encoder: AgUiEncoder,
    *,
    state: RunState | None = None,
    run_id: str = "",
) -> AsyncGenerator[bytes, None]:
    """The bytes of the response, one chunk for each batch of records. The content type is ``text/event-stream``.

    Everything that is open is closed at the end, also where the run fails, or its watcher is detached.

    Args:
        batches: The records, for example ``watch.batches()``.
        encoder: A new encoder, for this client.
        state: The state before the records, for a late watcher.
        run_id: The run's id, with ``state``.
    """
    if state is not None:
        yield b"".join(map(data_line, encoder.catch_up(state, run_id)))
    async with aclosing(pump(batches, encoder.feed, encoder.close)) as pieces:
        async for events in pieces:
            yield b"".join(map(data_line, events))


ANSWER_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {
            "type": ["object", "string"],
            "description": "Other arguments for the call, all of them; a text for a tool that takes free text.",
        },
        "reason": {"type": "string", "description": "Why not, for the model."},
    },
    "required": ["approved"],
    "additionalProperties": False,
}
MESSAGE_SCHEMA: JsonObject = {
    "type": ["string", "boolean"],
    "description": "A message for the model; true to go on without one, or false to end the run.",
}


class RunEvents:
    """The events of a run as a whole.

    Args:
        thread_id: The client's id of the conversation.
        run_id: The client's id of the run.
        blocks: Takes the calls that a resumed run continues with.
        is_new: Whether the client declared version 1.0 or a later one.
        snapshot: Whether to send the conversation so far first.
        parent_run_id: The run that the client branched off.
        totals: Its usage.

    Attributes:
        snapshot: Whether to send the conversation so far first.

    >>> from rxworker.views.changes import ViewFinish
    >>> events = RunEvents("thread-1", "run-1", BlockEvents(is_new=True), is_new=True, snapshot=False, parent_run_id=None, totals=UsageTotals())
    >>> [event.outcome.type for event in events.finish(ViewFinish())]
    ['success']
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        blocks: BlockEvents,
        *,
        is_new: bool,
        snapshot: bool,
        parent_run_id: str | None,
        totals: UsageTotals,
    ) -> None:
        self._thread_id = thread_id
        self._run_id = run_id
        self._blocks = blocks
        self._is_new = is_new
        self._parent_run_id = parent_run_id
        self._totals = totals
        self.snapshot = snapshot

    def begin(self, change: ViewBegin) -> Iterator[AgUiEvent]:
        """The run begins."""
        # A client that did not declare a version may not know the field.
        protocol = "1.0" if self._is_new else None
        yield RunStarted(self._thread_id, self._run_id, protocol, self._parent_run_id)
        self._blocks.hold(change.pending)
        if self.snapshot:
            conversation = change.conversation or Conversation()
            calls = zip(change.places, change.pending, strict=True)
            left = {place: None if each.is_held else each.call for place, each in calls}
            yield MessagesSnapshot(messages_of(with_calls(conversation, left), change.run_id))

    def finish(self, _: ViewFinish) -> Iterator[AgUiEvent]:
        """The run has finished."""
        yield self._finished(Outcome("success"))

    def pause(self, change: ViewPause) -> Iterator[AgUiEvent]:
        """The run is paused. One that waits for tools of the client has succeeded, as far as AG-UI is concerned."""
        if change.hook == CLIENT_TOOL:
            ids = tuple([call.id for call in change.pending])
            # Before 1.0, a run without an outcome waits for the results of calls, and one that has succeeded does not.
            is_new = self._is_new
            yield self._finished(Outcome("success", pending_tool_call_ids=ids) if is_new else None)
            return
        ids = distinct([pending.call.id for pending in change.pending])
        interrupts = tuple(
            _interrupt(change, pending, name)
            for pending, name in zip(change.pending, ids, strict=True)
            if pending.needs_decision
        )
        if not interrupts:
            name = interrupt_id(change.run_id, "")
            why = change.reason or f"{change.hook} has paused the run"
            metadata = ours({"hook": change.hook})
            at_end = Interrupt(name, "input_required", why, None, MESSAGE_SCHEMA, metadata)
            interrupts = (at_end,)
        yield self._finished(Outcome("interrupt", interrupts))

    def abort(self, change: ViewAbort) -> Iterator[AgUiEvent]:
        """The run was aborted."""
        if change.cause == "cancel" and self._is_new:
            yield self._finished(Outcome("cancelled"))
        else:
            yield RunError(change.reason or change.cause, change.cause, self._totals.usage)

    def cut(self, change: ViewCut) -> Iterator[AgUiEvent]:
        """The watch ended before the run."""
        yield RunError(change.reason, "detached", self._totals.usage)

    def open_step(self, change: StepOpen) -> Iterator[AgUiEvent]:
        """A turn begins."""
        yield StepStarted(f"turn {change.turn}", change.scope.id or None)

    def close_step(self, change: StepClose) -> Iterator[AgUiEvent]:
        """A turn has ended."""
        yield StepFinished(f"turn {change.turn}", change.scope.id or None)

    def _finished(self, outcome: Outcome | None) -> RunFinished:
        return RunFinished(self._thread_id, self._run_id, outcome, self._totals.usage)


def _interrupt(change: ViewPause, pending: WaitingCall, name: str) -> Interrupt:
    call = pending.call
    return Interrupt(
        interrupt_id(change.run_id, name),
        "tool_call",
        change.reason or f"May {call.name} be called?",
        pending.id,
        ANSWER_SCHEMA,
        ours({"hook": change.hook, "name": call.name, "input": call.input}),
    )


Names = tuple[str, str]


class UsageTotals:
    """The usage of all responses of a run and its nested runs, by provider and model.

    >>> totals = UsageTotals()
    >>> for place, event in enumerate([AttemptStart("acme", "large"), Usage(10, 5)], start=1):
    ...     totals.feed(Record(seq=place, run_id="r", turn=1, attempt=1, time=0.0, event=event))
    >>> totals.usage[0].total_tokens
    15
    """

    def __init__(self) -> None:
        self._spent: dict[Names, Usage] = {}
        self._open: dict[tuple[str, ...], Usage] = {}
        self._names: dict[tuple[str, ...], Names] = {}

    def feed(self, record: Record) -> None:
        """Take the next record."""
        event = record.event
        match event:
            case Usage():
                self._open[record.path] = event
            case AttemptStart():
                self._flush(record.path)
                self._names[record.path] = (event.provider, event.model)
            case Status(status=ResponseStatus.STARTED):
                self._flush(record.path)
                provider, model = self._names.get(record.path, ("", ""))
                self._names[record.path] = (event.provider or provider, event.model or model)
            case _:
                return

    def catch_up(self, state: RunState) -> None:
        """Start with the usage of a run so far. The usage of the current response is replaced by its next report."""
        response = state.response
        names = (state.provider, (response.model if response else None) or "")
        self._names[()] = names
        self._spent[names] = state.spent + state.inner.spent
        if response is not None and response.usage is not None:
            self._open[()] = response.usage

    @property
    def usage(self) -> tuple[TokenUsage, ...]:
        """The usage so far."""
        for path in list(self._open):
            self._flush(path)
        return tuple(
            _token_usage(names, usage) for names, usage in self._spent.items() if usage != Usage()
        )

    def _flush(self, path: tuple[str, ...]) -> None:
        last = self._open.pop(path, None)
        if last is not None:
            names = self._names.get(path, ("", ""))
            self._spent[names] = self._spent.get(names, Usage()) + last


def _token_usage(names: Names, usage: Usage) -> TokenUsage:
    return TokenUsage(
        provider=names[0] or None,
        model=names[1] or None,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cached_input_tokens=usage.cache_read_tokens,
        cache_write_input_tokens=usage.cache_creation_tokens,
    )
