"""Continuing the runs of processes that have ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Literal, Protocol, TypeVar

from msgspec.structs import replace

from rxworker.errors import ConfigurationError, LeaseHeldError, LogError, RxWorkerError
from rxworker.log.base import EventLog, no_run
from rxworker.log.values import Command, RunInfo

R_co = TypeVar("R_co", covariant=True)

logger = logging.getLogger("rxworker.log")

DECIDE: Literal["decide"] = "decide"
"""The kind and the key of the command that decides about a paused run."""

DISMISS = "dismiss"
"""The field of its data with the reason, if it is not to be resumed."""


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
) -> AsyncGenerator[R_co, None]:
    """Recover the runs of processes that have ended, now and as others end, and resume paused runs whose decisions are stored.

    Several processes may do so at once: each run is recovered by one.

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
    decided: set[str] = set()
    while True:
        for info in [*await _cut_off(log), *await _decided(log, decided)]:
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


async def dismiss_run(log: EventLog, run: str, reason: str) -> None:
    """End a paused run, so that it can no longer be resumed.

    Args:
        log: Where the run is.
        run: The run's id.
        reason: For people; it becomes the reason in the list.

    Raises:
        CommandConflictError: It was decided about before.
        LogError: There is no such run, or it is not paused.
    """
    info = await log.info(run)
    if info is None:
        raise no_run(run)
    if info.status != "paused":
        raise LogError(f"{run} is {info.status}: only a paused run can be dismissed; cancel it")
    await log.send(run, Command(DECIDE, {DISMISS: reason}, key=DECIDE))
    claim = await log.claim(run)
    try:
        row = replace(info.row, status="aborted", reason=reason, cause="cancel")
        await log.append(claim, [], after=claim.last_seq, row=row)
    finally:
        await log.release(claim)


async def _decided(log: EventLog, known: set[str]) -> list[RunInfo]:
    """Paused runs that were decided about and not resumed. Those that were resumed are added to ``known``."""
    found: list[RunInfo] = []
    before = ""
    while infos := await log.list(status="paused", before=before):
        before = infos[-1].run
        for info in infos:
            if not info.sent or info.run in known:
                continue
            commands = await log.sent(info.run)
            if not any(each.kind == DECIDE and DISMISS not in each.data for each in commands):
                continue
            resumed = await log.info(resumed_id(info.run))
            if resumed is not None and resumed.last_seq:
                known.add(info.run)
            elif resumed is None or not resumed.owner or resumed.lease_until < time.time():
                found.append(info)
    return list(reversed(found))


def resumed_id(run: str) -> str:
    """The id of the run that resumes a paused one: ``run-1`` becomes ``run-1~2``, and that ``run-1~3``.

    >>> resumed_id("run-1"), resumed_id("run-1~2")
    ('run-1~2', 'run-1~3')
    """
    name, mark, number = run.rpartition("~")
    return f"{name}~{int(number) + 1}" if mark and number.isdecimal() else f"{run}~2"


async def _cut_off(log: EventLog) -> list[RunInfo]:
    found: list[RunInfo] = []
    before = ""
    while infos := await log.list(status="running", before=before):
        found += [info for info in infos if info.is_cut_off()]
        before = infos[-1].run
    return list(reversed(found))
