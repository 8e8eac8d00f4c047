"""The journal of a run: events become records, and the records go to the watchers and into the state.

The mailbox and the pause request hold what the application sends to a run until the next safe moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol
from weakref import ref

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import LocalProtocolError, describe
from rxworker.events import (
    AttemptStart,
    BackgroundStart,
    CommandTaken,
    Event,
    MessageAdd,
    PauseState,
    Record,
    RunPause,
    RunResume,
    ToolStart,
    TurnStart,
    WatcherDetach,
)
from rxworker.events.kinds import Deltas, Parts
from rxworker.events.pause import BY_CALLER
from rxworker.hub import Hub
from rxworker.log.values import When, resumed_id
from rxworker.log.writer import RunWriter
from rxworker.messages import Message
from rxworker.state import RunState, fold_run
from rxworker.state.grammar import RecordGrammar


class EventPassage(Protocol):
    """Gives events to a function when they may be recorded."""

    def __call__(self, event: Event, emit: Callable[[Event], None]) -> None:
        """Take an event, and the function."""
        ...

    async def idle(self) -> None:
        """Wait until nothing is held."""
        ...


class Journal:
    """The records of one run.

    Args:
        run_id: The run's id.
        clock: Returns the time in seconds since the epoch.
        loop: The running event loop, if it is known.

    Attributes:
        run_id: The run's id.
        clock: Returns the time in seconds since the epoch.
        hub: The hub that publishes the records.
        turn: The number of the turn.
        writer: Writes the records of a logged run.
        gate: Where the run has a gate: gives an event of a hook, a change of the shared state, and what a call in the
            background writes to a function when it has passed.
        is_left: Whether the run stops in this process and is not over: another process continues it.
        faults: Where records that break the rules are reported; ``None``: they are not checked, which costs a tenth of
            a run. See `rxworker.testing.checked_records`.
    """

    faults: ClassVar[list[str] | None] = None

    def __init__(
        self, run_id: str, clock: Callable[[], float] = time.time, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.run_id = run_id
        # A weak reference: otherwise the two, with the whole history, would wait for the garbage collector.
        kept = ref(self)

        def detached(watcher: str, error: BaseException) -> None:
            journal = kept()
            if journal is not None:  # else its run has ended
                journal.emit(WatcherDetach(watcher, describe(error)))

        self.hub = Hub(detached, loop=loop)
        self.turn = 0
        self._attempt = 0
        self._history = self.hub.history
        self.clock = clock
        self._state = RunState()
        self.writer: RunWriter | None = None
        self.gate: EventPassage | None = None
        self.is_left = False
        self._relayed: dict[str, int] = {}
        self._grammar = None if self.faults is None else RecordGrammar(responses=False)

    def emit(self, event: Event) -> None:
        """Number the event and give it to the hub."""
        kind = event.__class__  # every delta passes here; isinstance would take ten times as long
        if kind in _COUNTED:
            event = self._counted(event)
        seq = self._history.last_seq + 1
        record = Record(seq, self.run_id, self.turn, self._attempt, self.clock(), event)
        if self._grammar is not None:
            self._check(record, self._grammar)
        if self.writer is not None and not self._write(record, self.writer):
            return
        self.hub.push_many((record,))  # not `push`, which every delta would pay for

    def emit_many(self, parts: Parts[Event]) -> None:
        """Number events that arrived together, and give them to the hub. A `Deltas` is one record."""
        seq, now, run = self._history.last_seq, self.clock(), self.run_id
        entries: list[Record] = []
        for part in parts:
            event: Any = part
            kind = event.__class__
            if kind in _COUNTED:
                event = self._counted(event)
            covers = event.size if kind is Deltas else 1
            seq += covers
            entries.append(Record(seq, run, self.turn, self._attempt, now, event, (), covers))
        if self._grammar is not None:
            for entry in entries:
                self._check(entry, self._grammar)
        if self.writer is not None:
            for entry in entries:
                if not self._write(entry, self.writer):
                    return
        self.hub.push_many(entries)

    def _write(self, record: Record, writer: RunWriter) -> bool:
        """Write a record to the log.

        Returns whether it may be published: after a failure no more records follow those in the log.
        """
        if writer.is_open:
            writer.put(record)
            return True
        return writer.error is None

    def load(self, records: Sequence[Record]) -> None:
        """Continue after these records of a stored run."""
        self.hub.push_many(records)
        # Records of nested runs have the turns of those.
        last = next((each for each in reversed(records) if not each.path), records[-1])
        if self._grammar is not None:
            for record in records:
                self._grammar.feed(record)  # nothing can be refused that is stored
        self.turn = last.turn
        self._attempt = last.attempt
        self._relayed = _relayed_in_turn(records)

    async def barrier(self) -> None:
        """Wait until everything so far is stored, if the run is logged.

        Raises:
            FencedError: Another process has taken the run over.
            LogError: It could not be stored.
        """
        if self.writer is not None:
            await self.writer.barrier()

    def _check(self, record: Record, grammar: RecordGrammar) -> None:
        if self.hub.ended or (self.writer is not None and self.writer.error is not None):
            return  # it is dropped
        found = grammar.feed(record)
        if found:
            text = f"{self.run_id}, record {record.seq}: {'; '.join(map(str, found))}"
            if self.faults is not None:
                self.faults.append(text)
            raise AssertionError(text)

    def _counted(self, event: Event) -> Event:
        """Count the turn or the attempt that starts. What waits in the background waits with each pause."""
        if isinstance(event, RunPause):
            background = tuple([each for each in self.state.background if each.waits])
            return RunPause(replace(event.pause, background=background)) if background else event
        if isinstance(event, BackgroundStart):
            self._relayed.pop(event.background.call.id, None)  # where it goes on, another run follows inside the call
        elif isinstance(event, TurnStart):
            self.turn, self._attempt = self.turn + 1, 0
            self._relayed = {}  # ids are unique within a response alone
        else:
            self._attempt += 1
        return event

    def relay(self, call_id: str, record: Record) -> None:
        """Add a record of a nested run, under the call that started that run."""
        seq, path = self.hub.last_seq + 1, (call_id, *record.path)
        # A merged record counts as one here.
        inner = replace(record, seq=seq, run_id=self.run_id, path=path, covers=1)
        if self._grammar is not None:
            # The journal of the nested run has checked its event. Here two that run side by side may have one path,
            # since calls of a response may have one id.
            self._grammar.feed_number(inner)
        if self.writer is None or self._write(inner, self.writer):
            self.hub.push(inner)

    def relayed(self, call_id: str) -> int:
        """How many records of a nested run that this call of a recovered turn had begun are among the loaded ones."""
        return self._relayed.get(call_id, 0)

    @property
    def first(self) -> Event | None:
        """The first event; ``None`` before it."""
        return next((record.event for record in self._history.records(0, 1)), None)

    @property
    def resumes(self) -> str:
        """The id of the run that this one resumes; empty for none, and for a copy of a run that does."""
        first = self.first
        if not isinstance(first, RunResume) or (self.writer is not None and resumed_id(first.resumes) != self.run_id):
            return ""
        return first.resumes

    @property
    def state(self) -> RunState:
        """The state after the records so far. It is folded when it is read, each burst of deltas in one step."""
        history, state = self._history, self._state
        if state.seq < history.last_seq:
            self._state = state = fold_run(history.entries(state.seq), state)
        return state


def _relayed_in_turn(records: Sequence[Record]) -> dict[str, int]:
    """The numbers of relayed records in the last turn, by the ids of their calls.

    An id that several calls of the turn have is left out: their records cannot be distinguished, and it is better to
    relay some twice than to lose others.
    """
    relayed: dict[str, int] = {}
    places: dict[str, set[int]] = {}
    for record in records:
        event = record.event
        if record.path:
            relayed[record.path[0]] = relayed.get(record.path[0], 0) + record.covers
        elif isinstance(event, TurnStart):
            relayed, places = {}, {}
        elif isinstance(event, BackgroundStart) and event.background.begun is not None:
            relayed.pop(event.background.call.id, None)
        elif isinstance(event, ToolStart):
            places.setdefault(event.call.id, set()).add(event.place)
    return {call: count for call, count in relayed.items() if len(places.get(call, ())) == 1}


_COUNTED: frozenset[type[object]] = frozenset({TurnStart, AttemptStart, BackgroundStart, RunPause})


SOURCE = "send"
WITHDRAWN = "the message was withdrawn"
NOT_WAITING = "no message with this id waits: it is in the conversation already, or was not sent"
TOO_LATE = "the run ended before the message could be put into its conversation"


class Queued(Struct, eq=False):
    """Messages that wait for their delivery.

    Attributes:
        messages: The messages. A command without an effect has none.
        delivered: A future that is done on delivery.
        taken: The records that their commands are taken, the last one first; none without a log.
        when: When they are delivered.
    """

    messages: tuple[Message, ...]
    delivered: asyncio.Future[None]
    taken: tuple[CommandTaken, ...] = ()
    when: When = "turn"

    def deliver(self, emit: Callable[[Event], None]) -> bool:
        """Add the messages to the conversation, unless they were withdrawn; whether they were added."""
        is_withdrawn = self.delivered.cancelled()
        for each in self.taken:
            emit(replace(each, ignored=WITHDRAWN) if is_withdrawn else each)
        is_added = bool(self.messages) and not is_withdrawn
        if is_added:
            emit(MessageAdd(self.messages, SOURCE))
        if not self.delivered.done():
            self.delivered.set_result(None)
        return is_added


class Mailbox(Struct, eq=False):
    """Messages that were sent to a run and are not delivered yet.

    Attributes:
        waiting: The messages in order.
        interrupt: Ends the wait for a response, which a message that is sent ``now`` cuts off; ``None`` while there is
            none.
        is_interrupted: Whether that wait was ended, though the message may be withdrawn since.
        changed: Set when messages come, while the run waits for them.
    """

    waiting: list[Queued] = []
    interrupt: Callable[[], None] | None = None
    is_interrupted: bool = False
    changed: asyncio.Event | None = None

    def put(
        self,
        messages: tuple[Message, ...],
        taken: CommandTaken | None = None,
        delivered: asyncio.Future[None] | None = None,
        when: When = "turn",
    ) -> asyncio.Future[None]:
        """Add messages. The future is done when they are in the conversation.

        Args:
            messages: The messages.
            taken: The record that the command is taken which sent them.
            delivered: The future, if there is one already.
            when: When they are delivered.
        """
        if delivered is None:
            delivered = asyncio.get_running_loop().create_future()
        self.waiting.append(Queued(messages, delivered, () if taken is None else (taken,), when))
        self._notify(when)
        return delivered

    def edit(
        self,
        sent: asyncio.Future[None] | None,
        messages: tuple[Message, ...],
        when: When | None = None,
        taken: CommandTaken | None = None,
    ) -> bool:
        """Replace messages that wait, at their place in the queue.

        Args:
            sent: The future of their delivery.
            messages: The messages in place of them.
            when: When they are delivered, if that changes.
            taken: The record that the command is taken which does so.

        Returns:
            Whether they still waited.
        """
        for each in self.waiting:
            if each.delivered is sent and not each.delivered.done():
                each.messages, each.when = messages, when or each.when
                if taken is not None:
                    each.taken = (taken, *each.taken)
                self._notify(each.when)
                return True
        return False

    def _notify(self, when: When) -> None:
        if when == "now":
            self.cut()
        if self.changed is not None:
            self.changed.set()

    def cut(self) -> None:
        """End the wait for the response that is being written."""
        if self.interrupt is not None:
            self.is_interrupted = True
            self.interrupt()

    def is_urgent(self) -> bool:
        """Whether a message waits that is sent ``now``."""
        return any(each.when == "now" and not each.delivered.cancelled() for each in self.waiting)

    def deliver(self, emit: Callable[[Event], None], *, at_end: bool = False) -> bool:
        """Add the waiting messages to the conversation, in order, but those whose futures were cancelled.

        Args:
            emit: Emits the events.
            at_end: Whether the run would end: then those for its end are added, if there are no others.

        Returns:
            Whether there were any.
        """
        waiting, self.waiting = self.waiting, []
        are_added = False
        for each in waiting:
            if each.when == "end" and not each.delivered.cancelled():
                self.waiting.append(each)
            else:
                are_added = each.deliver(emit) or are_added
        if at_end and not are_added:
            waiting, self.waiting = self.waiting, []
            for each in waiting:
                are_added = each.deliver(emit) or are_added
        return are_added

    def close(self) -> None:
        """Fail the waiting messages, since the run has ended."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            not_delivered(each.delivered)


