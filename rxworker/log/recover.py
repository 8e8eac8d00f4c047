"""Continuing the runs of processes that have ended.

Theory of operation. `RunSource` reads what has changed in the log when its process has room for a run, and
`PendingRuns` folds it. A run waits if it is queued or running without a valid lease, or paused with commands that may
decide about it. Runs that were deferred have an entry in a heap of times, so that a change costs no more with many
runs.

A process that finds no run has the log note that it waits, and reads once more. Whatever makes a run wait for a process
has the log call one of those (see `EventLog.call_worker`), so that a run costs the same whether two processes wait or
fifty. A call may be lost, with the process that was called, and processes of older versions make none: so each looks by
itself every `LOOK` seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, aclosing, suppress
from heapq import heappop, heappush, nsmallest
from typing import Self, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from rxworker.decisions import (
    Answer,
    Approve,
    Decided,
    Decision,
    Deny,
    PendingCalls,
    Received,
    StoredDecision,
    decide,
    granted_by,
    message_in,
    read_stored,
    reply_of,
)
from rxworker.errors import (
    CommandConflictError,
    ConfigurationError,
    DecisionError,
    LeaseHeldError,
    LogError,
    RunStatusError,
    RxWorkerError,
    reason_of,
)
from rxworker.events import (
    BackgroundStart,
    CommandTaken,
    Custom,
    Event,
    Fork,
    PauseState,
    RunAbort,
    RunPause,
    RunRecover,
    RunRequeue,
)
from rxworker.events.pause import BackgroundCall, Begun, Wait, parts_of, woken_by
from rxworker.log.base import ChangeCursor, EventLog, append_events, change_row, claimed, no_run, release_shielded
from rxworker.log.format import REQUEUED, check_continuable, record_of, records_of, round_time
from rxworker.log.permissions import settle
from rxworker.log.replay import keep_task
from rxworker.log.store import ALL_RUNS, CALLS, Waker
from rxworker.log.values import (
    DECIDE,
    DISMISS,
    LISTED,
    OPEN,
    TAPPED,
    TENANT,
    Claim,
    Command,
    DeliveredResult,
    RunInfo,
    RunRow,
    SentMessages,
    decision_command,
    decisions_in,
    deliver_command,
    first_id,
    is_woken,
    message_id,
    resumed_id,
)
from rxworker.messages import JsonObject
from rxworker.state import fold_run
from rxworker.state.run import call_ends, response_ends
from rxworker.watchdog import call_watched

R = TypeVar("R")
W = TypeVar("W")
WorkerMaker: TypeAlias = Callable[[RunInfo], W | Awaitable[W | None] | None]
"""Makes a worker for a run, or returns ``None``: a plain or a coroutine function."""

logger = logging.getLogger("rxworker.log")

TAKES = ("command_taken", REQUEUED)
"""The kinds of the entries by which a run takes commands; see `taken_in`."""
RETRIES = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds until a run that could not be continued is tried again: after the first failure, the second and so on."""
LOOK = 1.0
"""Seconds after which a process that waits looks for runs without being called."""
CANDIDATES = 16
"""How many runs a claim is tried for in one statement."""
SETTLE = 5.0
"""Seconds that a claim may take to be given back when its process stops."""
PATIENCE = 60.0
"""Seconds for which the log may be unreadable before its runs are given up."""


