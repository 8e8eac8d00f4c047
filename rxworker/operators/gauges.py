"""Several views of one stream, side by side.

reactivex's ``publish`` and ``combine_latest`` with ``start_with`` do the same for streams that wait. A run does not: it tells what it has
at once, while ``start_with`` is still waiting for its turn, and the first records are lost to some. Here everybody is in place before
the source is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable

from rxworker.operators.stage import Sink, Source, Stage, connect
from rxworker.operators.types import Operator

A = TypeVar("A")
S = TypeVar("S", bound=Struct)


def combine_gauges(start: S, **gauges: Operator[A, object]) -> Operator[A, S]:
    """Apply several operators to one subscription, and emit the last value of each in one Struct.

        --a---b--------|       x counts, y is the letter
        [ combine_gauges(Row(0, ""), x=count, y=same) ]
        0-(1,2)-(3,4)--|       0 is (0, ""), then (1, ""), (1, a), (2, a), (2, b)

    It begins with ``start``, and emits anew whenever a gauge does: put ``ops.sample`` behind it for people. It completes when all gauges
    have, and the first error of any ends it.

    Args:
        start: What to show before there is something to show: a frozen Struct.
        gauges: An operator for each field that changes, by its name.

    Raises:
        ValueError: There is no gauge, or no field of that name.

    >>> from reactivex import of, operators as ops
    >>> class Row(Struct, frozen=True):
    ...     last: int = 0
    ...     total: int = 0
    >>> of(1, 2).pipe(combine_gauges(Row(), last=ops.map(abs), total=ops.scan(int.__add__))).subscribe(print) and None
    Row(last=0, total=0)
    Row(last=1, total=0)
    Row(last=1, total=1)
    Row(last=2, total=1)
    Row(last=2, total=3)
    """
    unknown = sorted(set(gauges).difference(start.__struct_fields__))
    if unknown or not gauges:
        named = ", ".join(unknown) or "no gauges"
        known = ", ".join(start.__struct_fields__)
        raise ValueError(f"{named}: the fields of {type(start).__name__} are {known}")

    def apply(source: Observable[A]) -> Observable[S]:
        def subscribe(
            observer: abc.ObserverBase[S], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            shared: Source[A] = Source()
            subscriptions = CompositeDisposable()
            state = start
            open_gauges = len(gauges)
            over = False

            def put(name: str) -> Callable[[object], None]:
                def on_next(value: object) -> None:
                    nonlocal state
                    if not over:
                        state = replace(state, **{name: value})
                        observer.on_next(state)

                return on_next

            def fail(error: Exception) -> None:
                nonlocal over
                if not over:
                    over = True
                    observer.on_error(error)

            def done() -> None:
                nonlocal open_gauges, over
                open_gauges -= 1
                if open_gauges == 0 and not over:
                    over = True
                    observer.on_completed()

            observer.on_next(start)
            for name, gauge in gauges.items():
                sink = Sink(put(name), fail, done)
                subscriptions.add(connect(gauge(shared), sink, scheduler))
            give = Sink(shared.on_next, shared.on_error, shared.on_completed)
            subscriptions.add(connect(source, give, scheduler))
            return subscriptions

        return Stage(subscribe)

    return apply


__all__ = ["combine_gauges"]
