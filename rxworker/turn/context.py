"""The state that the stages of a run share, and the checks of what hooks change and of the limits."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import starmap
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from msgspec import Struct, field
from msgspec.structs import replace
from reactivex import Observable, abc

from rxworker.errors import InputRefusedError, LimitExceededError, LocalProtocolError
from rxworker.events import (
    ConversationReplace,
    Custom,
    CustomEvent,
    Event,
    HookMessage,
    LimitReached,
    LoopHold,
    MessageAdd,
    PausedCall,
    PauseState,
    ResponseEvent,
    ResponseStatus,
    RunResume,
    RunStart,
    SharedStateChange,
    Usage,
)
from rxworker.events.custom import custom_of
from rxworker.events.pause import NO_PAUSE
from rxworker.hooks import Hooks
from rxworker.hub.scheduler import FlushScheduler
from rxworker.log.kept import conversation_of
from rxworker.log.permissions import allowed_in
from rxworker.log.values import CONVERSATION
from rxworker.messages import Conversation, JsonObject, Message, Prices, ToolCall, ToolResult
from rxworker.messages.pairs import calls_made
from rxworker.messages.speech import is_blank
from rxworker.providers import Options, Request
from rxworker.providers.base import is_background
from rxworker.providers.models import cost_of
from rxworker.state import RunState
from rxworker.timeline import Timeline
from rxworker.tools import SharedState, Toolbox
from rxworker.tools.run import CallScope, RunningCalls, run_call
from rxworker.transport import Model, Retry
from rxworker.turn.background import Background
from rxworker.turn.commands import CommandReader
from rxworker.turn.compact import Compact
from rxworker.turn.journal import Journal, Mailbox, PauseRequest
from rxworker.turn.limits import Budget, Limits, check_priced, model_prices
from rxworker.turn.result import Output
from rxworker.turn.take_up import OpenResponse
from rxworker.watchdog import watchdog

Emit = Callable[[Event], None]
logger = logging.getLogger("rxworker.hooks")
ROLES = ("system", "user", "assistant")
OF_HOOKS = (MessageAdd, ConversationReplace, HookMessage, SharedStateChange, LoopHold, Custom)
"""The events that a hook's context emits itself; of a hook's own ones there are those of the application alone."""


def checked(journal: Journal) -> Callable[[Event | CustomEvent], None]:
    """Record the events of a hook, after a check.

    Only messages are added to a conversation, and only before the run has ended.

    After that a message for the watchers is dropped with a warning in the log ``rxworker.hooks``; to change the
    conversation raises a `LocalProtocolError`.

    >>> checked(Journal("run-1"))(MessageAdd(("hi",), "greet"))
    Traceback (most recent call last):
    ...
    TypeError: 'hi' is not a Message; write Message.user('...')
    """

    def emit_checked(event: Event | CustomEvent) -> None:
        if not isinstance(event, OF_HOOKS):
            event = custom_of(event)
        if journal.hub.ended:
            _too_late(event)
            return
        if isinstance(event, MessageAdd):
            for message in event.messages:
                _check_added(message)
        if journal.gate is not None and isinstance(event, HookMessage | Custom | SharedStateChange):
            journal.gate(event, journal.emit)
        else:
            journal.emit(event)

    return emit_checked


def ignore(_: object) -> None:
    """Drop an event or an error."""


def _too_late(event: Event) -> None:
    if isinstance(event, HookMessage):
        logger.warning(
            "hook %s sent a message after its run had ended: it is dropped", event.hook, extra={"hook": event.hook}
        )
        return
    if isinstance(event, Custom):
        logger.warning("an event %s was emitted after its run had ended: it is dropped", event.name)
        return
    if isinstance(event, SharedStateChange):
        raise LocalProtocolError("this run has ended: its shared state cannot be changed any more")
    raise LocalProtocolError(
        "this run has ended, and its conversation with it: a hook adds messages while it runs; "
        "afterwards change worker.session.conversation between two runs"
    )


def _check_added(message: object) -> None:
    """A hook may add text. Only the loop adds calls and their results."""
    if not isinstance(message, Message):
        raise TypeError(f"{message!r} is not a Message; write Message.user('...')")
    if message.role not in ROLES:
        raise TypeError(f"{message.role!r} is not a role: {', '.join(ROLES)}")
    if message.tool_calls or message.tool_results:
        raise TypeError("a hook adds no tool calls and no results; use set_content, Skip, or a tool")


class HookInput(TypedDict):
    """The values that every hook receives, at every point."""

    conversation: Conversation
    emit: Callable[[HookMessage | MessageAdd | ConversationReplace | LoopHold | CustomEvent], None]
    variables: dict[str, object]
    run_id: NotRequired[str]
    turn: NotRequired[int]
    workspace: NotRequired[Path]
    labels: NotRequired[Mapping[str, str]]
    conversation_id: NotRequired[str]
    toolbox: Toolbox
    call_tool: Callable[[str, JsonObject], Awaitable[ToolResult]]
    shared: SharedState
    can_wait: NotRequired[bool]


ResponseOperator: TypeAlias = Callable[[Observable[ResponseEvent]], Observable[Event]]


KEPT_TURNS = 20
"""For how many turns the conversation of a request is kept that hooks have changed.

