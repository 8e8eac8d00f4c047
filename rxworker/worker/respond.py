"""Second stage of a turn: send the request and receive the response, through the worker's operators and the timeline.

A response that fails after its first event is requested again, and the events show it. The operators may be anyone's, so `apply_operators` makes sure
that no operator leaves a run waiting for ever or in another thread:

* Operators that wait, such as ``ops.delay``, use the run's scheduler, unless they were given another.
* Events from another thread are brought back to the event loop, in order.
* An operator that raises instead of calling ``on_error`` raises into its caller: the operator before it, the source, or a callback of
  the scheduler. Each of these catches every exception, and ends the response with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from msgspec import Struct
from reactivex import Observable, abc, typing
from reactivex.disposable import SingleAssignmentDisposable

from rxworker.errors import TruncatedError, as_exception, reason_of
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Event,
    ResponseEvent,
    ResponseStatus,
)
from rxworker.operators import Stage, error_to_exception
from rxworker.providers import Request
from rxworker.transport.clock import LoopClock
from rxworker.transport.seams import PRESSURE
from rxworker.worker.call_tools import discard_early, start_early
from rxworker.worker.context import ResponseOperator, RunContext, TurnScope
from rxworker.worker.loop import Emitter


async def respond(context: RunContext, scope: TurnScope, emitter: Emitter[Event]) -> None:
    """Say what a response says, through the worker's operators and its timeline; again, until it succeeds or there is no use in it.

        response   ---d--#            d what the response said
                            ---e--|
        [ respond ]
        --a--d--r-----------a--e--|    a AttemptStart, r AttemptRetract: what was said is taken back

    Raises:
        Exception: What the last attempt came to.
        TruncatedError: The stream completed without the terminal event of the response.
    """
    model, history = context.model, context.journal.hub.history
    request = scope.request or Request(context.journal.state.conversation)
    started = AttemptStart(model.name, model.model)
    PRESSURE.set(RunPressure(context))  # the subscriptions follow in this context
    attempts = 0
    while True:
        attempts += 1
        response: Observable[Event] = model.stream(request)
        if context.operators:
            response = apply_operators(context.operators, response, context.scheduler)
        # Applied by hand: what `pipe` adds costs more than the operators do.
        response = context.timeline(response)
        if context.tools.starts_early:
            response = start_early(context, scope, response)
        emitter.emit(started)
        begun = history.last_seq
        try:
            await emitter.listen(response, context.scheduler)
            _expect_end(context)
            return
        except Exception as error:
            may_repeat = _may_repeat(context, begun)
            wait = context.retry.delay(error, attempts) if may_repeat else None
            if wait is None:
                raise
            # A model may raise out of the subscription, and not through it.
            discard_early(context, scope)
            scope.early = None
            context.timeline.retract(reason_of(error))
            emitter.emit(AttemptRetract(reason_of(error), wait))
        await emitter.listen(_pause(wait, context.scheduler))


def _expect_end(context: RunContext) -> None:
    """See that the response has come to its terminal event: what was cut must not pass for an answer.

    Raises:
        TruncatedError: It has not.
        RxWorkerError: It has failed, and the stream completed all the same.
    """
    response = context.journal.state.response
    if response is not None and response.status is ResponseStatus.COMPLETED:
        return
    if response is not None and response.error is not None:
        raise error_to_exception(response.error)
    which = f"the stream of {context.model!r}"
    if context.operators:
        which += ", or what the worker's operators make of it,"
    raise TruncatedError(
        f"{which} completed without the event that ends a response, Status(COMPLETED)"
    )


def _pause(seconds: float, scheduler: abc.SchedulerBase) -> Observable[Event]:
    """Says nothing, and ends when so much of the scheduler's time has gone by."""

    def subscribe(
        observer: abc.ObserverBase[Event], _: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        def end(_: abc.SchedulerBase, __: object = None) -> None:
            observer.on_completed()

        return scheduler.schedule_relative(seconds, end)

    return Stage(subscribe)


def _may_repeat(context: RunContext, begun: int) -> bool:
    """Whether an attempt that failed could be made again: not one without any event, which the client has retried already."""
    records = context.journal.hub.history.records(begun)
    return any(not r.path and isinstance(r.event, ResponseEvent) for r in records)


A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")


def apply_operators(
    operators: Sequence[ResponseOperator],
    source: Observable[ResponseEvent],
    scheduler: abc.SchedulerBase,
) -> Observable[ResponseEvent]:
    """The response through the operators, the first listed first.

    Args:
        operators: What it passes through.
        source: The response.
        scheduler: Whose time it is, for operators that were given none.
    """

    def subscribe(
        observer: abc.ObserverBase[ResponseEvent], _: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        upstream = SingleAssignmentDisposable()
        thread = _LoopThread()

        def fail(error: BaseException) -> None:
            upstream.dispose()
            on_error(as_exception(error))

        def guarded(before: Observable[ResponseEvent]) -> Observable[ResponseEvent]:
            """A source for an operator, which catches what the operator raises."""

            def subscribe(
                first: abc.ObserverBase[ResponseEvent], clock: abc.SchedulerBase | None = None
            ) -> abc.DisposableBase:
                return before.subscribe(
                    caught(first.on_next, fail),
                    caught(first.on_error, fail),
                    caught(first.on_completed, fail),
                    # The model has a clock of its own.
                    scheduler=None if before is source else clock,
                )

            return Observable(subscribe)

        def on_next(event: ResponseEvent) -> None:
            thread.run(lambda: observer.on_next(event))

        def on_error(error: Exception) -> None:
            thread.run(lambda: observer.on_error(error))

        def on_completed() -> None:
            thread.run(observer.on_completed)

        clock = _Clock(asyncio.get_running_loop(), fail)
        result = source
        for operator in operators:
            result = operator(guarded(result))
        upstream.disposable = result.subscribe(
            on_next,
            on_error,
            on_completed,
            scheduler=clock if isinstance(scheduler, LoopClock) else scheduler,
        )
        return upstream

    return Observable(subscribe)


class _LoopThread:
    """The event loop's thread: what is asked for in another one is done here, in the order of asking."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: deque[Callable[[], None]] = deque()

    def run(self, action: Callable[[], None]) -> None:
        if not self._waiting and threading.get_ident() == self._thread:
            action()
            return
        self._waiting.append(action)
        self._loop.call_soon_threadsafe(self._next)

    def _next(self) -> None:
        # It leaves the row only when it is done, so that nobody overtakes it.
        try:
            self._waiting[0]()
        finally:
            self._waiting.popleft()


class _Clock(LoopClock):
    """The time of the event loop, for operators: what an action of theirs raises ends the response.

    Args:
        loop: The event loop.
        fail: Called with what was raised.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__(loop)
        self._fail = fail

    def schedule(
        self, action: typing.ScheduledAction[A], state: A | None = None
    ) -> abc.DisposableBase:
        """Run an action in the next turn of the loop."""
        return super().schedule(caught(action, self._fail), state)

    def schedule_relative(
        self,
        duetime: typing.RelativeTime,
        action: typing.ScheduledAction[A],
        state: A | None = None,
    ) -> abc.DisposableBase:
        """Run an action after a while."""
        if self.to_seconds(duetime) <= 0:
            return self.schedule(action, state)
        return super().schedule_relative(duetime, caught(action, self._fail), state)


def caught(
    call: Callable[P, B | None], fail: Callable[[BaseException], None]
) -> Callable[P, B | None]:
    """The function, except that what it raises goes to ``fail``."""

    def safe(*args: P.args, **kwargs: P.kwargs) -> B | None:
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            fail(error)
            return None

    return safe


class RunPressure(Struct, frozen=True, eq=False):
    """The watchers of a run that cannot take more.

    Attributes:
        context: Of the run. What it says is shown by the runs around it, too, so that their watchers count.
    """

    context: RunContext

    @property
    def is_full(self) -> bool:
        """Whether nothing should be read now."""
        if self.context.journal.hub.is_full:
            return True
        for run in self.context.parents:  # noqa: SIM110 - `any` makes a generator for each read
            if run.journal.hub.is_full:
                return True
        return False

    def hold(self) -> asyncio.Future[None] | None:
        """What to wait for before the next read."""
        for run in self.context.line:
            held = run.journal.hub.hold()
            if held is not None:
                return held
        return None
