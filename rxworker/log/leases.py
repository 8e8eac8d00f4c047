"""Leases of claims: those of this process are renewed from a thread, those of other processes watched for their end.

Theory of operation. A claim names its epoch, and every append names it too, so a lease is not what protects a run: it
shows other processes whether the owner is still running. A `Heartbeat` renews the claims that are held, three times
within a lease. A renewal that fails is tried again at the next beat. If the lease ends before that, another process may
claim the run, which raises the epoch: the next renewal reports the run as lost, and the next append is refused. What
surprises: ``lost`` is called in the thread of the heartbeat, and a claim that was removed while its renewal was under
way is not reported.

`Leases` is the other side. A renewal changes no row that is followed, so an end that was read may be out of date: a run
is looked at again shortly before the end that is known, and at that end if it was not renewed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush

from rxworker.errors import reason_of
from rxworker.log.values import Claim, RunInfo

logger = logging.getLogger("rxworker.log")

LEASE = 15.0
"""Seconds that a claim lasts without a heartbeat."""


class Offset:
    """How far one clock is ahead of another, in seconds.

    It changes only where a clock was set. Otherwise the times that are shown would differ a little at each look.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def measured(self, seconds: float, tolerance: float = 0.5) -> float:
        """The offset after a measurement, which changes it where it differs by more than the tolerance.

        >>> offset = Offset()
        >>> offset.measured(0.1), offset.measured(3600.0), offset.measured(3600.1)
        (0.0, 3600.0, 3600.0)
        """
        if abs(seconds - self.seconds) > tolerance:
            self.seconds = seconds
        return self.seconds


class Heartbeat:
    """Renews the claims of a process while it holds any.

    It has a thread of its own: on the event loop, a tool that blocks the loop would lose the lease of its own run.

    Args:
        renew: Renews claims, and returns the ids of the runs that were lost. Called in the thread.
        interval: Seconds between two renewals.
    """

    def __init__(self, renew: Callable[[Sequence[Claim]], Sequence[str]], interval: float) -> None:
        self._interval = interval
        self._renew = renew
        self._lock = threading.Lock()
        self._held: dict[str, tuple[Claim, Callable[[], None]]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, claim: Claim, lost: Callable[[], None]) -> None:
        """Renew a claim until it is removed.

        Args:
            claim: The claim.
            lost: Called once, in the thread, if another owner has claimed the run.
        """
        with self._lock:
            self._held[claim.run_id] = claim, lost
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="rxworker heartbeat", daemon=True)
                self._thread.start()

    def renews(self, run_id: str) -> bool:
        """Whether the claim of a run is renewed."""
        with self._lock:
            return run_id in self._held

    def remove(self, run_id: str) -> None:
        """Do not renew it any more."""
        with self._lock:
            self._held.pop(run_id, None)

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(self._interval):
            with self._lock:
                claims = [claim for claim, _ in self._held.values()]
                if not claims:
                    # The thread would keep a log that is never closed, and all that it holds; the next claim starts
                    # another.
                    self._thread = None
                    return
            try:
                lost = self._renew(claims)
            except BaseException as error:  # a thread that ends would lose all claims of the process
                # The next beat tries again; if the lease ends before that, an append is refused.
                logger.warning(
                    "the claims of %d runs could not be renewed: %s",
                    len(claims),
                    reason_of(error),
                    extra={"runs": [claim.run_id for claim in claims]},
                )
                continue
            for run in lost:
                with self._lock:
                    held = self._held.pop(run, None)
                if held is not None:
                    held[1]()


class Leases:
    """When to look again at runs whose leases are renewed without a change of the run.

    So a lease is never taken to have ended that was renewed.

    Args:
        before: How many seconds before the end of a lease its renewal is expected.
    """

    def __init__(self, before: float) -> None:
        self._before = before
        self._ends: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []

    def note(self, infos: Iterable[RunInfo], now: float, ahead: float = 0.0) -> None:
        """Take newer information about runs.

        Args:
            infos: The runs.
            now: The time.
            ahead: By how much that is ahead of the clock of the machine, if it is another clock.
        """
        for info in infos:
            end = info.lease_until + ahead
            if not info.owner or end <= now:
                self._ends.pop(info.run_id, None)
            elif abs(self._ends.get(info.run_id, 0.0) - end) > 0.001:
                self._ends[info.run_id] = end
                heappush(self._due, (end - self._before, info.run_id))

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
