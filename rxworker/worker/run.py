"""A run under way: awaitable, observable, and iterable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Literal

from reactivex import Observable, abc

from rxworker.errors import (
    ConfigurationError,
    LimitExceededError,
    LocalProtocolError,
    RunCancelledError,
    as_exception,
    describe,
    reason_of,
)
from rxworker.events import Event, LimitReached, Record, RunAbort
from rxworker.hub import Audience, Delivery, Watch
from rxworker.hub.loss import leave
from rxworker.messages import Json
from rxworker.messages.lenient_json import whole
from rxworker.operators import partial_values
from rxworker.operators.stage import Stage, connect
from rxworker.state import RunState
from rxworker.worker.arguments import expect
from rxworker.worker.context import RunContext, TurnScope
from rxworker.worker.guard import report
from rxworker.worker.input import Input, to_messages
from rxworker.worker.loop import repeat_turns
from rxworker.worker.outcome import result_of
from rxworker.worker.result import RunResult, T_co
from rxworker.worker.stage import Voice, cut_off, is_closed
from rxworker.worker.turn import turn
from rxworker.worker.unobserved import when_unobserved
from rxworker.worker.wind_up import GRACE, cause_of, wind_up

if TYPE_CHECKING:
    from rxworker.worker.worker import Worker

CLOSING = RunCancelledError("its event loop is closing")
logger = logging.getLogger("rxworker.worker")


class Run(Stage[Record], Generic[T_co]):
    """One run of a worker. It begins by itself and goes on whether anybody watches or not.

    - ``await run`` gives the `RunResult`, or raises what ended the run.
    - ``run.subscribe(...)`` and ``run.pipe(...)``: it is the observable of its records. ``run.events`` is that of the bare events.
    - ``async for record in run`` reads the records at the reader's own pace.
    - ``run.watch(...)`` does either with a delivery of one's choice, from any place in the run, and from any thread.

    Whoever comes late sees everything from the start. Leaving detaches; only ``cancel`` ends the run. Made by ``Worker.run``.

    Attributes:
        id: Its name in the records.
        worker: The worker that began it.
    """

    is_direct = True
    emits_records = True
    worker: Worker

    def __init__(
        self,
        context: RunContext,
        first: Sequence[Event],
        scope: TurnScope,
        ended: Callable[[RunState, RunResult[T_co] | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        # Nothing of the base's, which would take a function to subscribe with.
        self._context = context
        self._journal = context.journal
        self._scope = scope
        self._ended = ended
        self._loop = loop
        self._reason: str | None = None
        self._after_turn = False
        self._limit: LimitExceededError | None = None
        self._begun = False
        self._winding = False
        self._awaited = False
        self._result: asyncio.Future[RunResult[T_co]] = self._loop.create_future()
        self._waiting: list[asyncio.Future[RunResult[T_co]]] = []
        self.id = self._journal.run
        for event in first:
            self._journal.emit(event)
        self._patience: asyncio.TimerHandle | None = None
        self._interrupt: KeyboardInterrupt | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._journal.hub.losses.on_interrupt = self._interrupted
        self._driver = self._driven_by(self._drive())

    def __repr__(self) -> str:
        return f"Run({self.id!r}, {self.state.status})"

    @property
    def events(self) -> Observable[Event]:
        """The observable of the bare events: what ``run.pipe(events())`` is, and cheaper."""
        return self._journal.hub.events

    @property
    def partial_output(self) -> Observable[Json]:
        """The value that the answer has made so far, each time that it has changed; see `partial_values`."""
        return self.events.pipe(partial_values())

    @property
    def state(self) -> RunState:
        """What the records so far come to."""
        return self._journal.state

    @property
    def last_seq(self) -> int:
        """The number of the last record."""
        return self._journal.hub.last_seq

    @property
    def watchers(self) -> Audience:
        """Who watches and how far behind they are: ``run.watchers.now``, or as an observable."""
        return Audience(self._journal.hub, lambda: self._context.scheduler)

    def watch(self, delivery: Delivery | None = None, *, after: int = 0, name: str = "") -> Watch:
        """A way of watching: pushed to, or read at one's own pace, on this event loop or in another thread.

        Args:
            delivery: How it is given the records: `Coalesce` by default, or `Reliable`, `Latest`, `DropOldest`.
            after: The number of the last record that it need not be given.
            name: For people; by default it is numbered.
        """
        return self._journal.hub.watch(delivery, after=after, name=name)

    def snapshot(
        self, delivery: Delivery | None = None, *, name: str = ""
    ) -> tuple[RunState, Watch]:
        """For whoever comes late: what the records so far come to, and a way of watching what follows.

        Args:
            delivery: As for ``watch``.
            name: As for ``watch``.
        """
        state = self.state
        return state, self.watch(delivery, after=state.seq, name=name)

    def cancel_when_unobserved(self, grace: float = 30.0) -> abc.DisposableBase:
        """Cancel the run when nobody has watched it for a while. By default a run goes on alone.

        Awaiting it is not watching. Must be called in the run's event loop.

        Args:
            grace: Seconds without a watcher, from now or from when the last one leaves.

        Returns:
            Disposing it lets the run go on alone.

        Raises:
            ConfigurationError: The grace is no time.
        """

        def leave() -> None:
            self.cancel(reason=f"nobody has watched it for {grace:g} seconds")

        return when_unobserved(self._journal.hub, grace, self._context.scheduler, leave)

    def pause(self, *, reason: str = "paused by the caller") -> None:
        """Pause at the next moment at which nothing is cut off: before tools run, after they have, or where the run would finish.

        The result is `Paused`, and ``worker.resume`` goes on. A run that finishes or fails before has finished or failed.

        Args:
            reason: For people.

        Raises:
            LocalProtocolError: The run has ended, or this was called outside its event loop.
            ConfigurationError: The reason is no text.
        """
        self._check_at_home("pause")
        expect("reason", reason, str, "run.pause(reason='lunch')")
        if self.done or self._winding:
            raise LocalProtocolError("this run has ended: there is nothing to pause")
        self._context.pausing.ask(reason)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._result.done()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that it runs on."""
        return self._loop

    def send(self, message: Input) -> asyncio.Future[None]:
        """Put a message into the conversation at the next safe moment: before the next request, and before the run would finish.

        The event of its delivery is a `MessageAdd` whose source is ``send``.

        Args:
            message: As for ``Worker.run``.

        Returns:
            Done when it is in the conversation; need not be awaited. It fails if the run ends before that.

        Raises:
            LocalProtocolError: The run has ended.
            ConfigurationError: The message is none.
        """
        messages = to_messages(message)
        if any(m.role == "assistant" or m.tool_calls or m.tool_results for m in messages):
            raise ConfigurationError("only words of the user or the system are sent into a run")
        if self.done or self._winding:
            raise LocalProtocolError("this run has ended: begin another with worker.run(...)")
        return self._context.inbox.put(messages)

    def cancel(
        self,
        when: Literal["now", "after_turn"] = "now",
        *,
        reason: str = "cancelled by the caller",
    ) -> asyncio.Future[None]:
        """End the run: the connection is closed, tools are cancelled, ``on_abort`` is told, the conversation stays usable.

        Args:
            when: ``now``, or ``after_turn``: when the tools of this turn have run. A run that finishes by itself until then has finished.
            reason: For people.

        Returns:
            Done when the run has ended; need not be awaited. It raises nothing.

        Raises:
            LocalProtocolError: It was called outside the run's event loop, for example in another thread.
            ConfigurationError: ``when`` is neither.
        """
        self._check_at_home("cancel")
        if when not in ("now", "after_turn"):
            message = f"cancel({when!r}): when is 'now' or 'after_turn'; a reason goes into cancel(reason=...)"
            raise ConfigurationError(message)
        if not self.done and not self._winding and self._reason is None:
            self._reason = reason
            self._after_turn = when == "after_turn"
            self._stop_now(when)
        elif self._after_turn and when == "now":
            self._after_turn = False
            self._stop_now(when)
        return asyncio.ensure_future(self._wait())

    def _check_at_home(self, call: str) -> None:
        try:
            is_at_home = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_at_home = False
        if not is_at_home:
            message = f"{call}() belongs into the run's event loop; elsewhere use run.loop.call_soon_threadsafe(run.{call})"
            raise LocalProtocolError(message)

    def _stop_now(self, when: Literal["now", "after_turn"]) -> None:
        # A task that is cancelled before it began never runs at all; this one looks for a reason first.
        if when == "now" and self._begun and not self._winding:
            self._driver.cancel()
            if self._patience is None:
                self._patience = self._loop.call_later(GRACE, self._give_up)

    def _give_up(self) -> None:
        """A hook or a tool does not care that it was cancelled: end without it."""
        if not (self._winding or self.done):
            self._winding = True
            self._driver = self._driven_by(self._fail(self._cut_off()))

    async def _wait(self) -> None:
        await asyncio.wait([self._result])

    # An observable's own __await__ gives its last item. A run's last record says less than its result.
    def __await__(self) -> Generator[object, None, RunResult[T_co]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The result.

        Raises:
            RunCancelledError: ``cancel`` was called.
            RunAbortedError: A hook ended the run.
            LimitExceededError: A limit was reached.
            RxWorkerError: What else went wrong.
        """
        if self._loop.is_closed() and not self.done:
            message = "this run's event loop has closed before the run ended: start a new run"
            raise LocalProtocolError(message)
        self._awaited = True
        if self._result.done():
            return self._result.__await__()
        # A future for each who waits, since to be cancelled cancels what one waits for.
        waiting: asyncio.Future[RunResult[T_co]] = self._loop.create_future()
        if self._waiting:
            self._waiting = [other for other in self._waiting if not other.done()]
        self._waiting.append(waiting)
        return waiting.__await__()

    def __aiter__(self) -> AsyncIterator[Record]:
        """The records from the start, at the reader's own pace; raises what ended the run."""
        return aiter(self._journal.hub)

    def _subscribe_core(
        self, observer: abc.ObserverBase[Record], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        return connect(self._journal.hub, observer, scheduler)

    def _driven_by(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        driver = self._loop.create_task(work, name=f"rxworker run {self.id}")
        driver.add_done_callback(self._driven)
        return driver

    async def _drive(self) -> None:
        self._begun = True
        journal, scheduler = self._journal, self._context.scheduler
        task = asyncio.current_task(self._loop)
        timer: asyncio.TimerHandle | None = None
        error: Exception | None = None
        try:
            timer = self._start_timer()
            if self._reason is not None and not self._after_turn:
                raise RunCancelledError(self._reason)
            turns = repeat_turns(self._turn, self._goes_on, scheduler)
            await Voice(journal.emit, journal.emit_many, task).follow(turns, scheduler)
            if self._after_turn and journal.state.status == "running":
                raise RunCancelledError(self._reason or "")
        except asyncio.CancelledError as cause:
            # Otherwise the last record was out already.
            if journal.state.status != "finished":
                error = self._cut_off(cause)
        except BaseException as cause:
            if is_closed(cause, task):
                raise
            error = self._failure(cause)
        finally:
            for waiting in (timer, self._patience):
                if waiting is not None:
                    waiting.cancel()
        if self._winding:
            return  # it was given up, and has come to its end after all
        if error is not None:
            await self._fail(error)
            return
        self._finish()
        if task is not None:
            task.remove_done_callback(self._driven)  # it would find nothing to do

    def _failure(self, cause: BaseException) -> Exception:
        """What the run fails with. An interrupt leaves the event loop when everyone who waits has been woken."""
        if not isinstance(cause, KeyboardInterrupt):
            if not self._driver.cancelling():
                return as_exception(cause)
            # It was cancelled, and what had to let go has raised.
            error = self._cut_off()
            error.__cause__ = cause
            return error
        self._interrupted(cause)
        error = RunCancelledError(describe(cause))
        error.__cause__ = cause
        return error

    def _interrupted(self, interrupt: KeyboardInterrupt) -> None:
        """A watcher, or something within the run, has raised an interrupt: end the run, and let it leave the event loop then."""
        if self._interrupt is not None:
            return
        self._interrupt = interrupt
        # A hook or a tool that does not stop must not hold it back.
        self._leaving = self._loop.call_later(GRACE, leave, self._loop, interrupt)
        if self._reason is None:
            self._reason = describe(interrupt)
            self._stop_now("now")

    def _cut_off(self, cause: asyncio.CancelledError | None = None) -> Exception:
        """What ended the run in the middle."""
        if self._limit is not None:
            return self._limit
        if cause is not None and isinstance(cause.__cause__, KeyboardInterrupt):
            interrupt = cause.__cause__  # of a tool; it has left the event loop
            error = RunCancelledError(describe(interrupt))
            error.__cause__ = interrupt
            return error
        if self._reason is None and cause is not None and not self._driver.cancelling():
            return cut_off(cause)
        error = RunCancelledError(self._reason or "its task was cancelled")
        error.__cause__ = self._interrupt
        return error

    def _turn(self) -> Observable[Event]:
        scope, self._scope = self._scope, TurnScope(variables=self._context.variables)
        return turn(self._context, scope)

    def _goes_on(self) -> bool:
        return self._journal.state.status == "running" and not self._after_turn

    def _start_timer(self) -> asyncio.TimerHandle | None:
        most = self._context.limits.max_seconds
        return None if most is None else self._loop.call_later(most, self._out_of_time, most)

    def _out_of_time(self, most: float) -> None:
        if not self.done and not self._winding and not self.state.is_over:
            self._journal.emit(LimitReached("max_seconds", most))
            self._limit = LimitExceededError("max_seconds", most)
            self._stop_now("now")

    async def _fail(self, error: Exception) -> None:
        self._winding = True
        try:
            # A cancellation that was not raised yet is not to be raised within what follows.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            await wind_up(self._context, error)
        finally:
            # Told to whoever waits; not awaiting a run is no mistake, so asyncio need not complain of it.
            self._result.set_exception(error)
            self._result.exception()
            try:
                self._let_go(self.state, None)
            finally:
                self._end(error)
            if not (self._awaited or self._journal.hub.watched or self._reason):
                # Where a log goes, half of a character could not be written.
                text = whole(reason_of(error))
                logger.warning("run %s ended and nobody watched it: %s", self.id, text)

    def _driven(self, driver: asyncio.Task[None]) -> None:
        """The last resort: whatever became of the driver, nobody waits for ever."""
        if driver is self._driver and not self._result.done():
            lost = None if driver.cancelled() else driver.exception()
            error = CLOSING if lost is None else self._failure(lost)
            self._result.set_exception(error)
            self._result.exception()
            self._journal.emit(RunAbort(cause_of(error), reason_of(error)))
            self._end(error)
            self._let_go(self.state, None)

    def _finish(self) -> None:
        state = self._journal.state
        result: RunResult[T_co] = result_of(
            state,
            self.id,
            self._context.output,
            self._context.variables,
            self._context.called,
        )
        self._let_go(state, result)
        self._result.set_result(result)
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        """End the records, and then wake who waits: the followers are shown the last record before anybody goes on."""
        self._journal.hub.end(error)
        self._journal.hub.losses.on_interrupt = None  # what comes from here on need not wait
        if self._interrupt is not None and self._leaving is not None:
            self._leaving.cancel()
            leave(self._loop, self._interrupt)
        for waiting in self._waiting:
            if waiting.done():
                continue
            if error is None:
                waiting.set_result(self._result.result())
            else:
                waiting.set_exception(error)

    def _let_go(self, state: RunState, result: RunResult[T_co] | None) -> None:
        """Give everything back that belongs to others: the budget, whoever sent a message, the worker."""
        context = self._context
        if context.budgets:
            report(context)
        if context.inbox.waiting:
            context.inbox.close()
        self._ended(state, result)


__all__ = ["Run"]
