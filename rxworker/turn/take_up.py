"""A response that went on at the service while its process died: the rest of its events is recorded after those stored.

Theory of operation. The service sends the response again from its start on, which costs nothing. It passes the worker's
operators, handlers and collectors, which are new in this process and see the whole of it; `catch_up` then leaves out
what the log has. Texts are compared as texts, since an operator such as `coalesce` may cut them at other places. What a
decoder does not know (`Opaque`) may differ: members of a head come with another event there, since the first event of a
response is not sent again. Where the two differ otherwise, for example since an operator depends on the time, the
stored attempt is retracted, and all that came is recorded as another one: the response is still the same. It is
recorded as another attempt from the start, too, if pure tools had started early in the stored one: whether they have
ended is not known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from reactivex import Observable, abc

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    Custom,
    Error,
    Event,
    Opaque,
    Ping,
    Record,
    ResponseStatus,
    Status,
    ToolStart,
    Usage,
)
from rxworker.events.kinds import BLOCK_EVENTS, MERGEABLE, META_EVENTS, Deltas, Parts, adds_to_same, flatten
from rxworker.operators.kernel import Sink, many, stage
from rxworker.state import RunState

DIFFERS = "the response differs from what is stored of it: it is recorded again"
STARTED, COMPLETED = ResponseStatus.STARTED, ResponseStatus.COMPLETED


class OpenResponse(Struct, frozen=True):
    """A response that its process has not received to the end, and that goes on at the service.

    Attributes:
        cursor: The provider's name of it.
        begun: The number of the record before its events.
        stored: Its events that are stored, adjacent deltas as one `Deltas`; none if the attempt is retracted, and
            recorded again from its start on.
    """

    cursor: str
    begun: int
    stored: tuple[Any, ...] = ()


def open_response(state: RunState, turn: Sequence[Record], foreign: int) -> OpenResponse | None:
    """The response that a stored run was cut off in, if the provider has named it.

    Args:
        state: The state of the run.
        turn: The records of its last turn.
        foreign: The number of the last record that is of another run: that one continues its response itself.
    """
    response = state.response
    if response is None or response.status is not STARTED or response.error is not None:
        return None
    starts = [each for each in turn if isinstance(each.event, AttemptStart)]
    if not (starts and starts[-1].seq > foreign and response.response_id):
        return None
    begun, stored = starts[-1].seq, list[Any]()
    for record in turn:
        if record.seq <= begun or record.path:
            continue
        event: Any = record.event
        if isinstance(event, ToolStart):
            return OpenResponse(response.response_id, begun)
        if _is_start(event):
            stored.clear()  # what was before it is retracted
        if event.__class__ is Deltas or event.__class__ in _OF_RESPONSES:
            stored.append(event)
    return OpenResponse(response.response_id, begun, tuple(stored))


def catch_up(source: Observable[Event], stored: Iterable[Any], started: AttemptStart) -> Observable[Event]:
    """Leave out the events of a response that are stored.

        -s-d-d-d-e-|     s, and the text of the first delta and half of the second, are stored
        [ catch_up ]
        -----d-d-e-|     the first delta has the other half

    Args:
        source: The response from its start on.
        stored: Its events that are stored.
        started: Begins another attempt if the response differs from what is stored.
    """

    def make(observer: abc.ObserverBase[Event]) -> Sink[Event]:
        known, seen, push_many = _Stored(stored), list[Event](), many(observer)

        def on_next(event: Event) -> None:
            if not known.left:
                observer.on_next(event)
                return
            seen.append(event)
            rest = known.rest_of(event)
            if rest is None:
                known.left.clear()
                rest = [AttemptRetract(DIFFERS), started, *seen]
            for each in rest:
                observer.on_next(each)

        def on_many(parts: Parts[Event]) -> None:
            if not known.left:
                push_many(parts)
                return
            for event in flatten(parts):
                on_next(event)

        return Sink(on_next, observer.on_error, observer.on_completed, on_many)

    return stage(source, make)


class _Stored:
    """What is stored of a response and has not come again.

    Attributes:
        left: Its events; adjacent deltas are one, with their whole text.
    """

    def __init__(self, events: Iterable[Any]) -> None:
        self.left: deque[Any] = deque()
        self._place = 0  # up to where the text of the first one has come
        texts: list[str] = []
        for part in events:
            event: Any = part.with_text(part.text()) if part.__class__ is Deltas else part
            if event.__class__ in MERGEABLE:
                if not event.text:
                    continue
                if self.left and _is_same_text(event, self.left[-1]):
                    texts.append(event.text)
                    continue
            self._join(texts)
            if event.__class__ is not Ping:
                self.left.append(event)
        self._join(texts)

    def _join(self, texts: list[str]) -> None:
        if texts:
            last = self.left[-1]
            self.left[-1] = replace(last, text="".join((last.text, *texts)))
            texts.clear()

    def rest_of(self, event: Any) -> list[Event] | None:
        """The part of an event that is not stored; ``None`` if it differs from what is stored."""
        first = self.left[0]
        if event.__class__ is Ping or event.__class__ is Custom:  # neither is part of the response
            return []
        if event.__class__ is BlockAbort:  # of the response, or of a connection that fails
            if first.__class__ is BlockAbort and first.index == event.index:
                self.left.popleft()
            return []
        if _fails(event):
            return [event]
        if event.__class__ is Opaque:
            if first.__class__ is Opaque:
                self.left.popleft()
            return []
        if first.__class__ is Opaque:
            self.left.popleft()
            return self.rest_of(event) if self.left else [event]
        if event.__class__ in MERGEABLE:
            return self._rest_of_text(event, first) if event.text else []
        if not _is_same(event, first):
            return None
        self.left.popleft()
        return []

    def _rest_of_text(self, event: Any, first: Any) -> list[Event] | None:
        if not _is_same_text(event, first):
            return None
        text, at = event.text, self._place
        known = min(len(text), len(first.text) - at)
        if not text.startswith(first.text[at : at + known]):
            return None
        self._place += known
        if self._place < len(first.text):
            return []
        self.left.popleft()
        self._place = 0
        if known == len(text):
            return []
        return None if self.left else [replace(event, text=text[known:])]


def _is_same_text(event: Any, other: Any) -> bool:
    return event.__class__ is other.__class__ and adds_to_same(event, other)


def _is_start(event: Any) -> bool:
    return isinstance(event, Status) and event.status is STARTED


def _is_same(event: Any, stored: Any) -> bool:
    if _is_start(event) and _is_start(stored):  # later events of a response name its model too
        return event.response_id in (None, stored.response_id)
    # Through JSON, as the log has it.
    return event.__class__ is stored.__class__ and (
        event == stored or msgspec.to_builtins(event) == msgspec.to_builtins(stored)
    )


def _fails(event: Any) -> bool:
    """Whether an event is of a connection that has failed for good, which closes what is open."""
    if isinstance(event, Status):
        return event.status not in (STARTED, COMPLETED)
    return isinstance(event, Error) or (isinstance(event, Usage) and event.is_partial)


_OF_RESPONSES = META_EVENTS | BLOCK_EVENTS
