"""Continuing the runs of processes that have ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar

from rxworker.errors import ConfigurationError, LeaseHeldError, RxWorkerError
from rxworker.log.base import EventLog
from rxworker.log.values import RunInfo

R_co = TypeVar("R_co", covariant=True)

logger = logging.getLogger("rxworker.log")


class Recovers(Protocol[R_co]):
    """A worker, as far as recovering needs it."""

    def recover(self, run: str, *, reason: str = "") -> Awaitable[R_co]:
        """Continue a stored run."""
        ...


async def recover_all(
    log: EventLog,
    make_worker: Callable[[RunInfo], Recovers[R_co] | None],
    *,
    once: bool = False,
) -> AsyncIterator[R_co]:
    """Recover the runs of processes that have ended, now and as others end. Several processes may do so at once: each run is recovered by one.

    Args:
        log: Where the runs are.
        make_worker: Makes a worker for a run, for example by ``info.row.worker``; ``None`` leaves the run to other processes.
        once: Whether to end after the runs that are cut off now.

    Yields:
        Each recovered run. It continues by itself.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     log = MemoryLog()
        ...     async for run in recover_all(log, lambda info: Worker(ScriptedModel([]), log=log), once=True):
        ...         print(run.id)
        >>> asyncio.run(main())
    """
    refused: set[str] = set()
    while True:
        for info in await _cut_off(log):
            # The outer run recovers the runs inside it.
            if info.row.outer or info.run in refused:
                continue
            worker = make_worker(info)
            if worker is None:
                continue
            try:
                yield await worker.recover(info.run)
            except LeaseHeldError:
                continue  # another process was faster
            except ConfigurationError as error:
                refused.add(info.run)
                logger.warning("%s is not recovered: %s", info.run, error)
            except RxWorkerError as error:
                logger.warning("%s is not recovered: %s", info.run, error)
        if once:
            return
        await asyncio.sleep(log.lease / 3)


async def _cut_off(log: EventLog) -> list[RunInfo]:
    found: list[RunInfo] = []
    before = ""
    while infos := await log.list(status="running", before=before):
        found += [info for info in infos if info.is_cut_off()]
        before = infos[-1].run
    return list(reversed(found))
