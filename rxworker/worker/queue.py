"""A queue of runs in a log: `submit` stores a run that no process has begun, and `work` takes such runs in any process.

Theory of operation. A queued run is a stored run that was handed over before its first turn, so that taking it is
recovering it: the same claims, leases and epochs decide which process has it, and a process that dies loses nothing.
`work` keeps a fold of the rows of the log, and takes the next run when it has room. A cap of a tenant holds for all
processes together: a process claims the run, waits until it knows every claim before its own, and releases the run if
the tenant has too many. Of two processes that claim at the same moment, at least the later one sees both.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace
from reactivex import Observable

from rxworker.decisions import Decided, Decisions
from rxworker.errors import (
    ConfigurationError,
    LeaseHeldError,
    LocalProtocolError,
    LogError,
    RunCancelledError,
    RunHandedOverError,
    RunStatusError,
    describe,
)
from rxworker.events import Event, RunStart
from rxworker.log import EventLog, RunInfo
from rxworker.log.format import record_of
from rxworker.log.recover import SETTLE, RunSource, WorkerMaker, decide_running, end_run, give_back, routed
from rxworker.log.values import OPEN, TAPPED, TENANT, Claim, RunRow, is_storable, resumed_id
from rxworker.messages import Conversation, Json, Message
from rxworker.messages.lenient_json import encode_lenient
from rxworker.messages.message import Input, to_messages
from rxworker.messages.settings import check_type, checks_arguments, moment_of, utc
from rxworker.run.run import Beginning, Run, Tracing, end_of
from rxworker.turn.result import Output, output_of
from rxworker.worker.callbacks import Callback
from rxworker.worker.continuing import load_paused, store_decision
from rxworker.worker.session import Elsewhere, Session, Worker

logger = logging.getLogger("rxworker.worker")

SUBMITTED = "submitted to the queue"
TAKEN = "taken from the queue"
MAX_ID = 200
"""The maximum number of bytes of an id that a caller chooses."""


async def submit(
    log: EventLog,
    input: Input,  # noqa: A002 - as in `Worker.run`
    *,
    kind: str = "",
    tenant: str = "",
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    conversation: Conversation | None = None,
    tracing: Tracing | None = None,
    run_id: str | None = None,
    output: type[object] | None = None,
    map_input: Callable[[Message], Message] | None = None,
    at: datetime | float | None = None,
) -> str:
    """Store a run for `work` to take, in this process or another.

    With ``run`` it may be called again, for example after a lost connection or by a service that delivers a request
    twice: the same id is the same run, and is stored once.

    Args:
        log: The log to write to.
        input: As for `Worker.run`.
        kind: Which worker is to run it; the function that is given to `work` receives it as ``info.row.worker``.
        tenant: The tenant of the run, for the caps of `work`; stored as the label ``tenant``.
        priority: Of two queued runs the one with the higher priority is taken first; of two with the same, the older
            one.
        labels: Stored with the run.
        conversation: The conversation to continue.
        tracing: Gives the trace context of the caller, which is stored with the run: the process that takes it
            continues the trace.
        run_id: The id of the run, for example ``order-4711``; by default one is made. If the log has such a run, with
            the same conversation, type, kind and tenant, nothing is stored, whatever has become of it.
        output: The type of the answer. Its schema is stored with the run.
        map_input: As for `Worker`: what it leaves is stored. The worker that takes the run does not change its input.
        at: The moment before which no process takes the run: a time with a zone, or seconds since the epoch. Until then
            it is listed with it, and can be cancelled. The clock of the process that takes it decides.

    Returns:
        The id of the run. It is stored; a `Replica` watches and steers it.

    Raises:
        ConfigurationError: The input, the id or the moment is invalid.
        LogError: The log cannot be written, or it has another run under this id, or has had one that was deleted.

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
    worker = QueuedWorker(
        kind,
        log=log,
        tenant=tenant,
        priority=priority,
        labels=labels,
        conversation=conversation,
        tracing=tracing,
        map_input=map_input,
    )
    session = QueuedSession(worker)
    session.due = 0.0 if at is None else moment_of("at", at)
    return await session.submit(input, "" if run_id is None else _expect_id(run_id), output)


