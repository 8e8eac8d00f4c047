"""Writing a run to a log while it runs: deltas in groups, barriers at once.

Theory of operation. Records are put in synchronously, as they are emitted. One task at a time works for the writer: it
claims the run, appends, one append at a time and in order, and at the end releases the claim. It belongs to the writer
alone, so that cancelling a run cuts off none of the three. What waits for it (`RunWriter.open`, `RunWriter.barrier`,
`RunWriter.close`) waits for futures, which are done when the writer gets there or has failed. The states, as `FOLLOWS`
has them::

    NEW ──▶ CLAIMING ──▶ OPEN ──▶ CLOSING ──▶ RELEASING ──▶ CLOSED
     └───────────────────▲
    (all but the last two) ──▶ FAILED

Deltas wait up to `QUIET` seconds, or `WATCHED` while another process watches the run. A barrier waits for nothing, and
returns when everything before it is stored. If more than `MAX` records, or `MAX_SECONDS`, are not stored yet, the
writer is full, and the source of the records is held.

Only an event loop that closes cancels the task of the writer. Whether the log has done what it was called for is not
known then: the call is made again, and if that is refused because the first one was done, it counts as done. After
`RunWriter.give_up` the task may still come back from a log that has hung: it then only releases the claim.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from reactivex.internal import noop

from rxworker import events
from rxworker.errors import FencedError, LeaseHeldError, LogError, RxWorkerError, describe, own
from rxworker.events.kinds import PASSING
from rxworker.hub.watcher import raise_from_loop, wake
from rxworker.log.base import EventLog
from rxworker.log.format import Private, entries_of, type_of
from rxworker.log.store import Milestones
from rxworker.log.values import OPEN, Claim, RunInfo, RunRow
from rxworker.messages import Conversation, Json, ToolResult
from rxworker.tools.cancellation import is_destroyed

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
logger = logging.getLogger("rxworker.log")

QUIET = 0.25
WATCHED = 0.05
MAX = 16384
"""Records: deltas with about 64 KB of text."""
MAX_SECONDS = 1.0
INSISTENCE = 3
"""How often a call of the log is made again that was cancelled."""


class WriterState(Enum):
    """The state of a writer."""

    NEW = "new"
    """Records are kept. The run is not claimed, or its claim is not renewed yet."""
    CLAIMING = "claiming"
    """The run is being claimed."""
    OPEN = "open"
    """The run is claimed; records are appended."""
    CLOSING = "closing"
    """`RunWriter.close` was called: the rest is appended."""
    RELEASING = "releasing"
    """Everything is stored; the claim is being released."""
    CLOSED = "closed"
    """The claim is released."""
    FAILED = "failed"
    """Nothing is written any more.

    Unless the claim was lost it lasts until its lease ends, so that no process tries again at once.
    """


FOLLOWS: Mapping[WriterState, frozenset[WriterState]] = {
    WriterState.NEW: frozenset({WriterState.CLAIMING, WriterState.OPEN, WriterState.FAILED}),
    WriterState.CLAIMING: frozenset({WriterState.OPEN, WriterState.FAILED}),
    WriterState.OPEN: frozenset({WriterState.CLOSING, WriterState.FAILED}),
    WriterState.CLOSING: frozenset({WriterState.RELEASING, WriterState.FAILED}),
    WriterState.RELEASING: frozenset({WriterState.CLOSED}),
    WriterState.CLOSED: frozenset(),
    WriterState.FAILED: frozenset(),
}
"""Which states may follow a state."""

# Constants, since a member of an enumeration is slow to look up.
_NEW, _CLAIMING, _OPEN, _CLOSING, _RELEASING, _CLOSED, _FAILED = WriterState
# After these the results of the turn are in the conversation, or nothing comes of them.
_SEEN = frozenset({events.AttemptRetract, events.TurnStop, events.RunPause, events.RunStop, events.RunAbort})
_NOTED = frozenset({events.ToolStart, events.ToolProgress, events.BackgroundProgress})
# Tuples, which compare the objects themselves: the hash of a member of an enumeration is a call.
_WRITES = (_OPEN, _CLOSING, _NEW, _CLAIMING)
_APPENDS = (_OPEN, _CLOSING)


@dataclass(eq=False, repr=False)
class RunWriter:
    """Writes the records of one run.

    Attributes:
        log: The log to write to.
        run_id: The run's id.
        row: Returns what a list shows of the run now.
        variables: The variables of hooks and tools. Those that JSON can hold are stored when they have changed.
        claim: The claim of the run, if it exists; a new run is claimed by ``open``.
        held: Results that ``after_tool_call`` hooks have not seen yet, by the places of their calls; see `RunRow`.
        state: The state of the writer.
        stored_seq: The number of the last record that is stored.
        keeps_cursor: Whether the start of a response is stored at once, since another process can continue the response
            by its name.
        before: The conversation that a new run continues.
        error: Why nothing is written any more, if so.
        on_failure: Called once, on the event loop, with the error when a claim or an append was refused or failed.
            Nothing is written after that.
    """

    log: EventLog
    run_id: str
    row: Callable[[], RunRow]
    variables: Mapping[str, object]
    claim: Claim | None = None
    held: InitVar[Mapping[int, ToolResult] | None] = None

    def __post_init__(self, held: Mapping[int, ToolResult] | None) -> None:
        self.state = _NEW
        self.stored_seq = 0 if self.claim is None else self.claim.last_seq
        self._durable_seq = self._put_seq = self.stored_seq
        self.keeps_cursor = False
        self.on_failure: Callable[[Exception], None] = noop  # the next barrier raises it
        self._stored_variables = b"{}"
        self.before: Conversation | None = None
        self._stored_row: RunRow | None = None
        self._private: dict[int, Private] = {}
        self._results: dict[int, ToolResult] = {}  # of calls whose end is not emitted yet
        self._unseen = dict(held or {})
        self._noted: dict[tuple[type[events.Event], int | str], Private] = {}  # for the next event of a call
        self._loop = asyncio.get_running_loop()
        self._pending: list[events.Record] = []
        self._outstanding = 0  # records that are not stored yet
        self._since = 0.0  # when the oldest of them was put in
        self._is_watched = False  # by another process
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = self._is_barrier = self._closes = False
        self._task: asyncio.Task[None] | None = None
        self.error: RxWorkerError | None = None
        self._held: asyncio.Future[None] | None = None
        self._waiting = Milestones()
        self._closing: list[asyncio.Future[None]] = []

    @property
    def is_open(self) -> bool:
        """Whether records are written."""
        return self.state in _WRITES

    async def open(self) -> None:
        """Claim the run, unless it was claimed, renew the claim from now on, and store what was put in so far.

        Raises:
            LogError: The run exists already, or the log cannot be written.
        """
        self._begin()
        await self.barrier()

    def _begin(self) -> None:
        if self.state is not _NEW:
            return
        if self.claim is None:
            self._enter(_CLAIMING)
        else:
            self._hold_claim(self.claim)
        self.flush()

    def _hold_claim(self, claim: Claim) -> None:
        """Write from now on, under this claim."""
        self.claim = claim
        self._enter(_OPEN)
        self.log.heartbeat.add(claim, self._lose)
        if self._closes:
            self._enter(_CLOSING)

    def _enter(self, state: WriterState) -> None:
        assert state in FOLLOWS[self.state], f"{self.state} -> {state}"
        assert state in (_NEW, _CLAIMING, _FAILED) or self.claim is not None
        assert state is not _RELEASING or not self._pending
        self.state = state

    def _lose(self) -> None:
        """Called in the thread of the heartbeat."""
        error = FencedError(f"{self.run_id} was taken over by another process: this one stops", run_id=self.run_id)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._fail, error)

    def hold_result(self, place: int, result: ToolResult) -> None:
        """Store a result with the next `ToolStop` of this place, which has none for watchers until hooks saw it."""
        self._results[place] = result

    def keep_agreement(self, place: int, agreed: Sequence[str], *, approved: bool) -> None:
        """Store with the next `ToolStart` of this place which hooks agreed, and whether a person approved the call."""
        self._noted[events.ToolStart, place] = Private(agreed=tuple(agreed), approved=approved)

    def keep_state(self, call: int | str, state: Json) -> None:
        """Store with the next progress of the call of a place, or of an id in the background, with what it goes on."""
        kind = events.ToolProgress if isinstance(call, int) else events.BackgroundProgress
        self._noted[kind, call] = Private(kept=state)

    def keep_answers(self, answered: Mapping[int, ToolResult]) -> None:
        """Store results that a person has given with the first record of the run, until their calls have ended."""
        self._unseen.update(answered)

    def put(self, record: events.Record) -> None:
        """Write a record soon. Called while ``is_open``."""
        pending = self._pending
        if not pending:
            self._since = self._loop.time()
            if self._timer is None and self._task is None:
                self._timer = self._loop.call_later(self._interval, self._flush)
        pending.append(record)
        self._put_seq = record.seq
        self._outstanding += record.covers
        event: Any = record.event
        if self._noted and event.__class__ in _NOTED and not record.path:
            call = event.id if event.__class__ is events.BackgroundProgress else event.place
            private = self._noted.pop((event.__class__, call), None)
            if private is not None:
                self._private[record.seq] = private
        if self._unseen and not record.path:
            if event.__class__ is events.ToolOutput or event.__class__ is events.ToolStop:
                self._unseen.pop(event.place, None)
            elif event.__class__ in _SEEN or (event.__class__ is events.MessageAdd and event.source == "tools"):
                self._unseen.clear()
        if event.__class__ is events.ToolStop and not record.path:
            held = self._results.pop(event.place, None)
            if held is not None and event.result is None:
                self._unseen[event.place] = held
            self.flush()
        elif self.keeps_cursor and event.__class__ is events.Status and event.response_id:
            self.flush()
        elif self._outstanding > MAX:
            self._flush()

    def flush(self) -> None:
        """Write everything so far at once, without waiting for the barrier."""
        self._is_barrier = True
        # After the code that emits now, so that records that belong together are one append.
        self._loop.call_soon(self._flush)

    async def barrier(self) -> None:
        """Wait until everything so far is stored, so that it survives a loss of power.

        Raises:
            FencedError: Another owner has taken the run over.
            LogError: It could not be stored.
        """
        if self.error is not None:
            raise own(self.error, None)
        if self._durable_seq >= self._put_seq:
            return
        waiting = self._waiting.add(self._put_seq)
        self.flush()
        await waiting

    @property
    def is_full(self) -> bool:
        """Whether the source should wait."""
        return self._outstanding > MAX or (
            self._task is not None and bool(self._pending) and self._loop.time() - self._since > MAX_SECONDS
        )

    def hold(self) -> asyncio.Future[None] | None:
        """A future that the source awaits; ``None`` if it need not wait."""
        if self.error is not None or not self.is_full:
            return None
        if self._held is None or self._held.done():
            self._held = self._loop.create_future()
        return self._held

    def close(self) -> asyncio.Future[None]:
        """Store the rest, and release the run. Nothing that happens to the caller stops that.

        Returns:
            A future that is done when the run is released. It fails with a `FencedError` if another owner has taken the
            run over, and with a `LogError` if the rest could not be stored. A claim that could not be released is
            logged: its lease ends by itself.
        """
        closed: asyncio.Future[None] = self._loop.create_future()
        if self.error is not None:
            closed.set_exception(self.error)
            closed.exception()
        elif self.state is _CLOSED:
            closed.set_result(None)
        else:
            self._closing.append(closed)
            self._closes = True
            self._begin()
            if self.state is _OPEN:
                self._enter(_CLOSING)
            self.flush()
        return closed

    def give_up(self, error: LogError) -> None:
        """Wait no longer for the log.

        What it still does after that is not known; a claim that it still gives is released.

        Args:
            error: What is raised for records that are not stored. There is none if everything was: only the claim is
                not released then.
        """
        if self.state is _RELEASING:
            self._released(error)
        else:
            self._fail(error)

    @property
    def _interval(self) -> float:
        return WATCHED if self._is_watched or self.log.followers.has_reader(self.run_id) else QUIET

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._is_due = True
        elif self._has_work:
            self._task = self._loop.create_task(self._work(), name=f"rxworker log of {self.run_id}")
            self._task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before it begins never runs at all: another one does its work."""
        if task is self._task:
            self._task = None
            self._flush()

    @property
    def _has_work(self) -> bool:
        state = self.state
        return state is _CLAIMING or state is _CLOSING or (state is _OPEN and self._has_appends)

    @property
    def _has_appends(self) -> bool:
        return bool(self._pending) or (self._is_barrier and self._durable_seq < self._put_seq)

    async def _work(self) -> None:
        """Do what there is to do now: claim, append, release."""
        task = asyncio.current_task()
        try:
            if self.state is _CLAIMING:
                await self._take()
            while self.state in _APPENDS and self._has_appends:
                await self._append_once()
                if not (self._is_due or self._is_barrier or self.state is _CLOSING):
                    break
            if self.state is _CLOSING and not self._has_appends:
                await self._give_back()
        except BaseException as error:
            if is_destroyed(error, task):
                raise
            self._fail(error)
        finally:
            self._task = None
        if self.state in _APPENDS and self._timer is None:
            if self._closes or self._is_barrier:
                self._flush()  # it came while this task ended
            elif self._pending:
                self._timer = self._loop.call_later(self._interval, self._flush)

    async def _take(self) -> None:
        """Claim the run."""

        def claimed(info: RunInfo) -> Claim | None:
            # Another run of this process may have claimed it, which renews its claim.
            if info.owner != self.log.owner or self.log.heartbeat.renews(self.run_id):
                return None
            return Claim(self.run_id, info.epoch, info.last_seq, info.owner)

        found = await self._insist(lambda: self.log.claim(self.run_id, create=True, row=self.row()), claimed)
        if self.state is _FAILED:
            await self._release(found)
        else:
            self._hold_claim(found)

    async def _append_once(self) -> None:
        claim = self.claim
        assert claim is not None  # as in each state in which there are appends
        records, self._pending = self._pending, []
        durable, self._is_barrier, self._is_due = self._is_barrier, False, False
        outstanding = self._outstanding
        private, self._private = self._private, {}
        if records and self.variables:
            self._add_variables(records[-1].seq, private)
        if self.before is not None and records and records[0].seq == 1:
            records[0], base = await self.log.bases.cut(claim, records[0], self.before)
            self.before = None
            if base is not None:
                private[1] = replace(private.get(1, Private()), base=base)
        entries = entries_of(records, claim.epoch, private)
        # Deltas and the like change nothing that a list shows, so that the row is not worked out for them.
        is_changed = self._stored_row is None or any(type_of(entry.kind) not in PASSING for entry in entries)
        unseen = dict(self._unseen)  # as of these records
        after = self.stored_seq
        last = records[-1].seq if records else after

        async def append() -> bool:
            if is_changed:
                self._stored_row = replace(self.row(), held=unseen)
            row = self._stored_row if is_changed else None
            return await self.log.append(claim, entries, after=after, row=row, durable=durable)

        def appended(info: RunInfo) -> bool | None:
            is_done = (info.epoch, info.last_seq) == (claim.epoch, last)
            return self._is_watched if is_done else None

        is_watched = await self._insist(append, appended)
        if self.state is _FAILED:
            await self._release(claim)
            return
        self._is_watched = is_watched
        self._outstanding -= outstanding
        self.stored_seq = last
        if durable:
            self._durable_seq = last
            self._is_barrier |= self._waiting.reach(last)
        self._unhold()

    async def _give_back(self) -> None:
        """Release the claim. Everything is stored, so that nothing fails any more."""
        claim = self.claim
        assert claim is not None  # as in each state from which it is closed
        self._enter(_RELEASING)
        self.log.heartbeat.remove(self.run_id)
        error = await self._release(claim)
        if self.state is _RELEASING:
            self._released(error)

    async def _release(self, claim: Claim) -> BaseException | None:
        """Release a claim. Returns what this has raised: there is nothing to do about it, since its lease ends."""

        async def release() -> None:
            row = self._stored_row or RunRow("finished")  # where nothing was stored, nothing is called
            await self.log.release(claim, until=row.due if row.status == "queued" else 0.0)
            if row.status in OPEN:  # another process continues it
                await self.log.call_worker(row.worker)

        try:
            await self._insist(release, lambda _: None)
        except BaseException as error:
            if is_destroyed(error, self._task):
                raise
            return error
        return None

    def _released(self, error: BaseException | None) -> None:
        self._enter(_CLOSED)
        if error is not None:
            logger.warning(
                "the claim of %s was not released, and lasts until its lease ends: %s",
                self.run_id,
                describe(error),
                extra={"run": self.run_id},
            )
        if isinstance(error, KeyboardInterrupt):
            raise_from_loop(self._loop, error)
        closing, self._closing = self._closing, []
        wake(closing, None)

    async def _insist(self, call: Callable[[], Awaitable[T]], is_done: Callable[[RunInfo], T | None]) -> T:
        """Call the log, and again if this task was cancelled, because the event loop closes.

        Args:
            call: Calls the log.
            is_done: Returns, of what the log has of the run, the result of a call that it has done before it was made
                again; ``None`` if it has not.
        """
        cancelled = 0
        while True:
            try:
                return await call()
            except asyncio.CancelledError:
                cancelled += 1
                if self.state is _FAILED or cancelled > INSISTENCE:
                    raise
            except (FencedError, LeaseHeldError):
                info = await self.log.info(self.run_id) if cancelled else None
                found = None if info is None else is_done(info)
                if found is None:
                    raise
                return found

    def _add_variables(self, seq: int, private: dict[int, Private]) -> None:
        encoded = _encode({name: value for name, value in self.variables.items() if has_json(value)})
        if encoded != self._stored_variables:
            self._stored_variables = encoded
            private[seq] = replace(private.get(seq, Private()), variables=msgspec.json.decode(encoded))

    def _unhold(self) -> None:
        if self._held is not None and not self._held.done() and not self.is_full:
            self._held.set_result(None)

    def _fail(self, cause: BaseException) -> None:
        """Write nothing any more, and wake what waits."""
        if self.state not in _WRITES:
            return
        self._enter(_FAILED)
        error = self.error = _as_log_error(cause)
        self.log.heartbeat.remove(self.run_id)
        if self._timer is not None:
            self._timer.cancel()
        self._pending, self._outstanding = [], 0
        waiting = [*self._waiting.take(), *self._closing]
        self._closing = []
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()
        self._unhold()
        self.on_failure(error)


def _as_log_error(cause: BaseException) -> RxWorkerError:
    """The error of a run whose log has raised ``cause``.

    A codec or a store may raise anything, and that ends this run alone.
    """
    if isinstance(cause, RxWorkerError):
        return cause
    error = LogError(f"the log has failed: {describe(cause)}")
    error.__cause__ = cause
    return error


def has_json(value: object) -> bool:
    """Whether JSON holds a value as it is: it changes a tuple, a date, or an object of the program."""
    try:
        return msgspec.json.decode(_encode(value)) == value
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return False
