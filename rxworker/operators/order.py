"""Work done side by side, with its results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, SingleAssignmentDisposable

from rxworker.messages.settings import check_number
from rxworker.operators.expect import expect_callable, operator
from rxworker.operators.kernel import Ending, Operator, Scheduler, Sink, connect

A = TypeVar("A")
B = TypeVar("B")


class _Job(Generic[B]):
    """The output for one item, held until the items before it are done."""

    __slots__ = ("is_done", "items")

    def __init__(self) -> None:
        self.items: deque[B] = deque()
        self.is_done = False


def map_in_order(project: Callable[[A], Observable[B]], limit: int) -> Operator[A, B]:
    """Follow an observable for each item, several at a time, and emit their items in the order of the source.

        -a-b----|              a takes 6 columns, b takes 2
        [ map_in_order(work, 2) ]
        -------(A,B,|)

    ``flat_map`` emits in the order of completion. Here the first in the row emits as it goes, and the others are kept
    back until it is their turn. The first error, of whichever item, ends everything at once.

    Args:
        project: Starts the work for an item.
        limit: How many work at a time; the items above it wait, in order.

    Raises:
        ConfigurationError: The limit is not a whole number from 1 up.

    >>> from reactivex import of
    >>> def twice(word: str) -> Observable[str]:
    ...     return of(word, word)
    >>> of("a", "b").pipe(map_in_order(twice, 1)).subscribe(print) and None
    a
    a
    b
    b
    """
    expect_callable("map_in_order(...)", project, "a function that returns an observable")
    check_number("map_in_order(limit)", limit, least=1, whole=True)

    def subscribe(source: Observable[A], observer: abc.ObserverBase[B], scheduler: Scheduler) -> abc.DisposableBase:
        return _Row(project, limit, observer, scheduler).follow(source)

    return operator(subscribe, "map_in_order(...)", project)


class _Row(Ending, Generic[A, B]):
    """One subscription: the jobs in order, and the items that wait for one."""

    def __init__(
        self, project: Callable[[A], Observable[B]], limit: int, observer: abc.ObserverBase[B], scheduler: Scheduler
    ) -> None:
        super().__init__(observer)
        self._project = project
        self._limit = limit
        self._scheduler = scheduler
        self._subscriptions = CompositeDisposable()
        self._jobs: deque[_Job[B]] = deque()
        self._waiting: deque[A] = deque()
        self._working = 0
        self._starting = False
        self._emitting = False
        self._source_done = False

    def follow(self, source: Observable[A]) -> abc.DisposableBase:
        sink = Sink(self._take, self.on_error, self._source_completed)
        self._subscriptions.add(connect(source, sink, self._scheduler))
        return self._subscriptions

    def _take(self, item: A) -> None:
        self._waiting.append(item)
        self._start_next()

    def _start_next(self) -> None:
        if self._starting:
            return  # a job that ended while it was started: the loop below goes on
        self._starting = True
        try:
            while self._waiting and self._working < self._limit and not self.is_over:
                self._start(self._waiting.popleft())
        finally:
            self._starting = False
        self._complete_if_done()

    def _start(self, item: A) -> None:
        job: _Job[B] = _Job()
        subscription = SingleAssignmentDisposable()

        def on_next(value: B) -> None:
            job.items.append(value)
            self._let_out()

        def on_completed() -> None:
            self._subscriptions.remove(subscription)
            job.is_done = True
            self._working -= 1
            self._let_out()
            self._start_next()

        self._jobs.append(job)
        self._working += 1
        self._subscriptions.add(subscription)
        try:
            work = self._project(item)
        except Exception as error:
            self.on_error(error)
            return
        subscription.disposable = connect(work, Sink(on_next, self.on_error, on_completed), self._scheduler)

    def _let_out(self) -> None:
        """Emit the items of the first job, and of the next one if the first is done, and so on."""
        if self._emitting:
            return  # an item that came out of an item that is being emitted: the loop below goes on
        self._emitting = True
        try:
            while self._jobs:
                job = self._jobs[0]
                while job.items and not self.is_over:
                    self._observer.on_next(job.items.popleft())
                if not job.is_done or self.is_over:
                    return
                self._jobs.popleft()
        finally:
            self._emitting = False

    def _source_completed(self) -> None:
        self._source_done = True
        self._complete_if_done()

    def _complete_if_done(self) -> None:
        idle = not (self._jobs or self._waiting or self._starting or self._emitting)
        if self._source_done and idle:
            self.on_completed()