class RunSource:
    """The runs of a log that no process holds, one after the other, as they are submitted, cut off or decided about.

    Args:
        log: The log of the runs.
        cap: How many runs of a tenant may be held at once; ``None``: any number.
        kinds: The kinds of the runs; by default all.
    """

    def __init__(
        self, log: EventLog, cap: Callable[[str], int | None] = lambda _: None, kinds: Collection[str] = ()
    ) -> None:
        self.log = log
        self.pending = PendingRuns(cap)
        self._kinds = sorted(kinds)
        self._cursor = ChangeCursor(log)
        self._is_loaded = False
        self._waker: Waker | None = None
        self._waits = False  # to be called
        self._left: set[str] = set()  # to the process that has decided
        self._unreadable: set[str] = set()  # reported once
        # Nested runs that are cut off, by their outer runs, and those that wait for the end of another run, by that.
        self._nested: dict[str, set[str]] = {}
        self._watched: set[str] = set()  # runs of which one waits for an event

    async def __aenter__(self) -> Self:
        self._waker = Waker(self.log.followers, CALLS if self.log.calls else ALL_RUNS, False)
        self._waker.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._waker is not None:
            self._waker.__exit__()
        await self._stop_waiting()

    async def _stop_waiting(self) -> None:
        waits, self._waits = self._waits, False
        if waits and not self.log.is_closed:
            with suppress(RxWorkerError):
                await self.log._dismiss_call()

    def look(self) -> None:
        """Look for a run again now, such as after the end of one that its tenant's cap has counted."""
        if self._waker is not None:
            self._waker.set()

    async def take(self, *, wait: bool = True) -> RunInfo | None:
        """The next run to continue.

        Args:
            wait: Whether to wait for one; otherwise ``None`` if there is none now.

        Raises:
            LogError: The log cannot be read, or was closed.
        """
        waker = self._waker
        assert waker is not None  # it was entered
        while True:
            waker.clear()
            await self.catch_up()
            for run in self.pending.deferred(time.time()):
                await self.refresh(run)
            info = self.pending.pop()
            if info is not None and self._kinds and info.row.worker not in self._kinds:
                continue
            if info is None and not wait:
                return None
            if info is not None and info.row.outer:
                await self._end_nested(info)
            elif info is not None:
                try:
                    is_due = await self._is_due(info)
                except RxWorkerError as error:
                    self._retry(info.run_id, error)
                    continue
                if is_due:
                    await self._stop_waiting()  # while its process may have no room for another one
                    return info
            elif self.log.calls and not self._waits:
                self._waits = True
                with suppress(RxWorkerError):
                    await self.log._await_call(self._kinds)  # and look once more
            elif await waker.wait(self._next_look()):
                self._waits = False
                await asyncio.sleep(0)

    def _next_look(self) -> float | None:
        now, next_deferral = time.time(), self.pending.next_deferral
        look = now + min(LOOK, self.log.lease / 3) if self.log.calls else None
        if next_deferral is not None:
            next_deferral = min(next_deferral, now + self.log.lease)  # the clock may be set
        times = (look, next_deferral, self._cursor.next_due)
        return min((each for each in times if each is not None), default=None)

    async def claim(self, info: RunInfo) -> tuple[RunInfo, Claim] | None:
        """Claim a run, or else another one that waits.

        ``None`` if other processes were faster, or the log cannot be written now.
        """
        some = {one.run_id: one for one in (info, *self.pending.next_ones(CANDIDATES))}
        if self._kinds:
            some = {run: one for run, one in some.items() if one.row.worker in self._kinds}
        try:
            claim = await self.log.claim_any([*some.values()])
        except RxWorkerError as error:
            await self.failed(info, error)
            return None
        if claim is None or claim.run_id != info.run_id:
            self.pending.defer(info.run_id, time.time() + self.log.lease / 3)
        return None if claim is None else (some[claim.run_id], claim)

    async def _end_nested(self, info: RunInfo) -> None:
        """End a nested run that no process holds, if its outer run has ended.

        Otherwise the outer run continues it, or this is done when that ends. A decision about it belongs to the outer
        run.
        """
        try:
            outer = await present(self.log, info.row.outer)
            if outer is not None and outer.status not in (*OPEN, "paused"):
                await _end_inner(self.log, info)
            elif outer is not None and outer.status == "paused" and await _decide_outside(self.log, info):
                self.pending.drop(info.run_id)
            else:
                waits_for = info.row.outer if outer is None else outer.run_id
                self._nested.setdefault(waits_for, set()).add(info.run_id)
        except LeaseHeldError:
            self.pending.defer(info.run_id, time.time() + self.log.lease / 3)
        except (CommandConflictError, RunStatusError):
            self.pending.drop(info.run_id)  # another process was faster
        except RxWorkerError as error:
            self._retry(info.run_id, error)

    async def recover(self, info: RunInfo, recover: Callable[[], Awaitable[R]], claim: Claim | None = None) -> R | None:
        """Continue a run; ``None`` if another process was faster, or the worker cannot. A claim is released then."""
        try:
            run = await recover()
        except BaseException as error:
            await self.give_up(info, claim, error)
            return None
        self.pending.succeeded(info.run_id)
        return run

    async def give_up(self, info: RunInfo, claim: Claim | None, error: BaseException) -> None:
        """Give back what was claimed of a run, and note why it was not recovered; what must pass is raised again."""
        if claim is not None:
            await give_back(self.log, claim)
        if not isinstance(error, Exception):
            raise error
        await self.failed(info, error)

    async def make(self, make_worker: WorkerMaker[W], info: RunInfo) -> W | None:
        """Make a worker for a run; ``None`` if it is left to other processes, or cannot be made now."""
        if info.row.worker.startswith(TAPPED):
            self.pending.drop(info.run_id)
            return None
        try:
            worker = await call_watched("make_worker", make_worker, info)
        except Exception as error:  # it is a function of the application
            self._retry(info.run_id, error)
            return None
        if worker is None:
            self._drop(info.run_id)
        return worker

    def _drop(self, run_id: str) -> None:
        """Leave a run to other processes, all of which look for it: which of them can continue it is not known."""
        self.pending.drop(run_id)
        if self.log.calls:
            keep_task(self.log.call_worker("", to_all=True))

    async def failed(self, info: RunInfo, error: Exception) -> None:
        """Note that a run could not be continued, and when it is tried again.

        Raises:
            RxWorkerError: The log is closed.
        """
        run = info.run_id
        if isinstance(error, LeaseHeldError):
            self.pending.defer(run, time.time() + self.log.lease / 3)
        elif isinstance(error, ConfigurationError):
            self._drop(run)
            logger.warning("%s is not recovered: %s", run, error, extra={"run": run})
        elif not isinstance(error, RxWorkerError):
            self._retry(run, error)
        else:
            now = info
            with suppress(RxWorkerError):
                now = await self.log.listed(run)
            if now is None or now.error or now.status not in (*OPEN, "paused"):
                self.pending.drop(run)  # another process was faster
            else:
                self._retry(run, error)

    def _retry(self, run_id: str, error: Exception) -> None:
        if self.log.is_closed and isinstance(error, RxWorkerError):
            raise error
        what = run_id, reason_of(error), self.pending.retry(run_id, time.time())
        if isinstance(error, RxWorkerError):
            logger.warning("%s is not recovered now: %s. It is tried again in %g s", *what, extra={"run": run_id})
        else:
            logger.error(
                "%s is not recovered now: %s. It is tried again in %g s", *what, extra={"run": run_id}, exc_info=error
            )

    async def refresh(self, run_id: str) -> None:
        """Read the information of the log about a run; later, if it cannot be read now."""
        try:
            info = await self.log.listed(run_id)
        except RxWorkerError as error:
            self._retry(run_id, error)
            return
        if info is not None:
            self.pending.note(info, time.time())

    async def catch_up(self, revision: int | None = None) -> None:
        """Read what has changed in the log; again, if it cannot be read for a while.

        Args:
            revision: Up to which it is to be known; by default all is read.

        Raises:
            LogError: It cannot be read for a minute, or was closed.
        """
        if revision is not None and self._cursor.revision >= revision:
            return
        failures, pause, since = iter(RETRIES), 0.0, time.monotonic()
        while True:
            try:
                if self.log.is_closed:
                    raise LogError("the log was closed")
                if not self._is_loaded:
                    async with aclosing(self._cursor.stored(0)) as pages:
                        async for infos in pages:
                            self._note(infos)
                    self._is_loaded = True
                while infos := await self._cursor.newer():
                    self._note(infos)
                return
            except LogError as error:
                pause = next(failures, pause)
                if self.log.is_closed or time.monotonic() + pause > since + PATIENCE:
                    raise
                logger.warning("the log cannot be read: %s. It is tried again in %g s", error, pause)
                await asyncio.sleep(pause)

    def _note(self, infos: list[RunInfo]) -> None:
        now = time.time()
        for info in infos:
            self.pending.note(info, now)
            if info.error and info.status in OPEN and info.run_id not in self._unreadable:
                self._unreadable.add(info.run_id)
                logger.warning("%s is not recovered: %s", info.run_id, info.error, extra={"run": info.run_id})
            for outer in (info.run_id, info.row.resumes) if self._nested else ():
                if outer != info.run_id or info.status not in OPEN or outer in self._watched:
                    self._watched.discard(outer)
                    for nested in self._nested.pop(outer, ()):
                        self.pending.defer(nested, now)

    async def _is_due(self, info: RunInfo) -> bool:
        """Whether a paused run was decided about, or is woken by a result, and not resumed; true for other runs."""
        if info.status != "paused":
            return True
        sent = await self.log.sent(info.run_id)
        decided = decisions_in(sent) or await self._wake(info, sent)
        if not decided and not is_woken(info.row, sent):
            return False
        resumed = await self.log.info(resumed_id(info.run_id))
        if resumed is not None and resumed.last_seq:
            self.pending.drop(info.run_id)
            return False
        if resumed is not None and resumed.owner and resumed.lease_until > time.time():
            self.pending.defer(info.run_id, resumed.lease_until)
            return False
        # The process that has decided is about to resume the run. A clock may be wrong, so this is waited for once.
        now, seconds = time.time(), decided[0].data.get("reserved", 0.0) if decided else None
        if isinstance(seconds, float) and info.run_id not in self._left:
            until = min(decided[0].time, now) + seconds
            if until > now:
                self._left.add(info.run_id)
                self.pending.defer(info.run_id, until)
                return False
        self._left.discard(info.run_id)
        return True

    async def _wake(self, info: RunInfo, sent: Sequence[Command]) -> list[Command]:
        """Decide about a paused run that waits for something else than a person, if that has come.

        All processes store the decision under one key, so that the log takes the first.
        """
        if not info.is_waiting:
            return []
        pause = await pause_in(self.log, info)
        decisions = await _come(self.log, info.run_id, pause, sent)
        held = None
        if pause.held is not None and pause.held.wait is not None:
            held = await _woken(self.log, info.run_id, pause.held.wait, sent, pause.held.received)
        if held is None and not any(decisions):
            for wait in [wait for wait in pause.waits if wait.run]:
                last = await _last(self.log, wait.run)
                self._nested.setdefault(last, set()).add(info.run_id)
                if wait.event:
                    self._watched.add(last)
            if info.row.due:
                self.pending.defer(info.run_id, info.row.due)
            return []
        woken, by = (None, "") if held is None else (held.input, message_in(held))
        command = decision_command(StoredDecision(tuple(decisions), woken=woken, by=by))
        with suppress(CommandConflictError):
            await self.log.send(info.run_id, command)
        return [command]