Each may be a copy of all messages.
"""


class RunSettings:
    """What a run reads of its worker. The registries of tools and hooks may change while it runs.

    Attributes:
        model: The model.
        tools: The tools that it may call.
        hooks: The hooks of the points of the loop.
        operators: Applied to each response, the first listed first.
        limits: The limits of the run.
        budget: What its runs share with those of other workers.
        compact: When its requests become shorter, if they do.
        parallel: How many tools run at once.
        response_retry: When a response that failed in the middle is requested again.
        workspace: The folder that hooks work in.
        stages: The stages of a turn, in order.
        starts_early: Whether pure tools may start while the model still streams: not if the application calls the tools
            itself.
        on_unknown: What becomes of a call whose effect is not known, since its process has ended.
        takes_up: Whether a response that goes on at the service may be continued: not if the application has a stage of
            its own for it.
        map_input: Changes each message that is sent to the worker, before it is recorded.
    """

    model: Model
    tools: Toolbox
    hooks: Hooks
    operators: Sequence[ResponseOperator]
    limits: Limits
    budget: Budget | None
    compact: Compact | None
    parallel: int
    response_retry: Retry
    workspace: Path
    stages: Sequence[TurnStage]
    starts_early: bool
    on_unknown: Literal["ask", "fail", "tell_model"]
    takes_up: bool
    map_input: Callable[[Message], Message] | None

    @cached_property
    def prices(self) -> Prices | None:
        """The prices of the model's tokens: those of the limits, else those that the model has as ``prices``.

        Of a model without that attribute those of the table of models.
        """
        return self.limits.prices or model_prices(self.model)

    def mapped(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Messages that were sent to the worker, as ``map_input`` has changed them.

        Raises:
            InputRefusedError: It has raised, or returned none, or one that is empty or of another role.
        """
        if self.map_input is None:
            return tuple(messages)
        begun = watchdog.begin()
        try:
            several = [self.map_input(message) for message in messages]
        except InputRefusedError:
            raise  # the text is for the sender
        except Exception as error:
            raise InputRefusedError(f"the input is not accepted: map_input raised {type(error).__name__}") from error
        watchdog.end(begun, "callback", "map_input")
        for message, left in zip(messages, several, strict=True):
            if not isinstance(left, Message) or left.role != message.role:  # pyright: ignore[reportUnnecessaryIsInstance] - the program's function
                raise InputRefusedError(
                    f"map_input returned a {type(left).__name__} for a message of the role {message.role}: return a "
                    "Message of that role"
                )
            if is_blank(left) and not is_blank(message):
                raise InputRefusedError("the input is not accepted: map_input has left nothing of it")
        return tuple(several)


SETTINGS = tuple(RunSettings.__annotations__)
_settings = attrgetter(*SETTINGS)


def continues(worker: RunSettings, options: Options) -> bool:
    """Whether a process that recovers a run of a worker continues the response that was cut.

    It does if the worker takes responses up, and this one goes on at the service.
    """
    return worker.takes_up and is_background(worker.model, options)


def settings_of(worker: RunSettings) -> RunSettings:
    """The settings of a worker as they are now: a run keeps those with which it has begun."""
    kept = RunSettings()
    kept.__dict__.update(zip(SETTINGS, _settings(worker), strict=True))
    return kept


class OwnRequest(Struct, eq=False):
    """A request that a hook, a stage or a tool has made.

    Attributes:
        model: The model.
        of_stage: Whether its events may become the response of the turn.
        first: Its first event, by which the response of a stage is recognised.
        usage: Its last report of what it took.
        status: Its last status.
    """

    model: Model
    of_stage: bool = False
    first: ResponseEvent | None = None
    usage: Usage | None = None
    status: ResponseStatus = ResponseStatus.CANCELLED


