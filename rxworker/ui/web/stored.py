"""Runs of a log, as the server shows them: in whichever process they run, or when they have ended."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import Literal

from msgspec.structs import replace

from rxworker.errors import CommandConflictError, LogError, RunCancelledError
from rxworker.log import EventLog, Replica, RunInfo, dismiss_run
from rxworker.log.fleet import RowCosts, usage_of
from rxworker.messages import Message
from rxworker.protocols.socket import PauseSummary, RunSummary, pause_of
from rxworker.run.run import Run
from rxworker.ui.web.entry import ConversationEntry, RunEntry, RunStatus, ended_at, watchers_of
from rxworker.ui.web.fleet import can_requeue
from rxworker.ui.web.responses import ApiError
from rxworker.ui.web.settings import Settings
from rxworker.worker.queue import QueuedSession, end_cancelled

WAITS = {
    "queued": "it waits for a process that runs it",
    "recovering": "its process has ended, and the run is being recovered",
}
"""The causes and the reasons of running runs without an owner."""

LINGER = 5.0
"""Seconds for which the replica of a run remains without a watcher."""

MAX_COMMANDS = 1000
"""The maximum number of commands of clients to one run."""


class StoredEntry(RunEntry):
    """A run of the log.

    Clients watch a replica of it, which exists while a client watches, and steer it by commands in the log.

    Args:
        log: The log.
        info: The information of the log about the run.
        conversation: Its conversation.
        settings: The settings of the server.
        here: The run, if this process runs it.
    """

    def __init__(
        self,
        log: EventLog,
        info: RunInfo,
        conversation: ConversationEntry,
        settings: Settings,
        here: Run[object] | None = None,
    ) -> None:
        super().__init__(info.run_id, conversation, here, settings)
        self._show(info)
        self._log = log
        self._replica: Replica | None = None
        self._pause: PauseSummary | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None

    @property
    def run(self) -> Replica:
        """What clients watch."""
        if self._replica is None:
            barrier = None
            if self.here is not None and self.is_running_here:
                barrier = self.here.barrier
            elif not self.info.last_seq:
                barrier = partial(until_begun, self._log, self.id)
            self._replica = Replica(self._log, self.id, barrier=barrier)
        return self._replica

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.info.status not in ("queued", "running")

    @property
    def status(self) -> RunStatus:
        """Its status. A replica may be ahead of the list."""
        status = self.info.status
        if status == "running" and self._replica is not None and self._replica.done():
            status = self._replica.state.status
        return "running" if status in ("queued", "running", "new", "deleted") else status

    @property
    def reason(self) -> str:
        """The reason of the status."""
        if self.info.error:
            return self.info.error
        if self.status == "running":
            waits = self._waits_for
            return "" if waits is None else self.info.row.reason or WAITS[waits]
        if not self.is_over:
            return self.run.state.reason
        return self.info.row.reason

    @property
    def _waits_for(self) -> str | None:
        """Why no process runs it."""
        if self.is_running_here or self.info.error or not self.info.is_cut_off():
            return None
        return "queued" if self.info.status == "queued" else "recovering"

    def _show(self, info: RunInfo) -> None:
        self.info, row = info, info.row
        self.title, self.started, self.labels = row.title, info.created, row.labels
        self.resumes = row.resumes or None

    def update(self, info: RunInfo) -> None:
        """Take newer information from the log."""
        if info.revision >= self.info.revision:
            self._show(info)
            replica = self._replica
            if replica is not None and replica.done() and info.last_seq > replica.last_seq:
                replica.close()  # the run was put back after its end
                self._replica = None
            self.changed()

    async def refresh(self) -> None:
        """Read newer information from the log: the list may be a moment behind."""
        info = await self._log.listed(self.id)
        if info is not None:
            self.update(info)
        await self.keep_pause()

    async def open(self) -> None:
        """Wait until the replica has what is stored. It remains for a moment, also without a watcher."""
        self._close_later()
        await self.run.ready()

    def _check_running(self) -> None:
        if self.status != "running":
            raise ApiError(409, "conflict", f"this run is {self.status}: start another one")

    async def send(self, message: Message, id: str = "") -> None:  # noqa: A002 - what it is
        """Send a message into the run."""
        self._check_running()
        if self.info.sent >= MAX_COMMANDS:
            problem = f"{self.info.sent} messages were sent to this run: start another one"
            raise ApiError(429, "too_many_messages", problem)
        await self.run.send(message, id=id)

    async def withdraw(self, id: str) -> None:  # noqa: A002 - what it is
        """Withdraw a message, in whichever process the run runs: its records state whether it was too late."""
        self._check_running()
        await self.run.withdraw(id)

    async def pause(self, reason: str) -> None:
        """Request a pause of the run."""
        self._check_running()
        await self.run.pause(reason=reason)

    async def cancel(self, when: Literal["now", "after_turn"], reason: str, seconds: float) -> None:
        """Cancel the run, in whichever process it runs."""
        if self.is_over:
            return
        await self.run.cancel(when, reason=reason)
        if self.here is not None and isinstance(self.here.session, QueuedSession):
            await asyncio.wait({self.here.hand_over()})
        await self.refresh()
        if self._waits_for == "queued":
            await end_cancelled(self._log, self.id)
        if when == "now":
            try:
                async with asyncio.timeout(seconds):
                    await self.run.ended()
            except TimeoutError:
                pass  # a tool takes longer to stop
            await self.refresh()

    async def dismiss(self, reason: str) -> None:
        """Cancel a paused run."""
        text = str(RunCancelledError(reason))
        try:
            await dismiss_run(self._log, self.id, text)
        except CommandConflictError as error:
            raise ApiError(409, "resumed", str(error)) from error
        row = replace(self.info.row, status="aborted", reason=text, cause="cancel")
        self.update(replace(self.info, row=row))

    async def requeue(self, reason: str) -> None:
        """Put the run back, so that a process continues it."""
        await self._log.requeue(self.id, reason=reason)
        await self.refresh()

    async def keep_pause(self) -> None:
        """Keep what a paused run waits for, which the list shows."""
        if self._pause is None and self.status == "paused":
            try:
                await self.open()
            except LogError:
                return  # deleted meanwhile
            self._pause = pause_of(self.run.state)
            self.changed()

    def settle(self) -> None:
        """Close the replica soon, unless a client watches."""
        super().settle()
        if not self.watching:
            self._close_later()
            self.limit_idle()

    def _close_later(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
        self._linger = asyncio.get_running_loop().call_later(LINGER, self._close_idle)

    def _close_idle(self) -> None:
        if not self.watching:
            self.close()

    def close(self) -> None:
        """Close the replica, and stop the timers."""
        for timer in (self._linger, self._grace):
            if timer is not None:
                timer.cancel()
        self._linger = self._grace = None
        if self._replica is not None:
            self._replica.close()
            self._replica = None

    def limit_idle(self) -> None:
        """Cancel a run that no client watches for the grace period of the settings."""
        grace = self.settings.grace
        if grace is None or self.is_added or not self.is_running_here or self._grace is not None:
            return

        def leave() -> None:
            self._grace = None
            if not self.watching and self.here is not None and not self.here.done():
                self.here.cancel(reason=f"it had no watcher for {grace:g} seconds")

        self._grace = asyncio.get_running_loop().call_later(grace, leave)

    def summary(self) -> RunSummary:
        """Return the summary of the run."""
        info, row = self.info, self.info.row
        usage = usage_of(row)
        cost = RowCosts(self.settings.prices).of(row)
        return self._summary(
            ended=ended_at(info) if self.is_over else None,
            seq=info.last_seq,
            turns=row.turns,
            tool_calls=row.tool_calls,
            usage=usage,
            cost=cost.known,
            unpriced=cost.unpriced,
            cause=row.cause or self._waits_for or "",
            pause=self._pause if self.status == "paused" else None,
            watchers=() if self._replica is None else watchers_of(self._replica),
            can_requeue=self.status == "aborted" and can_requeue(row),
        )


async def until_begun(log: EventLog, run_id: str) -> None:
    """Wait until a process has begun a run."""
    async with aclosing(log.changes(every=0.05)) as changes:
        async for infos in changes:
            if any(info.run_id == run_id and info.last_seq for info in infos):
                return