async def _woken(
    log: EventLog,
    run_id: str,
    wait: Wait,
    sent: Sequence[Command],
    received: Collection[str],
    began: BackgroundCall | None = None,
) -> Approve | None:
    """The decision about a call whose tool waits; ``None`` if what it waits for has not come.

    Args:
        log: The log.
        run_id: The id of the run.
        wait: What the tool waits for.
        sent: The commands to the run.
        received: The ids of the messages that have ended its waits before.
        began: The call, if it is in the background: a message that the run has taken since it waits counts.
    """
    for command in sent:
        if wait.signal and command.kind == "signal" and command.data["name"] == wait.signal:
            return Approve(msgspec.convert(command.data["value"], JsonObject | str))
    if wait.message and (message := await _message_to(log, run_id, sent, received, began)) is not None:
        return message
    other = await present(log, wait.run) if wait.run else None
    if wait.event and (found := await _event_of(log, wait)) is not None:
        return Approve(found)
    if other is not None and other.status in ("finished", "aborted", "deleted"):
        return Approve({"run": other.run_id, "status": other.status})
    return Approve() if wait.due and wait.due <= time.time() else None


async def _last(log: EventLog, run_id: str) -> str:
    """The id of the last of the runs that resume each other, or of one that begins later."""
    info = await present(log, run_id)
    return run_id if info is None else info.run_id


