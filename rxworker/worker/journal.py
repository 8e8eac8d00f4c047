"""What happens in a run, written down: events become records, records go to the watchers and fold into the state."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from rxworker.events import AttemptStart, Event, Record, TurnStart, WatcherDetach
from rxworker.hub import Hub
from rxworker.timeline import RunState, step_run


class Journal:
    """The records of one run.

    Args:
        run: The run's id.
        clock: Tells the time, in seconds since the epoch.
    """

    def __init__(self, run: str, clock: Callable[[], float] = time.time) -> None:
        self.run = run
        self.hub: Hub[Record] = Hub(self._detached)
        self.turn = 0
        self._attempt = 0
        self._clock = clock
        self._state = RunState()
        self._folded = 0

    def emit(self, event: Event) -> None:
        """Number the event and show it to every watcher."""
        kind = event.__class__  # every delta comes by here; isinstance would take ten times as long
        if kind is TurnStart:
            self.turn, self._attempt = self.turn + 1, 0
        elif kind is AttemptStart:
            self._attempt += 1
        hub = self.hub
        seq = len(hub.row) + 1
        hub.push(Record(seq, self.run, self.turn, self._attempt, self._clock(), event))

    def relay(self, call_id: str, record: Record) -> None:
        """Write down a record of a run inside this one, under the call that began it."""
        seq, path = len(self.hub.row) + 1, (call_id, *record.path)
        self.hub.push(replace(record, seq=seq, run=self.run, path=path))

    @property
    def state(self) -> RunState:
        """What the records so far come to. Folded when asked for, so that a delta costs nothing here."""
        row, state = self.hub.row, self._state
        for place in range(self._folded, len(row)):
            state = step_run(state, row[place])
        self._state, self._folded = state, len(row)
        return state

    def _detached(self, watcher: str, error: BaseException) -> None:
        self.emit(WatcherDetach(watcher, f"{type(error).__name__}: {error}"))


__all__ = ["Journal"]
