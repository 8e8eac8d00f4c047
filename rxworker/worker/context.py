"""The state that the stages of a run share, and the checks of what hooks change and of the limits."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, cast

from msgspec import Struct, field
from reactivex import Observable, abc

from rxworker.errors import HookError, LimitExceededError, LocalProtocolError
from rxworker.events import (
    ConversationReplace,
    Event,
    HookMessage,
    LimitReached,
    MessageAdd,
    ResponseEvent,
    RunResume,
    RunStart,
)
from rxworker.hooks import HookPoint, Hooks, MessageSendContext, ToolResultContext
from rxworker.messages import (
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    Text,
    ToolCall,
    ToolResult,
)
from rxworker.providers import Options, Request
from rxworker.state import RunState
from rxworker.timeline import Timeline
from rxworker.tools import EarlyCalls, Toolbox, run_call
from rxworker.transport import Model, Retry
from rxworker.worker.journal import Journal, Mailbox, PauseRequest
from rxworker.worker.limits import Budget, Limits
from rxworker.worker.result import Output

Emit = Callable[[Event], None]
logger = logging.getLogger("rxworker.hooks")
ROLES = ("system", "user", "assistant")


def checked(emit: Emit, has_ended: Callable[[], bool] = lambda: False) -> Emit:
    """Emits what a hook says, unless it adds something other than messages to the conversation, or the run has ended.

    Args:
        emit: Emits an event.
        has_ended: Whether the run has ended. A message for the watchers is then dropped with a warning in the log ``rxworker.hooks``;
            to change the conversation raises a `LocalProtocolError`.

    >>> checked(print)(MessageAdd(("hi",), "greet"))
    Traceback (most recent call last):
    ...
    TypeError: 'hi' is no Message; write Message.user('...')
    """

    def emit_checked(event: Event) -> None:
        if has_ended():
            _too_late(event)
            return
        if isinstance(event, MessageAdd):
            for message in _odd(event.messages):
                raise TypeError(f"{message!r} is no Message; write Message.user('...')")
            for message in event.messages:
                _check_added(message)
        emit(event)

    return emit_checked


def _too_late(event: Event) -> None:
    if isinstance(event, HookMessage):
        logger.warning("hook %s sent a message after its run had ended: it is dropped", event.hook)
        return
    raise LocalProtocolError(
        "this run has ended, and its conversation with it: a hook adds messages while it is asked; "
        "afterwards change worker.conversation between two runs"
    )


def messages_of(asked: MessageSendContext) -> tuple[Message, ...]:
    """The messages to send, which a hook may have made anything of.

    Raises:
        HookError: They are none.
    """
    given = cast("object", asked.messages)
    if not isinstance(given, list | tuple):
        raise _error(f"the messages are {given!r}, which is no list", asked.hook, "on_message_send")
    for message in _odd(cast("Iterable[object]", given)):
        text = f"the messages hold {message!r}, which is no Message"
        raise _error(text, asked.hook, "on_message_send")
    return tuple(asked.messages)


def result_of(asked: ToolResultContext, result: ToolResult) -> ToolResult:
    """The result for the model, which a hook may have made anything of.

    Raises:
        HookError: It is none, or that of another call.
    """
    left = cast("object", asked.result)
    if not isinstance(left, ToolResult):
        text = f"the result is {left!r}, which is no ToolResult; for a text use set_content(...)"
        raise _error(text, asked.hook, "after_tool_call")
    if left.tool_use_id != result.tool_use_id:
        text = f"the result is for the call {left.tool_use_id!r} instead of {result.tool_use_id!r}"
        raise _error(text, asked.hook, "after_tool_call")
    content = cast("object", left.content)
    is_blocks = isinstance(content, list | tuple) and all(
        isinstance(block, Text | Image | Document) for block in cast("Iterable[object]", content)
    )
    if not isinstance(content, str) and not is_blocks:
        text = (
            f"the content of the result is {content!r}, which is neither a text nor content blocks"
        )
        raise _error(text, asked.hook, "after_tool_call")
    return left


def _check_added(message: Message) -> None:
    """A hook may say something. Calls and their results are the loop's own."""
    if message.role not in ROLES:
        raise TypeError(f"{message.role!r} is no role: {', '.join(ROLES)}")
    if message.tool_calls or message.tool_results:
        raise TypeError(
            "a hook adds no tool calls and no results; use set_content, Skip, or a tool"
        )