class QueuedSession(Session):
    """A session whose runs are queued: it stores their beginning. Made by a `QueuedWorker`.

    Attributes:
        due: The moment before which no process takes the runs; see `RunRow`.
    """

    due = 0.0

    async def submit(
        self,
        input: Input,  # noqa: A002 - as in `Worker.run`
        run_id: str,
        output: type[object] | None = None,
    ) -> str:
        """Store a run, once for each id.

        Args:
            input: As for `Worker.run`.
            run_id: The id of the run; empty to make one.
            output: The type of the answer.
        """
        form = output_of(output)
        log, added = self._expect_log("submit"), to_messages(input)
        given, pauses = self.conversation, 0
        while True:
            known = await log.info(run_id) if run_id else None
            if known is not None and (known.last_seq or known.status == "deleted"):
                await self._check_same(log, known, given, added, form)
                return run_id
            if known is not None and known.owner and known.lease_until > time.time():
                pass  # another process is about to store it
            else:
                self.conversation = given  # not that of an attempt that has failed
                try:
                    begun = self._start(added, form, run_id=run_id)
                    with suppress(RunHandedOverError):
                        await begun
                    return begun.id
                except LeaseHeldError:
                    pass  # another process has claimed it, which its row may not show yet
                except LogError:
                    known = await log.info(run_id) if run_id else None
                    is_faster = known is not None and (known.last_seq or known.owner)
                    if not is_faster:
                        raise
            pauses += 1
            await asyncio.sleep(min(0.005 * pauses, 0.25))

    async def _check_same(
        self,
        log: EventLog,
        known: RunInfo,
        given: Conversation,
        added: tuple[Message, ...],
        output: Output[object] | None,
    ) -> None:
        """Check that a stored run is the one that this worker would store.

        Raises:
            LogError: It is another one, or was deleted.
        """
        run = known.run_id
        if known.status == "deleted":
            raise LogError(f"{run} was deleted from the log: no id is used twice, give another one")
        self.conversation = given
        async with aclosing(log.read(run)) as entries:
            start = record_of(await anext(entries), run).event
        stored = start.conversation if isinstance(start, RunStart) else None
        form = start.output_format if isinstance(start, RunStart) else None
        others = [
            what
            for what, is_other in (
                ("input", _json_of(stored) != _json_of(self.worker.continued(given, added))),
                ("type", form != (None if output is None else output.format)),
                ("kind", known.row.worker != self.name),
                ("tenant", known.row.labels.get(TENANT) != self.worker.labels.get(TENANT)),
            )
            if is_other
        ]
        if others:
            raise LogError(
                f"the log has a run {run} already, with another {' and another '.join(others)}: give another id, or "
                "submit the same run"
            )

    def _row(self, title: str, *, resumes: str = "") -> RunRow:
        row = super()._row(title, resumes=resumes)
        reason = f"it is due at {utc(self.due)}" if self.due else ""
        return replace(row, status="queued", priority=self.worker.priority, due=self.due, reason=reason)

    def _begin(
        self,
        begin: Beginning | Callable[[], Awaitable[Beginning]],
        run_id: str = "",
        source: Observable[Event] | None = None,
    ) -> Run[Any]:
        self._expect_log("run")
        begun = super()._begin(begin, run_id, source)
        begun.hand_over(reason=SUBMITTED, seconds=0.0)
        return begun


