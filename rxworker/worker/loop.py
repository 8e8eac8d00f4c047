"""The loop of turns, and the observable that a coroutine makes.

The results of a turn reach the next turn only through `repeat_turns`. The scheduler starts each turn, so every observer receives the end of a turn
before the next one begins, and the stack stays flat. If the scheduler is the clock of the event loop, one coroutine awaits the turns: it yields to
the loop once between two turns, and needs no subscription and no task for each.

`CoroutineObservable` emits the events of a coroutine. A subscriber starts a task for it. A coroutine that only waits for its end awaits it
instead, without another task. Both emit the same, and a test holds the two equal; a run with all its turns is one task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias, TypeVar, final

from reactivex import Observable, abc

from rxworker.errors import RunCancelledError, as_exception
from rxworker.operators.disposables import Both, Slot
from rxworker.operators.stage import Many, Sink, Stage, connect, many
from rxworker.transport.clock import LoopClock

A = TypeVar("A")


class Emitter(abc.ObserverBase[A]):
    """What work speaks through. It observes what it follows.

    Args:
        emit: Hears one thing.
        emit_many: Hears several that have come together.
        task: That all the following is done in, where it is at hand.

    Attributes:
        emit: Says one thing.
    """

    # The slots stand in for the base class's abstract method; the name below only tells its type.
    __slots__ = ("_error", "_following", "_is_over", "_over", "_task", "emit", "on_many", "on_next")

    on_next: Callable[[A], None]  # pyright: ignore[reportIncompatibleMethodOverride]

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
        self._over: asyncio.Future[None] | None = None  # where the end has to be waited for
        self._task = task

    def follow(
        self, source: Observable[A], scheduler: abc.SchedulerBase | None = None
    ) -> Awaitable[None]:
        """Say what a stream says, until it has ended. Who awaits it is raised the error that it ends with.

        Work is handed on as it is: each coroutine in between would be gone through whenever what is awaited goes on.
        """
        if type(source) is CoroutineObservable:
            return source.work(self)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a cast would be a call
        return self.listen(source, scheduler)

    async def listen(
        self, source: Observable[A], scheduler: abc.SchedulerBase | None = None
    ) -> None:
        """The same for what is no work."""
        self._is_over, self._error = False, None
        following = self._following = connect(source, self, scheduler)
        try:
            if not self._is_over:
                self._over = asyncio.get_running_loop().create_future()
                await self._over
            if self._task is None:
                self._task = asyncio.current_task()
            # Whoever is told of something may cancel the task that tells it: where it has nothing left to wait for, it would not notice.
            if self._task is not None and self._task.cancelling():
                raise asyncio.CancelledError
            if self._error is not None:
                raise self._error
        finally:
            self._following = self._over = self._error = None
            following.dispose()

    def on_completed(self) -> None:
        """What is followed has ended."""
        self._is_over = True
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def on_error(self, error: Exception) -> None:
        """What is followed has failed."""
        if not self._is_over:
            self._error = error
            self.on_completed()

    def leave(self) -> None:
        """Nobody listens any more: let go of the stream that is followed."""
        if self._following is not None:
            self._following.dispose()


EmitFn: TypeAlias = Callable[[Emitter[A]], Awaitable[None]]
"""Work: it takes what it is to speak through."""


@final
class CoroutineObservable(Stage[A]):
    """An observable of what a coroutine emits, which whoever follows it can await instead.

    It completes when the coroutine returns, and fails when that raises. Disposing a subscription cancels it.

    Args:
        work: What it does.
        tasks: Holds the task of each subscription while it runs, so that whoever disposed that can wait until it has let go.

    Attributes:
        work: See above.
    """

    def __init__(self, work: EmitFn[A], tasks: set[asyncio.Task[None]]) -> None:
        self.work = work  # and nothing of the base's, which would hold a function to subscribe with
        self._tasks = tasks

    def _subscribe_core(
        self,
        observer: abc.ObserverBase[A],
        scheduler: abc.SchedulerBase | None = None,  # noqa: ARG002 - part of the signature
    ) -> abc.DisposableBase:
        return _TaskSubscription(self.work, observer, self._tasks)


class _TaskSubscription(abc.DisposableBase, Generic[A]):
    """A subscription to work: its task."""

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
            # Not ours: something that a hook or a tool waited for was cancelled. The run must hear of it.
            if not self._is_disposed:
                self._end(cut_off(error))
            raise
        except BaseException as error:
            if is_closed(error, self._task):
                raise
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
        # Work that completes disposes itself, and must not be cut off while its successor starts. Who leaves while it speaks ends it.
        if not is_again and not self._is_over:
            self._emitter.leave()
            self._task.cancel()


def is_closed(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether a coroutine was raised ``GeneratorExit`` because it is thrown away, its task with it, and must not go on."""
    if not isinstance(error, GeneratorExit):
        return False
    try:
        return asyncio.current_task() is not task
    except RuntimeError:
        return True


def cut_off(cause: asyncio.CancelledError) -> RunCancelledError:
    """What is said of a cancellation that nobody asked for."""
    error = RunCancelledError("something that it waited for was cancelled")
    error.__cause__ = cause
    return error


def repeat_turns(
    turn: Callable[[], Observable[A]],
    goes_on: Callable[[], bool],
    scheduler: abc.SchedulerBase,
) -> Observable[A]:
    """Turns, one after the other, for as long as there is something to do.

        turn       --a--b|
        goes_on          yes     no
        [ repeat_turns ]
        --a--b---a--b|

    Args:
        turn: Makes the next turn; called when it begins.
        goes_on: Asked after each turn whether there is another.
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

    async def turns(emitter: Emitter[A]) -> None:
        await emitter.follow(turn(), scheduler)
        while goes_on():
            await asyncio.sleep(0)
            await emitter.follow(turn(), scheduler)

    if isinstance(scheduler, LoopClock):
        return CoroutineObservable(turns, set())

    def subscribe(
        observer: abc.ObserverBase[A], _scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        current = Slot()
        next_one = Slot()

        def begin(_: abc.SchedulerBase, __: object = None) -> None:
            try:
                started = turn()
            except Exception as error:
                observer.on_error(error)
                return
            subscription = Slot()
            current.put(subscription)
            subscription.put(connect(started, sink, scheduler))

        def ended() -> None:
            if goes_on():
                next_one.put(scheduler.schedule(begin))
            else:
                observer.on_completed()

        sink = Sink(observer.on_next, observer.on_error, ended, many(observer))
        next_one.put(scheduler.schedule(begin))
        return Both(next_one, current)

    return Stage(subscribe)