def _odd(messages: Iterable[object]) -> Iterable[object]:
    return (message for message in messages if not isinstance(message, Message))


def _error(text: str, hook: str, point: str) -> HookError:
    return HookError(f"after hook {hook!r} {text}", hook=hook, point=HookPoint(point).value)


class HookInput(TypedDict):
    """What every hook is given, whatever its point."""

    conversation: Conversation
    emit: Callable[[HookMessage | MessageAdd | ConversationReplace], None]
    variables: dict[str, object]
    run: str
    turn: int
    workspace: Path
    toolbox: Toolbox
    call_tool: Callable[[str, JsonObject], Awaitable[ToolResult]]


# Whose tools run here, and whose tool call a run that begins here is.
CALLING: ContextVar[RunContext | None] = ContextVar("rxworker_calling", default=None)
INSIDE: ContextVar[RunContext | None] = ContextVar("rxworker_inside", default=None)

ResponseOperator: TypeAlias = Callable[[Observable[ResponseEvent]], Observable[ResponseEvent]]


class RunContext(Struct, frozen=True, eq=False):
    """What stays the same for a run.

    Attributes:
        model: Who answers.
        tools: What it may call.
        hooks: Who is asked at the points of the loop.
        timeline: Sees the events of each response.
        operators: Each response passes through them, the first listed first.
        options: Settings of each request.
        output: The type of the answer, where one was asked for.
        limits: How far the run may go.
        budgets: What it, and each run around it, shares with other runs.
        parallel: How many tools run at once.
        retry: When a response that failed in the middle is asked for again.
        scheduler: Whose time it is.
        journal: Where what happens is written down.
        workspace: The folder that hooks work in.
        parents: The runs that this one is inside of: the one that it is a tool call of, and so on outwards.
        variables: Shared by the hooks and tools of the run, from its first turn to its end.
        called: The names of the tools that the model has called, each once, those from before a pause included.
        mailbox: What was sent to it while it is on.
        pause_request: Whether the application asked for a pause.
        tasks: What is under way and has to be waited for before the run can end.
    """

    model: Model
    tools: Toolbox
    hooks: Hooks
    timeline: Timeline
    operators: Sequence[ResponseOperator]
    options: Options
    output: Output[Any] | None
    limits: Limits
    budgets: Sequence[Budget]
    parallel: int
    retry: Retry
    scheduler: abc.SchedulerBase
    journal: Journal
    workspace: Path
    parents: tuple[RunContext, ...]
    variables: dict[str, object] = {}
    called: dict[str, None] = {}
    mailbox: Mailbox = field(default_factory=Mailbox)
    pause_request: PauseRequest = field(default_factory=PauseRequest)
    tasks: set[asyncio.Task[None]] = set()

    @property
    def line(self) -> tuple[RunContext, ...]:
        """This run, the run that it is inside of, and so on outwards."""
        return (self, *self.parents)

    def hook_input(self, variables: dict[str, object]) -> HookInput:
        """What a hook is given now. What it says is checked, and goes into the records."""
        journal = self.journal
        state = journal.state
        return HookInput(
            conversation=state.conversation,
            emit=checked(journal.emit, lambda: journal.hub.ended),
            variables=variables,
            run=journal.run,
            turn=state.turns,
            workspace=self.workspace,
            toolbox=self.tools,
            call_tool=partial(self._call_tool, variables),
        )

    @property
    def since(self) -> int:
        """How many messages there were when the run began, its input among them."""
        first = self.journal.first
        return len(first.conversation.messages) if isinstance(first, RunStart | RunResume) else 0

    async def _call_tool(
        self, variables: dict[str, object], name: str, args: JsonObject
    ) -> ToolResult:
        """Run a tool for a hook. It is no call of the model's, and leaves no events of one."""
        call = ToolCall(f"hook_{uuid.uuid4().hex[:12]}", name, args)
        scope = f"{self.journal.run}/{call.id}"
        return await run_call(self.tools, call, scope=scope, variables=variables)


class Waiting(Struct, frozen=True):
    """A tool call that is to run, unless the hooks are against it.

    Attributes:
        place: Its index among the calls of its response.
        call: The call.
        spared: The hooks that are not asked about it again; see `HookContext.spared`.
        is_approved: Whether a person has approved it as it stands, so that its tool needs no other approval.
    """

    place: int
    call: ToolCall
    spared: frozenset[tuple[str, int]] = frozenset()
    is_approved: bool = False


