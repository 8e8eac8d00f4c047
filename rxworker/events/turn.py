"""Turn events: what a worker does between and around the responses; and `Record`, in which watchers receive all events.

Records, and the events and messages of which there are many, are values that hold nothing but values, so that none can
be part of a cycle. The garbage collector does not track them (``gc=False``): reference counts free them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from msgspec import Struct, field
from msgspec.structs import force_setattr

from rxworker.events.block import BlockEvent
from rxworker.events.meta import Meta
from rxworker.events.pause import NO_PAUSE, BackgroundCall, PauseState
from rxworker.messages.content import OutputFormat, ToolCall, ToolResult
from rxworker.messages.json import Json, JsonObject
from rxworker.messages.message import Conversation, Message, Role
from rxworker.messages.usage import Prices, Usage

DISCARDED_EARLY = "This call was started early, and its result was thrown away."
"""The result of a call that was started before its response was complete, and that the response then did not keep.

Views compare it with the text in stored logs: do not change it.
"""


class RunStart(Struct, frozen=True, tag="run_start", omit_defaults=True):
    """A run begins.

    Attributes:
        conversation: The conversation before the run, with the input of this run at its end.
        added: How many of the messages, from the end, are that input.
        tools: A digest of each tool, by its name, where the run is logged. Only a worker that has these tools, with the
            same parameters, can recover it.
        traceparent: The trace context of the caller, as the header of that name of W3C Trace Context; empty without
            one. See ``Worker(tracing=)``.
        output_format: The form of the answer, if a type was requested.
        labels: The labels of the run, such as its tenant, by which panels group it; without what a server notes of its
            conversation.
        worker: The name of the worker.
    """

    conversation: Conversation
    added: int = 0
    tools: dict[str, str] = {}
    traceparent: str = ""
    output_format: OutputFormat | None = None
    labels: dict[str, str] = {}
    worker: str = ""


class TurnStart(Struct, frozen=True, tag="turn_start", gc=False):
    """A turn begins: one request, and the tools that its response calls."""


class TurnStop(Struct, frozen=True, tag="turn_stop", gc=False):
    """A turn has ended; another may follow."""


class AttemptStart(Struct, frozen=True, tag="attempt_start", omit_defaults=True, gc=False):
    """A request goes out.

    Attributes:
        provider: The name of the provider, as in messages.
        model: The name of the model.
        own_tools: The names of the tools that the worker runs itself, when the request goes out; ``None`` where it is
            not recorded. A client may run a call of any other tool only when a `RunPause` with ``client_tool`` as the
            hook has offered it.
        prices: The prices of its tokens, if they are not those of the table of models: those of ``Limits(prices=)``, or
            of the model itself.
        is_unpriced: Whether the prices are not known, though the table of models has some for the name, such as those
            of its vendor for another service.
        service: The host that receives it, as in messages; empty where the model has none.
    """

    provider: str = ""
    model: str = ""
    own_tools: tuple[str, ...] | None = None
    prices: Prices | None = None
    is_unpriced: bool = False
    service: str = ""


class AttemptRetract(Struct, frozen=True, tag="attempt_retract"):
    """The events of this attempt are retracted; another attempt follows.

    Attributes:
        reason: Shown to users; not interpreted.
        delay: Seconds until the next attempt.
    """

    reason: str
    delay: float = 0.0


@final
class ToolStart(Struct, frozen=True, tag="tool_start", omit_defaults=True, gc=False):
    """A tool starts to run.

    Attributes:
        call: The call, after the hooks.
        place: The index of the call among the calls of its response, from 0. A provider may give two calls one id.
    """

    call: ToolCall
    place: int = 0


class ToolProgress(Struct, frozen=True, tag="tool_progress", omit_defaults=True):
    """A tool reports its progress.

    Attributes:
        call_id: Which call.
        progress: Its report.
        place: The index of the call among the calls of its response.
    """

    call_id: str
    progress: Json
    place: int = 0


@final
class ToolStop(Struct, frozen=True, tag="tool_stop", omit_defaults=True, gc=False):
    """A tool has run, was skipped, or was stopped. It is emitted as soon as the call ends.

    Attributes:
        result: The result for the model. ``None`` where an ``after_tool_call`` hook may change it: a `ToolOutput`
            follows when the hooks have returned.
        seconds: How long it ran.
        call_id: Which call; by default that of the result.
        place: The index of the call among the calls of its response.
        is_error: Whether the call failed; by default whether the result is an error.
        tool: The name of the tool; by default that of the result.

    >>> ToolStop(ToolResult("call_1", "It failed.", is_error=True)).call_id
    'call_1'
    """

    result: ToolResult | None = None
    seconds: float = 0.0
    call_id: str = ""
    place: int = 0
    is_error: bool = False
    tool: str = ""

    def __post_init__(self) -> None:
        """Fill in the fields of the result."""
        result = self.result
        if result is None:
            return
        if not self.call_id:
            force_setattr(self, "call_id", result.tool_use_id)
            force_setattr(self, "is_error", result.is_error)
        if not self.tool and result.name:
            force_setattr(self, "tool", result.name)


class ToolOutput(Struct, frozen=True, tag="tool_output", omit_defaults=True, gc=False):
    """The result of a call as the ``after_tool_call`` hooks left it.

    It follows a `ToolStop`, in the order of the calls.

    Attributes:
        result: The result for the model.
        place: The index of the call among the calls of its response.
    """

    result: ToolResult
    place: int = 0


class BackgroundStart(Struct, frozen=True, tag="background_start"):
    """A call goes on in the background, while the turn goes on. Its `ToolStop` follows, with a placeholder as result.

    A second one of the same id changes how the call goes on: it waits for a decision, goes on after one, or its result
    is delivered from outside from then on.

    Attributes:
        background: The call.
    """

    background: BackgroundCall


class BackgroundProgress(Struct, frozen=True, tag="background_progress"):
    """A call in the background reports its progress.

    Attributes:
        id: Which call, as in `BackgroundCall`.
        progress: Its report.
    """

    id: str
    progress: Json


class BackgroundStop(Struct, frozen=True, tag="background_stop", omit_defaults=True):
    """The result of a call in the background. Unless the run ends with it, a `MessageAdd` gives it to the model.

    Attributes:
        id: Which call, as in `BackgroundCall`.
        result: The result, as the ``after_tool_call`` hooks left it.
        seconds: How long the call ran; 0 where that is not known.
    """

    id: str
    result: ToolResult
    seconds: float = 0.0


class MessageAdd(Struct, frozen=True, tag="message_add", gc=False):
    """The conversation grows by something other than a response: tool results, or what a hook adds.

    Attributes:
        messages: The added messages.
        source: The source of the messages: ``tools``, ``background`` with the result of a call in the background, or
            a hook's name.
    """

    messages: tuple[Message, ...]
    source: str


class ConversationReplace(Struct, frozen=True, tag="conversation_replace"):
    """The conversation that is kept becomes another one.

    A hook has rewritten it, or a request was held back and takes its input along.

    Attributes:
        conversation: The conversation so far, as it is from here on.
        source: The name of the hook.
    """

    conversation: Conversation
    source: str


class ConversationCompact(Struct, frozen=True, tag="conversation_compact", omit_defaults=True):
    """The next requests carry the beginning of the conversation in a shorter form.

    The conversation that is kept stays whole.

    Attributes:
        replaced: How many of the first messages it stands for; 0 if no summary came, and only its tokens count.
        instead: The messages that are sent in their place.
        by: How it was made, as in `rxworker.worker.Compact`.
        tokens: The tokens of the request that was too long, about.
        model: The name of the model that wrote the summary.
        usage: The tokens of the summary.
    """

    replaced: int = 0
    instead: tuple[Message, ...] = ()
    by: str = ""
    tokens: int = 0
    model: str = ""
    usage: Usage = Usage()


class SharedStateChange(Struct, frozen=True, tag="shared_state_change", omit_defaults=True):
    """The state that tools and hooks share with user interfaces has changed.

    It is one operation of JSON Patch (RFC 6902).

    Attributes:
        op: ``add``, ``replace`` or ``remove``.
        path: The place, as a JSON Pointer; empty for the whole state.
        value: The new value.
    """

    op: Literal["add", "replace", "remove"]
    path: str = ""
    value: Json = None


class HookMessage(Struct, frozen=True, tag="hook_message", omit_defaults=True):
    """A message of a hook to the watchers. The model does not see it.

    Attributes:
        hook: The hook's name.
        level: ``message``, a ``system`` notice, or ``debug`` data.
        content: Shown to users; not interpreted.
        data: With ``debug``.
        role: With ``message``: the role in which it is shown.
    """

    hook: str
    level: Literal["message", "system", "debug"]
    content: str
    data: JsonObject | None = None
    role: Role = "assistant"


class Custom(Struct, frozen=True, tag="custom", omit_defaults=True):
    """An event of the application; see `rxworker.events.CustomEvent`.

    Attributes:
        name: The name of its kind, such as ``acme.score``.
        data: Its fields.
    """

    name: str
    data: JsonObject = {}


class HookVerdict(Struct, frozen=True, tag="hook_verdict", omit_defaults=True):
    """A hook decided something other than to go on.

    Attributes:
        hook: The hook's name.
        point: The hook point.
        verdict: Its name, for example ``Skip``.
        reason: Shown to users; not interpreted.
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
        value: The value that was set.
    """

    limit: str
    value: float


class LoopHold(Struct, frozen=True, tag="loop_hold"):
    """A tool or a hook of the run held the event loop, and all runs with it. Emitted the first time.

    Attributes:
        kind: ``tool`` or ``hook``.
        name: Its name.
        seconds: How long it did not return.
    """

    kind: str
    name: str
    seconds: float


class WatcherDetach(Struct, frozen=True, tag="watcher_detach"):
    """A watcher raised and was detached. The run and the other watchers go on.

    Attributes:
        watcher: Its name.
        error: The exception that it raised.
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


