"""The runs of all processes of a log together, for the page and for metrics.

Theory of operation. One task folds the log for all clients. It begins with the first request, since reading all rows of
a large log takes seconds. A client receives an answer, and another one after a change, at most one a second. Rows are
searched in slices, between which other tasks run, and a search takes at most a twentieth of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from rxworker.desk.run import lost_by
from rxworker.errors import LogError
from rxworker.log import EventLog, Fleet, RunInfo
from rxworker.log.fleet import Group, RowCosts, can_requeue, is_over
from rxworker.log.values import END_WORDS, TENANT, StoredStatus
from rxworker.messages import Prices
from rxworker.protocols import retry_frame
from rxworker.protocols.native import encode_json
from rxworker.redact import json_redactor
from rxworker.ui.web.http.responses import ApiError
from rxworker.ui.web.streams.streams import RETRY

ROWS, MAX_ROWS = 50, 200
MAX_SHOWN = 100
"""The maximum number of groups and of owners that are shown."""
SLICE = 1000
"""How many rows are searched before other tasks run."""
PAUSE = 1.0
"""Seconds between two answers to a client."""
REST = 60.0
"""Seconds after which a client receives an answer without a change: the lease of a process may have ended."""
PATIENCE = 5.0
"""Seconds that the log may take for a page, before a request is answered with an error."""
SHARE = 20
"""A search is repeated after so many times its own duration."""


FIGURES = ("turns", "tool_calls", "input_tokens", "output_tokens")
IN_TOTALS = ("ended", "failed", "recovered", "cost", "tool_errors", *FIGURES)
"""What is shown of totals."""
IN_ROW = ("title", "worker", "status", "reason", *FIGURES)
"""What the row of a run in the list has of the run."""


class QueueInfo(Struct, frozen=True):
    """The runs of a worker that wait for a process: how many, and since when the oldest does."""

    worker: str
    depth: int
    since: float


class OwnerInfo(Struct, frozen=True):
    """A process and the number of runs that it holds."""

    owner: str
    runs: int


class RunFilter(Struct, frozen=True):
    """Which runs a client lists. A text is found in the id, the title and the reason.

    Attributes:
        status: Only runs of this status; one that was resumed is not ``paused`` any more. ``failed``, ``cancelled`` and
            ``stopped`` are aborted ones, by their cause.
        since: Only runs that ran then or later, in seconds since the epoch.
        until: Only runs that began before.
        worker: Only runs of this worker.
        tenant: Only runs of this tenant.
        owner: Only runs that this process holds.
        label: Only runs with this label, such as ``customer=c-17``.
        text: Only runs with this text, in upper or lower case.
        limit: At most so many.
    """

    beside: ClassVar[frozenset[str]] = frozenset({"token"})

    status: StoredStatus | Literal["failed", "cancelled", "stopped"] | None = None
    since: float | None = None
    until: float | None = None
    worker: str | None = None
    tenant: str | None = None
    owner: str | None = None
    label: str | None = None
    text: str = field(default="", name="q")
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS)] = ROWS

    def matches(self, info: RunInfo) -> bool:
        """Whether a run is listed."""
        row = info.row
        return (
            self.status in (None, row.status, row.status == "aborted" and END_WORDS.get(row.cause))
            and (self.since is None or not is_over(info) or info.ended >= self.since)
            and (self.until is None or info.began < self.until)
            and self.worker in (None, row.worker)
            and self.tenant in (None, row.labels.get(TENANT, ""))
            and self.owner in (None, info.owner)
            and self.label in (None, *map("=".join, row.labels.items()))
            and self.text.casefold() in f"{info.run_id}\n{row.title}\n{row.reason}".casefold()
        )


class FleetFeed:
    """Folds a log for all clients of a server.

    Args:
        log: The log.
        prices: The prices by which the costs of runs are estimated whose workers know no prices.

    Attributes:
        fleet: The fold.
    """

    def __init__(self, log: EventLog, prices: Mapping[str, Prices] | None = None) -> None:
        self.fleet = Fleet(prices=prices)
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._loaded = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_closed = False
        self._redact = json_redactor()

    async def ready(self) -> Fleet:
        """The fold with all that is stored.

        Raises:
            ApiError: The server is being stopped.
            LogError: The log cannot be read.
        """
        if self._is_closed:
            raise ApiError(503, "closing", "the server is being stopped")
        if self._task is None or self._task.done():
            self._loaded.clear()
            self._task = asyncio.get_running_loop().create_task(self._follow(), name="fleet")
        while not self._loaded.is_set():
            try:  # a large log is read in pages, of which each is a change
                async with asyncio.timeout(PATIENCE):
                    await self._changed.wait()
            except TimeoutError:
                raise LogError(f"the log has not answered for {PATIENCE:g} s") from None
        if self._task.done():
            self._task.result()
        return self.fleet

    async def events(self, query: RunFilter) -> AsyncGenerator[bytes, None]:
        """The matching runs as server-sent events, now and after each change, until the server is stopped."""
        yield retry_frame(RETRY)
        while not self._is_closed:
            began = time.perf_counter()
            fleet, changed = await self.ready(), self._changed
            data = await self.answer(fleet, query)
            spent = time.perf_counter() - began
            yield b"data: %b\n\n" % data
            await asyncio.sleep(max(PAUSE, SHARE * spent))
            with suppress(TimeoutError):
                async with asyncio.timeout(REST):
                    await changed.wait()

    async def answer(self, fleet: Fleet, query: RunFilter) -> bytes:
        """The runs that match now as JSON."""
        rows: list[Mapping[str, object]] = []
        is_more = False
        for seen, info in enumerate(fleet.newest(), 1):
            if not seen % SLICE:
                await asyncio.sleep(0)
            is_resumed = fleet.is_resumed(info.run_id)
            if query.matches(info) and not (is_resumed and query.status == "paused"):
                if len(rows) == query.limit:
                    is_more = True
                    break
                rows.append(_row(info, fleet.costs, is_resumed=is_resumed))
        return self._redact(encode_json(_answer(fleet, time.time(), rows, is_more)))

    async def close(self) -> None:
        """Stop following the log, and end what follows this."""
        self._is_closed = True
        self._changed.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        try:
            async with aclosing(self._log.changes(limit=None)) as changes:
                async for infos in changes:
                    for info in infos:
                        self.fleet.note(info)
                    if not infos:
                        self._loaded.set()
                    await asyncio.sleep(0)  # a log in memory never waits
                    changed, self._changed = self._changed, asyncio.Event()
                    changed.set()
        finally:
            self._loaded.set()
            self._changed.set()


def queues_of(infos: Iterable[RunInfo], now: float) -> list[QueueInfo]:
    """The runs that are queued, by worker, without those that are due later."""
    since: dict[str, list[float]] = {}
    for info in infos:
        if info.status == "queued" and info.row.due <= now:
            since.setdefault(info.row.worker, []).append(max(info.created, info.row.due))
    return [QueueInfo(worker, len(times), min(times)) for worker, times in sorted(since.items())]


def recovering_of(infos: Iterable[RunInfo], now: float) -> int:
    """How many runs are running without a process."""
    return sum(info.status == "running" and info.is_cut_off(now) for info in infos)


def owners_of(infos: Iterable[RunInfo], now: float) -> list[OwnerInfo]:
    """The processes that hold runs, those with the most first."""
    held = Counter(info.owner for info in infos if info.owner and info.lease_until > now)
    return [OwnerInfo(owner, runs) for owner, runs in sorted(held.items(), key=lambda each: (-each[1], each[0]))]


def _answer(fleet: Fleet, now: float, rows: list[Mapping[str, object]], is_more: bool) -> dict[str, object]:
    """All runs together, and those that match, for a client."""
    runs = Counter[StoredStatus]()
    for group in fleet.groups.values():
        runs.update(group.runs)
    groups = sorted(fleet.groups.values(), key=lambda each: -each.runs.total())
    groups.sort(key=lambda each: each.runs["finished"] + each.runs["aborted"] - each.runs.total())
    open_runs = fleet.open
    owners = owners_of(open_runs, now)
    return {
        "time": now,
        "runs": runs,
        "recovering": recovering_of(open_runs, now),
        "queues": queues_of(open_runs, now),
        "owners": owners[:MAX_SHOWN],
        "owner_count": len(owners),
        "groups": [*map(_group, groups[:MAX_SHOWN])],
        "group_count": len(groups),
        "rows": rows,
        "is_more": is_more,
        "currency": fleet.costs.currency,
    }


def _group(group: Group) -> dict[str, object]:
    """A worker and a tenant: the number of runs by status, and their consumption so far.

    With whether a part of the cost is estimated, and the models whose prices are not known.
    """
    totals = group.totals
    taken = {name: getattr(totals, name) for name in IN_TOTALS} | {
        "is_estimate": totals.estimated_cost > 0,
        "unpriced": sorted(totals.unpriced),
        "tool_p95": totals.tool_quantile(0.95),
    }
    return {"worker": group.worker, "tenant": group.tenant, "runs": +group.runs, "taken": taken}


def _row(info: RunInfo, costs: RowCosts, *, is_resumed: bool) -> Mapping[str, object]:
    """The row of a run in the list.

    With whether its cost is estimated by the prices of the server, and whether it can be put back.
    """
    row = info.row
    cost = costs.of(row)
    cause = row.cause or (lost_by(row) if row.status == "running" and info.is_cut_off() else "")
    cause = "resumed" if is_resumed else "waiting" if info.is_waiting else cause
    return {name: getattr(row, name) for name in IN_ROW} | {
        "id": info.run_id,
        "owner": info.owner,
        "began": info.began,
        "updated": info.updated,
        "tenant": row.labels.get(TENANT, ""),
        "cause": cause,
        "cost": cost.known,
        "unpriced": cost.unpriced,
        "is_estimate": cost.known is not None and costs.is_estimate(row),
        "can_requeue": can_requeue(row),
    }