class RunContext(Struct, frozen=True, eq=False):
    """The values that stay the same during a run.

    Attributes:
        worker: The settings of its worker, as they were when it began.
        timeline: Receives the events of each response.
        options: Settings of each request.
        scheduler: The clock of the run.
        journal: Records the events.
        parents: The runs that contain this one: the run whose tool call it is, that run's parent, and so on.
        budgets: The budgets of this run and its parents, each once, since they may share one.
        allowed: The tools that a person always allows in this run, each with the hook that then does not pause it.
        output: The type of the answer, if one was requested.
        shared: The state that its tools and hooks share with user interfaces.
        variables: Shared by the hooks and tools of the run, from its first turn to its end.
        called: The names of the tools that the model has called, each once, those from before a pause included.
        sent: The conversation of the request of each of the last `KEPT_TURNS`, by the number of the turn, if hooks have
            changed it for that request alone.
        mailbox: Messages that were sent to it while it runs.
        background: Its calls in the background, and their results.
        pause_request: Whether the application requested a pause.
        tasks: The tasks that the run must wait for before it ends.
        commands: Reads the commands to a logged run.
        requests: The requests of its hooks, stages and tools that are not recorded yet.
        children: Cancel the runs that these have begun and that have not ended.
        conversation: The id of its conversation, where the session has one.
        inside: The runs of its calls that run, by the ids of the calls.
        source: The events of the run, if another program performs it.
    """

    worker: RunSettings
    timeline: Timeline
    options: Options
    scheduler: abc.SchedulerBase
    journal: Journal
    parents: tuple[RunContext, ...]
    budgets: tuple[Budget, ...] = ()
    allowed: list[tuple[str, str]] = []
    output: Output[Any] | None = None
    shared: SharedState = field(default_factory=SharedState)
    variables: dict[str, object] = {}
    called: dict[str, None] = {}
    sent: dict[int, Conversation] = {}
    mailbox: Mailbox = field(default_factory=Mailbox)
    background: Background = field(default_factory=Background)
    pause_request: PauseRequest = field(default_factory=PauseRequest)
    tasks: set[asyncio.Task[None]] = set()
    commands: CommandReader | None = None
    requests: list[OwnRequest] = []
    children: set[Callable[[], Awaitable[None]]] = set()
    conversation: str = ""
    inside: dict[str, Any] = {}
    source: Observable[Event] | None = None

    @property
    def line(self) -> tuple[RunContext, ...]:
        """This run and its parents."""
        return (self, *self.parents)

    @property
    def labels(self) -> dict[str, str]:
        """A copy of its labels, without that of its conversation, which the first run of a session does not have."""
        return {name: text for name, text in self.journal.state.labels.items() if name != CONVERSATION}

    @property
    def conversation_id(self) -> str:
        """The id of its conversation: that of its row in a log, which a run that is resumed has from the run before."""
        writer, run_id = self.journal.writer, self.journal.run_id
        known = self.conversation if writer is None else writer.row().labels.get(CONVERSATION)
        return known or conversation_of({}, run_id)

    async def allows(self, tool: str, hook: str) -> bool:
        """Whether a person always allows calls of a tool that a hook pauses for: in a log, in its conversation, now."""
        writer = self.journal.writer
        if writer is not None:
            self.allowed[:] = await allowed_in(writer.log, self.journal.run_id, writer.row())
        return (tool, hook) in self.allowed

    def hook_input(self, variables: dict[str, object]) -> HookInput:
        """The input of a hook now. The events that it emits are checked and recorded."""
        journal = self.journal
        state = journal.state
        return HookInput(
            conversation=state.conversation,
            emit=checked(journal),
            variables=variables,
            run_id=journal.run_id,
            turn=state.turns,
            workspace=self.worker.workspace,
            labels=self.labels,
            conversation_id=self.conversation_id,
            toolbox=self.worker.tools,
            call_tool=partial(self._call_tool, variables),
            shared=self.shared,
            can_wait=journal.writer is not None and not self.parents,
        )

    @property
    def since(self) -> int:
        """The number of messages when the run started, including its input."""
        first = self.journal.first
        return len(first.conversation.messages) if isinstance(first, RunStart | RunResume) else 0

    async def _call_tool(self, variables: dict[str, object], name: str, args: JsonObject) -> ToolResult:
        """Run a tool for a hook. It is not a call of the model, so no events are recorded."""
        call = ToolCall(f"hook_{uuid.uuid4().hex[:12]}", name, args)
        key = f"{self.journal.run_id}/{call.id}"
        relay = self.journal.relay
        given = CallScope(key, variables, self.shared, relay)
        return await run_call(self.worker.tools, call, given)


