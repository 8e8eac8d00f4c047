"""How a watcher is given its records: the policies, and what each makes of what there is. Pure.

Whatever the policy, the records that one watcher gets stand for every number exactly once and in order: each begins where
the one before it ended. Only deltas and other passing things are ever merged or left out; whatever begins or ends is
delivered by every policy.
"""

from __future__ import annotations

from itertools import islice
from typing import Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.events import (
    Gap,
    Record,
    Usage,
)
from rxworker.events.kinds import PASSING
from rxworker.hub.history import History, deltas_of, expand

BATCH = 256
"""The most single records that are made at once for a reader that is far behind."""

LONGEST = 86400.0
"""The most seconds between two deliveries."""


class Reliable(Struct, frozen=True):
    """Every record, one by one, as it was made.

    Attributes:
        limit: How many records the watcher may be behind; ``None`` for any number. None of it is held for the watcher alone.
        when_full: ``wait`` makes the run wait: the provider's stream is read no faster than this watcher reads. ``detach`` ends the
            watcher with an error that says so; records from before it came do not count.

    Raises:
        ConfigurationError: The limit is not above 0, or ``when_full`` is neither.
    """

    limit: int | None = 1024
    when_full: Literal["wait", "detach"] = "wait"

    def __post_init__(self) -> None:
        if self.limit is not None:
            _expect_limit(self.limit)
        if self.when_full not in ("wait", "detach"):
            message = f"when_full={self.when_full!r}: it is 'wait' or 'detach'"
            raise ConfigurationError(message)


class Coalesce(Struct, frozen=True, repr_omit_defaults=True):
    """All that there is, with adjacent deltas of one block merged. Nothing is lost: it folds to the same state.

    Attributes:
        every: Seconds between two deliveries of deltas at the least; ``None`` delivers whenever the watcher is ready. The first delta
            comes at once, and so does whatever begins or ends, with the deltas before it.

    Raises:
        ConfigurationError: ``every`` is not above 0, or above a day.

        -a-b-c-d-e-f-|           deltas
        [ Coalesce(every=4) ]    a column is a second
        -a---B---C---(f|)        B is b and c, C is d and e
    """

    every: float | None = None

    def __post_init__(self) -> None:
        every = cast("object", self.every)
        if every is not None and not (isinstance(every, int | float) and 0 < every <= LONGEST):
            raise ConfigurationError(
                f"every={every!r} is no number of seconds above 0, up to a day"
            )


class Latest(Struct, frozen=True):
    """For gauges: of passing events and of usage only the newest of each kind, besides everything that begins or ends."""


class DropOldest(Struct, frozen=True):
    """Every record while the watcher keeps up; one that is behind is given a `Gap` for the passing events before the newest ones.

    Attributes:
        limit: How many of the newest records are kept for it.

    Raises:
        ConfigurationError: The limit is not above 0.
    """

    limit: int = 256

    def __post_init__(self) -> None:
        _expect_limit(self.limit)


Delivery: TypeAlias = Reliable | Coalesce | Latest | DropOldest

Counts: TypeAlias = tuple[int, int, int]
"""How many records were delivered to a watcher, merged for it, and dropped for it."""


def expect_delivery(delivery: object) -> None:
    """See that it is a delivery.

    Raises:
        ConfigurationError: It is none.

    >>> expect_delivery(Latest())
    """
    if not isinstance(delivery, Delivery):
        message = (
            f"delivery={delivery!r} is none: it is Reliable(), Coalesce(), Latest() or DropOldest()"
        )
        raise ConfigurationError(message)


def expect_place(after: object) -> None:
    """See that a watcher can begin behind it.

    Raises:
        ConfigurationError: It is no number of a record.

    >>> expect_place(3)
    """
    if not isinstance(after, int) or isinstance(after, bool):
        message = f"after={after!r} is no number of a record: it is that of the last one that is not needed, or 0"
        raise ConfigurationError(message)


def take(history: History, delivery: Delivery, after: int) -> list[Record]:
    """What a watcher that has seen everything up to ``after`` is given next; empty when there is nothing new.

    >>> from rxworker.events import TextDelta
    >>> history = History()
    >>> for n, text in enumerate("abcd", start=1):
    ...     history.append(Record(n, "r", 1, 1, 0.0, TextDelta(0, text)))
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


def count(records: list[Record], delivery: Delivery | None) -> Counts:
    """How many of the records that these cover were delivered, merged into others, and dropped. A gap is no record.

    >>> from rxworker.events import TextDelta
    >>> gap = Record(3, "r", 1, 1, 0.0, Gap(1, 3), covers=3)
    >>> count([gap, Record(4, "r", 1, 1, 0.0, TextDelta(0, "hi"))], DropOldest())
    (1, 0, 3)
    """
    every = records[-1].seq - records[0].first + 1
    match delivery:
        case DropOldest():
            given = sum(record.event.__class__ is not Gap for record in records)
            return given, 0, every - given
        case Latest():
            return len(records), 0, every - len(records)
        case _:
            return len(records), every - len(records), 0


def add(counts: Counts, more: Counts, sign: int = 1) -> Counts:
    """The sums of two counts; with ``sign=-1``, the differences."""
    return (
        counts[0] + sign * more[0],
        counts[1] + sign * more[1],
        counts[2] + sign * more[2],
    )


def every_of(delivery: Delivery | None) -> float | None:
    """Seconds between two deliveries; ``None`` for a delivery without a pace.

    >>> every_of(Coalesce(every=0.5))
    0.5
    """
    return delivery.every if isinstance(delivery, Coalesce) else None


def _latest(history: History, after: int) -> list[Record]:
    kept: list[Record] = []
    newest: dict[tuple[object, ...], Record] = {}

    def let_out() -> None:
        kept.extend(sorted(newest.values(), key=_seq))
        newest.clear()

    for entry in history.entries(after):
        record = next(expand(entry, entry.seq - 1)) if deltas_of(entry) else entry
        kind = record.event.__class__
        if kind in PASSING or kind is Usage:
            newest[kind, record.path] = record
        else:
            let_out()
            kept.append(record)
    let_out()
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
            _leave_out(given, next(expand(entry, last - 1)), max(entry.first, after + 1))
        elif entry.event.__class__ in PASSING:
            _leave_out(given, entry, entry.first)
        else:
            given.append(entry)
    return [*given, *history.records(begin)]


def _leave_out(given: list[Record], last: Record, first: int) -> None:
    """Put a gap in the place of the records from ``first`` to this one, or make the gap before it longer."""
    if given and isinstance(given[-1].event, Gap):
        first = given.pop().first
    given.append(replace(last, event=Gap(first, last.seq), path=(), covers=last.seq - first + 1))


def _seq(record: Record) -> int:
    return record.seq


def _expect_limit(limit: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigurationError(f"limit={limit!r} is no number of records above 0")
