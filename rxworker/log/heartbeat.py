"""Renewing claims from a thread of its own: on the event loop, a tool that blocks it would lose the lease of its own run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from rxworker.errors import RxWorkerError
from rxworker.log.values import Claim

logger = logging.getLogger("rxworker.log")


class Heartbeat:
    """Renews the claims of a process while it holds any.

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
            self._held[claim.run] = claim, lost
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._beat, name="rxworker heartbeat", daemon=True
                )
                self._thread.start()

    def remove(self, run: str) -> None:
        """Do not renew it any more."""
        with self._lock:
            self._held.pop(run, None)

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
                continue
            try:
                lost = self._renew(claims)
            except RxWorkerError as error:
                # The next beat tries again; if the lease ends before that, an append is refused.
                logger.warning("the claims of %d runs could not be renewed: %s", len(claims), error)
                continue
            for run in lost:
                with self._lock:
                    held = self._held.pop(run, None)
                if held is not None:
                    held[1]()