@checks_arguments
class QueuedWorker(Worker):
    """A worker whose runs are queued: it stores their beginning, and `work` runs them with a worker of the same kind.

    A web server with such workers starts, resumes and forks runs that other processes execute.

    Args:
        kind: Which worker is to run them.
        log: The log to write to.
        tenant: The tenant of the runs.
        priority: Of two queued runs the one with the higher priority is taken first.
        labels: Stored with the runs.
        conversation: The conversation to continue.
        tracing: As for `submit`.
        map_input: As for `submit`.

    Example:
        >>> from rxworker.log import MemoryLog
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         run = QueuedWorker("clerk", log=log).run("Hi")
        ...         await asyncio.wait([run.hand_over()])
        ...         print((await log.info(run.id)).status)
        >>> asyncio.run(main())
        queued
    """

    _session_type = QueuedSession
    performs = False  # the process that takes a run does

    def __init__(
        self,
        kind: str,
        *,
        log: EventLog | None = None,
        tenant: str = "",
        priority: int = 0,
        labels: Mapping[str, str] | None = None,
        conversation: Conversation | None = None,
        tracing: Tracing | None = None,
        map_input: Callable[[Message], Message] | None = None,
    ) -> None:
        named = {**(labels or {}), **({TENANT: tenant} if tenant else {})}
        super().__init__(
            Elsewhere("queue", f"runs of {kind!r} are queued: `work` runs them", kind),
            log=log,
            name=kind,
            labels=named,
            conversation=conversation,
            tracing=tracing,
            map_input=map_input,
        )
        self.priority = priority

    async def decide_later(
        self,
        run_id: str,
        decisions: Decisions | None = None,
        *,
        add: Sequence[Message] = (),
        shared_state: Json = None,
        log: EventLog | None = None,
    ) -> str:
        """Store the decisions about a paused run; `work` resumes it.

        Args:
            run_id: The id of the paused run.
            decisions: As for `Worker.resume`.
            add: As for `Worker.resume`.
            shared_state: As for `Worker.resume`.
            log: The log of the run; by default that of the worker.

        Returns:
            The id of the run that resumes it; of one that is running while calls in its background wait, its own.

        Raises:
            CommandConflictError: It was decided about before.
            LocalProtocolError: The run is not paused, or as for `Worker.resume`.
            ConfigurationError: There is no log, or as for `Worker.resume`.
            LogError: The log has no such run, or cannot be read or written.
        """
        session = self.new_session(log=log)
        log = session._expect_log("decide_later")
        given = Decided(decisions, self.added(add), shared_state)
        info = await log.listed(run_id)
        if info is not None and info.row.outer:
            run_id, given = await routed(log, info, given)
        if running := await decide_running(log, run_id, given):
            return running
        paused, _ = await load_paused(session, run_id, given)
        await store_decision(log, paused, given)
        return resumed_id(run_id)


def _json_of(conversation: Conversation | None) -> bytes:
    return b"" if conversation is None else encode_lenient(conversation)


def _expect_id(run_id: str) -> str:
    """Check the id of a run that a caller has chosen.

    Raises:
        ConfigurationError: It is invalid.
    """
    is_text = isinstance(run_id, str)  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
    is_id = is_text and is_storable(run_id) and run_id.isprintable() and run_id.strip() == run_id
    if not is_id or len(run_id.encode()) > MAX_ID or re.search(r"~\d+$", run_id):
        raise ConfigurationError(
            f"run_id={run_id!r}: the id of a run is a text of up to {MAX_ID} bytes, such as run_id='order-4711', "
            "without line breaks, and without ~ and a number at its end, which mark a run that resumes another"
        )
    return run_id


async def end_cancelled(log: EventLog, run_id: str, reason: str = "") -> None:
    """End a queued run that was cancelled, or a paused one that was decided about, unless another process has taken it.

    A run of another program that is cut off is ended with this reason: no worker recovers it, which would take the
    command.

    Raises:
        LogError: The log cannot be read or written.
    """
    try:
        with suppress(LeaseHeldError, LocalProtocolError, RunCancelledError):
            if (await log.existing(run_id)).row.worker.startswith(TAPPED):
                await end_run(log, run_id, str(RunCancelledError(reason)))
                return
            await Worker(Elsewhere("queue", "a cancelled run makes no request"), log=log).recover(run_id)
    except LogError:
        if await log.listed(resumed_id(run_id)) is None:  # else another process was faster
            raise


