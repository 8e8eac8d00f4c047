"""A session: one conversation of a worker, with its shared state, its permissions, and the run that is on or waits.

Theory of operation. A session is free, has a current run, or has a paused run that waits. A run is current as soon as
it is made, also while it loads what it begins with. It changes its own conversation and shared state; `Session._ended`
takes them over, however the run has ended. A run that begins forgets the paused run, whose open calls get an error as
their result. What surprises: a run that could not be loaded leaves the session as it was, and a run whose event loop
was closed never ends, so that the next run continues what it has left.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxworker.errors import (
    CommandConflictError,
    ConfigurationError,
    LeaseHeldError,
    LocalProtocolError,
    LogError,
    RunStatusError,
    SessionBusyError,
)
from rxworker.events import (
    Record,
    RunAbort,
    RunRecover,
    RunStart,
)
from rxworker.hooks.points import REQUIRES_APPROVAL
from rxworker.hub.watcher import running_loop
from rxworker.log.base import EventLog, claim_or_release, release_shielded
from rxworker.log.conversations import conversation_of
from rxworker.log.permissions import Pair, allowed_in, grant, own_of, set_given
from rxworker.log.recover import end_nested, resumed_id
from rxworker.log.transfer import fork_run
from rxworker.log.values import CONVERSATION, Claim, RunInfo, RunRow, recorded_labels
from rxworker.messages import Conversation, Json, Message, repair
from rxworker.messages.input import Input, to_messages
from rxworker.messages.settings import check_plain
from rxworker.operators.kernel import Unstaged
from rxworker.state import RunState, step_run
from rxworker.state.shared_state import checked_json
from rxworker.timeline import TextBlockCollector, ToolCallCollector
from rxworker.transport.base import ACCOUNT
from rxworker.worker.account import RunAccount
from rxworker.worker.arguments import check_no_loop, expect, expect_several, optional
from rxworker.worker.collected import Collected
from rxworker.worker.context import RunContext, TurnScope, continues, settings_of
from rxworker.worker.decisions import Decided, Decisions, PendingCalls, granted_by
from rxworker.worker.definition import Definition
from rxworker.worker.journal import Journal
from rxworker.worker.limits import Budget
from rxworker.worker.output import Output, output_of
from rxworker.worker.paused import RESERVED, decide_command, decision_of, resume_turn
from rxworker.worker.recovery import (
    Continuation,
    continue_run,
    ending_of,
    is_forked,
    open_response_of,
    progress_of,
    will_be_cancelled,
)
from rxworker.worker.result import Paused, R, RunResult, T
from rxworker.worker.run import Beginning, Run
from rxworker.worker.stored import (
    LoadedRun,
    LoggedRun,
    check_tools,
    digests_of,
    last_input,
    read_run,
    title_of,
    tools_in,
)
from rxworker.worker.stream import RunStream
from rxworker.worker.virtual import record_clock, run_in, scheduler_of_run

logger = logging.getLogger("rxworker.worker")

P = ParamSpec("P")
S = TypeVar("S", bound="SessionVerbs")
ClaimFn: TypeAlias = Callable[[str], bool]

ADD = "add=[Message.user('...')]"
LOOP_CLOSED = RunAbort("cancel", "its event loop was closed under it")


def _in_script(
    verb: Callable[Concatenate[S, P], Run[R]],
) -> Callable[[Callable[..., None]], Callable[Concatenate[S, P], RunResult[R]]]:
    """The same verb for a script without a running event loop: it returns the result of the run.

    What is decorated gives it a name and a description.
    """
    name, signature = verb.__name__, inspect.signature(verb)
    result = signature.return_annotation.replace("Run[", "RunResult[", 1)

    def named(described: Callable[..., None]) -> Callable[Concatenate[S, P], RunResult[R]]:
        @wraps(described)
        def in_script(self: S, *args: P.args, **options: P.kwargs) -> RunResult[R]:
            check_no_loop(described.__name__, f"await worker.{name}(...)")
            own = getattr(self, name)  # that of a subclass, if it has one
            begin = partial(own, *args, **options)
            return run_in(self.session.worker.scheduler, _complete(begin))

        in_script.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined] - inspect reads it
        return in_script

    return named


class SessionVerbs:
    """The verbs of a session, which a worker has for its own session, too."""

    @property
    def session(self) -> Session:
        """The session."""
        raise NotImplementedError

    @property
    def runs(self) -> Observable[Run[Any]]:
        """The runs of the session, each when it begins; see `Session.runs`.

        Those that are stored, and those of other sessions, are in ``log.runs()``.
        """
        return self.session.runs

    @property
    def text_collector(self) -> TextBlockCollector:
        """The text blocks of the responses of the last run, folded from its records when they are read."""
        return self.session._collected.text_collector

    @property
    def tool_call_collector(self) -> ToolCallCollector:
        """The tool calls of the responses of the last run, folded from its records when they are read."""
        return self.session._collected.tool_call_collector

    def run(self, input: Input, *, output: type[T] | None = None) -> Run[T]:  # noqa: A002
        """Start a run with this input. It continues by itself; `Run` describes how to watch it.

        Args:
            input: A text, a message, or several: messages as they are, or the content of one message of the user's.
            output: The type of the answer. The request requires JSON in the provider's own way, an answer that does not
                fit is sent back with what is wrong, and the result holds the value.

        Raises:
            SessionBusyError: A run of this session has not ended.
            LocalProtocolError: No event loop runs; in a script use ``run_sync``.
            ConfigurationError: The input is invalid, or the output has no JSON schema.
        """
        added = to_messages(input)
        session = self.session
        session._check_free("run")
        waiting = session.paused
        run = session._start(added, output_of(output))
        # Paused calls that were never resumed get an error result, and cannot be resumed later.
        if waiting is not None:
            session._resumed.add(waiting.run_id)
        return run

    @_in_script(run)
    def run_sync(self) -> None:
        """Run to the end in a script without a running event loop.

        Ctrl-C cancels the run, keeps the conversation, and raises ``KeyboardInterrupt``.

        Raises:
            LocalProtocolError: An event loop runs; there ``await worker.run(...)``.
        """

    def stream_sync(self, input: Input, *, output: type[T] | None = None) -> RunStream[T]:  # noqa: A002
        """Start a run in a script without a running event loop, and read its events with a ``for`` loop.

        The run has an event loop in another thread; hooks, handlers and tools run there. ``break``, an exception,
        Ctrl-C and ``close`` cancel the run and keep the conversation. A stream that was read to its end has the
        ``result``.

        Raises:
            LocalProtocolError: An event loop runs; there ``async for record in worker.run(...)``.
            SessionBusyError: A run of this session has not ended.
            ConfigurationError: As for ``run``.

        Example:
            >>> from rxworker import Worker
            >>> from rxworker.events import TextDelta
            >>> from rxworker.testing import ScriptedModel
            >>> for event in Worker(ScriptedModel(["Hello!"])).stream_sync("Hi"):
            ...     if isinstance(event, TextDelta):
            ...         print(event.text, end="")
            Hello!
        """
        check_no_loop("stream_sync", "async for record in worker.run(...)")
        begin = partial(self.run, input, output=output)
        return RunStream(begin, self.session.worker.scheduler)

    def resume(
        self,
        paused: Paused[Any] | None = None,
        *,
        decisions: Decisions | None = None,
        add: Sequence[Message] = (),
        claim: ClaimFn | None = None,
        shared_state: Json = None,
        output: type[R] | None = None,
    ) -> Run[R]:
        """Resume a paused run as a new run.

        The call that it was paused at is approved as it was shown in `Paused.pending`, unless decisions are given.
        Hooks that have not run for a call run before it starts: the hooks after the one that paused, all hooks for the
        later calls, and all but that one for a call with other arguments. At the end of a turn the hooks after the one
        that paused run.

        Args:
            paused: The paused run; by default the last run of this session. A saved run may come from another process.
            decisions: The decisions about pending calls: `Approve`, `Deny` or `Answer`, by the ids of the calls, or one
                for each call of ``pending`` in order, ``None`` for no decision. The call that the run paused at must be
                among them.
            add: Messages to add to the conversation; with them a run that was paused at the end of a turn continues.
            claim: For several processes that may hold the same saved run: called once with its id, and returns whether
                this process may resume it, for example by inserting the id into a table where it must be unique.
            shared_state: Replaces the shared state of the paused run.
            output: The type of the answer; by default that of the run that was paused. If this session did not run it
                last, only the schema of that is known, and the value is JSON.

        Raises:
            LocalProtocolError: Nothing is paused, it was resumed already or by another process, another run has started
                since, a call was changed other than by its decision, a decision is for no pending call or for several
                of one id, or there is none for the call that the run paused at.
            ConfigurationError: An argument has the wrong type.
            SessionBusyError: A run of this session has not ended.
        """
        check_plain("claim", claim)
        self.session._check_free("resume")
        waiting = self.session.paused if paused is None else paused
        if waiting is None:
            raise LocalProtocolError("nothing is paused: resume() needs a run whose result is Paused")
        session, form = self.session, output_of(output)
        given = Decided(decisions, session._mapped(add), shared_state)
        session._check_matchers()
        if session.log is not None and granted_by(PendingCalls.of(waiting.pause), given):
            # What is always allowed counts when the decision does, which the log knows.
            begin = partial(session._decide, session.log, waiting.run_id, given, form)
            return session._begin(begin, resumed_id(waiting.run_id))
        return session._begin(session._resume(waiting, given, form, claim=claim))

    @_in_script(resume)
    def resume_sync(self) -> None:
        """Resume a paused run, to its end, in a script without a running event loop; otherwise as ``resume``.

        Raises:
            LocalProtocolError: An event loop runs; there ``await worker.resume(...)``. Or as for ``resume``.
            ConfigurationError: As for ``resume``.
            SessionBusyError: As for ``resume``.
        """

    def decide(
        self,
        run_id: str,
        decisions: Decisions | None = None,
        *,
        add: Sequence[Message] = (),
        shared_state: Json = None,
        output: type[R] | None = None,
    ) -> Run[R]:
        """Resume a stored paused run as a new run.

        The decisions are stored first: they are made once, and survive the end of this process.

        Args:
            run_id: The id of the paused run.
            decisions: As for ``resume``.
            add: As for ``resume``.
            shared_state: As for ``resume``.
            output: As for ``resume``. It is not stored with the decisions.

        Returns:
            The run. Awaiting it, or `Run.started`, raises also what follows if the run cannot be resumed.

        Raises:
            CommandConflictError: It was decided about before, here or in another process.
            LocalProtocolError: The run is not paused, or as for ``resume``.
            ConfigurationError: There is no log, or as for ``resume``.
            SessionBusyError: A run of this session has not ended.
            LogError: The log has no such run, or cannot be read or written.
        """
        session = self.session
        session._check_free("decide")
        log, form = session._expect_log("decide"), output_of(output)
        given = Decided(decisions, session._mapped(add), checked_json(shared_state))
        waiting = session.paused
        if waiting is not None and waiting.run_id == run_id:  # known here, so refused at once
            resume_turn(waiting, given, session.worker.hooks, session.worker.tools)
            granted_by(PendingCalls.of(waiting.pause), given)
        begin = partial(session._decide, log, run_id, given, form)
        return session._begin(begin, resumed_id(run_id))

    @_in_script(decide)
    def decide_sync(self) -> None:
        """Resume a stored paused run, to its end, in a script without a running event loop; otherwise as ``decide``.

        Raises:
            LocalProtocolError: An event loop runs; there ``await worker.decide(...)``. Or as for ``decide``.
        """

    def recover(
        self,
        run_id: str,
        *,
        reason: str = "",
        claim: Claim | None = None,
        output: type[R] | None = None,
    ) -> Run[R]:
        """Continue a stored run that is queued, or whose process has ended, in the same sequence of records.

        A paused run whose decisions are stored is resumed.

        A response that was cut is retracted and requested again; one in the background is continued. No call that has
        ended is made again; see ``effect`` and ``reconcile`` of `tool`, and ``on_unknown`` of the worker, for calls
        that were running.

        Args:
            run_id: The id of the run.
            reason: Shown to users; not interpreted. It is in the `RunRecover`.
            claim: The claim of the run, if the caller has claimed it, or that of the new run, if it resumes a paused
                one; it is released if the run cannot be continued.
            output: The type of the answer; by default that of the run, of which the schema is stored: its value is
                JSON.

        Returns:
            The run. It continues by itself, and has all its records from the first. Awaiting it, or `Run.started`,
            raises also what follows if it cannot be continued.

        Raises:
            LeaseHeldError: Its process is alive, or died less than a lease ago.
            LocalProtocolError: The run is neither queued nor running: it has finished, or it is paused. ``load``
                returns its result.
            ConfigurationError: There is no log, or the worker lacks a tool of the run.
            SessionBusyError: A run of this session has not ended.
            LogError: The log cannot be read, or this rxworker is too old for it.
        """
        session = self.session
        session._check_free("recover")
        log, form = session._expect_log("recover"), output_of(output)
        return session._begin(partial(session._recover, log, run_id, reason, claim, form), run_id)

    @_in_script(recover)
    def recover_sync(self) -> None:
        """Continue a stored run, to its end, in a script without a running event loop; otherwise as ``recover``.

        Raises:
            LocalProtocolError: An event loop runs; there ``await worker.recover(...)``. Or as for ``recover``.
        """

    def fork(self, run_id: str, seq: int, *, reason: str = "", output: type[R] | None = None) -> Run[R]:
        """Copy a stored run up to a record into a new run, and continue that.

        Nothing is allowed in it, and what a person has approved in the source needs approval again. The labels are
        those of this session and its worker.

        Args:
            run_id: The id of the source.
            seq: The number of the last record to copy.
            reason: Shown to users; not interpreted. By default it names the source.
            output: As for ``recover``.

        Returns:
            The new run. Awaiting it, or `Run.started`, raises also what follows if it cannot be continued.

        Raises:
            LogError: There is no such run or record, or the log cannot be read or written.
            ConfigurationError: There is no log, or the worker lacks a tool of the run.
            SessionBusyError: A run of this session has not ended.
        """
        session = self.session
        session._check_free("fork")
        log, form = session._expect_log("fork"), output_of(output)
        new = new_id()
        return session._begin(partial(session._fork, log, run_id, seq, new, reason, form), new)

    @_in_script(fork)
    def fork_sync(self) -> None:
        """Fork a stored run, and continue the new one to its end, in a script without a running event loop.

        Otherwise as ``fork``.

        Raises:
            LocalProtocolError: An event loop runs; there ``await worker.fork(...)``. Or as for ``fork``.
        """

    async def load(self, run_id: str) -> RunResult[None]:
        """The result of a stored run that has finished or is paused.

        Raises:
            LocalProtocolError: The run is running, or was aborted.
            ConfigurationError: There is no log.
            LogError: The log has no such run, or cannot be read.
        """
        stored, _ = await self.session._load(run_id)
        return stored.result(run_id)


class Session(SessionVerbs):
    """A conversation with a worker: its messages, its shared state, its permissions, and what waits.

    It has one run at a time.

    A worker serves any number of sessions at once; they share what the worker is, and nothing that a run changes.
    ``worker.session`` is its own one, and ``worker.run(...)`` is ``worker.session.run(...)`` for short.

    Args:
        worker: The worker.
        conversation: The conversation to continue; by default that with which the sessions of the worker begin.
        shared_state: The state that tools and hooks share with user interfaces, at the beginning; by default that of
            the worker.
        allowed: The tools that a person always allows in this conversation, each with the hook that pauses no run for
            it, or ``requires_approval`` for the policy of the tool: as with the hook `always_allow`. What is decided in
            the conversation later counts before them.
        log: The log of its runs; by default that of the worker.
        labels: Stored with each run, beside those of the worker.

    Attributes:
        worker: The worker.
        conversation: The conversation so far; the next run continues it.
        shared_state: The state that tools and hooks share with user interfaces; the next run continues it.
        allowed: The tools that its program always allows, and without a log those that a person does. The next run
            begins with them; afterwards it has its own, see `Run.allowed`. With a log, what is decided in the
            conversation is there, see `allowed_now`; a stored run that is recovered or decided about leaves nothing
            here.
        log: The log of its runs.
        paused: The run that waits, which ``resume`` continues; ``None`` if none does. A run that begins ends that.
        labels: Stored with the next run.
        name: The name of the worker in the log, by default its own.
        timeline: The handlers of the worker, with scopes of this session; handlers that are added to it concern this
            session alone.

    Raises:
        ConfigurationError: An argument is invalid; the message names it.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> worker = Worker(ScriptedModel(["Hello, Ada!", "Hello, Bob!"]))
        >>> async def main() -> None:
        ...     ada, bob = Session(worker), Session(worker)
        ...     await asyncio.gather(ada.run("I am Ada."), bob.run("I am Bob."))
        ...     print(len(ada.conversation.messages), len(bob.conversation.messages))
        >>> asyncio.run(main())
        2 2
    """

    _performs = True  # its runs, of which a queued session stores the beginning alone

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
        self.worker = expect("worker", worker, Definition, "Session(Worker(...))")
        example = "conversation=Conversation((message,))"
        given = optional("conversation", conversation, Conversation, example)
        self.conversation = worker.initial_conversation if given is None else given
        self.shared_state = worker.initial_state if shared_state is None else shared_state
        self.allowed = list(allowed)
        self._log = optional("log", log, EventLog, "log=MemoryLog()")
        self.labels = dict(expect("labels", labels or {}, Mapping, "labels={'tenant': 'acme'}"))
        self._name = ""
        self.timeline = worker.timeline.child()
        self._collected = Collected()
        self._current: Run[Any] | None = None
        self._last = ""
        self.paused: Paused[Any] | None = None
        self._paused_output: Output[Any] | None = None
        self._resumed: set[str] = set()
        self._observers: list[abc.ObserverBase[Run[Any]]] = []

    def __repr__(self) -> str:
        return f"Session({self.worker!r}, messages={len(self.conversation.messages)})"

    @property
    def session(self) -> Session:
        """Itself."""
        return self

    @property
    def runs(self) -> Observable[Run[Any]]:
        """The runs of this session, each when it begins; a late subscriber receives the run that has not ended.

        It does not complete.

        An observer that raises is logged, and does not affect the run.

        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> from rxworker.operators import text_deltas
        >>> from reactivex import operators as ops
        >>> worker = Worker(ScriptedModel(["One. ", "Two."]))
        >>> texts = worker.session.runs.pipe(ops.flat_map(lambda run: run.events), text_deltas())
        >>> subscription = texts.subscribe(lambda text: print(text, end=""))
        >>> for question in ("1?", "2?"):
        ...     result = worker.run_sync(question)
        One. Two.
        """

        def subscribe(observer: abc.ObserverBase[Run[Any]], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            self._observers.append(observer)
            if self._current is not None and self._current.state.status != "new":
                observer.on_next(self._current)
            return Disposable(partial(self._observers.remove, observer))

        return Unstaged(subscribe)

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
        """The labels of its runs: those of the worker, and its own."""
        return {**self.worker.labels, **self.labels}

    def go_on_from(self, state: RunState, allowed: Iterable[tuple[str, str]] = ()) -> None:
        """Go on after a run that was not one of this session, such as a stored one.

        The next run continues its conversation and its shared state. A run of this session no longer waits.

        Args:
            state: The state of that run at its end.
            allowed: The tools that a person always allows there; they replace those of this session.
        """
        self.conversation, self.shared_state = state.conversation, state.shared_state
        self.paused = self._paused_output = None
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
        self._last = last.run_id

    async def allowed_now(self) -> tuple[Pair, ...]:
        """What is always allowed in the conversation now, each tool with the hook that pauses no run for it.

        What the program allows, and what is decided, in any process.

        Raises:
            LogError: The log cannot be read.
        """
        allowed = tuple(self.allowed)
        if self.log is None:
            return allowed
        row = RunRow(labels=self.run_labels, allowed=allowed)
        return await allowed_in(self.log, self._anchor, row)

    async def allow(self, tool: str, hook: str = REQUIRES_APPROVAL) -> None:
        """Always allow calls of a tool in this conversation.

        A call that waits is decided about with `ApproveAlways` instead.

        Args:
            tool: The name of the tool.
            hook: The name of the hook that then pauses no run for it; by default the policy of the tool.

        Raises:
            LogError: The log cannot be written.
        """
        await self._give((tool, hook), is_allowed=True)

    async def disallow(self, tool: str, hook: str = REQUIRES_APPROVAL) -> None:
        """Withdraw that: calls of the tool wait for approval again, from the next one on.

        With a log, in all processes; see `withdraw`.

        Raises:
            LogError: The log cannot be written.
        """
        await self._give((tool, hook), is_allowed=False)

    def inherit(self, before: Session) -> None:
        """Take the place of another session of the same conversation.

        What is decided there holds here, where no log has it.
        """
        if self.log is None:
            self.allowed[:] = before.allowed

    async def _give(self, pair: Pair, *, is_allowed: bool) -> None:
        run = self._current
        if self.log is None:
            for allowed in (self.allowed, *(() if run is None else (run.allowed,))):
                allowed[:] = [each for each in allowed if each != pair] + [pair] * is_allowed
        else:
            self._name_conversation()
            await set_given(self.log, self.run_labels, pair, self._anchor, is_allowed=is_allowed)

    @property
    def _anchor(self) -> str:
        """The id of its last run, by which a conversation without a label is known."""
        return self._last if self._current is None else self._current.id

    def _name_conversation(self) -> None:
        """Note in the later runs which conversation they continue: what is allowed in it is looked up by that."""
        if CONVERSATION not in self.run_labels:
            self.labels[CONVERSATION] = conversation_of({}, self._anchor or new_id())

    def _start(
        self,
        added: tuple[Message, ...],
        output: Output[Any] | None = None,
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
        self._check_matchers()
        conversation = self._continued(added)
        log = self.log or log
        stored = None
        if log is not None:
            row = self._row(title_of(conversation.messages[-len(added) :]))
            stored = LoggedRun(log, row, before=self.conversation)
        digests = {} if stored is None else digests_of(self.worker.tools)
        form = None if output is None else output.format
        labels = recorded_labels(self.run_labels)
        start = RunStart(conversation, len(added), digests, self._traceparent(), form, labels)
        begin = Beginning(
            (start,),
            TurnScope(),
            allowed=self.allowed,
            output=output,
            shared_state=self.shared_state,
            stored=stored,
        )
        return self._begin(begin, run_id)

    def _mapped(self, add: Sequence[Message]) -> tuple[Message, ...]:
        """The messages that are added to a paused run, as they are sent."""
        several = expect_several("add", add, ADD)
        for message in several:
            expect("a message of add", message, Message, ADD)
        return self.worker.mapped(several)

    def _check_matchers(self) -> None:
        """Check that no hook is without effect in the next run, since its matcher is misspelt."""
        hooks = self.worker.hooks
        if hooks.has_matchers and self._performs:
            hooks.check_matchers(self.worker.tools.names)

    def _continued(self, added: tuple[Message, ...]) -> Conversation:
        """The conversation with an input, as it is sent."""
        if self.worker.map_input is not None:
            added = self.worker.mapped(added)
        if added[0].tool_results:  # of calls at the end of the conversation
            return repair(self.conversation.add(*added))
        return repair(self.conversation).add(*added)

    def _row(self, title: str, *, resumes: str = "") -> RunRow:
        labels = self.run_labels
        return RunRow(title=title, worker=self.name, resumes=resumes, labels=labels)

    def _resume(
        self,
        waiting: Paused[Any],
        given: Decided,
        output: Output[Any] | None,
        *,
        claim: ClaimFn | None = None,
        source: RunRow | None = None,
        held: Claim | None = None,
    ) -> Beginning:
        """What the run begins with that resumes a paused one.

        Args:
            waiting: The paused run.
            given: What is decided.
            output: As for ``resume``.
            claim: As for ``resume``.
            source: What a log has of the paused run, if it comes from there: the permissions and the name are those of
                that run, and its recorded labels.
            held: The claim of the run that resumes it, if the caller has claimed it.
        """
        expect("paused", waiting, Paused, "worker.resume(load_paused(data))")
        if output is None and self.paused is not None and self.paused.run_id == waiting.run_id:
            output = self._paused_output
        if output is None and waiting.output_format is not None:
            output = Output.from_format(waiting.output_format)
        first, scope = resume_turn(
            waiting,
            given,
            self.worker.hooks,
            self.worker.tools,
            self._traceparent(),
            None if output is None else output.format,
        )
        pair = granted_by(PendingCalls.of(waiting.pause), given)
        self._check_waits(waiting.run_id)
        shared = given.shared_state
        shared = waiting.shared_state if shared is None else checked_json(shared)
        if claim is not None:
            _check_claim(claim(waiting.run_id), waiting.run_id)
        scope.variables = dict(waiting.variables)
        stored, run = None, new_id()
        labels = self.run_labels if source is None else self._labels_after(source)
        first[0] = replace(first[0], labels=recorded_labels(labels))
        if self.log is not None:
            title = title_of(last_input(waiting.conversation.messages))
            row = self._row(title, resumes=waiting.run_id)
            if source is not None:
                row = replace(row, labels=labels, worker=source.worker or row.worker)
            stored = LoggedRun(self.log, row, held, before=waiting.conversation)
            first[0] = replace(first[0], tools=digests_of(self.worker.tools))
            # Two processes that resume one paused run make one id of it: the log takes the first.
            run = resumed_id(waiting.run_id)
        self._resumed.add(waiting.run_id)
        allowed = [*(self.allowed if source is None else source.allowed)]
        if pair is not None and pair not in allowed:
            allowed.append(pair)
        if source is None:
            self.allowed[:] = allowed
        if self.worker.budget is not None:
            self.worker.budget.carry_over(waiting.run_id, run, waiting.usage)
        return Beginning(
            first,
            scope,
            waiting.called,
            allowed=allowed,
            output=output,
            shared_state=shared,
            stored=stored,
            run_id=run,
        )

    async def _decide(
        self,
        log: EventLog,
        run_id: str,
        given: Decided,
        output: Output[Any] | None,
    ) -> Beginning:
        """What the run begins with that resumes a stored one, after the decisions are stored."""
        paused, row = await self._load_paused(run_id, given)
        if self.paused is not None and self.paused.run_id == run_id:
            paused = self.paused  # with the variables that no log can keep
        self._check_waits(run_id)
        try:
            await log.send(run_id, decide_command(paused, given, reserved=RESERVED))
        except CommandConflictError:
            self.paused = None  # another decision continues it
            raise
        return await self._apply(log, paused, given, output, row)

    async def _apply(
        self,
        log: EventLog,
        paused: Paused[Any],
        given: Decided,
        output: Output[Any] | None,
        row: RunRow,
        held: Claim | None = None,
    ) -> Beginning:
        """What the run begins with that resumes a stored one, after what its stored decision always allows is granted.

        Each process that resumes it does the same.
        """
        pair = granted_by(PendingCalls.of(paused.pause), given)
        if pair is None:
            return self._resume(paused, given, output, source=row, held=held)
        if self.paused is not None and self.paused.run_id == paused.run_id:
            self._name_conversation()
        # Nothing is granted where another process has resumed it without this decision.
        claim = held or await claim_or_release(log, resumed_id(paused.run_id), create=True)
        try:
            await grant(log, self._labels_after(row), pair, paused.run_id)
            return self._resume(paused, given, output, source=row, held=claim)
        except BaseException:
            await release_shielded(log, claim)
            raise

    def _labels_after(self, source: RunRow) -> dict[str, str]:
        """The labels of the run that resumes a stored one.

        What is noted for the next run, such as the request of its client, is the session's; the tenant and the user
        stay those of the run.
        """
        return {**source.labels, **self.labels, **recorded_labels(source.labels)}

    def _check_waits(self, run_id: str) -> None:
        if run_id in self._resumed:
            message = (
                f"{run_id} was resumed already, or another run has begun since: no call is run twice, and none "
                "that was reported to the model as not run"
            )
            raise LocalProtocolError(message)

    async def _fork(
        self,
        log: EventLog,
        run_id: str,
        seq: int,
        new: str,
        reason: str,
        output: Output[Any] | None,
    ) -> Beginning:
        """What a fork continues from, after it is stored."""
        await log.existing(run_id)
        self._check_matchers()
        if self._performs:  # before anything is stored: another process would continue the copy
            records = (await read_run(log, run_id)).records
            needed = tools_in([each for each in records if each.seq <= seq])
            check_tools(needed, self.worker.tools, run_id)
        await fork_run(log, run_id, seq, name=new, labels=self.run_labels)
        return await self._recover(log, new, reason or f"forked from {run_id}", None, output)

    async def _load_paused(self, run_id: str, given: Decided) -> tuple[Paused[None], RunRow]:
        """A stored paused run, and what a list shows of it.

        The decisions fit it, and there are the tools of the calls that will run.
        """
        stored, row = await self._load(run_id)
        if row.outer:
            text = (
                f"{run_id} is nested in {row.outer}, and its call there has failed because it paused: nothing "
                "continues it, so that it takes no decision; fork it"
            )
            raise RunStatusError(text, run_id=run_id, status="paused")
        paused, worker = stored.result(run_id), self.worker
        if not isinstance(paused, Paused):
            raise LocalProtocolError(f"{run_id} has finished: there is nothing to decide about")
        _, scope = resume_turn(paused, given, worker.hooks, worker.tools)
        self._check_matchers()
        if self._performs:
            waiting = [each.call.name for each in scope.waiting]
            check_tools(stored.tools, worker.tools, run_id, waiting)
        return paused, row

    async def _load(self, run_id: str) -> tuple[LoadedRun, RunRow]:
        log = self._expect_log("load")
        info = await log.existing(run_id)
        if info.row.cause and info.status == "aborted":
            raise LocalProtocolError(f"{run_id} is aborted: {info.row.reason}, so that it has no result")
        stored = await read_run(log, run_id, info.row)
        if stored.state.status not in ("finished", "paused"):
            what = f"{run_id} is {stored.state.status}"
            why = f": {stored.state.reason}" if stored.state.reason else ""
            raise LocalProtocolError(f"{what}{why}, so that it has no result; recover a run whose process has ended")
        return stored, info.row

    async def _recover(
        self,
        log: EventLog,
        run_id: str,
        reason: str,
        claim: Claim | None = None,
        output: Output[Any] | None = None,
    ) -> Beginning:
        """What a stored run continues from. This process claims it."""
        held = None
        if claim is not None and claim.run_id != run_id:  # that of the run that resumes it
            claim, held = None, claim
        try:
            claim = claim or await claim_or_release(log, run_id)
        except RunStatusError as error:
            if error.status == "paused" and (decided := decision_of(await log.sent(run_id))):
                decided = replace(decided, add=self.worker.mapped(decided.add))
                paused, row = await self._load_paused(run_id, decided)
                return await self._apply(log, paused, decided, output, row, held)
            raise LocalProtocolError(
                f"{run_id} is {error.status}, not cut off: load({run_id!r}) returns its result, and resume(...) "
                "continues a paused run"
            ) from error
        try:
            # From here on no other process changes it.
            info = await log.existing(run_id)
            stored = await read_run(log, run_id, info.row)
            if not stored.records:
                text = f"{run_id} has no records: its process ended before it was accepted, so start it again"
                raise LogError(text)
            sent = await log.sent(run_id)
            progress = progress_of(stored.records)
            form = None if output is None else output.format
            digests = digests_of(self.worker.tools).items()
            more = {name: digest for name, digest in digests if name not in stored.tools}
            recovered = RunRecover(claim.epoch, claim.owner, reason, progress, form, more)
            if output is None and stored.state.output_format is not None:
                output = Output.from_format(stored.state.output_format)
            taken_up = None
            if self._performs and continues(self.worker, self.worker.options):
                taken_up = open_response_of(stored)
            after = ending_of(stored, sent, progress)
            if after is not None or will_be_cancelled(stored, sent):
                await end_nested(log, run_id)  # no call continues them any more
            if after is None and not self._performs:
                after = Continuation([])  # the process that takes it has the tools
            elif after is None:
                self._check_matchers()
                try:
                    check_tools(stored.tools, self.worker.tools, run_id)
                except ConfigurationError as error:
                    with suppress(LogError):  # shown while it waits for another process
                        row = replace(info.row, reason=error.message)
                        await log.append(claim, [], after=claim.last_seq, row=row)
                    raise
                on_unknown = self.worker.on_unknown
                if on_unknown == "ask" and info.row.outer:
                    on_unknown = "tell_model"  # a nested run cannot wait for a decision
                tools = self.worker.tools
                after = await continue_run(stored, run_id, tools, on_unknown, taken_up)
        except BaseException:
            await release_shielded(log, claim)
            raise
        is_first = info.status == "queued" or is_forked(stored)  # no process has ended
        recoveries = info.row.recoveries + (not is_first)
        row = replace(info.row, status="running", reason="", recoveries=recoveries)
        scope = after.scope or TurnScope(variables=stored.variables, taken_up=taken_up)
        scope.error = after.error
        return Beginning(
            (recovered, *after.first),
            scope,
            stored.called,
            allowed=row.allowed,
            output=output,
            stored=LoggedRun(log, row, claim, stored),
        )

    async def run_inside(self, task: str, log: EventLog, run_id: str) -> Run[Any] | RunResult[Any]:
        """Begin a run inside a logged one, or continue it, if the process of the outer run has ended since it began.

        Args:
            task: The input.
            log: The log of the outer run.
            run_id: The id, the same for the same call of the outer run.

        Returns:
            The run; its result, if it has ended.

        Raises:
            RxWorkerError: It was aborted, or as for ``recover``.
        """
        log = self.log or log
        account = ACCOUNT.get()
        outer = account.context if isinstance(account, RunAccount) else None
        while (info := await log.info(run_id)) is not None:
            if info.status == "aborted":
                raise LocalProtocolError(info.row.reason or "it was aborted")
            if info.status != "running":
                return (await read_run(log, run_id, info.row)).result(run_id)
            if info.owner and info.lease_until > time.time():
                # The process that held both has ended, and its lease has not; or it is about to release it.
                await asyncio.sleep(min(info.lease_until - time.time(), log.lease / 20) + 0.01)
            elif info.last_seq:
                begun = self._begin(partial(self._recover, log, run_id, "its outer run was recovered"), run_id)
                try:
                    await begun._driver.started()
                    return begun
                except asyncio.CancelledError:
                    await end_inside(begun, outer)
                    raise
                except LeaseHeldError:
                    pass  # its process goes on after all
                except LocalProtocolError as error:
                    if not isinstance(error.__cause__, RunStatusError):
                        raise
                    # It has ended since.
            else:
                break  # that process ended before it was accepted
        return self._start(to_messages(task), None, log, run_id)

    def _expect_log(self, call: str) -> EventLog:
        if self.log is None:
            raise ConfigurationError(f"worker.{call}() needs a log: Worker(..., log=SQLiteLog('runs.db'))")
        return self.log

    def _begin(self, begin: Beginning | Callable[[], Awaitable[Beginning]], run_id: str = "") -> Run[Any]:
        """Begin a run.

        Args:
            begin: What it begins with, or a function that loads that.
            run_id: Its id; by default one is made.
        """
        worker, loop, account = self.worker, asyncio.get_running_loop(), ACCOUNT.get()
        around = account if isinstance(account, RunAccount) and account.is_open else None
        # A run in the loop of another thread is counted, and is otherwise on its own.
        is_here = around is not None and around.context.journal.hub.loop is loop
        outer = around.context if around is not None and is_here else None
        context = RunContext(
            worker=settings_of(worker),
            timeline=self.timeline,
            options=worker.options,
            scheduler=scheduler_of_run(worker.scheduler),
            journal=Journal(run_id or new_id(), clock=record_clock(loop), loop=loop),
            parents=() if outer is None else outer.line,
            budgets=_budgets(worker.budget, outer),
        )
        run = Run(self, context, begin, self._began, self._ended, loop)
        self._current = run  # while it is loaded, too
        if around is not None and around.of != "call":
            _follow(run, around.context, is_here=is_here)
        return run

    def _began(self, run: Run[Any]) -> None:
        self._current = run
        self.paused = self._paused_output = None
        self._collected.begin(run._journal.hub.history, run.first_seq)
        if self.worker.tracing is not None and self._performs:
            self._report(self.worker.tracing, run, "tracing")
        for observer in tuple(self._observers):
            self._report(observer.on_next, run, "an observer of runs")

    def _traceparent(self) -> str:
        if self.worker.tracing is None:
            return ""
        try:
            return self.worker.tracing.traceparent()
        except KeyboardInterrupt:
            raise
        except BaseException:
            logger.warning("the caller's trace is not known to a run", exc_info=True)
            return ""

    def _report(self, observe: Callable[[Run[Any]], object], run: Run[Any], to: str) -> None:
        try:
            observe(run)
        except BaseException as error:
            logger.warning("run %s is not reported to %s", run.id, to, exc_info=True, extra={"run": run.id})
            if isinstance(error, KeyboardInterrupt):
                run._driver.interrupt(error)

    def _ended(self, context: RunContext, result: RunResult[Any] | None) -> None:
        state = context.journal.state
        self._current = None
        self._collected.end()
        if state.status == "new":
            return  # it could not be loaded
        self.conversation, self.shared_state = state.conversation, state.shared_state
        writer = context.journal.writer
        if writer is not None and writer.error is None:
            writer.log.bases.note(state.conversation, context.journal.run_id, writer.stored_seq)
        self.paused = result if isinstance(result, Paused) else None
        self._paused_output = None if self.paused is None else context.output

    def _check_free(self, call: str) -> None:
        if running_loop() is None:
            message = f"worker.{call}() needs a running event loop; in a script use worker.{call}_sync(...)"
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


def session_of(run: Run[Any]) -> Session:
    """The session that a run belongs to."""
    session = run.session
    assert isinstance(session, Session)  # which has begun it
    return session


def _follow(run: Run[Any], outer: RunContext, *, is_here: bool) -> None:
    """Relay the records of a run that a hook or a stage has begun, and end it where the outer run is cut short."""
    journal, end = outer.journal, partial(run.cancel, reason="the outer run was cancelled")

    def relay(record: Record) -> None:
        journal.hub.call_in_loop(partial(journal.relay, run.id, record))

    def ended(_: object = None) -> None:
        outer.children.discard(end)

    if is_here:
        outer.children.add(end)
    run.subscribe(relay, ended, ended)


async def end_inside(run: Run[Any], outer: RunContext | None) -> None:
    """End a run because the tool call that it belongs to is cancelled."""
    if run.done():
        return
    if outer is not None and outer.journal.is_left:
        # The process that continues the outer run makes this call again, which continues the run.
        await run.hand_over(reason="its outer run was handed over", seconds=0.0)
    else:
        await run.cancel(reason="the outer run was cancelled")


def _check_claim(answer: object, run_id: str) -> None:
    """Check that this process may resume a run. A value that is not a bool, such as a coroutine, is refused."""
    if isinstance(answer, bool):
        if answer:
            return
        raise LocalProtocolError(f"{run_id} was resumed by another process: no call is run twice")
    if inspect.iscoroutine(answer):
        answer.close()
    raise ConfigurationError(
        f"claim returned {answer!r:.80}: give a plain function, not a coroutine function, that returns True or False"
    )


def _budgets(own: Budget | None, outer: RunContext | None) -> tuple[Budget, ...]:
    around = () if outer is None else outer.budgets
    return around if own is None or own in around else (own, *around)


def new_id() -> str:
    """An id for a run."""
    return f"run-{os.urandom(6).hex()}"


async def _complete(begin: Callable[[], Run[R]]) -> RunResult[R]:
    run = begin()
    try:
        return await run
    except asyncio.CancelledError:
        await run.cancel(reason="interrupted")
        raise
