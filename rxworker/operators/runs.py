"""Several runs as one stream, as one for each key, and their results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Protocol, TypeAlias, TypeVar, cast

import reactivex
from reactivex import GroupedObservable, Observable, abc
from reactivex import operators as ops
from reactivex.internal import noop

from rxworker.events import Record
from rxworker.operators.expect import expect_callable, no_run, operator, refusal
from rxworker.operators.gate import future_of
from rxworker.operators.kernel import NOTHING, Joined, Operator, Scheduler, Stage

T = TypeVar("T")
K = TypeVar("K")

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
R = TypeVar("R", bound=HasRecords)


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
        TypeError: The argument is a single run, or has something that is neither a run nor an observable; as
            ``on_error``, if an observable emits that.

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
    given = runs if isinstance(runs, Observable) else _several(_checked(runs))

    def subscribe(observer: abc.ObserverBase[Record], scheduler: Scheduler) -> Joined:
        joined = Joined(observer, scheduler)

        def join(run: Records) -> None:
            records = _records_of(run)
            if records is not None:
                joined.follow(records, show, failed or noop)
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


def join_runs(key: Callable[[R], K]) -> Operator[R, GroupedObservable[K, Record]]:
    """The records of the runs that have the same key as one stream for each key, as `merge_runs` has them.

        -A---B--C-----|        runs, as they begin: A and C of one tenant, B of another one
        [ join_runs(tenant) ]
        -x---y--------|
         -a-a-a--c-c--|        x, with the key of A and C
             -b-b-----|        y

    Subscribe to the stream of a key when it comes: runs that have begun until then are not in it later. It completes
    when no more runs can come, and its own have ended.

    Args:
        key: The key of a run, such as a label.

    Raises:
        ConfigurationError: The key is not a function, or a coroutine function. As ``on_error``: an item is not a run.

    >>> from rxworker import Run, Worker
    >>> from rxworker.operators import events, text_deltas
    >>> from rxworker.testing import ScriptedModel
    >>> def tenant(run: Run[None]) -> str:
    ...     return run.state.labels["tenant"]
    >>> def text_of(joined: GroupedObservable[str, Record]) -> Observable[str]:
    ...     return joined.pipe(events(), text_deltas(), ops.reduce(str.__add__), ops.map(f"{joined.key}: {{}}".format))
    >>> async def main() -> None:
    ...     names = ("acme", "tea", "acme")
    ...     runs = [Worker(ScriptedModel([name]), labels={"tenant": name}).run("Hi") for name in names]
    ...     print(sorted(await reactivex.of(*runs).pipe(join_runs(tenant), ops.flat_map(text_of), ops.to_list())))
    >>> import asyncio
    >>> asyncio.run(main())
    ['acme: acmeacme', 'tea: tea']
    """
    expect_callable("join_runs(...)", key, "a function of a run")

    def check(run: object) -> None:
        if not _is_run(run):
            raise no_run("join_runs(...)", run)

    def merged(runs: GroupedObservable[K, R]) -> GroupedObservable[K, Record]:
        return GroupedObservable(runs.key, merge_runs(runs))

    def subscribe(
        source: Observable[R], observer: abc.ObserverBase[GroupedObservable[K, Record]], scheduler: Scheduler
    ) -> abc.DisposableBase:
        grouped = cast("Observable[GroupedObservable[K, R]]", source.pipe(ops.do_action(check), ops.group_by(key)))
        return grouped.pipe(ops.map(merged)).subscribe(observer, scheduler=scheduler)

    return operator(subscribe, "join_runs(...)", key)


def results(failed: Failed | None = None) -> Operator[Awaitable[T], T]:
    """The result of each run, as they end.

        -A---B-------|         runs, as they begin
        [ results() ]
        -------b--a--|

    A run that fails does not end the stream, and has no result in it. The stream completes when no more runs can come
    and all have ended. Disposing it ends no run. For answers on which several agree, see `quorum`.

    Args:
        failed: Called with the error of a run that failed. An exception that it raises ends the stream.

    Raises:
        ConfigurationError: As ``on_error``: an item is not a run, or there is no running event loop.

    >>> from rxworker import Worker
    >>> from rxworker.operators import quorum
    >>> from rxworker.testing import ScriptedModel
    >>> async def main() -> None:
    ...     runs = [Worker(ScriptedModel([city])).run("Where?") for city in ("Oslo", "Bergen", "Oslo")]
    ...     texts = reactivex.of(*runs).pipe(results(), ops.map(lambda result: result.text))
    ...     print(await texts.pipe(quorum(2)))
    >>> import asyncio
    >>> asyncio.run(main())
    Oslo
    """

    def subscribe(
        source: Observable[Awaitable[T]], observer: abc.ObserverBase[T], scheduler: Scheduler
    ) -> abc.DisposableBase:
        joined = Joined(observer, scheduler)

        def join(run: Awaitable[T]) -> None:
            if not (_is_run(run) and isawaitable(run)):
                joined.on_error(no_run("results()", run))
                return
            joined.follow(reactivex.from_future(future_of("results()", run)), observer.on_next, failed or noop)

        joined.follow(source, join)
        return joined

    return operator(subscribe, "results()")


def _is_run(item: object) -> bool:
    return isinstance(getattr(item, "records", None), Observable)


def _records_of(run: Records) -> Observable[Record] | None:
    records: object = run if isinstance(run, Observable) else getattr(run, "records", None)
    return cast("Observable[Record]", records) if isinstance(records, Observable) else None


def _checked(runs: Iterable[Records]) -> tuple[Records, ...]:
    """The runs, of which each is one."""
    try:
        several = tuple(runs)
    except TypeError:
        raise TypeError(_NO_RUN.format(runs)) from None
    for run in several:
        if _records_of(run) is None:
            raise TypeError(_NO_RUN.format(run if run is not several[0] or len(several) > 1 else runs))
    return several


def _several(runs: tuple[Records, ...]) -> Observable[Records]:
    """These runs, at once, without a turn of the scheduler."""

    def subscribe(observer: abc.ObserverBase[Records], _: Scheduler) -> abc.DisposableBase:
        for run in runs:
            observer.on_next(run)
        observer.on_completed()
        return NOTHING

    return Stage(subscribe)
