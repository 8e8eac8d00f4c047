"""Lifting a decoder, which is a plain machine, into an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from reactivex import abc

from rxworker.framing.decoder import Decoder
from rxworker.operators.expect import Follow, expect_callable, observing, timed
from rxworker.operators.kernel import Both, Ending, Operator, Scheduler, SerialDisposable, Sink

A = TypeVar("A")
B = TypeVar("B")


def decode(make: Callable[[], Decoder[A, B]]) -> Operator[A, B]:
    """Feed the items to a decoder and emit the values that it completes; when the source completes, also the last ones.

        --ab-----c|            each item may complete none, one or several
        [ decode(Letters) ]
        --(a,b)--(c,|)

    Each subscription makes its own decoder. What the decoder raises ends the stream, and so does an error of the
    source; then ``finish`` of the decoder is not called.

    Args:
        make: Makes a decoder, for example its class. One of records may have ``reads``, a frozenset of the classes of
            events whose records it takes notice of: a dashboard then gives it no others.

    >>> from reactivex import of
    >>> class Lines:
    ...     def __init__(self) -> None:
    ...         self.rest = ""
    ...     def feed(self, data: str) -> list[str]:
    ...         *lines, self.rest = (self.rest + data).split(";")
    ...         return lines
    ...     def finish(self) -> list[str]:
    ...         return [self.rest] if self.rest else []
    >>> of("a;b", "c;", "d").pipe(decode(Lines)).subscribe(print) and None
    a
    bc
    d
    """
    expect_callable("decode(...)", make, "a function that makes a decoder, such as its class")
    return decoding(make, "decode(...)", make)


def decoding(
    make: Callable[[], Decoder[A, B]], verb: str, *given: object, takes_events: bool = False
) -> Operator[A, B]:
    """The operator of a decoder; see `rxworker.operators.expect.operator`."""

    def start(observer: abc.ObserverBase[B]) -> Sink[A]:
        decoder = make()
        push, feed = observer.on_next, decoder.feed
        ending = Ending(observer)

        def on_next(data: A) -> None:
            if ending.is_over:
                return
            try:
                items = feed(data)
            except Exception as error:
                ending.on_error(error)
                return
            for item in items:
                push(item)

        def on_completed() -> None:
            if ending.is_over:
                return
            try:
                items = decoder.finish()
            except Exception as error:
                ending.on_error(error)
                return
            for item in items:
                push(item)
            ending.on_completed()

        sink = Sink(on_next, ending.on_error, on_completed)
        sink.reads = getattr(decoder, "reads", None)
        return sink

    return observing(start, verb, *given, takes_events=takes_events)


def decoding_when_idle(
    make: Callable[[], Decoder[A, B]], verb: str, idle: float, scheduler: Scheduler, *, takes_events: bool = False
) -> Operator[A, B]:
    """The operator of a decoder that is also finished after so many seconds without an item; see `decoding`."""

    def subscribe(follow: Follow[A], observer: abc.ObserverBase[B], clock: abc.SchedulerBase) -> abc.DisposableBase:
        decoder, timer = make(), SerialDisposable()
        ending = Ending(observer, timer.dispose)

        def emit(take: Callable[[], Iterable[B]]) -> None:
            try:
                found = () if ending.is_over else take()
            except Exception as error:
                ending.on_error(error)
                return
            for each in found:
                observer.on_next(each)

        def ring(*_: object) -> None:
            emit(decoder.finish)

        def on_next(item: A) -> None:
            timer.put(clock.schedule_relative(idle, ring))
            emit(lambda: decoder.feed(item))

        def on_completed() -> None:
            emit(decoder.finish)
            ending.on_completed()

        return Both(timer, follow(Sink(on_next, ending.on_error, on_completed)))

    return timed(subscribe, verb, scheduler, idle, takes_events=takes_events)
