"""Streams that are drawn: marble diagrams on virtual time.

The dialect, a column a tick of virtual time:

=========  ===================================================================================
``-``      a tick in which nothing happens
``a``      an item; several characters without a dash between them are one item, and one tick each
``(a,b)``  items of one tick; the group still takes the columns that it is written in
``|``      completion
``#``      an error
space      nothing, not even time: for lining diagrams up
=========  ===================================================================================

An item is the value of ``lookup`` for its name, with the type that it has there. Without a lookup it is the name
itself.

A test subscribes at tick 200, which is column one, and disposes at tick 1000. What a *hot* stream does in column one is
therefore missed; a *cold* one begins when it is subscribed to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar, overload

from reactivex import Observable
from reactivex.notification import OnNext
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.testing import ReactiveTest, Recorded, TestScheduler
from reactivex.testing.coldobservable import ColdObservable
from reactivex.testing.hotobservable import HotObservable
from reactivex.testing.subscription import Subscription

from rxworker.messages.settings import check_plain
from rxworker.run.virtual import run_in

A = TypeVar("A")

SUBSCRIBED = ReactiveTest.subscribed
"""The tick at which a test subscribes."""
DISPOSED = ReactiveTest.disposed
"""The tick at which a test disposes its subscription."""
FAILURE = Exception("error")
"""The error that ``#`` stands for, unless another one is given."""

_TOKEN = re.compile(r"(?P<group>\([^()]*\))|(?P<ticks>-+)|(?P<item>[^-,()#|]+|[#|])")


class Marbles:
    """One test: its virtual time, its streams, what is expected of them and what was seen.

    Attributes:
        scheduler: The virtual time, for operators that take a scheduler.

    >>> from reactivex import operators as ops
    >>> test = Marbles()
    >>> def shout(word: str) -> str:
    ...     return word.upper()
    >>> source = test.hot("    -a-b-|")
    >>> seen = test.observe(source.pipe(ops.map(shout)))
    >>> seen == test.expected("-A-B-|")
    True
    >>> source.subscriptions == test.subscriptions("^----!")
    True
    """

    __test__ = False  # not a class of tests, though pytest would take it for one by its name

    def __init__(self) -> None:
        self.scheduler = TestScheduler()

    @overload
    def hot(self, drawing: str) -> HotObservable[str]: ...
    @overload
    def hot(self, drawing: str, lookup: Mapping[str, A]) -> HotObservable[A]: ...
    def hot(self, drawing: str, lookup: Mapping[str, Any] | None = None) -> HotObservable[Any]:
        """A stream that runs with or without subscribers; column one is when the test subscribes."""
        return self.scheduler.create_hot_observable(parse(drawing, lookup, SUBSCRIBED))

    @overload
    def cold(self, drawing: str) -> ColdObservable[str]: ...
    @overload
    def cold(self, drawing: str, lookup: Mapping[str, A]) -> ColdObservable[A]: ...
    def cold(self, drawing: str, lookup: Mapping[str, Any] | None = None) -> ColdObservable[Any]:
        """A stream that runs anew for each subscription; column one is when it is subscribed to."""
        return self.scheduler.create_cold_observable(parse(drawing, lookup, 0))

    def expected(
        self, drawing: str, lookup: Mapping[str, A] | None = None, *, error: Exception = FAILURE
    ) -> list[Recorded[Any]]:
        """The items that `observe` returns for this drawing."""
        return parse(drawing, lookup, SUBSCRIBED, error)

    def observe(self, source: Observable[A] | Callable[[], Observable[A]], *, until: str = "") -> list[Recorded[A]]:
        """Run the test from beginning to end and return what was emitted, with the tick of each item.

        Args:
            source: The observable, or a function that makes it.
            until: A drawing that ends in ``!`` at the column in which to dispose, as in ``"----!"``.
        """
        check_plain("observe(source)", source)
        disposed = SUBSCRIBED + until.replace(" ", "").index("!") if until else DISPOSED

        def given() -> Observable[A]:
            assert not callable(source)
            return source

        create = source if callable(source) else given
        return self.scheduler.start(create, disposed=disposed).messages

    def subscriptions(self, *drawings: str) -> list[Subscription]:
        """When a stream was subscribed to and left: ``^`` and ``!``, one drawing for each subscription."""
        return [_subscription(drawing.replace(" ", "")) for drawing in drawings]


def play(main: Coroutine[Any, Any, A], scheduler: VirtualTimeScheduler | None = None) -> A:
    """Run a coroutine in an event loop in virtual time.

    Whatever waits in it, runs, tools and time limits, does not wait in reality.

    Args:
        main: The coroutine, such as that of a test.
        scheduler: The clock, whose actions are run too, such as those of marbles; by default a new one that begins at
            0.

    Raises:
        LocalProtocolError: Nothing is left that could happen, and the coroutine still waits.

    >>> import asyncio
    >>> async def sleep() -> float:
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> play(sleep())
    3600.0
    """
    return run_in(scheduler or VirtualTimeScheduler(), main)


def parse(
    drawing: str, lookup: Mapping[str, Any] | None, start: int, error: Exception = FAILURE
) -> list[Recorded[Any]]:
    """The notifications in a drawing whose column one is the tick ``start``.

    Raises:
        ValueError: The drawing cannot be read, or an item is missing from the lookup.
    """
    drawing = drawing.replace(" ", "")
    records: list[Recorded[Any]] = []
    column = 0
    for match in _TOKEN.finditer(drawing):
        if match.start() != column:
            break
        tick, column = start + match.start(), match.end()
        group, item = match["group"], match["item"]
        names = group[1:-1].split(",") if group else [item] if item else []
        records.extend(_notification(tick, name, lookup, error) for name in names)
    if column != len(drawing):
        raise ValueError(f"{drawing!r} cannot be read from column {column + 1} on")
    return records


def values_of(records: Iterable[Recorded[A]]) -> list[A]:
    """The items among the notifications, without their ticks.

    >>> values_of(parse("-a-b-|", None, 0))
    ['a', 'b']
    """
    return [record.value.value for record in records if isinstance(record.value, OnNext)]


def _notification(tick: int, name: str, lookup: Mapping[str, Any] | None, error: Exception) -> Recorded[Any]:
    if name == "|":
        return ReactiveTest.on_completed(tick)
    if name == "#":
        return ReactiveTest.on_error(tick, error)
    if lookup is not None and name not in lookup:
        raise ValueError(f"the lookup has no {name!r}, only {', '.join(map(repr, lookup))}")
    return ReactiveTest.on_next(tick, name if lookup is None else lookup[name])


def _subscription(drawing: str) -> Subscription:
    begin, end = drawing.index("^"), drawing.find("!")
    return Subscription(SUBSCRIBED + begin, DISPOSED if end < 0 else SUBSCRIBED + end)
