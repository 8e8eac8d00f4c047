"""Carrying a state along each block."""

from __future__ import annotations

from typing import TypeVar

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, SingleAssignmentDisposable

from rxworker.events import BlockEvent
from rxworker.operators.group import Block
from rxworker.operators.stage import Sink, Stage, connect
from rxworker.operators.types import Operator, Step

S = TypeVar("S")


def scan_scope(step: Step[S, BlockEvent], seed: S) -> Operator[Block, S]:
    """Follow each block from start to stop, emitting its state after every event.

        --s--d--d--e|          s start, d delta, e stop
        [ scan_scope(step) ]
        --1--2--3--4|

    What several open blocks emit comes out in the order of the events that caused it.

    Args:
        step: The next state, from the state and an event of the block. It must not change the state it is given.
        seed: The state before the first event, the same for every block.

    >>> from reactivex import of
    >>> from rxworker.events import TextDelta
    >>> from rxworker.operators.group import group_blocks
    >>> def longer(text: str, event: BlockEvent) -> str:
    ...     return text + event.text if isinstance(event, TextDelta) else text
    >>> events = of(TextDelta(0, "a"), TextDelta(1, "x"), TextDelta(0, "b"))
    >>> events.pipe(group_blocks(), scan_scope(longer, "")).subscribe(print) and None
    a
    x
    ab
    """
    return _follow_each(step, seed, every=True)


def fold_scope(step: Step[S, BlockEvent], seed: S) -> Operator[Block, S]:
    """Follow each block from start to stop, emitting its last state when it ends.

        --s--d--d--e|          s start, d delta, e stop
        [ fold_scope(step) ]
        -----------4|

    Args:
        step: The next state, from the state and an event of the block. It must not change the state it is given.
        seed: The state before the first event, the same for every block.
    """
    return _follow_each(step, seed, every=False)


def _follow_each(step: Step[S, BlockEvent], seed: S, *, every: bool) -> Operator[Block, S]:
    def apply(source: Observable[Block]) -> Observable[S]:
        def subscribe(
            observer: abc.ObserverBase[S], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            subscriptions = CompositeDisposable()
            push = observer.on_next
            running = 1  # the source, and the blocks that are open
            over = False

            def fail(error: Exception) -> None:
                nonlocal over
                if not over:
                    over = True
                    observer.on_error(error)

            def leave() -> None:
                nonlocal running, over
                running -= 1
                if running == 0 and not over:
                    over = True
                    observer.on_completed()

            def follow(block: Block) -> None:
                nonlocal running
                state = seed
                subscription = SingleAssignmentDisposable()

                def on_next(event: BlockEvent) -> None:
                    nonlocal state
                    if over:
                        return
                    try:
                        state = step(state, event)
                    except Exception as error:
                        fail(error)
                        return
                    if every:
                        push(state)

                def on_completed() -> None:
                    subscriptions.remove(subscription)
                    if not every and not over:
                        push(state)
                    leave()

                running += 1
                subscriptions.add(subscription)
                sink = Sink(on_next, fail, on_completed)
                subscription.disposable = connect(block, sink, scheduler)

            subscriptions.add(connect(source, Sink(follow, fail, leave), scheduler))
            return subscriptions

        return Stage(subscribe)

    return apply


__all__ = ["fold_scope", "scan_scope"]
