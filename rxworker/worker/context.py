"""What the stages of a run share."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from msgspec import Struct, field
from reactivex import Observable, abc

from rxworker.events import (
    ConversationReplace,
    HookMessage,
    MessageAdd,
    ResponseEvent,
    RunResume,
    RunStart,
)
from rxworker.hooks import Hooks
from rxworker.messages import Conversation, JsonObject, ToolCall, ToolResult
from rxworker.providers import Options, Request
from rxworker.timeline import Timeline
from rxworker.tools import EarlyCalls, Toolbox, run_call
from rxworker.transport import Model, Retry
from rxworker.worker.budget import Budget
from rxworker.worker.checks import checked
from rxworker.worker.inbox import Inbox
from rxworker.worker.journal import Journal
from rxworker.worker.limits import Limits
from rxworker.worker.output import Output
from rxworker.worker.pausing import Pausing


class Situation(TypedDict):
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
        around: The runs that this one is inside of: the one that it is a tool call of, and so on outwards.
        variables: Shared by the hooks and tools of the run, from its first turn to its end.
        called: The names of the tools that the model has called, each once, those from before a pause included.
        inbox: What was sent to it while it is on.
        pausing: Whether the application asked for a pause.
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
    around: tuple[RunContext, ...]
    variables: dict[str, object] = {}
    called: dict[str, None] = {}
    inbox: Inbox = field(default_factory=Inbox)
    pausing: Pausing = field(default_factory=Pausing)
    tasks: set[asyncio.Task[None]] = set()

    @property
    def line(self) -> tuple[RunContext, ...]:
        """This run, the run that it is inside of, and so on outwards."""
        return (self, *self.around)

    def situation(self, variables: dict[str, object]) -> Situation:
        """What a hook is given now. What it says is checked, and goes into the records."""
        journal = self.journal
        state = journal.state
        return Situation(
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


__all__ = ["CALLING", "INSIDE", "ResponseOperator", "RunContext", "TurnScope", "Waiting"]