async def work(
    log: EventLog,
    make_worker: WorkerMaker[Worker],
    *,
    concurrency: int = 8,
    kinds: Collection[str] = (),
    tenant_cap: int | Mapping[str, int] | None = None,
    drain: float = 20.0,
    on_run: Callable[[Run[Any]], object] | None = None,
) -> None:
    """Take queued runs, runs of processes that have ended, and paused runs that were decided about, until cancelled.

    When it is cancelled, it takes no run any more and hands over those that it has. A run that ends three processes at
    one place is aborted. A run whose worker cannot be made, or that cannot be continued now, is logged and tried again,
    after one second at first and then less and less often; so is a log that cannot be read, for up to a minute.

    Args:
        log: The log of the runs. It is given to the workers, with the kind and the labels of the run.
        make_worker: Makes a worker for a run, for example by ``info.row.worker``; ``None`` leaves the run to other
            processes. It may be a coroutine function.
        concurrency: How many runs it has at once.
        kinds: Only runs of these kinds; by default of all.
        tenant_cap: How many runs of a tenant may run at once, in all processes that have the same cap: for each tenant,
            or by its name.
        drain: Seconds that running tools may take when it is cancelled.
        on_run: Called with each run that it takes: a plain or a coroutine function, which is cancelled with this. What
            it raises is logged.

    Raises:
        ConfigurationError: An argument is invalid.
        LogError: The log could not be read for a minute, or was closed.

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
    called = None if on_run is None else Callback(on_run, _log_failure)
    running: dict[asyncio.Task[None], Run[object]] = {}

    def note(run: Run[object] | None) -> None:
        if run is not None:
            ended = asyncio.ensure_future(end_of(run))
            running[ended] = run
            if tenant_cap is not None:
                ended.add_done_callback(lambda _: source.look())

    async with RunSource(log, partial(_cap, tenant_cap), kinds) as source:
        try:
            while True:
                while len(running) >= concurrency:
                    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for ended in done:
                        del running[ended]
                info = await source.take()
                if info is None:
                    continue
                beginning = asyncio.ensure_future(begin(source, info, make_worker, tenant_cap, called))
                try:
                    note(await asyncio.shield(beginning))
                except asyncio.CancelledError:
                    # What it has claimed is handed over below, and not left to the lease.
                    note(await _settled(beginning))
                    raise
        finally:
            handing = [
                run.hand_over(reason="its process stops", seconds=drain) for run in running.values() if not run.done()
            ]
            await asyncio.gather(*handing, *running, return_exceptions=True)
            if called is not None:
                await called.close()


async def recover_all(
    log: EventLog, make_worker: WorkerMaker[Worker], *, once: bool = False
) -> AsyncGenerator[Run[object], None]:
    """Recover the runs of processes that have ended, now and later, and resume paused runs whose decisions are stored.

    Several processes may do so at once: each run is recovered by one.

    Args:
        log: The log of the runs.
        make_worker: Makes a worker for a run, for example by ``info.row.worker``; ``None`` leaves the run to other
            processes. It may be a coroutine function.
        once: Whether to end after the runs that are cut off now. The runs of a process that was killed are cut off when
            its lease has ended, which is up to `EventLog.lease` seconds later: if there are only such runs, a warning
            names them.

    A run whose worker cannot be made, or that cannot be recovered, is logged and tried again later; it does not hold up
    the others.

    Yields:
        Each recovered run. It continues by itself.

    Example:
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     log = MemoryLog()
        ...     async for run in recover_all(log, lambda info: Worker(ScriptedModel([]), log=log), once=True):
        ...         print(run.id)
        >>> asyncio.run(main())
    """
    count = 0
    async with RunSource(log) as source:
        while True:
            info = await source.take(wait=not once)
            if info is None:
                if not count:
                    _report_held(source.pending.held_infos, log.owner)
                return
            worker = await source.make(make_worker, info)
            if worker is None:
                continue
            run = await source.recover(info, partial(recover_in, worker, log, info))
            if run is not None:
                count += 1
                yield run


def _report_held(infos: Sequence[RunInfo], owner: str) -> None:
    """Log which runs other processes hold, whether they live or not."""
    others = [info for info in infos if info.owner != owner]
    if others:
        last = max(info.lease_until for info in others)
        logger.warning(
            "nothing to recover yet: %s held by %s. If that process has ended, its lease lasts up to %.1f s more: "
            "recover the runs then, or leave out once=True, which waits for it",
            f"{others[0].run_id} is" if len(others) == 1 else f"{others[0].run_id} and {len(others) - 1} more are",
            others[0].owner,
            max(last - time.time(), 0.0),
        )


async def recover_in(
    worker: Worker, log: EventLog, info: RunInfo, reason: str = "", claim: Claim | None = None
) -> Run[object]:
    """Continue a run in a session of its own.

    Raises:
        ConfigurationError: It is not a worker.
    """
    check_type("the result of make_worker", worker, Worker, "make_worker=lambda info: Worker(...)")
    return await worker.new_session(log=log).recover(info.run_id, reason=reason, claim=claim).started()


async def begin(
    source: RunSource,
    info: RunInfo,
    make_worker: WorkerMaker[Worker],
    tenant_cap: int | Mapping[str, int] | None,
    on_run: Callback[Run[object]] | None,
) -> Run[object] | None:
    """Continue a run, unless another process is faster, the tenant has too many, or there is no worker for it."""
    tenant = info.row.labels.get(TENANT, "")
    cap = _cap(tenant_cap, tenant)
    claim, worker = None, await source.make(make_worker, info)
    if worker is None:
        return None
    if cap is None and info.status in OPEN:
        found = await source.claim(info)
        if found is None:
            return None
        if found[0] is not info:  # other processes were faster
            try:
                worker = await source.make(make_worker, found[0])
            except BaseException:  # it was cancelled
                await give_back(source.log, found[1])
                raise
        info, claim = found
        if worker is None:
            await give_back(source.log, claim)
            return None
    elif cap is not None:
        claim = await _claim_within(source, info, tenant, cap)
        if claim is None:
            return None
    reason = TAKEN if info.status == "queued" else ""
    recover = partial(recover_in, worker, source.log, info, reason, claim)
    run = await source.recover(info, recover, claim)
    if run is not None and on_run is not None:
        on_run(run)
    return run


def _log_failure(run: Run[object], error: BaseException) -> None:
    """Log what ``on_run`` raised, which must not end the other runs."""
    logger.error("on_run failed for %s: %s", run.id, describe(error), exc_info=error, extra={"run": run.id})


async def _claim_within(source: RunSource, info: RunInfo, tenant: str, cap: int) -> Claim | None:
    """Claim a run, or the one that resumes it, unless its tenant has too many, or it cannot be claimed."""
    log, pending = source.log, source.pending
    claim = None
    try:
        if info.status == "paused":
            claim = await log.claim(resumed_id(info.run_id), create=True, row=RunRow(labels=info.row.labels))
        else:
            claim = await log.claim(info.run_id)
        claimed = await log.info(claim.run_id)
        if claimed is not None:
            await source.catch_up(claimed.revision)
    except LeaseHeldError as error:
        if error.owner == log.owner or info.status == "paused":
            # Its lease is renewed or ends soon.
            pending.defer(info.run_id, time.time() + log.lease / 3)
        else:
            await source.refresh(info.run_id)
        return None
    except RunStatusError:  # another process was faster
        await source.refresh(info.run_id)
        return None
    except BaseException as error:
        await source.give_up(info, claim, error)
        return None
    if pending.held(tenant) <= cap:
        return claim
    await give_back(source.log, claim)
    # Two processes that have released at the same moment do not claim again at the same moment.
    pending.defer(info.run_id, time.time() + random.uniform(0.01, 0.1))
    return None


async def _settled(beginning: asyncio.Future[Run[object] | None]) -> Run[object] | None:
    """The run that was about to begin when its process was stopped, if it does so soon."""
    for _ in range(2):
        done, _ = await asyncio.wait({beginning}, timeout=SETTLE)
        if done:
            break
        beginning.cancel()
    is_begun = beginning.done() and not beginning.cancelled() and beginning.exception() is None
    return beginning.result() if is_begun else None


def _cap(tenant_cap: int | Mapping[str, int] | None, tenant: str) -> int | None:
    """How many runs of a tenant may run at once; runs without a tenant have no cap."""
    if not tenant or tenant_cap is None or isinstance(tenant_cap, int):
        return tenant_cap if tenant and isinstance(tenant_cap, int) else None
    return tenant_cap.get(tenant)
