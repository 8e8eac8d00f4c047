"""How records are delivered to a watcher: the policies, and the function that applies them to the history. Pure.

With every policy, the records that one watcher receives cover every number exactly once and in order: each begins after
the last number of the one before it. Only deltas and other passing events are ever merged or dropped; every policy
delivers the events that begin or end something.
"""

from __future__ import annotations

from itertools import islice
from math import inf
from operator import attrgetter
from typing import Literal, TypeAlias

from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.events import Gap, Record, Usage
from rxworker.events.kinds import PASSING
from rxworker.hub.history import History, Item, deltas_of, expand
from rxworker.messages.settings import Settings, check_number

BATCH = 256
"""The maximum number of single records that are made at once for a reader that is far behind."""

LONGEST = 86400.0
"""The maximum number of seconds between two deliveries."""

HELD = 1024
"""How many records a hub with a limited memory holds for a watcher that names no limit."""

_PASSING = PASSING | {Item}


class Reliable(Settings, frozen=True):
    """Every record, one by one, as it was pushed.

    Attributes:
        limit: How many records the watcher may be behind; ``None`` for any number. They are not copied for the watcher.
        when_full: ``wait`` makes the run wait: the provider's stream is read no faster than this watcher reads.
            ``detach`` ends the watcher with an error; records from before it was attached do not count.

    Raises:
        ConfigurationError: The limit is not above 0, or ``when_full`` has another value.
    """

    limit: int | None = 1024
    when_full: Literal["wait", "detach"] = "wait"

    def __post_init__(self) -> None:
        check_number("Reliable(limit)", self.limit, least=1, whole=True, optional=True)
        if self.when_full not in ("wait", "detach"):
            message = f"when_full={self.when_full!r}: it must be 'wait' or 'detach'"
            raise ConfigurationError(message)


class _Paced(Settings, frozen=True, repr_omit_defaults=True):
    every: float | None = None

    def __post_init__(self) -> None:
        name = f"{type(self).__name__}(every)"
        check_number(name, self.every, above=0, optional=True)
        if self.every is not None and self.every > LONGEST:
            raise ConfigurationError(f"{name}={self.every!r}: give at most a day")


class Coalesce(_Paced, frozen=True, repr_omit_defaults=True):
    """Everything, with adjacent deltas of one block merged. Nothing is lost: the merged records fold to the same state.

        -a-b-c-d-e-f-|           deltas
        [ Coalesce(every=4) ]    a column is a second
        -a---B---C---(f|)        B is b and c, C is d and e

    Attributes:
        every: Minimum seconds between two deliveries of deltas; ``None`` delivers whenever the watcher is ready. The
            first delta is delivered at once, and so is every event that begins or ends something, with the deltas
            before it.

    Raises:
        ConfigurationError: ``every`` is not above 0, or above a day.
    """


class Latest(_Paced, frozen=True, repr_omit_defaults=True):
    """For gauges.

    Every event that begins or ends something, and only the newest of each kind of passing event and of usage.

    Attributes:
        every: Minimum seconds between two deliveries of passing events, as in `Coalesce`.

    Raises:
        ConfigurationError: ``every`` is not above 0, or above a day.
    """


class DropOldest(Settings, frozen=True):
    """Every record while the watcher keeps up.

    When it is behind, a `Gap` for the passing events before the newest records.

    Attributes:
        limit: How many of the newest records it receives in any case.

    Raises:
        ConfigurationError: The limit is not above 0.
    """

    limit: int = 256

    def __post_init__(self) -> None:
        check_number("DropOldest(limit)", self.limit, least=1, whole=True)


Delivery: TypeAlias = Reliable | Coalesce | Latest | DropOldest
"""Any delivery."""


def take(history: History, delivery: Delivery, after: int) -> list[Record]:
    """The next records of a watcher that has received everything up to ``after``; empty if there are none.

    >>> from rxworker.events import TextDelta
    >>> history = History()
    >>> for n, text in enumerate("abcd", start=1):
    ...     history.extend([Record(n, "r", 1, 1, 0.0, TextDelta(0, text))])
    >>> [record.event for record in take(history, DropOldest(limit=1), after=1)]
    [Gap(first=2, last=3), TextDelta(index=0, text='d', choice=0)]
    """
    if after >= history.last_seq:
        return []
    match delivery:
        case Coalesce():
            return history.merged(after)
        case Reliable():
            return list(islice(history.records(after), BATCH))
        case Latest():
            return _latest(history, after)
        case DropOldest(limit=limit):
            return _newest(history, after, limit)


def count(records: list[Record], delivery: Delivery | None) -> int:
    """How many of these are records that were pushed, and no gaps that stand for dropped ones.

    >>> from rxworker.events import TextDelta
    >>> gap = Record(3, "r", 1, 1, 0.0, Gap(1, 3), covers=3)
    >>> count([gap, Record(4, "r", 1, 1, 0.0, TextDelta(0, "hi"))], DropOldest())
    1
    """
    if isinstance(delivery, DropOldest):
        return sum(record.event.__class__ is not Gap for record in records)
    return len(records)


def every_of(delivery: Delivery | None) -> float | None:
    """Seconds between two deliveries; ``None`` for a delivery without a pace.

    >>> every_of(Coalesce(every=0.5))
    0.5
    """
    return delivery.every if isinstance(delivery, Coalesce | Latest) else None


def held_for(delivery: Delivery | None) -> float:
    """How many of the newest records a hub with a limited memory holds for a watcher that is behind.

    >>> held_for(Reliable(limit=7)), held_for(Latest()), held_for(Reliable(limit=None))
    (7, 1, inf)
    """
    match delivery:
        case Reliable(limit=limit):
            return inf if limit is None else limit
        case DropOldest(limit=limit):
            return limit
        case Latest():
            return 1
        case _:
            return HELD


def _latest(history: History, after: int) -> list[Record]:
    kept: list[Record] = []
    newest: dict[tuple[object, ...], Record] = {}

    def flush() -> None:
        kept.extend(sorted(newest.values(), key=attrgetter("seq")))
        newest.clear()

    for entry in history.entries(after):
        record = next(expand(entry, entry.seq - 1)) if deltas_of(entry) else entry
        kind = record.event.__class__
        if kind in _PASSING or kind is Usage:
            newest[kind, record.path] = record
        else:
            flush()
            kept.append(record)
    flush()
    for place, record in enumerate(kept):
        before = kept[place - 1].seq if place else after
        if record.seq - before > 1:
            kept[place] = replace(record, covers=record.seq - before)
    return kept


def _newest(history: History, after: int, limit: int) -> list[Record]:
    begin = history.last_seq - limit
    if after >= begin:
        return list(history.records(after))
    given: list[Record] = []
    for entry in history.entries(after):
        if entry.first > begin:
            break
        if deltas_of(entry):
            last = min(entry.seq, begin)
            _drop(given, next(expand(entry, last - 1)), max(entry.first, after + 1))
        elif entry.event.__class__ in _PASSING:
            _drop(given, entry, entry.first)
        else:
            given.append(entry)
    return [*given, *history.records(begin)]


def _drop(given: list[Record], last: Record, first: int) -> None:
    """Replace the records from ``first`` to this one with a gap, or extend the gap before them."""
    if given and isinstance(given[-1].event, Gap):
        first = given.pop().first
    given.append(replace(last, event=Gap(first, last.seq), path=(), covers=last.seq - first + 1))