class TurnScope(Struct, eq=False):
    """The values that the stages of one turn pass to each other. It ends with the turn.

    Attributes:
        variables: The variables of the run; each turn passes them to the next.
        request: The request, after the hooks.
        is_resumed: Whether the turn continues a paused run, without a request.
        is_recovered: Whether the turn has started, and only its request is to be sent again.
        pause: The calls of the turn, as the pause has left them where it is resumed; a pause of this turn is made of
            it.
        answered: By the places of calls: results that a person has given or a process has left, and which the
            ``after_tool_call`` hooks have not received yet.
        ended: The places of those of them whose end was emitted already, by the process that ran them.
        early: The calls that started before the response had ended.
        called: Whether tools ran, so that the model must receive their results.
        unknown: The places of calls whose effect is not known, at which the run pauses before another call runs.
        why: Why it is not known.
        finished_by: The name of the hook that has finished the run at a tool point, if one has.
        error: Why a recovered run ends at once, if it does.
        taken_up: The response that a recovered turn continues, if there is one.
        failed: Why the last attempt failed, until another one has begun.
        is_cut: Whether a message that was sent ``now`` has cut off the response, or its request.
        noted: With an operator around the stage: the events of tools that `call_tools` has emitted and that are not
            recorded, by their kinds and places.
    """

    variables: dict[str, object] = {}
    request: Request | None = None
    is_resumed: bool = False
    is_recovered: bool = False
    pause: PauseState = NO_PAUSE
    answered: dict[int, ToolResult] = {}
    ended: frozenset[int] = frozenset()
    early: RunningCalls | None = None
    called: bool = False
    unknown: frozenset[int] = frozenset()
    why: str = ""
    finished_by: str = ""
    error: Exception | None = None
    taken_up: OpenResponse | None = None
    failed: str = ""
    is_cut: bool = False
    noted: dict[tuple[type[Event], int], list[Event]] | None = None

    @property
    def waiting(self) -> tuple[PausedCall, ...]:
        """The calls of the pause that have no result."""
        return tuple([each for each in self.pause.calls if each.place not in self.answered])


class Turn(Struct, eq=False):
    """One turn of a run, as its stages see it.

    The function of a stage is called when the stages before have completed, and reads what these have done. In
    ``reactivex.concat(first(turn), second(turn))`` the second one is called too early for that: use ``reactivex.defer``
    there, unless it is one of the usual stages, which read when they are subscribed to. A turn has no verbs: what a
    stage emits becomes the records of the run, and the state is folded from these.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel
        >>> from rxworker.worker import respond
        >>> def show(turn: Turn) -> Observable[Event]:
        ...     print("turn", turn.number, [message.text for message in turn.request.conversation.messages])
        ...     return respond(turn)
        >>> Worker(ScriptedModel(["Hello!"]), stages={"respond": show}).run_sync("Hi").text
        turn 1 ['Hi']
        'Hello!'
    """

    _context: RunContext
    _scope: TurnScope

    @property
    def run(self) -> str:
        """The id of the run."""
        return self._context.journal.run_id

    @property
    def state(self) -> RunState:
        """The state of the run, folded from its records so far."""
        return self._context.journal.state

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the run, such as its tenant; `conversation_id` is its conversation."""
        return self._context.labels

    @property
    def conversation_id(self) -> str:
        """The id of the conversation: the same for all runs of a session, and for those that continue it later."""
        return self._context.conversation_id

    @property
    def number(self) -> int:
        """The number of the turn, from 1; before `prepare` that of the turn before."""
        return self.state.turns

    @property
    def conversation(self) -> Conversation:
        """The conversation so far, with the response at its end after `respond`, and the results after `call_tools`."""
        return self.state.conversation

    @property
    def request(self) -> Request:
        """The request of this turn as the hooks have left it; before `prepare` that of the conversation so far."""
        return request_of(self._context, self._scope)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that wait for `call_tools`: those of the response, or of a run that is resumed."""
        return tuple([each.call for each in calls_of(self._context, self._scope)])

    @property
    def tools(self) -> Toolbox:
        """The tools that the model may call."""
        return self._context.worker.tools

    @property
    def timeline(self) -> Timeline:
        """The handlers of the session, as an operator for the events of a response."""
        return self._context.timeline

    @property
    def variables(self) -> dict[str, object]:
        """Values that the hooks, tools and stages of the run share."""
        return self._scope.variables

    @property
    def scheduler(self) -> abc.SchedulerBase:
        """The clock of the run, for operators that wait."""
        return self._context.scheduler


