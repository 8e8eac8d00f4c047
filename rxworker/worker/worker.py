"""A worker: a model, its tools, hooks and settings, and a session of its own."""

from __future__ import annotations

from rxworker.log.base import EventLog
from rxworker.messages import Conversation, Json
from rxworker.messages.settings import checks_arguments
from rxworker.worker.definition import Definition
from rxworker.worker.session import Session, SessionVerbs


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
