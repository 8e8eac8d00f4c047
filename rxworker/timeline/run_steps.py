"""What each turn event does to the state of a run. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    ConversationReplace,
    HookVerdict,
    LimitReached,
    MessageAdd,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)
from rxworker.messages import Conversation, Message, ToolCall, ToolResult, repair
from rxworker.timeline.message import ResponseState
from rxworker.timeline.run_state import Round, RunState, close, settle

STARTED_ONLY = "This call was started and did not finish: the run ended before it."


def _run_start(state: RunState, event: RunStart) -> RunState:
    conversation = event.conversation
    before = conversation
    if event.added:
        before = conversation.with_messages(conversation.messages[: -event.added])
    return RunState(status="running", conversation=conversation, path=state.path, base=before)


def _run_resume(state: RunState, event: RunResume) -> RunState:
    return replace(
        settle(state),
        status="running",
        conversation=event.conversation,
        base=event.conversation,
        pending=event.pending,
        started=(),
        pause=None,
        reason="",
        # What the run took before the pause counts.
        spent=event.usage,
        turns=event.turns,
        tool_calls=event.tool_calls,
        continuations=event.continuations,
    )


def _run_pause(state: RunState, event: RunPause) -> RunState:
    return replace(
        close(state), status="paused", reason=event.hook, pending=event.pending, pause=event
    )


def _run_stop(state: RunState, _: RunStop) -> RunState:
    return replace(settle(state), status="finished", pending=(), started=(), results=())


def _run_abort(state: RunState, event: RunAbort) -> RunState:
    state = settle(state)
    unfinished = {
        call.id: ToolResult(call.id, STARTED_ONLY, is_error=True, name=call.name)
        for call in state.pending
        if call.id in state.started
    }
    known = unfinished | {result.tool_use_id: result for result in state.results}
    conversation = state.conversation
    if known:
        conversation = _answered(conversation, Message("user", tuple(known.values())))
    return replace(
        state,
        status="aborted",
        cause=event.cause,
        reason=event.reason,
        conversation=repair(conversation),
        pending=(),
        started=(),
        results=(),
    )


def _answered(conversation: Conversation, answers: Message) -> Conversation:
    """The conversation with these results right behind the calls, before what hooks have added since."""
    messages = conversation.messages
    end = len(messages)
    while end and messages[end - 1].role != "assistant":
        end -= 1
    if not end or end == len(messages):
        return conversation.add(answers)
    return conversation.with_messages((*messages[:end], answers, *messages[end:]))


def _round(conversation: Conversation, results: Iterable[ToolResult]) -> Round:
    """The calls and results of this turn, to be compared with those of the turn before it."""
    calls: Iterable[ToolCall] = ()
    for message in reversed(conversation.messages):
        if calls := message.tool_calls:
            break
    return (
        [(call.name, call.input) for call in calls],
        [(result.content, result.is_error) for result in results],
    )


def _is_same(one: Round, other: Round) -> bool:
    # To Python 1, 1.0 and True are the same; to a tool they are not.
    return one == other and _told(one) == _told(other)


def _told(told: Round) -> bytes:
    """A round as JSON, the same for the same."""
    try:
        return msgspec.json.encode(told, order="sorted")
    except UnicodeEncodeError:  # half a character, which a model may write and UTF-8 cannot say
        return json.dumps(msgspec.to_builtins(told), sort_keys=True).encode()


def _hook_verdict(state: RunState, event: HookVerdict) -> RunState:
    if event.verdict != "ContinueWithMessages":
        return state
    return replace(state, continuations=state.continuations + 1)


def _turn_start(state: RunState, _: TurnStart) -> RunState:
    if state.response is not None:
        state = settle(state)
    return replace(state, status="running", turns=state.turns + 1)


def _turn_stop(state: RunState, _: TurnStop) -> RunState:
    return settle(state)


def _attempt_start(state: RunState, event: AttemptStart) -> RunState:
    if state.response is not None:
        state = settle(state)
    return replace(
        state,
        attempts=state.attempts + 1,
        provider=event.provider or state.provider,
        response=ResponseState(model=event.model or None),
        stop_reason=None,
        base=state.conversation,
    )


def _attempt_retract(state: RunState, _: AttemptRetract) -> RunState:
    return replace(
        state,
        conversation=state.conversation if state.response is None else state.base,
        spent=state.own_usage,
        response=None,
        is_closed=False,
        pending=(),
        started=(),
        results=(),
    )


def _tool_starts(state: RunState, events: Sequence[ToolStart]) -> RunState:
    if state.is_closed and state.results:
        state = _waiting_again(state, [event.call for event in events])
    return replace(
        state,
        tool_calls=state.tool_calls + len(events),
        started=(*state.started, *[event.call.id for event in events]),
    )


def _waiting_again(state: RunState, calls: Iterable[ToolCall]) -> RunState:
    """Those of the calls whose early result was thrown away wait again."""
    for call in calls:
        kept = tuple(r for r in state.results if r.tool_use_id != call.id)
        if len(kept) < len(state.results):
            state = replace(state, results=kept, pending=(*state.pending, call))
    return state


def _tool_stops(state: RunState, events: Sequence[ToolStop]) -> RunState:
    waiting = {call.id for call in state.pending}
    ended: set[str] = set()
    results = [*state.results]
    for event in events:
        call_id = event.result.tool_use_id
        ended.add(call_id)
        if state.is_closed and call_id not in waiting:
            # A call that had started before its response was complete, and is none that runs: it has its answer.
            continue
        waiting.discard(call_id)
        results.append(event.result)
    # Usually there are as many stops as there are calls.
    pending = [call for call in state.pending if call.id in waiting] if waiting else ()
    is_idle = ended.issuperset(state.started)
    started = () if is_idle else [call_id for call_id in state.started if call_id not in ended]
    return replace(state, pending=tuple(pending), started=tuple(started), results=tuple(results))


def _message_add(state: RunState, event: MessageAdd) -> RunState:
    if not state.is_closed:
        state = close(state)
    before = conversation = state.conversation
    results: list[ToolResult] = []
    for message in event.messages:
        answers = message.tool_results
        results += answers
        # Results stand right behind the calls, before what hooks have said in between.
        conversation = (_answered if answers else Conversation.add)(conversation, message)
    if not results:
        return replace(state, conversation=conversation)
    told = {result.tool_use_id for result in results}
    pending = [call for call in state.pending if call.id not in told] if state.pending else ()
    this = _round(before, results)
    return replace(
        state,
        conversation=conversation,
        pending=tuple(pending),
        results=tuple([result for result in state.results if result.tool_use_id not in told]),
        round=this,
        repeats=state.repeats + 1 if state.round and _is_same(this, state.round) else 1,
    )


def _conversation_replace(state: RunState, event: ConversationReplace) -> RunState:
    if not state.is_closed:
        state = close(state)
    # What no request has carried yet stands at the end, before and after.
    behind = len(state.conversation.messages) - len(state.base.messages)
    messages = event.conversation.messages
    base = event.conversation.with_messages(messages[: max(0, len(messages) - behind)])
    return replace(state, conversation=event.conversation, base=base)


def _limit_reached(state: RunState, event: LimitReached) -> RunState:
    return replace(state, reason=event.limit)


# The turn events that are missing here are for watchers, and change nothing.
TURN_STEPS: dict[type[object], Callable[[RunState, Any], RunState]] = {
    RunStart: _run_start,
    RunResume: _run_resume,
    RunPause: _run_pause,
    RunStop: _run_stop,
    RunAbort: _run_abort,
    TurnStart: _turn_start,
    TurnStop: _turn_stop,
    AttemptStart: _attempt_start,
    AttemptRetract: _attempt_retract,
    MessageAdd: _message_add,
    ConversationReplace: _conversation_replace,
    LimitReached: _limit_reached,
    HookVerdict: _hook_verdict,
}

# These come in rows, since tools run in parallel: a step takes several.
TOOL_STEPS: dict[type[object], Callable[[RunState, Any], RunState]] = {
    ToolStart: _tool_starts,
    ToolStop: _tool_stops,
}

__all__ = ["STARTED_ONLY", "TOOL_STEPS", "TURN_STEPS"]
