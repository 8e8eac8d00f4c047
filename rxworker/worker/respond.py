"""Second stage of a turn: send the request and receive the response, through the worker's operators and the timeline.

A response that fails after its first event is requested again, and the events show it. The operators are the application's, so `apply_operators` makes sure
that no operator leaves a run waiting for ever or in another thread:

* Operators that wait, such as ``ops.delay``, use the run's scheduler, unless they were given another.
* Events from another thread are brought back to the event loop, in order.
* An operator that raises instead of calling ``on_error`` raises into its caller: the operator before it, the source, or a callback of
  the scheduler. Each of these catches every exception, and ends the response with it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Sequence, Set
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar, cast

from msgspec import Struct
from reactivex import Observable, abc, typing
from reactivex.disposable import SingleAssignmentDisposable

from rxworker.errors import ConfigurationError, TruncatedError, as_exception, reason_of
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Event,
    ResponseEvent,
    ResponseStatus,
)
from rxworker.events.kinds import BLOCK_EVENTS, META_EVENTS
from rxworker.operators import Operator, Stage, error_to_exception
from rxworker.providers import Request
from rxworker.transport.base import PRESSURE
from rxworker.transport.clock import LoopClock
from rxworker.worker.call_tools import discard_early, start_early
from rxworker.worker.context import RunContext, Turn, TurnScope
from rxworker.worker.loop import Emitter


def respond(turn: Turn) -> Observable[Event]:
    """Emit the events of a response, through the worker's operators and its timeline. A response that fails is requested again while a retry can help.

        response   ---d--#            d an event of the response
                            ---e--|
        [ respond ]
        --a--d--r-----------a--e--|    a AttemptStart, r AttemptRetract: the events are retracted

    Raises:
        Exception: The error of the last attempt.
        TruncatedError: The stream completed without the terminal event of the response.
    """
    return turn._stage(_respond)


async def _respond(context: RunContext, scope: TurnScope, emitter: Emitter[Event]) -> None:
    model, history = context.model, context.journal.hub.history
    request = scope.request or Request(context.journal.state.conversation)
    started = AttemptStart(model.name, model.model, context.tools.own_names)
    pressure, attempts = RunPressure(context), 0
    while True:
        attempts += 1
        response: Observable[Event] = model.stream(request)
        if context.operators:
            response = apply_operators(
                context.operators, response, context.scheduler, RESPONSE_EVENTS, _NO_RESPONSE
            )
        # Applied directly, since `pipe` costs more than the operators.
        response = context.timeline(response)
        if context.tools.starts_early:
            response = start_early(context, scope, response)
        # What an observer sets when the request begins, such as the current span, holds for this request alone.
        of_request = copy_context()
        of_request.run(PRESSURE.set, pressure)
        before = history.last_seq
        of_request.run(emitter.emit, started)
        begun = history.last_seq
        if begun == before:
            raise ConfigurationError(_HELD_BACK)
        try:
            await emitter.listen(response, context.scheduler, of_request)
            _expect_end(context)
            return
        except Exception as error:
            may_repeat = _may_repeat(context, begun)
            wait = context.retry.delay(error, attempts) if may_repeat else None
            if wait is None:
                raise
            # A model may raise from subscribe instead of calling on_error.
            discard_early(context, scope)
            scope.early = None
            context.timeline.retract(reason_of(error))
            emitter.emit(AttemptRetract(reason_of(error), wait))
        await emitter.listen(_pause(wait, context.scheduler))


def _expect_end(context: RunContext) -> None:
    """Check that the response has its terminal event, so that a truncated response is not taken for an answer.

    Raises:
        TruncatedError: It does not.
        RxWorkerError: The response failed, although the stream completed.
    """
    response = context.journal.state.response
    if response is not None and response.status is ResponseStatus.COMPLETED:
        return
    if response is not None and response.error is not None:
        raise error_to_exception(response.error)
    which = f"the stream of {context.model!r}"
    if context.operators:
        which += ", or the output of the worker's operators,"
    raise TruncatedError(
        f"{which} completed without the event that ends a response, Status(COMPLETED)"
    )


def _pause(seconds: float, scheduler: abc.SchedulerBase) -> Observable[Event]:
    """Complete after ``seconds`` of the scheduler's time, without an event."""

    def subscribe(
        observer: abc.ObserverBase[Event], _: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        def end(_: abc.SchedulerBase, __: object = None) -> None:
            observer.on_completed()

        return scheduler.schedule_relative(seconds, end)

    return Stage(subscribe)


def _may_repeat(context: RunContext, begun: int) -> bool:
    """Whether a failed attempt may be repeated. One without any event may not, since the client has already retried it."""
    records = context.journal.hub.history.records(begun)
    return any(not r.path and isinstance(r.event, ResponseEvent) for r in records)


A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")


def apply_operators(
    operators: Sequence[Operator[Any, Event]],
    source: Observable[Any],
    scheduler: abc.SchedulerBase,
    kinds: Set[type[object]],
    refusal: str,
) -> Observable[Event]:
    """Apply operators of the application to a response, or to a stage, the first listed first.

    Args:
        operators: The operators.
        source: The events of the response, or of the stage.
        scheduler: The clock of operators that have none of their own.
        kinds: The classes of the events that may come out.
        refusal: The error for any other, in which ``{}`` stands for its class.
    """

    def subscribe(
        observer: abc.ObserverBase[Event], _: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        upstream = SingleAssignmentDisposable()
        thread = _LoopThread()

        def fail(error: BaseException) -> None:
            upstream.dispose()
            on_error(as_exception(error))

        def guarded(before: Observable[Any]) -> Observable[Any]:
            """The source of an operator. It catches the exceptions that the operator raises."""

            def subscribe(
                first: abc.ObserverBase[Any], clock: abc.SchedulerBase | None = None
            ) -> abc.DisposableBase:
                return before.subscribe(
                    caught(first.on_next, fail),
                    caught(first.on_error, fail),
                    caught(first.on_completed, fail),
                    # The model has a clock of its own.
                    scheduler=None if before is source else clock,
                )

            return Observable(subscribe)

        def on_next(event: Event) -> None:
            if event.__class__ in kinds:
                thread.run(lambda: observer.on_next(event))
            else:
                fail(ConfigurationError(refusal.format(type(event).__name__)))

        def on_error(error: Exception) -> None:
            thread.run(lambda: observer.on_error(error))

        def on_completed() -> None:
            thread.run(observer.on_completed)

        clock = _Clock(asyncio.get_running_loop(), fail)
        result: Observable[Event] = source
        for operator in operators:
            result = expect_observable(operator, operator(guarded(result)))
        upstream.disposable = result.subscribe(
            on_next,
            on_error,
            on_completed,
            scheduler=clock if isinstance(scheduler, LoopClock) else scheduler,
        )
        return upstream

    return Observable(subscribe)


_HELD_BACK = (
    "an operator around the stage respond drops or holds back what respond emits, such as the start of an attempt: it can then not see whether the "
    "response is complete. Operators that wait, such as ops.delay, work on the response itself: operators=[...]"
)
RESPONSE_EVENTS = META_EVENTS | BLOCK_EVENTS
_NO_RESPONSE = "an operator of the worker emitted a {}: operators=[...] take the events of a response, and emit such events"


def expect_observable(
    operator: Callable[..., object],
    result: Observable[Any],
    what: str = "the operator",
    instead: str = "source.pipe(...)",
) -> Observable[Any]:
    """Check what an operator or a stage of the application has returned.

    Raises:
        ConfigurationError: It is no observable.
    """
    made = cast("object", result)
    if isinstance(made, Observable):
        return result
    if inspect.iscoroutine(made):
        made.close()
    name: str = getattr(operator, "__name__", type(operator).__name__)
    raise ConfigurationError(
        f"{what} {name} returned a {type(made).__name__}, which is no observable: return {instead}"
    )


class _LoopThread:
    """Runs actions in the event loop's thread, in the order of the calls."""

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
        # It stays in the queue until it is done, so that no other action overtakes it.
        try:
            self._waiting[0]()
        finally:
            self._waiting.popleft()


class _Clock(LoopClock):
    """The clock of the event loop, for operators. An exception in one of their actions ends the response.

    Args:
        loop: The event loop.
        fail: Called with the exception.
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
    """Wrap a function so that its exceptions go to ``fail``."""

    def safe(*args: P.args, **kwargs: P.kwargs) -> B | None:
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            fail(error)
            return None

    return safe


class RunPressure(Struct, frozen=True, eq=False):
    """Backpressure for the connection of a run: the watchers of the run and of its parents, which show its records, too.

    Attributes:
        context: The context of the run.
    """

    context: RunContext

    @property
    def is_full(self) -> bool:
        """Whether reading should stop for now."""
        for run in self.context.line:  # `any` would make a generator for each read
            if run.journal.hub.is_full:
                return True
            writer = run.journal.writer
            if writer is not None and writer.is_full:
                return True
        return False

    def hold(self) -> asyncio.Future[None] | None:
        """The future to wait for before the next read, if any."""
        for run in self.context.line:
            held = run.journal.hub.hold()
            if held is not None:
                return held
            writer = run.journal.writer
            if writer is not None and (held := writer.hold()) is not None:
                return held
        return None
