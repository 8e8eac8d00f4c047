"""The envelope in which every watcher of a run receives its events.

Records, and the events and messages of which there are many, are values that hold nothing but values, so that none can be part of a
cycle. The garbage collector does not track them (``gc=False``): reference counts free them.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rxworker.events.block import BlockEvent
from rxworker.events.meta import Meta
from rxworker.events.turn import TurnEvent

ResponseEvent: TypeAlias = Meta | BlockEvent
"""Any event of a response: a meta event or an event of a block. A model emits these."""
Event: TypeAlias = Meta | BlockEvent | TurnEvent
"""Any event."""


class Record(Struct, frozen=True, omit_defaults=True, gc=False):
    """One event of a run, with where and when.

    Attributes:
        seq: Its number within the run, from 1, without gaps. Resuming counts by it.
        run: The run's id.
        turn: The turn's number, from 1; 0 before the first.
        attempt: The request's number within the turn, from 1; 0 before the first.
        time: Seconds since the epoch.
        event: What happened.
        path: The tool calls that lead to it, for a run inside a run.
        covers: How many records this one stands for, itself among them. More than one where a delivery has merged adjacent
            deltas, or left some out: it stands for ``first`` to ``seq``.
    """

    seq: int
    run: str
    turn: int
    attempt: int
    time: float
    event: Event
    path: tuple[str, ...] = ()
    covers: int = 1

    @property
    def first(self) -> int:
        """The number of the first record that this one stands for."""
        return self.seq - self.covers + 1
