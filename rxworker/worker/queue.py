"""A queue of runs in a log: `submit` stores a run that no process has begun, and `work` takes such runs in any process.

Theory of operation. A queued run is a stored run that was handed over before its first turn, so that taking it is recovering it: the same claims,
leases and epochs decide which process has it, and a process that dies loses nothing. `work` keeps a fold of the rows of the log, and takes the next run
when it has room. A cap of a tenant holds for all processes together: a process claims the run, waits until it knows every claim before its own, and
releases the run if the tenant has too many. Of two processes that claim at the same moment, at least the later one sees both.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from rxworker.errors import (
    ConfigurationError,
    LeaseHeldError,
    RunHandedOverError,
    RxWorkerError,
    describe,
)
from rxworker.events import HandOver, Record, RunStart
from rxworker.log import EventLog, RunInfo, RunRow, entries_of
from rxworker.log.recover import RunSource
from rxworker.log.values import TENANT
from rxworker.messages import Conversation
from rxworker.worker.arguments import Input, to_messages
from rxworker.worker.run import Run
from rxworker.worker.worker import Worker, logged_time, title_of

logger = logging.getLogger("rxworker.worker")

SUBMITTED = "submitted to the queue"
TAKEN = "taken from the queue"


async def submit(
    log: EventLog,
    input: Input,  # noqa: A002 - as in `Worker.run`
    *,
    kind: str = "",
    tenant: str = "",
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    conversation: Conversation | None = None,
) -> str:
    """Store a run for `work` to take, in this process or another.

    Args:
        log: Where to.
        input: As for `Worker.run`.
        kind: Which worker is to run it; the function that is given to `work` receives it as ``info.row.worker``.
        tenant: Whose run it is, for the caps of `work`; stored as the label ``tenant``.
        priority: Of two queued runs the one with the higher priority is taken first; of two with the same, the older one.
        labels: Stored with the run.
        conversation: What to continue.

    Returns:
        The id of the run. It is stored; a `Replica` watches and steers it.

    Raises:
        ConfigurationError: The input is invalid.
        LogError: The log cannot be written.

    Example:
        >>> from rxworker.log import MemoryLog
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         await submit(log, "Hi", kind="clerk", tenant="acme")
        ...         (info,) = await log.list(status="queued")
        ...         print(info.row.title, info.row.worker, info.row.labels)
        >>> asyncio.run(main())
        Hi clerk {'tenant': 'acme'}
    """
    added = to_messages(input)
    before = conversation or Conversation()
    run, now = f"run-{os.urandom(6).hex()}", logged_time()
    named = {**(labels or {}), **({TENANT: tenant} if tenant else {})}
    row = RunRow("queued", title_of(added), kind, labels=named, priority=priority)
    events = (RunStart(before.add(*added), len(added)), HandOver(SUBMITTED))
    records = [Record(n, run, 0, 0, now, event) for n, event in enumerate(events, start=1)]
    claim = await log.claim(run, create=True, row=row)
    try:
        await log.append(claim, entries_of(records, claim.epoch), after=0, row=row)
    finally:
        await log.release(claim)
    return run


async def work(
    log: EventLog,
    make_worker: Callable[[RunInfo], Worker | None],
    *,
    concurrency: int = 8,
    kinds: Collection[str] = (),
    tenant_cap: int | Mapping[str, int] | None = None,
    drain: float = 20.0,
    on_run: Callable[[Run[Any]], object] | None = None,
) -> None:
    """Take queued runs, runs of processes that have ended, and paused runs that were decided about, until cancelled.

    When it is cancelled, it takes no run any more and hands over those that it has. A run that ends three processes at one place is aborted.

    Args:
        log: Where the runs are. It is given to the workers, with the kind and the labels of the run.
        make_worker: Makes a worker for a run, for example by ``info.row.worker``; ``None`` leaves the run to other processes.
        concurrency: How many runs it has at once.
        kinds: Only runs of these kinds; by default of all.
        tenant_cap: How many runs of a tenant may run at once, in all processes that have the same cap: for each tenant, or by its name.
        drain: Seconds that running tools may take when it is cancelled.
        on_run: Called with each run that it takes.

    Raises:
        ConfigurationError: An argument is invalid.
        LogError: The log cannot be read, or was closed.

    Example:
        >>> from rxworker.log import MemoryLog, Replica
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         replica = Replica(log, await submit(log, "Hi"))
        ...         working = asyncio.create_task(work(log, lambda info: Worker(ScriptedModel(["Hello!"]))))
        ...         await replica.ended()
        ...         working.cancel()
        ...         print(replica.state.conversation.last.text)
        >>> asyncio.run(main())
        Hello!
    """
    if concurrency < 1:
        raise ConfigurationError(f"concurrency={concurrency}: give at least 1")
    running: dict[asyncio.Future[Any], Run[Any]] = {}
    async with RunSource(log, partial(_cap, tenant_cap)) as source:
        try:
            while True:
                while len(running) >= concurrency:
                    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for ended in done:
                        del running[ended]
                info = await source.take()
                if info is None or (kinds and info.row.worker not in kinds):
                    continue
                run = await begin(source, info, make_worker, tenant_cap)
                if run is not None:
                    running[asyncio.ensure_future(_end_of(run))] = run
                    if on_run is not None:
                        on_run(run)
        finally:
            handing = [
                run.hand_over(reason="its process stops", seconds=drain)
                for run in running.values()
                if not run.done()
            ]
            await asyncio.gather(*handing, *running, return_exceptions=True)


async def begin(
    source: RunSource,
    info: RunInfo,
    make_worker: Callable[[RunInfo], Worker | None],
    tenant_cap: int | Mapping[str, int] | None,
) -> Run[Any] | None:
    """Continue a run, unless another process is faster, the tenant has too many, or there is no worker for it."""
    log, pending = source.log, source.pending
    try:
        worker = make_worker(info)
    except Exception as error:
        logger.exception("the worker of %s cannot be made: %s", info.run, describe(error))
        worker = None
    if worker is None:
        pending.drop(info.run)
        return None
    worker.log = log
    worker.name = info.row.worker or worker.name
    worker.labels = dict(info.row.labels)
    tenant = info.row.labels.get(TENANT, "")
    cap = _cap(tenant_cap, tenant)
    claim = None
    if cap is not None and info.status != "paused":
        try:
            claim = await log.claim(info.run)
        except LeaseHeldError:
            await source.refresh(info.run)
            return None
        claimed = await log.info(info.run)
        if claimed is not None:
            await source.reaches(claimed.revision)
        if pending.held(tenant) > cap:
            await log.release(claim)
            # Two processes that have released at the same moment do not claim again at the same moment.
            pending.defer(info.run, time.time() + random.uniform(0.01, 0.1))
            return None
    reason = TAKEN if info.status == "queued" else ""
    return await source.recover(worker, info, reason=reason, claim=claim)


def _cap(tenant_cap: int | Mapping[str, int] | None, tenant: str) -> int | None:
    """How many runs of a tenant may run at once; runs without a tenant have no cap."""
    if not tenant or tenant_cap is None or isinstance(tenant_cap, int):
        return tenant_cap if tenant and isinstance(tenant_cap, int) else None
    return tenant_cap.get(tenant)


async def _end_of(run: Run[Any]) -> None:
    """Wait for the end of a run. Its errors are in its records."""
    with suppress(RxWorkerError, RunHandedOverError):
        await run