class RunPause(Struct, frozen=True, tag="run_pause"):
    """The run waits for a decision; ``worker.resume`` continues it.

    Attributes:
        pause: What it waits for.
    """

    pause: PauseState


class RunResume(Struct, frozen=True, tag="run_resume", omit_defaults=True):
    """A paused run goes on.

    Attributes:
        conversation: The conversation so far.
        pause: The pause as the decisions have left it: its calls run first, unless a hook prevents it.
        usage: The tokens of the run so far, those of nested runs included.
        turns: Its turns so far.
        tool_calls: How many tools it has started so far, those of nested runs included, as for the next three.
        tool_errors: How many of them have failed.
        tool_seconds: How long they took together.
        tool_durations: How many of them took how long, as in `RunState`.
        usage_by_model: The tokens by the names of the models.
        prices: Their prices so far, by their names, where requests have recorded them; ``None`` if they are not known.
        continuations: How often hooks have sent an answer back so far.
        resumes: The id of the run that was paused.
        traceparent: The trace context of the caller, as in `RunStart`.
        output_format: The form of the answer, as in `RunStart`.
        tools: Digests of the tools, as in `RunStart`.
        own_tools: The names of the tools that the worker runs itself, as in `AttemptStart`.
        labels: The labels of the run, as in `RunStart`.
        worker: The name of the worker.
        background: The calls in the background that have no result yet.
    """

    conversation: Conversation
    pause: PauseState = NO_PAUSE
    usage: Usage = Usage()
    turns: int = 0
    tool_calls: int = 0
    continuations: int = 0
    resumes: str = ""
    traceparent: str = ""
    output_format: OutputFormat | None = None
    tools: dict[str, str] = {}
    own_tools: tuple[str, ...] | None = None
    labels: dict[str, str] = {}
    tool_errors: int = 0
    tool_seconds: float = 0.0
    tool_durations: tuple[int, ...] = ()
    usage_by_model: dict[str, Usage] = {}
    prices: dict[str, Prices | None] = {}
    worker: str = ""
    background: tuple[BackgroundCall, ...] = ()


