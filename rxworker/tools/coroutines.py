"""Observables of what coroutines emit, and operators that are coroutines.

`CoroutineObservable` emits the events of a coroutine. A subscriber starts a task for it. A coroutine that only waits
for its end awaits it instead, without another task: so all of a run is one task, and what its operators wait for is
awaited, cancelled and cleaned up in that task. It is the same coroutine either way.

`following` makes an operator that may have to wait, and `one_by_one` one that waits for each item. A coroutine that
follows a pipe of such operators awaits all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Generic, TypeAlias, TypeVar, final

from reactivex import Observable, abc
from reactivex.internal import noop

from rxworker.errors import LocalProtocolError, RunCancelledError, as_exception, describe
from rxworker.operators.kernel import (
    NOTHING,
    Ending,
    Many,
    Operator,
    Scheduler,
    SerialDisposable,
    Sink,
    Stage,
    connect,
    many,
)
from rxworker.tools.cancellation import is_destroyed, stop_all

A = TypeVar("A")
B = TypeVar("B")


class Emitter(abc.ObserverBase[A]):
    """Event emitter passed to a coroutine. It observes the stream that the coroutine follows.

    Args:
        emit: Receives one event.
        emit_many: Receives several events that arrived together; without it, ``emit`` receives each.
        task: The task in which streams are followed, if it is known.

    Attributes:
        emit: Emits one event.
    """

    # The slots implement the base class's abstract method; the annotation below only declares its type.
    __slots__ = ("_error", "_following", "_is_over", "_over", "_task", "emit", "on_many", "on_next")

    on_next: Callable[[A], None]  # pyright: ignore[reportIncompatibleMethodOverride] - a slot

    def __init__(
        self, emit: Callable[[A], None], emit_many: Many[A] | None = None, task: asyncio.Task[object] | None = None
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
        work: EmitFn[A] | None = getattr(source, "emit_to", None)
        return self.listen(source, scheduler) if work is None else work(self)

    async def listen(self, source: Observable[A], scheduler: Scheduler = None, context: Context | None = None) -> None:
        """The same for any other observable.

        ``context`` is that in which it is subscribed to, by default the current one.
        """
        self._is_over, self._error = False, None
        subscribe = connect if context is None else partial(context.run, connect)
        following = self._following = subscribe(source, self, scheduler)
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

    def interrupt(self) -> None:
        """End the wait for the stream. What comes before the coroutine wakes up is still emitted."""
        if self._over is None:
            self._is_over = True  # the stream emits while it is subscribed to
        elif not self._over.done():
            self._over.set_result(None)

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
        emit_to: The coroutine function.
    """

    def __init__(self, work: EmitFn[A], tasks: set[asyncio.Task[None]]) -> None:
        self.emit_to = work  # the base class's attributes are not needed: it would hold a function to subscribe with
        self._tasks = tasks

    def _subscribe_core(
        self,
        observer: abc.ObserverBase[A],
        scheduler: Scheduler = None,  # noqa: ARG002 - part of the signature
    ) -> abc.DisposableBase:
        return _TaskSubscription(self.emit_to, observer, self._tasks)


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise LocalProtocolError("this was subscribed to outside an event loop: do it in a coroutine") from error


class _TaskSubscription(abc.DisposableBase, Generic[A]):
    """A subscription to a `CoroutineObservable`: its task."""

    __slots__ = ("_emitter", "_is_disposed", "_is_over", "_observer", "task")

    def __init__(self, work: EmitFn[A], observer: abc.ObserverBase[A], tasks: set[asyncio.Task[None]]) -> None:
        self._observer = observer
        self._emitter = Emitter(observer.on_next, many(observer))
        self._is_disposed = self._is_over = False
        self.task = _running_loop().create_task(self._go(work))
        tasks.add(self.task)
        self.task.add_done_callback(tasks.discard)

    async def _go(self, work: EmitFn[A]) -> None:
        try:
            await work(self._emitter)
        except asyncio.CancelledError as error:
            # Not our cancellation: something that a hook or a tool waited for was cancelled. The run fails with it.
            if not self._is_disposed:
                self._end(cut_off(error))
            raise
        except BaseException as error:
            if is_destroyed(error, self.task) or (self._is_disposed and not isinstance(error, Exception)):
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
            self.task.cancel()


Rest: TypeAlias = Coroutine[object, None, None]
"""What is left to wait for."""


