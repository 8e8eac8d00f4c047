"""The task that performs the turns of a run, and the one way in which every run ends.

Theory of operation. A run passes through these phases, in this order; it may skip phases, and never goes back, as
`FOLLOWS` has it::

    LOADING ──▶ STARTING ──▶ RUNNING ──▶ ENDING ──▶ ENDED

Only a run that is stored already is LOADING: its records are read, and this process claims it. If that fails, the run
ends with the error, and nothing is recorded. A request to stop waits for the end of the phase, so that it is recorded,
but not longer than `GRACE`: then the run has ended, and its task releases what it has claimed as soon as the log
answers.

A request to stop (`RunDriver.cancel`, ``max_seconds``, an interrupt) records the first reason and cancels the task. The
task then leaves its turns, and shuts down: handlers, tools and ``on_abort`` hooks. If hooks or tools ignore the
cancellation for `GRACE` seconds, a second task shuts down instead. A run whose last record is emitted has ended: a
request to stop that comes after that is too late, and changes nothing.

In the phase ENDING nothing cuts the run off any more: a cancellation of the task does not reach the log, whose last
records are stored and whose claim is released by the `RunWriter`. If the log does not answer for `GRACE` seconds more
than its own patience, the run ends with a `LogError` without it.

`RunDriver._end` is the only function that sets the outcome. It does so before the records end, and wakes the
waiting tasks after that, so that every watcher has received the last record before a task continues with the result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

from reactivex import Observable

from rxworker.errors import (
    LimitExceededError,
    LogError,
    RunCancelledError,
    RunHandedOverError,
    RxWorkerError,
    as_exception,
    describe,
    reason_of,
)
from rxworker.events import CommandTaken, Event, LimitReached, RunAbort, RunPause
from rxworker.hub.watcher import raise_from_loop, wake
from rxworker.log.recover import dismiss_all
from rxworker.log.writer import RunWriter
from rxworker.messages.lenient_json import whole
from rxworker.run.loop import repeat_turns
from rxworker.run.shutdown import GRACE, cancel_response, cause_of, leave, shut_down
from rxworker.tools.cancellation import is_destroyed
from rxworker.tools.coroutines import Emitter, cut_off
from rxworker.transport.base import ACCOUNT
from rxworker.turn.account import RunAccount
from rxworker.turn.context import RunContext, TurnScope, end_reports
from rxworker.turn.rejoin import take_steps, take_up
from rxworker.turn.result import Paused, RunResult, T_co, result_of
from rxworker.turn.stages import perform_turn

A = TypeVar("A")


CLOSING = RunCancelledError("its event loop is closing")
logger = logging.getLogger("rxworker.worker")

Opened: TypeAlias = tuple[RunContext, TurnScope]
"""A run that may begin, and the scope of its first turn."""


class Phase(Enum):
    """The phase of a run."""

    __hash__ = object.__hash__  # see `BlockType`

    LOADING = "loading"
    """What is stored of the run is loaded."""
    STARTING = "starting"
    """The task has not begun."""
    RUNNING = "running"
    """Turns are performed."""
    ENDING = "ending"
    """Handlers, tools and hooks of a run that was cut short are shut down, and the last records are stored."""
    ENDED = "ended"
    """The outcome is set."""


FOLLOWS: Mapping[Phase, frozenset[Phase]] = {
    Phase.LOADING: frozenset({Phase.STARTING, Phase.ENDED}),
    Phase.STARTING: frozenset({Phase.RUNNING, Phase.ENDED}),
    Phase.RUNNING: frozenset({Phase.ENDING, Phase.ENDED}),
    Phase.ENDING: frozenset({Phase.ENDED}),
    Phase.ENDED: frozenset(),
}
"""Which phases may follow a phase.