class RunStop(Struct, frozen=True, tag="run_stop"):
    """The run finished."""


class RunAbort(Struct, frozen=True, tag="run_abort"):
    """The run ended without a result.

    Attributes:
        cause: ``cancel``, ``error``, ``abort`` (by a hook) or ``limit``.
        reason: Shown to users; not interpreted.
    """

    cause: Literal["cancel", "error", "abort", "limit"]
    reason: str


class RunRecover(Struct, frozen=True, tag="run_recover", omit_defaults=True):
    """Another process continues a stored run whose process has ended.

    A response that was cut is retracted after it; one in the background goes on.

    Attributes:
        epoch: The epoch of the new owner.
        owner: The name of the new owner.
        reason: Shown to users; not interpreted.
        progress: The number of the last record that was progress: a complete response, the end of a tool, or a turn. A
            run that is recovered three times at the same number is aborted.
        output_format: The form of the answer, if it was requested again; ``None`` leaves it as it was.
        tools: Digests, as in `RunStart`, of the tools that the process has besides those of the run.
    """

    epoch: int
    owner: str
    reason: str = ""
    progress: int = 0
    output_format: OutputFormat | None = None
    tools: dict[str, str] = {}


class RunRequeue(Struct, frozen=True, tag="run_requeue", omit_defaults=True):
    """A stored run that was aborted is put back: it waits for a process, which continues it after this record.

    It is the only record that may follow a `RunAbort`.

    Attributes:
        reason: Shown to users; not interpreted.
        commands: How many commands had been sent to the run. Those that it has not taken are void.
    """

    reason: str = ""
    commands: int = 0