def not_delivered(delivered: asyncio.Future[None], error: Exception | None = None) -> None:
    """Fail the future of a message, by default since its run has ended. The sender need not await it."""
    if not delivered.done():
        delivered.set_exception(error or LocalProtocolError(TOO_LATE))
        delivered.exception()


class PauseRequest(Struct, eq=False):
    """The request of the application to pause the run.

    Attributes:
        reason: The reason, which is shown to users and not interpreted; ``None`` if no pause was requested. The run
            pauses at the next safe moment.
        number: The number of the command that requested it; 0 for none.
        changed: Set by a request, while the run waits for one.
        refusal: Why the run cannot be paused; empty if it can.

    >>> request = PauseRequest()
    >>> request.request("lunch")
    >>> taken: list[Event] = []
    >>> request.take(taken.append, PauseState("", (), ()))
    >>> taken[0].pause.hook, taken[0].pause.reason
    ('pause', 'lunch')
    """

    reason: str | None = None
    number: int = 0
    changed: asyncio.Event | None = None
    refusal: str = ""

    def request(self, reason: str, number: int = 0) -> None:
        """Pause at the next safe moment.

        Raises:
            LocalProtocolError: The run cannot be paused.
        """
        if self.refusal:
            raise LocalProtocolError(self.refusal)
        self.reason = reason
        self.number = number
        if self.changed is not None:
            self.changed.set()

    def take(self, emit: Callable[[Event], None], pause: PauseState) -> None:
        """Pause now, at a safe moment, if a pause was requested."""
        reason, self.reason = self.reason, None
        if reason is not None:
            if self.number:
                emit(CommandTaken(self.number, "pause"))
            emit(RunPause(replace(pause, hook=BY_CALLER, reason=reason)))
