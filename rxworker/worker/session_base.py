"""What a session keeps between its runs, and how a run of it begins and ends.

Theory of operation. A session is free, has a current run, or has a paused run that waits. A run is current as soon as
it is made, also while it loads what it begins with. It changes its own conversation and shared state; `_ended` takes
them over, however the run has ended. A run that begins forgets the paused run, whose open calls get an error as their
result. What surprises: a run that could not be loaded leaves the session as it was, and a run whose event loop was
closed never ends, so that the next run continues what it has left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any

from reactivex import Observable, abc

from rxworker.errors import ConfigurationError, LocalProtocolError, SessionBusyError
from rxworker.events import Event, Record, RunAbort, RunStart
from rxworker.hooks.points import REQUIRES_APPROVAL
from rxworker.hub.history import History
from rxworker.log.base import EventLog
from rxworker.log.kept import conversation_of
from rxworker.log.permissions import Pair, allowed_in, own_of, set_given
from rxworker.log.recover import dismiss_run
from rxworker.log.replay import keep_task
from rxworker.log.values import CONVERSATION, RunInfo, RunRow, new_id, recorded_labels
from rxworker.messages import Conversation, Json, Message
from rxworker.messages.settings import check_type
from rxworker.resume.stored import LoggedRun, digests_of, title_of
from rxworker.run.run import Beginning, Run
from rxworker.run.virtual import VirtualLoop, scheduler_of_run
from rxworker.state import RunState, step_run
from rxworker.timeline import TextBlockCollector, Timeline, ToolCallCollector
from rxworker.transport.base import ACCOUNT
from rxworker.transport.clock import loop_clock
from rxworker.turn.account import RunAccount
from rxworker.turn.background import Background
from rxworker.turn.call_tools import hook_scope
from rxworker.turn.context import RunContext, TurnScope, settings_of
from rxworker.turn.journal import Journal
from rxworker.turn.result import Output, Paused, RunResult
from rxworker.watchdog import running_loop
from rxworker.worker.definition import Definition

_LONG = 4_096
"""The number of records of a run whose history is not kept."""


class Collected:
    """The built-in collectors, which are made and fold the records of the last run when they are read.

    A run whose collectors are not read costs nothing. The history of a long run is folded at its end, so that little is
    kept until the next one begins.
    """

    _history: History | None = None
    _seq = 0

    @cached_property
    def text_collector(self) -> TextBlockCollector:
        """The text blocks."""
        return TextBlockCollector(self._read)

    @cached_property
    def tool_call_collector(self) -> ToolCallCollector:
        """The tool calls."""
        return ToolCallCollector(self._read)

    @cached_property
    def _timeline(self) -> Timeline:
        timeline = Timeline(ends_with_stream=True)
        timeline.on_text_block(self.text_collector)
        timeline.on_tool_use_block(self.tool_call_collector)
        return timeline

    def begin(self, history: History, first_seq: int) -> None:
        """Another run begins: forget the records of the last one. What was stored of this one is not collected."""
        self._history, self._seq = history, history.last_seq
        if "_timeline" in self.__dict__:  # something was collected
            self.text_collector.clear()  # which reads what is new
            self.tool_call_collector.clear()
            self._timeline.abort_current_block()
        self._seq = first_seq - 1

    def end(self) -> None:
        """The run has ended: read the rest of a long history, and forget it."""
        history = self._history
        if history is not None and history.last_seq - self._seq > _LONG:
            history.pack()  # as the hub will, so that the deltas are merged once
            self._read()
            self._history = None

    def _read(self) -> None:
        """Give the records that are new since the last reading to the collectors."""
        history = self._history
        if history is None or history.last_seq == self._seq:
            return
        records = history.merged(self._seq)
        self._seq = history.last_seq
        self._timeline.dispatch_many([record.event for record in records if not record.path])


logger = logging.getLogger("rxworker.worker")

LOOP_CLOSED = RunAbort("cancel", "its event loop was closed under it")


class SessionBase:
    """What a session keeps; see `rxworker.Session`, which adds what begins its runs."""

    def __init__(
        self,
        worker: Definition,
        conversation: Conversation | None = None,
        *,
        shared_state: Json = None,
        allowed: Iterable[tuple[str, str]] = (),
        log: EventLog | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.worker = check_type("worker", worker, Definition, "Session(Worker(...))")
        if conversation is not None:
            check_type("conversation", conversation, Conversation, "conversation=Conversation((message,))")
        self.conversation = worker.initial_conversation if conversation is None else conversation
        self.shared_state = worker.initial_state if shared_state is None else shared_state
        self.allowed = list(allowed)
        self._log = None if log is None else check_type("log", log, EventLog, "log=MemoryLog()")
        self.labels = dict(check_type("labels", labels, Mapping, "labels={'tenant': 'acme'}")) if labels else {}
        self._name = ""
        self.timeline = worker.timeline.child()
        self._collected = Collected()
        self._current: Run[object] | None = None
        self._conversation = self._last = ""
        self.paused: Paused[object] | None = None
        self._paused_output: Output[object] | None = None
        self._background: dict[str, Background] = {}  # what goes on while a run without a log is paused
        self._resumed: set[str] = set()
        self._observers: list[abc.ObserverBase[Run[object]]] = []

    @property
    def name(self) -> str:
        """The name of the worker in the log: that which the session was given, or that of the worker."""
        return self._name or self.worker.name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def log(self) -> EventLog | None:
        """The log of its runs: its own, or that of the worker."""
        return self._log or self.worker.log

    @property
    def run_labels(self) -> dict[str, str]:
        """The labels of its next run: those of the worker, its own, and which conversation the run continues."""
        known = {CONVERSATION: self._conversation} if self._conversation else {}
        return {**known, **self.worker.labels, **self.labels}

    def go_on_from(self, state: RunState, allowed: Iterable[tuple[str, str]] = ()) -> None:
        """Go on after a run that was not one of this session, such as a stored one.

        The next run continues its conversation and its shared state. A run of this session no longer waits.

        Args:
            state: The state of that run at its end.
            allowed: The tools that a person always allows there; they replace those of this session.
        """
        self.conversation, self.shared_state = state.conversation, state.shared_state
        self.paused = self._paused_output = None
        self._conversation = self._last = ""
        self.allowed[:] = allowed

    async def go_on_after(self, last: RunInfo, state: RunState) -> None:
        """Go on after a stored run of the log of this session: as `go_on_from`, with what is allowed there.

        Args:
            last: The stored run, the last one of its conversation.
            state: The state of that run at its end.

        Raises:
            ConfigurationError: There is no log.
            LogError: The log cannot be read.
        """
        self.go_on_from(state, await own_of(self._expect_log("go_on_after"), last.run_id, last.row))
        self._conversation, self._last = conversation_of(last.row.labels, last.run_id), last.run_id

    async def allowed_now(self) -> tuple[Pair, ...]:
        """What is always allowed in the conversation now, each tool with the hook that pauses no run for it.

        What the program allows, and what is decided, in any process.

        Raises:
            LogError: The log cannot be read.
        """
        allowed = tuple(self.allowed)
        if self.log is None:
            return allowed
        return await allowed_in(self.log, self._run_id, RunRow(labels=self.run_labels, allowed=allowed))

    async def allow(self, tool: str, hook: str = REQUIRES_APPROVAL) -> None:
        """Always allow calls of a tool in this conversation.

        A call that waits is decided about with `ApproveAlways` instead.

        Args:
            tool: The name of the tool.
            hook: The name of the hook that then pauses no run for it; by default the policy of the tool.

        Raises:
            LogError: The log cannot be written.
        """
        await _give(self, (tool, hook), is_allowed=True)

    async def disallow(self, tool: str, hook: str = REQUIRES_APPROVAL) -> None:
        """Withdraw that: calls of the tool wait for approval again, from the next one on.

        With a log, in all processes; see `withdraw`.

        Raises:
            LogError: The log cannot be written.
        """
        await _give(self, (tool, hook), is_allowed=False)

    def inherit(self, before: SessionBase) -> None:
        """Take the place of another session of the same conversation.

        What is decided there holds here, where no log has it.
        """
        self._conversation, self._last = before._conversation, before._last
        if self.log is None:
            self.allowed[:] = before.allowed

    @property
    def _run_id(self) -> str:
        """The id of its last run: a conversation without a label is known by it, and its row shows what is allowed."""
        return self._last if self._current is None else self._current.id

    def _start(
        self,
        added: tuple[Message, ...],
        output: Output[object] | None = None,
        log: EventLog | None = None,
        run_id: str = "",
    ) -> Run[Any]:
        """Begin a run with an input.

        Args:
            added: The input.
            output: The type of the answer, if one is requested.
            log: The log of the run that it is nested in, if that has one.
            run_id: The id of the run, if it has one.
        """
        self.worker.check_matchers()
        conversation = self.worker.continued(self.conversation, added)
        log = self.log or log
        stored = None
        if log is not None:
            row = self._row(title_of(conversation.messages[-len(added) :]))
            stored = LoggedRun(log, row, before=self.conversation)
        digests = {} if stored is None else digests_of(self.worker.tools)
        form = None if output is None else output.format
        labels = recorded_labels(self.run_labels)
        start = RunStart(conversation, len(added), digests, self.worker.traceparent(), form, labels, self.name)
        begin = Beginning(
            (start,), TurnScope(), allowed=self.allowed, output=output, shared_state=self.shared_state, stored=stored
        )
        return self._begin(begin, run_id)

    def _row(self, title: str, *, resumes: str = "") -> RunRow:
        return RunRow(title=title, worker=self.name, resumes=resumes, labels=self.run_labels)

    def _expect_log(self, call: str) -> EventLog:
        if self.log is None:
            raise ConfigurationError(f"worker.{call}() needs a log: Worker(..., log=SQLiteLog('runs.db'))")
        return self.log

    def _begin(
        self,
        begin: Beginning | Callable[[], Awaitable[Beginning]],
        run_id: str = "",
        source: Observable[Event] | None = None,
    ) -> Run[Any]:
        """Begin a run.

        Args:
            begin: What it begins with, or a function that loads that.
            run_id: Its id; by default one is made.
            source: Its events, if another program performs it.
        """
        worker, loop, account = self.worker, asyncio.get_running_loop(), ACCOUNT.get()
        around = account if isinstance(account, RunAccount) and account.is_open else None
        # A run in the loop of another thread is counted, and is otherwise on its own.
        is_here = around is not None and around.context.journal.hub.loop is loop
        outer = around.context if around is not None and is_here else None
        clock = loop.time if isinstance(loop, VirtualLoop) else time.time
        budgets = () if outer is None else outer.budgets
        if worker.budget is not None and worker.budget not in budgets:
            budgets = (worker.budget, *budgets)
        context = RunContext(
            worker=settings_of(worker),
            timeline=self.timeline,
            options=worker.options,
            scheduler=loop_clock() if worker.scheduler is None else scheduler_of_run(worker.scheduler),
            journal=Journal(run_id or new_id(), clock, loop),
            parents=() if outer is None else outer.line,
            budgets=budgets,
            conversation=self.labels.get(CONVERSATION) or worker.labels.get(CONVERSATION) or self._conversation,
            source=source,
        )
        run = Run(self, context, begin, self._began, self._ended, loop)
        self._current = run  # while it is loaded, too
        if around is not None and around.of != "call":
            _follow(run, around.context, is_here=is_here)
        return run

    def _began(self, run: Run[object]) -> None:
        self._current = run
        self.paused = self._paused_output = None
        if run._context.background.is_carried or self._background:
            _go_on(self, run._context)
        self._collected.begin(run._journal.hub.history, run.first_seq)
        if self.worker.tracing is not None and self.worker.performs:
            _report(self.worker.tracing, run, "tracing")
        for observer in tuple(self._observers):
            _report(observer.on_next, run, "an observer of runs")

    async def dismiss(self, run_id: str, reason: str) -> None:
        """End a paused run of this conversation, so that it can no longer be resumed.

        Without a log the calls in its background are cancelled, which no process would await.

        Args:
            run_id: The id of the run.
            reason: Shown to users; not interpreted. It becomes the reason in the list of a log.

        Raises:
            CommandConflictError: It was decided about before.
            RunStatusError: It is not paused.
            LocalProtocolError: There is no log, and it is not the run that this session has paused.
            LogError: The log cannot be read or written.
        """
        is_last = self.paused is not None and self.paused.run_id == run_id
        if is_last:
            self.paused = None
        if self.log is not None:
            await dismiss_run(self.log, run_id, reason)
            return
        left = self._background.pop(run_id, None)
        if not is_last and left is None:
            raise LocalProtocolError(
                f"{run_id} is not a paused run of this session: it was resumed or dismissed, another run has begun "
                "since, or its id is another one"
            )
        self._resumed.add(run_id)
        if left is not None:
            await left.stop()

    def _ended(self, context: RunContext, result: RunResult[object] | None) -> None:
        state = context.journal.state
        self._current = None
        self._collected.end()
        if state.status == "new":
            return  # it could not be loaded
        self._conversation, self._last = context.conversation_id, context.journal.run_id
        self.conversation, self.shared_state = state.conversation, state.shared_state
        writer = context.journal.writer
        if writer is not None and writer.error is None:
            writer.log.bases.note(state.conversation, context.journal.run_id, writer.stored_seq)
        self.paused = result if isinstance(result, Paused) else None
        self._paused_output = None if self.paused is None else context.output
        if self.paused is not None and state.background:
            kept = self._background if writer is None else writer.log.in_background
            kept[context.journal.run_id] = context.background
            if writer is not None:
                keep_task(context.background.outlive(writer.log, context.journal.run_id))

    def _check_free(self, call: str) -> None:
        if running_loop() is None:
            in_script = "worker.run_sync(...)" if call == "run" else f"worker.in_script(worker.{call}, ...)"
            message = f"worker.{call}() needs a running event loop; in a script use {in_script}"
            raise LocalProtocolError(message)
        current = self._current
        if current is None or current.done():
            return
        if current.loop.is_closed():
            # Its event loop was closed before it ended; the conversation until then is kept.
            self._current = None
            if current.state.status != "new":  # it was loaded
                closed = Record(current.state.seq + 1, current.id, 0, 0, 0.0, LOOP_CLOSED)
                last = step_run(current.state, closed)
                self.conversation, self.shared_state = last.conversation, last.shared_state
            return
        message = (
            f"this session is busy with {current.id}: await it, cancel it, or begin another one with Session(worker)"
        )
        raise SessionBusyError(message)


async def _give(session: SessionBase, pair: Pair, *, is_allowed: bool) -> None:
    run = session._current
    if session.log is None:
        for allowed in (session.allowed, *(() if run is None else (run.allowed,))):
            allowed[:] = [each for each in allowed if each != pair] + [pair] * is_allowed
    else:
        if run is None and not session._conversation:  # what is allowed is looked up by it
            session._conversation = conversation_of({}, new_id())
        await set_given(session.log, session.run_labels, pair, session._run_id, is_allowed=is_allowed)


def _go_on(session: SessionBase, context: RunContext) -> None:
    """Let a run that resumes a paused one adopt its calls in the background; another run of the session ends them.

    With a log they go on, since any session may resume that run.
    """
    resumes, writer = context.journal.resumes, context.journal.writer
    left = session._background.pop(resumes, None) if writer is None else writer.log.in_background.get(resumes)
    for other in session._background.values():
        keep_task(other.stop())
    session._background = {}
    if isinstance(left, Background):
        context.background.adopt(left, hook_scope(context, TurnScope(variables=context.variables)))


def _report(observe: Callable[[Run[object]], object], run: Run[object], to: str) -> None:
    try:
        observe(run)
    except BaseException as error:
        logger.warning("run %s is not reported to %s", run.id, to, exc_info=True, extra={"run": run.id})
        if isinstance(error, KeyboardInterrupt):
            run._driver.interrupt(error)


def _follow(run: Run[object], outer: RunContext, *, is_here: bool) -> None:
    """Relay the records of a run that a hook or a stage has begun, and end it where the outer run is cut short."""
    journal, end = outer.journal, partial(run.cancel, reason="the outer run was cancelled")

    def relay(record: Record) -> None:
        journal.hub.call_in_loop(partial(journal.relay, run.id, record))

    def ended(_: object = None) -> None:
        outer.children.discard(end)

    if is_here:
        outer.children.add(end)
    run.subscribe(relay, ended, ended)