async def _come(log: EventLog, run_id: str, pause: PauseState, sent: Sequence[Command]) -> list[Decision | None]:
    """The decisions about what waits, other than for a person, in the order of `PauseState.tree`."""
    tree = pause.tree
    calls = {part[0]: each for part, each in zip(parts_of(tree)[1:], pause.background, strict=True)}
    waits = enumerate(woken_by(tree))
    return [wait and await _woken(log, run_id, wait, sent, tree[at].received, calls.get(at)) for at, wait in waits]


async def until_woken(log: EventLog, runs: Sequence[str], pause: PauseState) -> list[Decision | None]:
    """Wait until something has come that calls in the background of a run wait for; the decisions about them.

    Args:
        log: The log.
        runs: The ids of the run and of those around it: what is sent to one of them counts.
        pause: The calls.
    """
    due = min([wait.due for wait in pause.waits if wait.due], default=0.0)
    while True:
        names = {*runs}
        for last in [await _last(log, wait.run) for wait in pause.waits if wait.run]:
            names |= {last, resumed_id(last)}
        with ExitStack() as entered:
            wakers = [entered.enter_context(Waker(log.followers, name, name not in runs)) for name in names]
            for run_id in runs:
                found = await _come(log, run_id, pause, await log.sent(run_id))
                if any(found):
                    return found
            until = min(due, time.time() + log.lease) if due else None  # a clock may be set
            waiting = [asyncio.ensure_future(waker.wait(until)) for waker in wakers]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waiting:
                    each.cancel()


async def give_back(log: EventLog, claim: Claim) -> None:
    """Release a claim, also while it is cancelled, so that other processes need not wait for its lease."""
    with suppress(RxWorkerError):  # then its lease ends
        await release_shielded(log, claim, SETTLE)


async def _decide_outside(log: EventLog, info: RunInfo) -> bool:
    """Store with the outer run what is decided about a nested one, or that it has a result that it waits for.

    Returns:
        Whether there was something.
    """
    sent = [] if info.status != "paused" else await log.sent(info.run_id)
    found = decisions_in(sent)
    is_due = bool(found) or is_woken(info.row, sent)
    if is_due:
        given = Decided(read_stored(found[0].data).decisions if found else {})
        run_id, given = await routed(log, info, given)
        await _store(log, run_id, given)
    return is_due


async def _store(log: EventLog, run_id: str, given: Decided) -> None:
    if not await decide_running(log, run_id, given):
        await log.send(run_id, decision_command(given))


async def _event_of(log: EventLog, wait: Wait) -> JsonObject | None:
    """The first event of the application of a name in a run, and in those that resume it."""
    run_id = wait.run
    while (info := await log.listed(run_id)) is not None and info.last_seq:
        async for entry in log.read(run_id):
            event = record_of(entry, run_id).event if entry.kind == "custom" else None
            if isinstance(event, Custom) and event.name == wait.event:
                return {"run": run_id, "event": event.name, "data": event.data}
        run_id = resumed_id(run_id)
    return None


async def own_events(log: EventLog, run_id: str, *kinds: str) -> list[Event]:
    """The events of some kinds that a run has made here: those of nested runs, and copied and imported ones, are not.

    The commands that those had taken are other ones than what this run was sent, though with the same numbers.
    """
    imported, found = (await log.existing(run_id)).row.imported, list[Event]()
    async for entry in log.read(run_id):
        if entry.first <= imported or entry.kind not in (*kinds, "fork"):
            continue
        record = record_of(entry, run_id)
        if isinstance(record.event, Fork) and not record.path:
            found.clear()
        elif entry.kind in kinds and not record.path:
            found.append(record.event)
    return found


