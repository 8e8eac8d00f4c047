"""Writing a run to a log while it runs: deltas in groups, barriers at once.

Records are put in synchronously, as they are emitted, and appended by one task: one append at a time, in order. Deltas wait up to `QUIET` seconds,
or `WATCHED` while another process watches the run. A barrier waits for nothing, and returns when everything before it is stored. If more than
`MOST` records, or `MOST_SECONDS`, are not stored yet, the writer is full, and the source of the records is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from rxworker.errors import FencedError
from rxworker.events import Record, ToolStart, ToolStop
from rxworker.log.base import EventLog
from rxworker.log.entry import Private, entries_of
from rxworker.log.values import Claim, RunRow
from rxworker.messages import ToolResult

_encode = msgspec.json.Encoder().encode

QUIET = 0.25
WATCHED = 0.05
MOST = 16384
"""Records: deltas with about 64 KB of text."""
MOST_SECONDS = 1.0


class RunWriter:
    """Writes the records of one run.

    Args:
        log: The log to write to.
        run: The run's id.
        row: Returns what a list shows of the run now.
        variables: The variables of hooks and tools. Those that JSON can hold are stored when they have changed.
        claim: The claim of the run, if it exists; a new run is claimed by ``open``.

    Attributes:
        log: The log to write to.
        claim: The claim of the run.
        is_open: Whether records are written.
        stored_seq: The number of the last record that is stored.
        on_failure: Called once, on the event loop, with the error when an append was refused or failed. Nothing is written after that.
    """

    def __init__(
        self,
        log: EventLog,
        run: str,
        row: Callable[[], RunRow],
        variables: Mapping[str, object],
        claim: Claim | None = None,
    ) -> None:
        self.log = log
        self.claim = claim
        self.stored_seq = 0 if claim is None else claim.last_seq
        self._durable_seq = self._put_seq = self.stored_seq
        self._run = run
        self._row = row
        self.on_failure: Callable[[Exception], None] = _ignore
        self._variables = variables
        self._stored_variables = b"{}"
        self._private: dict[int, Private] = {}
        self._results: dict[int, ToolResult] = {}
        self._agreed: dict[int, Private] = {}
        self._loop = asyncio.get_running_loop()
        self._pending: list[Record] = []
        self._outstanding = 0  # records that are not stored yet
        self._since = 0.0  # when the oldest of them was put in
        self._is_watched = False  # by another process
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = self._is_barrier = False
        self._appending: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self.is_open = True
        self._held: asyncio.Future[None] | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def error(self) -> Exception | None:
        """Why nothing is written any more, if so."""
        return self._error

    async def open(self) -> None:
        """Claim the run, unless it was claimed, renew the claim from now on, and store what was put in so far.

        Raises:
            LogError: The run exists already, or the log cannot be written.
        """
        try:
            if self.claim is None:
                self.claim = await self.log.claim(self._run, create=True, row=self._row())
        except Exception as error:
            self._failed(error)
            raise
        self.log.heartbeat.add(self.claim, self._lose)
        await self.barrier()

    def _lose(self) -> None:
        """Called in the thread of the heartbeat."""
        error = FencedError(
            f"{self._run} was taken over by another process: this one stops", run=self._run
        )
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._failed, error)

    def hold_result(self, place: int, result: ToolResult) -> None:
        """Store a result with the next `ToolStop` of this place, which has none for the watchers."""
        self._results[place] = result

    def keep_agreement(self, place: int, agreed: Sequence[str], *, approved: bool) -> None:
        """Store with the next `ToolStart` of this place which hooks have agreed to the call, and whether a person has approved it."""
        self._agreed[place] = Private(agreed=tuple(agreed), approved=approved)

    def keep_answers(self, answered: tuple[tuple[int, ToolResult], ...]) -> None:
        """Store results that a person has given with the first record of the run."""
        self._private[1] = Private(answered=answered)

    def put(self, record: Record) -> None:
        """Write a record soon. Called while ``is_open``."""
        pending = self._pending
        if not pending:
            self._since = self._loop.time()
            if self._timer is None and self._appending is None:
                self._timer = self._loop.call_later(self._interval, self._flush)
        pending.append(record)
        self._put_seq = record.seq
        self._outstanding += record.covers
        event: Any = record.event
        if event.__class__ is ToolStart and self._agreed and not record.path:
            agreed = self._agreed.pop(event.place, None)
            if agreed is not None:
                self._private[record.seq] = agreed
        if event.__class__ is ToolStop and not record.path:
            held = self._results.pop(event.place, None)
            if held is not None and event.result is None:
                self._private[record.seq] = Private(held=held)
            self.flush()
        elif self._outstanding > MOST:
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
        if self._error is not None:
            raise self._error
        if self._durable_seq >= self._put_seq:
            return
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((self._put_seq, waiting))
        self.flush()
        await waiting

    @property
    def is_full(self) -> bool:
        """Whether the source should wait."""
        return self._outstanding > MOST or (
            self._appending is not None
            and bool(self._pending)
            and self._loop.time() - self._since > MOST_SECONDS
        )

    def hold(self) -> asyncio.Future[None] | None:
        """A future that the source awaits; ``None`` if it need not wait."""
        if self._error is not None or not self.is_full:
            return None
        if self._held is None or self._held.done():
            self._held = self._loop.create_future()
        return self._held

    async def close(self) -> None:
        """Store the rest, and release the run.

        Raises:
            FencedError: Another owner has taken the run over.
            LogError: It could not be stored.
        """
        try:
            await self.barrier()
        finally:
            self.is_open = False
            self.log.heartbeat.remove(self._run)
            if self._timer is not None:
                self._timer.cancel()
        if self.claim is not None:
            await self.log.release(self.claim)

    @property
    def _interval(self) -> float:
        return WATCHED if self._is_watched or self.log.followers.has_reader(self._run) else QUIET

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._appending is not None:
            self._is_due = True
        elif self.claim is not None and self._error is None and self._has_work:
            self._appending = self._loop.create_task(self._append())

    @property
    def _has_work(self) -> bool:
        return bool(self._pending) or (self._is_barrier and self._durable_seq < self._put_seq)

    async def _append(self) -> None:
        try:
            while self._has_work:
                await self._append_once()
                if not self._is_due and not self._is_barrier:
                    break
        except Exception as error:
            self._failed(error)
        finally:
            self._appending = None
        if self._pending and self._timer is None and self._error is None:
            self._timer = self._loop.call_later(self._interval, self._flush)

    async def _append_once(self) -> None:
        claim = self.claim
        assert claim is not None  # _flush checks it
        records, self._pending = self._pending, []
        durable, self._is_barrier, self._is_due = self._is_barrier, False, False
        outstanding = self._outstanding
        private, self._private = self._private, {}
        if records and self._variables:
            self._add_variables(records[-1].seq, private)
        is_watched = await self.log.append(
            claim,
            entries_of(records, claim.epoch, private),
            after=self.stored_seq,
            row=self._row(),
            durable=durable,
        )
        self._is_watched = is_watched
        self._outstanding -= outstanding
        if records:
            self.stored_seq = records[-1].seq
        if durable:
            self._durable_seq = self.stored_seq
            self._wake()
        self._unhold()

    def _add_variables(self, seq: int, private: dict[int, Private]) -> None:
        variables = {name: value for name, value in self._variables.items() if _has_json(value)}
        encoded = _encode(variables)
        if encoded != self._stored_variables:
            self._stored_variables = encoded
            private[seq] = replace(
                private.get(seq, Private()), variables=msgspec.json.decode(encoded)
            )

    def _wake(self) -> None:
        still: list[tuple[int, asyncio.Future[None]]] = []
        for last, waiting in self._waiting:
            if last > self._durable_seq:
                still.append((last, waiting))
            elif not waiting.done():
                waiting.set_result(None)
        self._waiting = still
        if still:
            self._is_barrier = True

    def _unhold(self) -> None:
        if self._held is not None and not self._held.done() and not self.is_full:
            self._held.set_result(None)

    def _failed(self, error: Exception) -> None:
        if self._error is not None:
            return
        self._error = error
        self.is_open = False
        self._pending, self._outstanding = [], 0
        for _, waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(error)
                waiting.exception()
        self._waiting = []
        self._unhold()
        self.on_failure(error)


def _ignore(error: Exception) -> None:
    """The next barrier raises it."""


def _has_json(value: object) -> bool:
    """Whether JSON holds a value as it is."""
    try:
        return msgspec.json.decode(_encode(value)) == value
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return False