Only a run without a log ends without the phase ENDING, and only when it has finished or its task never began.
"""


class RunDriver(Generic[T_co]):
    """Perform the turns of a run in a task, and end the run once.

    Args:
        context: The run.
        begin: What it begins with, or a function that loads that.
        ended: Called with the run, and with the result if there is one.
        loop: The event loop of the run.

    Attributes:
        phase: The phase of the run.
        outcome: The result, or the error that ended the run. Set when the phase becomes ``ENDED``; not to be cancelled.
        is_awaited: Whether any task has awaited the run.
        task: The task that performs the turns, or shuts down.
    """

    def __init__(
        self,
        context: RunContext,
        begin: Opened | Callable[[], Awaitable[Opened]],
        ended: Callable[[RunContext, RunResult[T_co] | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.phase = Phase.LOADING
        self.outcome: asyncio.Future[RunResult[T_co]] = loop.create_future()
        self.is_awaited = False
        self._context = context
        self._journal = context.journal
        self._scope = TurnScope()
        self._ended = ended
        self._loop = loop
        self._cancelled_by = 0  # the number of the command
        self._stop: Exception | None = None  # the reason of the request to stop
        self._stops_after_turn = False
        self._interrupt: KeyboardInterrupt | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._waiting: list[asyncio.Future[RunResult[T_co]]] = []
        context.journal.hub.detach_reporter.on_interrupt = self.interrupt
        self._starting: list[asyncio.Future[None]] = []
        if callable(begin):
            self.task = self._start(self._load(begin))
        else:
            self._open(*begin)
            self.task = self._start(self._drive())

    async def started(self) -> None:
        """Wait until the phase LOADING is over.

        Raises:
            Exception: The run ended in it.
        """
        if self._journal.state.status == "new" and self.outcome.done():
            self.is_awaited = True
            self.outcome.result()
        if self.phase is Phase.LOADING:
            starting: asyncio.Future[None] = self._loop.create_future()
            self._starting.append(starting)
            await starting

    async def _load(self, begin: Callable[[], Awaitable[Opened]]) -> None:
        """Load the run, and drive it."""
        task = asyncio.current_task(self._loop)
        error: Exception | None = None
        try:
            context, scope = await begin()
        except asyncio.CancelledError as cause:
            error = self._cancellation(cause)
        except BaseException as cause:
            if is_destroyed(cause, task):
                raise
            error = self._failure(cause)
        else:
            self._open(context, scope)
            wake(self._starting, None)
            try:
                await asyncio.sleep(0)  # a task that waits for this acts before the first turn
            except asyncio.CancelledError as cause:
                self._stop, self._stops_after_turn = self._cancellation(cause), False
            await self._drive()
            return
        if self.phase is Phase.LOADING:  # it was not given up
            writer = self._journal.writer
            if writer is not None:  # the error came when its first events were emitted
                writer.give_up(LogError(f"{self._journal.run_id} could not begin: {describe(error or CLOSING)}"))
            self.task.remove_done_callback(self._task_ended)
            self._end(error)

    def _open(self, context: RunContext, scope: TurnScope) -> None:
        self._enter(Phase.STARTING)
        self._context, self._scope = context, scope
        self._stop = scope.error or self._stop
        writer = self._journal.writer
        if writer is not None:
            writer.on_failure = self._stop_with
            if not context.parents:  # a nested run goes with its outer one
                writer.log.leaving.add(self._leave_log)

    def _leave_log(self) -> asyncio.Future[RunResult[T_co]] | None:
        """Hand the run over, since its log is being closed."""
        writer = self._journal.writer
        if self._loop is not asyncio.get_running_loop() or writer is None or writer.claim is None:
            return None  # nothing of it is stored
        self.hand_over("its log was closed", GRACE)
        return self.outcome

    @property
    def is_loading(self) -> bool:
        """Whether what is stored of the run is not loaded yet."""
        return self.phase is Phase.LOADING

    @property
    def is_open(self) -> bool:
        """Whether the run still accepts messages, and requests to pause or stop."""
        return self.phase in (Phase.LOADING, Phase.STARTING, Phase.RUNNING)

    @property
    def _has_ended(self) -> bool:
        """Whether the last record is emitted, so that it is too late to stop the run."""
        return self._journal.state.status not in ("new", "running")

    def cancel(self, reason: str, *, after_turn: bool, number: int = 0) -> None:
        """Request that the run stops. The first reason counts; a later request can only make it stop sooner.

        Args:
            reason: Shown to users; not interpreted.
            after_turn: Whether the turn is completed first.
            number: The number of the command that requests it; 0 for none.
        """
        if not self.is_open or self._has_ended:
            return
        after_turn = after_turn and self._context.source is None  # the end of a turn there does not stop its program
        self._cancelled_by = self._cancelled_by or number
        if self._stop is None:
            self._stop, self._stops_after_turn = RunCancelledError(reason), after_turn
        elif after_turn or not self._stops_after_turn:
            return
        if after_turn:
            self._context.background.is_stopping = True
            self._context.background.ring()
        else:
            self._stop_now()

    def hand_over(self, reason: str, seconds: float) -> None:
        """Request that the run stops in this process, so that another one continues it.

        Args:
            reason: Shown to users; not interpreted.
            seconds: How long tools that run may still take. A response that is being received is not waited for.
        """
        if not self.is_open or self._stop is not None or self._has_ended:
            return
        state = self._journal.state
        self._stop = RunHandedOverError(reason)
        is_receiving = state.response is not None and not state.is_closed
        works = any(not each.task.done() for each in self._context.background.calls.values())
        if self._context.source is None and (state.started or works) and not is_receiving:
            self._stops_after_turn = True
            self._timers.append(self._loop.call_later(seconds, self._stop_now))
        else:
            self._stop_now()

    def wait(self) -> asyncio.Future[RunResult[T_co]]:
        """A future of the outcome for one waiting task. Cancelling it cancels nothing else."""
        self.is_awaited = True
        if self.outcome.done():
            return self.outcome
        waiting: asyncio.Future[RunResult[T_co]] = self._loop.create_future()
        if self._waiting:
            self._waiting = [other for other in self._waiting if not other.done()]
        self._waiting.append(waiting)
        return waiting

    def _start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work, name=f"rxworker run {self._journal.run_id}")
        task.add_done_callback(self._task_ended)
        return task

    def _enter(self, phase: Phase) -> None:
        assert phase in FOLLOWS[self.phase], f"{self.phase} -> {phase}"
        self.phase = phase

    async def _drive(self) -> None:
        error = await self._run_turns()
        if self.phase is not Phase.RUNNING:
            return  # the GRACE period was over before the task stopped: another task shuts down
        if error is not None or self._journal.writer is not None:
            self._enter(Phase.ENDING)
            await self._finish(error)
        else:
            self._end(self._result())
        self.task.remove_done_callback(self._task_ended)  # it would have no effect

    async def _run_turns(self) -> Exception | None:
        """Perform the turns.

        Returns:
            The error that ended the run before its last record, if any.
        """
        self._enter(Phase.RUNNING)
        journal, scheduler = self._journal, self._context.scheduler
        task = asyncio.current_task(self._loop)  # an eager one runs before the driver has it
        try:
            if self._stop is not None and not self._stops_after_turn:
                return self._stop  # the writer claims the run to store that
            commands = self._context.commands
            self._context.background.take_steps = self._take_steps
            if journal.writer is not None and commands is not None:
                is_new = journal.writer.claim is None
                await journal.writer.open()
                if self._stop is None and journal.resumes:
                    await commands.carry_over(journal.resumes)
                if self._stop is None and (journal.resumes or not is_new):
                    # Before its first turn: it may have been cancelled while it had no process.
                    await commands.read_now()
            if self._stop is not None and not self._stops_after_turn:
                return self._stop
            if journal.writer is not None and (pause := journal.state.pause) is not None:
                journal.emit(RunPause(pause))  # a copy of a run that has paused: as any other it ends with its pause
                return None
            most = self._context.worker.limits.max_seconds
            if most is not None:
                self._timers.append(self._loop.call_later(most, self._out_of_time, most))
            if self._context.background.is_carried:
                await take_up(self._context)
            if commands is not None:
                commands.start()
            ACCOUNT.set(RunAccount(self._context))
            turns = self._context.source or repeat_turns(self._turn, self._goes_on, scheduler)
            await Emitter(journal.emit, journal.emit_many, task).follow(turns, scheduler)
        except asyncio.CancelledError as cause:
            return None if self._has_ended else self._cancellation(cause)
        except BaseException as cause:
            if is_destroyed(cause, task):
                raise
            return self._failure(cause)
        return self._stop if self._stop is not None and journal.state.status == "running" else None

    def _take_steps(self) -> None:
        if self.phase is Phase.RUNNING:
            try:
                take_steps(self._context)
            except RxWorkerError as error:
                self._stop_with(error)

    def _turn(self) -> Observable[Event]:
        scope, self._scope = self._scope, TurnScope(variables=self._context.variables)
        return perform_turn(self._context, scope)

    def _goes_on(self) -> bool:
        return self._journal.state.status == "running" and not self._stops_after_turn

    def _out_of_time(self, most: float) -> None:
        if self.phase is Phase.RUNNING and not self._has_ended:
            self._journal.emit(LimitReached("max_seconds", most))
            self._stop = LimitExceededError("max_seconds", most)
            self._stop_now()

    def _stop_now(self) -> None:
        self._stops_after_turn = False
        self._journal.is_left = isinstance(self._stop, LogError | RunHandedOverError)
        # A task that is cancelled before it began never runs at all; it checks for a request to stop when it begins.
        if self.phase is Phase.LOADING:
            self._timers.append(self._loop.call_later(GRACE, self._give_up))
        if self.phase is Phase.RUNNING:
            self.task.cancel()
            self._timers.append(self._loop.call_later(GRACE, self._give_up))

    def _give_up(self) -> None:
        """End a run that is not loaded.

        Shut down another one in another task, since a hook or a tool ignores the cancellation.
        """
        if self.phase is Phase.LOADING:
            self.task.cancel()
            self._end(self._cancellation())
        if self.phase is Phase.RUNNING:
            self._enter(Phase.ENDING)
            self.task = self._start(self._finish(self._cancellation()))

    def interrupt(self, interrupt: KeyboardInterrupt) -> None:
        """Stop because of an interrupt raised by a watcher or within the run.

        It leaves the event loop when the run has ended.
        """
        if self._interrupt is not None:
            return
        self._interrupt = interrupt
        # A hook or a tool that does not stop must not hold it back.
        self._timers.append(self._loop.call_later(GRACE, raise_from_loop, self._loop, interrupt))
        if self._stop is None:
            self._stop = RunCancelledError(describe(interrupt))
            self._stop_now()

    def _failure(self, cause: BaseException) -> Exception:
        """The error that the run fails with, if something in it raised ``cause``."""
        if isinstance(cause, KeyboardInterrupt):
            self.interrupt(cause)
            error: Exception = RunCancelledError(describe(cause))
        elif self.task.cancelling():
            error = self._cancellation()  # something raised while it was cancelled
        else:
            return as_exception(cause)
        error.__cause__ = cause
        return error

    def _cancellation(self, cause: asyncio.CancelledError | None = None) -> Exception:
        """The error that the run fails with, if its task was cancelled."""
        if isinstance(self._stop, LimitExceededError | LogError | RunHandedOverError):
            return self._stop
        is_ours = self._stop is not None or self.task.cancelling()
        if cause is not None and (isinstance(cause.__cause__, KeyboardInterrupt) or not is_ours):
            return cut_off(cause)
        error = self._stop or RunCancelledError("its task was cancelled")
        error.__cause__ = self._interrupt
        return error

    async def _finish(self, error: Exception | None) -> None:
        """Shut down a run that was cut short with an error, store the last records, and end the run."""
        try:
            if error is not None:
                await self._shut_down(error)
        finally:
            failed: Exception | None = None
            try:
                if self._journal.writer is not None:
                    failed = await self._store_end(self._journal.writer)
                    await self._end_left(self._journal.writer, failed)
            finally:
                outcome = failed or error
                self._end(self._result() if outcome is None else outcome)

    async def _shut_down(self, error: Exception) -> None:
        # A cancellation that was not raised yet must not be raised within the shutdown.
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        if isinstance(error, LogError | RunHandedOverError):
            await leave(self._context, error)
            return
        cancel_response(self._context, self._scope)
        if self._cancelled_by:
            self._journal.emit(CommandTaken(self._cancelled_by, "cancel"))
        await shut_down(self._context, error)

    async def _store_end(self, writer: RunWriter) -> Exception | None:
        """Store the last records before the callers are notified of the end.

        Returns:
            The error, if they could not be stored.
        """
        closed = writer.close()
        seconds = writer.log.patience + GRACE
        until = self._loop.time() + seconds
        try:
            while not closed.done() and (left := until - self._loop.time()) > 0:
                # Too late to cancel anything. If the event loop closes, this waits for the log like the writer itself.
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((closed,), timeout=left)
        finally:
            if not closed.done():
                text = (
                    f"the log has not answered for {seconds:g} s: the end of {self._journal.run_id} may not be stored. "
                    "Look whether the log works; a run that is not stored as ended can be recovered when its lease "
                    "has ended"
                )
                writer.give_up(LogError(text))
        return closed.exception()  # pyright: ignore[reportReturnType] - the writer sets errors only

    async def _end_left(self, writer: RunWriter, failed: Exception | None) -> None:
        """End the paused runs of calls that do not wait with them any more."""
        nested, pause = self._context.background.nested, self._journal.state.pause
        if failed is None and nested and not self._journal.is_left:
            kept = set[str]() if pause is None else {node.inner_run for node in pause.tree}
            with suppress(RxWorkerError, asyncio.CancelledError):  # a process that takes runs does it otherwise
                await dismiss_all(writer.log, nested.keys() - kept)

    def _stop_with(self, error: Exception) -> None:
        """Stop at once. After a failure of the log nothing may be done, and nothing more is emitted."""
        if self.is_open:
            self._stop = error
            self._stop_now()
        if isinstance(error.__cause__, KeyboardInterrupt):
            self.interrupt(error.__cause__)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """End a run whose task ended without that, for example because the event loop is closing.

        No task waits for ever.
        """
        if task is not self.task or self.phase is Phase.ENDED:
            return
        lost = None if task.cancelled() else task.exception()
        error = CLOSING if lost is None else self._failure(lost)
        writer = self._journal.writer
        if self.phase is Phase.LOADING:
            self._end(error)
            return
        self._journal.emit(RunAbort(cause_of(error), reason_of(error)))
        if writer is not None:
            writer.give_up(LogError(f"{self._journal.run_id} ended before it was stored"))
        self._end(error)

    def _result(self) -> RunResult[T_co]:
        context, journal = self._context, self._journal
        nested, state, called = {} if journal.writer else context.background.nested, journal.state, context.called
        return result_of(state, journal.run_id, context.output, context.variables, called, nested=nested)

    def _end(self, outcome: RunResult[T_co] | Exception) -> None:
        """Set the outcome, release what the run holds, end the records, and then wake the waiting tasks.

        Budgets are reported to, messages that were not delivered are refused, and the session becomes free.
        """
        writer = self._journal.writer
        assert writer is None or not writer.is_open
        if writer is not None:
            writer.log.leaving.discard(self._leave_log)
        is_loaded = self.phase is not Phase.LOADING
        self._enter(Phase.ENDED)
        if isinstance(outcome, Exception):
            error, result = outcome, None
            self.outcome.set_exception(outcome)
            self.outcome.exception()  # a run need not be awaited, so asyncio must not report its error
        else:
            error, result = None, outcome
            self.outcome.set_result(outcome)
        context = self._context
        try:
            context.background.take_steps = None
            if context.commands is not None:
                context.commands.stop()
            if context.budgets and is_loaded:
                end_reports(context, paused=isinstance(result, Paused))
            if context.mailbox.waiting:
                context.mailbox.close()
            self._ended(context, result)
        finally:
            hub = self._journal.hub
            hub.end(error)
            hub.detach_reporter.on_interrupt = None  # from here on an interrupt need not wait
            for timer in self._timers:
                timer.cancel()
            if self._interrupt is not None:
                raise_from_loop(self._loop, self._interrupt)
            if error is not None:
                self.is_awaited = self.is_awaited or any(not each.done() for each in self._starting)
            wake(self._starting, error)
            wake(self._waiting, outcome)
        if error is not None:
            self._log(error)

    def _log(self, error: Exception) -> None:
        """Log an error that no task awaits and no watcher has received."""
        is_cancelled = isinstance(self._stop, RunCancelledError | RunHandedOverError)
        if not (self.is_awaited or self._journal.hub.watched or is_cancelled):
            # A log file cannot hold one half of a surrogate pair.
            text = whole(reason_of(error))
            run_id, turn = self._journal.run_id, self._journal.turn
            logger.warning("run %s ended without a watcher: %s", run_id, text, extra={"run": run_id, "turn": turn})