class HandOver(Struct, frozen=True, tag="hand_over"):
    """The process of a stored run is being shut down. It has released the run, so that another process continues it.

    Attributes:
        reason: Shown to users; not interpreted.
    """

    reason: str


class CommandTaken(Struct, frozen=True, tag="command_taken", omit_defaults=True, gc=False):
    """The owner of a stored run has taken a command. It is stored in one transaction with the effect of the command.

    Attributes:
        number: The number of the command.
        kind: Its kind: ``send``, ``deliver``, ``pause``, ``cancel`` or ``decide``; ``ignored`` for one that no run can
            take.
        ignored: Why it has no effect; empty if it has one.
    """

    number: int
    kind: str
    ignored: str = ""


class Fork(Struct, frozen=True, tag="fork", omit_defaults=True):
    """The records before this one were copied from another run, which goes another way from here on.

    Attributes:
        source: The id of that run.
        seq: The number of the last record that was copied.
        labels: The labels of the run, as in `RunStart`: its panels begin with this record.
        worker: The name of the worker.
    """

    source: str
    seq: int
    labels: dict[str, str] = {}
    worker: str = ""


_OfRuns: TypeAlias = (
    RunStart | RunPause | RunResume | RunStop | RunAbort | RunRecover | RunRequeue | HandOver | CommandTaken | Fork
)
_OfTurns: TypeAlias = (
    TurnStart | TurnStop | AttemptStart | AttemptRetract | MessageAdd | ConversationReplace | ConversationCompact
)
_OfTools: TypeAlias = (
    ToolStart | ToolProgress | ToolStop | ToolOutput | BackgroundStart | BackgroundProgress | BackgroundStop
)
_OfWatchers: TypeAlias = (
    SharedStateChange | HookMessage | Custom | HookVerdict | LimitReached | LoopHold | WatcherDetach | Gap
)
TurnEvent: TypeAlias = _OfRuns | _OfTurns | _OfTools | _OfWatchers
"""Any event of a worker."""
ResponseEvent: TypeAlias = Meta | BlockEvent
"""Any event of a response: a meta event or an event of a block. A model emits these."""
Event: TypeAlias = Meta | BlockEvent | TurnEvent
"""Any event."""


class Record(Struct, frozen=True, omit_defaults=True, gc=False):
    """One event of a run, with where and when.

    Attributes:
        seq: Its number within the run, from 1, without gaps. Resuming counts by it.
        run_id: The run's id.
        turn: The turn's number, from 1; 0 before the first.
        attempt: The request's number within the turn, from 1; 0 before the first.
        time: Seconds since the epoch.
        event: The event.
        path: The tool calls that lead to it, for a run inside a run.
        covers: How many records this one stands for, itself among them. More than one where a delivery has merged
            adjacent deltas, or left some out: it stands for ``first`` to ``seq``.
    """

    seq: int
    run_id: str = field(name="run")
    turn: int
    attempt: int
    time: float
    event: Event
    path: tuple[str, ...] = ()
    covers: int = 1

    @property
    def first(self) -> int:
        """The number of the first record that this one stands for."""
        return self.seq - self.covers + 1