def taken_in(own: Iterable[Event]) -> frozenset[int]:
    """The numbers of the commands that a run has taken, or that are void, by its own events.

    >>> sorted(taken_in([CommandTaken(4, "send"), RunRequeue(commands=2)]))
    [1, 2, 4]
    """
    taken = set[int]()
    for event in own:
        if isinstance(event, CommandTaken):
            taken.add(event.number)
        elif isinstance(event, RunRequeue):  # what was sent before is void
            taken.update(range(1, event.commands + 1))
    return frozenset(taken)


async def _message_to(
    log: EventLog, run_id: str, sent: Sequence[Command], received: Collection[str], began: BackgroundCall | None
) -> Received | None:
    """The first message to a run that it has not taken, or not before a call in its background waited."""
    sends = [(one.number, msgspec.convert(one.data, SentMessages)) for one in sent if one.kind == "send"]
    gone = {*received, *(one.withdraws for _, one in sends if one.withdraws)}
    named = [(number, message_id(one.id, run_id, number), one.messages) for number, one in sends if one.messages]
    waiting = [each for each in named if each[1] not in gone]
    if not waiting:
        return None
    events = await own_events(log, run_id, *TAKES, "background_start")
    starts = [at for at, event in enumerate(events) if isinstance(event, BackgroundStart) and event.background == began]
    before = events if began is None else events[: starts[0]] if starts else []
    taken = taken_in(before)
    left = ((messages, name) for number, name, messages in waiting if number not in taken)
    return next((Received("\n".join(message.text for message in messages), name) for messages, name in left), None)


class PendingRuns:
    """The runs that wait for a process, in the order in which they are taken: by priority, then by age.

    Args:
        cap: How many runs of a tenant may be held at once; ``None``: any number.
    """

    def __init__(self, cap: Callable[[str], int | None] = lambda _: None) -> None:
        self._cap = cap
        self._infos: dict[str, RunInfo] = {}
        self._ready: list[tuple[int, float, str]] = []
        self._offered: set[str] = set()
        self._deferrals: list[tuple[float, str]] = []
        self._held: dict[str, str] = {}
        self._count: Counter[str] = Counter()
        self._parked: dict[str, list[str]] = {}
        self._deferred: dict[str, float] = {}
        self._dropped: dict[str, tuple[str, int, int]] = {}
        self._tries: dict[str, int] = {}

    def note(self, info: RunInfo, now: float) -> None:
        """Take newer information about a run."""
        run, before = info.run_id, self._infos.get(info.run_id)
        if before is not None and before.revision > info.revision:
            return
        is_open = info.status in OPEN
        is_held = is_open and bool(info.owner) and info.lease_until > now
        self._hold(run, info.row.labels.get(TENANT, "") if is_held else None)
        # An imported run is first continued by its name alone, and one that cannot be decoded not at all.
        imported = info.row.imported
        is_taken = is_open and (not imported or info.last_seq > imported)
        row = info.row
        may_go_on = info.status == "paused" and (info.sent or row.outer or row.due or row.awaits == "run")
        if info.error or not (is_taken or may_go_on):
            self._forget(run)
            return
        if self._dropped.get(run) == _progress_of(info):
            return
        self._dropped.pop(run, None)
        self._infos[run] = info
        is_known = before is None or (before.row.due, before.sent) == (info.row.due, info.sent)
        if not is_known and (info.row.due or info.status == "queued"):
            self._deferred.pop(run, None)
        if row.due > now and (info.status == "queued" or not (info.sent or row.awaits == "run" or row.outer)):
            self.defer(run, row.due)
        if self._deferred.get(run, 0.0) > now:
            return
        was_deferred = self._deferred.pop(run, None) is not None
        # A run without entries was claimed, and is not accepted yet: nothing of it can be continued.
        if not is_held and info.last_seq:
            was_held = before is not None and bool(before.owner) and before.lease_until > 0
            if before is None or before.revision < info.revision or was_held or was_deferred:
                self._offer(info)

    def defer(self, run_id: str, until: float) -> None:
        """Offer a run again only after that time: another process holds it."""
        if run_id in self._infos:
            self._deferred[run_id] = until
            heappush(self._deferrals, (until, run_id))

    def retry(self, run_id: str, now: float) -> float:
        """Offer a run again later, which could not be continued.

        Returns in how many seconds; the more often it has failed, the more.
        """
        tries = self._tries.get(run_id, 0)
        pause = RETRIES[min(tries, len(RETRIES) - 1)]
        if run_id in self._infos:
            self._tries[run_id] = tries + 1
        self.defer(run_id, now + pause)
        return pause

    def succeeded(self, run_id: str) -> None:
        """Forget the failures of a run."""
        self._tries.pop(run_id, None)

    def drop(self, run_id: str) -> None:
        """Leave a run to other processes until it goes on.

        That it is claimed and released is not enough: the attempt to continue it does that.
        """
        info = self._infos.get(run_id)
        self._forget(run_id)
        if info is not None:
            self._dropped[run_id] = _progress_of(info)

    def _forget(self, run_id: str) -> None:
        for each in (self._infos, self._deferred, self._tries, self._dropped):
            each.pop(run_id, None)

    @property
    def held_infos(self) -> list[RunInfo]:
        """The runs that are held by a process."""
        return [self._infos[run] for run in self._held if run in self._infos]

    def held(self, tenant: str) -> int:
        """How many runs of a tenant are held by a process."""
        return self._count[tenant]

    def pop(self) -> RunInfo | None:
        """The next run that waits; ``None`` if there is none now."""
        while self._ready:
            _, _, run = heappop(self._ready)
            self._offered.discard(run)
            info = self._infos.get(run)
            if info is None or run in self._held:
                continue
            tenant = info.row.labels.get(TENANT, "")
            cap = self._cap(tenant)
            if cap is None or self._count[tenant] < cap:
                return info
            self._parked.setdefault(tenant, []).append(run)
        return None

    def next_ones(self, count: int) -> list[RunInfo]:
        """Some of the runs that wait, which are offered again unless they are claimed."""
        some = [self._infos.get(run) for _, _, run in nsmallest(count, self._ready)]
        return [
            info
            for info in some
            if info is not None
            and info.status in OPEN
            and not info.row.outer
            and info.run_id not in self._held
            and self._cap(info.row.labels.get(TENANT, "")) is None
        ]

    @property
    def next_deferral(self) -> float | None:
        """When the first deferral ends."""
        return self._deferrals[0][0] if self._deferrals else None

    def deferred(self, now: float) -> list[str]:
        """The runs whose deferral has ended by now: note them again."""
        found: list[str] = []
        while self._deferrals and self._deferrals[0][0] <= now:
            _, run = heappop(self._deferrals)
            if run in self._infos:
                found.append(run)
        return found

    def _offer(self, info: RunInfo) -> None:
        if info.run_id not in self._offered:
            self._offered.add(info.run_id)
            heappush(self._ready, (-info.row.priority, info.created, info.run_id))

    def _hold(self, run_id: str, tenant: str | None) -> None:
        """Count a run that is held, for its tenant; ``None``: it is not."""
        before = self._held.pop(run_id, None)
        if before is not None:
            self._count[before] -= 1
            for parked in self._parked.pop(before, ()):
                info = self._infos.get(parked)
                if info is not None:
                    self._offer(info)
        if tenant is not None:
            self._held[run_id] = tenant
            self._count[tenant] += 1


