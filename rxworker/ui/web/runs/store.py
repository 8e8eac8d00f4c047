"""The runs and conversations of all users of a server, and the list of runs that clients receive."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import msgspec
from reactivex import abc
from reactivex.disposable import CompositeDisposable

from rxworker.desk.conversation import conversation_id, delete_runs, stored_runs
from rxworker.desk.run import DRAIN_SECONDS, new_info
from rxworker.errors import LeaseHeldError, LogError
from rxworker.log import EventLog, RunInfo
from rxworker.log.base import change_row
from rxworker.log.values import LISTED, OPEN, USER, RunRow
from rxworker.operators.kernel import Scheduler, Sink, Source
from rxworker.protocols.socket import Marks, RunList, socket_message
from rxworker.resume.stored import TITLE
from rxworker.run.run import Run
from rxworker.tools.cancellation import keep
from rxworker.ui.web.http.responses import ApiError, log_error, logger
from rxworker.ui.web.http.settings import Settings
from rxworker.ui.web.runs.entry import ConversationEntry, RunEntry, StoredMarks, branch_in, marked_row
from rxworker.worker import callbacks
from rxworker.worker.callbacks import Callback

PERIOD = 0.25
"""The number of seconds between two lists of a client, if runs change all the time."""


class RunFeed:
    """The list of runs for clients, after changes and at a limited rate.

    Without clients, nothing is observed or encoded.

    Args:
        runs: Returns the runs, newest first.

    Attributes:
        clients: How many clients receive it.
    """

    def __init__(self, runs: Callable[[], Iterable[RunEntry]]) -> None:
        self._runs = runs
        self.clients = 0
        self._observing: dict[str, abc.DisposableBase] = {}
        self._changed = asyncio.Event()
        self._newest: bytes | None = None
        self._closed = False

    async def lists(self) -> AsyncGenerator[bytes, None]:
        """The list as the message for a client, now and after changes, until the server stops."""
        if not self.clients:
            for entry in self._runs():
                self._observe(entry)
        self.clients += 1
        self._newest = None
        clock = asyncio.get_running_loop().time
        try:
            while not self._closed:
                changed = self._changed
                if self._newest is None:  # one for all clients
                    self._newest = socket_message(RunList([msgspec.Raw(entry.encoded()) for entry in self._runs()]))
                yield self._newest
                await asyncio.sleep(PERIOD - clock() % PERIOD)  # all clients continue together
                await changed.wait()
        finally:
            self.clients -= 1
            if not self.clients:
                self._stop()

    def add(self, entry: RunEntry) -> None:
        """Add a run."""
        if self.clients:
            self._observe(entry)
        self.wake()

    def wake(self) -> None:
        """Report a change of the list."""
        self._newest = None
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def close(self) -> None:
        """End all lists."""
        self._closed = True
        self.wake()
        self._stop()

    def _observe(self, entry: RunEntry) -> None:
        """Observe a run that may still change. The log reports the changes of its runs."""
        run = entry.here
        if run is None or entry.log is not None or entry.id in self._observing:
            return
        if run.done() and not any(watcher.lag for watcher in run.watchers.now):
            return

        def on_next(_item: object) -> None:
            if self._newest is not None:
                self.wake()

        def on_change(_item: object = None) -> None:
            entry.changed()

        def on_end(_error: Exception | None = None) -> None:
            self._observing.pop(entry.id, None)
            entry.changed()

        observation = self._observing[entry.id] = CompositeDisposable()
        observation.add(run.entries(run.last_seq).subscribe(on_next, on_change, on_change))
        # Watchers may still catch up after the run has ended.
        observation.add(run.watchers.subscribe(on_change, on_end, on_end))

    def _stop(self) -> None:
        for observation in tuple(self._observing.values()):
            observation.dispose()
        self._observing.clear()


CLOSING_SECONDS = 5.0
"""Seconds the runs have to end when the server stops."""


MAX_RESUMING = 1000
"""The maximum number of chats of one user for which the server remembers that their clients resume."""

MAX_DELETED = 1000
"""The maximum number of deleted runs of which the server ignores what was read before."""

OnRun: TypeAlias = Callable[[Run[Any]], object]
"""Called with each run that a client starts or resumes, before the run has emitted more than its first records."""


# Exceptions of an observer of the runs that must not affect a run, a client or another observer.
LOGGED = (*callbacks.LOGGED, asyncio.CancelledError)


def _log_failure(run: Run[object], error: BaseException) -> None:
    log_error(f"on_run failed for {run.id}", error, run=run.id)


class AllRuns(Source[Run[Any]]):
    """The observable of the runs of a server: those that are kept, oldest first, then each new one.

    An observer that raises is logged and detached: it affects neither a run, nor a client, nor another observer.

    Args:
        kept: Returns the runs that are kept.
    """

    def __init__(self, kept: Callable[[], Iterable[Run[Any]]]) -> None:
        super().__init__()
        self._kept = kept

    def _subscribe_core(self, observer: abc.ObserverBase[Run[Any]], scheduler: Scheduler = None) -> abc.DisposableBase:
        for run in [*self._kept()]:
            observer.on_next(run)

        def push(run: Run[Any]) -> None:
            try:
                observer.on_next(run)
            except LOGGED as error:
                attached.dispose()
                log_error("an observer of the server's runs was detached", error, run=run.id)

        def end() -> None:
            try:
                observer.on_completed()
            except LOGGED as error:
                log_error("an observer of the server's runs failed at its end", error)

        attached = super()._subscribe_core(Sink(push, observer.on_error, end), scheduler)
        return attached


class RunStore:
    """All runs and conversations of a server.

    Args:
        settings: The settings of the server.
        on_run: Called with each run that a client starts.
        log: The log of the runs, if they are stored.
        has_users: Whether the server has users.

    Attributes:
        settings: The settings of the server.
        has_users: Whether it has users.
        log: The log of the runs.
        runs: The observable of the runs.
    """

    def __init__(
        self, settings: Settings, on_run: OnRun | None = None, log: EventLog | None = None, *, has_users: bool = False
    ) -> None:
        self.settings = settings
        self.has_users = has_users
        self.log = log
        self._on_run = None if on_run is None else Callback(on_run, _log_failure)
        self._entries: dict[str, RunEntry] = {}
        self._conversations: dict[tuple[str | None, str], ConversationEntry] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._storing: set[asyncio.Task[bool]] = set()
        self._feeds: dict[str | None, RunFeed] = {}
        self._resuming: dict[str | None, dict[str, None]] = {}
        self._deleted: dict[str, None] = {}
        self._closing = False
        self.runs = AllRuns(lambda: [entry.here for entry in self._entries.values() if entry.here is not None])

    def of(self, owner: str | None) -> Iterator[RunEntry]:
        """Return the runs of one user, newest first."""
        entries = (e for e in reversed(list(self._entries.values())) if e.conversation.owner == owner)
        # A log may report an old run late. Of two that began at the same time, the later one in the list is newer.
        return iter(sorted(entries, key=lambda entry: -entry.started))

    def get(self, run_id: str, owner: str | None) -> RunEntry | None:
        """Return the run with this id, if it is known and belongs to the user."""
        entry = self._entries.get(run_id)
        return None if entry is None or entry.conversation.owner != owner else entry

    def conversation(self, id: str, owner: str | None) -> ConversationEntry | None:  # noqa: A002 - what it is
        """Return the conversation with this id, if it is known and belongs to the user."""
        return self._conversations.get((owner, id))

    def note_resuming(self, id: str, owner: str | None) -> None:  # noqa: A002 - what it is
        """Remember that the client of this chat resumes: it has requested the stream of its run.

        The oldest chats are dropped.
        """
        chats = self._resuming.setdefault(owner, {})
        chats.pop(id, None)  # to move it to the end
        chats[id] = None
        if len(chats) > MAX_RESUMING:
            del chats[next(iter(chats))]

    def is_resuming(self, conversation: ConversationEntry) -> bool:
        """Whether the client of this chat resumes."""
        return conversation.id in self._resuming.get(conversation.owner, ())

    def conversation_of(self, run: Run[object]) -> ConversationEntry | None:
        """Return the conversation of the run's session, if it is known."""
        return next((e for e in self._conversations.values() if e.has_session and e.session is run.session), None)

    def feed(self, owner: str | None) -> RunFeed:
        """Return the list of one user's runs, for listeners."""
        if (feed := self._feeds.get(owner)) is None:
            feed = self._feeds[owner] = RunFeed(partial(self.of, owner))
        return feed

    def check_open(self) -> None:
        """Check that the server is not stopping, and has its runs.

        Raises:
            ApiError: It is.
        """
        if self._closing:
            raise ApiError(503, "closing", "the server is being stopped")

    def check_room(self, owner: str | None) -> None:
        """Check that a client of this user may start another run.

        Raises:
            ApiError: Too many runs are running, or the server is stopping.
        """
        self.check_open()
        on = [e.conversation.owner for e in self._entries.values() if e.is_running_here and not e.is_added]
        limits = [(len(on), self.settings.max_runs, "runs")]
        if owner is not None:
            limits.insert(0, (on.count(owner), self.settings.max_runs_per_user, "of your runs"))
        for count, most, what in limits:
            if count >= most:
                message = f"{count} {what} are running, and no more are allowed: wait for one, or cancel one"
                raise ApiError(429, "too_many_runs", message)

    def keep(
        self,
        run: Run[object] | str,
        conversation: ConversationEntry,
        title: str,
        *,
        resumes: str = "",
        is_added: bool = False,
    ) -> RunEntry:
        """Store a run that has just started, and report it to all observers.

        Args:
            run: The run, or the id of one that another process will begin, before the log lists it.
            conversation: Its conversation.
            title: The beginning of its input.
            resumes: The id of the run that it resumes; empty for none.
            is_added: Whether the program started it.
        """
        session = conversation.session
        log = self.log if isinstance(run, str) or (not is_added and session.log is self.log) else None
        row = RunRow(
            title=title[:TITLE],
            worker=conversation.name,
            resumes=resumes,
            labels=session.run_labels,
            allowed=conversation.allowed,
        )
        here = None if isinstance(run, str) else run
        info, feed = new_info(run, row, log), self.feed(conversation.owner)
        entry = RunEntry(info, conversation, self.settings, log, here, is_added=is_added, on_change=feed.wake)
        self._register(entry)
        if entry.resumed_as is None:  # the program may add a run after the one that resumes it
            conversation.current = entry
        entry.limit_idle()
        if entry.log is None:
            self._begin(self._follow(entry), entry.id)
        feed.add(entry)
        if entry.here is not None:
            self.runs.on_next(entry.here)
            if self._on_run is not None and not is_added:
                self._on_run(entry.here)
        return entry

    def _register(self, entry: RunEntry) -> ConversationEntry:
        conversation, before = entry.conversation, self._entries.get(entry.resumes or "")
        self._entries[entry.id] = entry
        self._conversations[conversation.owner, conversation.id] = conversation
        if before is not None and before.resumed_as is None:
            before.resumed_as = entry.id
            before.changed()
        entry.resumed_as = next((later.id for later in conversation.runs if later.resumes == entry.id), None)
        conversation.runs.append(entry)
        return conversation

    def note(self, info: RunInfo) -> RunEntry | None:
        """Take the information of the log about a run.

        Returns its entry; ``None`` for one that is deleted, or nested in another run.
        """
        entry = self._entries.get(info.run_id)
        is_new = entry is None
        if info.status == "deleted":
            self.drop(info.run_id)
        if info.run_id in self._deleted:
            return None
        if info.row.outer or self.log is None or (entry is not None and entry.log is None):
            return entry
        if entry is not None:
            entry.update(info)
        else:
            entry = self._stored_entry(self.log, info)
            conversation = self._register(entry)
            current = conversation.current
            if current is None or current.log is None or current.started <= entry.started:
                conversation.current = entry
        conversation = entry.conversation
        if conversation.current is entry and is_new and not conversation.newest:
            conversation.allowed = entry.info.row.allowed
        if conversation.current is entry and (is_new or conversation.allowed):
            self._begin(conversation.refresh_later(), entry.id)
        if conversation.current is entry and not conversation.is_marking:
            conversation.mark(StoredMarks.of(entry.info.row.labels).marks)
        if entry.status == "paused":
            self._begin(entry.keep_pause(), entry.id)
        if entry.is_over or is_new:  # not with each record of a run that goes on: it looks at all runs
            self._forget_oldest()
        entry.changed()
        return entry

    async def mark(self, conversation: ConversationEntry, marks: Marks) -> None:
        """Set what is noted about a conversation, and store it with its last run: if it is running, when it has ended.

        Raises:
            LogError: The log cannot be written.
        """
        conversation.mark(marks)
        entry = conversation.current
        if entry is None or entry.log is None or conversation.is_marking:
            return
        conversation.is_marking = True
        storing = keep(self._keep_stored(entry.log, conversation), self._storing)
        await entry.refresh()
        if entry.is_over and not await asyncio.shield(storing):
            raise LogError("what was noted about a conversation was not stored")

    async def _keep_stored(self, log: EventLog, conversation: ConversationEntry) -> bool:
        """Store the marks of a conversation with its last run when that has ended.

        Return whether that has succeeded.
        """
        stored = None
        try:
            while (marks := conversation.marks) != stored:
                entry = conversation.current
                assert entry is not None
                if entry.here is not None:
                    # A slow process may lose its lease: it must not take it itself.
                    with suppress(Exception):
                        await entry.here
                await change_row(log, entry.id, LISTED, partial(marked_row, marks))
                stored = marks
        except Exception as error:
            logger.error("what was noted about a conversation was not stored: %s", error)
            return False
        finally:
            conversation.is_marking = False
        return True

    async def delete(self, conversation: ConversationEntry) -> list[str]:
        """Delete a conversation, with all its runs, also in the log. Returns their ids.

        Raises:
            ApiError: A run of it is running; then no run that was deleted before is restored.
            LogError: The log cannot be written.
        """

        def is_of_it(info: RunInfo) -> bool:
            return self.owner_of(info) == conversation.owner and conversation_id(info) == conversation.id

        entries = [*conversation.runs]
        for entry in entries:
            await entry.done()
        running = [entry.id for entry in entries if entry.is_running]
        log = self.log
        stored = [] if log is None else await stored_runs(log, is_of_it, nested=True)
        running += [info.run_id for info in stored if info.status in OPEN]
        if running:
            message = f"{running[0]} of this conversation is running: cancel it, and delete the conversation then"
            raise ApiError(409, "busy", message)
        try:
            if log is not None:
                await delete_runs(log, stored)
        except LeaseHeldError as error:
            raise ApiError(409, "busy", f"a process holds {error.run_id}: try again in a moment") from error
        for entry in entries:
            self.drop(entry.id)
        return [entry.id for entry in entries]

    def owner_of(self, info: RunInfo) -> str | None:
        """The user of a stored run.

        A server without users shows all runs, whatever label of that name a program has set.
        """
        return info.row.labels.get(USER) if self.has_users else None

    async def owner_of_run(self, run_id: str) -> str | None:
        """The user of the run with this id; ``None`` if there is no such run."""
        if (entry := self._entries.get(run_id)) is not None:
            return entry.conversation.owner
        info = await self.listed(run_id)
        return None if info is None else self.owner_of(info)

    async def listed(self, run_id: str) -> RunInfo | None:
        """What the log lists of a run, also of one inside another one; ``None`` if no log has it.

        Raises:
            LogError: The log cannot be read.
        """
        return None if self.log is None else await self.log.listed(run_id)

    def look(self, info: RunInfo, owner: str | None) -> RunEntry | None:
        """Return the entry of a run of the log, which is not kept if it is not yet.

        ``None`` if it is not one of this user, or nested in another run.
        """
        if info.row.outer or self.owner_of(info) != owner or self.log is None:
            return None
        return self._entries.get(info.run_id) or self._stored_entry(self.log, info)

    def _stored_entry(self, log: EventLog, info: RunInfo) -> RunEntry:
        owner, id_ = self.owner_of(info), conversation_id(info)
        if (conversation := self._conversations.get((owner, id_))) is None:
            branch, marks = branch_in(info.row.labels), StoredMarks.of(info.row.labels).marks
            conversation = ConversationEntry(id_, info.row.worker, owner=owner, branch=branch, marks=marks)
        return RunEntry(info, conversation, self.settings, log, on_change=self.feed(owner).wake)

    def _begin(self, work: Coroutine[object, object, None], name: str) -> None:
        keep(work, self._following, f"follow {name}")

    async def close(self, reason: str = "the server was stopped") -> None:
        """Cancel the runs of clients, hand those of a log over to other processes, and complete the observable.

        Runs that were added continue.

        Args:
            reason: Shown to users; not interpreted.
        """
        self._closing = True
        ends: list[asyncio.Future[None]] = []
        seconds = CLOSING_SECONDS
        for entry in self._entries.values():
            if entry.here is None or entry.here.done() or entry.is_added:
                continue
            if entry.log is not None:
                ends.append(entry.here.hand_over(reason=reason, seconds=DRAIN_SECONDS))
                seconds = DRAIN_SECONDS + CLOSING_SECONDS
            else:
                ends.append(entry.here.cancel(reason=reason))
        if ends:
            await asyncio.wait(ends, timeout=seconds)
        if self._storing:
            await asyncio.wait(self._storing, timeout=CLOSING_SECONDS)
        tasks: list[asyncio.Task[object]] = [*self._following, *self._storing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._on_run is not None:
            await self._on_run.close()
        for feed in self._feeds.values():
            feed.close()
        self.runs.on_completed()

    def forget(self) -> None:
        """Drop all runs and sessions."""
        for entry in self._entries.values():
            entry.close()
        self._entries.clear()
        self._conversations.clear()

    async def _follow(self, entry: RunEntry) -> None:
        """Wait for a run's end, and store its outcome."""
        await entry.ended()
        entry.settle()
        self._forget_oldest()
        entry.changed()

    def _forget_oldest(self) -> None:
        """Drop the oldest runs above the limit.

        Of those that have ended, and apart from these of those that wait for a person.
        """
        ended: list[RunEntry] = []
        waiting: list[RunEntry] = []
        for entry in self._entries.values():
            if entry.is_over:
                is_waiting = entry.status == "paused" and entry.resumed_as is None
                (waiting if is_waiting else ended).append(entry)
        self._forget(ended)
        self._forget(waiting)
        owners = {conversation.owner for conversation in self._conversations.values()}
        for owner in [o for o, feed in self._feeds.items() if o not in owners and not feed.clients]:
            del self._feeds[owner]

    def _forget(self, entries: list[RunEntry]) -> None:
        """Drop as many of these as are above the limit, of the user with the most of them."""
        kept = Counter(entry.conversation.owner for entry in entries)
        for _ in range(len(entries) - self.settings.max_kept):
            ((most, _count),) = kept.most_common(1)
            entry = next(entry for entry in entries if entry.conversation.owner == most)
            entries.remove(entry)
            kept[most] -= 1
            self._drop(entry)

    def drop(self, run_id: str) -> None:
        """Drop a run that was deleted, and report that. Information that was read before it does not bring it back."""
        self._deleted[run_id] = None
        if len(self._deleted) > MAX_DELETED:
            del self._deleted[next(iter(self._deleted))]
        if (entry := self._entries.get(run_id)) is not None:
            self._drop(entry)
            entry.changed()

    def _drop(self, entry: RunEntry) -> None:
        del self._entries[entry.id]
        entry.close()
        conversation = entry.conversation
        conversation.runs.remove(entry)
        if not conversation.runs:
            self._conversations.pop((conversation.owner, conversation.id), None)
