"""Several runs as one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from reactivex import Observable, abc
from reactivex.disposable import Disposable, SingleAssignmentDisposable

from rxworker.events import Record
from rxworker.operators.expect import no_record
from rxworker.operators.kernel import Sink, Stage, connect

Failed = Callable[[Exception], None]
_NO_RUN = "merge_runs takes several runs, not {!r}: for one run write merge_runs([run])"


class HasRecords(Protocol):
    """A source of records that is no observable itself, such as a `Run`."""

    @property
    def records(self) -> Observable[Record]:
        """The observable of the records."""
        ...


Records: TypeAlias = Observable[Record] | HasRecords
"""A run, or an observable of the records of a run."""


def merge_runs(
    runs: Iterable[Records] | Observable[Records],
    failed: Failed | None = None,
) -> Observable[Record]:
    """The records of several runs as one stream; ``record.run_id`` distinguishes them.

        A-----B-----|          runs, as they begin
        [ merge_runs(runs) ]
        -a-a-a-b-b|            shown separately: A fails after its third record, B goes on
        -a-a-a-b-b--|

    A run that fails does not end the stream, nor touch the others: its last record, a `RunAbort`, has the reason. A run that
    joins late is shown from its own beginning. The stream completes when all runs have ended, and no more can come. Disposing it
    detaches from all of them, and ends none; so does an observer that raises.

    Args:
        runs: The runs: several, or an observable of runs, for runs that begin later. An observable of records may stand for a run, for
            example ``run.watch(...)``.
        failed: Called with the error of a run that failed. An exception that it raises ends the stream.

    Raises:
        TypeError: The argument is a single run. As ``on_error``: an item is neither a run nor an observable.

    >>> from rxworker import Worker
    >>> from rxworker.testing import ScriptedModel
    >>> async def main() -> None:
    ...     runs = [Worker(ScriptedModel([word])).run("Say it.") for word in ("one", "two")]
    ...     names = await merge_runs(runs).pipe(ops.map(name_of), ops.distinct(), ops.count())
    ...     print(names)
    >>> import asyncio
    >>> from reactivex import operators as ops
    >>> def name_of(record: Record) -> str:
    ...     return record.run_id
    >>> asyncio.run(main())
    2
    """
    if not isinstance(runs, Observable) and not hasattr(runs, "__iter__"):
        raise TypeError(_NO_RUN.format(runs))
    given = runs if isinstance(runs, Observable) else tuple(runs)

    def subscribe(
        observer: abc.ObserverBase[Record], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        merge = _Merge(observer, failed, scheduler)
        merge.follow(given)
        return Disposable(merge.leave)

    return Stage(subscribe)


class _Merge:
    """One subscription: the runs that are on, and whether others may join."""

    def __init__(
        self,
        observer: abc.ObserverBase[Record],
        failed: Failed | None,
        scheduler: abc.SchedulerBase | None,
    ) -> None:
        self._observer = observer
        self._failed = failed
        self._scheduler = scheduler
        self._outer = SingleAssignmentDisposable()
        self._on: set[SingleAssignmentDisposable] = set()
        self._all_known = False
        self._over = False

    def follow(self, runs: Observable[Records] | tuple[Records, ...]) -> None:
        if isinstance(runs, tuple):
            for run in runs:
                if self._over:
                    return
                self._join(run)
            self._know_all()
        else:
            sink = Sink(self._join, self._fail, self._know_all)
            self._outer.disposable = connect(runs, sink, self._scheduler)

    def leave(self) -> None:
        self._over = True
        self._outer.dispose()
        on, self._on = self._on, set()
        for subscription in on:
            subscription.dispose()

    def _join(self, run: Records) -> None:
        if self._over:
            return
        records: Observable[Record] | None = (
            run if isinstance(run, Observable) else getattr(run, "records", None)
        )
        if records is None:
            self._fail(TypeError(_NO_RUN.format(run)))
            return
        subscription = SingleAssignmentDisposable()
        self._on.add(subscription)

        def on_error(error: Exception) -> None:
            try:
                if self._failed is not None and not self._over:
                    self._failed(error)
            except Exception as raised:
                self._fail(raised)
            on_completed()

        def on_completed() -> None:
            self._on.discard(subscription)
            self._complete_if_done()

        sink = Sink(self._show, on_error, on_completed)
        subscription.disposable = connect(records, sink, self._scheduler)

    def _show(self, record: Record) -> None:
        if self._over:
            return
        if record.__class__ is not Record:
            self._fail(no_record("merge_runs(...)", record))
            return
        try:
            self._observer.on_next(record)
        except BaseException:
            # The run whose record it was detaches this stream and reports it. An observer that raised is not called again by the others.
            self.leave()
            raise

    def _know_all(self) -> None:
        self._all_known = True
        self._complete_if_done()

    def _complete_if_done(self) -> None:
        if self._all_known and not self._on and not self._over:
            self._over = True
            self._observer.on_completed()

    def _fail(self, error: Exception) -> None:
        if not self._over:
            self.leave()
            self._observer.on_error(error)
