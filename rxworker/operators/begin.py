"""How streams begin: with an item of one's own. As a stage, without guards."""

from __future__ import annotations

from typing import TypeVar

from reactivex import Observable, abc

from rxworker.operators.stage import Stage, connect

A = TypeVar("A")


def begin_with(item: A, source: Observable[A]) -> Stage[A]:
    """What ``start_with`` is, for stages: an item before those of the source.

    -b--c--|
    [ begin_with(a) ]
    ab--c--|
    """

    def subscribe(
        observer: abc.ObserverBase[A], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        observer.on_next(item)
        return connect(source, observer, scheduler)

    return Stage(subscribe)


__all__ = ["begin_with"]
