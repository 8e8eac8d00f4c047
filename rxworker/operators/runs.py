"""Several runs as one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, cast

from reactivex import Observable, abc
from reactivex.internal import noop

from rxworker.events import Record
from rxworker.operators.expect import refusal
from rxworker.operators.kernel import NOTHING, Joined, Scheduler, Stage

Failed = Callable[[Exception], None]
_NO_RUN = "merge_runs takes several runs, not {!r}: for one run write merge_runs([run])"


class HasRecords(Protocol):
    """A source of records that is not itself an observable, such as a `Run`."""

    @property
    def records(self) -> Observable[Record]:
        """The observable of the records."""
        ...


Records: TypeAlias = Observable[Record] | HasRecords
"""A run, or an observable of the records of a run."""


def merge_runs(runs: Iterable[Records] | Observable[Records], failed: Failed | None = None) -> Observable[Record]:
    """The records of several runs as one stream; ``record.run_id`` distinguishes them.

        A-----B-----|          runs, as they begin
        [ merge_runs(runs) ]
        -a-a-a-b-b|            shown separately: A fails after its third record, B goes on
        -a-a-a-b-b--|

    A run that fails does not end the stream, nor touch the others: its last record, a `RunAbort`, has the reason. A run
    that joins late is shown from its own beginning. The stream completes when all runs have ended, and no more can
    come. Disposing it detaches from all of them, and ends none; so does an observer that raises.

    Args:
        runs: The runs: several, or an observable of runs, for runs that begin later, such as ``log.runs()``. An
            observable of records may stand for a run, for example ``run.watch(...)``.
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
    try:
        given = runs if isinstance(runs, Observable) else _several(tuple(runs))
    except TypeError:
        raise TypeError(_NO_RUN.format(runs)) from None

    def subscribe(observer: abc.ObserverBase[Record], scheduler: Scheduler) -> Joined:
        joined = Joined(observer, scheduler)

        def join(run: Records) -> None:
            records: object = run if isinstance(run, Observable) else getattr(run, "records", None)
            if isinstance(records, Observable):
                joined.follow(cast("Observable[Record]", records), show, failed or noop)
            else:
                joined.on_error(TypeError(_NO_RUN.format(run)))

        def show(record: Record) -> None:
            if joined.is_over:
                return
            if record.__class__ is not Record:
                joined.on_error(refusal("merge_runs(...)", "records", record))
                return
            try:
                observer.on_next(record)
            except BaseException:
                # The run whose record it was detaches this stream and reports it. An observer that raised is not called
                # again by the others.
                joined.dispose()
                raise

        joined.follow(given, join)
        return joined

    return Stage(subscribe)


def _several(runs: tuple[Records, ...]) -> Observable[Records]:
    """These runs, at once, without a turn of the scheduler."""

    def subscribe(observer: abc.ObserverBase[Records], _: Scheduler) -> abc.DisposableBase:
        for run in runs:
            observer.on_next(run)
        observer.on_completed()
        return NOTHING

    return Stage(subscribe)
