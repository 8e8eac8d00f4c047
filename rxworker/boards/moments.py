"""What a dashboard shows of a log at moments of the past, each folded from a copy of its panels at an earlier moment.

Theory of operation. A fold of the stored runs is copied now and then on its way (`Copy`), together with the place of
its reader. A moment is folded from the last copy before it. The runs are listed once; before each moment those are
noted that have changed since. A copy goes when a record from before it is no longer there, or has come since; in the
others, a run that has got more records is read on. The first copy is tried: it takes the same records as the fold that
it was made of, and if the two do not show the same then, or a panel cannot be copied, each moment is folded from the
begin.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections.abc import Callable
from time import thread_time
from typing import NamedTuple

from reactivex.internal import noop

from rxworker.boards.copies import Copy
from rxworker.boards.dashboard import Dashboard, Fold, Progress
from rxworker.boards.panel import PanelState
from rxworker.boards.reader import Begun, Listed, Place, Reader
from rxworker.events import Record
from rxworker.log import EventLog

EVERY = 0.1
"""Seconds of CPU between two copies, at least."""
SHARE = 4
"""How many times as long as a copy takes, records are taken until the next one."""
MAX_COPIES = 512
"""The maximum number of copies. Above it every second one goes, and there are half as many from then on."""
MAX_BYTES = 32_000_000
"""The maximum size of all copies, in the same way."""
TRIED = 500
"""How many records the first copy is tried with."""


class _Kept(NamedTuple):
    place: Place
    copy: Copy


class _Trial(NamedTuple):
    """The first copy, and the records since."""

    kept: _Kept
    records: list[Record]


class Moments:
    """Moments of the past of a dashboard over a log. Belongs to one event loop, and computes one moment at a time.

    Args:
        dashboard: The dashboard.
        log: The log.
        since: Only runs that began then or later, in seconds since the epoch.

    Attributes:
        since: As above.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.boards import panel
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.panels import tokens
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         run = await Worker(ScriptedModel(["Hello."]), log=log).run("Hi")
        ...         moments = Moments(Dashboard([panel("Tokens", tokens)]), log)
        ...         print([(await moments.at(time))[0].value for time in (0.0, 4e9)])
        >>> asyncio.run(main())
        [None, 15]
    """

    def __init__(self, dashboard: Dashboard, log: EventLog, since: float | None = None) -> None:
        self.since = since
        self._dashboard = dashboard
        self._log = log
        self._listed = Listed(log, since, dashboard.selection)
        self._copies: list[_Kept] = []
        self._limits: dict[Reader, float] = {}
        self._every, self._cost = EVERY, 0.0
        self._trial: _Trial | None = None
        self._is_tried = self._cannot = False
        self._lock = asyncio.Lock()

    async def at(self, time: float) -> tuple[PanelState, ...]:
        """What the panels show at a moment, as `fold_log` returns it.

        Args:
            time: The moment, in seconds since the epoch.

        Raises:
            LogError: The log cannot be read.
        """
        async with self._lock:
            await self.renew()
            count = bisect_right(self._copies, time, key=_time_of)
            kept = self._copies[count - 1] if count else None
            fold = Fold(self._dashboard) if kept is None else await asyncio.to_thread(kept.copy.fold)
            await self.read(fold, fold.take, at=None if kept is None else kept.place, until=time)
            return fold.at(time)

    async def renew(self) -> list[Begun]:
        """Note what has changed in the log. Returns the runs, the last to begin first."""
        async for time, grown in self._listed.changes():
            self._copies = [each for each in self._copies if max(_time_of(each), each.place.begun[0]) < time]
            self._limits = {reader: min(limit, time) for reader, limit in self._limits.items()}
            if grown is not None:
                for place in [each.place for each in self._copies]:
                    if (grown.time, grown.run) <= place.begun:
                        place.runs.setdefault(grown.run, (grown.seq, grown.seq))
        return self._listed.runs[::-1]

    def has_since(self, since: float) -> bool:
        """Whether its runs are all those that began since another time."""
        return self.since is None or (self.since >= since > self._listed.left_out)

    async def read(
        self,
        fold: Fold,
        take: Callable[[Record], object],
        *,
        at: Place | None = None,
        until: float | None = None,
        progress: Progress = noop,
    ) -> dict[str, int]:
        """Read the records after a place, and copy the fold that takes them on the way; see `Reader.read`."""

        def noted(record: Record) -> None:
            if self._trial is not None:
                self._trial.records.append(record)
            take(record)

        last = 0.0

        async def on_turn(reader: Reader) -> None:
            nonlocal last
            if not self._cannot and await self._copy(fold, reader, last):
                last = reader.spent
            await asyncio.sleep(0)

        runs = self._listed.runs if at is None else self._listed.after(at.begun)
        takes = take if self._is_tried else noted
        reader = Reader(self._log, runs[::-1], takes, fold, at=at, known=self._listed.known, on_turn=on_turn)
        self._limits[reader] = float("inf")
        try:
            return await reader.read(until, progress)
        finally:
            self._trial = None
            del self._limits[reader]

    async def _copy(self, fold: Fold, reader: Reader, last: float) -> bool:
        """Copy a fold, if it is time to; returns whether it has."""
        place = reader.place
        if self._trial is not None:
            if len(self._trial.records) >= TRIED:
                self._try(self._trial, fold, reader)
            return False
        is_due = reader.spent - last >= max(self._every, SHARE * self._cost)
        if place is None or not is_due or fold.clock.seconds > place.taken[0] + 1e-6:  # timers have run after it
            return False
        try:
            copy, self._cost = await asyncio.to_thread(_copied, fold)
        except Exception:  # of whatever an operator is made of
            self._cannot = True
            return False
        kept = _Kept(place, copy)
        if self._is_tried:
            self._keep(kept, reader)
        else:
            self._trial = _Trial(kept, [])
        return True

    def _try(self, trial: _Trial, fold: Fold, reader: Reader) -> None:
        self._trial = None
        other = trial.kept.copy.fold()
        for record in trial.records:
            other.take(record)
        self._is_tried = [each.state for each in other.cells.values()] == [each.state for each in fold.cells.values()]
        self._cannot = not self._is_tried
        if self._is_tried:
            self._keep(trial.kept, reader)

    def _keep(self, kept: _Kept, reader: Reader) -> None:
        if _time_of(kept) >= self._limits[reader]:
            return
        insort(self._copies, kept, key=_time_of)
        if len(self._copies) > MAX_COPIES or sum(each.copy.size for each in self._copies) > MAX_BYTES:
            del self._copies[::2]
            self._every *= 2


def _time_of(kept: _Kept) -> float:
    return kept.place.taken[0]


def _copied(fold: Fold) -> tuple[Copy, float]:
    began = thread_time()
    return Copy(fold), thread_time() - began
