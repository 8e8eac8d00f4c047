"""How long it was from one record to another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from msgspec import Struct

from rxworker.events import Record, RunAbort, RunPause, RunStop
from rxworker.operators.decode import decode
from rxworker.operators.types import Operator

Mark: TypeAlias = Callable[[Record], Hashable | None]
"""A name for what begins, or ends, with a record; ``None`` where nothing does."""


class Span(Struct, frozen=True):
    """From one record to another.

    Attributes:
        begin: The record that it began with.
        end: The record that it ended with.
    """

    begin: Record
    end: Record

    @property
    def seconds(self) -> float:
        """How long it was, by the times of the records."""
        return self.end.time - self.begin.time


def spans(begins: Mark, ends: Mark) -> Operator[Record, Span]:
    """From each record that begins something to the first one behind it that ends it.

        -q---t-t-q-t-|         q begins, t ends
        [ spans(q, t) ]
        -----A-----B-|         A is from q to t, B as well

    A mark gives what begins, or ends, a name, for example the id of a call. Names of different runs, and of runs inside them, are kept
    apart. What begins again before it ended is measured from the second time. What is open when its run ends is dropped.

    Args:
        begins: The name of what begins with a record, or ``None``.
        ends: The name of what ends with a record, or ``None``. One record may end something and begin it again.

    >>> from reactivex import of
    >>> from rxworker.events import AttemptStart, TextDelta
    >>> def asked(record: Record) -> str | None:
    ...     return "request" if isinstance(record.event, AttemptStart) else None
    >>> def answered(record: Record) -> str | None:
    ...     return "request" if isinstance(record.event, TextDelta) else None
    >>> def record(time: float, event: object) -> Record:
    ...     return Record(seq=1, run="r", turn=1, attempt=1, time=time, event=event)
    >>> records = of(record(1.0, AttemptStart()), record(1.5, TextDelta(0, "Hi")), record(1.6, TextDelta(0, "!")))
    >>> records.pipe(spans(asked, answered)).subscribe(lambda span: print(span.seconds)) and None
    0.5
    """

    def make() -> _Spans:
        return _Spans(begins, ends)

    return decode(make)


_Open: TypeAlias = dict[tuple[str, ...], dict[Hashable, Record]]


class _Spans:
    """What is open, by run, by the path of a run inside it, and by name."""

    def __init__(self, begins: Mark, ends: Mark) -> None:
        self._begins = begins
        self._ends = ends
        self._open: dict[str, _Open] = {}

    def feed(self, data: Record) -> Sequence[Span]:
        found: Sequence[Span] = ()
        name = self._ends(data)
        if name is not None:
            begin = self._open.get(data.run, _NONE).get(data.path, _NOTHING).pop(name, None)
            if begin is not None:
                found = (Span(begin, data),)
        name = self._begins(data)
        if name is not None:
            self._open.setdefault(data.run, {}).setdefault(data.path, {})[name] = data
        if data.event.__class__ in _OVER:
            self._close(data)
        return found

    def finish(self) -> Sequence[Span]:
        return ()

    def _close(self, record: Record) -> None:
        if record.path:
            self._open.get(record.run, _NONE).pop(record.path, None)
        else:
            self._open.pop(record.run, None)


# Stand for what is not there; nothing is ever put into them.
_NONE: _Open = {}
_NOTHING: dict[Hashable, Record] = {}

_OVER = frozenset({RunStop, RunAbort, RunPause})

__all__ = ["Mark", "Span", "spans"]
