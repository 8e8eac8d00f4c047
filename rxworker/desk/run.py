"""A run at a door: in this process, in a log, or in both; how it stands, and the verbs for it.

Theory of operation. Of a run of a log a door shows a replica, which is there while it is looked at, and a verb becomes
a command in the log, whichever process runs it. A run without that log is shown and steered itself. ``info`` is what a
list shows of either.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import aclosing
from functools import partial
from math import inf
from typing import Literal, TypeAlias

from msgspec.structs import replace

from rxworker.decisions import Decided, PendingCalls
from rxworker.errors import CommandConflictError, LocalProtocolError, RunCancelledError, RunStatusError
from rxworker.events import Annotation
from rxworker.log import EventLog, Replica, RunInfo, decide_running, dismiss_run
from rxworker.log.permissions import Pair, allowed_in, set_given
from rxworker.log.values import NO_INPUT, OPEN, TAPPED, Command, RunRow, When, resumed_id
from rxworker.messages import Message
from rxworker.messages.settings import awaited
from rxworker.resume.stored import row_of
from rxworker.run.run import Run, end_of
from rxworker.turn.journal import NOT_WAITING
from rxworker.worker.queue import QueuedSession, QueuedWorker, end_cancelled
from rxworker.worker.session import Session, session_of

RunStatus: TypeAlias = Literal["running", "paused", "finished", "aborted"]

STOP_SECONDS = 5.0
"""Seconds that a run has to end."""
DRAIN_SECONDS = 20.0
"""Seconds that its tools have to end before it is handed over."""
LINGER = 5.0
"""Seconds for which the replica of a run remains without a watcher."""
WAITS = {
    "queued": "it waits for a process that runs it",
    "recovering": "its process has ended, and the run is being recovered",
    "cut_off": "what recorded it has ended: started again, it goes on where its source can be read again",
}
"""The causes and the reasons of running runs without an owner."""


def lost_by(row: RunRow) -> Literal["recovering", "cut_off"]:
    """What becomes of a run whose process has ended: any worker of its name recovers it, and a tapped one no worker."""
    return "cut_off" if row.worker.startswith(TAPPED) else "recovering"


def new_info(run: Run[object] | str, row: RunRow, log: EventLog | None) -> RunInfo:
    """What a list shows of a run that has just begun, or that another process will begin, before its log does.

    >>> new_info("run-1", RunRow(title="Hi"), None).status
    'queued'
    """
    now = time.time()
    if isinstance(run, str):
        return RunInfo(run, replace(row, status="queued"), 0, 0, "", 0.0, now, now, 0, -1, 0)
    owner, until = ("", inf) if log is None else (log.owner, now + log.lease)
    return RunInfo(run.id, row, 1, run.last_seq, owner, until, now, now, 0, 0, 0)


class OpenRun:
    """A run, opened at a door.

    Args:
        info: What a list shows of it.
        log: The log that has it; ``None`` for one that this process alone has.
        here: The run, if this process runs it, or has run it.

    Attributes:
        id: The run's id.
        info: What a list shows of it, as it was read last.
        log: The log that has it.
        here: The run, if this process runs it, or has run it.
        resumed_as: The id of the run that resumed it.
        watching: How many clients look at it: its replica remains.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     run = Worker(ScriptedModel(["Hello."])).run("Hi")
        ...     opened = OpenRun(new_info(run, RunRow(title="Hi"), None), here=run)
        ...     await opened.ended()
        ...     print(opened.info.row.title, opened.status, opened.is_over)
        >>> asyncio.run(main())
        Hi finished True
    """

    def __init__(self, info: RunInfo, log: EventLog | None = None, here: Run[object] | None = None) -> None:
        self.id = info.run_id
        self.info = info
        self.log = log
        self.here = here
        self.resumed_as: str | None = None
        self.watching = 0
        self._has_left = False
        self._sent: dict[str, asyncio.Future[None]] = {}
        self._replica: Replica | None = None
        self._linger: asyncio.TimerHandle | None = None

    @property
    def run(self) -> Run[object] | Replica:
        """What is shown of it."""
        return self._its_own if self.log is None else self._followed(self.log)

    @property
    def _its_own(self) -> Run[object]:
        assert self.here is not None  # a run without a log is one of this process
        return self.here

    def _followed(self, log: EventLog) -> Replica:
        if self._replica is None:
            barrier = None
            if self.here is not None and self.is_running_here:
                barrier = self.here.barrier
            elif not self.info.last_seq:
                barrier = partial(until_begun, log, self.id)
            self._replica = Replica(log, self.id, barrier=barrier)
            self.close_later()  # a verb may need it, and no watcher come
        return self._replica

    @property
    def shown(self) -> Run[object] | Replica | None:
        """What is shown of it, unless nothing is now."""
        return self.here if self.log is None else self._replica

    @property
    def started(self) -> float:
        """When it began, in seconds since the epoch."""
        return self.info.began

    @property
    def resumes(self) -> str | None:
        """The id of the run that it resumes."""
        return self.info.row.resumes or None

    @property
    def has_begun(self) -> bool:
        """Whether it has records. A run that resumes another one has none before a process takes it."""
        return self.here is not None or self.info.last_seq > 0 or not self.info.row.resumes

    @property
    def is_running_here(self) -> bool:
        """Whether this process runs it."""
        return self.here is not None and not self.here.done()

    @property
    def is_running(self) -> bool:
        """Whether it is running, here or in another process."""
        if self.here is not None and not isinstance(self.here.session, QueuedSession):
            return not self.here.done()
        return self.status == "running"

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and its outcome is known; or has left this process, which alone shows it."""
        return self.info.status not in OPEN or self._has_left

    @property
    def is_dismissed(self) -> bool:
        """Whether it was cancelled while it was paused."""
        return self.status == "aborted" and self.run.state.status == "paused"

    @property
    def status(self) -> RunStatus:
        """Its status; what is shown may be ahead of the list. One that was cancelled while it was paused is aborted."""
        status = self.info.status
        if status in OPEN and self.shown is not None and self.shown.done():
            status = self.shown.state.status
        return "running" if status in ("queued", "running", "new", "deleted") else status

    @property
    def reason(self) -> str:
        """The reason of the status: why it is paused, or why it ended early."""
        if self.info.error:
            return self.info.error
        if self.status == "running":
            if (waits := self.waits_for) is None:
                return ""
            return self.info.row.reason or WAITS[waits]
        return (self.info.row if self.is_over else row_of(self.run.state, self.info.row)).reason

    @property
    def waits_for(self) -> str | None:
        """Why no process runs it; ``None`` if one does, a person decides, or it has ended."""
        if self.info.is_waiting and self.resumed_as is None:
            return "waiting"
        if self.is_running_here or self.info.error or not self.info.is_cut_off():
            return None
        return "queued" if self.info.status == "queued" else lost_by(self.info.row)

    @property
    def pending(self) -> PendingCalls:
        """The calls that it has paused for, or that wait in its background while it is running; it must be open."""
        pause = self.run.state.waiting
        return PendingCalls() if pause is None else PendingCalls.of(pause)

    def changed(self) -> None:
        """Called after each change."""

    def update(self, info: RunInfo) -> None:
        """Take newer information about it."""
        if info.revision >= self.info.revision:
            self.info = info
            replica = self._replica
            if replica is not None and replica.done() and info.last_seq > replica.last_seq:
                replica.close()  # the run was put back after its end, or annotated
                self._replica = None
            self.changed()

    async def refresh(self) -> None:
        """Read newer information from the log: the list may be a moment behind.

        Raises:
            LogError: The log cannot be read.
        """
        info = None if self.log is None else await self.log.listed(self.id)
        if info is not None:
            self.update(info)

    async def open(self) -> None:
        """Wait until ``run`` has what is stored. It remains for a moment, also without a watcher.

        Raises:
            LogError: The log has no such run, or cannot be read.
        """
        if self.log is not None:
            self.close_later()
            await self._followed(self.log).ready()

    async def accepted(self) -> None:
        """Wait until the run is stored, if it is to be.

        Raises:
            LogError: It could not be stored.
        """
        if self.here is not None:
            await self.here.barrier()

    async def done(self) -> None:
        """If its last record is published, wait until the run is done, which is then released."""
        run = self.here
        if run is not None and not run.done() and run.state.status not in ("new", "running"):
            await asyncio.wait({asyncio.ensure_future(end_of(run))}, timeout=STOP_SECONDS)

    async def ended(self) -> None:
        """Wait until a run without a log has ended, and note how."""
        await end_of(self._its_own)
        row, self._has_left = self.info.row, True
        if row.status == "running":  # it was not dismissed
            row = row_of(self._its_own.state, row)
        self.update(replace(self.info, row=row, updated=time.time()))

    def _check_running(self) -> None:
        if self.status != "running":
            raise LocalProtocolError(f"this run is {self.status}: start another one")
        if self.info.row.worker.startswith(TAPPED):
            raise LocalProtocolError(NO_INPUT)

    @property
    def sent(self) -> int:
        """How many messages wait in a run without a log; otherwise how many commands were sent to it."""
        return len(self._sent) if self.log is None else self.info.sent

    async def send(self, message: Message, id: str = "", when: When = "turn") -> None:  # noqa: A002 - what it is
        """Send a message into the run, with an id by which it can be changed and withdrawn; ``when`` as in `Run.send`.

        Raises:
            LocalProtocolError: The run has ended, or a message with this id waits.
            LogError: The run has ended, or the log cannot be written.
        """
        self._check_running()
        if self.log is not None:
            await self._followed(self.log).send(message, id=id, when=when)
            return
        if id in self._sent:
            raise LocalProtocolError("a message with this id waits already")
        key = id or uuid.uuid4().hex
        self._sent[key] = self._its_own.send(message, when)
        self._sent[key].add_done_callback(lambda _: self._sent.pop(key))

    async def edit(self, id: str, message: Message, when: When | None = None) -> None:  # noqa: A002 - what it is
        """Replace a message that waits. The records of a stored run state if it was too late.

        Raises:
            LocalProtocolError: The run has ended, or it does not wait.
            LogError: As for ``send``.
        """
        self._check_running()
        if self.log is not None:
            await self._followed(self.log).edit(id, message, when=when)
        elif id in self._sent:
            await self._its_own.edit(self._sent[id], message, when)
        else:
            raise LocalProtocolError(NOT_WAITING)

    async def withdraw(self, id: str) -> None:  # noqa: A002 - what it is
        """Withdraw a message, in whichever process the run runs. The records of a stored one state if it was too late.

        Raises:
            LocalProtocolError: The run has ended, or it does not wait.
            LogError: As for ``send``.
        """
        if self.log is not None:
            self._check_running()
            await self._followed(self.log).withdraw(id)
        elif (waiting := self._sent.get(id)) is None or not waiting.cancel():
            raise LocalProtocolError(NOT_WAITING)

    async def deliver(self, call_id: str, result: object, *, is_error: bool = False, inside: str = "") -> None:
        """Give the result of a call in the background, also to a paused run; see `EventLog.deliver`.

        Args:
            call_id: The id of the call.
            result: The result.
            is_error: Whether the call has failed.
            inside: The id of the run of the call, if that is a stored one inside this.

        Raises:
            CommandConflictError: The call has a result.
            LocalProtocolError: The run has ended.
            LogError: As for ``send``.
        """
        if self.log is not None:
            await self.log.deliver(inside or self.id, call_id, result, is_error=is_error)
        else:
            self._its_own.deliver(call_id, result, is_error=is_error)

    async def decide(self, given: Decided, inside: str = "") -> bool:
        """Decide about what waits in the background of a run that is running; a paused one takes `resume_run`.

        Args:
            given: What is decided.
            inside: The id of the run of the calls, if that is a stored one inside this.

        Returns:
            Whether the run has them; otherwise it is not running any more.

        Raises:
            CommandConflictError: It was decided about before.
            LocalProtocolError: The decisions do not fit, or nothing waits.
            RunStatusError: Nothing waits.
            LogError: As for ``send``.
        """
        if self.log is not None:
            return bool(await decide_running(self.log, inside or self.id, given))
        self._its_own.decide({} if given.decisions is None else given.decisions)
        return True

    async def pause(self, reason: str) -> None:
        """Request a pause of the run.

        Raises:
            LocalProtocolError: The run has ended.
            LogError: As for ``send``.
        """
        self._check_running()
        await awaited(self.run.pause(reason=reason))

    async def cancel(self, reason: str, when: Literal["now", "after_turn"] = "now") -> None:
        """Cancel the run, in whichever process it runs; with ``now``, wait a moment for its end.

        A paused run can no longer be resumed.

        Raises:
            CommandConflictError: It was paused, and resumed meanwhile.
            LogError: As for ``send``.
        """
        if self.status == "paused":
            await self._dismiss(str(RunCancelledError(reason)))
            return
        if self.log is None:
            ended = self._its_own.cancel(when, reason=reason)
            if when == "now":
                await asyncio.wait({ended}, timeout=STOP_SECONDS)
        elif not self.is_over:
            await self._cancel(self.log, when, reason)

    async def _cancel(self, log: EventLog, when: Literal["now", "after_turn"], reason: str) -> None:
        # What is sent to a paused run is carried over to the one that resumes it, which is not in the log yet.
        stored = self.id if self.has_begun else self.info.row.resumes
        await log.send(stored, Command("cancel", {"reason": reason, "when": when}))
        if self.here is not None and isinstance(self.here.session, QueuedSession):
            await asyncio.wait({self.here.hand_over()})
        await self.refresh()
        if self.waits_for == "queued" or (self.waits_for and self.info.row.worker.startswith(TAPPED)):
            await end_cancelled(log, stored, reason)
        if when == "now":
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._followed(log).ended()
            except TimeoutError:
                pass  # a tool takes longer to stop
            await self.refresh()

    async def _dismiss(self, text: str) -> None:
        if self.resumed_as is not None:
            raise CommandConflictError(f"{self.id} was resumed already as {self.resumed_as}")
        log = self.log or session_of(self._its_own).log  # a program may have a log of its own
        if log is not None:
            try:
                await dismiss_run(log, self.id, text)
            except (CommandConflictError, RunStatusError):
                await self.take_outcome(log)
                raise
        else:
            await session_of(self._its_own).dismiss(self.id, text)
        self.update(replace(self.info, row=replace(self.info.row, status="aborted", reason=text, cause="cancel")))

    async def take_outcome(self, log: EventLog) -> None:
        """Take from its log what has become of a paused run elsewhere: it was resumed, or has ended.

        Raises:
            LogError: The log cannot be read.
        """
        info, later = await log.listed(self.id), resumed_id(self.id)
        if await log.listed(later) is not None:
            self.resumed_as = later
        if info is not None and info.status not in OPEN:
            self.update(replace(self.info, row=info.row, updated=info.updated))
        self.changed()

    async def allowed(self) -> tuple[Pair, ...]:
        """What is always allowed in its conversation now, if it is the last run of it.

        Raises:
            LogError: The log cannot be read.
        """
        if self.log is None:
            return await session_of(self._its_own).allowed_now()
        return await allowed_in(self.log, self.id, self.info.row)

    async def disallow(self, pair: Pair) -> None:
        """Withdraw what is always allowed in its conversation, if it is the last run of it: from the next call on.

        Raises:
            LogError: The log cannot be written.
        """
        if self.log is None:
            await session_of(self._its_own).disallow(*pair)
        else:
            # A run that is queued just now is not in the log yet.
            run = self.id if self.info.revision >= 0 else self.info.row.resumes
            await set_given(self.log, self.info.row.labels, pair, run, is_allowed=False)

    async def requeue(self, reason: str) -> None:
        """Put the run back, so that a process continues it.

        Raises:
            LocalProtocolError: No log has it.
            RunStatusError: It is not aborted.
        """
        if self.log is None:
            raise LocalProtocolError("only stored runs can be put back: give the server a log")
        await self.log.requeue(self.id, reason=reason)
        await self.refresh()

    async def annotate(self, annotation: Annotation) -> None:
        """Record what a person or a program thinks of the run.

        Raises:
            ConfigurationError: It names a record that the run does not have.
            LocalProtocolError: No log has it.
            RunStatusError: It has not ended.
        """
        if self.log is None:
            raise LocalProtocolError("only stored runs can be annotated: give the server a log")
        await self.log.annotate(self.id, annotation)
        await self.refresh()

    def close_later(self) -> None:
        """Close the replica soon, unless it is looked at then."""
        if self._linger is not None:
            self._linger.cancel()
        self._linger = asyncio.get_running_loop().call_later(LINGER, self._close_idle)

    def _close_idle(self) -> None:
        if not self.watching:
            self.close()

    def close(self) -> None:
        """Close the replica."""
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._replica is not None:
            self._replica.close()
            self._replica = None