class Following(Generic[A, B]):
    """The work of an operator that may have to wait: what it does with each item of its source, and at its end.

    Nothing of it is asynchronous but what waits.

    Args:
        emit: Emits an item.
        fail: Fails the stream between two items of a source that is subscribed to. Where the source is awaited, raise
            the error in ``finish``.
    """

    def __init__(self, emit: Callable[[B], None], fail: Callable[[Exception], None]) -> None:
        self._emit = emit
        self._fail = fail

    def take(self, item: A) -> None:
        """Take an item of the source."""
        raise NotImplementedError

    def finish(self) -> Rest | None:
        """What is left to wait for when the source has completed; ``None``: nothing."""
        return None

    def stop(self) -> Rest | None:
        """Stop, since the source or this has failed, or was cancelled; what is left to wait for."""
        return None


MakeFollowing: TypeAlias = Callable[[Callable[[B], None], Callable[[Exception], None]], Following[A, B]]
"""Makes the work of a subscription."""


def following(make: MakeFollowing[B, A]) -> Operator[A, B]:
    """An operator that follows its source, and may have to wait.

        --a-----b--|        the source
        [ following(make) ]
        ---1------2-|       what its work emits

    It subscribes at once, and completes at once where there is nothing to wait for. Otherwise it waits in a task of its
    own; if a coroutine follows it, in that one, which then awaits its source too. So a pipe of such operators in a run
    is awaited, cancelled and cleaned up in the task of the run.

    Args:
        make: Makes the work of each subscription.

    >>> import reactivex
    >>> class Sum(Following[int, int]):
    ...     sum = 0
    ...     def take(self, item: int) -> None:
    ...         self.sum += item
    ...     async def finish(self) -> None:
    ...         await asyncio.sleep(0)
    ...         self._emit(self.sum)
    >>> async def main() -> None:
    ...     print(await reactivex.of(1, 2).pipe(following(Sum)))
    >>> asyncio.run(main())
    3
    """
    return partial(_FollowingObservable, make)


@final
class _FollowingObservable(Stage[B], Generic[A, B]):
    """The result of `following`."""

    def __init__(self, make: MakeFollowing[B, A], source: Observable[A]) -> None:
        self._source = source  # the base class's attributes are not needed
        self._make = make

    async def emit_to(self, emitter: Emitter[B]) -> None:
        """The work, awaited with the source."""
        inner: Emitter[A] = Emitter(noop)
        following = self._make(emitter.emit, inner.on_error)
        inner.emit = inner.on_next = following.take
        try:
            source = self._source
            if not isinstance(following, _OneByOne):
                await inner.follow(source)
            elif isinstance(source, _One):  # nothing comes meanwhile
                emitter.emit(await following.function(source.item))
            else:
                await following.follow(inner, source)
            if (rest := following.finish()) is not None:
                await rest
        except GeneratorExit:  # this is destroyed, and can await nothing any more
            if (rest := following.stop()) is not None:
                rest.close()
            raise
        except BaseException:
            if (rest := following.stop()) is not None:
                await rest
            raise
        finally:
            inner.emit = inner.on_next = noop  # it holds the work, and the work holds it

    def _subscribe_core(self, observer: abc.ObserverBase[B], scheduler: Scheduler = None) -> abc.DisposableBase:
        return _Subscription(self._source, self._make, observer, scheduler)


class _OneByOne(Following[A, B]):
    """The work of `one_by_one`.

    The items are awaited where the source is, if that has completed by then, else in a task beside it.
    """

    _begin: asyncio.Handle | None = None  # while items are awaited, and after an error
    _beside: _TaskSubscription[A] | None = None
    _error: Exception | None = None
    _task: asyncio.Task[object] | None = None  # while it awaits the source

    def __init__(
        self, function: Callable[[A], Awaitable[B]], emit: Callable[[B], None], fail: Callable[[Exception], None]
    ) -> None:
        super().__init__(emit, fail)
        self.function = function
        self._left: deque[A] = deque()

    def take(self, item: A) -> None:
        self._left.append(item)
        if self._begin is None:
            self._begin = asyncio.get_running_loop().call_soon(self._await_beside)

    def _await_beside(self) -> None:
        self._beside = _TaskSubscription(self._await_items, Sink[A](noop, self._on_error, noop), set())

    async def _await_items(self, _: object = None) -> None:
        while self._left:
            self._emit(await self.function(self._left.popleft()))
        self._begin = None

    def _on_error(self, error: Exception) -> None:
        self._error = error
        if self._task is None:
            self._fail(error)
        else:
            self._task.cancel()

    async def follow(self, emitter: Emitter[A], source: Observable[A]) -> None:
        """Await the source; the error of an item ends that at once, whatever the source waits for."""
        task = self._task = asyncio.current_task()
        assert task is not None  # this is a coroutine
        cancels = task.cancelling()
        try:
            await emitter.follow(source)
        except asyncio.CancelledError:
            if self._error is None:
                raise
        finally:
            self._task = None
        if self._error is not None:
            if task.uncancel() > cancels:
                raise asyncio.CancelledError  # not by the error alone
            raise self._error

    def finish(self) -> Rest | None:
        if self._begin is None:
            return None
        self._begin.cancel()
        return self._await_rest()

    async def _await_rest(self) -> None:
        if self._beside is not None:
            await asyncio.wait({self._beside.task})
        if self._error is not None:
            raise self._error
        await self._await_items()

    def stop(self) -> Rest | None:
        self._left.clear()
        if self._begin is not None:
            self._begin.cancel()
        if self._beside is None:
            return None
        self._beside.dispose()
        return stop_all((self._beside.task,))