class TurnScope(Struct, eq=False):
    """What the stages of one turn hand on to each other. It ends with the turn.

    Attributes:
        variables: Those of the run: each turn hands them on to the next.
        request: What the hooks left of the request.
        is_resumed: Whether the turn goes on where a paused run stopped, without a request.
        resumed: The calls that wait since then.
        answered: Calls to which a person has given the result, which ``after_tool_call`` hooks have not seen yet.
        refused: Results of calls that are not to be run, by the places of the calls.
        spared: The hooks that are not asked again at the end of the turn; see `HookContext.spared`.
        key: What the idempotency keys of those begin with: that of the turn that was paused.
        early: The calls that started before the response had ended.
        called: Whether tools ran, so that the model must hear their results.
        paused: Whether a hook paused the run.
    """

    variables: dict[str, object] = {}
    request: Request | None = None
    is_resumed: bool = False
    resumed: tuple[Waiting, ...] = ()
    answered: tuple[tuple[Waiting, ToolResult], ...] = ()
    refused: dict[int, ToolResult] = {}
    spared: frozenset[tuple[str, int]] = frozenset()
    key: str = ""
    early: EarlyCalls | None = None
    called: bool = False
    paused: bool = False


def before_request(context: RunContext, state: RunState, emit: Emit) -> None:
    """Whether another request may go out, as far as the limits say; `admit` asks the budgets.

    Raises:
        LimitExceededError: The run has had all it may.
    """
    limits = context.limits
    if limits.max_turns is not None and state.turns >= limits.max_turns:
        raise _reached("max_turns", limits.max_turns, emit)
    _within(limits, state, emit)
    for run in context.parents:
        _within(run.limits, run.journal.state, emit)
    if limits.max_depth is not None and len(context.parents) > limits.max_depth:
        raise _reached("max_depth", limits.max_depth, emit)


async def admit(context: RunContext, emit: Emit) -> None:
    """Whether the budgets let another request go out. Waits while one is held.

    Raises:
        LimitExceededError: One is used up.
    """
    report(context)
    for budget in context.budgets:
        found = await budget.admit()
        if found is not None:
            raise _reached(*found, emit)


def report(context: RunContext) -> None:
    """Tell the budgets, its own and those of the runs around it, what the run itself has taken."""
    for budget in context.budgets:
        budget.report(context.journal.run, context.journal.state.own_usage)


def _within(limits: Limits, state: RunState, emit: Emit) -> None:
    """Whether a run that has taken so much, with the runs inside it, may take more."""
    if limits.max_tokens is not None and state.usage.total_tokens >= limits.max_tokens:
        raise _reached("max_tokens", limits.max_tokens, emit)
    if limits.max_cost is not None and limits.prices is not None:
        cost = limits.prices.cost(state.usage)
        if cost > 0 and cost >= limits.max_cost:
            raise _reached("max_cost", limits.max_cost, emit)


def before_calls(context: RunContext, state: RunState, more: int, emit: Emit) -> None:
    """Whether so many more tools may run.

    Raises:
        LimitExceededError: They may not.
    """
    _may_call(context.limits, state, more, emit)
    for run in context.parents:
        _may_call(run.limits, run.journal.state, more, emit)


def _may_call(limits: Limits, state: RunState, more: int, emit: Emit) -> None:
    most = limits.max_tool_calls
    if most is not None and state.all_tool_calls + more > most:
        raise _reached("max_tool_calls", most, emit)


def after_calls(context: RunContext, emit: Emit) -> None:
    """Whether the run gets anywhere.

    Raises:
        LimitExceededError: The same calls have come to the same results too often in a row.
    """
    most = context.limits.max_repeats
    if most is not None and context.journal.state.repeats >= most:
        raise _reached("max_repeats", most, emit)


def after_answer(context: RunContext, emit: Emit) -> None:
    """Whether hooks may send the answer back once more; the verdict of now is already among the records.

    Raises:
        LimitExceededError: They have done so too often.
    """
    most = context.limits.max_continuations
    if most is not None and context.journal.state.continuations > most:
        raise _reached("max_continuations", most, emit)


def _reached(limit: str, value: float, emit: Emit) -> LimitExceededError:
    emit(LimitReached(limit, value))
    return LimitExceededError(limit, value)
