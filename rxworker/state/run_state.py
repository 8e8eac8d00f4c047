"""The state of a run, and how a response moves within it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import starmap
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from rxworker.events import PauseState
from rxworker.events.pause import BACKGROUND, BackgroundCall
from rxworker.messages import Conversation, Json, JsonObject, Message, OutputFormat, StopReason, ToolCall, ToolResult
from rxworker.messages.content import ResultContent
from rxworker.messages.repair import NOT_RUN, repair
from rxworker.messages.usage import Prices, Usage
from rxworker.state.inner import NOTHING_INSIDE, InnerUsage, RunningTool, with_tokens
from rxworker.state.response import COMPLETED, STARTED, ResponseState, message_of

RunStatus: TypeAlias = Literal["new", "running", "paused", "finished", "aborted"]
"""The status of a run."""
CallPhase: TypeAlias = Literal["waiting", "running", "ended"]
Round: TypeAlias = tuple[list[tuple[str, JsonObject | str]], list[tuple[ResultContent, bool]]]
"""The names and arguments of calls, and the contents of their results and whether they are errors."""

TOOL_BOUNDS = (*(0.01, 0.02, 0.05, 0.1, 0.2, 0.5), *(1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0))
"""Seconds, by which the durations of tools are counted."""


class CallState(Struct, frozen=True):
    """A tool call of the last response.

    Attributes:
        place: Its index among the calls of the response. Two calls may have one id; they differ in their places.
        call: The call, with the arguments that run once it has started.
        phase: Whether its tool has started, and has ended.
        result: The result for the model. A call that has ended has none yet where ``after_tool_call`` hooks receive it.
    """

    place: int
    call: ToolCall
    phase: CallPhase = "waiting"
    result: ToolResult | None = None


class RunState(Struct, frozen=True):
    """A run so far. A value: a step makes another.

    Attributes:
        status: The status of the run.
        conversation: The conversation, as far as it cannot change any more.
        response: The response of the last attempt, as far as it has come; ``None`` before the first attempt, after a
            retracted one, and after the turn.
        provider: The name of the provider.
        service: The host that received the last request; empty where it is not known.
        model: The name of the model of the last request.
        own_tools: The names of the tools that the worker ran itself when the last request went out; ``None`` where it
            is not recorded.
        turns: How many turns have started.
        attempts: How many requests went out, over all turns.
        tool_calls: How many tools the run itself has started; see `all_tool_calls`.
        tool_errors: How many tools have failed, those of the runs inside included.
        tool_seconds: How long the tools took that have ended, together; those of the runs inside included.
        tool_durations: How many of them took up to each of `TOOL_BOUNDS`, and at the end how many took longer, without
            zeros at the end.
        running_tools: The tools that have started and have not ended, those of the runs inside included.
        calls: The tool calls of the last response, as far as their results are not in the conversation yet, in order.
        reason: Why the run was aborted, which hook paused it, or which limit it reached.
        cause: The kind of the abort.
        stop_reason: Why the last response that completed ended.
        continuations: How often hooks have sent an answer back.
        repeats: How often in a row the same calls have had the same results, the last time included; those of several
            turns in turn are a cycle, which counts as one.
        rounds: The last different rounds of calls and their results, the newest first.
        stale: How many rounds in a row were among these.
        cycle: How many rounds back the farthest of those was.
        pause: The pause, while the run is paused.
        seq: The number of the last record.
        path: The path of the records that are folded; those of nested runs have a longer one.
        spent: The tokens of the responses that are over.
        spent_by_model: The same by model.
        prices: The prices that requests have recorded, by the names of the models; ``None`` if they are not known.
            Others have those of the table of models.
        inner: The tokens of the runs inside this one.
        base: The conversation that the last request carried, before its response, which a retracted attempt goes back
            to; before the first request that from before the run.
        is_closed: Whether the response is in the conversation.
        request_tokens: The tokens of the last request and its response, as the provider has counted them; ``None``
            before the first, and after messages in it were replaced. 0 if the next count is not that of the
            conversation.
        traceparent: The trace context of the caller of the run; empty without one.
        shared_state: The state that tools and hooks share with user interfaces; ``None`` if there is none.
        output_format: The form of the answer, if a type was requested.
        labels: The labels of the run, as in `rxworker.events.RunStart`.
        background: The calls in the background that have no result yet, in the order in which they went there.
        delivered: The ids of those that have their results.
        commands: The highest number of a command that it has taken.
    """

    status: RunStatus = "new"
    conversation: Conversation = Conversation()
    response: ResponseState | None = None
    provider: str = ""
    service: str = ""
    model: str = ""
    own_tools: tuple[str, ...] | None = None
    turns: int = 0
    attempts: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    tool_seconds: float = 0.0
    tool_durations: tuple[int, ...] = ()
    running_tools: tuple[RunningTool, ...] = ()
    calls: tuple[CallState, ...] = ()
    reason: str = ""
    cause: str = ""
    stop_reason: StopReason | None = None
    continuations: int = 0
    repeats: int = 0
    rounds: tuple[Round, ...] = ()
    stale: int = 0
    cycle: int = 1
    pause: PauseState | None = None
    seq: int = 0
    path: tuple[str, ...] = ()
    spent: Usage = Usage()
    spent_by_model: dict[str, Usage] = field(default_factory=dict[str, Usage])
    prices: dict[str, Prices | None] = field(default_factory=dict[str, Prices | None])
    inner: InnerUsage = NOTHING_INSIDE
    base: Conversation = Conversation()
    is_closed: bool = False
    request_tokens: int | None = None
    traceparent: str = ""
    shared_state: Json = None
    output_format: OutputFormat | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    background: tuple[BackgroundCall, ...] = ()
    delivered: tuple[str, ...] = ()
    commands: int = 0

    @property
    def waiting(self) -> PauseState | None:
        """What needs a decision: that of the pause; while the run is running, what waits in its background."""
        several = tuple([each for each in self.background if each.waits])
        return self.pause or (PauseState(BACKGROUND, (), (), background=several) if several else None)

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The tool calls of the last response that have no result yet, in order.

        None before the response is complete.
        """
        if self.response is not None and not self.is_closed:
            return ()
        return tuple([each.call for each in self.calls if each.result is None])

    @property
    def started(self) -> tuple[str, ...]:
        """The ids of the calls that are running."""
        return tuple([each.call.id for each in self.calls if each.phase == "running"])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results that are not in the conversation yet, in the order of the calls."""
        return tuple([each.result for each in self.calls if each.result is not None])

    @property
    def usage(self) -> Usage:
        """The tokens of all responses, with the one that is being received, and of the runs inside."""
        own, inner = self.own_usage, self.inner
        return own if inner is NOTHING_INSIDE else own + inner.usage

    @property
    def own_usage(self) -> Usage:
        """The tokens of all responses of this run itself, without those of the runs inside."""
        response = self.response
        if response is None:
            return self.spent
        usage = response.usage or Usage()
        if response.status is not COMPLETED and (response.usage or response.status):
            usage = replace(usage, is_partial=True)
        if response.retracted is not None:
            usage = response.retracted + usage
        return self.spent + usage

    @property
    def usage_by_model(self) -> dict[str, Usage]:
        """The tokens by the names of the models, with those of the runs inside."""
        by_model, inner = self.own_by_model, self.inner
        for model, usage in inner.by_model.items():
            by_model = with_tokens(by_model, model, usage)
        for request in inner.open.values():
            if request.tokens is not None:
                by_model = with_tokens(by_model, request.model, request.tokens)
        return by_model

    @property
    def own_by_model(self) -> dict[str, Usage]:
        """The tokens by model of this run itself."""
        response = self.response
        by_model = self.spent_by_model
        for usage in (None, None) if response is None else (response.retracted, response.usage):
            if usage is not None:
                by_model = with_tokens(by_model, self.model, usage)
        return by_model

    @property
    def all_tool_calls(self) -> int:
        """How many tools have started, those of the runs inside included."""
        return self.tool_calls + self.inner.tool_calls

    @property
    def is_over(self) -> bool:
        """Whether the run finished or was aborted."""
        return self.status in ("finished", "aborted")


def with_duration(counts: tuple[int, ...], seconds: float) -> tuple[int, ...]:
    """Count the duration of a tool.

    >>> with_duration((), 0.04), with_duration((0, 0, 1), 0.01)
    ((0, 0, 1), (1, 0, 1))
    """
    at = bisect_left(TOOL_BOUNDS, seconds)
    counts += (0,) * (at + 1 - len(counts))
    return (*counts[:at], counts[at] + 1, *counts[at + 1 :])


def received(state: RunState, response: ResponseState) -> RunState:
    """The run with its response a step further."""
    if state.response is None:
        return replace(state, response=response, base=state.conversation, is_closed=False)
    if state.is_closed and response.status is STARTED:
        # The response restarts although it was complete: its text is retracted.
        return replace(state, response=response, conversation=state.base, is_closed=False, calls=())
    if response.status is not COMPLETED:
        return replace(state, response=response)
    return _close(state, response, response.stop_reason)


def close(state: RunState, reason: str = NOT_RUN) -> RunState:
    """The response enters the conversation, unless it has.

    Args:
        state: The run.
        reason: Why the calls of a response that was cut were not run, for the model.
    """
    response = state.response
    if response is None or state.is_closed:
        return state
    return _close(state, response, state.stop_reason, reason)


def _close(state: RunState, response: ResponseState, stop_reason: StopReason | None, reason: str = NOT_RUN) -> RunState:
    message = None if state.is_closed else message_of(response, state.provider, state.service)
    if message is None:
        return replace(state, response=response, stop_reason=stop_reason, is_closed=True)
    conversation, known = state.conversation.add(message), state.calls
    made, stop = message.tool_calls, response.stop_reason
    calls: tuple[CallState, ...] = ()
    if response.status is COMPLETED and (stop is None or stop.runs_tools):
        by_id: dict[str, list[int]] = {}
        placed = enumerate(made)
        calls = tuple([_known(*each, known, by_id) for each in placed] if known else starmap(CallState, placed))
    else:
        # Some may have a result already. The others will not run, and get a result that states this.
        conversation = repair(conversation.add(*_results_of(made, known)), reason)
    return replace(
        state, response=response, stop_reason=stop_reason, conversation=conversation, is_closed=True, calls=calls
    )


def _known(place: int, call: ToolCall, known: Sequence[CallState], by_id: dict[str, list[int]]) -> CallState:
    """A call of a response that is complete; it may have started before that."""
    at = find_call(known, place, call.id, by_id)
    return CallState(place, call) if at is None else replace(known[at], place=place)


def find_call(
    calls: Sequence[CallState], place: int, call_id: str, by_id: dict[str, list[int]] | None = None
) -> int | None:
    """The index of the call of this place and id.

    Of records without places, that of the first of this id, without a result if there is one.

    Args:
        calls: The calls.
        place: The place of the call.
        call_id: Its id.
        by_id: The indexes of the calls by their ids, which is filled when it is first needed; the caller keeps it while
            it looks for several.

    >>> find_call((CallState(0, ToolCall("x", "look", {})), CallState(1, ToolCall("x", "look", {}))), 1, "x")
    1
    """
    by_id = {} if by_id is None else by_id
    if not by_id:
        for at, each in enumerate(calls):
            by_id.setdefault(each.call.id, []).append(at)
    found: int | None = None
    for at in by_id.get(call_id, ()):
        each = calls[at]
        if each.place == place:
            return at
        if found is None or (each.result is None and calls[found].result is not None):
            found = at
    return found


def _results_of(calls: Sequence[ToolCall], known: Sequence[CallState]) -> tuple[Message, ...]:
    ids = {call.id for call in calls}
    told = [each.result for each in known if each.result is not None and each.call.id in ids]
    return (Message("user", tuple(told)),) if told else ()


def settle(state: RunState) -> RunState:
    """Nothing more comes of the response: it is in the conversation, and its tokens are counted."""
    if state.response is None:
        return state
    if not state.is_closed:
        state = close(state)
    usage = None if state.response is None else state.response.usage
    is_known = usage is not None and usage.input_tokens is not None and state.request_tokens != 0
    return replace(
        state,
        request_tokens=usage.total_tokens if usage is not None and is_known else None,
        response=None,
        is_closed=False,
        spent=state.own_usage,
        spent_by_model=state.own_by_model,
    )
