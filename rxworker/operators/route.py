"""Two lanes: the events about a response as a whole, and those in the lives of its blocks."""

from __future__ import annotations

from typing import Any, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable

from rxworker.events import BlockEvent, Event, Meta, Record, is_meta
from rxworker.events.kinds import BLOCK_EVENTS
from rxworker.operators.records import expect_events, records_given
from rxworker.operators.stage import Sink, Source, Stage, connect
from rxworker.operators.types import Operator

A = TypeVar("A")
B = TypeVar("B")


def split_meta(meta: Operator[Meta, A], blocks: Operator[BlockEvent, B]) -> Operator[Event, A | B]:
    """Send meta events through one operator and block events through another, and join what comes out.

        -u-s-d-u-e-|           u Usage; s start, d delta, e stop
        meta:   -u-----u---|   [ meta ]    -A-----A---|
        blocks: ---s-d---e-|   [ blocks ]  ---B-B---B-|
        [ split_meta(meta, blocks) ]
        -A-B-B-A-B-|

    What the two emit at once comes out in the order of the events that caused it. The source's end is the end of both
    lanes; the result completes when both have, and fails with the first that fails. Turn events are about no response
    and take neither lane: take them from the source with ``only``.

    Args:
        meta: What is done with the meta events.
        blocks: What is done with the block events.
    """

    def apply(source: Observable[Event]) -> Observable[A | B]:
        expect_events(source, "split_meta(...)")

        def subscribe(
            observer: abc.ObserverBase[A | B], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            meta_lane: Source[Meta] = Source()
            block_lane: Source[BlockEvent] = Source()
            push = observer.on_next
            lanes = 2
            over = False

            def emit(value: A | B) -> None:
                if not over:
                    push(value)

            def fail(error: Exception) -> None:
                nonlocal over
                if not over:
                    over = True
                    observer.on_error(error)

            def leave() -> None:
                nonlocal lanes, over
                lanes -= 1
                if lanes == 0 and not over:
                    over = True
                    observer.on_completed()

            def on_next(event: Any) -> None:
                if type(event) in BLOCK_EVENTS:
                    block_lane.on_next(event)
                elif is_meta(event):
                    meta_lane.on_next(event)
                elif type(event) is Record:
                    raise records_given("split_meta(...)")

            def on_error(error: Exception) -> None:
                meta_lane.on_error(error)
                block_lane.on_error(error)

            def on_completed() -> None:
                meta_lane.on_completed()
                block_lane.on_completed()

            joined: Sink[A | B] = Sink(emit, fail, leave)
            # The lanes first, so that a source which emits at once finds them listening.
            return CompositeDisposable(
                connect(meta(meta_lane), joined, scheduler),
                connect(blocks(block_lane), joined, scheduler),
                connect(source, Sink(on_next, on_error, on_completed), scheduler),
            )

        return Stage(subscribe)

    return apply


__all__ = ["split_meta"]
