"""One watcher of a hub: who it is, how far it has seen, and what was left out for it."""

from __future__ import annotations

from msgspec import Struct

from rxworker.events import Record
from rxworker.hub.delivery import Coalesce, Delivery, DropOldest, Latest, Reliable, count


class WatcherState(Struct, frozen=True):
    """A watcher at one moment.

    Attributes:
        name: Its name, as given or numbered.
        delivery: ``reliable``, ``coalesce``, ``latest`` or ``drop_oldest``.
        seq: The number of the last record that it has seen.
        lag: How many records it is behind.
        delivered: How many records it was given.
        merged: How many records were merged into others on the way to it.
        dropped: How many records it was not given, and were not merged either.
    """

    name: str
    delivery: str
    seq: int
    lag: int
    delivered: int
    merged: int
    dropped: int


NAMES: dict[type[object], str] = {
    Reliable: "reliable",
    Coalesce: "coalesce",
    Latest: "latest",
    DropOldest: "drop_oldest",
}


class Watcher:
    """A place in the row of records. Compared by identity.

    Attributes:
        name: For people.
        delivery: How it is given its records.
        seen: The number of the last record that it was given.
    """

    __slots__ = ("_delivered", "_dropped", "_merged", "delivery", "name", "seen")

    def __init__(self, name: str, delivery: Delivery, seen: int) -> None:
        self.name = name
        self.delivery = delivery
        self.seen = seen
        self._delivered = self._merged = self._dropped = 0

    def note_one(self) -> None:
        """It is given the next record."""
        self.seen += 1
        self._delivered += 1

    def note(self, batch: list[Record]) -> None:
        """It is given these."""
        self.seen = batch[-1].seq
        delivered, merged, dropped = count(batch, self.delivery)
        self._delivered += delivered
        self._merged += merged
        self._dropped += dropped

    @property
    def patience(self) -> int | None:
        """How far it may be behind before the source has to wait for it; ``None`` for any number."""
        match self.delivery:
            case Reliable(limit=limit, when_full="wait"):
                return limit
            case _:
                return None

    def is_lost(self, last_seq: int, came: int) -> bool:
        """Whether it is so far behind that it is to be detached.

        Args:
            last_seq: The number of the last record.
            came: That of the last one when it came: those from before are not what it is too slow for.
        """
        match self.delivery:
            case Reliable(limit=int(limit), when_full="detach"):
                return last_seq - max(self.seen, came) > limit
            case _:
                return False

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many records were delivered to it, merged for it, and dropped for it."""
        return self._delivered, self._merged, self._dropped

    def state(self, last_seq: int) -> WatcherState:
        """How it stands."""
        return self.described(self.seen, last_seq, *self.counts)

    def described(
        self, seen: int, last_seq: int, delivered: int, merged: int, dropped: int
    ) -> WatcherState:
        """A state with these numbers."""
        kind = NAMES[type(self.delivery)]
        lag = max(last_seq - seen, 0)  # it may wait for a number that is still to come
        return WatcherState(self.name, kind, seen, lag, delivered, merged, dropped)


__all__ = ["Watcher", "WatcherState"]