def _progress_of(info: RunInfo) -> tuple[str, int, int]:
    return info.status, info.last_seq, info.sent


OUTER_ENDED = "its outer run has ended"


async def present(log: EventLog, outer: str) -> RunInfo | None:
    """The last of the runs that resume each other, of which the outer run is one.

    It makes the same calls, and continues their nested runs. ``None`` if it is in another log.
    """
    info = await log.listed(outer)
    while info is not None and info.status == "paused":
        resumed = await log.listed(resumed_id(info.run_id))
        if resumed is None or not resumed.last_seq:
            break
        info = resumed
    return info


async def end_nested(log: EventLog, outer: str) -> None:
    """End the runs nested in a run that ends and does not continue them. Those that a process holds are left to it.

    Raises:
        LogError: The log cannot be read or written.
    """
    for status in ("running", "paused"):
        async for infos in log.list_pages(status=status):
            for info in infos:
                if info.row.outer and first_id(info.row.outer) == first_id(outer):
                    with suppress(CommandConflictError, LeaseHeldError, RunStatusError):
                        await _end_inner(log, info)


async def _end_inner(log: EventLog, info: RunInfo) -> None:
    await (_dismiss if info.status == "paused" else end_run)(log, info.run_id, OUTER_ENDED)


async def dismiss_all(log: EventLog, runs: Iterable[str]) -> None:
    """Dismiss the paused runs of calls that no longer wait with them; those that were decided about are left.

    Raises:
        LogError: The log cannot be read or written.
    """
    for run_id in runs:
        with suppress(CommandConflictError, RunStatusError):
            await _dismiss(log, run_id, OUTER_ENDED)


async def pause_in(log: EventLog, info: RunInfo) -> PauseState:
    """What a stored run waits for: one that is paused, or one that is running while calls in its background wait.

    Raises:
        RunStatusError: It is neither, or was resumed.
        LogError: The log cannot be read.
    """
    status, run_id = info.status, info.run_id
    if status == "paused":
        async for entry in log.read(run_id, (info.row.end or info.last_seq) - 1):
            event = record_of(entry, run_id).event
            if isinstance(event, RunPause):
                return event.pause
    if status in OPEN:
        state = fold_run(list(records_of([entry async for entry in log.read(run_id)], run_id)))
        if (pause := state.waiting) is not None:
            return pause
    raise RunStatusError(f"{run_id} is {status}: it takes no decision now", run_id=run_id, status=status)


