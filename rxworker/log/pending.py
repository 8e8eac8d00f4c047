"""When the leases of runs end, and which runs wait for a process. Pure.

Theory of operation. It folds what `EventLog.changes` reports. A run waits if it is queued or running without a valid lease, or paused with commands that
may decide about it. Runs with a lease, and runs that were deferred, have an entry in a heap of times, so that a change costs no more with many runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from rxworker.log.values import TENANT, RunInfo

OPEN = ("queued", "running")


class Leases:
    """When to look at runs again whose leases are renewed without a change of the run, so that a lease is never taken to have ended that was renewed.

    Args:
        before: How many seconds before the end of a lease its renewal is expected.
    """

    def __init__(self, before: float) -> None:
        self._before = before
        self._ends: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []

    def note(self, infos: Iterable[RunInfo], now: float) -> None:
        """Take newer information about runs."""
        for info in infos:
            if not info.owner or info.lease_until <= now:
                self._ends.pop(info.run, None)
            elif self._ends.get(info.run) != info.lease_until:
                self._ends[info.run] = info.lease_until
                heappush(self._due, (info.lease_until - self._before, info.run))

    @property
    def next_due(self) -> float | None:
        """When to look at a run again."""
        return self._due[0][0] if self._due else None

    def due(self, now: float) -> list[str]:
        """The runs to look at now, each before the end of its lease, and if it was not renewed, again at the end."""
        found: list[str] = []
        while self._due and self._due[0][0] <= now:
            time, run = heappop(self._due)
            end = self._ends.get(run)
            if end is None or time not in (end - self._before, end):
                continue  # it has ended, or was renewed meanwhile
            if time < end:
                heappush(self._due, (end, run))
            found.append(run)
        return found


class PendingRuns:
    """The runs that wait for a process, in the order in which they are taken: by priority, then by age.

    Args:
        cap: How many runs of a tenant may be held at once; ``None``: any number.
    """

    def __init__(self, cap: Callable[[str], int | None] = lambda _: None) -> None:
        self._cap = cap
        self._infos: dict[str, RunInfo] = {}
        self._ready: list[tuple[int, float, str]] = []
        self._offered: set[str] = set()
        self._deferrals: list[tuple[float, str]] = []
        self._held: dict[str, str] = {}
        self._count: Counter[str] = Counter()
        self._parked: dict[str, list[str]] = {}
        self._deferred: dict[str, float] = {}

    def note(self, info: RunInfo, now: float) -> None:
        """Take newer information about a run."""
        run, before = info.run, self._infos.get(info.run)
        if before is not None and before.revision > info.revision:
            return
        is_open = info.status in OPEN
        is_held = is_open and bool(info.owner) and info.lease_until > now
        if self._deferred.get(run, 0.0) > now:
            self._infos[run] = info
            return
        was_deferred = self._deferred.pop(run, None) is not None
        self._hold(run, info.row.labels.get(TENANT, "") if is_held else None)
        if not (is_open or (info.status == "paused" and info.sent)):
            self._infos.pop(run, None)
            return
        self._infos[run] = info
        if not is_held:
            was_held = before is not None and bool(before.owner) and before.lease_until > 0
            if before is None or before.revision < info.revision or was_held or was_deferred:
                self._offer(info)

    def defer(self, run: str, until: float) -> None:
        """Offer a run again only after that time: another process holds it."""
        if run in self._infos:
            self._deferred[run] = until
            heappush(self._deferrals, (until, run))

    def drop(self, run: str) -> None:
        """Leave a run to other processes until it changes."""
        self._infos.pop(run, None)

    def held(self, tenant: str) -> int:
        """How many runs of a tenant are held by a process."""
        return self._count[tenant]

    def pop(self) -> RunInfo | None:
        """The next run that waits; ``None`` if there is none now."""
        while self._ready:
            _, _, run = heappop(self._ready)
            self._offered.discard(run)
            info = self._infos.get(run)
            if info is None or run in self._held:
                continue
            tenant = info.row.labels.get(TENANT, "")
            cap = self._cap(tenant)
            if cap is None or self._count[tenant] < cap:
                return info
            self._parked.setdefault(tenant, []).append(run)
        return None

    @property
    def next_deferral(self) -> float | None:
        """When the first deferral ends."""
        return self._deferrals[0][0] if self._deferrals else None

    def deferred(self, now: float) -> list[str]:
        """The runs whose deferral has ended by now: note them again."""
        found: list[str] = []
        while self._deferrals and self._deferrals[0][0] <= now:
            _, run = heappop(self._deferrals)
            if run in self._infos:
                found.append(run)
        return found

    def _offer(self, info: RunInfo) -> None:
        if info.run not in self._offered:
            self._offered.add(info.run)
            heappush(self._ready, (-info.row.priority, info.created, info.run))

    def _hold(self, run: str, tenant: str | None) -> None:
        """Count a run that is held, for its tenant; ``None``: it is not."""
        before = self._held.pop(run, None)
        if before is not None:
            self._count[before] -= 1
            for parked in self._parked.pop(before, ()):
                info = self._infos.get(parked)
                if info is not None:
                    self._offer(info)
        if tenant is not None:
            self._held[run] = tenant
            self._count[tenant] += 1
