"""Turn events: what a worker does between and around the responses."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from rxworker.messages.content import ToolCall, ToolResult
from rxworker.messages.json import Json, JsonObject
from rxworker.messages.message import Conversation, Message
from rxworker.messages.usage import Usage


class RunStart(Struct, frozen=True, tag="run_start", omit_defaults=True):
    """A run begins.

    Attributes:
        conversation: Everything said before, with the input of this run at its end.
        added: How many of the messages, from the end, are that input.
    """

    conversation: Conversation
    added: int = 0


class TurnStart(Struct, frozen=True, tag="turn_start", gc=False):
    """A turn begins: one request, and the tools that its response calls."""


class TurnStop(Struct, frozen=True, tag="turn_stop", gc=False):
    """A turn is over; another may follow."""


class AttemptStart(Struct, frozen=True, tag="attempt_start", omit_defaults=True, gc=False):
    """A request goes out.

    Attributes:
        provider: Who is asked, as messages carry it.
        model: Which model is asked.
    """

    provider: str = ""
    model: str = ""


class AttemptRetract(Struct, frozen=True, tag="attempt_retract"):
    """What this attempt said is taken back; another attempt follows.

    Attributes:
        reason: For people.
        delay: Seconds until the next attempt.
    """

    reason: str
    delay: float = 0.0


class ToolStart(Struct, frozen=True, tag="tool_start", gc=False):
    """A tool starts to run.

    Attributes:
        call: What it was called with, after the hooks.
    """

    call: ToolCall


class ToolProgress(Struct, frozen=True, tag="tool_progress"):
    """A tool tells how far it is.

    Attributes:
        call_id: Which call.
        progress: What it tells.
    """

    call_id: str
    progress: Json


class ToolStop(Struct, frozen=True, tag="tool_stop", gc=False):
    """A tool has run, was skipped, or was stopped.

    Attributes:
        result: What the model will read, after the hooks.
        seconds: How long it ran.
    """

    result: ToolResult
    seconds: float = 0.0


class MessageAdd(Struct, frozen=True, tag="message_add", gc=False):
    """The conversation grows by something that is no response: tool results, or what a hook adds.

    Attributes:
        messages: What is added.
        source: Who adds it: ``tools``, or a hook's name.
    """

    messages: tuple[Message, ...]
    source: str


class ConversationReplace(Struct, frozen=True, tag="conversation_replace"):
    """The conversation that is kept becomes another one: a hook has rewritten it, or a request was held back and takes its input along.

    Attributes:
        conversation: Everything said so far, as it is from here on.
        source: The name of the hook.
    """

    conversation: Conversation
    source: str


class HookMessage(Struct, frozen=True, tag="hook_message", omit_defaults=True):
    """A hook tells the watchers something. The model does not hear it.

    Attributes:
        hook: The hook's name.
        level: ``message``, a ``system`` notice, or ``debug`` data.
        content: For people.
        data: With ``debug``.
    """

    hook: str
    level: Literal["message", "system", "debug"]
    content: str
    data: JsonObject | None = None


class HookVerdict(Struct, frozen=True, tag="hook_verdict", omit_defaults=True):
    """A hook decided something other than to go on.

    Attributes:
        hook: The hook's name.
        point: Where it was asked.
        verdict: Its name, for example ``Skip``.
        reason: For people.
        call_id: Which tool call, at the tool points.
    """

    hook: str
    point: str
    verdict: str
    reason: str = ""
    call_id: str | None = None


class LimitReached(Struct, frozen=True, tag="limit_reached"):
    """A limit of the run was reached; the run ends.

    Attributes:
        limit: Its name.
        value: What it was set to.
    """

    limit: str
    value: float


class WatcherDetach(Struct, frozen=True, tag="watcher_detach"):
    """A watcher raised and was detached. The run and the other watchers go on.

    Attributes:
        watcher: Its name.
        error: What it raised.
    """

    watcher: str
    error: str


class Gap(Struct, frozen=True, tag="gap"):
    """Records that this watcher was not given, because it was too slow for its delivery. The others have them.

    Attributes:
        first: The number of the first that is missing.
        last: The number of the last that is missing.
    """

    first: int
    last: int


class RunPause(Struct, frozen=True, tag="run_pause", omit_defaults=True):
    """The run waits for somebody; ``worker.resume`` goes on.

    Attributes:
        hook: The name of the hook that asked for it; ``pause`` where the application did, by ``run.pause()``.
        pending: The tool calls that wait to be run, in order, with their exact arguments.
        paused_at: The ``id`` of the call that the hook paused at; the hooks have let through those before it.
            ``None`` at the end of a turn, and where the application asked: nothing is let through then.
        reason: For people.
        refused: Results of calls that hooks have skipped.
        let_through: How many of the pending calls, from the first, hooks have let through: the paused one stands behind them.
        key: What the idempotency keys of the pending calls begin with.
    """

    hook: str
    pending: tuple[ToolCall, ...] = ()
    paused_at: str | None = None
    reason: str = ""
    refused: tuple[ToolResult, ...] = ()
    let_through: int = 0
    key: str = ""


class RunResume(Struct, frozen=True, tag="run_resume", omit_defaults=True):
    """A paused run goes on.

    Attributes:
        conversation: Everything said so far.
        pending: The tool calls to run first.
        refused: Results of calls that are not run.
        usage: The tokens of the run so far.
        turns: Its turns so far.
        tool_calls: Its tool calls so far.
        continuations: How often hooks have sent an answer back so far.
        resumes: The id of the run that was paused.
    """

    conversation: Conversation
    pending: tuple[ToolCall, ...] = ()
    refused: tuple[ToolResult, ...] = ()
    usage: Usage = Usage()
    turns: int = 0
    tool_calls: int = 0
    continuations: int = 0
    resumes: str = ""


class RunStop(Struct, frozen=True, tag="run_stop"):
    """The run finished."""


class RunAbort(Struct, frozen=True, tag="run_abort"):
    """The run ended without a result.

    Attributes:
        cause: ``cancel``, ``error``, ``abort`` (by a hook) or ``limit``.
        reason: For people.
    """

    cause: Literal["cancel", "error", "abort", "limit"]
    reason: str


TurnEvent: TypeAlias = (
    RunStart
    | TurnStart
    | TurnStop
    | AttemptStart
    | AttemptRetract
    | ToolStart
    | ToolProgress
    | ToolStop
    | MessageAdd
    | ConversationReplace
    | HookMessage
    | HookVerdict
    | LimitReached
    | WatcherDetach
    | Gap
    | RunPause
    | RunResume
    | RunStop
    | RunAbort
)

TURN_EVENTS: frozenset[type[object]] = frozenset(get_args(TurnEvent))
"""The types of these."""

__all__ = [
    "AttemptRetract",
    "AttemptStart",
    "ConversationReplace",
    "Gap",
    "HookMessage",
    "HookVerdict",
    "LimitReached",
    "MessageAdd",
    "RunAbort",
    "RunPause",
    "RunResume",
    "RunStart",
    "RunStop",
    "ToolProgress",
    "ToolStart",
    "ToolStop",
    "TURN_EVENTS",
    "TurnEvent",
    "TurnStart",
    "TurnStop",
    "WatcherDetach",
]