async def outermost(log: EventLog, info: RunInfo) -> RunInfo:
    """The run that is inside no other one, and has this one inside; the run itself, if it is that."""
    while info.row.outer and (around := await present(log, info.row.outer)) is not None:
        info = around
    return info


async def routed(log: EventLog, info: RunInfo, given: Decided | Deny) -> tuple[str, Decided]:
    """Where decisions about a run that waits inside another one are stored: with the outermost run around it.

    Args:
        log: The log of the run.
        info: The run.
        given: What is decided about its calls; or a denial of the call that it belongs to, which ends the run.

    Returns:
        The id of the outermost run, and what is decided about its calls. For a run inside one of another log, its own.

    Raises:
        DecisionError: The decisions do not fit the calls, or something else is given with them.
        RunStatusError: The run does not wait, or the outermost one does not.
        LogError: The log cannot be read.
    """
    outer = await outermost(log, info)
    if outer is info and isinstance(given, Decided):
        return info.run_id, given
    tree = (await pause_in(log, outer)).tree
    at = next((at for at, node in enumerate(tree) if node.inner_run == info.run_id), None)
    if at is None:
        text = f"{info.run_id} does not wait for a decision in {outer.run_id} any more"
        raise RunStatusError(text, run_id=info.run_id, status=info.status)
    decided: list[Decision | None] = [None] * len(tree)
    if isinstance(given, Deny):
        decided[at] = given
    elif given.add or given.shared_state is not None:
        what = "takes no messages and no shared state: send messages to the run when it goes on"
        raise DecisionError(f"{info.run_id} is inside another run, so that a decision about it {what}")
    else:
        inside = decide(PendingCalls.of(await pause_in(log, info)), given.decisions)
        decided[at + 1 : at + 1 + tree[at].inner] = inside
        if not inside:
            decided[at] = Approve()  # it waits for no decision, and goes on
    return outer.run_id, Decided(decided)


def deliveries_of(pause: PauseState, decided: Sequence[Decision | None]) -> list[DeliveredResult]:
    """What becomes of the calls in the background by decisions about what waits: the next step of each, or its result.

    Args:
        pause: What waits.
        decided: The decisions, in the order of `PauseState.tree`.

    Raises:
        DecisionError: One of them is to be allowed always.
    """
    found, tree = list[DeliveredResult](), pause.tree
    roots = [part[0] for part in parts_of(tree)[1:]]
    granted_by(PendingCalls.of(pause), decided)  # none of them can be allowed always
    for each, at in zip(pause.background, roots, strict=True):
        own, inside, question = decided[at], decided[at + 1 : at + 1 + tree[at].inner], tree[at].question
        begun = each.begun or Begun()
        if question is not None and isinstance(own, Approve | Deny):
            begun = replace(begun, reply=reply_of(question, own))
        elif tree[at].wait is not None and isinstance(own, Approve):
            begun = begun.wake(own.input, message_in(own))
        elif isinstance(own, Approve) or (own is None and any(inside)):
            begun = replace(begun, decided=msgspec.to_builtins(inside))
        match own:
            case _ if begun != each.begun:
                found.append(DeliveredResult(each.id, "", begun=begun, step=each.step + 1))
            case Deny(reason=reason):
                found.append(DeliveredResult(each.id, reason, is_error=True, step=each.step + 1))
            case Answer(content=content, is_error=is_error):
                found.append(DeliveredResult(each.id, content, is_error, step=each.step + 1))
            case _:
                pass  # it goes on waiting
    return found


async def decide_running(log: EventLog, run_id: str, given: Decided) -> str:
    """Give a run that is running decisions about what waits in its background, each once, by commands to it.

    See `Run.decide` for a run of this process.

    Args:
        log: The log of the run.
        run_id: The run, or one inside it that waits.
        given: What is decided.

    Returns:
        The id of the run that has them; empty if it is not running, so that it takes them by `Session.decide`.

    Raises:
        CommandConflictError: It was decided about before.
        DecisionError: The decisions do not fit the calls, or something else is given with them.
        RunStatusError: Nothing waits.
        LogError: There is no such run, or the log cannot be read or written.

    Example:
        >>> from rxworker import Worker, tool, worker_tool
        >>> from rxworker.events import BackgroundStart
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel, call
        >>> has_paid = asyncio.Event()
        >>> @tool(requires_approval=True)
        ... async def pay() -> None:
        ...     has_paid.set()
        >>> @tool(background=True)
        ... async def look() -> str:
        ...     await has_paid.wait()
        ...     return "a tree"
        >>> async def main() -> None:
        ...     log = MemoryLog()
        ...     inner = Worker(ScriptedModel([call("pay"), "It is paid."]), tools=[pay])
        ...     clerk = worker_tool(inner, name="clerk", description="Pays.", background=True)
        ...     model = ScriptedModel([call("clerk", task="Pay.") + call("look"), "Wait.", "Paid.", "Done."])
        ...     run = Worker(model, tools=[clerk, look], log=log).run("go")
        ...     async for record in run:
        ...         if run.state.waiting is not None and isinstance(record.event, BackgroundStart):
        ...             await run.barrier()
        ...             await decide_running(log, run.id, Decided({"call_1_1/call_1_1": Approve()}))
        ...     print((await run).text)
        >>> asyncio.run(main())
        Done.
    """
    run_id, given = await routed(log, await log.existing(run_id), given)
    info = await log.existing(run_id)
    if info.status not in OPEN:
        return ""
    pause = await pause_in(log, info)
    if given.add or given.shared_state is not None:
        raise DecisionError(f"{run_id} is running, so that a decision takes no messages: send them to it")
    for each in deliveries_of(pause, decide(PendingCalls.of(pause), given.decisions)):
        await log.send(run_id, deliver_command(each))
    return run_id


