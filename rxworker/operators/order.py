"""Work done side by side, and values on which several sources agree."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Generic, TypeVar

import reactivex
from reactivex import Observable, abc

from rxworker.errors import ConfigurationError
from rxworker.messages.settings import check_number
from rxworker.operators.expect import observing, operator
from rxworker.operators.gate import future_of
from rxworker.operators.kernel import Ending, Joined, Operator, Scheduler, Sink

A = TypeVar("A")
B = TypeVar("B")


class _Job(Generic[B]):
    """The output for one item, held until the items before it are done."""

    __slots__ = ("is_done", "items")

    def __init__(self) -> None:
        self.items: deque[B] = deque()
        self.is_done = False


def map_async(
    function: Callable[[A], Observable[B] | Awaitable[B]], at_most: int, *, in_order: bool = False
) -> Operator[A, B]:
    """Run a coroutine or an observable for each item, several at a time, and emit their results as they come.

        -a-b----|              a takes 6 columns, b takes 2
        [ map_async(work, 2) ]
        -----B-A|
        [ map_async(work, 2, in_order=True) ]
        -------(A,B,|)

    Items above the limit wait, in order. In order, the first in the row emits as it goes, and the others are kept back
    until it is their turn. The first error, of whichever item, cancels the others and ends everything at once; so does
    disposing, without the error.

    Args:
        function: A coroutine function of an item, or a function that returns an observable or a value.
        at_most: How many work at a time.
        in_order: Whether results come in the order of the items, and not in that of their completion.

    Raises:
        ConfigurationError: The function cannot be called, or the limit is not a whole number from 1 up. As
            ``on_error``: a coroutine has no running event loop.

    >>> import asyncio
    >>> from reactivex import of, operators as ops
    >>> async def shout(word: str) -> str:
    ...     await asyncio.sleep(0)
    ...     return word.upper()
    >>> async def main() -> None:
    ...     await of("a", "b").pipe(map_async(shout, 2), ops.do_action(print))
    >>> asyncio.run(main())
    A
    B
    """
    if not callable(function):
        raise ConfigurationError(f"map_async(function)={function!r:.60}: give a coroutine function of an item")
    check_number("map_async(at_most)", at_most, least=1, whole=True)

    def subscribe(source: Observable[A], observer: abc.ObserverBase[B], scheduler: Scheduler) -> abc.DisposableBase:
        row = _Row(function, at_most, observer, scheduler, in_order=in_order)
        row.follow(source, row.take)
        return row

    return operator(subscribe, "map_async(...)", function)


def _work_of(found: Observable[B] | Awaitable[B]) -> Observable[B]:
    if isinstance(found, Observable):
        return found
    return reactivex.from_future(future_of("map_async(...)", found)) if isawaitable(found) else reactivex.just(found)


def quorum(n: int) -> Operator[A, A]:
    """The first value on which so many of several sources agree, of which each has emitted one; then it completes.

        -a-b-a-c-|
        [ quorum(2) ]
        -----(a,|)

    For answers of several models, or of one that is called several times. Without agreement it completes with the
    source, and emits nothing.

    Args:
        n: How many equal values are enough.

    Raises:
        ConfigurationError: It is not a whole number from 1 up.

    >>> from reactivex import of
    >>> of("Oslo", "Bergen", "Oslo").pipe(quorum(2)).subscribe(print) and None
    Oslo
    """
    check_number("quorum(n)", n, least=1, whole=True)

    def start(observer: abc.ObserverBase[A]) -> Sink[A]:
        values: list[A] = []  # they need not be hashable, and are few
        ending = Ending(observer)

        def on_next(value: A) -> None:
            if ending.is_over:
                return
            values.append(value)
            if values.count(value) >= n:
                observer.on_next(value)
                ending.on_completed()

        return Sink(on_next, ending.on_error, ending.on_completed)

    return observing(start, "quorum(...)", n)


class _Row(Joined, Generic[A, B]):
    """One subscription: the jobs that are not done, and the items that wait for one."""

    def __init__(
        self,
        function: Callable[[A], Observable[B] | Awaitable[B]],
        at_most: int,
        observer: abc.ObserverBase[B],
        scheduler: Scheduler,
        *,
        in_order: bool,
    ) -> None:
        super().__init__(observer, scheduler)
        self._function = function
        self._at_most = at_most
        self._in_order = in_order
        self._jobs: deque[_Job[B]] = deque()
        self._waiting: deque[A] = deque()
        self._working = 0
        self._starting = self._emitting = False

    def take(self, item: A) -> None:
        self._waiting.append(item)
        self._start_next()

    def _start_next(self) -> None:
        if self._starting:
            return  # a job that ended while it was started: the loop below goes on
        self._starting = True
        try:
            while self._waiting and self._working < self._at_most and not self.is_over:
                self._start(self._waiting.popleft())
        finally:
            self._starting = False

    def _start(self, item: A) -> None:
        job: _Job[B] = _Job()
        if self._in_order:
            self._jobs.append(job)
        self._working += 1
        try:
            work = _work_of(self._function(item))
        except Exception as error:
            self.on_error(error)
            return
        self.follow(work, partial(self._put, job), completed=partial(self._end, job))

    def _put(self, job: _Job[B], value: B) -> None:
        if self._in_order:
            job.items.append(value)
            self._let_out()
        elif not self.is_over:
            self._observer.on_next(value)

    def _end(self, job: _Job[B]) -> None:
        job.is_done = True
        self._working -= 1
        self._let_out()
        self._start_next()

    def _let_out(self) -> None:
        """Emit the items of the first job, and of the next one if the first is done, and so on."""
        if self._emitting:
            return  # an item that came out of an item that is being emitted: the loop below goes on
        self._emitting = True
        try:
            while self._jobs and not self.is_over:
                job = self._jobs[0]
                while job.items and not self.is_over:
                    self._observer.on_next(job.items.popleft())
                if not job.is_done:
                    return
                self._jobs.popleft()
        finally:
            self._emitting = False
        if not self._followed:
            self.on_completed()

    def on_completed(self) -> None:
        """Complete, unless something waits, or has not been emitted."""
        if not (self._waiting or self._jobs):
            super().on_completed()