async def until_begun(log: EventLog, run_id: str) -> None:
    """Wait until a process has begun a run."""
    async with aclosing(log.changes(every=0.05)) as changes:
        async for infos in changes:
            if any(info.run_id == run_id and info.last_seq for info in infos):
                return


async def resume_run(session: Session, waiting: OpenRun, given: Decided) -> Run[object] | str:
    """Resume a paused run in a session of its conversation, or leave it to the processes that run its worker.

    Args:
        session: The session.
        waiting: The run.
        given: What is decided.

    Returns:
        The run that resumes it, or the id of the one that another process will begin.

    Raises:
        CommandConflictError: It was decided about before, here or in another process.
        RxWorkerError: As for `Session.resume` and `Session.decide`.
    """
    worker, more, state = session.worker, given.add, given.shared_state
    if isinstance(worker, QueuedWorker):
        run = await worker.decide_later(waiting.id, given.decisions, add=more, shared_state=state, log=session.log)
    else:
        try:
            run = await session.decide(waiting.id, given.decisions, add=more, shared_state=state).started()
        except (CommandConflictError, RunStatusError):
            if session.log is not None:
                await waiting.take_outcome(session.log)
            raise
    waiting.resumed_as = run if isinstance(run, str) else run.id
    waiting.changed()
    return run