async def end_run(log: EventLog, run_id: str, reason: str) -> None:
    """End a run that is cut off, and the runs nested in it: what is open is closed, and it is aborted.

    No hook is called.

    Args:
        log: The log of the run.
        run_id: The run's id.
        reason: Shown to users; not interpreted.

    Raises:
        RunStatusError: It has ended.
        LeaseHeldError: A process holds it.
        LogError: There is no such run, or the log cannot be read or written.
    """
    async with claimed(log, run_id) as (claim, info):
        await end_nested(log, run_id)
        entries = [entry async for entry in log.read(run_id)]
        if not entries:
            raise no_run(run_id)
        check_continuable(entries, run_id)
        stored = list(records_of(entries, run_id))
        state, last = fold_run(stored), next(each for each in reversed(stored) if not each.path)
        events = [
            RunRecover(claim.epoch, claim.owner, reason),
            *response_ends(state, reason),
            *call_ends(state, "cancel"),
            RunAbort("cancel", reason),
        ]
        row = replace(info.row, status="aborted", reason=reason, cause="cancel")
        await append_events(log, claim, last, events, row)


async def dismiss_run(log: EventLog, run_id: str, reason: str) -> None:
    """End a paused run, and the paused runs inside it, so that it can no longer be resumed.

    For a run inside another one that waits with it, this is a decision: its call is denied, and the outer run goes on.

    Args:
        log: The log of the run.
        run_id: The run's id.
        reason: Shown to users; not interpreted. It becomes the reason in the list.

    Raises:
        CommandConflictError: It was decided about before.
        RunStatusError: It is not paused.
        LogError: There is no such run, or the log cannot be read or written.
    """
    info = await log.existing(run_id)
    if info.row.outer:
        with suppress(RunStatusError):  # otherwise nothing waits with it
            outer, decided = await routed(log, info, Deny(reason))
            await _store(log, outer, decided)
            return
    await _dismiss(log, run_id, reason)


async def _dismiss(log: EventLog, run_id: str, reason: str) -> None:
    info = await log.existing(run_id)
    if info.status != "paused":
        text = f"{run_id} is {info.status}: only a paused run can be dismissed; cancel it"
        raise RunStatusError(text, run_id=run_id, status=info.status)
    try:
        await log.send(run_id, Command(DECIDE, {DISMISS: reason}, key=DECIDE))
    except CommandConflictError:
        # One that dismisses it may have been stored by a call that ended before the row was changed: this one ends it.
        if not any(one.kind == DECIDE and DISMISS in one.data for one in await log.sent(run_id)):
            raise

    def change(info: RunInfo) -> RunRow:
        ended = round_time(time.time())  # after its last record
        return replace(info.row, status="aborted", reason=reason, cause="cancel", ended=ended)

    await change_row(log, run_id, ("paused",), change)
    with suppress(RunStatusError):
        await dismiss_all(log, [node.inner_run for node in (await pause_in(log, info)).tree if node.inner_run])


async def set_allowed(log: EventLog, run_id: str, allowed: Iterable[tuple[str, str]]) -> None:
    """Set which tools a person always allows with a run, and no others, as soon as no process runs it.

    A process that continues the run then has them.

    A program uses it; what a person decides is stored with the decision, and is withdrawn with `withdraw`.

    Args:
        log: The log of the run.
        run_id: The run's id.
        allowed: The tools, each with the hook that then pauses no run for it; see ``allowed`` of `Worker`.

    Raises:
        LogError: There is no such run, or the log cannot be read or written.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         run = Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        ...         await run
        ...         await set_allowed(log, run.id, [("delete", "requires_approval")])
        ...         print((await log.info(run.id)).row.allowed)
        >>> asyncio.run(main())
        (('delete', 'requires_approval'),)
    """

    def change(info: RunInfo) -> RunRow:
        return replace(info.row, allowed=pairs)

    pairs = tuple(allowed)
    await settle(log, run_id, (await log.existing(run_id)).row.labels, pairs)
    await change_row(log, run_id, LISTED, change)
