"""The runs of a log that wait for a process: which one is next, and when the leases of the others end. Pure.

Theory of operation. It folds what `EventLog.changes` reports. A run waits if it is queued or running without a valid lease, or paused with commands that
may decide about it. Each run that is held has one entry in a heap of lease ends, so that a change costs no more with many runs; an entry
that comes up too early, since the lease was renewed meanwhile, is put back by the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush

from rxworker.log.values import TENANT, RunInfo

OPEN = ("queued", "running")


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
        self._ends: list[tuple[float, str]] = []
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
        elif before is None or not (before.owner and before.lease_until > now):
            heappush(self._ends, (info.lease_until, run))

    def defer(self, run: str, until: float) -> None:
        """Offer a run again only after that time: another process holds it."""
        if run in self._infos:
            self._deferred[run] = until
            heappush(self._ends, (until, run))

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

    def next_end(self) -> float | None:
        """When the first lease ends, as far as is known."""
        return self._ends[0][0] if self._ends else None

    def ended(self, now: float) -> list[str]:
        """The runs whose lease has ended by now, unless it was renewed: note them again."""
        found: list[str] = []
        while self._ends and self._ends[0][0] <= now:
            _, run = heappop(self._ends)
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
