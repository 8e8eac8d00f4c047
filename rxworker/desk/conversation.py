"""The conversations of a log, and one that goes on: its last run, in whichever process, what that waits for, the verbs.

Theory of operation. An `OpenConversation` has a session of this process, which knows what waits, and, if its runs are
stored, a last run that may be of another process. `catch_up` comes before the next message: it continues a run that was
cut off, and lets the session go on after one of another process. While a run of this process is on, nothing waits.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import Struct

from rxworker.decisions import Decision, PendingCalls
from rxworker.desk.run import DRAIN_SECONDS, STOP_SECONDS
from rxworker.errors import LeaseHeldError, LocalProtocolError, LogError, RunCancelledError, SessionBusyError
from rxworker.log import EventLog, RunInfo
from rxworker.log.kept import conversation_of
from rxworker.log.permissions import Pair
from rxworker.log.values import CONVERSATION, OPEN
from rxworker.messages import Message
from rxworker.messages.message import Input
from rxworker.resume.stored import LoadedRun, read_run
from rxworker.run.run import Run, end_of
from rxworker.turn.result import Paused
from rxworker.worker.session import Session

A = TypeVar("A")


def new_conversation() -> str:
    """An id for a conversation.

    >>> new_conversation().partition("-")[0]
    'conversation'
    """
    return f"conversation-{uuid.uuid4().hex[:12]}"


def conversation_id(info: RunInfo) -> str:
    """The id of the conversation of a stored run."""
    return conversation_of(info.row.labels, info.run_id)


class StoredConversation(Struct, frozen=True):
    """A conversation of a log.

    Attributes:
        id: Its id.
        runs: Its runs, the oldest first.
    """

    id: str
    runs: tuple[RunInfo, ...]

    @property
    def last(self) -> RunInfo:
        """The run that goes on with the next message."""
        return self.runs[-1]


def conversations_in(infos: Iterable[RunInfo]) -> list[StoredConversation]:
    """The conversations of stored runs, the one that was used last first. Runs inside tool calls are left out.

    >>> conversations_in([])
    []
    """
    found: dict[str, list[RunInfo]] = {}
    for info in infos:
        if not info.row.outer:
            found.setdefault(conversation_id(info), []).append(info)
    every = [StoredConversation(name, tuple(sorted(runs, key=attrgetter("began")))) for name, runs in found.items()]
    return sorted(every, key=lambda each: each.last.ended, reverse=True)


async def stored_runs(log: EventLog, is_of: Callable[[RunInfo], bool], *, nested: bool = False) -> list[RunInfo]:
    """The runs of conversations, the oldest first.

    Args:
        log: The log.
        is_of: Whether a run is of one of these conversations; it is called with runs that are not nested.
        nested: Whether the runs inside their tool calls are among them.

    Raises:
        LogError: The log cannot be read.
    """
    every = [info async for infos in log.list_pages() for info in infos]
    found = {info.run_id: info for info in every if not info.row.outer and is_of(info)}
    is_more = nested
    while is_more:  # a nested run may have nested runs
        inner = {info.run_id: info for info in every if info.row.outer in found}
        is_more = not inner.keys() <= found.keys()
        found |= inner
    return sorted(found.values(), key=attrgetter("began"))


async def delete_runs(log: EventLog, runs: Sequence[RunInfo]) -> None:
    """Delete runs; others may do the same at the same time.

    Raises:
        LeaseHeldError: A process holds one of them. Those before it are deleted.
        LogError: The log cannot be read or written.
    """
    for info in runs:
        try:
            await log.delete(info.run_id)
        except LeaseHeldError:
            raise
        except LogError:
            left = await log.listed(info.run_id)
            if left is not None and left.status != "deleted":
                raise  # it was not another client that has deleted it


class Prompt:
    """What a person has sent to a conversation, from its receipt to its answer. What cancels it cancels no other.

    Attributes:
        is_cancelled: Whether it was cancelled.

    >>> async def main() -> None:
    ...     prompt = Prompt()
    ...     asyncio.get_running_loop().call_soon(prompt.cancel)
    ...     print(await prompt.wait_for(asyncio.sleep(60, "checked")), prompt.is_cancelled)
    >>> asyncio.run(main())
    None True
    """

    def __init__(self) -> None:
        self.is_cancelled = False
        self._waiting: asyncio.Task[Any] | None = None

    def cancel(self) -> None:
        """Cancel it, and what it waits for."""
        self.is_cancelled = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def wait_for(self, work: Coroutine[Any, Any, A]) -> A | None:
        """The result of work that ends with the prompt, such as its check; ``None`` if the prompt is cancelled."""
        task = self._waiting = asyncio.get_running_loop().create_task(work)
        try:
            if self.is_cancelled:
                task.cancel()
            await asyncio.wait({task})
        finally:
            self._waiting = None
            task.cancel()
        self.is_cancelled = self.is_cancelled or task.cancelled()
        result = None if task.cancelled() else task.result()
        return None if self.is_cancelled else result


MAX_NEW = 100
"""How many stored runs are searched for one that another process has begun, the newest."""


class OpenConversation:
    """A conversation, opened at a door: in a log, or in memory if its session has none.

    Args:
        session: The session, with the label of the conversation.
        known: The ids of its stored runs, the oldest first.

    Attributes:
        session: The session.
        known: The ids of its runs; the last one is where the next message goes on.
        run: The last run of this process.
        decided: The decisions about the run that waits, so far, by the places of its calls.
        allowed: What is always allowed, as it was read last.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     opened = OpenConversation(Session(Worker(ScriptedModel(["Hello."])), labels={CONVERSATION: "c-1"}))
        ...     await opened.catch_up()
        ...     await opened.begin("Hi")
        ...     print(opened.id, opened.paused, opened.next)
        >>> asyncio.run(main())
        c-1 None None
    """

    def __init__(self, session: Session, known: Iterable[str] = ()) -> None:
        self.session = session
        self.known = dict.fromkeys(known)
        self.run: Run[object] | None = None
        self.decided: dict[int, Decision] = {}
        self.allowed: tuple[Pair, ...] = tuple(session.allowed)
        self._read = ""

    @property
    def id(self) -> str:
        """The id of the conversation."""
        return self.session.labels[CONVERSATION]

    @property
    def paused(self) -> Paused[object] | None:
        """The run that waits; ``None`` if none does."""
        return self.session.paused if self.run is None or self.run.done() else None

    @property
    def pending(self) -> PendingCalls:
        """The calls that it waits for; none if nothing waits."""
        return PendingCalls() if self.paused is None else PendingCalls.of(self.paused.pause)

    @property
    def next(self) -> int | None:
        """The place of the next call that needs a decision and has none."""
        pending = self.pending
        return next((p for p in pending.required if p not in self.decided and p not in pending.by_client), None)

    async def refresh(self) -> None:
        """Read what is always allowed now.

        Raises:
            LogError: The log cannot be read.
        """
        self.allowed = await self.session.allowed_now()

    async def latest(self) -> RunInfo | None:
        """The last stored run, also if another process has begun it.

        Raises:
            LogError: The log cannot be read.
        """
        log = self.session.log
        if log is None:
            return None
        infos = await log.list(limit=MAX_NEW)
        newest = next((i for i in infos if not i.row.outer and conversation_id(i) == self.id), None)
        if newest is not None:
            self.known.setdefault(newest.run_id)
        # A list may be a moment behind; of a run that could not be loaded there is nothing.
        return newest if not self.known else await log.info([*self.known][-1]) or newest

    async def catch_up(self, reason: str = "") -> Run[object] | LoadedRun | None:
        """Go on where the last run has ended, in whichever process, before the next message.

        Args:
            reason: Why a run is continued that was cut off.

        Returns:
            The run, if it was cut off and is continued here; the last run, if it was one of another process; otherwise
            ``None``.

        Raises:
            SessionBusyError: Another process runs it.
            RxWorkerError: It cannot be continued, or read.
        """
        run = self.run
        if run is not None and not run.done():
            await asyncio.wait({asyncio.ensure_future(end_of(run))}, timeout=STOP_SECONDS)
        if (last := await self.latest()) is None:
            return None
        if last.is_cut_off():
            return await self.recover(last.run_id, reason)
        if last.run_id not in (self._read, "" if run is None or run.state.status == "new" else run.id):
            if last.status in OPEN:
                raise SessionBusyError(f"{last.run_id} of this session is running elsewhere")
        elif (last.status == "paused") == (self.paused is not None):  # it may have been dismissed elsewhere
            return None
        return await self.read(last)

    async def read(self, info: RunInfo) -> LoadedRun:
        """Read a stored run, and go on after it.

        Raises:
            LogError: It cannot be read.
        """
        assert self.session.log is not None  # which has the run
        found = await read_run(self.session.log, info.run_id, info.row)
        await self.session.go_on_after(info, found.state)
        result = found.result() if info.status == "paused" else None
        self.session.paused = result if isinstance(result, Paused) else None
        self.decided.clear()
        self._read = info.run_id
        return found

    def begin(self, input: Input) -> Run[object]:  # noqa: A002 - as in `Worker.run`
        """Begin the next run; one that waits can no longer be resumed.

        Raises:
            RxWorkerError: As for `Session.run`.
        """
        return self._take(self.session.run(input))

    def decide(self, add: Sequence[Message] = ()) -> Run[object]:
        """Resume the run that waits, as it was ``decided``. A call that needs a decision and has none is not run.

        Args:
            add: Messages to add.

        Raises:
            LocalProtocolError: Nothing waits.
            RxWorkerError: As for `Session.decide`.
        """
        paused, decisions = self.paused, self.pending.without_client()
        if paused is None:
            raise LocalProtocolError("no run is paused")
        for place, decision in self.decided.items():
            decisions[place] = decision
        self.decided.clear()
        return self._take(self.session.decide(paused.run_id, decisions, add=add))

    async def recover(self, run_id: str, reason: str) -> Run[object]:
        """Continue a run whose process has ended.

        Raises:
            RxWorkerError: As for `Session.recover`.
        """
        return await self._take(self.session.recover(run_id, reason=reason)).started()

    async def dismiss(self, reason: str) -> None:
        """End the run that waits, so that it can no longer be resumed.

        Raises:
            CommandConflictError: It was decided about before.
            LogError: The log cannot be read or written.
        """
        paused = self.paused
        self.decided.clear()
        if paused is not None:
            await self.session.dismiss(paused.run_id, str(RunCancelledError(reason)))

    async def cancel(self, reason: str) -> None:
        """Cancel the run of this process, and wait a moment for its end."""
        if self.run is not None and not self.run.done():
            await asyncio.wait({self.run.cancel(reason=reason)}, timeout=STOP_SECONDS)

    async def leave(self, reason: str) -> None:
        """End the run of this process: a stored one is handed over to other processes."""
        if self.session.log is None or self.run is None or self.run.done():
            await self.cancel(reason)
        else:
            ended = self.run.hand_over(reason=reason, seconds=DRAIN_SECONDS)
            await asyncio.wait({ended}, timeout=DRAIN_SECONDS + STOP_SECONDS)

    def _take(self, run: Run[object]) -> Run[object]:
        self.run = run
        self.known.setdefault(run.id)
        self.decided.clear()
        return run
