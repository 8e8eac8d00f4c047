"""Workers and their sessions: a conversation, its state and permissions, and the verbs that begin runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ParamSpec

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxworker.decisions import Decided, Decisions
from rxworker.errors import LocalProtocolError
from rxworker.events import ResponseEvent
from rxworker.log.base import EventLog
from rxworker.log.values import Claim, new_id, resumed_id
from rxworker.messages import Conversation, Json, Message
from rxworker.messages.message import Input, to_messages
from rxworker.messages.settings import check_plain, check_type, checks_arguments
from rxworker.operators.kernel import Unstaged
from rxworker.providers import Request
from rxworker.run.run import Run
from rxworker.run.stream import RunStream
from rxworker.run.virtual import run_in
from rxworker.state.shared_state import checked_json
from rxworker.timeline import TextBlockCollector, ToolCallCollector
from rxworker.turn.arguments import check_no_loop
from rxworker.turn.result import Paused, R, RunResult, T, output_of
from rxworker.worker.continuing import ClaimFn, check_decision, check_waits, decided, forked, load, recovered, resumed
from rxworker.worker.definition import Definition
from rxworker.worker.session_base import SessionBase

P = ParamSpec("P")


class SessionVerbs:
    """The verbs of a session, which a worker has for its own session, too."""

    @property
    def session(self) -> Session:
        """The session."""
        raise NotImplementedError

    @property
    def runs(self) -> Observable[Run[Any]]:
        """The runs of the session, each when it begins; a late subscriber receives the run that has not ended.

        It does not complete. Those that are stored, and those of other sessions, are in ``log.runs()``.

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
        session = self.session

        def subscribe(
            observer: abc.ObserverBase[Run[object]], _: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            session._observers.append(observer)
            if session._current is not None and session._current.state.status != "new":
                observer.on_next(session._current)
            return Disposable(partial(session._observers.remove, observer))

        return Unstaged(subscribe)

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

    def run_sync(self, input: Input, *, output: type[T] | None = None) -> RunResult[T]:  # noqa: A002
        """Run to the end in a script without a running event loop: ``in_script(worker.run, ...)``.

        Raises:
            LocalProtocolError: An event loop runs; there ``await worker.run(...)``.
        """
        return self.in_script(self.run, input, output=output)

    def in_script(self, verb: Callable[P, Run[R]], *args: P.args, **options: P.kwargs) -> RunResult[R]:
        """Begin a run in a script without a running event loop, and wait for its result.

        Ctrl-C cancels the run, keeps the conversation, and raises ``KeyboardInterrupt``.

        Args:
            verb: The verb of this session or worker that begins the run, such as ``worker.resume``.
            args: Its arguments.
            options: Its keyword arguments.

        Raises:
            LocalProtocolError: An event loop runs; there ``await worker.resume(...)``. Or as for the verb.

        Example:
            >>> from rxworker import Answer, Worker, tool
            >>> from rxworker.testing import ScriptedModel, call
            >>> @tool(requires_approval=True)
            ... async def pay() -> str:
            ...     return "paid"
            >>> worker = Worker(ScriptedModel([call("pay"), "Done."]), tools=[pay])
            >>> paused = worker.run_sync("Pay.")
            >>> worker.in_script(worker.resume, paused).text
            'Done.'
        """
        check_plain("in_script(verb)", verb, instead=": a verb that begins a run, such as worker.resume")
        name = getattr(verb, "__name__", "run")
        call = "run_sync(...)" if name == "run" else f"in_script(worker.{name}, ...)"
        check_no_loop(f"worker.{call}", f"await worker.{name}(...)")
        return run_in(self.session.worker.scheduler, _complete(partial(verb, *args, **options)))

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
        check_no_loop("worker.stream_sync(...)", "async for record in worker.run(...)")
        begin = partial(self.run, input, output=output)
        return RunStream(begin, self.session.worker.scheduler)

    def resume(
        self,
        paused: Paused[object] | None = None,
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

        If the log has the paused run, the decisions are stored first, as with `decide`.

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
            CommandConflictError: It was decided about before, here or in another process; raised by `Run.started` and
                by awaiting the run, as is ``RunStatusError`` for one that was cancelled.
            LocalProtocolError: Nothing is paused, it was resumed already or by another process, another run has started
                since, a call was changed other than by its decision, a decision is for no pending call or for several
                of one id, or there is none for the call that the run paused at.
            ConfigurationError: An argument has the wrong type.
            SessionBusyError: A run of this session has not ended.
        """
        check_plain("claim", claim)
        check_type("paused", paused, Paused, "worker.resume(load_paused(data))", optional=True)
        self.session._check_free("resume")
        waiting = self.session.paused if paused is None else paused
        if waiting is None:
            raise LocalProtocolError("nothing is paused: resume() needs a run whose result is Paused")
        session, form = self.session, output_of(output)
        given = Decided(decisions, session.worker.added(add), shared_state)
        session.worker.check_matchers()
        if session.log is None:
            return session._begin(resumed(session, waiting, given, form, claim=claim))
        check_decision(session, waiting, given)
        begin = partial(decided, session, session.log, waiting.run_id, given, form, waiting, claim)
        return session._begin(begin, resumed_id(waiting.run_id))

    def decide(
        self,
        run_id: str,
        decisions: Decisions | None = None,
        *,
        add: Sequence[Message] = (),
        shared_state: Json = None,
        output: type[R] | None = None,
    ) -> Run[R]:
        """Resume a paused run as a new run: a stored one, or without a log the last one of this session.

        With a log the decisions are stored first: they are made once, and survive the end of this process.

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
            ConfigurationError: There is no log, and this session has not run it; or as for ``resume``.
            SessionBusyError: A run of this session has not ended.
            LogError: The log has no such run, or cannot be read or written.
        """
        session = self.session
        session._check_free("decide")
        waiting = session.paused
        if waiting is not None and waiting.run_id != run_id:
            waiting = None
        if session.log is None:
            check_waits(session, run_id)
            if waiting is not None:
                return self.resume(waiting, decisions=decisions, add=add, shared_state=shared_state, output=output)
        log, form = session._expect_log("decide"), output_of(output)
        given = Decided(decisions, session.worker.added(add), checked_json(shared_state))
        if waiting is not None:  # known here, so refused at once
            check_decision(session, waiting, given)
        begin = partial(decided, session, log, run_id, given, form)
        return session._begin(begin, resumed_id(run_id))

    def recover(
        self, run_id: str, *, reason: str = "", claim: Claim | None = None, output: type[R] | None = None
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
        return session._begin(partial(recovered, session, log, run_id, reason, claim, form), run_id)

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
        return session._begin(partial(forked, session, log, run_id, seq, new, reason, form), new)

    async def load(self, run_id: str) -> RunResult[None]:
        """The result of a stored run that has finished or is paused.

        Raises:
            LocalProtocolError: The run is running, or was aborted.
            ConfigurationError: There is no log.
            LogError: The log has no such run, or cannot be read.
        """
        stored, _ = await load(self.session, run_id)
        return stored.result()


class Session(SessionVerbs, SessionBase):
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

    def __repr__(self) -> str:
        return f"Session({self.worker!r}, messages={len(self.conversation.messages)})"

    @property
    def session(self) -> Session:
        """Itself."""
        return self


def session_of(run: Run[object]) -> Session:
    """The session that a run belongs to."""
    session = run.session
    assert isinstance(session, Session)  # which has begun it
    return session


async def _complete(begin: Callable[[], Run[R]]) -> RunResult[R]:
    run = begin()
    try:
        return await run
    except asyncio.CancelledError:
        await run.cancel(reason="interrupted")
        raise


@checks_arguments
class Worker(Definition, SessionVerbs):
    """Run the turn loop.

    Send the conversation to the model, run the tools that it calls, and repeat until it has answered.

    Args:
        model: A provider, which is called over HTTP, or any `rxworker.transport.Model`, such as a `Client`: an object
            with ``stream(request)``, ``name`` and ``model``.
        tools: The tools that the model may call, made with ``@tool``.
        system: The system prompt.
        hooks: Called at the points of the loop, in this order.
        options: Settings of each request.
        limits: The limits of each run.
        operators: Applied to the events of each response, the first listed first, before the timeline and the watchers.
        parallel: How many tools run at once.
        error_formatter: Formats the error of a failed tool call for the model.
        budget: A budget that its runs share with those of other workers.
        compact: When and how its requests become shorter than the conversation.
        response_retry: When a response that failed in the middle is retracted and requested again.
        conversation: The conversation with which its sessions begin.
        workspace: The folder that hooks work in, and run commands in.
        log: The log of the runs, so that another process can show, steer and recover them.
        name: The name of this worker in the log.
        labels: Stored with each run, for example the name of a tenant.
        on_unknown: What a recovered run does about a call whose process ended while it ran, if neither the effect of
            its tool nor its ``reconcile`` settles it: ``ask`` pauses the run for a decision, ``fail`` ends it,
            ``tell_model`` makes it an error result.
        tracing: Observes each run, and keeps the trace context of its caller with it, such as
            `rxworker.adapters.opentelemetry.OpenTelemetry`.
        shared_state: The state that tools and hooks share with user interfaces, with which its sessions begin; any
            JSON.
        stages: Stages in place of the usual ones, by the names of these: ``prepare``, ``respond``, ``call_tools``,
            ``decide``. A stage is a function of a `Turn` that returns the observable of its events; it may call the
            usual one, before, after, between or instead of its own.
        around: Operators around stages, by the names of these: ``around={"call_tools": ops.timeout(60)}``. They receive
            the events of the stage, and what they emit is recorded.
        scheduler: The clock of its runs, in place of that of the event loop. With a ``VirtualTimeScheduler`` or a
            ``TestScheduler`` of reactivex, ``run_sync`` and the other verbs of a script play whole runs in virtual
            time, with their tools, hooks, retries and time limits: nothing waits. See `rxworker.testing.play`.
        map_input: Changes each message that is sent to the worker, for example to mask it, before anything of it is
            recorded: the input, what is sent into a run or added when it is resumed, and the history that a client of
            the server sends. A plain function; what it raises refuses the input. It gets a message again that a client
            sends again, also one that it has changed.

    Attributes:
        tools: The toolbox; tools may be added and removed between turns.
        hooks: The hooks; they may be added and removed.
        labels: Stored with the next runs.
        timeline: Handlers may be added to it; each session has scopes of its own.
        initial_conversation: The conversation with which its sessions begin.
        initial_state: The shared state with which they begin.
        session: Its own session.

    Raises:
        ConfigurationError: An argument is invalid; the message names it.

    Example:
        >>> from rxworker.testing import ScriptedModel, say
        >>> worker = Worker(ScriptedModel([say("Hello!")]))
        >>> worker.run_sync("Hi").text
        'Hello!'
    """

    _session_type = Session
    _own: Session | None = None

    @property
    def session(self) -> Session:
        """Its own session, whose verbs it has for short. It begins when it is first used."""
        if self._own is None:
            self._own = self.new_session()
        return self._own

    def new_session(
        self, conversation: Conversation | None = None, *, shared_state: Json = None, log: EventLog | None = None
    ) -> Session:
        """Another session: a conversation of its own, which may have a run at the same time.

        `Session` describes the arguments.
        """
        return self._session_type(self, conversation, shared_state=shared_state, log=log)


class Elsewhere:
    """The model of a run whose requests another process or program makes."""

    def __init__(self, name: str, why: str, model: str = "") -> None:
        self.name, self.model, self._why = name, model, why

    def stream(self, request: Request) -> Observable[ResponseEvent]:  # noqa: ARG002 - of a `Model`
        """Raise: no request is made from here."""
        raise LocalProtocolError(self._why)
