"""The text of a response as it is written."""

from __future__ import annotations

from typing import Any

from reactivex import Observable, abc

from rxworker.events import Event, Record, TextDelta, ThinkingDelta
from rxworker.events.deltas import Deltas, Parts
from rxworker.operators.records import expect_events, records_given
from rxworker.operators.stage import Sink, many, stage
from rxworker.operators.types import Operator


def text_deltas(choice: int = 0) -> Operator[Event, str]:
    """The pieces of the visible text.

        -s-t-t-u-|             s BlockStart, t TextDelta, u Usage
        [ text_deltas() ]
        ---a-b---|

    Args:
        choice: Whose text, where a response has several choices.

    >>> from reactivex import of
    >>> from rxworker.events import Ping, TextDelta
    >>> of(Ping(), TextDelta(0, "hel"), TextDelta(0, "lo")).pipe(text_deltas()).subscribe(print) and None
    hel
    lo
    """
    return _texts(TextDelta, choice, "text_deltas()")


def thinking_deltas(choice: int = 0) -> Operator[Event, str]:
    """The pieces of what the model thinks before it speaks.

        -s-k-k-t-|             s BlockStart, k ThinkingDelta, t TextDelta
        [ thinking_deltas() ]
        ---a-b---|

    Args:
        choice: Whose thoughts, where a response has several choices.
    """
    return _texts(ThinkingDelta, choice, "thinking_deltas()")


def _texts(wanted: type[TextDelta | ThinkingDelta], choice: int, verb: str) -> Operator[Event, str]:
    def apply(source: Observable[Event]) -> Observable[str]:
        expect_events(source, verb)

        def make(observer: abc.ObserverBase[str]) -> Sink[Event]:
            push, push_many = observer.on_next, many(observer)

            # By their very type, since isinstance takes four times as long to say no.
            def on_next(event: Any) -> None:
                if type(event) is wanted and event.choice == choice:
                    push(event.text)
                elif type(event) is Record:
                    raise records_given(verb)

            def on_many(parts: Parts[Event]) -> None:
                for each in parts:
                    part: Any = each
                    kind = part.__class__
                    if kind is wanted or kind is Record:
                        on_next(part)
                    elif kind is Deltas:
                        like = part.like
                        if type(like) is wanted and like.choice == choice:
                            push_many(part.texts)

            return Sink(on_next, observer.on_error, observer.on_completed, on_many)

        return stage(source, make)

    return apply


__all__ = ["text_deltas", "thinking_deltas"]
