"""The state that the handlers of one application share, and the methods for the program that contains the server."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias, TypedDict, TypeVar

from msgspec import Struct
from reactivex import Observable, abc

from rxworker.boards import AlertChange, Dashboard, Published
from rxworker.desk.conversation import new_conversation
from rxworker.errors import ConfigurationError, LocalProtocolError, RxWorkerError
from rxworker.events import RunResume, RunStart
from rxworker.log import EventLog, RunInfo
from rxworker.messages.settings import awaited, checks_arguments
from rxworker.resume.stored import last_input, title_of
from rxworker.run.run import Run
from rxworker.tools.cancellation import keep, retrieve
from rxworker.ui.web.boards.boards import Boards
from rxworker.ui.web.boards.fleet import FleetFeed
from rxworker.ui.web.boards.links import Links, NewLink
from rxworker.ui.web.guard import Guard, User
from rxworker.ui.web.http.request import Shown, WebRequest
from rxworker.ui.web.http.responses import CLOSING, LOG_FAILED, STARTING, ApiError, Page, log_error, logger, refused
from rxworker.ui.web.http.settings import Settings
from rxworker.ui.web.runs.entry import ConversationEntry, first_event
from rxworker.ui.web.runs.of_user import Runs, outermost_id
from rxworker.ui.web.runs.store import OnRun, RunStore
from rxworker.ui.web.runs.workers import MakeWorkerError, Workers, WorkerSource
from rxworker.ui.web.streams.published import PublishedStreams, check_loop
from rxworker.ui.web.streams.streams import Streams
from rxworker.worker import QueuedWorker, recover_all, session_of
from rxworker.worker.callbacks import Callback
from rxworker.worker.session import Worker

A = TypeVar("A")
Rerun: TypeAlias = Callable[[EventLog, str, Worker], object]
"""Runs the stored run with an id again with a worker: a plain or a coroutine function, which returns a `Struct`."""


class ServerOptions(TypedDict, total=False):
    """The options of a server, as keyword arguments of `make_app`, `serve`, `WebServer` and `AsgiApp`.

    Attributes:
        settings: The settings of the server.
        user: Returns the name of the user who sends a request. Only the user who started a run can see and control it.
        on_run: Called with each run that a client starts or resumes: a plain or a coroutine function, which is
            cancelled when the server stops. Its exceptions are logged and do not affect the run.
        log: Where runs are stored. Then the server shows and steers the runs of all processes that use the log,
            recovers those whose process has ended, and on cleanup hands its own over to other processes. The program
            closes the log after the server.
        streams: Published streams to serve; see `ServerState.publish`.
        dashboards: Dashboards to show on the page, of a run, of a conversation and of all runs; by default those of
            `rxworker.panels`.
        on_alert: Called with each alert of the dashboards over all runs, of all users, whether or not a client looks at
            them; for example `Webhook.send`. A coroutine function has one alert after the other. Its exceptions are
            logged. After a restart it is called with what has changed since, and once with the last change of each
            value before that.
        rerun: Runs a stored run again with a worker of the server, when a client requests that, and returns what the
            page shows: `rxworker.testing.lab.rerun_stored`, or a function that uses it. The hooks and operators of the
            worker really run then.
    """

    settings: Settings | None
    user: User | None
    on_run: OnRun | None
    log: EventLog | None
    streams: Sequence[Published[Any]]
    dashboards: Sequence[Dashboard] | None
    on_alert: Callable[[AlertChange], object] | None
    rerun: Rerun | None


def _log_failure(change: AlertChange, error: BaseException) -> None:
    log_error(f"on_alert failed for {change.panel}", error, panel=change.panel)


@checks_arguments
class ServerState:
    """The state of one application: ``app[STATE]``, or the ``state`` of a `WebServer`.

    Belongs to the server's event loop.

    A program uses `add`, `publish`, `share`, `all_runs` and, if the server has no users, ``runs.start``; everything
    else is internal.

    Attributes:
        settings: The settings.
        guard: Checks requests.
        has_users: Whether clients see only the runs of their own user.
        started: When it was made, in seconds since the epoch.
        instance: An id that changes with each start; with a log, the id of the log.
        workers: Creates workers.
        store: The runs and conversations of all users.
        all_runs: The observable of the runs of all users: those that are kept, oldest first, then each new run. It
            completes when the server stops. `merge_runs` and the other operators over several runs accept it.
        runs: The runs and conversations of a server without users.
        streams: The clients that watch runs, and their open streams.
        published: The published streams.
        boards: The dashboards.
        links: The read-only links.
        sockets: What closes each open WebSocket.
        page: The files of the page.
    """

    def __init__(
        self,
        workers: Workers,
        *,
        settings: Settings | None = None,
        user: User | None = None,
        on_run: OnRun | None = None,
        log: EventLog | None = None,
        streams: Sequence[Published[Any]] = (),
        dashboards: Sequence[Dashboard] | None = None,
        on_alert: Callable[[AlertChange], object] | None = None,
        rerun: Rerun | None = None,
    ) -> None:
        for name, function in (("user", user), ("on_run", on_run), ("on_alert", on_alert), ("rerun", rerun)):
            if function is not None and not callable(function):
                raise ConfigurationError(f"{name} is {function!r:.60}; give a function")
        if workers == {} and log is None:
            raise ConfigurationError("the server needs a worker, or log= to show runs of: make_app(Worker(...))")
        self.settings = settings = settings or Settings()
        self.has_users = user is not None
        self.links = Links(log, has_users=self.has_users)
        self.guard = Guard(settings, user, self.links)
        self.started = time.time()
        # Two servers on one log, or one that was restarted, know the same runs.
        self.instance = secrets.token_hex(8) if log is None else log.id
        self.workers = WorkerSource(workers, settings.prices)
        self.store = RunStore(settings, on_run, log, has_users=self.has_users)
        self.all_runs: Observable[Run[Any]] = self.store.runs
        self.runs = Runs(self.store, self.workers)
        self.streams = Streams(settings, self.store)
        self.sockets = set[Callable[[], Awaitable[None]]]()
        self.page = Page(settings.mermaid)
        self.published = PublishedStreams(has_users=self.has_users, rate=settings.writes_per_second)
        for stream in streams:
            self.published.add(stream)
        self.boards = Boards(dashboards, self.store)
        self._on_alert = None if on_alert is None else Callback(on_alert, _log_failure, in_order=True)
        self._rerun = None if log is None else rerun
        self._rerunning = asyncio.Lock()
        self._reruns = set[asyncio.Task[object]]()
        self._tasks: list[asyncio.Task[None]] = []
        self._fleet = None if log is None else FleetFeed(log, settings.prices)
        self._obstacle = STARTING
        self._is_closing = False

    def __repr__(self) -> str:
        return f"ServerState({self.settings!r})"

    @property
    def obstacle(self) -> str:
        """Why the server should get no requests now, in a few words; empty if it should."""
        return CLOSING if self._is_closing else self._obstacle

    @property
    def fleet(self) -> FleetFeed:
        """All runs of the log.

        Raises:
            ApiError: The server has no log, or it has users.
        """
        return self._of_all(self._fleet)

    @property
    def shared_log(self) -> EventLog:
        """The log, for what is of no user.

        Raises:
            ApiError: The server has no log, or it has users.
        """
        return self._of_all(self.store.log)

    @property
    def can_rerun(self) -> bool:
        """Whether clients can have stored runs run again."""
        return self._rerun is not None

    async def rerun(self, run_id: str, worker: str | None, request: WebRequest) -> Struct:
        """Run a stored run again with a worker of the server, one at a time, also when its client leaves.

        Raises:
            ApiError: The server does not do that, there is no such worker, or it cannot be a candidate.
        """
        log = self.store.log
        if log is None or self._rerun is None:
            raise ApiError(404, "no_rerun", "this server runs no stored run again: give it log= and rerun=")
        name, candidate = self.workers.make(worker, request)
        if isinstance(candidate, QueuedWorker):
            raise ApiError(409, "cannot_rerun", f"other processes perform the runs of {name}: use rxworker lab there")
        function = self._rerun

        async def run_again() -> object:
            async with self._rerunning:
                return await awaited(function(log, run_id, candidate))

        task = keep(run_again(), self._reruns, f"run {run_id} again")
        task.add_done_callback(retrieve)
        with refused(ConfigurationError, 409, "cannot_rerun"):
            outcome = await asyncio.shield(task)
        if not isinstance(outcome, Struct):
            raise ApiError(409, "cannot_rerun", f"rerun= returned {outcome!r:.60}: return the outcome of rerun_stored")
        return outcome

    def _of_all(self, found: A | None) -> A:
        """What shows the runs of all users, which a server with users does not."""
        if found is None:
            raise ApiError(404, "no_log", "runs are not stored: give the server a log")
        if self.has_users:
            message = (
                "this server has users, and may not show the runs of all users: use a server of the same log without "
                "user="
            )
            raise ApiError(403, "has_users", message)
        return found

    def add(
        self,
        run: Run[object],
        *,
        title: str | None = None,
        conversation: str | None = None,
        worker: str = "",
        owner: str | None = None,
    ) -> None:
        """Show a run that the program has started.

        Clients can watch it, send into it, pause and cancel it, and answer its approvals.

        If a client resumes the run, its session starts a new run, and ``on_run`` receives it. The run belongs to the
        program: the server does not cancel it when it stops or when the run has no watchers, and does not count it
        among ``max_runs``. A run that is already shown is not added twice.

        Args:
            run: The run; on the server's event loop.
            title: The title in the list; by default the run's input.
            conversation: The id of its conversation, for example that of a chat; by default that of an earlier run of
                the same session, or a new one.
            worker: The worker's name in the list; by default that of the run, or ``program``.
            owner: The user who owns the run, as ``user`` returns it.

        Raises:
            LocalProtocolError: The run lives on another event loop, its conversation is that of another session, or it
                has not ``started``.
            ConfigurationError: It is not a run; or the server has users and no owner is given, or an owner is given and
                the server has no users.
        """
        if not isinstance(run, Run):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise ConfigurationError(f"run is {run!r:.60}; give it like this: add(worker.run(...))")
        if asyncio.get_running_loop() is not run.loop:
            message = "the run lives on another event loop: begin it on the server's, or run a server on the run's"
            raise LocalProtocolError(message)
        if run.state.status == "new":
            raise LocalProtocolError("the run is not loaded yet: add(await run.started())")
        if self.has_users and owner is None:
            raise ConfigurationError("the run needs an owner: add(run, owner=...) with a name that user= returns")
        if owner is not None and not self.has_users:
            raise ConfigurationError("owner= needs a server with users: give it user=...")
        check_owner(owner)
        if (known := self.store.get(run.id, owner)) is not None:
            if known.here is None and not known.conversation.has_session:  # from the log
                known.here, known.is_added = run, True
                known.conversation.use(session_of(run))
                known.changed()
            return
        entry = self._conversation_of(run, conversation, worker or session_of(run).name or "program", owner)
        first = first_event(run)
        resumes = first.resumes if isinstance(first, RunResume) else ""
        before = self.store.get(resumes, owner)
        if title is None:
            known = first if isinstance(first, RunStart | RunResume) else run.state
            title = title_of(last_input(known.conversation.messages)) if before is None else before.info.row.title
        self.store.keep(run, entry, title, resumes=resumes, is_added=True)

    def _conversation_of(self, run: Run[object], name: str | None, worker: str, owner: str | None) -> ConversationEntry:
        known = self.store.conversation_of(run)
        if known is None and name is not None:
            known = self.store.conversation(name, owner)
        if known is None:
            return ConversationEntry(name or new_conversation(), worker, session_of(run), owner)
        is_other = not known.has_session or known.session is not run.session
        if known.owner != owner or is_other or name not in (None, known.id):
            raise LocalProtocolError("a conversation has one session and one owner: give the run another conversation")
        return known

    def publish(self, published: Published[Any]) -> abc.DisposableBase:
        """Serve a stream to clients: over server-sent events, the WebSocket, and as a Durable Stream.

        It belongs to the program: the server does not close it.

        Args:
            published: The stream; on the server's event loop. On a server with users it needs ``publish(...,
                user=...)``.

        Returns:
            Disposing it ends that for new clients.

        Raises:
            LocalProtocolError: It lives on another event loop.
            ConfigurationError: It is not a published stream, or there is one of this name for the same user; or the
                server has users and the stream names none, or the other way round.
        """
        served = self.published.add(published)
        try:
            check_loop(published)
        except LocalProtocolError:
            served.dispose()
            raise
        return served

    async def share(
        self,
        run: str = "",
        *,
        board: str = "",
        conversation: str = "",
        call: str = "",
        until: float | None = None,
        owner: str | None = None,
    ) -> NewLink:
        """Make a read-only link: to a run with its dashboards.

        Or to one dashboard, of the run, of a conversation, or of all runs. Or a link with which the result of a call in
        the background is delivered once, and nothing is read.

        Args:
            run: The id of the run.
            board: The name of the dashboard.
            conversation: The id of the conversation.
            call: The id of the call, as for `EventLog.deliver`. To the ``path`` of the link a program posts
                ``{"result": ...}``.
            until: When the link ends, in seconds since the epoch; by default not before it is revoked:
                ``state.links.revoke(link.id)``.
            owner: The user who owns what is shown, if the server has users.

        Returns:
            The link, and its token, which is not stored. Its ``path`` comes after the address of the server.

        Raises:
            ConfigurationError: The arguments do not fit each other, or the end is not in the future.
            ApiError: There is no such run, conversation or dashboard, or there are too many links.
            LogError: The log cannot be read or written.

        Example:
            >>> from rxworker.testing import ScriptedModel
            >>> async def main() -> None:
            ...     state = ServerState(Worker(ScriptedModel([])))
            ...     new = await state.share(board="runs")
            ...     print(new.path.startswith("shared#link=rxl_"), [link.board for link in await state.links.of()])
            >>> asyncio.run(main())
            True ['runs']
        """
        check_owner(owner)
        shown = Shown(run=run, board=board, conversation=conversation, call=call)
        runs = Runs(self.store, self.workers, owner)
        if board:
            self.boards.find(board)
        if run:
            await runs.find(await outermost_id(self.store.log, run) if call else run)
        if conversation:
            runs.existing(conversation)
        return await self.links.make(shown, owner=owner, until=until)

    async def start(self) -> None:
        """Begin the published streams, load the runs of the log, follow it, and recover runs whose process has ended.

        Raises:
            LocalProtocolError: A published stream lives on another event loop.
        """
        self.published.begin()
        if (log := self.store.log) is not None:
            changes = log.changes(limit=self.settings.max_kept)
            await self._note_stored(changes)
            loop = asyncio.get_running_loop()
            self._tasks = [
                loop.create_task(self._follow(log, changes), name="follow the log"),
                loop.create_task(self._recover(log), name="recover runs"),
            ]
        if self._on_alert is not None:
            self.boards.report(self._on_alert)
        self._obstacle = ""

    async def _note_stored(self, changes: AsyncGenerator[list[RunInfo], None]) -> None:
        """Note the runs that come before the changes."""
        stored: list[RunInfo] = []
        async for infos in changes:
            if not infos:
                break
            stored += infos
        for info in sorted(stored, key=lambda info: info.began):
            self.store.note(info)

    async def _follow(self, log: EventLog, changes: AsyncGenerator[list[RunInfo], None]) -> None:
        """Follow the log for as long as the server runs; after an error, begin again with what is stored."""
        while True:
            try:
                async with aclosing(changes):
                    if self._obstacle:
                        await self._note_stored(changes)
                        self._obstacle = ""
                    async for infos in changes:
                        for info in infos:
                            self.store.note(info)
                self._obstacle = LOG_FAILED
                return  # the program has closed the log
            except Exception as error:  # also a defect must not leave the list as it is, silently
                self._obstacle = LOG_FAILED
                log_error("the log cannot be read", error)
            await asyncio.sleep(log.lease / 3)
            changes = log.changes(limit=self.settings.max_kept)

    async def _recover(self, log: EventLog) -> None:
        """Recover runs for as long as the server runs."""
        while True:
            try:
                async with aclosing(recover_all(log, self._worker_for)) as runs:
                    async for run in runs:
                        await self._recovered(log, run)
            except RxWorkerError as error:
                logger.warning("runs cannot be recovered now: %s", error)
            except Exception as error:  # a defect must not end all recoveries, silently
                log_error("runs cannot be recovered now", error)
            await asyncio.sleep(log.lease / 3)

    def _worker_for(self, info: RunInfo) -> Worker | None:
        """The worker that recovers a run; ``None`` if this server has no such worker."""
        entry = self.store.note(info)
        if entry is None or not self.workers.can_make(info.row.worker):
            return None
        try:
            _, worker = self.workers.make(info.row.worker)
        except MakeWorkerError as error:
            log_error(f"{info.run_id} is not recovered", error, run=info.run_id)
            return None
        if isinstance(worker, QueuedWorker):
            return None  # other processes run it
        worker.name = info.row.worker
        return worker

    async def _recovered(self, log: EventLog, run: Run[object]) -> None:
        info = await log.info(run.id)
        entry = None if info is None else self.store.note(info)
        if entry is None:
            return
        entry.here, session = run, session_of(run)
        session.labels.update(entry.conversation.labels)
        entry.conversation.use(session)
        entry.changed()

    def begin_close(self) -> None:
        """Answer ``/readyz`` with 503 from now on. Everything else continues until `close`."""
        self._is_closing = True

    async def close(self) -> None:
        """Cancel the runs of clients, send their last records, and close all connections.

        Runs of a log are handed over.
        """
        self.begin_close()
        if self._fleet is not None:
            await self._fleet.close()
        tasks = [*self._tasks, *self._reruns]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.boards.close()
        if self._on_alert is not None:
            await self._on_alert.close()
        self.links.close()
        await self.store.close()
        await asyncio.gather(*[close() for close in self.sockets], return_exceptions=True)
        await self.streams.close()
        self.store.forget()


def check_owner(owner: str | None) -> None:
    """Check that the name of a user is one.

    Raises:
        ConfigurationError: It is not.
    """
    if owner is not None and not (isinstance(owner, str) and owner):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        raise ConfigurationError(f"owner={owner!r:.60}: give the name of a user")