def one_by_one(function: Callable[[A], Awaitable[B]]) -> Operator[A, B]:
    """Await a function for each item, one after the other, and emit what it returns.

        --a-b------c|       a takes three ticks
        [ one_by_one(function) ]
        -----A--B-----(C,|)

    Items that come meanwhile wait, in order, and so does the end of the source. An error, of the source too, cancels
    what is awaited and drops what waits; so does disposing the subscription.

    >>> async def double(number: int) -> int:
    ...     return 2 * number
    >>> asyncio.run(pass_through(one_by_one(double), 21))
    42
    """

    def make(emit: Callable[[B], None], fail: Callable[[Exception], None]) -> _OneByOne[A, B]:
        return _OneByOne(function, emit, fail)

    return following(make)


@final
class _One(Stage[A]):
    """An observable of one item."""

    def __init__(self, item: A) -> None:
        self.item = item

    def _subscribe_core(self, observer: abc.ObserverBase[A], scheduler: Scheduler = None) -> abc.DisposableBase:  # noqa: ARG002 - part of the signature
        observer.on_next(self.item)
        observer.on_completed()
        return NOTHING


async def pass_through(operator: Operator[A, B], item: A) -> B:
    """The last item that an operator emits for one item. The operator is awaited in this task.

    >>> from rxworker.operators import only
    >>> asyncio.run(pass_through(only(int), 42))
    42
    """
    emitted: list[B] = []
    await Emitter(emitted.append).follow(operator(_One(item)))
    return emitted[-1]


class _Subscription(Ending, abc.DisposableBase, Generic[A, B]):
    """A subscription to the result of `following`."""

    def __init__(
        self, source: Observable[A], make: MakeFollowing[B, A], observer: abc.ObserverBase[B], scheduler: Scheduler
    ) -> None:
        super().__init__(observer)
        self._loop = _running_loop()
        self._beside: _TaskSubscription[B] | None = None
        self._work = make(self._on_next, self.on_error)
        self._upstream = SerialDisposable()
        self._upstream.put(connect(source, Sink(self._work.take, self.on_error, self._finish), scheduler))

    def _on_next(self, item: B) -> None:
        # What was stopped may report that until it has ended.
        if not self.is_over:
            self._observer.on_next(item)

    def _finish(self) -> None:
        if self.is_over:
            return
        try:
            rest = self._work.finish()
        except Exception as error:
            self.on_error(error)
            return
        if rest is None:
            self.on_completed()
        else:
            self._beside = _TaskSubscription(lambda _: rest, Sink[B](noop, self.on_error, self.on_completed), set())
            self._beside.task.add_done_callback(lambda _: rest.close())  # it was cancelled before it began

    def on_error(self, error: Exception) -> None:
        """Stop, and end the stream with an error."""
        if self.end():
            self._stop()
            self._observer.on_error(error)

    def _stop(self) -> None:
        self._upstream.dispose()
        if (rest := self._work.stop()) is not None:
            self._stopping = self._loop.create_task(rest)

    def dispose(self) -> None:
        """Stop, and cancel what it waits for."""
        if self.end():
            if self._beside is not None:
                self._beside.dispose()
            self._stop()


def in_turn(*sources: Observable[A]) -> Observable[A]:
    """The sources one after the other, each subscribed to when the one before has completed.

    --a|
        --b|
    [ in_turn ]
    --a---b|
    """

    async def follow(emitter: Emitter[A]) -> None:
        for source in sources:
            await emitter.follow(source)

    return CoroutineObservable(follow, set())


def cut_off(cause: asyncio.CancelledError) -> RunCancelledError:
    """The error for a cancellation that was not requested.

    That of an interrupt in a tool, which has left the event loop, names the interrupt.
    """
    found = cause.__cause__
    interrupt = found if isinstance(found, KeyboardInterrupt) else None
    error = RunCancelledError(describe(interrupt) if interrupt else "something that it waited for was cancelled")
    error.__cause__ = interrupt or cause
    return error