TurnStage: TypeAlias = Callable[[Turn], Observable[Event]]
"""A stage of a turn: a function that returns the cold observable of its events."""

StageName: TypeAlias = Literal["prepare", "respond", "call_tools", "decide"]
"""The stages of a turn, in order."""


async def let_watchers_act(flushes: FlushScheduler) -> None:
    """Let watchers that read at their own pace receive the records, and react to them.

    The loop wakes them once, and they read in the next iteration.
    """
    await asyncio.sleep(0)
    if flushes.is_needed:
        await asyncio.sleep(0)


def request_of(context: RunContext, scope: TurnScope) -> Request:
    """The request of this turn; that of the conversation so far if `prepare` has made none."""
    if scope.request is not None:
        return scope.request
    return next_request(context, context.journal.state.conversation.sent)


Edits: TypeAlias = tuple[tuple[str, Request], ...]
"""The requests as the hooks have received them that have changed them."""


def next_request(context: RunContext, conversation: Conversation, edits: Edits = ()) -> Request:
    """A request with this conversation."""
    options, policy = context.options, context.worker.compact
    if policy is not None and policy.by == "provider" and options.compact_at is None:
        options = replace(options, compact_at=policy.tokens(context.worker.model))
    return Request(conversation, context.worker.tools.metas, options, edits=edits)


def calls_of(context: RunContext, scope: TurnScope) -> tuple[PausedCall, ...]:
    """The calls that are still to be made in this turn. Those of a truncated response already have results."""
    if scope.called:
        return ()
    if scope.is_resumed:
        return scope.waiting
    state = context.journal.state
    if not (state.is_closed and state.calls):
        return ()
    return tuple(starmap(PausedCall, enumerate(calls_made(state.conversation))))


def check_spent(context: RunContext, emit: Emit, **used: float) -> None:
    """Check the limits on tokens and their cost, and what else the run itself has used of its limits.

    Raises:
        LimitExceededError: A limit of the run, or of a parent, is reached.
        ConfigurationError: There is a limit on the cost, and the prices are not known.
    """
    for run in (context, *context.parents):  # the usage of a run includes that of nested runs
        worker, state = run.worker, run.journal.state
        used["max_tokens"] = tokens = state.usage.total_tokens
        if worker.prices is None:
            check_priced(worker.limits, None, worker.model.model)
        if tokens and worker.limits.max_cost is not None:
            cost = cost_of(state.usage_by_model, state.prices)
            if cost.unpriced:
                check_priced(worker.limits, None, cost.unpriced[0])
            if cost.known:
                used["max_cost"] = cost.known
        check_limits(emit, worker.limits, **used)
        used.clear()


def before_calls(context: RunContext, more: int, emit: Emit) -> None:
    """Check whether ``more`` further tool calls are within the limits.

    Raises:
        LimitExceededError: They are not.
    """
    for run in (context, *context.parents):
        calls = run.journal.state.all_tool_calls + more
        check_limits(emit, run.worker.limits, max_tool_calls=calls - 1)


def check_limits(emit: Emit, limits: Limits, **used: float) -> None:
    """Check what is used of limits, by their names. A limit that is allowed itself is given what is used less one.

    Raises:
        LimitExceededError: A limit is reached, or one of them is 0.
    """
    for name, value in used.items():
        most = getattr(limits, name)
        if most is not None and value >= most:
            raise _reached(name, most, emit)


async def admit(context: RunContext, emit: Emit) -> None:
    """Check the budgets before a request, and wait while a budget is held.

    Raises:
        LimitExceededError: A budget is used up.
        ConfigurationError: A budget limits the cost, and the prices are not known.
    """
    report(context)
    for budget in context.budgets:
        found = await budget.admit(context.worker.prices)
        if found is not None:
            raise _reached(*found, emit)


def report(context: RunContext) -> None:
    """Report the usage of the run itself to its budgets and those of its parents."""
    for budget in context.budgets:
        prices = context.worker.prices
        budget.report(context.journal.run_id, context.journal.state.own_usage, prices)


def end_reports(context: RunContext, *, paused: bool) -> None:
    """Report to the budgets for the last time."""
    report(context)
    for budget in context.budgets:
        budget.end(context.journal.run_id, paused=paused)


def _reached(limit: str, value: float, emit: Emit) -> LimitExceededError:
    value += 0  # the usual cost has a type of its own, which a log does not store
    emit(LimitReached(limit, value))
    return LimitExceededError(limit, value)
