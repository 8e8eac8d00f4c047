"""The state of a run, and how a response moves within it. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import RunPause
from rxworker.messages import (
    Conversation,
    JsonObject,
    Message,
    ResultContent,
    StopReason,
    ToolCall,
    ToolResult,
    Usage,
    repair,
)
from rxworker.timeline.inner import NOTHING_INSIDE, InnerUsage
from rxworker.timeline.message import COMPLETED, STARTED, ResponseState, message_of

RunStatus: TypeAlias = Literal["new", "running", "paused", "finished", "aborted"]
Round: TypeAlias = tuple[list[tuple[str, JsonObject | str]], list[tuple[ResultContent, bool]]]
"""The names and arguments of calls, and the contents of their results and whether they are errors."""


class RunState(Struct, frozen=True):
    """A run so far. A value: a step makes another.

    Attributes:
        status: Where the run stands.
        conversation: Everything said, as far as it cannot change any more.
        response: The response of the last attempt, as far as it has come; ``None`` before the first attempt, after a
            retracted one, and after the turn.
        provider: Who is asked.
        turns: How many turns have started.
        attempts: How many requests went out, over all turns.
        tool_calls: How many tools were started.
        pending: The tool calls of the last response that have no result yet, in order.
        started: The ids of the pending calls that are running.
        results: What tools came to, as far as it is not in the conversation yet, in the order of completion.
        reason: Why the run was aborted, which hook paused it, or which limit it reached.
        cause: What sort of abort it was.
        stop_reason: Why the last response that completed ended.
        continuations: How often hooks have sent an answer back.
        repeats: How many turns in a row the same calls have come to the same results, the last one included.
        round: What the last turn's calls asked, and what their results said.
        pause: What the run waits for, while it is paused.
        seq: The number of the last record.
        path: Whose records are folded: those of runs inside the run have a longer path.
        spent: The tokens of the responses that are over.
        inner: The tokens of the runs inside this one.
        base: The conversation that the last request carried, before its response, which a retracted attempt goes back to; before the
            first request that from before the run.
        is_closed: Whether the response is in the conversation.
    """

    status: RunStatus = "new"
    conversation: Conversation = Conversation()
    response: ResponseState | None = None
    provider: str = ""
    turns: int = 0
    attempts: int = 0
    tool_calls: int = 0
    pending: tuple[ToolCall, ...] = ()
    started: tuple[str, ...] = ()
    results: tuple[ToolResult, ...] = ()
    reason: str = ""
    cause: str = ""
    stop_reason: StopReason | None = None
    continuations: int = 0
    repeats: int = 0
    round: Round | None = None
    pause: RunPause | None = None
    seq: int = 0
    path: tuple[str, ...] = ()
    spent: Usage = Usage()
    inner: InnerUsage = NOTHING_INSIDE
    base: Conversation = Conversation()
    is_closed: bool = False

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
        return self.spent + usage

    @property
    def all_tool_calls(self) -> int:
        """How many tools were started, with those of the runs inside."""
        return self.tool_calls + self.inner.tool_calls

    @property
    def is_over(self) -> bool:
        """Whether the run finished or was aborted."""
        return self.status in ("finished", "aborted")


def received(state: RunState, response: ResponseState) -> RunState:
    """The run with its response a step further."""
    if state.response is None:
        return replace(state, response=response, base=state.conversation, is_closed=False)
    if state.is_closed and response.status is STARTED:
        # The response begins anew although it was complete: what it said is taken back.
        return replace(
            state, response=response, conversation=state.base, is_closed=False, pending=()
        )
    if response.status is not COMPLETED:
        return replace(state, response=response)
    return _close(state, response, response.stop_reason)


def close(state: RunState) -> RunState:
    """The response enters the conversation, unless it has."""
    response = state.response
    if response is None or state.is_closed:
        return state
    return _close(state, response, state.stop_reason)


def _close(state: RunState, response: ResponseState, stop_reason: StopReason | None) -> RunState:
    message = None if state.is_closed else message_of(response, state.provider)
    if message is None:
        return replace(state, response=response, stop_reason=stop_reason, is_closed=True)
    conversation, pending, results = state.conversation.add(message), state.pending, state.results
    calls, stop = message.tool_calls, response.stop_reason
    if response.status is COMPLETED and stop is not None and stop.runs_tools:
        pending = _unanswered(calls, results) if results else calls
    else:
        if calls:
            # Of some there may be a word already. The others will not run; the model is told so.
            conversation = repair(conversation.add(*_results_of(calls, results)))
        results = ()
    return replace(
        state,
        response=response,
        stop_reason=stop_reason,
        conversation=conversation,
        is_closed=True,
        pending=pending,
        results=results,
    )


def _unanswered(
    calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]
) -> tuple[ToolCall, ...]:
    done = {result.tool_use_id for result in results}
    return tuple([call for call in calls if call.id not in done])


def _results_of(
    calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]
) -> tuple[Message, ...]:
    ids = {call.id for call in calls}
    told = tuple(result for result in results if result.tool_use_id in ids)
    return (Message("user", told),) if told else ()


def settle(state: RunState) -> RunState:
    """Nothing more comes of the response: it is in the conversation, and its tokens are counted."""
    if state.response is None:
        return state
    if not state.is_closed:
        state = close(state)
    return replace(state, response=None, is_closed=False, spent=state.own_usage)


__all__ = ["Round", "RunState", "RunStatus", "close", "received", "settle"]
