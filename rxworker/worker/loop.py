"""The loop of turns, and the observable that a coroutine makes.

The results of a turn reach the next turn only through `repeat_turns`. The scheduler starts each turn, so every observer
receives the end of a turn before the next one begins, and the stack stays flat. If the scheduler is the clock of the
event loop, one coroutine awaits the turns: it yields to the loop once between two turns, and needs no subscription and
no task for each.

`CoroutineObservable` emits the events of a coroutine. A subscriber starts a task for it. A coroutine that only waits
for its end awaits it instead, without another task. Both emit the same, and a test holds the two equal; a run with all
its turns is one task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, Generic, TypeAlias, TypeVar, final

import reactivex
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.errors import RunCancelledError, as_exception, describe
from rxworker.messages.settings import check_plain
from rxworker.operators.kernel import Many, Scheduler, Stage, connect, many
from rxworker.tools.cancellation import is_destroyed
from rxworker.transport.clock import LoopClock

A = TypeVar("A")


class Emitter(abc.ObserverBase[A]):
    """Event emitter passed to a coroutine. It observes the stream that the coroutine follows.

    Args:
        emit: Receives one event.
        emit_many: Receives several events that arrived together.
        task: The task in which streams are followed, if it is known.

    Attributes:
        emit: Emits one event.
    """

    # The slots implement the base class's abstract method; the annotation below only declares its type.
    __slots__ = ("_error", "_following", "_is_over", "_over", "_task", "emit", "on_many", "on_next")

    on_next: Callable[[A], None]  # pyright: ignore[reportIncompatibleMethodOverride] - a slot

    def __init__(
        self,
        emit: Callable[[A], None],
        emit_many: Many[A],
        task: asyncio.Task[Any] | None = None,
    ) -> None:
        self.emit = self.on_next = emit
        self.on_many = emit_many
        self._following: abc.DisposableBase | None = None
        self._is_over = False
        self._error: Exception | None = None
        self._over: asyncio.Future[None] | None = None  # only while a task waits for the end
        self._task = task

    def follow(self, source: Observable[A], scheduler: Scheduler = None) -> Awaitable[None]:
        """Emit the events of a stream until it ends. Awaiting it raises the error of the stream.

        The coroutine of a `CoroutineObservable` is returned as it is: every coroutine in between would be passed on
        each wake-up.
        """
        if type(source) is CoroutineObservable:
            return source.work(self)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a cast would be a call
        return self.listen(source, scheduler)

    async def listen(
        self,
        source: Observable[A],
        scheduler: Scheduler = None,
        context: Context | None = None,
    ) -> None:
        """The same for any other observable.

        ``context`` is that in which it is subscribed to, by default the current one.
        """
        self._is_over, self._error = False, None
        if context is None:
            following = self._following = connect(source, self, scheduler)
        else:
            following = self._following = context.run(connect, source, self, scheduler)
        try:
            if not self._is_over:
                self._over = asyncio.get_running_loop().create_future()
                await self._over
            if self._task is None:
                self._task = asyncio.current_task()
            # An observer may cancel the task that emits to it. If the task has nothing left to wait for, it would not
            # notice.
            if self._task is not None and self._task.cancelling():
                raise asyncio.CancelledError
            if self._error is not None:
                raise self._error
        finally:
            self._following = self._over = self._error = None
            following.dispose()

    def on_completed(self) -> None:
        """The stream has ended."""
        self._is_over = True
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def on_error(self, error: Exception) -> None:
        """The stream has failed."""
        if not self._is_over:
            self._error = error
            self.on_completed()

    def leave(self) -> None:
        """Unsubscribe from the stream, since the subscription was disposed."""
        if self._following is not None:
            self._following.dispose()


EmitFn: TypeAlias = Callable[[Emitter[A]], Awaitable[None]]
"""A coroutine function that takes an `Emitter`."""


@final
class CoroutineObservable(Stage[A]):
    """An observable of the events that a coroutine emits. A coroutine that follows it can await it instead.

    It completes when the coroutine returns, and fails when that raises. Disposing a subscription cancels it.

    Args:
        work: The coroutine function.
        tasks: Holds the task of each subscription while it runs, so that the run can wait for it after the subscription
            was disposed.

    Attributes:
        work: The coroutine function.
    """

    def __init__(self, work: EmitFn[A], tasks: set[asyncio.Task[None]]) -> None:
        self.work = work  # the base class's attributes are not needed: it would hold a function to subscribe with
        self._tasks = tasks

    def _subscribe_core(
        self,
        observer: abc.ObserverBase[A],
        scheduler: Scheduler = None,  # noqa: ARG002 - part of the signature
    ) -> abc.DisposableBase:
        return _TaskSubscription(self.work, observer, self._tasks)


class _TaskSubscription(abc.DisposableBase, Generic[A]):
    """A subscription to a `CoroutineObservable`: its task."""

    __slots__ = ("_emitter", "_is_disposed", "_is_over", "_observer", "_task")

    def __init__(
        self,
        work: EmitFn[A],
        observer: abc.ObserverBase[A],
        tasks: set[asyncio.Task[None]],
    ) -> None:
        self._observer = observer
        self._emitter = Emitter(observer.on_next, many(observer))
        self._is_disposed = self._is_over = False
        self._task = asyncio.get_running_loop().create_task(self._go(work))
        tasks.add(self._task)
        self._task.add_done_callback(tasks.discard)

    async def _go(self, work: EmitFn[A]) -> None:
        try:
            await work(self._emitter)
        except asyncio.CancelledError as error:
            # Not our cancellation: something that a hook or a tool waited for was cancelled. The run fails with it.
            if not self._is_disposed:
                self._end(cut_off(error))
            raise
        except BaseException as error:
            if is_destroyed(error, self._task) or (self._is_disposed and not isinstance(error, Exception)):
                raise  # an interrupt that no observer receives any more leaves the event loop, as from any task
            self._end(as_exception(error))
        else:
            self._end()

    def _end(self, error: Exception | None = None) -> None:
        self._is_over = True
        if error is None:
            self._observer.on_completed()
        else:
            self._observer.on_error(error)

    def dispose(self) -> None:
        is_again, self._is_disposed = self._is_disposed, True
        # A coroutine that has completed must not be cancelled while the next one starts. Disposing during an emission
        # cancels it.
        if not is_again and not self._is_over:
            self._emitter.leave()
            self._task.cancel()


def cut_off(cause: asyncio.CancelledError) -> RunCancelledError:
    """The error for a cancellation that was not requested.

    That of an interrupt in a tool, which has left the event loop, names the interrupt.
    """
    interrupt = cause.__cause__
    if isinstance(interrupt, KeyboardInterrupt):
        error = RunCancelledError(describe(interrupt))
        error.__cause__ = interrupt
    else:
        error = RunCancelledError("something that it waited for was cancelled")
        error.__cause__ = cause
    return error


def repeat_turns(
    turn: Callable[[], Observable[A]],
    goes_on: Callable[[], bool],
    scheduler: abc.SchedulerBase,
) -> Observable[A]:
    """Perform turns one after the other, while there is something to do.

        turn       --a--b|
        goes_on          yes     no
        [ repeat_turns ]
        --a--b---a--b|

    Args:
        turn: Makes the next turn; called when it begins.
        goes_on: Called after each turn; returns whether there is another.
        scheduler: Begins each turn.

    Example:
        >>> import reactivex
        >>> from reactivex.scheduler import CurrentThreadScheduler
        >>> left = iter([True, False])
        >>> turns = repeat_turns(lambda: reactivex.of("a", "b"), lambda: next(left), CurrentThreadScheduler())
        >>> seen = []
        >>> _ = turns.subscribe(seen.append)
        >>> seen
        ['a', 'b', 'a', 'b']
    """
    check_plain("turn or goes_on of repeat_turns(...)", turn, goes_on)

    async def turns(emitter: Emitter[A]) -> None:
        await emitter.follow(turn(), scheduler)
        while goes_on():
            await asyncio.sleep(0)
            await emitter.follow(turn(), scheduler)

    if isinstance(scheduler, LoopClock):
        return CoroutineObservable(turns, set())

    def begin(_: abc.SchedulerBase) -> Observable[A]:
        return turn()

    def is_next(_: Observable[A]) -> bool:
        return goes_on()

    one = reactivex.defer(begin).pipe(ops.subscribe_on(scheduler))
    return one.pipe(ops.do_while(is_next))
